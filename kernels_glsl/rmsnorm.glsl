/* rmsnorm.glsl - what the forms of rmsnorm compute. The file before it declares the constants. */
const bool strict = STRICT != 0u, quantised = DTYPE_Y == HAL_KERNEL_F8E4M3;
const bool has_residual = (WHAT & RMSNORM_RESIDUAL) != 0u, has_sum = (WHAT & RMSNORM_SUM) != 0u;

/* x + residual, rounded as if it had been stored. */
vec4 with_residual(vec4 x, vec4 residual)
{
    precise vec4 v = x + residual;
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = flush_if(strict, round_to(DTYPE_X, flush_if(strict, v[i])));
    return v;
}

/* Strict: a square that would be subnormal is zero. */
vec4 squares(vec4 v)
{
    precise vec4 s = v * v;
    if (strict)
        [[unroll]] for (uint i = 0; i < 4; i++)
            s[i] = hm_abs(v[i]) < 1.0842021724855044e-19 ? 0.0 : s[i]; /* 2^-63 */
    return s;
}

float inverse_root(float sum, float inverse, float eps)
{
    precise float mean = HM_ADD(hm_mul(sum, inverse), eps);
    return hm_rsqrt(mean);
}

float product(float a, float b)
{
    precise float p = HM_MUL(a, b);
    return strict ? hm_mul(a, b) : p;
}

/* From values to the normalised row. */
vec4 times_root(vec4 v, float root, vec4 weight)
{
    [[unroll]] for (uint i = 0; i < 4; i++) {
        v[i] = product(v[i], root);
        if (DTYPE_WEIGHT != 0u)
            v[i] = product(v[i], weight[i]);
        if (quantised)
            v[i] = round_to(BETWEEN, v[i]);
    }
    return v;
}

float greatest(vec4 v, float most)
{
    [[unroll]] for (uint i = 0; i < 4; i++)
        most = hm_abs(v[i]) > most ? hm_abs(v[i]) : most;
    return most;
}
