/* quantize.glsl - what the forms of quantize compute. The file before it declares OP and STRICT. */

#include "codes.glsl"

float number(float x, float scale)
{
    precise float y = OP == QUANTIZE_VALUES ? HM_MUL(x, scale) : x;
    return OP == QUANTIZE_VALUES && STRICT != 0u ? hm_mul(x, scale) : y;
}
