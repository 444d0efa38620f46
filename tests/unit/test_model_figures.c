/* Each reference figure of the cost model, from the formula: Qwen3-8B's feed-forward layer, 4096 to 12288 and back,
 * 1024 tokens, BF16. */
#include "model_test.h"

static const hal_model_gemm up = {.m = 1024, .k = 4096, .n = 12288, .tile_m = 128, .tile_n = 128, .tile_k = 64};

static hal_model_gemm_cost costs_of(uint64_t tile_m, uint64_t tile_n, uint64_t tile_k)
{
    hal_model_gemm gemm = up;
    hal_model_gemm_cost cost;
    gemm.tile_m = tile_m;
    gemm.tile_n = tile_n;
    gemm.tile_k = tile_k;
    good(hal_model_gemm_costs(&gemm, &cost));
    return cost;
}

static void gemm_minimum(void **state)
{
    (void)state;
    hal_model_gemm_cost whole = costs_of(1024, 12288, 4096);
    exact(8, whole.a_bytes / MIB);
    exact(96, whole.b_bytes / MIB);
    exact(24, whole.d_bytes / MIB);
    exact(128, whole.minimum / MIB);
    exact(whole.minimum, whole.traffic); /* one tile reads everything once */
    near(103, whole.flops / 1e9, 0.5);
}

static void gemm_traffic(void **state)
{
    (void)state;
    hal_model_gemm_cost small = costs_of(64, 64, 64), large = costs_of(128, 128, 64);
    exact(3096, small.traffic / MIB);
    exact(1560, large.traffic / MIB);
    near(24, (double)small.traffic / (double)small.minimum, 0.5);
    exact(128, large.minimum / MIB);
    exact(8 * 96, large.tiles);
}

static void tile_working_set(void **state)
{
    (void)state;
    exact(96, costs_of(128, 128, 64).working_set / KIB);
    exact(80, costs_of(128, 128, 32).working_set / KIB);
    exact(24, costs_of(64, 64, 32).working_set / KIB);
}

static void residency(void **state)
{
    (void)state;
    hal_model_machine pro = machine_named("RTX PRO 6000");
    hal_model_occupancy large, small;
    good(hal_model_occupancy_of(&pro, 256, 0, costs_of(128, 128, 32).working_set, &large));
    good(hal_model_occupancy_of(&pro, 256, 0, costs_of(64, 64, 32).working_set, &small));
    assert_int_equal(large.blocks, 1);
    assert_int_equal(small.blocks, 4);
    assert_int_equal(large.limit, HAL_MODEL_LIMIT_SHARED);
    hal_model_machine h100 = machine_named("H100"); /* 64 warps */
    good(hal_model_occupancy_of(&h100, 256, 128, 96 * 1024, &large));
    assert_int_equal(large.blocks, 2); /* of 228 KiB; of 64 K registers as well */
    exact(16.0 / 64, large.occupancy);
}

static void small_tiles_win(void **state)
{
    (void)state;
    const double v128 = (double)costs_of(128, 128, 32).traffic, v64 = (double)costs_of(64, 64, 32).traffic;
    exact(1560.0 / 3096, hal_model_time_ratio(v128, v64, 1, 1));
    /* From 3096 / 1560 of the bandwidth on the small tile wins. */
    assert_true(hal_model_time_ratio(v128, v64, 1, 1.98) < 1);
    assert_true(hal_model_time_ratio(v128, v64, 1, 1.99) > 1);
}

static void latency_hiding(void **state)
{
    (void)state;
    hal_model_machine h100 = machine_named("H100");
    exact(3.35e12 * 0.6e-6, hal_model_bytes_in_flight(h100.memory_bytes_per_s, h100.latency_us));
    near(295, hal_model_ridge(&h100, HAL_BF16), 0.5);
}

static void mma_count(void **state)
{
    (void)state;
    assert_int_equal(hal_model_mma_count(128, 128, 64, 16, 8, 16), 512);
    assert_int_equal(hal_model_mma_count(128, 128, 64, 16, 8, 16) / 8, 64); /* a warp's, of 8 */
    hal_model_gemm one = {.m = 16, .n = 8, .k = 16, .tile_m = 16, .tile_n = 8, .tile_k = 16};
    hal_model_gemm_cost cost;
    good(hal_model_gemm_costs(&one, &cost));
    assert_int_equal(cost.flops, 4096);
}

