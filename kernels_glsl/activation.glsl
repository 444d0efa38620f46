/* activation.glsl - what the two forms of activation compute. The file before it declares OP and STRICT. */

float combine(float a, float b, float alpha, uint between)
{
    precise float y;
    if (OP < ACTIVATION_ADD)
        return OP == ACTIVATION_SILU ? hm_times_sigmoid(a, HM_MUL(alpha, a)) : hm_activate(OP, a);
    if (OP == ACTIVATION_ADD) {
        y = HM_ADD(a, b);
        return flush_if(STRICT != 0u, y);
    }
    if (OP == ACTIVATION_SWIGLU)
        a = round_to(between, hm_times_sigmoid(a, HM_MUL(alpha, a)));
    y = HM_MUL(a, b);
    return STRICT != 0u ? hm_mul(a, b) : y;
}
