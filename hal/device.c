/* device.c - opening, closing and asking devices. */
#include "internal.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

struct hal_attachment {
    hal_attachment *next;
    const void *key;
    void *state;
    hal_detach_fn destroy;
};

/* A page that a forked child finds zeroed: drivers do not survive fork, and this tells so for the price of one load. */
static volatile const uint32_t *make_alive_page(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    madvise(page, size, MADV_WIPEONFORK);
    *page = 1;
    return page;
}

static void close_device(hal_object *object)
{
    hal_device *device = (hal_device *)object;
    bool forked = device->alive && hal_forked(device);
    if (device->builtins) {
        for (size_t i = 0; i < hal_builtin_count && !forked; i++) {
            if (device->builtins[i]) {
                device->backend->module_destroy(device->builtins[i]->native);
                hal_free(device->builtins[i]->object.label);
                hal_free(device->builtins[i]);
            }
        }
        hal_free(device->builtins);
    }
    for (hal_memory_block *block = device->blocks, *next; block && !forked; block = next) {
        next = hal_memory_block_close(device, block);
    }
    if (device->native && !forked) {
        device->backend->device_close(device->native);
    }
    if (device->alive) {
        munmap((void *)(uintptr_t)device->alive, (size_t)sysconf(_SC_PAGESIZE));
    }
    pthread_mutex_destroy(&device->attach_lock);
    pthread_mutex_destroy(&device->builtin_lock);
    pthread_rwlock_destroy(&device->trace_lock);
    pthread_mutex_destroy(&device->lock);
    pthread_cond_destroy(&device->moved);
    hal_free(device->core.cache_dir);
    hal_free(device->object.label);
    device->object.type = 0;
    free(device);
}

static hal_status read_log_level(const char *text, int *level)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(text ? text : "", names[i]) == 0) {
            *level = i;
            return HAL_OK;
        }
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "HAL_LOG: no such level '%.40s' (error, warning, info, debug)", text);
}

/* Everything of a device that needs no driver. */
static hal_status init_device(hal_device *device, const hal_device_desc *desc)
{
    device->core.log = desc->log;
    device->core.log_user = desc->log_user;
    device->core.submit_timeout = desc->submit_timeout ? desc->submit_timeout : HAL_SECONDS(10);
    device->next_block_size = 1u << 20;
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->attach_lock, NULL);
    device->keepers = 1;
    pthread_mutex_init(&device->builtin_lock, NULL);
    /* A writer must get in although traced threads submit without pause. */
    pthread_rwlockattr_t fair;
    pthread_rwlockattr_init(&fair);
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&device->trace_lock, &fair);
    pthread_rwlockattr_destroy(&fair);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&device->moved, &monotonic);
    pthread_condattr_destroy(&monotonic);
    hal_status status =
        hal_object_init(&device->object, HAL_TYPE_DEVICE, device, desc->label, device->info.name, close_device);
    if (status != HAL_OK) {
        return status;
    }
    device->object.free_object = close_device;
    device->core.cache_dir = hal_cache_folder(desc->cache_dir);
    device->builtins = hal_calloc(&device->core, hal_builtin_count + 1, sizeof *device->builtins);
    device->alive = make_alive_page();
    if (!device->core.cache_dir || !device->builtins || !device->alive) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to open a device");
    }
    status = read_log_level(getenv("HAL_LOG"), &device->core.stderr_level);
    return status == HAL_OK ? hal_faults_apply(getenv("HAL_FAULT"), device) : status;
}

static hal_status open_native(hal_device *device, const hal_choice *choice, const char *limits)
{
    hal_device_info real;
    /* The limits are checked against the real device before it is opened for good: first_point must be known by then.
     */
    memset(&real, 0xff, sizeof real);
    hal_status status = hal_limits_apply(limits, &real, &device->limits);
    if (status != HAL_OK) {
        return status;
    }
    device->core.first_point = device->limits.first_point;
    device->backend = choice->backend;
    status = choice->backend->device_open(choice->index, &device->core, &device->native, &device->info);
    if (status != HAL_OK) {
        return status;
    }
    return hal_limits_apply(limits, &device->info, &device->limits);
}

hal_status hal_device_open(const hal_device_desc *given, hal_device **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_open: device is NULL");
    }
    *out = NULL;
    hal_device_desc desc;
    hal_status status = hal_desc_read(given, &desc, sizeof desc, "hal_device_desc");
    if (status != HAL_OK) {
        return status;
    }
    const char *select = desc.select ? desc.select : getenv("HAL_BACKEND");
    hal_choice choice;
    status = hal_select(select ? select : "", desc.select ? "select" : "HAL_BACKEND", &choice);
    if (status != HAL_OK) {
        return status;
    }
    hal_device *device = calloc(1, sizeof *device);
    if (!device) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to open a device");
    }
    device->limits = (hal_limits){.memory = HAL_REST, .list_commands = HAL_REST, .pooled = HAL_REST};
    status = init_device(device, &desc);
    if (status == HAL_OK) {
        status = open_native(device, &choice, desc.limits ? desc.limits : getenv("HAL_LIMITS"));
    }
    char *label = NULL;
    if (status == HAL_OK && !desc.label) {
        status = hal_label(&device->core, device->info.name, "device", &label);
    }
    if (status != HAL_OK) {
        close_device(&device->object);
        return status;
    }
    if (label) {
        hal_free(device->object.label);
        device->object.label = label;
    }
    hal_log(&device->core, HAL_LOG_INFO, "opened %s:%u %s (%s)", device->info.backend, device->info.index,
            device->info.name, device->info.driver);
    *out = device;
    return HAL_OK;
}