/* Operand bytes and FLOPs of one step of a 128x128x64 tile. */
static double step_bytes(void)
{
    return (double)(costs_of(128, 128, 64).working_set - 128 * 128 * 4);
}
static double step_flops(void)
{
    return (double)hal_model_mma_count(128, 128, 64, 16, 8, 16) * 4096;
}

static void sm_share(void **state)
{
    (void)state;
    hal_model_machine h100 = machine_named("H100");
    const double load = hal_model_unit_load_us(&h100, step_bytes());
    const double math = hal_model_unit_math_us(&h100, HAL_BF16, step_flops());
    exact(32, step_bytes() / KIB);
    near(1.29, load, 0.005);
    near(0.28, math, 0.005);
    near(4.6, load / math, 0.05);
    exact(64, step_flops() / step_bytes());
}

static void pipelining(void **state)
{
    (void)state;
    near(6.28, hal_model_pipeline_us(4, 1.29, 0.28, 1), 0.005);
    near(5.44, hal_model_pipeline_us(4, 1.29, 0.28, 2), 0.005);
    near(-13, 100 * (5.44 / 6.28 - 1), 0.5);
    exact(hal_model_pipeline_us(4, 1.29, 0.28, 2), hal_model_pipeline_us(4, 1.29, 0.28, 3));
    /* Faster arithmetic shortens only the last step's tail. */
    exact(hal_model_pipeline_us(4, 1.29, 0.28, 2) - 0.14, hal_model_pipeline_us(4, 1.29, 0.14, 2));
}

static void chunked_transfer(void **state)
{
    (void)state;
    hal_model_machine h100 = machine_named("H100");
    const double bytes = 64 * MIB, rate = h100.link_bytes_per_s, copy_us = bytes / rate * 1e6;
    exact(64e9, rate);
    near(1049, copy_us, 0.5);
    exact(2 * copy_us, hal_model_chunked_us(bytes, rate, copy_us, 0, 1));
    exact(copy_us * 1.25, hal_model_chunked_us(bytes, rate, copy_us, 0, 4));
    assert_true(hal_model_chunked_us(bytes, rate, copy_us, 0, 1000000) < copy_us * 1.00001);
}

static void backpressure(void **state)
{
    (void)state;
    const uint64_t tile = 16 * 1024, reorder = 32 * 1024;
    assert_int_equal(hal_model_queue_slots(80 * 1024, reorder, tile), 3);
    assert_int_equal(3 * tile + reorder, 80 * 1024);
    assert_int_equal(hal_model_queue_slots(49 * 1024, reorder, tile), 1);
}

static void kernel_against_call(void **state)
{
    (void)state;
    /* The submission takes 3 us; a kernel of 4 us becomes one of 1. */
    const double before = hal_model_call_us(3, 4, 0), after = hal_model_call_us(3, 1, 0);
    exact(1.75, before / after);
    exact(1.75, hal_model_amdahl(4 / before, 4));
}

static void compile_amortisation(void **state)
{
    (void)state;
    const hal_model_strategy compiled = {100, 1}; /* ms */
    exact(101, hal_model_amortised(compiled, 1));
    exact(2, hal_model_amortised(compiled, 100));
    exact(1.1, hal_model_amortised(compiled, 1000));
    /* Tuning for 60 s to save 0.5 ms a call pays from 120,000 calls on. */
    exact(120000, hal_model_break_even((hal_model_strategy){0, 1.5}, (hal_model_strategy){60000, 1}));
}

static void bank_conflicts(void **state)
{
    (void)state;
    uint64_t rounds;
    good(hal_model_bank_rounds(32, 32, 32, false, &rounds));
    assert_int_equal(rounds, 32);
    good(hal_model_bank_rounds(32, 32, 33, false, &rounds));
    assert_int_equal(rounds, 1);
    good(hal_model_bank_rounds(32, 32, 32, true, &rounds));
    assert_int_equal(rounds, 1);
}

static void transpose_tiles(void **state)
{
    (void)state;
    near(2.7, hal_model_time_ratio(7.9, 2.9, 1, 1), 0.05); /* measured, 16x16 against 32x32 */
}

