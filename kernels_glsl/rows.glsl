/* rows.glsl - what the kernels on rows share. */
#define NUMERICS_F8
#include "numerics.glsl"

#define JOIN HAL_JOIN64

float flush_if(bool strict, float x)
{
    return strict ? hm_flush(x) : x;
}

layout(buffer_reference, std430, buffer_reference_align = 4) buffer ref_u32 {
    uint value;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer ref_u32x2 {
    uvec2 value;
};
layout(buffer_reference, std430, buffer_reference_align = 16) buffer ref_u32x4 {
    uvec4 value;
};

/* Whether four neighbours can be moved at once in each row that starts at `address` and is `ld` from the next. */
bool rows_wide(uint64_t address, uint dtype, uint64_t ld)
{
    return (uint(address) & (4 * element_size(dtype) - 1)) == 0 && (uint(ld) & 3u) == 0;
}

/* Four neighbours at an address that is a multiple of their size together. */
vec4 load_four(uint64_t address, uint dtype, uint64_t i)
{
    if (dtype == HAL_KERNEL_F32)
        return uintBitsToFloat(ref_u32x4(address + i * 4).value);
    uvec4 bits;
    if (dtype == HAL_KERNEL_F8E4M3) {
        bits = uvec4(ref_u32(address + i).value) >> uvec4(0, 8, 16, 24) & 0xffu;
        return vec4(hm_f32_from_e4m3(bits.x), hm_f32_from_e4m3(bits.y), hm_f32_from_e4m3(bits.z),
                    hm_f32_from_e4m3(bits.w));
    }
    bits = uvec4(ref_u32x2(address + i * 2).value.xxyy) >> uvec4(0, 16, 0, 16) & 0xffffu;
    return dtype == HAL_KERNEL_F16
               ? vec4(f16_to_f32(bits.x), f16_to_f32(bits.y), f16_to_f32(bits.z), f16_to_f32(bits.w))
               : uintBitsToFloat(bits << 16);
}

void store_four_codes(uint64_t address, uvec4 codes)
{
    ref_u32(address).value = codes.x | codes.y << 8 | codes.z << 16 | codes.w << 24;
}

void store_four(uint64_t address, uint dtype, uint64_t i, vec4 v)
{
    if (dtype == HAL_KERNEL_F32) {
        ref_u32x4(address + i * 4).value = floatBitsToUint(v);
        return;
    }
    uvec4 bits;
    for (uint j = 0; j < 4; j++)
        bits[j] = dtype == HAL_KERNEL_F8E4M3 ? hm_e4m3_from_f32(v[j], 0x7eu)
                  : dtype == HAL_KERNEL_F16  ? hm_f16_from_f32(v[j])
                                             : hm_bf16_from_f32(v[j]);
    if (dtype == HAL_KERNEL_F8E4M3)
        store_four_codes(address + i, bits);
    else
        ref_u32x2(address + i * 2).value = bits.xz | bits.yw << 16;
}
