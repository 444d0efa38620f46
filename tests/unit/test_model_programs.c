/* Pipelines, choices and whole programs of the cost model: simulation against closed forms, optima by trying
 * everything. */
#include "model_test.h"

static void two_stages_are_the_closed_form(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 5000; round++) {
        const uint64_t n = unit_random(&random) % 50;
        const double times[] = {pick_time(&random, 8), pick_time(&random, 8)};
        const uint32_t slots = (uint32_t)pick(&random, 4);
        const hal_model_line line = {.stages = 2, .items = n, .time_us = times, .slots = &slots};
        hal_model_stage stages[HAL_MODEL_STAGES];
        double total;
        good(hal_model_line_run(&line, &total, stages));
        exact(hal_model_pipeline_us(n, times[0], times[1], slots), total);
        assert_true(stages[0].done == n && stages[1].done == n && stages[0].queue_peak <= slots);
        exact((double)n * times[0], stages[0].busy_us);
        if (total > 0)
            exact((double)n * times[1] / total, stages[1].busy_fraction);
    }
}

/* Item j leaves stage i no earlier than it has come, the item before has left, and a place is free: in order of items.
 */
static double recurrence(const hal_model_line *line)
{
    static double end[HAL_MODEL_STAGES][64];
    for (uint64_t j = 0; j < line->items; j++)
        for (uint32_t i = 0; i < line->stages; i++) {
            double start = i ? end[i - 1][j] : 0;
            if (j)
                start = fmax(start, end[i][j - 1]);
            if (i + 1 < line->stages && j >= line->slots[i])
                start = fmax(start, end[i + 1][j - line->slots[i]]);
            end[i][j] = start + (line->each_us ? line->each_us[i * line->items + j] : line->time_us[i]);
        }
    return line->items ? end[line->stages - 1][line->items - 1] : 0;
}

static void lines_are_the_recurrence(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    static double each[HAL_MODEL_STAGES * 64];
    for (int round = 0; round < 3000; round++) {
        const uint32_t count = (uint32_t)pick(&random, HAL_MODEL_STAGES);
        const uint64_t items = pick(&random, 60);
        uint32_t slots[HAL_MODEL_STAGES];
        double longest = 0, serial = 0;
        for (uint32_t i = 0; i < count; i++) {
            double sum = 0;
            slots[i] = (uint32_t)pick(&random, 3);
            for (uint64_t j = 0; j < items; j++)
                sum += each[i * items + j] = pick_time(&random, 5);
            longest = fmax(longest, sum);
            serial += sum;
        }
        hal_model_line line = {.stages = count, .items = items, .each_us = each, .slots = slots};
        hal_model_stage stages[HAL_MODEL_STAGES];
        double total, roomier;
        good(hal_model_line_run(&line, &total, stages));
        exact(recurrence(&line), total);
        assert_true(total >= longest && total <= serial);
        for (uint32_t i = 0; i < count; i++) {
            const double all = stages[i].busy_us + stages[i].starved_us + stages[i].blocked_us;
            assert_true(all <= total && stages[i].done == items);
            assert_true(i + 1 < count || stages[i].blocked_us == 0);
            assert_true(i > 0 || stages[i].starved_us == 0);
            if (i + 1 == count)
                exact(total, all); /* the last stage is never drained before the end */
        }
        slots[unit_random(&random) % count]++;
        good(hal_model_line_run(&line, &roomier, stages));
        assert_true(roomier <= total);
    }
}

static void uneven_times_need_a_third_slot(void **state)
{
    (void)state;
    /* Even times never need more than two; a late item does. */
    const double each[] = {1, 1, 1, 1, 1, 1, /* */ 1, 3, 0, 1, 1, 1};
    uint32_t slots = 2;
    hal_model_line line = {.stages = 2, .items = 6, .each_us = each, .slots = &slots};
    hal_model_stage stages[HAL_MODEL_STAGES];
    double two, three;
    good(hal_model_line_run(&line, &two, stages));
    assert_true(stages[0].blocked_us > 0);
    slots = 3;
    good(hal_model_line_run(&line, &three, stages));
    assert_true(three < two);
    slots = 0;
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
    slots = 1;
    line.each_us = NULL;
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
    line.time_us = (const double[]){NAN, 1};
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
    line.time_us = (const double[]){1, NAN};
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
    line.time_us = (const double[]){1, 1};
    line.slots = NULL;
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
    line.slots = &slots;
    line.stages = HAL_MODEL_STAGES + 1;
    assert_int_equal(hal_model_line_run(&line, &two, stages), HAL_ERROR_INVALID_ARGUMENT);
}

