/* rmsnorm.cu - y = x / sqrt(mean(x^2) + eps) * weight. One entry: dtypes and the rest come from flags. A block has
 * blockDim.x threads a row and blockDim.y rows, 256 in all. */
#include "reduce.cuh"

struct row_in {
    const void *x, *weight, *residual;
    void *sum;
    uint64_t x_at, r_at, s_at;
    uint32_t columns; /* end of what is looked at */
    uint32_t type_x, type_weight, between, what;
    bool strict, quantised, wide_x, wide_weight, wide_r, wide_s;
};

struct row_out {
    void *y;
    uint64_t at;
    uint32_t type;
    bool wide, there;
};

__device__ __forceinline__ uint32_t count_at(const row_in &in, uint32_t c)
{
    return c < in.columns ? min(in.columns - c, 4u) : 0;
}

/* Four of x, or of x + residual, rounded as if it had been stored; zero beyond the end. */
__device__ __forceinline__ void values(const row_in &in, uint32_t c, float (&v)[4])
{
    float r[4];
    load_part4(in.x, in.type_x, in.x_at + c, count_at(in, c), in.wide_x, v);
    if ((in.what & RMSNORM_RESIDUAL) != 0) {
        load_part4(in.residual, in.type_x, in.r_at + c, count_at(in, c), in.wide_r, r);
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] =
                round_to(in.type_x, flush_if(in.strict, HM_ADD(flush_if(in.strict, v[i]), flush_if(in.strict, r[i]))));
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = flush_if(in.strict, v[i]);
}

/* The new residual: written last, since it may lie where x or the residual was. */
__device__ __forceinline__ void store_sum(const row_in &in, uint32_t c, bool there, const float (&v)[4])
{
    if (there && (in.what & RMSNORM_SUM) != 0)
        store_part4(in.sum, in.type_x, in.s_at + c, count_at(in, c), in.wide_s, v);
}

/* Strict: a square that would be subnormal is zero. */
__device__ __forceinline__ float square(const row_in &in, float v)
{
    return in.strict && hm_abs(v) < 1.0842021724855044e-19f ? 0.0f : HM_MUL(v, v); /* 2^-63 */
}

__device__ __forceinline__ float4 squares(const row_in &in, const float (&v)[4])
{
    return make_float4(square(in, v[0]), square(in, v[1]), square(in, v[2]), square(in, v[3]));
}

__device__ __forceinline__ float inverse_root(float sum, const hal_rmsnorm_args &args)
{
    return hm_rsqrt(HM_ADD(hm_mul(sum, args.inverse), args.eps));
}

__device__ __forceinline__ float product(const row_in &in, float a, float b)
{
    return in.strict ? hm_mul(a, b) : HM_MUL(a, b);
}

/* From values to the normalised row. */
__device__ __forceinline__ void normalise(const row_in &in, uint32_t c, float root, float (&v)[4])
{
    float w[4];
    if (in.type_weight != 0)
        load_part4(in.weight, in.type_weight, c, count_at(in, c), in.wide_weight, w);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = product(in, v[i], root);
        if (in.type_weight != 0)
            v[i] = product(in, v[i], flush_if(in.strict, w[i]));
        if (in.quantised)
            v[i] = round_to(in.between, v[i]);
    }
}

__device__ __forceinline__ float greatest(const float (&v)[4], float most)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = greater(most, hm_abs(v[i]));
    return most;
}

