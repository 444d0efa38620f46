/* tile.h - products of small matrices, for mma.sync and wgmma. */
#ifndef TILE_H
#define TILE_H

#include "lanes.h"
#include "numeric.h"

enum { SIM_TILE = 8, SIM_TILE_SIZE = 64 };

/* `count` elements of `type` (F16, BF16, TF32, F32, E4M3, E5M2; S8 and U8), one behind the other, as floats. Of TF32
 * the lower 13 bits are not looked at (PTX ISA "Alternate Floating-Point Data Formats"). */
void sim_tile_decode(float *to, const void *from, ptx_type type, uint32_t count);

/* c[8][8] += a[8][k] * b[k][8], the rows of b `b_stride` floats apart; k is 4, 8, 16 or 32. The products are exact (up
 * to the range of f32) and are added one by one, k ascending, each sum rounded to f32. What a GPU does here is not
 * documented: its sums may differ in the last bits. */
void sim_tile_multiply(float *c, const float *a, const float *b, uint32_t b_stride, uint32_t k);

/* An accumulator fragment of 8 rows by 8 columns: lane l holds columns l % 4 * 2 and the next one of row l / 4, in two
 * registers or (F16) in the halves of one. slots: of these registers. */
void sim_tile_load(float *c, const sim_warp *warp, const uint32_t *slots, ptx_type type);
void sim_tile_store(sim_warp *warp, const uint32_t *slots, ptx_type type, const float *c);

/* Eight rows of eight 16-bit elements become its columns: each round takes row i and row i + 4 in turn, which moves the
 * bits of an element's place by one. */
typedef uint16_t sim_halves __attribute__((vector_size(16)));
#ifdef __clang__
#define SIM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SIM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (sim_halves){__VA_ARGS__})
#endif
static inline __attribute__((always_inline)) void sim_transpose_halves(sim_halves row[SIM_TILE])
{
    for (uint32_t round = 0; round < 3; round++) {
        sim_halves next[SIM_TILE];
        for (uint32_t r = 0; r < SIM_TILE / 2; r++) {
            const sim_halves a = row[r], b = row[r + 4];
            next[2 * r] = SIM_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
            next[2 * r + 1] = SIM_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(row, next, sizeof next);
    }
}

/* `shape` is filled up with NUL. */
void sim_count_mma(sim_warp *warp, const char shape[SIM_SHAPE_NAME]);

/* .sync.aligned: all 32 lanes are here. */
sim_next sim_whole_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask);

#endif
