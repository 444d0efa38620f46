// math.cu - CUDA's own mathematical functions, one kernel each: y[i] = f(x[i]) or f(x[i], x[i + 1]), y 256 behind x.
#define ONE(f)                                                                                                         \
    extern "C" __global__ void one_##f(float *x)                                                                       \
    {                                                                                                                  \
        x[threadIdx.x + 256] = f(x[threadIdx.x]);                                                                      \
    }
#define TWO(f)                                                                                                         \
    extern "C" __global__ void two_##f(float *x)                                                                       \
    {                                                                                                                  \
        x[threadIdx.x + 256] = f(x[threadIdx.x], x[threadIdx.x + 1]);                                                  \
    }
ONE(expf) ONE(exp2f) ONE(exp10f) ONE(expm1f) ONE(logf) ONE(log2f) ONE(log10f) ONE(log1pf)
ONE(sinf) ONE(cosf) ONE(tanf) ONE(asinf) ONE(acosf) ONE(atanf) ONE(sinhf) ONE(coshf) ONE(tanhf)
ONE(asinhf) ONE(acoshf) ONE(atanhf) ONE(erff) ONE(erfcf) ONE(cbrtf) ONE(sqrtf)
ONE(roundf) ONE(truncf) ONE(floorf) ONE(ceilf) ONE(rintf)
TWO(powf) TWO(atan2f) TWO(hypotf) TWO(fmodf) TWO(remainderf) TWO(fmaxf) TWO(fminf)