static void best_chunks_by_trying_all(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 500; round++) {
        const double bytes = 1e6 * (double)pick(&random, 100), rate = 64e9, compute = (double)pick(&random, 2000),
                     overhead = (double)(unit_random(&random) % 50);
        const uint64_t most = pick(&random, 300), best = hal_model_chunks_best(bytes, rate, compute, overhead, most);
        const double least = hal_model_chunked_us(bytes, rate, compute, overhead, best);
        assert_true(best >= 1 && best <= most);
        for (uint64_t c = 1; c <= most; c++)
            assert_true(hal_model_chunked_us(bytes, rate, compute, overhead, c) >= least * (1 - 1e-12));
    }
    assert_int_equal(hal_model_chunks_best(1, 1, 1, NAN, 5), 0);
    assert_true(isnan(hal_model_chunked_us(1, 1, 1, NAN, 5)) && isnan(hal_model_chunked_us(1, 1, 1, 0, 0)));
    assert_int_equal(hal_model_queue_slots(32, 64, 16), 0);
    assert_int_equal(hal_model_queue_slots(32, 0, 0), 0);
}

static void ranges_by_trying_all(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 3000; round++) {
        hal_model_strategy s[8];
        hal_model_range ranges[8];
        const uint32_t count = (uint32_t)pick(&random, 8);
        uint32_t found;
        for (uint32_t i = 0; i < count; i++)
            s[i] = (hal_model_strategy){(double)(unit_random(&random) % 20), (double)(unit_random(&random) % 8)};
        good(hal_model_ranges(s, count, ranges, &found));
        assert_true(found >= 1 && found <= count && ranges[0].from == 0 && isinf(ranges[found - 1].to));
        for (uint32_t i = 0; i < found; i++) {
            assert_true(ranges[i].from < ranges[i].to && (i == 0 || ranges[i].from == ranges[i - 1].to));
            const double points[] = {ranges[i].from, isinf(ranges[i].to) ? ranges[i].from + 100 : ranges[i].to,
                                     isinf(ranges[i].to) ? ranges[i].from + 1 : (ranges[i].from + ranges[i].to) / 2};
            for (int at = 0; at < 3; at++) {
                const double here = hal_model_strategy_total(s[ranges[i].strategy], points[at]);
                for (uint32_t other = 0; other < count; other++)
                    assert_true(here <= hal_model_strategy_total(s[other], points[at]) + 1e-9);
            }
        }
    }
    const hal_model_strategy a = {10, 2}, b = {20, 1};
    exact(10, hal_model_break_even(a, b));
    assert_true(isinf(hal_model_break_even(b, (hal_model_strategy){30, 1})));
    exact(0, hal_model_break_even(b, (hal_model_strategy){20, 0.5}));
    assert_int_equal(hal_model_best(&a, 1, NAN), 1);
    assert_int_equal(hal_model_best(&a, 1, 3), 0);
    assert_true(isnan(hal_model_amortised(a, 0)));
    assert_true(isnan(hal_model_strategy_total(a, NAN)) && isnan(hal_model_strategy_total(a, -1)));
    assert_true(isnan(hal_model_strategy_total((hal_model_strategy){NAN, 1}, 1)));
}

