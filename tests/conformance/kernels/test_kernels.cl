/* The conformance suite's kernels in OpenCL C. test_kernels.comp and test_kernels.cu hold the same ones. A name ending in
 * _off is the HAL_ABI_OFFSET form. */

#ifndef FIRST
#define FIRST 0
#endif
#ifndef SECOND
#define SECOND 0
#endif

typedef struct {
    uint n, base;
} fill_args;
typedef struct {
    uint n;
} count_args;
typedef struct {
    uint n, mul, add;
} scale_args;
typedef struct {
    uint iterations;
} spin_args;
typedef struct {
    uint gx, gy, gz, base[3];
} mark_args;

/* out[i] = base + i */
kernel void fill_index(global uint *out, fill_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        out[i] = args.base + (uint)i;
}

kernel void fill_index_off(global uint *out, ulong out_offset, fill_args args)
{
    size_t i = get_global_id(0);
    out = (global uint *)((global uchar *)out + out_offset);
    if (i < args.n)
        out[i] = args.base + (uint)i;
}

/* c[i] = a[i] + b[i] */
kernel void add_f32(global const float *a, global const float *b, global float *c, count_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        c[i] = a[i] + b[i];
}

kernel void add_f32_off(global const float *a, ulong a_offset, global const float *b, ulong b_offset, global float *c,
                        ulong c_offset, count_args args)
{
    size_t i = get_global_id(0);
    a = (global const float *)((global const uchar *)a + a_offset);
    b = (global const float *)((global const uchar *)b + b_offset);
    c = (global float *)((global uchar *)c + c_offset);
    if (i < args.n)
        c[i] = a[i] + b[i];
}

/* y[i] = y[i] * mul + add */
kernel void scale_u32(global uint *y, scale_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        y[i] = y[i] * args.mul + args.add;
}

kernel void scale_u32_off(global uint *y, ulong y_offset, scale_args args)
{
    size_t i = get_global_id(0);
    y = (global uint *)((global uchar *)y + y_offset);
    if (i < args.n)
        y[i] = y[i] * args.mul + args.add;
}

/* dst[i] = src[i] */
kernel void copy_u32(global const uint *src, global uint *dst, count_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        dst[i] = src[i];
}

kernel void copy_u32_off(global const uint *src, ulong src_offset, global uint *dst, ulong dst_offset, count_args args)
{
    size_t i = get_global_id(0);
    src = (global const uint *)((global const uchar *)src + src_offset);
    dst = (global uint *)((global uchar *)dst + dst_offset);
    if (i < args.n)
        dst[i] = src[i];
}

/* One work-item at work for a while; then out[0] = iterations. A xorshift state is never 0, which no compiler knows. */
kernel void spin(global uint *out, spin_args args)
{
    uint x = args.iterations | 1u;
    for (uint i = 0; i < args.iterations; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    out[0] = x == 0 ? 0 : args.iterations;
}

/* One work-item a group adds 1 at its place in the whole grid gx x gy x gz. */
kernel void group_mark(global uint *out, mark_args args)
{
    size_t x = get_group_id(0) + args.base[0];
    size_t y = get_group_id(1) + args.base[1];
    size_t z = get_group_id(2) + args.base[2];
    if (x < args.gx && y < args.gy && z < args.gz)
        out[(z * args.gy + y) * args.gx + x] += 1;
}

/* Constants: out[i] = FIRST * 1000 + SECOND */
kernel void fill_const(global uint *out, count_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        out[i] = FIRST * 1000u + SECOND;
}

/* dst[i] = src[i]; Vulkan reads src through a view of one u32 a texel. */
kernel void view_copy(global const uint *src, global uint *dst, count_args args)
{
    size_t i = get_global_id(0);
    if (i < args.n)
        dst[i] = src[i];
}
