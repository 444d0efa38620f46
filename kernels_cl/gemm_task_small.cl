/* gemm_task_small.cl - GEMM for CPU devices with m <= ROWS: one work-item a group computes all rows of TILE_N columns
 * and reads B once, as it lies. TILE_K values of each row of A at a time are widened into local memory. */
#include "gemm.clh"

#define AHEAD 4 /* rows of B that one pass over the sums takes */

/* sums += A B for `depth` rows of B, which start at `b`. */
void add_plain(local const float *a, global const element *b, ulong ldb, uint depth, uint width, local float *sums)
{
    uint k = 0;
    for (; k + AHEAD <= depth; k += AHEAD, b += AHEAD * ldb) {
        global const element *p1 = b + ldb, *p2 = p1 + ldb, *p3 = p2 + ldb;
        uint j = 0;
        for (; j + 16 <= width; j += 16) {
            float8 b0 = LOAD8(b + j), b1 = LOAD8(p1 + j), b2 = LOAD8(p2 + j), b3 = LOAD8(p3 + j);
            float8 c0 = LOAD8(b + j + 8), c1 = LOAD8(p1 + j + 8), c2 = LOAD8(p2 + j + 8), c3 = LOAD8(p3 + j + 8);
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                local const float *x = a + i * TILE_K + k;
                local float *to = sums + i * TILE_N + j;
                vstore8(x[3] * b3 + (x[2] * b2 + (x[1] * b1 + (x[0] * b0 + vload8(0, to)))), 0, to);
                vstore8(x[3] * c3 + (x[2] * c2 + (x[1] * c1 + (x[0] * c0 + vload8(1, to)))), 1, to);
            }
        }
        for (; j < width; j++)
            for (uint i = 0; i < ROWS; i++)
                for (uint q = 0; q < AHEAD; q++)
                    sums[i * TILE_N + j] += a[i * TILE_K + k + q] * LOAD(b, q * ldb + j);
    }
    for (; k < depth; k++, b += ldb)
        for (uint j = 0; j < width; j++)
            for (uint i = 0; i < ROWS; i++)
                sums[i * TILE_N + j] += a[i * TILE_K + k] * LOAD(b, j);
}

float add_up(float8 v)
{
    float4 w = v.lo + v.hi;
    return (w.x + w.z) + (w.y + w.w);
}

/* The same where B's columns are contiguous. */
void add_transposed(local const float *a, global const element *b, ulong ldb, uint depth, uint width, local float *sums)
{
    for (uint j = 0; j < width; j++, b += ldb) {
        float8 part[ROWS];
#pragma unroll
        for (uint i = 0; i < ROWS; i++)
            part[i] = (float8)(0.0f);
        uint k = 0;
        for (; k + 8 <= depth; k += 8) {
            float8 y = LOAD8(b + k);
#pragma unroll
            for (uint i = 0; i < ROWS; i++)
                part[i] = vload8(0, a + i * TILE_K + k) * y + part[i];
        }
#pragma unroll
        for (uint i = 0; i < ROWS; i++) {
            float total = add_up(part[i]);
            for (uint rest = k; rest < depth; rest++)
                total += a[i * TILE_K + rest] * LOAD(b, rest);
            sums[i * TILE_N + j] += total;
        }
    }
}

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void gemm_task_small(SPANS, hal_gemm_args args)
{
    local float sums[ROWS * TILE_N];
    local float a_rows[ROWS * TILE_K];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * ROWS;
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE_N, width = min((uint)TILE_N, args.n - column0);
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const ulong a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    global const element *a = (global const element *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a);
    global const element *b = (global const element *)(b_span + b_offset) + problem * HAL_JOIN64(args.stride_b);

    for (uint j = 0; j < ROWS * TILE_N; j++)
        sums[j] = 0.0f;
    for (uint k0 = 0; k0 < args.k; k0 += TILE_K) {
        const uint depth = min((uint)TILE_K, args.k - k0);
        for (uint i = 0; i < ROWS; i++)
            for (uint k = 0; k < depth; k++)
                a_rows[i * TILE_K + k] = LOAD(a, min(row0 + i, args.m - 1) * a_row + (k0 + k) * a_k);
#if TRANS_B
        add_transposed(a_rows, b + column0 * ldb + k0, ldb, depth, width, sums);
#else
        add_plain(a_rows, b + k0 * ldb + column0, ldb, depth, width, sums);
#endif
    }

    const epilogue e = EPILOGUE(problem);
    for (uint i = 0; i < ROWS && row0 + i < args.m; i++) {
        uint j = 0;
        for (; j + 8 <= width; j += 8)
            finish_elements8(&e, row0 + i, column0 + j, vload8(0, sums + i * TILE_N + j));
        for (; j < width; j++)
            finish_element(&e, row0 + i, column0 + j, sums[i * TILE_N + j]);
    }
}
