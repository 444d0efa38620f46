/* error.c - status names, the thread's last error, logging, counted host memory, driver libraries, the clock. */
#include "internal.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <time.h>

static _Thread_local char last_error[4096];
static _Thread_local bool impatient;

#define HAL_STRING_(x) #x
#define HAL_STRING(x)  HAL_STRING_(x)

const char *hal_version(void)
{
    return HAL_STRING(HAL_VERSION_MAJOR) "." HAL_STRING(HAL_VERSION_MINOR) "." HAL_STRING(HAL_VERSION_PATCH);
}

const char *hal_status_name(hal_status status)
{
    switch (status) {
#define NAME(code)                                                                                                     \
    case code:                                                                                                         \
        return #code;
        NAME(HAL_OK)
        NAME(HAL_TIMEOUT)
        NAME(HAL_ERROR_INVALID_ARGUMENT)
        NAME(HAL_ERROR_OUT_OF_RANGE)
        NAME(HAL_ERROR_ALIGNMENT)
        NAME(HAL_ERROR_OVERLAP)
        NAME(HAL_ERROR_LIMIT)
        NAME(HAL_ERROR_INVALID_STATE)
        NAME(HAL_ERROR_UNSUPPORTED)
        NAME(HAL_ERROR_UNAVAILABLE)
        NAME(HAL_ERROR_NOT_FOUND)
        NAME(HAL_ERROR_OUT_OF_MEMORY)
        NAME(HAL_ERROR_COMPILE)
        NAME(HAL_ERROR_IO)
        NAME(HAL_ERROR_DEVICE_LOST)
        NAME(HAL_ERROR_BACKEND)
#undef NAME
    }
    return "unknown hal_status";
}

const char *hal_last_error(void)
{
    return last_error;
}

/* One line without a terminal's commands, whatever a driver's log or a file of another's holds. */
static void flatten(char *text)
{
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = ' ';
        }
    }
}

void hal_set_error(const char *format, ...)
{
    char text[sizeof last_error]; /* the arguments may point into last_error */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    flatten(text);
    memcpy(last_error, text, strlen(text) + 1);
}

hal_status hal_fail_prefix(hal_status status, const char *format, ...)
{
    char prefix[256];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    return hal_fail(status, "%s: %s", prefix, last_error);
}

void hal_log(const hal_core *core, hal_log_level level, const char *format, ...)
{
    bool to_stderr = (int)level <= core->stderr_level;
    bool to_callback = core->log && level <= HAL_LOG_INFO;
    if (!to_stderr && !to_callback) {
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    flatten(text);
    if (to_stderr) {
        static const char *const names[] = {"", "error", "warning", "info", "debug"};
        fprintf(stderr, "hal %s: %s\n", names[level], text);
    }
    if (to_callback) {
        core->log(core->log_user, level, text);
    }
}

void *hal_calloc(hal_core *core, size_t count, size_t size)
{
    atomic_fetch_add_explicit(&core->host_allocations, 1, memory_order_relaxed);
    return calloc(count ? count : 1, size ? size : 1);
}

void *hal_realloc(hal_core *core, void *pointer, size_t size)
{
    atomic_fetch_add_explicit(&core->host_allocations, 1, memory_order_relaxed);
    return realloc(pointer, size ? size : 1);
}

char *hal_strdup(hal_core *core, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = hal_calloc(core, 1, size);
    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

uint64_t hal_submit_patience(const hal_core *core)
{
    return impatient ? 0 : core->submit_timeout;
}

void hal_set_patience(bool patient)
{
    impatient = !patient;
}

void *hal_library_open(const char *const *names)
{
    char reasons[1024] = "";
    size_t used = 0;
    for (size_t i = 0; names[i]; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        const char *reason = dlerror();
        int written =
            snprintf(reasons + used, sizeof reasons - used, "%s%s", used ? "; " : "", reason ? reason : names[i]);
        used += written > 0 && (size_t)written < sizeof reasons - used ? (size_t)written : 0;
    }
    hal_fail(HAL_ERROR_UNAVAILABLE, "%s", reasons);
    return NULL;
}

void *hal_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void hal_library_close(void *library)
{
    if (library) {
        dlclose(library);
    }
}

uint64_t hal_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct timespec hal_timespec(uint64_t monotonic_ns)
{
    /* A deadline of "for ever" must still fit a time_t. */
    uint64_t seconds = monotonic_ns / 1000000000u;
    struct timespec at = {(time_t)(seconds > INT32_MAX ? INT32_MAX : seconds), (long)(monotonic_ns % 1000000000u)};
    return at;
}
