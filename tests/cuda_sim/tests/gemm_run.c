/* gemm_run.c - see gemm_run.h. */
#include "gemm_run.h"
#include "../exec/tensor_map.h"
#include "../ptx/ptx.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 128, SLICE = 64, THREADS = 384, SHARED = 3 * 32768 + 2 * 16384 + 6 * 8 + 1024 };
enum { BF16_TYPE = 9, SWIZZLE_128 = 3 };

/* The kernel's parameters. */
typedef struct parameters {
    sim_tensor_map a, b, c;
    int32_t rows, columns, slices;
} parameters;

typedef struct matrices {
    uint16_t *a, *b, *c;
    size_t size_a, size_b, size_c;
} matrices;

char *gemm_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    char *text = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0 && (text = calloc(1, (size_t)size + 1)) &&
        fread(text, 1, (size_t)size, file) != (size_t)size) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_of(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* -3 to 3, each row and column its own. */
static void fill(uint16_t *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t x = ((uint32_t)i + seed) * 2654435761u;
        values[i] = bf16_of((float)(int)((x >> 16) % 7) - 3);
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

static int by_start(const void *a, const void *b)
{
    const sim_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static sim_range range_of(const uint16_t *values, size_t count, bool read_only)
{
    uint64_t start = (uint64_t)(uintptr_t)values;
    return (sim_range){start, start + 2 * count, read_only};
}

static bool launch(const ptx_function *function, const gemm_case *gemm, const sim_options *options,
                   const matrices *values, sim_fault *fault)
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
    sim_range ranges[] = {range_of(values->a, values->size_a, true), range_of(values->b, values->size_b, true),
                          range_of(values->c, values->size_c, false)};
    qsort(ranges, 3, sizeof ranges[0], by_start);
    sim_launch l = {.function = function,
                    .grid = {gemm->grid, 1, 1},
                    .block = {THREADS, 1, 1},
                    .cluster = {gemm->cluster, 1, 1},
                    .dynamic_shared = SHARED,
                    .params = (const uint8_t *)&p,
                    .ranges = ranges,
                    .range_count = 3,
                    .options = *options};
    return sim_launch_run(&l, NULL, fault);
}

static gemm_result compare(const gemm_case *gemm, const matrices *values, char *text, size_t size)
{
    for (uint32_t i = 0; i < gemm->m; i++) {
        for (uint32_t j = 0; j < gemm->n; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < gemm->k; k++) {
                sum +=
                    (double)float_of(values->a[(size_t)i * gemm->k + k]) * float_of(values->b[(size_t)j * gemm->k + k]);
            }
            uint16_t got = values->c[(size_t)i * gemm->n + j];
            if (got != bf16_of((float)sum)) {
                snprintf(text, size, "element (%u, %u) is %g, not %g", i, j, float_of(got), sum);
                return GEMM_WRONG;
            }
        }
    }
    return GEMM_RIGHT;
}

gemm_result gemm_run(const char *ptx, const gemm_case *gemm, const sim_options *options, char *text, size_t size)
{
    ptx_module *module = ptx_module_load(ptx, strlen(ptx), text, size);
    if (!module) {
        return GEMM_NOT_RUN;
    }
    matrices values = {
        .size_a = (size_t)gemm->m * gemm->k, .size_b = (size_t)gemm->n * gemm->k, .size_c = (size_t)gemm->m * gemm->n};
    values.a = aligned_alloc(128, (2 * values.size_a + 127) / 128 * 128);
    values.b = aligned_alloc(128, (2 * values.size_b + 127) / 128 * 128);
    values.c = aligned_alloc(128, (2 * values.size_c + 127) / 128 * 128);
    gemm_result result = GEMM_NOT_RUN;
    if (values.a && values.b && values.c) {
        fill(values.a, values.size_a, 1);
        fill(values.b, values.size_b, 77);
        memset(values.c, 0xff, 2 * values.size_c);
        sim_fault fault = {0};
        bool good = launch(ptx_module_entry(module, gemm->entry), gemm, options, &values, &fault);
        if (good) {
            result = compare(gemm, &values, text, size);
        } else {
            snprintf(text, size, "%s", fault.text);
            result = fault.kind == SIM_FAULT_RESOURCES ? GEMM_NOT_RUN : GEMM_FAULT;
        }
    }
    free(values.a);
    free(values.b);
    free(values.c);
    ptx_module_free(module);
    return result;
}
