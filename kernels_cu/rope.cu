/* rope.cu - rotary position embedding. One entry: dtype and form come from flags. */
#include "kernel_convert.h"
#include "rows.cuh"

#define THREADS 256

/* a c + b s */
__device__ __forceinline__ float turn(bool strict, float a, float c, float b, float s)
{
    return strict ? hm_flush(HM_ADD(hm_mul(a, c), hm_mul(b, s))) : HM_ADD(HM_MUL(a, c), HM_MUL(b, s));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    rope(const void *x, void *y, const float *cosines, const float *sines, const int32_t *ids,
         const __grid_constant__ hal_rope_args args)
{
    const uint32_t dtype = ROW_DTYPE(args.flags, 0), op = ROW_OP(args.flags);
    const bool strict = ROW_STRICT(args.flags), interleaved = (op & ROPE_INTERLEAVED) != 0;
    const uint32_t token = blockIdx.y + args.group_base[1];
    const uint32_t head0 = (blockIdx.x + args.group_base[0]) * args.heads_a_group;
    const uint32_t heads = min(args.heads - head0, args.heads_a_group), pairs = args.rotary_dim / 2;
    const uint32_t steps = args.head_dim - pairs;
    const uint64_t position = op & ROPE_HAS_IDS ? (uint64_t)(int64_t)ids[token] : HAL_JOIN64(args.first) + token;
    const bool known = position < HAL_JOIN64(args.positions);
    for (uint32_t step = threadIdx.x; step < heads * steps; step += blockDim.x) {
        const uint32_t head = head0 + step / steps, i = step % steps;
        const uint64_t x_at = token * HAL_JOIN64(args.x_token) + head * HAL_JOIN64(args.x_head);
        const uint64_t y_at = token * HAL_JOIN64(args.y_token) + head * HAL_JOIN64(args.y_head);
        if (i >= pairs) {
            store_element(y, dtype, y_at + pairs + i, load_element(x, dtype, x_at + pairs + i));
            continue;
        }
        const float c = known ? cosines[position * pairs + i] : __uint_as_float(0x7fc00000u);
        const float s = known ? sines[position * pairs + i] : __uint_as_float(0x7fc00000u);
        const uint32_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
        const float a = flush_if(strict, load_element(x, dtype, x_at + first));
        const float b = flush_if(strict, load_element(x, dtype, x_at + second));
        store_element(y, dtype, y_at + first, turn(strict, a, c, b, -s));
        store_element(y, dtype, y_at + second, turn(strict, b, c, a, s));
    }
}
