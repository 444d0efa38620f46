/* tile.h - products of small matrices, for mma.sync and wgmma. */
#ifndef TILE_H
#define TILE_H

#include "lanes.h"
#include "numeric.h"

/* `count` elements of `type` (F16, BF16, TF32, E4M3, E5M2; S8 and U8), one behind the other, as floats. Of TF32 the
 * lower 13 bits are not looked at (PTX ISA "Alternate Floating-Point Data Formats"). */
void sim_tile_decode(float *to, const void *from, ptx_type type, uint32_t count);

/* c[8][n] += a[8][k] * b[k][n]: n a multiple of 8, the rows of c `stride` floats apart. The products are exact (up to
 * the range of f32) and are added one by one, k ascending, each sum rounded to f32. What a GPU does here is not
 * documented: its sums may differ in the last bits. */
void sim_tile_multiply(float *c, uint32_t stride, const float *a, const float *b, uint32_t n, uint32_t k);

/* shape: lives as long as the module. */
void sim_count_mma(sim_warp *warp, const char *shape, uint64_t flops);

/* A type as mma names it for a multiplicand; bits of an element. */
static inline uint32_t sim_tile_bits(ptx_type type)
{
    return 8 * ptx_type_size(type);
}

#endif
