#include "tile.h"
#include <stdio.h>

#define DECODE(T, expression)                                                                                          \
    for (uint32_t e = 0; e < count; e++) {                                                                             \
        T bits = ((const T *)from)[e];                                                                                 \
        to[e] = (expression);                                                                                          \
    }                                                                                                                  \
    break

void sim_tile_decode(float *to, const void *from, ptx_type type, uint32_t count)
{
    switch (type) {
    case PTX_F16:
        DECODE(uint16_t, sim_decode_f16(bits));
    case PTX_BF16:
        DECODE(uint16_t, sim_decode_bf16(bits));
    case PTX_TF32:
        DECODE(uint32_t, sim_float(bits & 0xffffe000));
    case PTX_E4M3:
        DECODE(uint8_t, sim_decode_e4m3(bits));
    case PTX_E5M2:
        DECODE(uint8_t, sim_decode_e5m2(bits));
    case PTX_S8:
        DECODE(int8_t, bits);
    default:
        DECODE(uint8_t, bits);
    }
}

typedef float eight __attribute__((vector_size(32)));

/* 8 rows by 8 columns at a time, whose sums stay in registers. */
static inline __attribute__((always_inline)) void multiply(float *c, uint32_t stride, const float *a, const float *b,
                                                           uint32_t n, uint32_t k)
{
    for (uint32_t column = 0; column < n; column += 8) {
        eight sum[8];
        for (uint32_t row = 0; row < 8; row++) {
            memcpy(&sum[row], c + row * stride + column, sizeof sum[row]);
        }
        for (uint32_t i = 0; i < k; i++) {
            eight right;
            memcpy(&right, b + (size_t)i * n + column, sizeof right);
            for (uint32_t row = 0; row < 8; row++) {
                sum[row] += a[row * k + i] * right;
            }
        }
        for (uint32_t row = 0; row < 8; row++) {
            memcpy(c + row * stride + column, &sum[row], sizeof sum[row]);
        }
    }
}

#ifdef __x86_64__
/* No fma: the sums are the same bits on every machine. */
__attribute__((target("avx2"))) static void multiply_avx2(float *c, uint32_t stride, const float *a, const float *b,
                                                          uint32_t n, uint32_t k)
{
    multiply(c, stride, a, b, n, k);
}
#endif

void sim_tile_multiply(float *c, uint32_t stride, const float *a, const float *b, uint32_t n, uint32_t k)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        multiply_avx2(c, stride, a, b, n, k);
        return;
    }
#endif
    multiply(c, stride, a, b, n, k);
}

void sim_count_mma(sim_warp *warp, const char *shape, uint64_t flops)
{
    sim_counters *counters = sim_count(warp);
    counters->mma_flops += flops;
    for (uint32_t s = 0; s < SIM_MMA_SHAPES; s++) {
        if (counters->mma_by_shape[s].count == 0) {
            snprintf(counters->mma_by_shape[s].shape, sizeof counters->mma_by_shape[s].shape, "%s", shape);
        }
        if (strcmp(counters->mma_by_shape[s].shape, shape) == 0) {
            counters->mma_by_shape[s].count++;
            return;
        }
    }
}
