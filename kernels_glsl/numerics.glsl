/* numerics.glsl - storage formats and activations. Arithmetic is FP32; each value is rounded once, to nearest even,
 * when it is stored. Rounding is done on integers: what packHalf2x16 and the float controls do is up to the driver. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#ifdef NUMERICS_F8 /* defined before by kernels that take HAL_KERNEL_F8E4M3: not every device has bytes */
#extension GL_EXT_shader_8bit_storage : require
#endif
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#include "kernel_abi.h"
#include "kernel_math.h"

#ifndef NUMERICS_COHERENT /* "coherent" where groups read what others write */
#define NUMERICS_COHERENT
#endif
layout(buffer_reference, std430, buffer_reference_align = 4) NUMERICS_COHERENT buffer ref_f32 {
    float value;
};
layout(buffer_reference, std430, buffer_reference_align = 2) NUMERICS_COHERENT buffer ref_u16 {
    uint16_t value;
};
#ifdef NUMERICS_F8
layout(buffer_reference, std430, buffer_reference_align = 1) NUMERICS_COHERENT buffer ref_u8 {
    uint8_t value;
};
#endif

uint element_size(uint dtype)
{
    return dtype == HAL_KERNEL_F32 ? 4u : dtype == HAL_KERNEL_F8E4M3 ? 1u : 2u;
}

float f16_to_f32(uint bits)
{
    return hm_f32_from_f16(bits);
}

float bf16_to_f32(uint bits)
{
    return uintBitsToFloat(bits << 16);
}

uint f16_from_f32(float value)
{
    return hm_f16_from_f32(value);
}

/* Element `i` of the array at `address`, of any dtype. */
float load_element(uint64_t address, uint dtype, uint64_t i)
{
    if (dtype == HAL_KERNEL_F32)
        return ref_f32(address + i * 4).value;
#ifdef NUMERICS_F8
    if (dtype == HAL_KERNEL_F8E4M3)
        return hm_f32_from_e4m3(uint(ref_u8(address + i).value));
#endif
    uint bits = uint(ref_u16(address + i * 2).value);
    return dtype == HAL_KERNEL_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void store_element(uint64_t address, uint dtype, uint64_t i, float value)
{
    if (dtype == HAL_KERNEL_F32)
        ref_f32(address + i * 4).value = value;
#ifdef NUMERICS_F8
    else if (dtype == HAL_KERNEL_F8E4M3)
        ref_u8(address + i).value = uint8_t(hm_e4m3_from_f32(value, 0x7eu));
#endif
    else
        ref_u16(address + i * 2).value =
            uint16_t(dtype == HAL_KERNEL_F16 ? f16_from_f32(value) : hm_bf16_from_f32(value));
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

/* Magnitudes as integers: they compare as the numbers do, and NaN does not count. */
uint magnitude(float x)
{
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits > 0x7f800000u ? 0u : bits;
}
