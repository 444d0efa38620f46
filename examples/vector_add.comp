#version 450
// The Vulkan form of vector_add: compiled to SPIR-V when the example is built.
layout(local_size_x_id = 100) in; // libhal sets constants 100..102 to hal_kernel_desc.group
layout(set = 0, binding = 0, std430) readonly buffer A { float a[]; };
layout(set = 0, binding = 1, std430) readonly buffer B { float b[]; };
layout(set = 0, binding = 2, std430) writeonly buffer C { float c[]; };
layout(push_constant) uniform Args { uint count; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < count)
        c[i] = a[i] + b[i];
}
