/* kernel_cache.c - see kernel_cache.h. The table's lock is held for look-ups only; each entry has its own for
 * compiling. */
#include "kernel_cache.h"

#include "core.h"
#include <pthread.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BUCKETS 64

typedef struct entry {
    struct entry *next;
    hal_kernel_spec spec;
    pthread_mutex_t lock; /* everything below */
    hal_kernel *kernel;
    hal_status refused; /* what it will always be; HAL_OK: not known */
} entry;

typedef struct cache {
    pthread_mutex_t lock; /* of the chains; entries stay until the device goes */
    entry *buckets[BUCKETS];
} cache;

static const char cache_key;

static hal_status cache_create(hal_device *device, void **state)
{
    (void)device;
    cache *table = calloc(1, sizeof *table);
    if (!table) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "kernel cache: no host memory");
    }
    pthread_mutex_init(&table->lock, NULL);
    *state = table;
    return HAL_OK;
}

static void cache_destroy(void *state)
{
    cache *table = state;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (entry *item = table->buckets[i], *next; item; item = next) {
            next = item->next;
            hal_kernel_destroy(item->kernel);
            pthread_mutex_destroy(&item->lock);
            free(item);
        }
    }
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* The entry of `spec`, made if need be; NULL when out of memory. */
static entry *cache_entry(cache *table, const hal_kernel_spec *spec)
{
    entry **chain = &table->buckets[XXH3_64bits(spec, sizeof *spec) % BUCKETS];
    pthread_mutex_lock(&table->lock);
    entry *item = *chain;
    while (item && memcmp(&item->spec, spec, sizeof *spec) != 0) {
        item = item->next;
    }
    if (!item && (item = calloc(1, sizeof *item))) {
        item->spec = *spec;
        pthread_mutex_init(&item->lock, NULL);
        item->next = *chain;
        *chain = item;
    }
    pthread_mutex_unlock(&table->lock);
    return item;
}

static hal_status compile(hal_device *device, const hal_kernel_spec *spec, const char *const *names,
                          hal_kernel **kernel)
{
    hal_constant constants[HAL_SPEC_CONSTANTS];
    for (uint32_t i = 0; i < spec->constant_count; i++) {
        constants[i] = (hal_constant){names[i], i, spec->constants[i]};
    }
    hal_kernel_desc desc = {.struct_size = sizeof desc,
                            .binding_count = spec->binding_count,
                            .args_size = spec->args_size,
                            .group = {spec->group[0], spec->group[1], spec->group[2]},
                            .constants = constants,
                            .constant_count = spec->constant_count,
                            .abi = spec->plain ? HAL_ABI_PLAIN : HAL_ABI_OFFSET,
                            .splittable = true,
                            .dynamic_shared = spec->dynamic_shared};
    memcpy(desc.bindings, spec->bindings, sizeof desc.bindings);
    memcpy(desc.views, spec->views, sizeof desc.views);
    return hal_kernel_create_builtin(device, spec->name, &desc, kernel);
}

hal_status hal_kernel_cached(hal_device *device, const hal_kernel_spec *spec, const char *const *names,
                             hal_kernel **kernel)
{
    void *state = NULL;
    *kernel = NULL;
    hal_status status = hal_device_attach(device, &cache_key, cache_create, cache_destroy, &state);
    if (status != HAL_OK) {
        return status;
    }
    entry *item = cache_entry(state, spec);
    if (!item) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "kernel cache: no host memory for %s", spec->name);
    }
    pthread_mutex_lock(&item->lock);
    if (item->refused != HAL_OK) {
        status = hal_fail(item->refused, "kernel cache: %s is not there on this device", spec->name);
    } else if (!item->kernel) {
        status = compile(device, spec, names, &item->kernel);
        if (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND) {
            item->refused = status;
        }
    }
    *kernel = item->kernel;
    pthread_mutex_unlock(&item->lock);
    return status;
}
