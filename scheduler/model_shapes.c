/* model_shapes.c - which program for which shapes: preparation against run time, padding, mixes of calls. */
#include "model_parts.h"

static bool sensible_strategy(hal_model_strategy strategy)
{
    return sensible(strategy.prepare) && sensible(strategy.run);
}

double hal_model_strategy_total(hal_model_strategy strategy, double n)
{
    return sensible_strategy(strategy) && sensible(n) ? strategy.prepare + n * strategy.run : NAN;
}

double hal_model_amortised(hal_model_strategy strategy, double n)
{
    return n > 0 ? hal_model_strategy_total(strategy, n) / n : NAN;
}

double hal_model_break_even(hal_model_strategy a, hal_model_strategy b)
{
    if (!sensible_strategy(a) || !sensible_strategy(b))
        return NAN;
    const double ahead = b.prepare - a.prepare, gain = a.run - b.run;
    if (ahead <= 0 && gain >= 0)
        return 0;
    return gain > 0 ? ahead / gain : INFINITY;
}

uint32_t hal_model_best(const hal_model_strategy *strategies, uint32_t count, double n)
{
    uint32_t best = count;
    for (uint32_t i = 0; strategies && i < count; i++) {
        const double total = hal_model_strategy_total(strategies[i], n);
        if (isnan(total))
            return count;
        if (best == count || total < hal_model_strategy_total(strategies[best], n))
            best = i;
    }
    return best;
}

/* The one that takes over from `now` first, and when; count if none does. Of those at the same n the fastest. */
static uint32_t next_best(const hal_model_strategy *strategies, uint32_t count, uint32_t now, double *from)
{
    uint32_t next = count;
    for (uint32_t i = 0; i < count; i++) {
        if (!(strategies[i].run < strategies[now].run))
            continue;
        const double when = hal_model_break_even(strategies[now], strategies[i]);
        if (next == count || when < *from || (when == *from && strategies[i].run < strategies[next].run)) {
            next = i;
            *from = when;
        }
    }
    return next;
}

hal_status hal_model_ranges(const hal_model_strategy *strategies, uint32_t count, hal_model_range *ranges,
                            uint32_t *range_count)
{
    if (!strategies || !count || !ranges || !range_count)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model ranges: at least one strategy, and room for ranges");
    *range_count = 0;
    /* At 0 the cheapest to prepare is best; of equals the one that runs fastest, as it is from then on. */
    uint32_t now = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!sensible_strategy(strategies[i]))
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model ranges: strategy %u: times are numbers from 0 on", i);
        if (strategies[i].prepare < strategies[now].prepare ||
            (strategies[i].prepare == strategies[now].prepare && strategies[i].run < strategies[now].run))
            now = i;
    }
    double from = 0;
    for (;;) {
        double until = INFINITY;
        const uint32_t next = next_best(strategies, count, now, &until);
        until = fmax(until, from);
        ranges[(*range_count)++] = (hal_model_range){now, from, until};
        if (next == count)
            return HAL_OK;
        now = next;
        from = until;
    }
}

hal_status hal_model_padded_rows(const uint64_t *rows, uint32_t row_count, const uint64_t *buckets,
                                 uint32_t bucket_count, uint64_t *padded)
{
    bool over = false;
    if (!padded || (row_count && !rows) || (bucket_count && !buckets))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model padding: rows, buckets and padded must not be NULL");
    *padded = 0;
    uint64_t sum = 0;
    for (uint32_t i = 1; i < bucket_count; i++)
        if (buckets[i] <= buckets[i - 1])
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model padding: buckets[%u] is not above the one before", i);
    for (uint32_t i = 0; i < row_count; i++) {
        uint32_t bucket = 0;
        while (bucket < bucket_count && buckets[bucket] < rows[i])
            bucket++;
        if (bucket_count && bucket == bucket_count)
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "model padding: rows[%u] is %llu, above all buckets", i,
                            (unsigned long long)rows[i]);
        sum = plus(&over, sum, bucket_count ? buckets[bucket] : rows[i]);
    }
    if (over)
        return too_large("model padding");
    *padded = sum;
    return HAL_OK;
}

static double mixed(double p, double a, double b)
{
    return p * a + (1 - p) * b;
}

hal_status hal_model_mix_costs(double p, const double old_us[2], const double new_us[2], bool choose,
                               double dispatch_us, hal_model_mix *cost)
{
    if (!cost || !old_us || !new_us)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model mix: old_us, new_us and cost must not be NULL");
    *cost = (hal_model_mix){0};
    if (!(p >= 0 && p <= 1))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model mix: p is from 0 to 1");
    if (!sensible(old_us[0]) || !sensible(old_us[1]) || !sensible(new_us[0]) || !sensible(new_us[1]) ||
        !sensible(dispatch_us))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model mix: times are numbers from 0 on");
    const double best[2] = {fmin(old_us[0], new_us[0]), fmin(old_us[1], new_us[1])};
    cost->old_us = mixed(p, old_us[0], old_us[1]);
    cost->new_us = mixed(p, new_us[0], new_us[1]);
    cost->choose_us = mixed(p, best[0], best[1]) + dispatch_us;
    /* The gain is a line in p: at0 where all calls are of the second shape, at1 where they are of the first. */
    const double at0 = choose ? old_us[1] - best[1] - dispatch_us : old_us[1] - new_us[1];
    const double at1 = choose ? old_us[0] - best[0] - dispatch_us : old_us[0] - new_us[0];
    cost->better_below = at0 > 0 && at1 < 0;
    if (at0 <= 0 && at1 <= 0)
        cost->break_even = NAN;
    else if (at0 >= 0 && at1 >= 0)
        cost->break_even = 0;
    else
        cost->break_even = at0 / (at0 - at1);
    return HAL_OK;
}
