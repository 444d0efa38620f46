/* What holds for all arguments of the cost model: bounds, monotony, optima by trying everything, refusals. */
#include "model_test.h"

#if HAL_HAVE_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

typedef unsigned __int128 wide;

static wide wide_parts(wide size, wide part)
{
    return (size + part - 1) / part;
}

static void gemm_traffic_is_the_formula(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    uint32_t overflows = 0;
    for (int round = 0; round < 20000; round++) {
        const uint64_t most = round % 2 ? 1 << 16 : UINT64_MAX >> (unit_random(&random) % 64);
        const hal_model_gemm g = {.m = pick(&random, most),
                                  .k = pick(&random, most),
                                  .n = pick(&random, most),
                                  .tile_m = pick(&random, 256),
                                  .tile_k = pick(&random, 64),
                                  .tile_n = pick(&random, 256),
                                  .a_size = (uint32_t)pick(&random, 4)};
        hal_model_gemm_cost cost;
        const hal_status status = hal_model_gemm_costs(&g, &cost);
        /* As doubles first: even 128 bits are not enough for all of it. */
        const double rough = (double)g.m * (double)g.k * g.a_size * ceil((double)g.n / (double)g.tile_n) +
                             2 * (double)g.k * (double)g.n * ceil((double)g.m / (double)g.tile_m) +
                             2 * (double)g.m * (double)g.n;
        const double flops = 2 * (double)g.m * (double)g.k * (double)g.n;
        if (fmax(rough, flops) > 0x1.01p64) {
            assert_int_equal(status, HAL_ERROR_OUT_OF_RANGE);
            assert_int_equal(cost.traffic, 0);
            overflows++;
        } else if (fmax(rough, flops) < 0x1.fep63) {
            good(status);
            const wide a = (wide)g.m * g.k * g.a_size * wide_parts(g.n, g.tile_n);
            const wide b = (wide)g.k * g.n * 2 * wide_parts(g.m, g.tile_m), d = (wide)g.m * g.n * 2;
            assert_true(cost.traffic == a + b + d);
            assert_true(cost.minimum == (wide)g.m * g.k * g.a_size + (wide)g.k * g.n * 2 + d);
            assert_true(cost.traffic >= cost.minimum);
            assert_true(cost.flops == (wide)2 * g.m * g.k * g.n);
        }
    }
    assert_true(overflows > 100);
}

static void larger_tiles_move_less(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 2000; round++) {
        hal_model_gemm g = {.m = pick(&random, 5000),
                            .k = pick(&random, 5000),
                            .n = pick(&random, 5000),
                            .tile_m = pick(&random, 128),
                            .tile_k = 32,
                            .tile_n = pick(&random, 128)};
        hal_model_gemm_cost small, large;
        good(hal_model_gemm_costs(&g, &small));
        *(round % 2 ? &g.tile_m : &g.tile_n) += pick(&random, 128);
        good(hal_model_gemm_costs(&g, &large));
        assert_true(large.traffic <= small.traffic);
        assert_true(large.working_set > small.working_set);
    }
}

static void tiles_fit_or_say_why(void **state)
{
    (void)state;
    const hal_model_machine pro = machine_named("RTX PRO 6000"), ascend = machine_named("Ascend 910B");
    hal_model_gemm g = {.m = 4096, .k = 4096, .n = 4096, .tile_m = 128, .tile_k = 64, .tile_n = 128};
    const char *limit;
    assert_true(hal_model_tile_fits(&pro, &g, 1, &limit)); /* 96 of 99 KiB */
    assert_null(limit);
    assert_false(hal_model_tile_fits(&pro, &g, 2, &limit));
    assert_string_equal(limit, "shared");
    g = (hal_model_gemm){.m = 4096, .k = 4096, .n = 4096, .tile_m = 128, .tile_k = 128, .tile_n = 256};
    assert_true(hal_model_tile_fits(&ascend, &g, 1, NULL)); /* 32, 64 and 128 KiB */
    assert_false(hal_model_tile_fits(&ascend, &g, 2, &limit));
    assert_string_equal(limit, "L0B");
    g.tile_k = 1024;
    assert_false(hal_model_tile_fits(&ascend, &g, 1, &limit));
    assert_string_equal(limit, "L0A");
    g.tile_k = 16;
    g.tile_n = 257;
    assert_false(hal_model_tile_fits(&ascend, &g, 1, &limit));
    assert_string_equal(limit, "L0C");
    g.tile_n = 0;
    assert_false(hal_model_tile_fits(&ascend, &g, 1, &limit));
}

