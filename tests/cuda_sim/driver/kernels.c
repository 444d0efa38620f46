/* kernels.c - the conformance suite's kernels (tests/conformance/kernels/test_kernels.cu) in C. */
#include "drv.h"

/* The spans come first, 8 bytes each, then the arguments. */
static nv_ptr span(const drv_launch *launch, uint32_t index)
{
    nv_ptr pointer;
    memcpy(&pointer, launch->params + 8 * (size_t)index, sizeof pointer);
    return pointer;
}

static void args(const drv_launch *launch, uint32_t spans, void *values, size_t size)
{
    memcpy(values, launch->params + 8 * (size_t)spans, size);
}

/* How many of n elements the grid covers: work-items past n do nothing, elements past the grid are not touched. */
static uint32_t covered(const drv_launch *launch, uint32_t n)
{
    uint64_t items = (uint64_t)launch->grid[0] * launch->block[0];
    return items < n ? (uint32_t)items : n;
}

/* Memory of n elements of 4 bytes; NULL with *result set if it is not there. n = 0 touches nothing. */
static void *elements(const drv_launch *launch, uint32_t index, uint32_t n, nv_result *result)
{
    static uint32_t none[1];
    nv_ptr pointer = span(launch, index);
    if (n == 0)
        return none;
    if (pointer % 4 != 0) {
        *result = NV_ERROR_MISALIGNED_ADDRESS;
        return NULL;
    }
    void *memory = drv_reach(pointer, 4ull * n);
    if (!memory)
        *result = NV_ERROR_ILLEGAL_ADDRESS;
    return memory;
}

static nv_result fill_index(const drv_launch *launch)
{
    struct {
        uint32_t n, base;
    } a;
    nv_result result = NV_SUCCESS;
    args(launch, 1, &a, sizeof a);
    uint32_t n = covered(launch, a.n);
    uint32_t *out = elements(launch, 0, n, &result);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = a.base + i;
    return result;
}

static nv_result add_f32(const drv_launch *launch)
{
    uint32_t n;
    nv_result result = NV_SUCCESS;
    args(launch, 3, &n, sizeof n);
    n = covered(launch, n);
    const float *a = elements(launch, 0, n, &result), *b = elements(launch, 1, n, &result);
    float *c = elements(launch, 2, n, &result);
    for (uint32_t i = 0; a && b && c && i < n; i++)
        c[i] = a[i] + b[i];
    return result;
}

static nv_result scale_u32(const drv_launch *launch)
{
    struct {
        uint32_t n, mul, add;
    } a;
    nv_result result = NV_SUCCESS;
    args(launch, 1, &a, sizeof a);
    uint32_t n = covered(launch, a.n);
    uint32_t *y = elements(launch, 0, n, &result);
    for (uint32_t i = 0; y && i < n; i++)
        y[i] = y[i] * a.mul + a.add;
    return result;
}

static nv_result copy_u32(const drv_launch *launch)
{
    uint32_t n;
    nv_result result = NV_SUCCESS;
    args(launch, 2, &n, sizeof n);
    n = covered(launch, n);
    const uint32_t *src = elements(launch, 0, n, &result);
    uint32_t *dst = elements(launch, 1, n, &result);
    for (uint32_t i = 0; src && dst && i < n; i++)
        dst[i] = src[i];
    return result;
}

static nv_result spin(const drv_launch *launch)
{
    uint32_t iterations;
    nv_result result = NV_SUCCESS;
    args(launch, 1, &iterations, sizeof iterations);
    uint32_t x = iterations | 1u;
    for (uint32_t i = 0; i < iterations; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    uint32_t *out = elements(launch, 0, 1, &result);
    if (out)
        out[0] = x == 0 ? 0 : iterations;
    return result;
}

struct mark_args {
    uint32_t gx, gy, gz, base[3];
};

static nv_result mark_row(const drv_launch *launch, const struct mark_args *a, uint64_t y, uint64_t z)
{
    uint64_t first = a->base[0], count = launch->grid[0];
    if (y >= a->gy || z >= a->gz || first >= a->gx)
        return NV_SUCCESS;
    count = count < a->gx - first ? count : a->gx - first;
    nv_ptr row = span(launch, 0) + 4 * ((z * a->gy + y) * a->gx + first);
    uint32_t *out = drv_reach(row, 4 * count);
    for (uint64_t x = 0; out && x < count; x++)
        out[x] += 1;
    return out ? NV_SUCCESS : NV_ERROR_ILLEGAL_ADDRESS;
}

static nv_result group_mark(const drv_launch *launch)
{
    struct mark_args a;
    nv_result result = NV_SUCCESS;
    args(launch, 1, &a, sizeof a);
    for (uint64_t z = 0; z < launch->grid[2]; z++)
        for (uint64_t y = 0; y < launch->grid[1] && result == NV_SUCCESS; y++)
            result = mark_row(launch, &a, y + a.base[1], z + a.base[2]);
    return result;
}

static nv_result fill_value(const drv_launch *launch, uint32_t value)
{
    uint32_t n;
    nv_result result = NV_SUCCESS;
    args(launch, 1, &n, sizeof n);
    n = covered(launch, n);
    uint32_t *out = elements(launch, 0, n, &result);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = value;
    return result;
}

static nv_result fill_const_3_5(const drv_launch *launch)
{
    return fill_value(launch, 3005);
}
static nv_result fill_const_7_11(const drv_launch *launch)
{
    return fill_value(launch, 7011);
}

static const drv_kernel kernels[] = {
    {"fill_index", 1, 8, fill_index},
    {"fill_index_off", 1, 8, fill_index},
    {"add_f32", 3, 4, add_f32},
    {"add_f32_off", 3, 4, add_f32},
    {"scale_u32", 1, 12, scale_u32},
    {"scale_u32_off", 1, 12, scale_u32},
    {"copy_u32", 2, 4, copy_u32},
    {"copy_u32_off", 2, 4, copy_u32},
    {"spin", 1, 4, spin},
    {"group_mark", 1, 24, group_mark},
    {"fill_const__3_5", 1, 4, fill_const_3_5},
    {"fill_const__7_11", 1, 4, fill_const_7_11},
};

const drv_kernel *drv_kernel_find(const char *name)
{
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}