/* The last one to leave takes the attachments along: they may hold objects, which hold the device. */
static void leave_attachments(hal_device *device)
{
    pthread_mutex_lock(&device->attach_lock);
    hal_attachment *attachments = --device->keepers ? NULL : device->attachments;
    device->attachments = device->keepers ? device->attachments : NULL;
    pthread_mutex_unlock(&device->attach_lock);
    for (hal_attachment *next; attachments; attachments = next) {
        next = attachments->next;
        attachments->destroy(attachments->state);
        hal_free(attachments);
    }
}

void hal_device_keep(hal_device *device)
{
    hal_retain(&device->object);
    pthread_mutex_lock(&device->attach_lock);
    device->keepers++;
    pthread_mutex_unlock(&device->attach_lock);
}

void hal_device_leave(hal_device *device)
{
    if (!hal_forked(device)) {
        leave_attachments(device);
    }
    hal_release(&device->object);
}

void hal_device_destroy(hal_device *device)
{
    if (hal_check(device, HAL_TYPE_DEVICE, "device") != HAL_OK || hal_forked(device)) {
        return;
    }
    if (atomic_exchange(&device->closing, true)) {
        hal_fail(HAL_ERROR_INVALID_STATE, "device '%s' has been destroyed already", device->object.label);
        return;
    }
    leave_attachments(device);
    hal_drain(device, device->core.submit_timeout);
    hal_trace_drop(device); /* an unwritten trace holds an event, which holds the device */
    hal_release(&device->object);
}

const hal_device_info *hal_device_get_info(const hal_device *device)
{
    return hal_check(device, HAL_TYPE_DEVICE, "device") == HAL_OK ? &device->info : NULL;
}

hal_status hal_device_status(const hal_device *device)
{
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    return status == HAL_OK ? hal_device_usable((hal_device *)(uintptr_t)device) : status;
}

bool hal_forked(const hal_device *device)
{
    return !*device->alive;
}

hal_status hal_device_usable(hal_device *device)
{
    if (hal_forked(device)) {
        return hal_fail(
            HAL_ERROR_INVALID_STATE,
            "device '%s' was opened before fork(), which drivers do not survive; use it in the parent, or exec first",
            device->object.label);
    }
    if (atomic_load_explicit(&device->lost, memory_order_relaxed)) {
        return hal_fail(HAL_ERROR_DEVICE_LOST, "device '%s' is lost; destroy its objects and open it again",
                        device->object.label);
    }
    return HAL_OK;
}

hal_status hal_device_note(hal_device *device, hal_status status)
{
    if (status == HAL_ERROR_DEVICE_LOST && !atomic_exchange(&device->lost, true)) {
        hal_log(&device->core, HAL_LOG_ERROR, "device '%s' is lost: %s", device->object.label, hal_last_error());
    }
    return status;
}

hal_status hal_device_attach(hal_device *device, const void *key, hal_attach_fn create, hal_detach_fn destroy,
                             void **state)
{
    if (state) {
        *state = NULL;
    }
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    if (status != HAL_OK) {
        return status;
    }
    if (!key || !create || !destroy || !state) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_attach: key, create, destroy or state is NULL");
    }
    if (hal_forked(device)) {
        return hal_device_usable(device);
    }
    pthread_mutex_lock(&device->attach_lock);
    hal_attachment *found = device->attachments;
    while (found && found->key != key) {
        found = found->next;
    }
    if (!found && !device->keepers) {
        status = hal_fail(HAL_ERROR_INVALID_STATE, "device '%s' has been destroyed; it takes no new operators",
                          device->object.label);
    } else if (!found) {
        found = hal_calloc(&device->core, 1, sizeof *found);
        status = found ? create(device, &found->state)
                       : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for device state");
        if (status == HAL_OK) {
            found->key = key;
            found->destroy = destroy;
            found->next = device->attachments;
            device->attachments = found;
        } else {
            hal_free(found);
        }
    }
    if (status == HAL_OK) {
        *state = found->state;
    }
    pthread_mutex_unlock(&device->attach_lock);
    return status;
}

hal_status hal_device_memory_stats(hal_device *device, hal_memory_stats *stats)
{
    if (stats) {
        memset(stats, 0, sizeof *stats);
    }
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "device");
    if (status == HAL_OK && !stats) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_memory_stats: stats is NULL");
    }
    if (status == HAL_OK && hal_forked(device)) {
        status = hal_device_usable(device);
    }
    if (status != HAL_OK) {
        return status;
    }
    hal_collect(device);
    pthread_mutex_lock(&device->lock);
    *stats = device->stats;
    pthread_mutex_unlock(&device->lock);
    stats->host_allocations = atomic_load(&device->core.host_allocations);
    return HAL_OK;
}
