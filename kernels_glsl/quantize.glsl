/* quantize.glsl - what the forms of quantize compute. The file before it declares OP and STRICT. */

/* A scale that is not a positive finite number spoils what it scales. */
uint code_of(float x, float scale)
{
    return floatBitsToUint(scale) - 1u < 0x7f7fffffu ? hm_quantize(x, scale) : 0x7fu;
}

float number(float x, float scale)
{
    precise float y = OP == QUANTIZE_VALUES ? HM_MUL(x, scale) : x;
    return OP == QUANTIZE_VALUES && STRICT != 0u ? hm_mul(x, scale) : y;
}