__device__ __forceinline__ void store(const row_in &in, const row_out &out, uint32_t c, float scale,
                                      const float (&v)[4])
{
    const uint32_t count = out.there ? count_at(in, c) : 0;
    if (!in.quantised) {
        store_part4(out.y, out.type, out.at + c, count, out.wide, v);
        return;
    }
    uint32_t codes[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        codes[i] = hm_quantize(v[i], scale);
    uint8_t *y = (uint8_t *)out.y + out.at + c;
    if (out.wide && count == 4) {
        *(uint32_t *)y = codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i < count)
            y[i] = (uint8_t)codes[i];
}

/* A row that stays on chip. Its scale, if it is quantised. */
__device__ __forceinline__ float row_kept(const row_in &in, const row_out &out, const hal_rmsnorm_args &args,
                                          uint32_t keep, row_scratch &scratch)
{
    const uint32_t t = threadIdx.x, step = 4 * blockDim.x;
    float v[4], most = 0.0f, scale = 1.0f;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
    for (uint32_t k = 0; k < keep; k++) {
        values(in, 4 * t + step * k, v);
        sum = plus(sum, squares(in, v));
        kept_four(k) = make_float4(v[0], v[1], v[2], v[3]);
    }
    const float root = inverse_root(group_sum(sum, scratch), args);
#pragma unroll 1
    for (uint32_t k = 0; k < keep; k++) {
        const float4 four = kept_four(k);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        store_sum(in, 4 * t + step * k, out.there, v);
        normalise(in, 4 * t + step * k, root, v);
        if (!in.quantised) {
            store(in, out, 4 * t + step * k, scale, v);
        } else {
            most = greatest(v, most);
            kept_four(k) = make_float4(v[0], v[1], v[2], v[3]);
        }
    }
    if (!in.quantised)
        return scale;
    scale = hm_row_scale(group_max(most, scratch, 0));
#pragma unroll 1
    for (uint32_t k = 0; k < keep; k++) {
        const float4 four = kept_four(k);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
        store(in, out, 4 * t + step * k, scale, v);
    }
    return scale;
}

/* Of the thread's own partial sums: four with 256 threads, twice four with 128. */
__device__ __forceinline__ float4 sum_of_row(const row_in &in)
{
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t first = 4 * threadIdx.x; first < ROW_SUMS; first += 4 * blockDim.x) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
        for (uint32_t c = first; c < in.columns; c += ROW_SUMS) {
            float v[4];
            values(in, c, v);
            sum = plus(sum, squares(in, v));
        }
        total = plus(total, sum);
    }
    return total;
}

__device__ __forceinline__ float greatest_of(const row_in &in, uint32_t begin, float root)
{
    float v[4], most = 0.0f;
    for (uint32_t c = begin + 4 * threadIdx.x; c < in.columns; c += 4 * blockDim.x) {
        values(in, c, v);
        normalise(in, c, root, v);
        most = greatest(v, most);
    }
    return most;
}

__device__ __forceinline__ void write(const row_in &in, const row_out &out, uint32_t begin, float root, float scale)
{
    float v[4];
    for (uint32_t c = begin + 4 * threadIdx.x; c < in.columns; c += 4 * blockDim.x) {
        values(in, c, v);
        store_sum(in, c, out.there, v);
        normalise(in, c, root, v);
        store(in, out, c, scale, v);
    }
}

__device__ __forceinline__ float row_read_again(const row_in &in, const row_out &out, const hal_rmsnorm_args &args,
                                                row_scratch &scratch)
{
    const float root = inverse_root(group_sum(sum_of_row(in), scratch), args);
    float scale = 1.0f;
    if (in.quantised)
        scale = hm_row_scale(group_max(greatest_of(in, 0, root), scratch, 0));
    write(in, out, 0, root, scale);
    return scale;
}

/* One part of a row's partial sums, ROW_SUMS / RMSNORM_PARTS of them: all threads fetch, as many as there are partial
 * sums add. */
__device__ __forceinline__ void sums_of_part(const row_in &in, uint32_t part, float *sums, row_scratch &scratch)
{
    const uint32_t t = threadIdx.x, width = ROW_SUMS / RMSNORM_PARTS, deep = 4 * blockDim.x / width;
    const uint32_t mine = part * width + 4 * t % width + 4 * t / width * ROW_SUMS;
    const float *squared = (const float *)scratch.sums;
    float own = 0.0f;
    for (uint32_t c = 0; c < in.columns; c += deep * ROW_SUMS) {
        float v[4];
        values(in, c + mine, v);
        __syncthreads();
        scratch.sums[t] = squares(in, v);
        __syncthreads();
        for (uint32_t k = 0; t < width && k < deep; k++)
            own = HM_ADD(own, squared[k * width + t]);
    }
    if (t < width)
        sums[part * width + t] = own;
}

