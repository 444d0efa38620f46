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

/* `shape` is filled up with NUL. */
void sim_count_mma(sim_warp *warp, const char shape[SIM_SHAPE_NAME]);

/* .sync.aligned: all 32 lanes are here. */
sim_next sim_whole_warp(sim_warp *warp, const ptx_insn *insn, uint32_t mask);

#endif
