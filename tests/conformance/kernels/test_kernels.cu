/* The conformance suite's kernels in CUDA C. See test_kernels.cl. Both ABIs are the same here; each has its own name. */
typedef unsigned int uint;

struct fill_args {
    uint n, base;
};
struct count_args {
    uint n;
};
struct scale_args {
    uint n, mul, add;
};
struct spin_args {
    uint iterations;
};
struct mark_args {
    uint gx, gy, gz, base[3];
};

static __device__ size_t global_id() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" {

__global__ void fill_index(uint *out, fill_args args)
{
    size_t i = global_id();
    if (i < args.n)
        out[i] = args.base + (uint)i;
}

__global__ void fill_index_off(uint *out, fill_args args)
{
    size_t i = global_id();
    if (i < args.n)
        out[i] = args.base + (uint)i;
}

__global__ void add_f32(const float *a, const float *b, float *c, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        c[i] = a[i] + b[i];
}

__global__ void add_f32_off(const float *a, const float *b, float *c, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        c[i] = a[i] + b[i];
}

__global__ void scale_u32(uint *y, scale_args args)
{
    size_t i = global_id();
    if (i < args.n)
        y[i] = y[i] * args.mul + args.add;
}

__global__ void scale_u32_off(uint *y, scale_args args)
{
    size_t i = global_id();
    if (i < args.n)
        y[i] = y[i] * args.mul + args.add;
}

__global__ void copy_u32(const uint *src, uint *dst, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        dst[i] = src[i];
}

__global__ void copy_u32_off(const uint *src, uint *dst, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        dst[i] = src[i];
}

__global__ void spin(uint *out, spin_args args)
{
    uint x = args.iterations | 1u;
    for (uint i = 0; i < args.iterations; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    out[0] = x == 0 ? 0 : args.iterations;
}

__global__ void group_mark(uint *out, mark_args args)
{
    size_t x = (size_t)blockIdx.x + args.base[0];
    size_t y = (size_t)blockIdx.y + args.base[1];
    size_t z = (size_t)blockIdx.z + args.base[2];
    if (x < args.gx && y < args.gy && z < args.gz)
        out[(z * args.gy + y) * args.gx + x] += 1;
}

/* One entry a pair of constants: FIRST, SECOND = 3, 5 and 7, 11. */
__global__ void fill_const__3_5(uint *out, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        out[i] = 3005;
}

__global__ void fill_const__7_11(uint *out, count_args args)
{
    size_t i = global_id();
    if (i < args.n)
        out[i] = 7011;
}
}