static const char *const gpus[] = {"H100", "H200", "A100", "RTX PRO 6000", "RTX 4090", "RTX 3090", "T4"};
enum { GPUS = sizeof gpus / sizeof gpus[0] };

static void resident_blocks_fit(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 20000; round++) {
        const hal_model_machine m = machine_named(gpus[round % GPUS]);
        const uint32_t threads = (uint32_t)pick(&random, 1100), registers = (uint32_t)pick(&random, 260);
        const uint64_t shared = unit_random(&random) % (m.shared_per_block + 2000);
        hal_model_occupancy o, more;
        good(hal_model_occupancy_of(&m, threads, registers, shared, &o));
        assert_true(o.occupancy >= 0 && o.occupancy <= 1);
        assert_true(o.blocks * ((threads + 31) / 32) == o.warps && o.warps * 32 <= m.threads_per_unit);
        assert_true((uint64_t)o.warps * 32 * registers <= m.registers_per_unit);
        assert_true(o.blocks * (shared + m.shared_reserved) <= m.shared_per_unit);
        good(hal_model_occupancy_of(&m, threads, registers + 8, shared, &more));
        assert_true(more.blocks <= o.blocks);
        good(hal_model_occupancy_of(&m, threads, registers, shared + 128, &more));
        assert_true(more.blocks <= o.blocks);
    }
}

/* NVIDIA's own calculator, where its header is installed. */
static void occupancy_is_the_drivers(void **state)
{
    (void)state;
#if HAL_HAVE_CUDA_OCCUPANCY
    static const int capabilities[GPUS][2] = {{9, 0}, {9, 0}, {8, 0}, {12, 0}, {8, 9}, {8, 6}, {7, 5}};
    uint64_t random = unit_seed();
    uint32_t none = 0, limits[4] = {0};
    for (int round = 0; round < 50000; round++) {
        const hal_model_machine m = machine_named(gpus[round % GPUS]);
        cudaOccDeviceProp device = {.computeMajor = capabilities[round % GPUS][0],
                                    .computeMinor = capabilities[round % GPUS][1],
                                    .maxThreadsPerBlock = (int)m.threads_per_block,
                                    .maxThreadsPerMultiprocessor = (int)m.threads_per_unit,
                                    .regsPerBlock = (int)m.registers_per_unit,
                                    .regsPerMultiprocessor = (int)m.registers_per_unit,
                                    .warpSize = (int)m.warp,
                                    .sharedMemPerBlock = 48 * 1024,
                                    .sharedMemPerMultiprocessor = m.shared_per_unit,
                                    .numSms = (int)m.units,
                                    .sharedMemPerBlockOptin = m.shared_per_block,
                                    .reservedSharedMemPerBlock = m.shared_reserved};
        cudaOccDeviceState settings = {.cacheConfig = CACHE_PREFER_SHARED, .carveoutConfig = 100};
        const int threads = (int)pick(&random, 1024), registers = (int)pick(&random, 255);
        const uint64_t shared =
            round % 3 ? unit_random(&random) % 4096 : unit_random(&random) % (m.shared_per_block + 1);
        cudaOccFuncAttributes function = {.maxThreadsPerBlock = 1024,
                                          .numRegs = registers,
                                          .maxDynamicSharedSizeBytes = m.shared_per_block,
                                          .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN};
        cudaOccResult result = {0};
        hal_model_occupancy o;
        assert_int_equal(
            cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &settings, threads, shared),
            CUDA_OCC_SUCCESS);
        good(hal_model_occupancy_of(&m, (uint32_t)threads, (uint32_t)registers, shared, &o));
        if (result.activeBlocksPerMultiprocessor != (int)o.blocks)
            fail_msg("%s: %d threads, %d registers, %llu bytes: %u blocks, not %d", m.name, threads, registers,
                     (unsigned long long)shared, o.blocks, result.activeBlocksPerMultiprocessor);
        static const unsigned bits[] = {OCC_LIMIT_WARPS, OCC_LIMIT_REGISTERS, OCC_LIMIT_SHARED_MEMORY,
                                        OCC_LIMIT_BLOCKS};
        assert_true(result.limitingFactors & bits[o.limit]);
        none += !o.blocks;
        limits[o.limit]++;
    }
    assert_true(none && limits[0] && limits[1] && limits[2] && limits[3]);