static void padding(void **state)
{
    (void)state;
    const uint64_t buckets[] = {16, 64}, wrong[] = {64, 64}, rows[] = {1, 16, 17, 64}, above[] = {65},
                   huge[] = {UINT64_MAX, 1};
    uint64_t padded;
    good(hal_model_padded_rows(rows, 4, buckets, 2, &padded));
    assert_int_equal(padded, 16 + 16 + 64 + 64);
    assert_int_equal(hal_model_padded_rows(above, 1, buckets, 2, &padded), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(hal_model_padded_rows(rows, 4, wrong, 2, &padded), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_padded_rows(huge, 2, NULL, 0, &padded), HAL_ERROR_OUT_OF_RANGE);
}

static void mixes_turn_at_the_break_even(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    uint32_t inside = 0;
    for (int round = 0; round < 5000; round++) {
        const double old[] = {pick_time(&random, 20), pick_time(&random, 20)};
        const double other[] = {pick_time(&random, 20), pick_time(&random, 20)};
        const bool choose = round % 2;
        const double dispatch = choose ? pick_time(&random, 3) : 0;
        hal_model_mix mix = {0};
        for (int step = 0; step <= 16; step++) {
            const double p = step / 16.0;
            good(hal_model_mix_costs(p, old, other, choose, dispatch, &mix));
            const double gain = mix.old_us - (choose ? mix.choose_us : mix.new_us);
            assert_true(mix.choose_us <= fmin(mix.old_us, mix.new_us) + dispatch + 1e-9);
            if (fabs(gain) < 1e-9)
                continue;
            assert_true((gain > 0) == (!isnan(mix.break_even) && (p >= mix.break_even) != mix.better_below));
        }
        inside += mix.break_even > 0 && mix.break_even < 1;
    }
    assert_true(inside > 500);
    hal_model_mix mix;
    const double fine[] = {1, 2};
    assert_int_equal(hal_model_mix_costs(1.5, fine, fine, false, 0, &mix), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_mix_costs(NAN, fine, fine, false, 0, &mix), HAL_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < 4; i++) {
        double times[] = {1, 2, 3, 4};
        times[i] = NAN;
        assert_int_equal(hal_model_mix_costs(0.5, times, times + 2, false, 0, &mix), HAL_ERROR_INVALID_ARGUMENT);
    }
}

static void persistent_wins_with_overlap(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 1000; round++) {
        const uint64_t n = pick(&random, 50);
        const double tp = pick_time(&random, 20), ta = pick_time(&random, 20), launch = pick_time(&random, 6);
        hal_model_persistent cost = {0};
        good(hal_model_persistent_costs(n, tp, ta, launch, 0, &cost));
        /* Without a price on tasks nothing is lost, and at most a launch and the shorter stage are won. */
        assert_true(cost.tiled_us <= cost.coarse_us + 1e-9);
        exact(launch + (double)(n - 1) * fmin(tp, ta), cost.coarse_us - cost.tiled_us);
    }
}

/* All ways, by recursion. */
static double longest_to(const hal_model_task *tasks, uint32_t i)
{
    double start = 0;
    for (uint32_t j = 0; j < tasks[i].after_count; j++)
        start = fmax(start, longest_to(tasks, tasks[i].after[j]));
    return start + tasks[i].time_us;
}

static void critical_paths_by_trying_all(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 2000; round++) {
        const uint32_t count = (uint32_t)pick(&random, 12);
        uint32_t after[12][12], place[12], path[12], length;
        hal_model_task tasks[12] = {{0}};
        double longest = 0, total, along = 0;
        for (uint32_t i = 0; i < count; i++)
            place[i] = i;
        for (uint32_t i = count; i > 1; i--) { /* the order of the list is not the order in time */
            const uint32_t other = (uint32_t)(unit_random(&random) % i), swap = place[i - 1];
            place[i - 1] = place[other];
            place[other] = swap;
        }
        for (uint32_t i = 0; i < count; i++) {
            hal_model_task *task = &tasks[place[i]];
            *task = (hal_model_task){pick_time(&random, 9), after[i], 0};
            for (uint32_t j = 0; j < i; j++)
                if (unit_random(&random) % 3 == 0)
                    after[i][task->after_count++] = place[j];
        }
        for (uint32_t i = 0; i < count; i++)
            longest = fmax(longest, longest_to(tasks, i));
        good(hal_model_critical_path(tasks, count, &total, path, &length));
        exact(longest, total);
        for (uint32_t i = 0; i < length; i++) {
            bool linked = i == 0;
            for (uint32_t j = 0; i && j < tasks[path[i]].after_count; j++)
                linked = linked || tasks[path[i]].after[j] == path[i - 1];
            assert_true(linked);
            along += tasks[path[i]].time_us;
        }
        exact(total, along);
        assert_int_equal(tasks[path[0]].after_count, 0);
    }
}

