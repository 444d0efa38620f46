/* attention_combine.cl - the splits of a row's keys put together, in ascending order. A group of THREADS takes the row
 * of one token and head. Constants as attention's. */
#include "attention.clh"

__attribute__((reqd_work_group_size(THREADS, 1, 1))) kernel void attention_combine(SPANS, hal_attention_args args)
{
    const operands at = OPERANDS;
    const uint head = get_group_id(0) + args.group_base[0], token = get_group_id(1) + args.group_base[1];
    const bool packed = (ROW_OP(args.flags) & ATTENTION_HAS_CU_Q) != 0;
    const bool nobodys = packed && ((int)token < word_at(&at, ATTENTION_CU_Q, 0) ||
                                    (int)token >= word_at(&at, ATTENTION_CU_Q, args.batch));
    const ulong row = (ulong)token * args.q_heads + head;
    global const float *parts =
        (global const float *)at.span[ATTENTION_PARTS] + row * args.splits * (args.value_dim + 2);
    float greatest = -INFINITY;
    for (uint i = 0; i < args.splits; i++)
        greatest = greater(greatest, parts[(ulong)i * (args.value_dim + 2)]);
    const float shift = greatest == -INFINITY ? 0.0f : greatest;
    for (uint c = get_local_id(0); c < args.value_dim && !nobodys; c += THREADS) {
        float o = 0.0f, sum = 0.0f;
        for (uint i = 0; i < args.splits; i++) {
            global const float *part = parts + (ulong)i * (args.value_dim + 2);
            const float w = weight_of(part[0], shift);
            if (part[1] != 0.0f) { /* else the row sees no key of this split */
                sum = add_product(sum, w, part[1]);
                o = add_product(o, w, part[2 + c]);
            }
        }
        const ulong to = (packed ? 0 : token / args.q_length * JOIN(args.o_batch)) +
                         (packed ? token : token % args.q_length) * JOIN(args.o_token) + head * JOIN(args.o_head) + c;
        store_element(at.span[ATTENTION_O], ROW_DTYPE(args.flags, 1), to,
                      sum == 0.0f ? 0.0f : multiply(o, hm_reciprocal(sum)));
        if (c == 0 && ROW_OP(args.flags) & ATTENTION_HAS_LSE)
            store_element(at.span[ATTENTION_LSE], HAL_KERNEL_F32, row,
                          sum == 0.0f ? -INFINITY : add(greatest, hm_log(sum)));
    }
}
