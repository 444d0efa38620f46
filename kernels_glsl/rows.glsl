/* rows.glsl - what the kernels on rows share. */
#define NUMERICS_F8
#include "numerics.glsl"

#define JOIN HAL_JOIN64

float flush_if(bool strict, float x)
{
    return strict ? hm_flush(x) : x;
}
