#version 450
// The Vulkan form of replay.c's saxpy: compiled to SPIR-V when the example is built.
layout(local_size_x_id = 100) in;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) buffer Y { float y[]; };
layout(push_constant) uniform Args { uint count; float a; };

void main()
{
    uint i = gl_GlobalInvocationID.x;
    if (i < count)
        y[i] = a * x[i] + y[i];
}