static void critical_path_refuses(void **state)
{
    (void)state;
    static const uint32_t first[] = {0}, second[] = {1}, far[] = {7};
    uint32_t path[2], count;
    double length;
    const hal_model_task circle[] = {{1, second, 1}, {1, first, 1}}, itself[] = {{1, first, 1}},
                         nowhere[] = {{1, far, 1}}, bad[] = {{NAN, NULL, 0}};
    assert_int_equal(hal_model_critical_path(circle, 2, &length, path, &count), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_critical_path(itself, 1, &length, path, &count), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_critical_path(nowhere, 1, &length, path, &count), HAL_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(hal_last_error(), "waits for 7"));
    assert_int_equal(hal_model_critical_path(bad, 1, &length, path, &count), HAL_ERROR_INVALID_ARGUMENT);
    good(hal_model_critical_path(NULL, 0, &length, NULL, &count));
    assert_true(length == 0 && count == 0);
}

static void requests(void **state)
{
    (void)state;
    hal_model_request cost;
    /* Work beside a call hides what is shorter than it: of 10 -> 4 beside 7 only 3 are saved. */
    const hal_model_calls hidden = {5, 10, 4, 7};
    good(hal_model_request_costs(&hidden, 1, 100, &cost));
    exact(15, cost.saved_us);
    exact(0.15, cost.saved_share);
    good(hal_model_request_costs(&(hal_model_calls){5, 6, 4, 7}, 1, 100, &cost)); /* hidden before and after */
    assert_true(cost.calls == 5 && cost.old_us == 0 && cost.saved_us == 0);
    const hal_model_calls many[] = {{UINT64_MAX, 1, 1, 0}, {1, 1, 1, 0}};
    assert_int_equal(hal_model_request_costs(many, 2, 100, &cost), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(hal_model_request_costs(&hidden, 1, 0, &cost), HAL_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        hal_model_calls bad = {1, i == 0 ? NAN : 1, i == 1 ? -1 : 1, i == 2 ? INFINITY : 1};
        assert_int_equal(hal_model_request_costs(&bad, 1, 100, &cost), HAL_ERROR_INVALID_ARGUMENT);
    }
    hal_model_row_split split;
    assert_int_equal(hal_model_row_split_of(1ULL << 40, 1ULL << 40, &split), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(hal_model_row_split_of(1, 0, &split), HAL_ERROR_INVALID_ARGUMENT);
}

static void segments_cover_everything(void **state)
{
    (void)state;
    float values[100];
    for (int i = 0; i < 100; i++)
        values[i] = (float)i; /* exact in any order */
    for (uint64_t segments = 1; segments <= 130; segments++)
        exact(4950, hal_model_segmented_sum(values, 100, segments));
    assert_true(isnan(hal_model_segmented_sum(values, 100, 0)));
    exact(4950, hal_model_segmented_sum(values, 100, UINT64_MAX)); /* at once */
    assert_true(isnan(hal_model_ulps(NAN, 1)) && isnan(hal_model_ulps(1, NAN)) && isnan(hal_model_ulps(1, 1e300)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_are_the_closed_form),
        cmocka_unit_test(lines_are_the_recurrence),
        cmocka_unit_test(uneven_times_need_a_third_slot),
        cmocka_unit_test(best_chunks_by_trying_all),
        cmocka_unit_test(ranges_by_trying_all),
        cmocka_unit_test(padding),
        cmocka_unit_test(mixes_turn_at_the_break_even),
        cmocka_unit_test(persistent_wins_with_overlap),
        cmocka_unit_test(critical_paths_by_trying_all),
        cmocka_unit_test(critical_path_refuses),
        cmocka_unit_test(requests),
        cmocka_unit_test(segments_cover_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
