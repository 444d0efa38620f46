/* numerics.glsl - storage formats and activations. Arithmetic is FP32; each value is rounded once, to nearest even,
 * when it is stored. Rounding is done on integers: what packHalf2x16 and the float controls do is up to the driver. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

#define HAL_KERNEL_F32 1u
#define HAL_KERNEL_F16 2u
#define HAL_KERNEL_BF16 3u

#define ACT_RELU 1u
#define ACT_GELU_ERF 2u
#define ACT_GELU_TANH 3u
#define ACT_SILU 4u

layout(buffer_reference, std430, buffer_reference_align = 4) buffer ref_f32 {
    float value;
};
layout(buffer_reference, std430, buffer_reference_align = 2) buffer ref_u16 {
    uint16_t value;
};

uint element_size(uint dtype)
{
    return dtype == HAL_KERNEL_F32 ? 4u : 2u;
}

float f16_to_f32(uint bits)
{
    return unpackHalf2x16(bits).x;
}

float bf16_to_f32(uint bits)
{
    return uintBitsToFloat(bits << 16);
}

uint bf16_from_f32(float value)
{
    uint bits = floatBitsToUint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u; // keep a NaN a NaN
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

uint f16_from_f32(float value)
{
    uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return sign | 0x7e00u | (magnitude >> 13 & 0x3ffu);
    if (magnitude >= 0x477ff000u) // 65520: rounds to 2^16
        return sign | 0x7c00u;
    if (magnitude >= 0x38800000u) // normal: drop 13 bits, rebias the exponent by 127 - 15
        return sign | (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
    if (magnitude <= 0x33000000u) // up to half of the smallest subnormal
        return sign;
    uint drop = 126u - (magnitude >> 23), mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint kept = mantissa >> drop, rest = mantissa & ((1u << drop) - 1u), half_unit = 1u << (drop - 1u);
    return sign | (kept + uint(rest > half_unit || (rest == half_unit && (kept & 1u) == 1u)));
}

/* Element `i` of the array at `address`, of any dtype. */
float load_element(uint64_t address, uint dtype, uint64_t i)
{
    if (dtype == HAL_KERNEL_F32)
        return ref_f32(address + i * 4).value;
    uint bits = uint(ref_u16(address + i * 2).value);
    return dtype == HAL_KERNEL_F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

void store_element(uint64_t address, uint dtype, uint64_t i, float value)
{
    if (dtype == HAL_KERNEL_F32)
        ref_f32(address + i * 4).value = value;
    else
        ref_u16(address + i * 2).value = uint16_t(dtype == HAL_KERNEL_F16 ? f16_from_f32(value) : bf16_from_f32(value));
}

/* x / (1 + exp(-y)) without overflow; 0 where x is -inf. */
float times_sigmoid(float x, float y)
{
    float e = exp(-abs(y));
    float v = x * (y < 0.0 ? e : 1.0) / (1.0 + e);
    return x < -3.4e38 ? 0.0 : v;
}

/* erfc(x) = exp(-x^2) t P(t), t = 1 / (1 + x/2), for x >= 0: P fitted by Chebyshev interpolation, error below 1e-7. */
float erfc_nonnegative(float x)
{
    float t = 1.0 / (1.0 + 0.5 * x);
    float p = -0.0597149189613;
    p = p * t + 0.287768309514;
    p = p * t - 0.493863648741;
    p = p * t + 0.285697710262;
    p = p * t - 0.0318417573768;
    p = p * t + 0.20485365512;
    p = p * t + 0.242572892956;
    p = p * t + 0.282445041969;
    p = p * t + 0.282082673667;
    return exp(-x * x) * t * p;
}

float activate(uint act, float x)
{
    if (isnan(x)) // kept whatever the driver makes of comparisons with NaN
        return x;
    switch (act) {
    case ACT_RELU:
        return x < 0.0 ? 0.0 : x;
    case ACT_GELU_ERF: {
        if (abs(x) > 14.0)
            return max(x, 0.0);
        float tail = 0.5 * x * erfc_nonnegative(abs(x) * 0.70710678118654752);
        return x < 0.0 ? tail : x - tail;
    }
    case ACT_GELU_TANH: // 1 + tanh(u) = 2 sigmoid(2u)
        return times_sigmoid(x, 1.5957691216057308 * (x + 0.044715 * x * x * x));
    case ACT_SILU:
        return times_sigmoid(x, x);
    }
    return x;
}
