/* activation.glsl - what the two forms of activation compute. The file before it declares OP and STRICT. */

float silu(float x, float alpha)
{
    precise float u = HM_MUL(alpha, x);
    return STRICT != 0u ? hm_times_sigmoid(x, u) : hm_fast_times_sigmoid(x, u);
}

float combine(float a, float b, float alpha, uint between)
{
    precise float y;
    if (OP == ACTIVATION_SILU)
        return silu(a, alpha);
    if (OP < ACTIVATION_ADD)
        return STRICT != 0u ? hm_activate(OP, a) : hm_fast_activate(OP, a);
    if (OP == ACTIVATION_ADD) {
        y = HM_ADD(a, b);
        return flush_if(STRICT != 0u, y);
    }
    if (OP == ACTIVATION_SWIGLU)
        a = round_to(between, silu(a, alpha));
    y = HM_MUL(a, b);
    return STRICT != 0u ? hm_mul(a, b) : y;
}
