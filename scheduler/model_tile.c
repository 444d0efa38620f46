/* model_tile.c - GEMM in tiles: traffic, working set, and quantising inside it. */
#include "model_parts.h"

enum { MOST_ELEMENT = 16 };

/* The problem with its defaults filled in. */
static hal_status read_gemm(const hal_model_gemm *gemm, hal_model_gemm *full)
{
    if (!gemm)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model gemm: the problem must not be NULL");
    *full = *gemm;
    uint64_t sizes[] = {full->m, full->k, full->n, full->tile_m, full->tile_k, full->tile_n};
    static const char *const names[] = {"m", "k", "n", "tile_m", "tile_k", "tile_n"};
    for (int i = 0; i < 6; i++)
        if (sizes[i] == 0)
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model gemm: %s must not be 0", names[i]);
    uint32_t *elements[] = {&full->a_size, &full->b_size, &full->d_size, &full->acc_size};
    for (int i = 0; i < 4; i++) {
        if (*elements[i] > MOST_ELEMENT)
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model gemm: elements of %u bytes; at most 16", *elements[i]);
        if (*elements[i] == 0)
            *elements[i] = i < 3 ? 2 : 4;
    }
    return HAL_OK;
}

static uint64_t matrix(bool *over, uint64_t rows, uint64_t columns, uint64_t element)
{
    return times(over, times(over, rows, columns), element);
}

hal_status hal_model_gemm_costs(const hal_model_gemm *gemm, hal_model_gemm_cost *cost)
{
    hal_model_gemm g;
    bool over = false;
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model gemm: cost must not be NULL");
    memset(cost, 0, sizeof *cost);
    hal_status status = read_gemm(gemm, &g);
    if (status != HAL_OK)
        return status;
    const uint64_t rows = parts_of(g.m, g.tile_m), columns = parts_of(g.n, g.tile_n);
    const uint64_t a = matrix(&over, g.m, g.k, g.a_size), b = matrix(&over, g.k, g.n, g.b_size);
    hal_model_gemm_cost c = {.flops = matrix(&over, g.m, g.k, times(&over, g.n, 2)),
                             .a_bytes = times(&over, a, columns),
                             .b_bytes = times(&over, b, rows),
                             .d_bytes = matrix(&over, g.m, g.n, g.d_size),
                             .tiles = times(&over, rows, columns)};
    c.minimum = plus(&over, plus(&over, a, b), c.d_bytes);
    c.traffic = plus(&over, plus(&over, c.a_bytes, c.b_bytes), c.d_bytes);
    c.working_set = plus(
        &over, plus(&over, matrix(&over, g.tile_m, g.tile_k, g.a_size), matrix(&over, g.tile_k, g.tile_n, g.b_size)),
        matrix(&over, g.tile_m, g.tile_n, g.acc_size));
    if (over)
        return too_large("model gemm");
    *cost = c;
    return HAL_OK;
}

static uint64_t buffer_size(const hal_model_machine *machine, const char *name)
{
    for (int i = 0; i < HAL_MODEL_BUFFERS; i++)
        if (!strcmp(machine->buffers[i].name, name))
            return machine->buffers[i].size;
    return 0;
}

bool hal_model_tile_fits(const hal_model_machine *machine, const hal_model_gemm *gemm, uint32_t slots,
                         const char **limit)
{
    hal_model_gemm g;
    bool over = false;
    const char *none, **too_small = limit ? limit : &none;
    *too_small = "";
    if (!machine || !slots || read_gemm(gemm, &g) != HAL_OK)
        return false;
    const uint64_t a = times(&over, matrix(&over, g.tile_m, g.tile_k, g.a_size), slots);
    const uint64_t b = times(&over, matrix(&over, g.tile_k, g.tile_n, g.b_size), slots);
    const uint64_t acc = matrix(&over, g.tile_m, g.tile_n, g.acc_size), all = plus(&over, plus(&over, a, b), acc);
    if (*machine->buffers[0].name)
        *too_small = over || a > buffer_size(machine, "L0A") ? "L0A"
                     : b > buffer_size(machine, "L0B")       ? "L0B"
                     : acc > buffer_size(machine, "L0C")     ? "L0C"
                                                             : NULL;
    else
        *too_small = over || all > machine->shared_per_block ? "shared" : NULL;
    return !*too_small;
}

uint64_t hal_model_mma_count(uint64_t m, uint64_t n, uint64_t k, uint64_t mma_m, uint64_t mma_n, uint64_t mma_k)
{
    bool over = false;
    if (!mma_m || !mma_n || !mma_k)
        return 0;
    uint64_t count = times(&over, times(&over, parts_of(m, mma_m), parts_of(n, mma_n)), parts_of(k, mma_k));
    return over ? 0 : count;
}

hal_status hal_model_quantize_gemm_costs(const hal_model_gemm *gemm, hal_model_quantize_gemm *cost)
{
    hal_model_gemm narrow, wide;
    hal_model_gemm_cost separate, fused;
    bool over = false;
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model quantise: cost must not be NULL");
    memset(cost, 0, sizeof *cost);
    hal_status status = read_gemm(gemm, &wide);
    if (status != HAL_OK)
        return status;
    narrow = wide;
    narrow.a_size = 1;
    if ((status = hal_model_gemm_costs(&narrow, &separate)) != HAL_OK ||
        (status = hal_model_gemm_costs(&wide, &fused)) != HAL_OK)
        return status;
    hal_model_quantize_gemm c = {.quantize_read = matrix(&over, wide.m, wide.k, wide.a_size),
                                 .quantize_write = matrix(&over, wide.m, wide.k, 1),
                                 .separate_a = separate.a_bytes,
                                 .fused_a = fused.a_bytes,
                                 .b_bytes = fused.b_bytes,
                                 .d_bytes = fused.d_bytes};
    c.fused_scan = c.quantize_read;
    c.separate = plus(&over, plus(&over, c.quantize_read, c.quantize_write), separate.traffic);
    c.fused = plus(&over, c.fused_scan, fused.traffic);
    if (over)
        return too_large("model quantise");
    *cost = c;
    return HAL_OK;
}
