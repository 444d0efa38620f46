/* codes.glsl - E4M3 codes of numbers that have a scale. */

/* A scale that is not a positive finite number spoils what it scales. */
uint code_of(float x, float scale)
{
    return floatBitsToUint(scale) - 1u < 0x7f7fffffu ? hm_quantize(x, scale) : 0x7fu;
}
