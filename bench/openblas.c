/* openblas.c - the peer on the host: OpenBLAS by dlopen, in its plain configuration. */
#include "gemm.h"

#include <dlfcn.h>
#include <stdlib.h>

bench_sgemm_fn bench_openblas(uint32_t threads)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    char text[16];
    void *library = NULL;
    snprintf(text, sizeof text, "%u", threads);
    /* Set before it is loaded, as it reads these then. Its threads are not to spin after a product: the device's need
     * the cores (2^20 cycles instead of 2^26). */
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    setenv("OPENBLAS_NUM_THREADS", text, 1);
    setenv("OPENBLAS_THREAD_TIMEOUT", "20", 1);
    for (int i = 0; i < 2 && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bench_sgemm_fn sgemm = NULL;
    if (library)
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    return sgemm;
}
