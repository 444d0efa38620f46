/* flat_output.glsl - the output y of a flat kernel, at binding Y_BINDING, of dtype DTYPE_Y. It begins Y_BASE (unless
 * the file before it says so, args.base_y) times 32 bytes before its first row, and rows start at multiples of 32 bytes. */
#ifndef Y_BASE
#define Y_BASE args.base_y
#endif
layout(set = 0, binding = Y_BINDING, std430) writeonly buffer y_block {
    u64vec4 y[];
};
layout(set = 0, binding = Y_BINDING, std430) writeonly buffer y32_block {
    float y32[];
};
layout(set = 0, binding = Y_BINDING, std430) writeonly buffer y16_block {
    uint16_t y16[];
};
layout(set = 0, binding = Y_BINDING, std430) writeonly buffer y8_block {
    uint8_t y8[];
};

/* A run of the row that begins `at` elements behind the first, all known; no part of one that is not whole. The file
 * before declares REST. */
void store_run_bits(uint at, uint run, uint columns, uvec4 bits)
{
    const uint parts = parts_of_run(DTYPE_Y);
    uint to = Y_BASE + at / (32 / element_size(DTYPE_Y)) + run * parts;
    to = REST == FLAT_WHOLE || (run + 1) * FLAT_RUN <= columns ? to : NOWHERE;
    [[unroll]] for (uint i = 0; i < parts; i++)
        y[to + i] = part_of_run(DTYPE_Y, bits, i);
}

void store_run(uint at, uint run, uint columns, vec4 v)
{
    store_run_bits(at, run, columns, bits_of(DTYPE_Y, v));
}

void store_bits(uint at, uint bits)
{
    at += Y_BASE * (32 / element_size(DTYPE_Y));
    if (DTYPE_Y == HAL_KERNEL_F32)
        y32[at] = uintBitsToFloat(bits);
    else if (DTYPE_Y == HAL_KERNEL_F8E4M3)
        y8[at] = uint8_t(bits);
    else
        y16[at] = uint16_t(bits);
}

void store_one(uint at, float v)
{
    store_bits(at, bits_of(DTYPE_Y, vec4(v)).x);
}
