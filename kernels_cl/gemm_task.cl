/* gemm_task.cl - GEMM for CPU devices: a group is one work-item, one core's task, and computes TILE_M x TILE_N of D
 * with explicit vectors. BLOCK rows of B at a time are packed into local memory as panels of PANEL columns; A is read
 * where it lies, or packed GROUP rows at a time where it must be widened, transposed or looked at. Sums wait in local
 * memory between the blocks of k. TILE_M is a multiple of 6, TILE_N and TILE_K of 16. With STRICT and PARTS it has
 * every option; of SwiGLU a tile's columns are those of B: half as many of D. */
#include "columns.clh"
#include "gemm_task.clh"

/* A micro tile is 6 rows by two vectors: 12 accumulators, 2 vectors of B and a broadcast fit 16 registers. Where the
 * compiler says that it has 32 of them, by four; a block is then half as deep, so that a panel takes as much cache. */
#define ROWS 6
#if defined(__AVX512F__) && D_COLUMNS % 32 == 0
#define PANEL        32
#define OF_FOUR(...) __VA_ARGS__
#else
#define PANEL 16
#define OF_FOUR(...)
#endif
#define BLOCK       (TILE_K * 16 / PANEL)
#define PACK_A      (TRANS_A || STRICT || DTYPE != HAL_KERNEL_F32)
#define GROUP       (TRANS_A ? 24 : ROWS) /* rows of A packed at once: transposed, a cache line holds several */

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)

/* Pack rows [0, depth) x columns [0, width) of B into panels; columns beyond width are zero. */
void pack_b(global const element *b, ulong ldb, uint depth, uint width, local float *panels)
{
    for (uint j = 0; j < width; j += PANEL, panels += PANEL * BLOCK) {
        uint columns = min((uint)PANEL, width - j);
        local float *out = panels;
#if TRANS_B
        global const element *from = b + j * ldb;
        if (columns < PANEL)
            for (uint k = 0; k < depth; k++)
                for (uint c = 0; c < PANEL; c++)
                    out[k * PANEL + c] = c < columns ? READ(from, c * ldb + k) : 0.0f;
        for (uint half_panel = 0; columns == PANEL && half_panel < PANEL; half_panel += 8) {
            global const element *p = from + half_panel * ldb;
            uint k = 0;
            for (; k + 8 <= depth; k += 8, p += 8) {
                float8 rows[8];
#pragma unroll
                for (uint r = 0; r < 8; r++)
                    rows[r] = READ8(p + r * ldb);
                store_turned(rows, out + k * PANEL + half_panel, PANEL);
            }
            for (; k < depth; k++, p++)
                for (uint c = 0; c < 8; c++)
                    out[k * PANEL + half_panel + c] = READ(p, c * ldb);
        }
#else
        global const element *from = b + j;
        for (uint k = 0; k < depth; k++, from += ldb, out += PANEL) {
            if (columns == PANEL) {
                for (uint c = 0; c < PANEL; c += 8)
                    vstore8(READ8(from + c), 0, out + c);
            } else {
                for (uint c = 0; c < PANEL; c++)
                    out[c] = c < columns ? READ(from, c) : 0.0f;
            }
        }
#endif
    }
}

#if PACK_A
/* Pack rows [row, row + GROUP) x [k0, k0 + depth) of A, each row contiguous; rows from `end` on repeat the last. */
void pack_a(global const element *a, ulong lda, uint row, uint end, uint k0, uint depth, local float *out)
{
#if TRANS_A
    for (uint r = 0; r < GROUP; r += 8, out += 8 * BLOCK) {
        uint k = 0;
        for (; row + r + 8 <= end && k + 8 <= depth; k += 8) {
            global const element *p = a + (k0 + k) * lda + row + r;
            float8 rows[8];
#pragma unroll
            for (uint i = 0; i < 8; i++)
                rows[i] = READ8(p + i * lda);
            store_turned(rows, out + k, BLOCK);
        }
        for (; k < depth; k++)
            for (uint c = 0; c < 8; c++)
                out[c * BLOCK + k] = READ(a, (k0 + k) * lda + min(row + r + c, end - 1));
    }
#else
    for (uint r = 0; r < GROUP; r++, out += BLOCK) {
        global const element *from = a + min(row + r, end - 1) * lda + k0;
        uint k = 0;
        for (; k + 8 <= depth; k += 8)
            vstore8(READ8(from + k), 0, out + k);
        for (; k < depth; k++)
            out[k] = READ(from, k);
    }
#endif
}
#define A_ROW(r) local const float *a##r = a_rows + ((row - row0) % GROUP + r) * BLOCK;
#else
#define A_ROW(r) global const float *a##r = a + min(row + r, row_end - 1) * lda + k0;
#endif

