/* softmax.cu - y = softmax(scale x + mask) or its logarithm. One entry: dtypes and the rest come from flags. A block
 * has blockDim.x threads a row and blockDim.y rows, 256 in all. */
#include "reduce.cuh"

struct row_in {
    const void *x, *mask;
    uint64_t x_at, mask_at;
    uint32_t columns, type_x, type_mask;
    float scale;
    bool strict, log, wide_x, wide_mask;
};

/* Scores of columns c to c + 3; -infinity beyond the row, and where the mask hides. */
__device__ __forceinline__ void scores(const row_in &in, uint32_t c, float (&s)[4])
{
    const uint32_t count = c < in.columns ? min(in.columns - c, 4u) : 0;
    float m[4];
    load_part4(in.x, in.type_x, in.x_at + c, count, in.wide_x, s);
    if (in.type_mask != 0 && in.type_mask != SOFTMAX_BOOL)
        load_part4(in.mask, in.type_mask, in.mask_at + c, count, in.wide_mask, m);
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float x = flush_if(in.strict, s[i]);
        s[i] = in.strict ? hm_mul(x, in.scale) : HM_MUL(x, in.scale);
        if (in.type_mask == SOFTMAX_BOOL) {
            s[i] = i < count && ((const uint8_t *)in.mask)[in.mask_at + c + i] != 0 ? s[i] : -HM_INFINITY;
        } else if (in.type_mask != 0) {
            const float add = flush_if(in.strict, m[i]);
            s[i] = add == -HM_INFINITY ? add : flush_if(in.strict, HM_ADD(s[i], add));
        }
        s[i] = i < count ? s[i] : -HM_INFINITY;
    }
}

__device__ __forceinline__ float greatest(const float (&s)[4], float most)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
        most = greater(most, s[i]);
    return most;
}

/* What is subtracted; a row that is hidden whole gives exp(-infinity). */
__device__ __forceinline__ float base_of(float most)
{
    return most == -HM_INFINITY ? 0.0f : most;
}

__device__ __forceinline__ float4 exp_from(const float (&s)[4], float base)
{
    return make_float4(hm_exp_below(HM_ADD(s[0], -base)), hm_exp_below(HM_ADD(s[1], -base)),
                       hm_exp_below(HM_ADD(s[2], -base)), hm_exp_below(HM_ADD(s[3], -base)));
}

/* A row's result from one score and its exponential; `unit` is 1 / sum, or log(sum). */
__device__ __forceinline__ float result(const row_in &in, float score, float e, float base, float unit)
{
    if (in.log)
        return flush_if(in.strict, HM_ADD(HM_ADD(score, -base), -unit));
    return in.strict ? hm_mul(e, unit) : HM_MUL(e, unit);
}

__device__ __forceinline__ float unit_of(const row_in &in, float sum)
{
    if (in.log)
        return sum == 0.0f ? 0.0f : hm_log(sum);
    return sum == 0.0f ? 0.0f : hm_reciprocal(sum);
}

struct row_out {
    void *y;
    uint64_t at;
    uint32_t type;
    bool wide, there;
};

__device__ __forceinline__ void store(const row_in &in, const row_out &out, uint32_t c, const float (&v)[4])
{
    if (out.there && c < in.columns)
        store_part4(out.y, out.type, out.at + c, min(in.columns - c, 4u), out.wide, v);
}

/* A row whose scores stay on chip. */
__device__ __forceinline__ void row_kept(const row_in &in, const row_out &out, uint32_t keep, row_scratch &scratch)
{
    const uint32_t t = threadIdx.x, step = 4 * blockDim.x;
    float s[4], most = -HM_INFINITY;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 2
    for (uint32_t k = 0; k < keep; k++) {
        scores(in, 4 * t + step * k, s);
        most = greatest(s, most);
        kept_four(k) = make_float4(s[0], s[1], s[2], s[3]);
    }
    const float base = base_of(group_max(most, scratch, 0));
#pragma unroll 1
    for (uint32_t k = 0; k < keep; k++) {
        const float4 four = kept_four(k);
        const float kept[4] = {four.x, four.y, four.z, four.w};
        const float4 e = exp_from(kept, base);
        sum = plus(sum, e);
        if (!in.log)
            kept_four(k) = e;
    }
    const float unit = unit_of(in, group_sum(sum, scratch));
#pragma unroll 1
    for (uint32_t k = 0; k < keep; k++) {
        const float4 four = kept_four(k);
        s[0] = result(in, four.x, four.x, base, unit), s[1] = result(in, four.y, four.y, base, unit);
        s[2] = result(in, four.z, four.z, base, unit), s[3] = result(in, four.w, four.w, base, unit);
        store(in, out, 4 * t + step * k, s);
    }
}

