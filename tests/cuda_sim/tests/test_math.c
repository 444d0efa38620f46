/* test_math.c - CUDA's mathematical functions, as nvcc compiles them, stay within the errors that NVIDIA states for
 * them (CUDA C++ Programming Guide, "Mathematical Functions", "Single-Precision Floating-Point Functions"): many
 * instructions together, with a result that is known without any of them. */
#include "../exec/sim_api.h"
#include "../ptx/ptx.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 256, TEXT = 1 << 20 };

static double ten_to(double x)
{
    return pow(10, x);
}

static const struct {
    const char *name;
    double (*exact)(double x);
    double ulps;
} ones[] = {
    {"expf", exp, 1},     {"exp2f", exp2, 2},   {"exp10f", ten_to, 2}, {"expm1f", expm1, 1}, {"logf", log, 1},
    {"log2f", log2, 1},   {"log10f", log10, 2}, {"log1pf", log1p, 1},  {"sinf", sin, 2},     {"cosf", cos, 2},
    {"tanf", tan, 4},     {"asinf", asin, 2},   {"acosf", acos, 2},    {"atanf", atan, 2},   {"sinhf", sinh, 3},
    {"coshf", cosh, 2},   {"tanhf", tanh, 2},   {"asinhf", asinh, 3},  {"acoshf", acosh, 4}, {"atanhf", atanh, 3},
    {"erff", erf, 2},     {"erfcf", erfc, 4},   {"cbrtf", cbrt, 1},    {"sqrtf", sqrt, 0},   {"roundf", round, 0},
    {"truncf", trunc, 0}, {"floorf", floor, 0}, {"ceilf", ceil, 0},    {"rintf", rint, 0},
};
static const struct {
    const char *name;
    double (*exact)(double x, double y);
    double ulps;
} twos[] = {
    {"powf", pow, 4},   {"atan2f", atan2, 3}, {"hypotf", hypot, 3}, {"fmodf", fmod, 0}, {"remainderf", remainder, 0},
    {"fmaxf", fmax, 0}, {"fminf", fmin, 0},
};

static void fill(float *x)
{
    static const float special[] = {0.0f,  -0.0f,   INFINITY, -INFINITY, NAN,       1,     -1,    0.5f,
                                    1.5f,  2.5f,    -2.5f,    1e-41f,    -1e-41f,   3e38f, 88.7f, -103.9f,
                                    89.0f, -104.0f, 1e10f,    -1e10f,    0x1p-126f, 127,   -149,  16777216};
    uint32_t seed = 7;
    for (uint32_t i = 0; i < COUNT; i++) {
        seed = seed * 1664525 + 1013904223;
        float value = ((float)(seed >> 12) - 524288.0f) / 52428.8f;
        value = i % 3 == 0 ? value * value * value : i % 7 == 0 ? value * 1e-4f : value;
        x[i] = i < sizeof special / sizeof special[0] ? special[i] : value;
    }
}

static bool run(const ptx_module *module, const char *kind, const char *name, float *x)
{
    char entry[64];
    snprintf(entry, sizeof entry, "%s_%s", kind, name);
    uint64_t address = (uintptr_t)x;
    sim_range range = {address, address + (2 * COUNT) * sizeof *x, false};
    sim_launch launch = {.function = ptx_module_entry(module, entry),
                         .grid = {1, 1, 1},
                         .block = {COUNT - 1, 1, 1},
                         .params = (const uint8_t *)&address,
                         .ranges = &range,
                         .range_count = 1};
    sim_fault fault = {0};
    bool good = launch.function && sim_launch_run(&launch, NULL, &fault);
    if (!good) {
        fprintf(stderr, "%s: %s\n", entry, launch.function ? fault.text : "no such entry");
    }
    return good;
}

static bool close_to(float got, double exact, double ulps)
{
    float rounded = (float)exact;
    if (rounded != rounded || isinf(rounded) || rounded == got) {
        return rounded != rounded ? got != got : rounded == got || (isinf(rounded) && fabsf(got) >= 0x1.fffffcp127f);
    }
    double size = fabs(exact) < 0x1p-126 ? 0x1p-149 : ldexp(1, ilogb(exact) - 23);
    return fabs(got - exact) <= (ulps + 0.5) * size;
}

static unsigned check(const char *name, const float *x, uint32_t i, double exact, double ulps)
{
    float got = x[i + COUNT];
    if (close_to(got, exact, ulps)) {
        return 0;
    }
    fprintf(stderr, "%s of %a, %a: %a, not %a\n", name, (double)x[i], (double)x[i + 1], (double)got, exact);
    return 1;
}

static ptx_module *load(void)
{
    FILE *file = fopen(MATH_PTX, "rb");
    char *text = malloc(TEXT), error[512] = "cannot be read";
    size_t size = file ? fread(text, 1, TEXT, file) : 0;
    ptx_module *module = size ? ptx_module_load(text, size, error, sizeof error) : NULL;
    if (!module) {
        fprintf(stderr, "%s: %s\n", MATH_PTX, error);
    }
    if (file) {
        fclose(file);
    }
    free(text);
    return module;
}

int main(void)
{
    ptx_module *module = load();
    if (!module) {
        return 1;
    }
    static float x[2 * COUNT];
    unsigned failures = 0;
    for (size_t f = 0; f < sizeof ones / sizeof ones[0]; f++) {
        fill(x);
        failures += !run(module, "one", ones[f].name, x);
        for (uint32_t i = 0; i < COUNT - 1; i++) {
            failures += check(ones[f].name, x, i, ones[f].exact(x[i]), ones[f].ulps);
        }
    }
    for (size_t f = 0; f < sizeof twos / sizeof twos[0]; f++) {
        fill(x);
        failures += !run(module, "two", twos[f].name, x);
        for (uint32_t i = 0; i < COUNT - 1; i++) {
            failures += check(twos[f].name, x, i, twos[f].exact(x[i], x[i + 1]), twos[f].ulps);
        }
    }
    ptx_module_free(module);
    return failures != 0;
}
