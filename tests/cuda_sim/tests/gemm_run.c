/* gemm_run.c - see gemm_run.h. */
#include "gemm_run.h"
#include "../exec/tensor_map.h"
#include <stdio.h>
#include <stdlib.h>

enum { TILE = 128, SLICE = 64, THREADS = 384, SHARED = 3 * 32768 + 2 * 16384 + 6 * 8 + 1024 };
enum { BF16_TYPE = 9, SWIZZLE_128 = 3 };

/* The kernel's parameters. */
typedef struct parameters {
    sim_tensor_map a, b, c;
    int32_t rows, columns, slices;
} parameters;

typedef struct matrices {
    uint16_t *a, *b, *c;
} matrices;

static void fill(uint16_t *values, uint32_t rows, uint32_t columns, uint32_t seed)
{
    for (size_t i = 0; i < (size_t)rows * columns; i++) {
        values[i] = kernel_bf16(kernel_number(i / columns, i % columns, seed));
    }
}

static sim_tensor_map box_map(const uint16_t *values, uint32_t rows, uint32_t columns)
{
    return (sim_tensor_map){.magic = SIM_TENSOR_MAP_MAGIC,
                            .data_type = BF16_TYPE,
                            .rank = 2,
                            .swizzle = SWIZZLE_128,
                            .address = (uint64_t)(uintptr_t)values,
                            .size = {columns, rows},
                            .stride = {(uint64_t)2 * columns},
                            .box = {64, 64},
                            .element_stride = {1, 1},
                            .element_bytes = 2};
}

static size_t bytes_of(uint32_t rows, uint32_t columns)
{
    return (size_t)2 * rows * columns;
}

static kernel_result launch(const ptx_function *function, const gemm_case *gemm, const sim_options *options,
                            const matrices *values, sim_counters *counters, char *text, size_t size)
{
    uint32_t rows = TILE * gemm->cluster;
    parameters p = {
        .a = box_map(values->a, gemm->m, gemm->k),
        .b = box_map(values->b, gemm->n, gemm->k),
        .c = box_map(values->c, gemm->m, gemm->n),
        .rows = (int32_t)((gemm->m + rows - 1) / rows),
        .columns = (int32_t)((gemm->n + TILE - 1) / TILE),
        .slices = (int32_t)((gemm->k + SLICE - 1) / SLICE),
    };
    sim_range ranges[] = {kernel_range(values->a, bytes_of(gemm->m, gemm->k), true),
                          kernel_range(values->b, bytes_of(gemm->n, gemm->k), true),
                          kernel_range(values->c, bytes_of(gemm->m, gemm->n), false)};
    sim_launch l = {.function = function,
                    .grid = {gemm->grid, 1, 1},
                    .block = {THREADS, 1, 1},
                    .cluster = {gemm->cluster, 1, 1},
                    .dynamic_shared = SHARED,
                    .params = (const uint8_t *)&p,
                    .options = *options};
    return kernel_launch(&l, ranges, 3, counters, text, size);
}

static kernel_result compare(const gemm_case *gemm, const matrices *values, char *text, size_t size)
{
    for (uint32_t i = 0; i < gemm->m; i++) {
        for (uint32_t j = 0; j < gemm->n; j++) {
            float sum = 0;
            for (uint32_t k = 0; k < gemm->k; k++) {
                sum += kernel_of_bf16(values->a[(size_t)i * gemm->k + k]) *
                       kernel_of_bf16(values->b[(size_t)j * gemm->k + k]);
            }
            uint16_t got = values->c[(size_t)i * gemm->n + j];
            if (got != kernel_bf16(sum)) {
                snprintf(text, size, "element (%u, %u) is %g, not %g", i, j, kernel_of_bf16(got), sum);
                return KERNEL_WRONG;
            }
        }
    }
    return KERNEL_RIGHT;
}

kernel_result gemm_run(const ptx_function *function, const void *problem, const sim_options *options,
                       sim_counters *counters, char *text, size_t size)
{
    const gemm_case *gemm = problem;
    matrices values = {kernel_memory(bytes_of(gemm->m, gemm->k)), kernel_memory(bytes_of(gemm->n, gemm->k)),
                       kernel_memory(bytes_of(gemm->m, gemm->n))};
    fill(values.a, gemm->m, gemm->k, 1);
    fill(values.b, gemm->n, gemm->k, 77);
    kernel_result result = launch(function, gemm, options, &values, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare(gemm, &values, text, size);
    }
    free(values.a);
    free(values.b);
    free(values.c);
    return result;
}
