/* reduce.glsl - greatest number and sum over the invocations of a row, in the order of kernel_rows.h. The file before
 * it defines THREADS and ROWS. */
#include "kernel_rows.h"

shared vec4 scratch[THREADS * ROWS];

/* Each invocation of a row gives a number; all get the greatest. NaN counts for nothing. */
float group_max(float value)
{
    const uint t = gl_LocalInvocationID.x, first = gl_LocalInvocationID.y * THREADS;
    barrier();
    scratch[first + t].x = value;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier();
        if (t < stride) {
            float other = scratch[first + t + stride].x;
            if (other > scratch[first + t].x)
                scratch[first + t].x = other;
        }
    }
    barrier();
    return scratch[first].x;
}

/* Each invocation gives four neighbouring partial sums; all get the sum of all. */
float group_sum(vec4 value)
{
    const uint t = gl_LocalInvocationID.x, first = gl_LocalInvocationID.y * THREADS;
    barrier();
    scratch[first + t] = value;
    for (uint stride = THREADS / 2; stride > 0; stride /= 2) {
        barrier();
        if (t < stride) {
            precise vec4 both = scratch[first + t] + scratch[first + t + stride];
            scratch[first + t] = both;
        }
    }
    barrier();
    precise vec4 four = scratch[first];
    precise float sum = (four.x + four.z) + (four.y + four.w);
    return sum;
}

/* An invocation that owns n > 1 fours of partial sums takes them up in the order i = 0 .. n - 1, four i at
 * owned_column(i), and gives each to fold: what the last call returns is their sum, folded as the partial sums are. */
uint owned_column(uint i)
{
    return bitfieldReverse(i) >> 22;
}

vec4 fold(uint i, vec4 value, inout vec4 waiting[5])
{
    precise vec4 sum = value;
    bool carry = true;
    for (uint level = 0; level < 5; level++) {
        bool adds = carry && (i >> level & 1u) != 0u;
        if (carry && !adds)
            waiting[level] = sum;
        precise vec4 both = sum + waiting[level];
        if (adds)
            sum = both;
        carry = adds;
    }
    return sum;
}

/* Four neighbours of a texel view: RGBA32UI for FP32, RGBA16UI for halves. Drivers for CPU devices fetch texels without a
 * branch, and other loads lane by lane. */
vec4 fetch_four(usamplerBuffer view, uint dtype, uint texel)
{
    const uvec4 bits = texelFetch(view, int(texel));
    if (dtype == HAL_KERNEL_F32)
        return uintBitsToFloat(bits);
    if (dtype == HAL_KERNEL_BF16)
        return uintBitsToFloat(bits << 16);
    return vec4(f16_to_f32(bits.x), f16_to_f32(bits.y), f16_to_f32(bits.z), f16_to_f32(bits.w));
}

layout(buffer_reference, std430, buffer_reference_align = 4) buffer ref_four {
    vec4 value;
};

/* Four neighbours of a row, or as many as there are. */
void store_part4(uint64_t address, uint dtype, uint64_t i, uint count, vec4 v)
{
    if (dtype == HAL_KERNEL_F32 && count >= 4) {
        ref_four(address + i * 4).value = v;
        return;
    }
    [[unroll]] for (uint k = 0; k < 4; k++)
        if (k < count)
            store_element(address, dtype, i + k, v[k]);
}
