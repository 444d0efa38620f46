/* rope.glsl - what the forms of rope compute. The file before it declares STRICT. */
const bool strict = STRICT != 0u;

/* a c + b s */
float turn(float a, float c, float b, float s)
{
    precise float y = strict ? HM_ADD(hm_mul(a, c), hm_mul(b, s)) : HM_ADD(HM_MUL(a, c), HM_MUL(b, s));
    return flush_if(strict, y);
}
