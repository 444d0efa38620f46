#version 460
#extension GL_EXT_buffer_reference : require

/* The counter of hal-bench's overhead and replay: sink += source + add, by one invocation. With STEP_BLOCK the operands
 * come from a block in memory (HAL_ABI_OFFSET), without it they are push constants. */

layout(local_size_x = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word
{
    uint value;
};

#ifdef STEP_BLOCK
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Block
{
    Word source;
    Word sink;
    uint add;
};
layout(push_constant) uniform Push
{
    Block step;
};
#else
layout(push_constant) uniform Push
{
    Word source;
    Word sink;
    uint add;
}
step;
#endif

void main()
{
    step.sink.value += step.source.value + step.add;
}
