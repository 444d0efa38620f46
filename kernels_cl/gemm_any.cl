/* gemm_any.cl - the GEMM with every option: E4M3 operands and output with scales, strict sums, SwiGLU, D transposed.
 * Constants: DTYPE STRICT PARTS. PARTS is 2 for SwiGLU: the gate's sums, then those it is multiplied by.
 *
 * One work-item computes MICRO x MICRO elements, k ascending, one accumulator for each. The tiles in local memory are
 * k-major; edges are filled with zeros. */
#include "gemm.clh"

#define TILE    32 /* rows and columns of D */
#define DEPTH   16
#define MICRO   4
#define SIDE    (TILE / MICRO)
#define THREADS (SIDE * SIDE)
#define PAD     4

#define ALL_SPANS                                                                                                      \
    SPANS, global const uchar *up_span, ulong up_offset, global const uchar *scale_a_span, ulong scale_a_offset,       \
        global const uchar *scale_b_span, ulong scale_b_offset, global const uchar *scale_d_span, ulong scale_d_offset

/* The epilogue and what it needs besides. */
typedef struct options {
    epilogue e;
    global const float *scale_a, *scale_b, *scale_d; /* of the problem */
    float swiglu_alpha;
    uint n;
} options;

#define SCALES(name) (global const float *)(name##_span + name##_offset) + problem *HAL_JOIN64(args.stride_##name)

#pragma OPENCL FP_CONTRACT OFF
float times(float x, float y)
{
    return STRICT ? hm_mul(x, y) : x * y;
}

float plus(float x, float y)
{
    return flush_if(STRICT, x + y);
}

/* What the next operator would read. */
float between(const options *o, float x)
{
    return flush_if(STRICT, round_to(GEMM_BETWEEN(o->e.flags), x));
}

float operand(global const uchar *p, uint dtype, ulong i)
{
    return flush_if(STRICT, load_element(p, dtype, i));
}

float scaled(const options *o, uint row, uint column, uint part, float sum)
{
    const uint flags = o->e.flags;
    const bool alternate = (flags & GEMM_INTERLEAVED) != 0;
    const uint each = alternate ? 2 * column + part : part * o->n + column, one = alternate ? 0 : part;
    if (GEMM_SCALE_A(flags))
        sum = times(sum, flush_if(STRICT, o->scale_a[GEMM_SCALE_A(flags) == GEMM_SCALE_EACH ? row : 0]));
    if (GEMM_SCALE_B(flags))
        sum = times(sum, flush_if(STRICT, o->scale_b[GEMM_SCALE_B(flags) == GEMM_SCALE_EACH ? each : one]));
    return times(flush_if(STRICT, o->e.alpha), sum);
}

/* The steps of finish_element (gemm.clh) or SwiGLU. */
void finish(const options *o, uint row, uint column, const float *sum)
{
    const epilogue *e = &o->e;
    const uint flags = e->flags;
    float v = scaled(o, row, column, 0, sum[0]);
    if (PARTS == 2) {
        const float gate = between(o, v), up = between(o, scaled(o, row, column, 1, sum[PARTS - 1]));
        v = times(round_to(GEMM_BETWEEN(flags), hm_times_sigmoid(gate, o->swiglu_alpha * gate)), up);
    }
    if (GEMM_DTYPE_C(flags))
        v = plus(v, times(flush_if(STRICT, e->beta),
                          operand(e->c, GEMM_DTYPE_C(flags), e->c_first + row * e->ldc + column)));
    if (GEMM_DTYPE_BIAS(flags))
        v = plus(v, operand(e->bias, GEMM_DTYPE_BIAS(flags), column));
    if (GEMM_ACT(flags))
        v = hm_activate(GEMM_ACT(flags), between(o, v));
    if (GEMM_DTYPE_RESIDUAL(flags))
        v = plus(between(o, v), operand(e->residual, GEMM_DTYPE_RESIDUAL(flags), e->r_first + row * e->ldr + column));
    if (GEMM_DTYPE_D(flags) == HAL_KERNEL_F8E4M3)
        v = between(o, v);
    const ulong at = e->d_first + (flags & GEMM_TRANS_D ? column * e->ldd + row : row * e->ldd + column);
    if (GEMM_SCALE_D(flags))
        e->d[at] = (uchar)hm_quantize(v, o->scale_d[row]);
    else
        store_element(e->d, GEMM_DTYPE_D(flags), at, v);
}
#pragma OPENCL FP_CONTRACT ON

