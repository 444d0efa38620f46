/* context.c - the stand-in driver's primary contexts, and which one each thread has. */
#include "drv.h"

enum { MAX_DEVICES = 8, STACK_DEPTH = 32 };

static struct {
    drv_context *context;
    unsigned retained;
} primary[MAX_DEVICES];

static __thread drv_context *stack[STACK_DEPTH];
static __thread int depth;

drv_context *drv_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

nv_result drv_check_device(int device)
{
    return device >= 0 && device < drv_set.devices && device < MAX_DEVICES
               ? NV_SUCCESS
               : drv_misuse(NV_ERROR_INVALID_DEVICE, "device %d", device);
}

nv_result cuDevicePrimaryCtxRetain(nv_context *context, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = drv_check_device(device);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (primary[device].retained++ == 0) {
        primary[device].context = drv_new(sizeof *primary[device].context, DRV_CONTEXT, NULL);
        primary[device].context->device = device;
    }
    *context = (nv_context)primary[device].context;
    return drv_leave(NV_SUCCESS);
}

nv_result cuDevicePrimaryCtxRelease_v2(nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = drv_check_device(device);
    if (result == NV_SUCCESS && primary[device].retained == 0)
        result = drv_misuse(NV_ERROR_INVALID_CONTEXT, "primary context released more often than retained");
    if (result == NV_SUCCESS && --primary[device].retained == 0) {
        drv_context *context = primary[device].context;
        primary[device].context = NULL;
        /* A broken context gives nothing back but its end. */
        if (context->live > 0 && !context->sticky)
            drv_misuse(NV_SUCCESS, "a primary context was closed with %u objects in it", context->live);
        drv_streams_end(context);
        drv_memory_close(context);
        drv_bury(&context->object);
    }
    return drv_leave(result);
}

/* NV_SUCCESS if it is a context that can be made current. */
static nv_result check(nv_context context, const char *function)
{
    const drv_object *object = (const drv_object *)context;
    if (!object || object->kind != DRV_CONTEXT)
        return drv_misuse(NV_ERROR_INVALID_CONTEXT, "%s: no context", function);
    return object->alive ? NV_SUCCESS : drv_misuse(NV_ERROR_CONTEXT_IS_DESTROYED, "%s: a destroyed context", function);
}

nv_result cuCtxGetCurrent(nv_context *context)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *context = (nv_context)drv_current();
    return drv_leave(NV_SUCCESS);
}

nv_result cuCtxPushCurrent_v2(nv_context context)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = check(context, __func__);
    if (result == NV_SUCCESS && depth == STACK_DEPTH)
        result = drv_misuse(NV_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent: too many");
    if (result == NV_SUCCESS)
        stack[depth++] = (drv_context *)context;
    return drv_leave(result);
}

nv_result cuCtxPopCurrent_v2(nv_context *context)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    if (depth == 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent: the stack is empty"));
    *context = (nv_context)stack[--depth];
    return drv_leave(NV_SUCCESS);
}

/* NULL takes the current one off. */
nv_result cuCtxSetCurrent(nv_context context)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = context ? check(context, __func__) : NV_SUCCESS;
    if (result == NV_SUCCESS) {
        depth -= depth > 0;
        if (context)
            stack[depth++] = (drv_context *)context;
    }
    return drv_leave(result);
}

nv_result cuCtxGetDevice(nv_device *device)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    *device = drv_current()->device;
    return drv_leave(NV_SUCCESS);
}

nv_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    *least = 0;
    *greatest = -5;
    return drv_leave(NV_SUCCESS);
}