#define DECLARE(r) float8 sum##r##0, sum##r##1 OF_FOUR(, sum##r##2, sum##r##3);
#define CLEAR(r)   sum##r##0 = sum##r##1 = OF_FOUR(sum##r##2 = sum##r##3 =)(float8)(0.0f);
#define RESUME(r)                                                                                                      \
    sum##r##0 = vload8(0, to + r * TILE_N);                                                                            \
    sum##r##1 = vload8(1, to + r * TILE_N);                                                                            \
    OF_FOUR(sum##r##2 = vload8(2, to + r * TILE_N); sum##r##3 = vload8(3, to + r * TILE_N);)
#define STEP_BY(MULTIPLY_ADD, r)                                                                                       \
    {                                                                                                                  \
        float x = a##r[k];                                                                                             \
        sum##r##0 = MULTIPLY_ADD(sum##r##0, x, b0);                                                                    \
        sum##r##1 = MULTIPLY_ADD(sum##r##1, x, b1);                                                                    \
        OF_FOUR(sum##r##2 = MULTIPLY_ADD(sum##r##2, x, b2); sum##r##3 = MULTIPLY_ADD(sum##r##3, x, b3);)               \
    }
#define STEP(r)        STEP_BY(ADD_LARGE, r)
#define STRICT_STEP(r) STEP_BY(ADD_PRODUCT, r)
#define MULTIPLY(STEP)                                                                                                 \
    for (uint k = 0; k < depth; k++, panel += PANEL) {                                                                 \
        float8 b0 = vload8(0, panel), b1 = vload8(1, panel);                                                           \
        OF_FOUR(float8 b2 = vload8(2, panel), b3 = vload8(3, panel);)                                                  \
        EACH_ROW(STEP)                                                                                                 \
    }
#define KEEP(r)                                                                                                        \
    vstore8(sum##r##0, 0, to + r * TILE_N);                                                                            \
    vstore8(sum##r##1, 1, to + r * TILE_N);                                                                            \
    OF_FOUR(vstore8(sum##r##2, 2, to + r * TILE_N); vstore8(sum##r##3, 3, to + r * TILE_N);)

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void gemm_task(TASK_SPANS, hal_gemm_args args)
{
    local float panels[BLOCK * TILE_N];
    local float sums[TILE_M * TILE_N];
#if PACK_A
    local float a_rows[GROUP * BLOCK];
#endif
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * TILE_M, row_end = min(row0 + TILE_M, args.m);
    const columns c = COLUMNS;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    global const element *a = (global const element *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a);
    bool large = STRICT;

    for (uint k0 = 0; k0 < args.k; k0 += BLOCK) {
        const uint depth = min((uint)BLOCK, args.k - k0);
        for (uint part = 0; part < c.parts; part++) {
            local float *to = panels + part * D_COLUMNS * BLOCK;
            pack_b(B_PART(part) + (TRANS_B ? c.first * ldb + k0 : k0 * ldb + c.first), ldb, depth, c.width, to);
            for (uint j = 0; large && j < c.width; j += PANEL)
                large = all_large(to + j * BLOCK, depth * PANEL);
        }
        for (uint row = row0; row < row_end; row += ROWS) {
#if PACK_A
            if ((row - row0) % GROUP == 0) {
                pack_a(a, lda, row, row_end, k0, depth, a_rows);
                for (uint r = 0; large && r < GROUP; r++)
                    large = all_large(a_rows + r * BLOCK, depth);
            }
#endif
            EACH_ROW(A_ROW)
            for (uint part = 0; part < c.parts; part++) {
                for (uint j = part * D_COLUMNS; j < part * D_COLUMNS + c.width; j += PANEL) {
                    local const float *panel = panels + j * BLOCK;
                    local float *to = sums + (row - row0) * TILE_N + j;
                    EACH_ROW(DECLARE)
                    if (k0 == 0) {
                        EACH_ROW(CLEAR)
                    } else {
                        EACH_ROW(RESUME)
                    }
                    if (large || !STRICT) {
                        MULTIPLY(STEP)
                    } else {
                        MULTIPLY(STRICT_STEP)
                    }
                    EACH_ROW(KEEP)
                }
            }
        }
    }

    const finisher f = FINISHER(problem);
    for (uint row = row0; row < row_end; row++)
        finish_row(&f, row, &c, args.k != 0, sums + (row - row0) * TILE_N);
}