static void rms_norm_split(void **state)
{
    (void)state;
    hal_model_row_split split;
    good(hal_model_row_split_of(1024, 1, &split));
    assert_int_equal(split.tasks, 1024);
    assert_true(split.phases == 1 && split.combines == 0);
    good(hal_model_row_split_of(1, 1, &split));
    assert_int_equal(split.tasks, 1);
    good(hal_model_row_split_of(1, 16, &split));
    assert_int_equal(split.tasks, 16);
    assert_int_equal(split.combines, 1);
    assert_int_equal(split.phases, 2);
}

/* Positive numbers of eight bits, as BF16 holds them, whose sum grows far beyond what they differ in. */
static double segmented_error(uint64_t segments)
{
    float values[4096];
    double sum = 0;
    uint64_t state = 7;
    for (int i = 0; i < 4096; i++) {
        values[i] = hal_bf16_to_f32(hal_bf16_from_f32(1 + (float)(unit_random(&state) % 65536) / 65536));
        values[i] *= values[i]; /* as RMSNorm sums */
        sum += values[i];
    }
    return fabs(hal_model_ulps(hal_model_segmented_sum(values, 4096, segments), sum));
}

static void float_order(void **state)
{
    (void)state;
    const float tiny = ldexpf(1, -24), first[] = {1, tiny, tiny}, last[] = {tiny, tiny, 1};
    exact(1, hal_model_segmented_sum(first, 3, 1));
    assert_true(hal_model_segmented_sum(last, 3, 1) == 1 + ldexpf(1, -23));
    exact(-1, hal_model_ulps(1, 1 + ldexp(1, -23)));
    exact(175.2, hal_model_ulps(1 + 175.2 * ldexp(1, -23), 1));
    print_message("4096 values: %.1f ULP off in 1 segment, %.1f in 8\n", segmented_error(1), segmented_error(8));
    assert_true(segmented_error(8) < segmented_error(1) / 2);
}

static void activation_chain(void **state)
{
    (void)state;
    hal_model_chain chain;
    good(hal_model_chain_costs(1024, 12288, &chain));
    exact(48, chain.silu / MIB);
    exact(72, chain.multiply / MIB);
    exact(36, chain.quantize / MIB);
    exact(156, chain.bytes_separate / MIB);
    exact(108, chain.bytes_partial / MIB);
    exact(60, chain.bytes_fused / MIB);
    exact(120, (chain.silu + chain.multiply) / MIB);
    exact(72, chain.silu_multiply / MIB);
    exact(72, chain.peak_separate / MIB);
    exact(72, chain.peak_partial / MIB);
    exact(60, chain.peak_fused / MIB);
    near(1.84, hal_model_time_ratio(14.2, 7.7, 1, 1), 0.005); /* measured; bytes alone say */
    exact(2.6, (double)chain.bytes_separate / (double)chain.bytes_fused);
}

static void attention_unfused(void **state)
{
    (void)state;
    hal_model_attention cost;
    good(hal_model_attention_costs(8192, 128, &cost));
    exact(2, cost.operand / MIB);
    exact(256, cost.score / MIB);
    exact(1024, cost.scores / MIB);
    exact(128, (double)cost.scores / (double)cost.minimum);
    near(33, hal_model_time_ratio(2600, 80, 1, 1), 0.51); /* measured */
    near(38.5, hal_model_time_ratio(848, 22, 1, 1), 0.05);
}

static void kv_block(void **state)
{
    (void)state;
    hal_model_kv large, small;
    good(hal_model_kv_block(8192, 128, 101376, 64, false, &large));
    good(hal_model_kv_block(8192, 128, 101376, 1, false, &small));
    assert_int_equal(large.q_rows, 82);
    assert_int_equal(large.scans, 100);
    assert_int_equal(small.q_rows, 128);
    exact(144, (large.kv_bytes - small.kv_bytes) / MIB);
    near(41, (double)small.updates / (double)large.updates, 0.05);
}

static void fp8_row_scale(void **state)
{
    (void)state;
    /* The largest of a row becomes the largest E4M3: 1.75 * 2^8. */
    exact(448, hal_f8e4m3_to_f32(hal_f8e4m3_from_f32(INFINITY, true)));
    exact(448, 1.75 * ldexp(1, 8));
    /* All of a row is read before its first element can be written: fused into GEMM, that is a scan of A. */
    hal_model_quantize_gemm cost;
    good(hal_model_quantize_gemm_costs(&up, &cost));
    exact(8, cost.fused_scan / MIB);
}

