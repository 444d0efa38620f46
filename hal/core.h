/* core.h - what hal/ and the backends share: errors, logging, counted host memory, cache, driver libraries. */
#ifndef HAL_CORE_H
#define HAL_CORE_H

#include <hal/device.h>
#include <hal/module.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Per-device context that a backend keeps a pointer to; part of hal_device. Read-only for backends. */
typedef struct hal_core {
    hal_log_fn log;
    void *log_user;
    int stderr_level; /* from HAL_LOG; 0: silent */
    char *cache_dir;  /* "" : no cache */
    uint64_t submit_timeout;
    uint64_t first_point; /* streams count from here; tests start near 2^32 */
    atomic_uint_fast64_t host_allocations;
} hal_core;

/* Set the thread's last error and return `status`. One line: what, where, which value, what to do. A macro, so that a
 * reader of one file alone, an analyser too, sees that the status is what is returned. */
#define hal_fail(status, ...) (hal_set_error(__VA_ARGS__), hal_status_of(status))
void hal_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline hal_status hal_status_of(hal_status status)
{
    return status;
}
/* Put "prefix: " before the last error, as it is passed up. Returns `status`. */
hal_status hal_fail_prefix(hal_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

void hal_log(const hal_core *core, hal_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Host memory, counted in core->host_allocations. NULL when out of memory. Free with hal_free. */
void *hal_calloc(hal_core *core, size_t count, size_t size);
void *hal_realloc(hal_core *core, void *pointer, size_t size);
char *hal_strdup(hal_core *core, const char *text);
static inline void hal_free(void *pointer)
{
    free(pointer);
}

/* On-disk cache. The key is a digest of all parts that matter (add them with hal_cache_key_*). load gives HAL_OK and a
 * malloc'ed *data, or HAL_ERROR_NOT_FOUND without setting an error; a corrupt entry counts as not found. store is best
 * effort: written aside and renamed, 0600 in a 0700 folder. */
typedef struct hal_cache_key {
    uint64_t digest[2];
} hal_cache_key;
typedef struct hal_cache_part {
    const void *data;
    size_t size;
} hal_cache_part;
#define HAL_CACHE_TEXT(text) ((hal_cache_part){(text), (text) ? strlen(text) : 0})
hal_cache_key hal_cache_key_make(const hal_cache_part *parts, size_t count);
hal_status hal_cache_load(const hal_core *core, hal_cache_key key, void **data, size_t *size);
void hal_cache_store(const hal_core *core, hal_cache_key key, const void *data, size_t size);
/* The folder for a device: desc, else $HAL_CACHE_DIR, else $XDG_CACHE_HOME/libhal, else $HOME/.cache/libhal, else "".
 */
char *hal_cache_folder(const char *wanted);

/* Open the first of a NULL-terminated list of library names; on failure the reason is in the last error. */
void *hal_library_open(const char *const *names);
void *hal_library_symbol(void *library, const char *name);
void hal_library_close(void *library);

/* How long a submission on this thread may wait for room in a full queue: core->submit_timeout, or 0 while held-back
 * work is let go. */
uint64_t hal_submit_patience(const hal_core *core);

/* Monotonic host clock in ns. */
uint64_t hal_now(void);

/* Built-in programs, generated at build time from kernels_*. NULL members: this build has no such variant. */
typedef struct hal_builtin {
    const char *name;     /* kernel name, also the entry point in OpenCL and CUDA; GLSL's is "main" */
    const char *opencl_c; /* includes resolved; compiled with -DHAL_KERNEL_<name> */
    const unsigned char *spirv;
    const size_t *spirv_size;
    const char *cuda_ptx;            /* compute_80, or of one architecture */
    const unsigned char *cuda_cubin; /* sm_90, or of that architecture */
    const size_t *cuda_cubin_size;
    const char *cuda_absent; /* why cuda_ptx is NULL */
    bool one_entry;          /* the CUDA form is one entry, NAME: constants only repeat what its arguments say */
} hal_builtin;
extern const hal_builtin hal_builtins[];
extern const size_t hal_builtin_count;

#endif
