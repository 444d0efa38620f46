/* attention_combine.comp - the splits of a row's keys put together, in ascending order. A group of THREADS takes the
 * row of one token and head. Constants as attention's. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

void main()
{
    const uint head = gl_WorkGroupID.x + args.group_base[0], token = gl_WorkGroupID.y + args.group_base[1];
    const uint64_t parts = args.span[ATTENTION_PARTS], row = uint64_t(token) * args.q_heads + head;
    const bool packed = (ROW_OP(args.flags) & ATTENTION_HAS_CU_Q) != 0u;
    const bool nobodys =
        packed && (int(token) < word_at(ATTENTION_CU_Q, 0) || int(token) >= word_at(ATTENTION_CU_Q, args.batch));
    const uint64_t first = row * args.splits * (args.value_dim + 2);
    float greatest = -HM_INFINITY;
    for (uint i = 0; i < args.splits; i++)
        greatest = greater(greatest, load_element(parts, HAL_KERNEL_F32, first + i * (args.value_dim + 2)));
    const float shift = greatest == -HM_INFINITY ? 0.0 : greatest;
    for (uint c = gl_LocalInvocationID.x; c < args.value_dim && !nobodys; c += THREADS) {
        float o = 0.0, sum = 0.0;
        for (uint i = 0; i < args.splits; i++) {
            const uint64_t part = first + i * (args.value_dim + 2);
            const float w = weight_of(load_element(parts, HAL_KERNEL_F32, part), shift);
            const float part_sum = load_element(parts, HAL_KERNEL_F32, part + 1);
            if (part_sum != 0.0) { /* else the row sees no key of this split */
                sum = add_product(sum, w, part_sum);
                o = add_product(o, w, load_element(parts, HAL_KERNEL_F32, part + 2 + c));
            }
        }
        const uint64_t at = (packed ? 0 : token / args.q_length * JOIN(args.o_batch)) +
                            (packed ? token : token % args.q_length) * JOIN(args.o_token) + head * JOIN(args.o_head) +
                            c;
        store_element(args.span[ATTENTION_O], ROW_DTYPE(args.flags, 1), at,
                      sum == 0.0 ? 0.0 : multiply(o, hm_reciprocal(sum)));
        if (c == 0u && (ROW_OP(args.flags) & ATTENTION_HAS_LSE) != 0u)
            store_element(args.span[ATTENTION_LSE], HAL_KERNEL_F32, row,
                          sum == 0.0 ? -HM_INFINITY : add(greatest, hm_log(sum)));
    }
}