__device__ __forceinline__ float max_of_row(const row_in &in)
{
    float s[4], most = -HM_INFINITY;
    for (uint32_t c = 4 * threadIdx.x; c < in.columns; c += 4 * blockDim.x) {
        scores(in, c, s);
        most = greatest(s, most);
    }
    return most;
}

/* Of the thread's own partial sums: four with 256 threads, twice four with 128. */
__device__ __forceinline__ float4 sum_of_row(const row_in &in, float base)
{
    float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (uint32_t first = 4 * threadIdx.x; first < ROW_SUMS; first += 4 * blockDim.x) {
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (uint32_t c = first; c < in.columns; c += ROW_SUMS) {
            float s[4];
            scores(in, c, s);
            sum = plus(sum, exp_from(s, base));
        }
        total = plus(total, sum);
    }
    return total;
}

__device__ __forceinline__ float4 times(float4 a, float b)
{
    return make_float4(HM_MUL(a.x, b), HM_MUL(a.y, b), HM_MUL(a.z, b), HM_MUL(a.w, b));
}

/* Maximum and sum in one pass: where the maximum rises, what was summed is scaled down. */
__device__ __forceinline__ float4 online(const row_in &in, float &most)
{
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    most = -HM_INFINITY;
    for (uint32_t c = 4 * threadIdx.x; c < in.columns; c += 4 * blockDim.x) {
        float s[4];
        scores(in, c, s);
        const float next = greatest(s, most), base = base_of(next);
        if (next > most)
            sum = times(sum, hm_exp_below(HM_ADD(most, -base)));
        sum = plus(sum, exp_from(s, base));
        most = next;
    }
    return sum;
}

__device__ __forceinline__ void row_read_again(const row_in &in, const row_out &out, bool once, row_scratch &scratch)
{
    float base, most;
    float4 sum;
    if (once) {
        sum = online(in, most);
        base = base_of(group_max(most, scratch, 0));
        sum = times(sum, hm_exp_below(HM_ADD(most, -base)));
    } else {
        base = base_of(group_max(max_of_row(in), scratch, 0));
        sum = sum_of_row(in, base);
    }
    const float unit = unit_of(in, group_sum(sum, scratch));
    for (uint32_t c = 4 * threadIdx.x; c < in.columns; c += 4 * blockDim.x) {
        float s[4];
        scores(in, c, s);
        const float4 four = exp_from(s, base);
        const float e[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[i] = result(in, s[i], e[i], base, unit);
        store(in, out, c, s);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    softmax(const void *x, const void *mask, void *y, const __grid_constant__ hal_softmax_args args)
{
    __shared__ row_scratch scratch;
    const uint32_t asked = (blockIdx.x + args.group_base[0]) * blockDim.y + threadIdx.y;
    const uint32_t row = min(asked, args.rows - 1); /* all take part in the barriers */
    const uint32_t type_x = ROW_DTYPE(args.flags, 0), type_mask = ROW_DTYPE(args.flags, 1);
    const uint32_t type_y = ROW_DTYPE(args.flags, 2), op = ROW_OP(args.flags);
    const uint64_t ldx = HAL_JOIN64(args.ldx), ldmask = HAL_JOIN64(args.ldmask), ldy = HAL_JOIN64(args.ldy);
    const row_in in = {x,
                       mask,
                       row * ldx,
                       (row % args.mask_rows) * ldmask,
                       args.columns,
                       type_x,
                       type_mask,
                       args.scale,
                       ROW_STRICT(args.flags),
                       SOFTMAX_LOG(op),
                       rows_wide(x, type_x, ldx),
                       rows_wide(mask, type_mask, ldmask)};
    const row_out out = {y, row * ldy, type_y, rows_wide(y, type_y, ldy), asked == row};
    if (ROW_KEEP(op) != 0)
        row_kept(in, out, ROW_KEEP(op), scratch);
    else
        row_read_again(in, out, SOFTMAX_ONLINE(op), scratch);
}
