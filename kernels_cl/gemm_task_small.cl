/* gemm_task_small.cl - GEMM for CPU devices with m <= ROWS: one work-item a group computes all rows of TILE_N columns
 * and reads B once, as it lies. TILE_K values of each row of A at a time are widened into local memory. With STRICT and
 * PARTS it has every option, B plain. */
#include "gemm_task.clh"

#define AHEAD 4 /* rows of B that one pass over the sums takes */

void add_one(local float *sum, float x, float y)
{
    *sum = ADD_ONE(*sum, x, y);
}

/* sums += A B for `depth` rows of B, which start at `b`. */
void add_plain(local const float *a, global const element *b, ulong ldb, uint depth, uint width, local float *sums)
{
    uint k = 0;
    for (; k + AHEAD <= depth; k += AHEAD, b += AHEAD * ldb) {
        global const element *p1 = b + ldb, *p2 = p1 + ldb, *p3 = p2 + ldb;
        uint j = 0;
        for (; j + 16 <= width; j += 16) {
            float8 b0 = READ8(b + j), b1 = READ8(p1 + j), b2 = READ8(p2 + j), b3 = READ8(p3 + j);
            float8 c0 = READ8(b + j + 8), c1 = READ8(p1 + j + 8), c2 = READ8(p2 + j + 8), c3 = READ8(p3 + j + 8);
#pragma unroll
            for (uint i = 0; i < ROWS; i++) {
                local const float *x = a + i * TILE_K + k;
                local float *to = sums + i * TILE_N + j;
                float8 sum0 = vload8(0, to), sum1 = vload8(1, to);
                sum0 = ADD_PRODUCT(sum0, x[0], b0), sum1 = ADD_PRODUCT(sum1, x[0], c0);
                sum0 = ADD_PRODUCT(sum0, x[1], b1), sum1 = ADD_PRODUCT(sum1, x[1], c1);
                sum0 = ADD_PRODUCT(sum0, x[2], b2), sum1 = ADD_PRODUCT(sum1, x[2], c2);
                sum0 = ADD_PRODUCT(sum0, x[3], b3), sum1 = ADD_PRODUCT(sum1, x[3], c3);
                vstore8(sum0, 0, to);
                vstore8(sum1, 1, to);
            }
        }
        for (; j < width; j++)
            for (uint i = 0; i < ROWS; i++)
                for (uint q = 0; q < AHEAD; q++)
                    add_one(&sums[i * TILE_N + j], a[i * TILE_K + k + q], READ(b, q * ldb + j));
    }
    for (; k < depth; k++, b += ldb)
        for (uint j = 0; j < width; j++)
            for (uint i = 0; i < ROWS; i++)
                add_one(&sums[i * TILE_N + j], a[i * TILE_K + k], READ(b, j));
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

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void gemm_task_small(TASK_SPANS, hal_gemm_args args)
{
    local float sums[ROWS * TILE_N];
    local float a_rows[ROWS * TILE_K];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * ROWS;
    const columns c = COLUMNS;
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const ulong a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    global const element *a = (global const element *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a);

    for (uint j = 0; j < ROWS * TILE_N; j++)
        sums[j] = 0.0f;
    for (uint k0 = 0; k0 < args.k; k0 += TILE_K) {
        const uint depth = min((uint)TILE_K, args.k - k0);
        for (uint i = 0; i < ROWS; i++)
            for (uint k = 0; k < depth; k++)
                a_rows[i * TILE_K + k] = READ(a, min(row0 + i, args.m - 1) * a_row + (k0 + k) * a_k);
        for (uint part = 0; part < c.parts; part++) {
            local float *to = sums + part * D_COLUMNS;
#if TRANS_B
            add_transposed(a_rows, B_PART(part) + c.first * ldb + k0, ldb, depth, c.width, to);
#else
            add_plain(a_rows, B_PART(part) + k0 * ldb + c.first, ldb, depth, c.width, to);
#endif
        }
    }

    const finisher f = FINISHER(problem);
    for (uint i = 0; i < ROWS && row0 + i < args.m; i++)
        finish_row(&f, row0 + i, &c, true, sums + i * TILE_N);
}
