/* entry.c - cuGetProcAddress of the stand-in driver. */
#include "drv.h"

typedef void (*any_function)(void);
typedef struct entry {
    const char *name;
    any_function function;
} entry;

static const entry entries[] = {
#define NV_FUNCTION(name, params) {#name, (any_function)name}, /* NOLINT(bugprone-macro-parentheses) */
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
#include "extra.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
    /* Names without a number stand for the newest version. */
    {"cuGraphInstantiate", (any_function)cuGraphInstantiateWithFlags},
};

/* What a symbol is asked for as: without its version. */
static size_t base_length(const char *name)
{
    const char *version = strstr(name, "_v");
    return version && version[2] >= '0' && version[2] <= '9' ? (size_t)(version - name) : strlen(name);
}

nv_result cuGetProcAddress_v2(const char *symbol, void **function, int version, nv_u64 flags, nv_query *status)
{
    DRV_ENTER(DRV_NEEDS_NOTHING);
    nv_query found = NV_QUERY_NOT_FOUND;
    if (!symbol || !function || flags > 2)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuGetProcAddress: a NULL pointer, or flags"));
    *function = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        size_t length = base_length(entries[i].name);
        if (strlen(symbol) == length && strncmp(entries[i].name, symbol, length) == 0) {
            found = version < CUDA_MINIMUM_DRIVER ? NV_QUERY_VERSION : NV_QUERY_FOUND;
            if (found == NV_QUERY_FOUND)
                memcpy(function, &entries[i].function, sizeof *function);
        }
    }
    if (status)
        *status = found;
    return drv_leave(found == NV_QUERY_FOUND ? NV_SUCCESS : NV_ERROR_NOT_FOUND);
}