static void quantise_inside_gemm(void **state)
{
    (void)state;
    const hal_model_gemm gemm = {
        .m = 4096, .k = 4096, .n = 1536, .tile_m = 128, .tile_n = 128, .tile_k = 64, .b_size = 1};
    hal_model_quantize_gemm cost;
    good(hal_model_quantize_gemm_costs(&gemm, &cost));
    exact(32, cost.quantize_read / MIB);
    exact(16, cost.quantize_write / MIB);
    exact(192, cost.separate_a / MIB);
    exact(204, (cost.b_bytes + cost.d_bytes) / MIB);
    exact(32 + 16 + 192 + 204, cost.separate / MIB);
    exact(32, cost.fused_scan / MIB);
    exact(384, cost.fused_a / MIB);
    exact(32 + 384 + 204, cost.fused / MIB);
    near(40, 100 * ((double)cost.fused / (double)cost.separate - 1), 0.5);
}

static void call_mix(void **state)
{
    (void)state;
    const double old[] = {10, 10}, other[] = {5, 20};
    hal_model_mix mix;
    good(hal_model_mix_costs(0.5, old, other, false, 0, &mix));
    exact(10, mix.old_us);
    exact(12.5, mix.new_us);
    exact(7.5, mix.choose_us);
    exact(2.0 / 3, mix.break_even);
    assert_false(mix.better_below);
    good(hal_model_mix_costs(0.5, old, other, true, 1, &mix));
    exact(8.5, mix.choose_us);
    exact(0.2, mix.break_even); /* 5 p > 1 */
}

static void graph_against_copy(void **state)
{
    (void)state;
    hal_model_machine pro = machine_named("RTX PRO 6000");
    hal_model_replay none, even;
    good(hal_model_replay_costs(0, pro.memory_bytes_per_s, 20, 5, 20, &none));
    exact(40, none.eager_us);
    exact(25, none.replay_us);
    near(12.8, none.break_even_bytes / MIB, 0.05);
    good(hal_model_replay_costs(none.break_even_bytes, pro.memory_bytes_per_s, 20, 5, 20, &even));
    exact(even.eager_us, even.replay_us);
}

static void plan_and_run(void **state)
{
    (void)state;
    assert_int_equal(hal_model_metadata_copies(4, 36, false), 144);
    assert_int_equal(hal_model_metadata_copies(4, 36, true), 4);
    near(2.8, hal_model_time_ratio(2.0, 0.72, 1, 1), 0.05); /* measured, ms */
    near(3.2, hal_model_time_ratio(2.4, 0.75, 1, 1), 0.05);
}

static void submissions(void **state)
{
    (void)state;
    assert_int_equal(hal_model_submissions(3, 6, false), 18);
    assert_int_equal(hal_model_submissions(3, 6, true), 3);
    assert_int_equal(hal_model_submissions(3, 5, false), 15);
    assert_int_equal(hal_model_submissions(3, 5, true), 3);
}

/* Ten calls of the layer, three products a row, on a device of 500 TFLOP/s. */
static void dynamic_shapes(void **state)
{
    (void)state;
    const uint64_t rows[] = {256, 256, 256, 256, 256, 256, 256, 256, 1536, 2048}, buckets[] = {512, 2048};
    const double flop_of_row = 3 * 2 * 4096.0 * 12288;
    uint64_t plain, padded;
    good(hal_model_padded_rows(rows, 10, NULL, 0, &plain));
    good(hal_model_padded_rows(rows, 10, buckets, 2, &padded));
    assert_int_equal(plain, 5632);
    assert_int_equal(padded, 8192);
    const hal_model_strategy s[] = {
        {100, hal_model_mfu_us((double)plain * flop_of_row, 500e12, 0.2) / 1e3},
        {400, hal_model_mfu_us((double)padded * flop_of_row, 500e12, 0.4) / 1e3},
        {900, hal_model_mfu_us((double)plain * flop_of_row, 500e12, 0.5) / 1e3},
    };
    near(17.0, s[0].run, 0.05);
    near(12.4, s[1].run, 0.05);
    near(6.8, s[2].run, 0.05);
    near(1.27, hal_model_strategy_total(s[1], 70) / 1e3, 0.005);
    near(1.38, hal_model_strategy_total(s[2], 70) / 1e3, 0.005);
    assert_int_equal(hal_model_best(s, 3, 70), 1);
    hal_model_range ranges[3];
    uint32_t count;
    good(hal_model_ranges(s, 3, ranges, &count));
    assert_int_equal(count, 3);
    near(65, ranges[1].from, 0.5);
    near(90, ranges[2].from, 0.5);
}

