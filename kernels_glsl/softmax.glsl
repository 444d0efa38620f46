/* softmax.glsl - what the forms of softmax compute. The file before it declares LOG and STRICT. */
const bool strict = STRICT != 0u;

float score_of(float x, float scale)
{
    precise float v = HM_MUL(x, scale);
    return strict ? hm_mul(x, scale) : v;
}

float greatest(vec4 s, float most)
{
    [[unroll]] for (uint i = 0; i < 4; i++) most = s[i] > most ? s[i] : most;
    return most;
}

/* What is subtracted; a row that is hidden whole gives exp(-infinity). */
float base_of(float most)
{
    return most == -HM_INFINITY ? 0.0 : most;
}

/* exp(x), x <= 0 */
float exp_below(float x)
{
    return strict ? hm_exp_below(x) : hm_fast_exp(x);
}

vec4 exp_from(vec4 s, float base)
{
    precise vec4 v = s - base;
    return vec4(exp_below(v.x), exp_below(v.y), exp_below(v.z), exp_below(v.w));
}

/* A row's result from one score and its exponential; `unit` is 1 / sum, or log(sum). */
float result(float score, float e, float base, float unit)
{
    precise float v = HM_MUL(e, unit);
    precise float logarithm = (score - base) - unit;
    if (LOG != 0u)
        return flush_if(strict, logarithm);
    return strict ? hm_mul(e, unit) : v;
}

float unit_of(float sum)
{
    if (LOG != 0u)
        return sum == 0.0 ? 0.0 : hm_log(sum);
    return sum == 0.0 ? 0.0 : hm_reciprocal(sum);
}