/* What comes after, for a part of the columns. */
__device__ __forceinline__ void part_of_row(row_in &in, const row_out &out, const hal_rmsnorm_args &args, uint32_t part,
                                            float *parts, float *scale_of_row, bool amax, row_scratch &scratch)
{
    const uint32_t t = threadIdx.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t i = 4 * t; i < ROW_SUMS; i += 4 * blockDim.x)
        sum = plus(sum, make_float4(parts[i], parts[i + 1], parts[i + 2], parts[i + 3]));
    const float root = inverse_root(group_sum(sum, scratch), args);
    const uint32_t begin = min(part * args.part_columns, args.columns);
    in.columns = min(begin + args.part_columns, args.columns);
    if (amax) {
        const float most = group_max(greatest_of(in, begin, root), scratch, 0);
        if (t == 0)
            parts[ROW_SUMS + part] = most;
        return;
    }
    float scale = 1.0f;
    if (in.quantised) {
        scale = hm_row_scale(group_max(t < RMSNORM_PARTS ? parts[ROW_SUMS + t] : 0.0f, scratch, 0));
        if (t == 0 && part == 0)
            *scale_of_row = scale;
    }
    write(in, out, begin, root, scale);
}

extern "C" __global__ void __launch_bounds__(256, 2)
    rmsnorm(const void *x, const void *weight, const void *residual, void *sum, void *y, void *scales_span,
            void *parts_span, const __grid_constant__ hal_rmsnorm_args args)
{
    __shared__ row_scratch scratch;
    const uint32_t part = blockIdx.y + args.group_base[1];
    const uint32_t asked = (blockIdx.x + args.group_base[0]) * blockDim.y + threadIdx.y;
    const uint32_t row = min(asked, args.rows - 1); /* all take part in the barriers */
    const uint32_t type_x = ROW_DTYPE(args.flags, 0), type_weight = ROW_DTYPE(args.flags, 1);
    const uint32_t type_y = ROW_DTYPE(args.flags, 2), op = ROW_OP(args.flags), phase = RMSNORM_PHASE(op);
    const uint64_t ldx = HAL_JOIN64(args.ldx), ldr = HAL_JOIN64(args.ldr), lds = HAL_JOIN64(args.lds),
                   ldy = HAL_JOIN64(args.ldy);
    row_in in = {x,
                 weight,
                 residual,
                 sum,
                 row * ldx,
                 row * ldr,
                 row * lds,
                 args.columns,
                 type_x,
                 type_weight,
                 ROW_DTYPE(args.flags, 3),
                 op & (RMSNORM_RESIDUAL | RMSNORM_SUM),
                 ROW_STRICT(args.flags),
                 type_y == HAL_KERNEL_F8E4M3,
                 rows_wide(x, type_x, ldx),
                 rows_wide(weight, type_weight, 0),
                 rows_wide(residual, type_x, ldr),
                 rows_wide(sum, type_x, lds)};
    const row_out out = {y, row * ldy, type_y, rows_wide(y, type_y, ldy), asked == row};
    float *scale = (float *)scales_span + row, *parts = (float *)parts_span + (uint64_t)row * RMSNORM_ROW;
    if (phase == RMSNORM_SUMS) {
        sums_of_part(in, part, parts, scratch);
    } else if (phase != RMSNORM_WHOLE) {
        part_of_row(in, out, args, part, parts, scale, phase == RMSNORM_AMAX, scratch);
    } else {
        const float s =
            ROW_KEEP(op) != 0 ? row_kept(in, out, args, ROW_KEEP(op), scratch) : row_read_again(in, out, args, scratch);
        if (in.quantised && out.there && threadIdx.x == 0)
            *scale = s;
    }
}
