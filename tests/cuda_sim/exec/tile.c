#include "tile.h"

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
    case PTX_F32:
        DECODE(uint32_t, sim_float(bits));
    case PTX_S8:
        DECODE(int8_t, bits);
    default:
        DECODE(uint8_t, bits);
    }
}

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef float eight __attribute__((vector_size(32)));

/* Eight rows, each with a sum of its own: an array of sums would not stay in registers. k is a constant. */
#define ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

static ALWAYS_INLINE void multiply_by(float *c, const float *a, const float *b, uint32_t b_stride, uint32_t k)
{
#define LOAD(row)                                                                                                      \
    eight sum##row;                                                                                                    \
    memcpy(&sum##row, c + SIM_TILE * (row), sizeof sum##row);
#define ADD(row)   sum##row += a[(row)*k + i] * right;
#define STORE(row) memcpy(c + SIM_TILE * (row), &sum##row, sizeof sum##row);
    ROWS(LOAD)
    for (uint32_t i = 0; i < k; i++) {
        eight right;
        memcpy(&right, b + (size_t)i * b_stride, sizeof right);
        ROWS(ADD)
    }
    ROWS(STORE)
#undef LOAD
#undef ADD
#undef STORE
}

static ALWAYS_INLINE void multiply(float *c, const float *a, const float *b, uint32_t b_stride, uint32_t k)
{
    switch (k) {
    case 4:
        multiply_by(c, a, b, b_stride, 4);
        break;
    case 8:
        multiply_by(c, a, b, b_stride, 8);
        break;
    case 16:
        multiply_by(c, a, b, b_stride, 16);
        break;
    default:
        multiply_by(c, a, b, b_stride, 32);
    }
}

#ifdef __x86_64__
/* No fma: the sums are the same bits on every machine. */
__attribute__((target("avx2"))) static void multiply_avx2(float *c, const float *a, const float *b, uint32_t b_stride,
                                                          uint32_t k)
{
    multiply(c, a, b, b_stride, k);
}
#endif

void sim_tile_multiply(float *c, const float *a, const float *b, uint32_t b_stride, uint32_t k)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        multiply_avx2(c, a, b, b_stride, k);
        return;
    }
#endif
    multiply(c, a, b, b_stride, k);
}

void sim_tile_load(float *c, const sim_warp *w, const uint32_t *slots, ptx_type type)
{
    if (type == PTX_F16) {
        sim_tile_decode(c, w->file + slots[0], PTX_F16, SIM_TILE_SIZE);
        return;
    }
    const float *low = sim_f32(w, slots[0]), *high = sim_f32(w, slots[1]);
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        c[2 * l] = low[l];
        c[2 * l + 1] = high[l];
    }
}

/* Sums to f16 are rounded once an instruction; that is not documented either. */
void sim_tile_store(sim_warp *w, const uint32_t *slots, ptx_type type, const float *c)
{
    if (type == PTX_F16) {
        for (uint32_t l = 0; l < PTX_LANES; l++) {
            sim_u32(w, slots[0])[l] =
                sim_nearest_f16(sim_bits32(c[2 * l + 1])) << 16 | sim_nearest_f16(sim_bits32(c[2 * l]));
        }
        return;
    }
    float *low = sim_f32(w, slots[0]), *high = sim_f32(w, slots[1]);
    for (uint32_t l = 0; l < PTX_LANES; l++) {
        low[l] = sim_canonical(c[2 * l]);
        high[l] = sim_canonical(c[2 * l + 1]);
    }
}

void sim_count_mma(sim_warp *warp, const char shape[SIM_SHAPE_NAME])
{
    sim_counters *counters = sim_count(warp);
    for (uint32_t s = 0; s < SIM_MMA_SHAPES; s++) {
        if (counters->mma_by_shape[s].count == 0) {
            memcpy(counters->mma_by_shape[s].shape, shape, SIM_SHAPE_NAME);
        }
        if (memcmp(counters->mma_by_shape[s].shape, shape, SIM_SHAPE_NAME) == 0) {
            counters->mma_by_shape[s].count++;
            return;
        }
    }
}

sim_next sim_whole_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    sim_next next = sim_converge(warp, insn, mask, UINT32_MAX);
    if (next == SIM_NEXT && mask != UINT32_MAX) {
        return sim_fault_at(warp, insn, -1, SIM_FAULT_DIVERGENT, "needs all 32 lanes, has 0x%08x", mask);
    }
    return next;
}
