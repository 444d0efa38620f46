/* kernel_cache.h - the operators' kernels, compiled at first use, one table per device. */
#ifndef HAL_KERNEL_CACHE_H
#define HAL_KERNEL_CACHE_H

#include <hal/hal.h>

#define HAL_SPEC_CONSTANTS 10

/* Everything that makes one built-in kernel differ from another. Compared bytewise: initialise it whole. */
typedef struct hal_kernel_spec {
    char name[24];
    uint32_t constants[HAL_SPEC_CONSTANTS]; /* constant i has specialisation id i */
    uint32_t constant_count;
    hal_access bindings[HAL_MAX_BINDINGS];
    hal_view views[HAL_MAX_BINDINGS];
    uint32_t binding_count;
    uint32_t args_size;
    uint32_t group[3];
    uint32_t dynamic_shared;
    uint32_t plain; /* HAL_ABI_PLAIN: a flat kernel (flat.h); else HAL_ABI_OFFSET */
} hal_kernel_spec;

/* The kernel of `spec`, whose constants are called `names`; compiled by the first caller while others of the same
 * kernel wait for it. The device keeps it: borrow, do not destroy. A kernel that this build or device lacks stays
 * HAL_ERROR_UNAVAILABLE or HAL_ERROR_NOT_FOUND; any other failure is tried again at the next call. */
hal_status hal_kernel_cached(hal_device *device, const hal_kernel_spec *spec, const char *const *names,
                             hal_kernel **kernel);

#endif