#else
    print_message("cuda_occupancy.h is not installed\n");
    skip();
#endif
}

static void occupancy_refuses(void **state)
{
    (void)state;
    const hal_model_machine ascend = machine_named("Ascend 910B"), h100 = machine_named("H100");
    hal_model_occupancy o;
    assert_int_equal(hal_model_occupancy_of(&ascend, 128, 32, 0, &o), HAL_ERROR_UNSUPPORTED);
    assert_int_equal(hal_model_occupancy_of(&h100, 0, 32, 0, &o), HAL_ERROR_INVALID_ARGUMENT);
    good(hal_model_occupancy_of(&h100, 1025, 32, 0, &o));
    assert_true(o.blocks == 0 && o.limit == HAL_MODEL_LIMIT_THREADS);
    good(hal_model_occupancy_of(&h100, 1024, 256, 0, &o));
    assert_true(o.blocks == 0 && o.limit == HAL_MODEL_LIMIT_REGISTERS);
    good(hal_model_occupancy_of(&h100, 32, 32, UINT64_MAX, &o));
    assert_true(o.blocks == 0 && o.limit == HAL_MODEL_LIMIT_SHARED);
    good(hal_model_occupancy_of(&h100, 32, 16, 0, &o));
    assert_true(o.blocks == 32 && o.limit == HAL_MODEL_LIMIT_BLOCKS && o.occupancy == 0.5);
    assert_string_equal(hal_model_limit_name(o.limit), "blocks");
    good(hal_model_occupancy_of(&h100, 256, 32, 0, &o)); /* registers for 8 blocks as well: the first counts */
    assert_true(o.blocks == 8 && o.limit == HAL_MODEL_LIMIT_THREADS);
}

/* Bank by bank, as hardware would. */
static uint64_t slow_rounds(uint64_t rows, uint64_t cols, uint64_t stride, bool swizzle, uint64_t column)
{
    uint64_t total = 0;
    for (uint64_t first = 0; first < rows; first += 32) {
        bool served[32] = {false};
        uint64_t left = rows - first < 32 ? rows - first : 32;
        for (const uint64_t lanes = left; left; total++) {
            uint64_t word_of[32];
            bool taken[32] = {false};
            for (uint64_t lane = 0; lane < lanes; lane++) {
                const uint64_t row = first + lane;
                const uint64_t word = row * stride + (swizzle ? column ^ (row & (cols - 1)) : column);
                if (served[lane] || (taken[word % 32] && word_of[word % 32] != word))
                    continue;
                taken[word % 32] = served[lane] = true;
                word_of[word % 32] = word;
                left--;
            }
        }
    }
    return total;
}

static void bank_rounds_by_turns(void **state)
{
    (void)state;
    uint64_t rounds, random = unit_seed();
    for (uint64_t stride = 1, gcd; stride <= 100; stride++) {
        for (gcd = 32; stride % gcd; gcd /= 2)
            ;
        good(hal_model_bank_rounds(32, 1, stride, false, &rounds));
        assert_int_equal(rounds, gcd);
    }
    for (int round = 0; round < 500; round++) {
        const uint64_t rows = pick(&random, 100), cols = 1ULL << (unit_random(&random) % 8),
                       stride = cols + unit_random(&random) % 40;
        const bool swizzle = round % 2;
        uint64_t worst = 0;
        for (uint64_t column = 0; column < cols; column++) {
            const uint64_t of_this = slow_rounds(rows, cols, stride, swizzle, column);
            worst = of_this > worst ? of_this : worst;
        }
        good(hal_model_bank_rounds(rows, cols, stride, swizzle, &rounds));
        assert_int_equal(rounds, worst);
    }
    assert_int_equal(hal_model_bank_rounds(32, 24, 24, true, &rounds), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_bank_rounds(0, 32, 32, false, &rounds), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_bank_rounds(32, 32, 0, false, &rounds), HAL_ERROR_INVALID_ARGUMENT);
}