__attribute__((reqd_work_group_size(SIDE, SIDE, 1))) kernel void gemm_any(ALL_SPANS, hal_gemm_args args)
{
    local float a_tile[DEPTH][TILE + PAD];
    local float b_tile[PARTS][DEPTH][TILE + PAD];
    const uint problem = get_group_id(2) + args.group_base[2];
    const uint row0 = (get_group_id(1) + args.group_base[1]) * TILE;
    const uint column0 = (get_group_id(0) + args.group_base[0]) * TILE;
    const uint tx = get_local_id(0), ty = get_local_id(1), thread = ty * SIDE + tx;
    const bool trans_a = (args.flags & GEMM_TRANS_A) != 0, trans_b = (args.flags & GEMM_TRANS_B) != 0;
    const bool alternate = (args.flags & GEMM_INTERLEAVED) != 0;
    const ulong lda = HAL_JOIN64(args.lda), ldb = HAL_JOIN64(args.ldb);
    const ulong a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
    const ulong b_column = (trans_b ? ldb : 1) * (alternate ? 2 : 1), b_k = trans_b ? 1 : ldb;
    const ulong a_first = problem * HAL_JOIN64(args.stride_a), b_first = problem * HAL_JOIN64(args.stride_b);

    float sum[MICRO][MICRO][PARTS];
    for (uint i = 0; i < MICRO; i++)
        for (uint j = 0; j < MICRO; j++)
            for (uint part = 0; part < PARTS; part++)
                sum[i][j][part] = 0.0f;

    for (uint k0 = 0; k0 < args.k; k0 += DEPTH) {
        for (uint item = thread; item < TILE * DEPTH; item += THREADS) {
            const uint i = trans_a ? item % TILE : item / DEPTH, k = trans_a ? item / TILE : item % DEPTH;
            float v = 0.0f;
            if (row0 + i < args.m && k0 + k < args.k)
                v = operand(a_span + a_offset, DTYPE, a_first + (row0 + i) * a_row + (k0 + k) * a_k);
            a_tile[k][i] = v;
        }
        for (uint part = 0; part < PARTS; part++) {
            global const uchar *b = part && !alternate ? up_span + up_offset : b_span + b_offset;
            const ulong first = b_first + (alternate ? part * (trans_b ? ldb : 1) : 0);
            for (uint item = thread; item < TILE * DEPTH; item += THREADS) {
                const uint j = trans_b ? item / DEPTH : item % TILE, k = trans_b ? item % DEPTH : item / TILE;
                float v = 0.0f;
                if (column0 + j < args.n && k0 + k < args.k)
                    v = operand(b, DTYPE, first + (column0 + j) * b_column + (k0 + k) * b_k);
                b_tile[part][k][j] = v;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < DEPTH; k++)
            for (uint part = 0; part < PARTS; part++)
                for (uint i = 0; i < MICRO; i++)
                    for (uint j = 0; j < MICRO; j++) {
                        const float x = a_tile[k][ty * MICRO + i], y = b_tile[part][k][j * SIDE + tx];
                        if (STRICT)
                            sum[i][j][part] = hm_add_product(sum[i][j][part], x, y);
                        else
                            sum[i][j][part] += x * y;
                    }
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const options o = {EPILOGUE(problem), SCALES(scale_a), SCALES(scale_b), SCALES(scale_d), args.swiglu_alpha, args.n};
    for (uint i = 0; i < MICRO; i++)
        for (uint j = 0; j < MICRO; j++) {
            const uint row = row0 + ty * MICRO + i, column = column0 + j * SIDE + tx;
            if (row < args.m && column < args.n)
                finish(&o, row, column, sum[i][j]);
        }
}
