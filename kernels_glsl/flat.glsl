/* flat.glsl - for drivers that run a subgroup of 8 invocations as one vector, Mesa's lavapipe above all. They take a
 * load or store through an address, and any store in a loop or branch, lane by lane: 20 instructions for 8 bytes. Two
 * accesses are cheap: fetching texels, anywhere; and a store outside of all control flow at an index that is made of
 * constants and push constants only, which is one scalar store by the first lane.
 *
 * So a flat kernel has its inputs as texel views, its outputs as storage buffers, its arguments as push constants, and
 * stores in a straight line: what a lane has comes to the first lane by a shuffle with a constant, which costs nothing.
 * Group and invocation ids are turned into sums of push constants digit by digit (known). What lies beyond a row is
 * stored beyond the buffer: robustBufferAccess2 drops it.
 *
 * The file before it declares the push constants: a block `args` that begins with uint digits[FLAT_DIGITS], which holds
 * 0 to 7. */
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "kernel_flat.h"

/* x < 8^count, made of push constants. */
uint known(uint x, uint count)
{
    uint y = 0;
    [[unroll]] for (uint i = 0; i < count; i++)
        y += args.digits[x >> 3 * i & 7u] << 3 * i;
    return y;
}

/* Four neighbours of a texel view: RGBA32UI for FP32, RGBA16UI for halves, R32UI for E4M3. */
vec4 fetch_texel(usamplerBuffer view, uint dtype, uint texel)
{
    const uvec4 bits = texelFetch(view, int(texel));
    if (dtype == HAL_KERNEL_F32)
        return uintBitsToFloat(bits);
    if (dtype == HAL_KERNEL_BF16)
        return uintBitsToFloat(bits << 16);
    const uvec4 codes = bits.xxxx >> uvec4(0, 8, 16, 24) & 0xffu;
    vec4 v;
    [[unroll]] for (uint i = 0; i < 4; i++)
        v[i] = dtype == HAL_KERNEL_F16 ? f16_to_f32(bits[i]) : hm_f32_from_e4m3(codes[i]);
    return v;
}

/* A view of single elements. */
float fetch_element(usamplerBuffer view, uint dtype, uint element)
{
    const uint bits = texelFetch(view, int(element)).x;
    return dtype == HAL_KERNEL_F32   ? uintBitsToFloat(bits)
           : dtype == HAL_KERNEL_F16 ? f16_to_f32(bits)
                                     : bf16_to_f32(bits);
}

/* Where stores are dropped, in units of 32 bytes; a few more stay below 2^31 bytes. */
const uint NOWHERE = 0x03fffff0u;

/* The bits of four neighbours in a dtype: in 4, 2 or 1 words. */
uvec4 bits_of(uint dtype, vec4 v)
{
    if (dtype == HAL_KERNEL_F32)
        return floatBitsToUint(v);
    uvec4 bits;
    [[unroll]] for (uint i = 0; i < 4; i++)
        bits[i] = dtype == HAL_KERNEL_F8E4M3 ? hm_e4m3_from_f32(v[i], 0x7eu)
                  : dtype == HAL_KERNEL_F16  ? f16_from_f32(v[i])
                                             : hm_bf16_from_f32(v[i]);
    return bits;
}

/* The i-th 32 bytes of the FLAT_RUN neighbours that 8 lanes have. */
u64vec4 part_of_run(uint dtype, uvec4 bits, uint i)
{
    u64vec4 part;
    if (dtype == HAL_KERNEL_F32) {
        const uvec4 even = subgroupShuffle(bits, 2 * i), odd = subgroupShuffle(bits, 2 * i + 1);
        return u64vec4(packUint2x32(even.xy), packUint2x32(even.zw), packUint2x32(odd.xy), packUint2x32(odd.zw));
    }
    if (dtype == HAL_KERNEL_F8E4M3) {
        const uint word = bits.x | bits.y << 8 | bits.z << 16 | bits.w << 24;
        [[unroll]] for (uint k = 0; k < 4; k++)
            part[k] = packUint2x32(uvec2(subgroupShuffle(word, 2 * k), subgroupShuffle(word, 2 * k + 1)));
        return part;
    }
    const uvec2 words = bits.xz | bits.yw << 16;
    [[unroll]] for (uint k = 0; k < 4; k++)
        part[k] = packUint2x32(subgroupShuffle(words, 4 * i + k));
    return part;
}

uint parts_of_run(uint dtype)
{
    return element_size(dtype) * FLAT_RUN / 32;
}
