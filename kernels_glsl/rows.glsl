/* rows.glsl - what the kernels on rows share. */
#define NUMERICS_F8
#include "numerics.glsl"

#define JOIN HAL_JOIN64

float flush_if(bool strict, float x)
{
    return strict ? hm_flush(x) : x;
}

/* Rounded to a dtype and back: what storing and loading it again would do. */
float round_to(uint dtype, float x)
{
    if (dtype == HAL_KERNEL_BF16)
        return bf16_to_f32(hm_bf16_from_f32(x));
    if (dtype == HAL_KERNEL_F16)
        return f16_to_f32(f16_from_f32(x));
    return x;
}