static uint64_t slow_rows(uint64_t d, uint64_t shared, uint64_t b, bool prefetch)
{
    uint64_t a = 0;
    while (2 * (a + 1) * d + (prefetch ? 4 : 2) * b * d + 4 * (a + 1) * b + 4 * (a + 1) * d + 12 * (a + 1) <= shared)
        a++;
    return a;
}

static void kv_block_is_the_largest(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 2000; round++) {
        const uint64_t length = pick(&random, 10000), d = pick(&random, 256), b = pick(&random, 200),
                       shared = pick(&random, 240000);
        const bool prefetch = round % 2;
        hal_model_kv kv;
        good(hal_model_kv_block(length, d, shared, b, prefetch, &kv));
        const uint64_t a = slow_rows(d, shared, b, prefetch);
        assert_int_equal(kv.q_rows, a);
        if (!a)
            continue;
        assert_int_equal(kv.scans, (length + a - 1) / a);
        assert_int_equal(kv.kv_bytes, kv.scans * 2 * length * d * 2);
        assert_int_equal(kv.updates, kv.scans * ((length + b - 1) / b));
    }
}

static void kv_best_by_trying_all(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    for (int round = 0; round < 200; round++) {
        const uint64_t length = pick(&random, 3000), d = pick(&random, 128), shared = 20000 + pick(&random, 100000);
        const double rate = 1e9 * (double)pick(&random, 2000), update = 0.01 * (double)pick(&random, 1000);
        const bool prefetch = round % 2;
        uint64_t b, best = 0;
        double least = INFINITY;
        hal_model_kv kv;
        for (uint64_t size = 1; size <= length; size++) {
            const uint64_t a = slow_rows(d, shared, size, prefetch), scans = a ? (length + a - 1) / a : 0;
            const uint64_t updates = scans * ((length + size - 1) / size);
            const double us = (double)(scans * 4 * length * d) / rate * 1e6 + (double)updates * update;
            if (a && us < least) {
                least = us;
                best = size;
            }
        }
        good(hal_model_kv_best(length, d, shared, prefetch, rate, update, &b, &kv));
        assert_int_equal(b, best);
        assert_int_equal(kv.q_rows, slow_rows(d, shared, best, prefetch));
    }
    uint64_t b;
    hal_model_kv kv;
    good(hal_model_kv_best(8192, 4096, 4096, false, 1e12, 1, &b, &kv));
    assert_true(b == 0 && kv.q_rows == 0); /* not even one row fits */
}

