/* model_chain.c - the activation chain SiLU(gate) * up, quantised: bytes and peak, fused and not. */
#include "model_parts.h"

enum { BF16 = 2, E4M3 = 1 };

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

hal_status hal_model_chain_costs(uint64_t rows, uint64_t columns, hal_model_chain *cost)
{
    bool over = false;
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model chain: cost must not be NULL");
    memset(cost, 0, sizeof *cost);
    if (!rows || !columns)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model chain: rows and columns must not be 0");
    const uint64_t elements = times(&over, rows, columns);
    const uint64_t wide = times(&over, elements, BF16), narrow = times(&over, elements, E4M3);
    if (over || elements > UINT64_MAX / 16)
        return too_large("model chain");
    hal_model_chain c = {.silu = wide + wide, /* gate; its SiLU */
                         .multiply = wide + wide + wide,
                         .silu_multiply = wide + wide + wide,
                         .quantize = wide + narrow};
    c.bytes_separate = c.silu + c.multiply + c.quantize;
    c.bytes_partial = c.silu_multiply + c.quantize;
    c.bytes_fused = wide + wide + narrow;
    /* `up` waits while SiLU reads gate and writes; from then on gate is dead. */
    const uint64_t at_silu = wide + wide + wide, at_multiply = wide + wide + wide, at_quantize = wide + narrow;
    c.peak_separate = larger(larger(at_silu, at_multiply), at_quantize);
    c.peak_partial = larger(at_multiply, at_quantize);
    c.peak_fused = wide + wide + narrow;
    *cost = c;
    return HAL_OK;
}