static void persistent_hand_over(void **state)
{
    (void)state;
    hal_model_persistent cost;
    good(hal_model_persistent_costs(8, 12.8, 1.76, 5, 0.7, &cost));
    near(11, cost.coarse_us - cost.tiled_us, 0.05);
    exact(5 + 7 * 1.76 - 9 * 0.7, cost.coarse_us - cost.tiled_us);
}

static void amdahl(void **state)
{
    (void)state;
    exact(2, hal_model_amdahl(1, 2));
    exact(1, hal_model_amdahl(0, 100));
    exact(1 / (0.6 + 0.4 / 4), hal_model_amdahl(0.4, 4));
}

static void critical_path(void **state)
{
    (void)state;
    enum { PREPARE, A, B, FINISH };
    static const uint32_t after_prepare[] = {PREPARE}, after_both[] = {A, B};
    hal_model_task tasks[] = {{10, NULL, 0}, {30, after_prepare, 1}, {20, after_prepare, 1}, {10, after_both, 2}};
    uint32_t path[4], count;
    double length;
    good(hal_model_critical_path(tasks, 4, &length, path, &count));
    exact(50, length);
    assert_true(count == 3 && path[0] == PREPARE && path[1] == A && path[2] == FINISH);
    tasks[A].time_us = 15; /* below B: no longer on the path, nor is what it saves */
    good(hal_model_critical_path(tasks, 4, &length, path, &count));
    exact(40, length);
    assert_true(count == 3 && path[1] == B);
}

static void whole_request(void **state)
{
    (void)state;
    /* 36 layers, one prefill, 31 further tokens. The split of the times between them is ours; the totals are not. */
    const hal_model_calls shapes[] = {{36, 298, 298, 0}, {36 * 31, 2.573, 1.319, 0}};
    hal_model_request cost;
    good(hal_model_request_costs(shapes, 2, 850000, &cost));
    assert_int_equal(cost.calls, 36 + 1116);
    near(13.6, cost.old_us / 1e3, 0.05);
    near(12.2, cost.new_us / 1e3, 0.05);
    near(1.4, cost.saved_us / 1e3, 0.05); /* measured: 1.3 */
    near(1.6, 100 * cost.share, 0.05);
}

static void host_bound_serving(void **state)
{
    (void)state;
    const double gain = hal_model_busy_gain(0.38);
    near(2.63, gain, 0.005);
    assert_true(gain < 2.7); /* measured with three changes: the others are the rest */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_minimum),
        cmocka_unit_test(gemm_traffic),
        cmocka_unit_test(tile_working_set),
        cmocka_unit_test(residency),
        cmocka_unit_test(small_tiles_win),
        cmocka_unit_test(latency_hiding),
        cmocka_unit_test(mma_count),
        cmocka_unit_test(sm_share),
        cmocka_unit_test(pipelining),
        cmocka_unit_test(chunked_transfer),
        cmocka_unit_test(backpressure),
        cmocka_unit_test(kernel_against_call),
        cmocka_unit_test(compile_amortisation),
        cmocka_unit_test(bank_conflicts),
        cmocka_unit_test(transpose_tiles),
        cmocka_unit_test(rms_norm_split),
        cmocka_unit_test(float_order),
        cmocka_unit_test(activation_chain),
        cmocka_unit_test(attention_unfused),
        cmocka_unit_test(kv_block),
        cmocka_unit_test(fp8_row_scale),
        cmocka_unit_test(quantise_inside_gemm),
        cmocka_unit_test(call_mix),
        cmocka_unit_test(graph_against_copy),
        cmocka_unit_test(plan_and_run),
        cmocka_unit_test(submissions),
        cmocka_unit_test(dynamic_shapes),
        cmocka_unit_test(persistent_hand_over),
        cmocka_unit_test(amdahl),
        cmocka_unit_test(critical_path),
        cmocka_unit_test(whole_request),
        cmocka_unit_test(host_bound_serving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
