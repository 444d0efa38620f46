/* attention_combine.cu - the splits of a row's keys put together, in ascending order. A group takes the row of one
 * token and head. */
#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(128)
    attention_combine(SPANS, const __grid_constant__ hal_attention_args args)
{
    const operands at = OPERANDS;
    const bool strict = at.strict();
    const uint32_t head = blockIdx.x + args.group_base[0], token = blockIdx.y + args.group_base[1];
    const bool packed = (at.options() & ATTENTION_HAS_CU_Q) != 0;
    const bool nobodys = packed && ((int)token < at.cu_q[0] || (int)token >= at.cu_q[args.batch]);
    const uint64_t row = (uint64_t)token * args.q_heads + head;
    const uint32_t size = args.value_dim + 2;
    const float *first = at.parts + row * args.splits * size;
    float greatest = -HM_INFINITY;
    for (uint32_t i = 0; i < args.splits; i++)
        greatest = greater(greatest, first[(uint64_t)i * size]);
    const float shift = greatest == -HM_INFINITY ? 0.0f : greatest;
    for (uint32_t c = threadIdx.x; c < args.value_dim && !nobodys; c += blockDim.x) {
        float o = 0.0f, sum = 0.0f;
        for (uint32_t i = 0; i < args.splits; i++) {
            const float *part = first + (uint64_t)i * size;
            const float w = weight_of(part[0], shift);
            if (part[1] != 0.0f) { /* else the row sees no key of this split */
                sum = add_product(strict, sum, w, part[1]);
                o = add_product(strict, o, w, part[2 + c]);
            }
        }
        const uint64_t to = (packed ? 0 : token / args.q_length * HAL_JOIN64(args.o_batch)) +
                            (packed ? token : token % args.q_length) * HAL_JOIN64(args.o_token) +
                            head * HAL_JOIN64(args.o_head) + c;
        store_element(at.o, ROW_DTYPE(args.flags, 1), to, sum == 0.0f ? 0.0f : multiply(strict, o, hm_reciprocal(sum)));
        if (c == 0 && at.options() & ATTENTION_HAS_LSE)
            at.lse[row] = sum == 0.0f ? -HM_INFINITY : add(strict, greatest, hm_log(sum));
    }
}
