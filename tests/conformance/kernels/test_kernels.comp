/* The conformance suite's kernels in GLSL, one a compilation: -DKERNEL_<name>. See test_kernels.cl. */
#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 100, local_size_y_id = 101, local_size_z_id = 102) in;

/* HAL_ABI_OFFSET: one push constant, the address of { uint64_t span[n]; args }. */
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };

#if defined(KERNEL_fill_index)
layout(std430, set = 0, binding = 0) buffer Out { uint at[]; } dst;
layout(push_constant) uniform Args { uint n, base; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        dst.at[i] = args.base + i;
}

#elif defined(KERNEL_fill_index_off)
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block { uint64_t span[1]; uint n, base; };
layout(push_constant) uniform Push { Block block; } push;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < push.block.n)
        Words(push.block.span[0]).at[i] = push.block.base + i;
}

#elif defined(KERNEL_add_f32)
layout(std430, set = 0, binding = 0) readonly buffer A { float at[]; } a;
layout(std430, set = 0, binding = 1) readonly buffer B { float at[]; } b;
layout(std430, set = 0, binding = 2) buffer C { float at[]; } c;
layout(push_constant) uniform Args { uint n; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        c.at[i] = a.at[i] + b.at[i];
}

#elif defined(KERNEL_add_f32_off)
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block { uint64_t span[3]; uint n; };
layout(push_constant) uniform Push { Block block; } push;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < push.block.n)
        Floats(push.block.span[2]).at[i] = Floats(push.block.span[0]).at[i] + Floats(push.block.span[1]).at[i];
}

#elif defined(KERNEL_scale_u32)
layout(std430, set = 0, binding = 0) buffer Y { uint at[]; } y;
layout(push_constant) uniform Args { uint n, mul, add; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        y.at[i] = y.at[i] * args.mul + args.add;
}

#elif defined(KERNEL_scale_u32_off)
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block
{
    uint64_t span[1];
    uint n, mul, add;
};
layout(push_constant) uniform Push { Block block; } push;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    Words y = Words(push.block.span[0]);
    if (i < push.block.n)
        y.at[i] = y.at[i] * push.block.mul + push.block.add;
}

#elif defined(KERNEL_copy_u32)
layout(std430, set = 0, binding = 0) readonly buffer Src { uint at[]; } src;
layout(std430, set = 0, binding = 1) buffer Dst { uint at[]; } dst;
layout(push_constant) uniform Args { uint n; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        dst.at[i] = src.at[i];
}

#elif defined(KERNEL_copy_u32_off)
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block { uint64_t span[2]; uint n; };
layout(push_constant) uniform Push { Block block; } push;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < push.block.n)
        Words(push.block.span[1]).at[i] = Words(push.block.span[0]).at[i];
}

#elif defined(KERNEL_spin)
layout(std430, set = 0, binding = 0) buffer Out { uint at[]; } dst;
layout(push_constant) uniform Args { uint iterations; } args;
void main()
{
    uint x = args.iterations | 1u;
    for (uint i = 0; i < args.iterations; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    dst.at[0] = x == 0 ? 0 : args.iterations;
}

#elif defined(KERNEL_group_mark)
layout(std430, set = 0, binding = 0) buffer Out { uint at[]; } dst;
layout(push_constant) uniform Args { uint gx, gy, gz, base[3]; } args;
void main()
{
    uint x = gl_WorkGroupID.x + args.base[0];
    uint y = gl_WorkGroupID.y + args.base[1];
    uint z = gl_WorkGroupID.z + args.base[2];
    if (x < args.gx && y < args.gy && z < args.gz)
        dst.at[(z * args.gy + y) * args.gx + x] += 1;
}

#elif defined(KERNEL_fill_const)
layout(constant_id = 0) const uint FIRST = 0;
layout(constant_id = 1) const uint SECOND = 0;
layout(std430, set = 0, binding = 0) buffer Out { uint at[]; } dst;
layout(push_constant) uniform Args { uint n; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        dst.at[i] = FIRST * 1000u + SECOND;
}

#elif defined(KERNEL_view_copy)
layout(set = 0, binding = 0) uniform usamplerBuffer src;
layout(std430, set = 0, binding = 1) buffer Dst { uint at[]; } dst;
layout(push_constant) uniform Args { uint n; } args;
void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < args.n)
        dst.at[i] = texelFetch(src, int(i)).x;
}

#else
#error "define KERNEL_<name>"
#endif
