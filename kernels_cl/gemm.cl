/* gemm.cl - D = act(alpha A B + beta C + bias) + residual. See scheduler/gemm.c for the list of kernels and
 * constants. */
#include "gemm.clh"

#ifdef HAL_KERNEL_gemm
/* One work-item computes MICRO_M x MICRO_N elements, its columns THREADS_N apart so that neighbours load and store
 * neighbours. The tiles in local memory are k-major; edges are filled with zeros. */
#define THREADS_M (TILE_M / MICRO_M)
#define THREADS_N (TILE_N / MICRO_N)
#define THREADS   (THREADS_M * THREADS_N)
#define PAD       4

__attribute__((reqd_work_group_size(THREADS_N, THREADS_M, 1))) kernel void gemm(SPANS, hal_gemm_args args)
{
    local float a_tile[TILE_K][TILE_M + PAD];
    local float b_tile[TILE_K][TILE_N + PAD];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * TILE_M;
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE_N;
    const uint tx = get_local_id(0), ty = get_local_id(1), thread = ty * THREADS_N + tx;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    global const element *a = (global const element *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a);
    global const element *b = (global const element *)(b_span + b_offset) + problem * HAL_JOIN64(args.stride_b);

    float sum[MICRO_M][MICRO_N];
    for (uint i = 0; i < MICRO_M; i++)
        for (uint j = 0; j < MICRO_N; j++)
            sum[i][j] = 0.0f;

    for (uint k0 = 0; k0 < args.k; k0 += TILE_K) {
        for (uint e = thread; e < TILE_M * TILE_K; e += THREADS) {
            uint i = TRANS_A ? e % TILE_M : e / TILE_K, k = TRANS_A ? e / TILE_M : e % TILE_K;
            float v = 0.0f;
            if (row0 + i < args.m && k0 + k < args.k)
                v = LOAD(a, TRANS_A ? (k0 + k) * lda + row0 + i : (row0 + i) * lda + k0 + k);
            a_tile[k][i] = v;
        }
        for (uint e = thread; e < TILE_N * TILE_K; e += THREADS) {
            uint j = TRANS_B ? e / TILE_K : e % TILE_N, k = TRANS_B ? e % TILE_K : e / TILE_N;
            float v = 0.0f;
            if (column0 + j < args.n && k0 + k < args.k)
                v = LOAD(b, TRANS_B ? (column0 + j) * ldb + k0 + k : (k0 + k) * ldb + column0 + j);
            b_tile[k][j] = v;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TILE_K; k++) {
            float x[MICRO_M], y[MICRO_N];
            for (uint i = 0; i < MICRO_M; i++)
                x[i] = a_tile[k][ty * MICRO_M + i];
            for (uint j = 0; j < MICRO_N; j++)
                y[j] = b_tile[k][j * THREADS_N + tx];
            for (uint i = 0; i < MICRO_M; i++)
                for (uint j = 0; j < MICRO_N; j++)
                    sum[i][j] += x[i] * y[j];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const epilogue e = EPILOGUE(problem);
    for (uint i = 0; i < MICRO_M; i++) {
        for (uint j = 0; j < MICRO_N; j++) {
            uint row = row0 + ty * MICRO_M + i, column = column0 + j * THREADS_N + tx;
            if (row < args.m && column < args.n)
                finish_element(&e, row, column, sum[i][j]);
        }
    }
}
#endif

#ifdef HAL_KERNEL_gemm_small
/* m <= ROWS: B is read once and shared by all rows. A column's k are dealt out to THREADS / TILE_N work-items, whose
 * parts are added in order at the end. */
#define SLICES (THREADS / TILE_N)

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void gemm_small(SPANS, hal_gemm_args args)
{
    local float parts[ROWS][THREADS];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * ROWS;
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE_N;
    const uint thread = get_local_id(0);
    /* Neighbours read neighbours: columns where B is plain, k where it is transposed. */
    const uint j = TRANS_B ? thread / SLICES : thread % TILE_N, slice = TRANS_B ? thread % SLICES : thread / TILE_N;
    const ulong column = min(column0 + j, args.n - 1);
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const ulong a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    global const element *a = (global const element *)(a_span + a_offset) + problem * HAL_JOIN64(args.stride_a);
    global const element *b = (global const element *)(b_span + b_offset) + problem * HAL_JOIN64(args.stride_b);

    float sum[ROWS];
    for (uint i = 0; i < ROWS; i++)
        sum[i] = 0.0f;
    for (uint k = slice; k < args.k; k += SLICES) {
        float y = LOAD(b, TRANS_B ? column * ldb + k : k * ldb + column);
        for (uint i = 0; i < ROWS; i++)
            sum[i] += LOAD(a, min(row0 + i, args.m - 1) * a_row + k * a_k) * y;
    }
    for (uint i = 0; i < ROWS; i++)
        parts[i][j * SLICES + slice] = sum[i];
    barrier(CLK_LOCAL_MEM_FENCE);

    const epilogue e = EPILOGUE(problem);
    for (uint item = thread; item < ROWS * TILE_N; item += THREADS) {
        uint i = item / TILE_N, c = item % TILE_N;
        float total = 0.0f;
        for (uint s = 0; s < SLICES; s++)
            total += parts[i][c * SLICES + s];
        if (row0 + i < args.m && column0 + c < args.n)
            finish_element(&e, row0 + i, column0 + c, total);
    }
}
#endif