static void attention_and_chain_overflow(void **state)
{
    (void)state;
    hal_model_attention attention;
    hal_model_chain chain;
    hal_model_kv kv;
    good(hal_model_attention_costs(1ULL << 29, 128, &attention));
    assert_int_equal(hal_model_attention_costs(1ULL << 31, 128, &attention), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(attention.scores, 0);
    assert_int_equal(hal_model_chain_costs(1ULL << 33, 1ULL << 33, &chain), HAL_ERROR_OUT_OF_RANGE);
    assert_int_equal(hal_model_chain_costs(0, 5, &chain), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_kv_block(1ULL << 41, 128, 1 << 16, 1, false, &kv), HAL_ERROR_INVALID_ARGUMENT);
    assert_int_equal(hal_model_kv_block(1ULL << 40, 1 << 18, 1ULL << 22, 1, false, &kv), HAL_ERROR_OUT_OF_RANGE);
    for (uint64_t columns = 1; columns < 100; columns++) {
        good(hal_model_chain_costs(3, columns, &chain));
        assert_true(chain.bytes_fused < chain.bytes_partial && chain.bytes_partial < chain.bytes_separate);
        assert_true(chain.peak_fused < chain.peak_partial && chain.peak_partial <= chain.peak_separate);
    }
}

static void rates_and_roofs(void **state)
{
    (void)state;
    const hal_model_machine h100 = machine_named("H100"), a100 = machine_named("A100");
    /* E4M3 without arithmetic of its own is computed in FP16. */
    exact(a100.flops_per_s[HAL_F16], hal_model_peak(&a100, HAL_F8E4M3));
    exact(0, hal_model_peak(&h100, HAL_DTYPE_DEFAULT));
    uint64_t random = unit_seed();
    for (int round = 0; round < 1000; round++) {
        const double flops = 1e9 * (double)pick(&random, 1000), bytes = 1e6 * (double)pick(&random, 1000);
        const double floor_us = hal_model_floor_us(&h100, HAL_BF16, flops, bytes);
        assert_true(floor_us * 1e-6 * h100.memory_bytes_per_s >= bytes * (1 - 1e-12));
        assert_true(floor_us * 1e-6 * h100.flops_per_s[HAL_BF16] >= flops * (1 - 1e-12));
        /* Which of the two it is changes at the ridge. */
        assert_true((flops / bytes > hal_model_ridge(&h100, HAL_BF16)) ==
                    (floor_us > hal_model_floor_us(&h100, HAL_BF16, 0, bytes)));
        exact(floor_us + 3 * h100.launch_us, hal_model_kernels_us(&h100, HAL_BF16, flops, bytes, 3));
    }
}

static void formulas_refuse(void **state)
{
    (void)state;
    const hal_model_machine h100 = machine_named("H100");
    static const double bad[] = {NAN, INFINITY, -1};
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(hal_model_floor_us(&h100, HAL_F32, bad[i], 1)));
        assert_true(isnan(hal_model_kernels_us(&h100, HAL_F32, 1, bad[i], 1)));
        assert_true(isnan(hal_model_bytes_in_flight(bad[i], 1)));
        assert_true(isnan(hal_model_time_ratio(1, bad[i], 1, 1)));
        assert_true(isnan(hal_model_pipeline_us(3, bad[i], 1, 2)));
        assert_true(isnan(hal_model_chunked_us(1, bad[i], 1, 0, 2)));
        assert_true(isnan(hal_model_mfu_us(1, 1, bad[i])));
        assert_true(isnan(hal_model_amdahl(bad[i], 2)));
        assert_true(isnan(hal_model_amdahl(0.5, bad[i])));
        assert_true(isnan(hal_model_call_us(1, bad[i], 1)));
        assert_true(isnan(hal_model_break_even((hal_model_strategy){bad[i], 1}, (hal_model_strategy){1, 1})));
        hal_model_replay replay;
        assert_int_equal(hal_model_replay_costs(1, bad[i], 1, 1, 1, &replay), HAL_ERROR_INVALID_ARGUMENT);
        hal_model_persistent persistent;
        assert_int_equal(hal_model_persistent_costs(1, 1, bad[i], 1, 1, &persistent), HAL_ERROR_INVALID_ARGUMENT);
    }
    assert_true(isnan(hal_model_floor_us(NULL, HAL_F32, 1, 1)));
    assert_true(isnan(hal_model_unit_math_us(NULL, HAL_F32, 1)) && isnan(hal_model_unit_load_us(NULL, 1)));
    assert_true(isnan(hal_model_time_ratio(1, 0, 1, 1)));
    exact(3, hal_model_time_ratio(8, 4, 2, 3));
    assert_true(isnan(hal_model_mfu_us(1, 0, 0.5)) && isnan(hal_model_mfu_us(1, 1, 0)));
    exact(2e6, hal_model_mfu_us(1, 1, 0.5));
    assert_true(isnan(hal_model_busy_gain(0)) && isnan(hal_model_busy_gain(1.5)));
    exact(1, hal_model_busy_gain(1));
    hal_model_replay replay;
    assert_int_equal(hal_model_replay_costs(1, 0, 1, 1, 1, &replay), HAL_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < 6; i++) {
        uint64_t sizes[] = {8, 8, 8, 8, 8, 8};
        hal_model_gemm_cost cost;
        sizes[i] = 0;
        const hal_model_gemm gemm = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], 0, 0, 0, 0};
        assert_int_equal(hal_model_gemm_costs(&gemm, &cost), HAL_ERROR_INVALID_ARGUMENT);
    }
    assert_int_equal(hal_model_mma_count(16, 16, 16, 0, 8, 16), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemm_traffic_is_the_formula),
        cmocka_unit_test(larger_tiles_move_less),
        cmocka_unit_test(tiles_fit_or_say_why),
        cmocka_unit_test(resident_blocks_fit),
        cmocka_unit_test(occupancy_is_the_drivers),
        cmocka_unit_test(occupancy_refuses),
        cmocka_unit_test(bank_rounds_by_turns),
        cmocka_unit_test(kv_block_is_the_largest),
        cmocka_unit_test(kv_best_by_trying_all),
        cmocka_unit_test(attention_and_chain_overflow),
        cmocka_unit_test(rates_and_roofs),
        cmocka_unit_test(formulas_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
