/* object.c - reference counts, type checks, descriptor checks. */
#include "internal.h"

static const char *type_name(uint32_t type)
{
    static const char *const names[] = {"device", "buffer", "stream", "event", "module", "kernel", "command list"};
    return type >= HAL_TYPE_DEVICE && type <= HAL_TYPE_CMDLIST ? names[type - HAL_TYPE_DEVICE] : "not a libhal object";
}

hal_status hal_label(hal_core *core, const char *label, const char *fallback, char **copy)
{
    *copy = hal_strdup(core, label && *label ? label : fallback);
    return *copy ? HAL_OK : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for the label of a %s", fallback);
}

hal_status hal_object_init(hal_object *object, hal_type type, hal_device *device, const char *label,
                           const char *fallback, void (*free_object)(hal_object *))
{
    hal_status status = hal_label(&device->core, label, fallback, &object->label);
    if (status != HAL_OK) {
        return status;
    }
    object->type = type;
    object->device = device;
    object->free_object = free_object;
    atomic_init(&object->refs, 1);
    if (&device->object != object) {
        hal_retain(&device->object);
    }
    return HAL_OK;
}

void hal_retain(hal_object *object)
{
    atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

void hal_release(hal_object *object)
{
    if (!object || atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (hal_forked(object->device)) {
        return;
    }
    if (object->used) {
        hal_bury(object);
    } else {
        object->free_object(object);
    }
}

hal_status hal_check_failed(const void *object, hal_type type, const char *what)
{
    if (!object) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s is NULL; pass a %s", what, type_name(type));
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s is %s (%p), not a live %s", what,
                    type_name(((const hal_object *)object)->type), object, type_name(type));
}

hal_status hal_check_on_failed(const hal_device *device, const void *object, hal_type type, const char *what)
{
    hal_status status = hal_check(object, type, what);
    if (status != HAL_OK) {
        return status;
    }
    const hal_object *header = object;
    const char *theirs = header->device->object.label, *ours = device->object.label;
    if (strcmp(theirs, ours) == 0) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s '%s' belongs to another hal_device opened on '%s'", what,
                        header->label, ours);
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s '%s' belongs to device '%s', not to '%s'", what, header->label,
                    theirs, ours);
}

/* No descriptor will be longer: what was never set is not followed through memory. */
enum { MOST_DESC = 1 << 16 };

hal_status hal_desc_read(const void *desc, void *copy, size_t known, const char *what)
{
    memset(copy, 0, known);
    if (!desc) {
        memcpy(copy, &known, sizeof known);
        return HAL_OK;
    }
    size_t size;
    memcpy(&size, desc, sizeof size);
    if (size < sizeof size || size > MOST_DESC) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s.struct_size is %zu; use the descriptor macro or set sizeof",
                        what, size);
    }
    const uint8_t *bytes = desc;
    for (size_t i = known; i < size; i++) {
        if (bytes[i]) {
            return hal_fail(HAL_ERROR_UNSUPPORTED,
                            "%s has a field at byte %zu that libhal %s does not know; update libhal or leave it zero",
                            what, i, hal_version());
        }
    }
    memcpy(copy, desc, size < known ? size : known);
    return HAL_OK;
}

void hal_desc_write(const void *from, size_t known, void *to)
{
    size_t size;
    memcpy(&size, to, sizeof size);
    const size_t end = known < size ? known : size;
    memcpy((uint8_t *)to + sizeof size, (const uint8_t *)from + sizeof size, end - sizeof size);
}
