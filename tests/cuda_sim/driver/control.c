/* control.c - the stand-in driver's start, devices and contexts; its checks, counters and injected failures. */
#include "drv.h"

#include <stdarg.h>

#define MAX_DEVICES  8
#define MAX_FAILURES 16
#define STACK_DEPTH  32
#define MAX_DEAD     512

pthread_mutex_t drv_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t drv_moved = PTHREAD_COND_INITIALIZER;

typedef struct failure {
    char function[64];
    unsigned long nth; /* of the calls from now on; 0: unused */
    int result;
} failure;

static const char *const names[] = {
#define NV_FUNCTION(name, params) #name,
#define NV_OPTIONAL(name, params) #name,
#include "../../../backends/cuda/driver.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
};
#define NAMES (sizeof names / sizeof names[0])

static struct {
    int devices, version;
    size_t memory;
    bool initialised, forked; /* cuInit was called; by the parent of this process */
    drv_context *primary[MAX_DEVICES];
    unsigned retained[MAX_DEVICES];
    drv_object *dead, **dead_tail; /* the last that died, the oldest first */
    unsigned dead_count;
    unsigned live;
    unsigned errors;
    char last_error[256];
    unsigned long calls[NAMES + 1]; /* the last: of other functions */
    failure failures[MAX_FAILURES];
    unsigned pending_failures;
} drv;

static __thread drv_context *stack[STACK_DEPTH];
static __thread int depth;

/* -- control ------------------------------------------------------------------------------------------------------- */

static long long number(const char *name, long long fallback)
{
    const char *text = getenv(name);
    return text && *text ? strtoll(text, NULL, 0) : fallback;
}

static void add_failure(const char *function, unsigned long nth, int result)
{
    for (size_t i = 0; i < MAX_FAILURES; i++) {
        failure *entry = &drv.failures[i];
        if (entry->nth == 0) {
            snprintf(entry->function, sizeof entry->function, "%s", function);
            entry->nth = nth;
            entry->result = result;
            drv.pending_failures++;
            return;
        }
    }
    drv_misuse(NV_ERROR_UNKNOWN, "more than %d injected failures", MAX_FAILURES);
}

static void in_child(void)
{
    drv.forked = drv.initialised;
}

__attribute__((constructor)) static void read_environment(void)
{
    pthread_atfork(NULL, NULL, in_child);
    drv.devices = (int)number("HAL_CUDA_SIM_DEVICES", 1);
    drv.version = (int)number("HAL_CUDA_SIM_VERSION", 13000);
    drv.memory = (size_t)number("HAL_CUDA_SIM_MEMORY", 1ll << 30);
    const char *list = getenv("HAL_CUDA_SIM_FAIL");
    while (list && *list) {
        char function[64];
        unsigned long nth;
        int result, used = 0;
        if (sscanf(list, "%63[^:]:%lu:%d%n", function, &nth, &result, &used) != 3)
            return;
        add_failure(function, nth, result);
        list += used + (list[used] == ',');
    }
}

__attribute__((destructor)) static void report(void)
{
    if (number("HAL_CUDA_SIM_REPORT", 0))
        fprintf(stderr, "cuda_sim: %u misuses%s%s, %u objects alive\n", drv.errors, drv.errors ? ", the last: " : "",
                drv.last_error, drv.live);
}

__attribute__((visibility("default"))) unsigned cuda_sim_errors(void)
{
    pthread_mutex_lock(&drv_lock);
    unsigned errors = drv.errors;
    pthread_mutex_unlock(&drv_lock);
    return errors;
}

__attribute__((visibility("default"))) const char *cuda_sim_last_error(void)
{
    return drv.last_error;
}

__attribute__((visibility("default"))) unsigned long cuda_sim_calls(const char *function)
{
    unsigned long calls = 0;
    pthread_mutex_lock(&drv_lock);
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], function) == 0)
            calls = drv.calls[i];
    pthread_mutex_unlock(&drv_lock);
    return calls;
}

__attribute__((visibility("default"))) unsigned cuda_sim_live(void)
{
    pthread_mutex_lock(&drv_lock);
    unsigned live = drv.live;
    pthread_mutex_unlock(&drv_lock);
    return live;
}

__attribute__((visibility("default"))) void cuda_sim_fail(const char *function, unsigned long nth, int result)
{
    pthread_mutex_lock(&drv_lock);
    for (size_t i = 0; i < MAX_FAILURES && nth == 0; i++) {
        if (drv.failures[i].nth > 0 && strcmp(drv.failures[i].function, function) == 0) {
            drv.failures[i].nth = 0;
            drv.pending_failures--;
        }
    }
    if (nth > 0)
        add_failure(function, nth, result);
    pthread_mutex_unlock(&drv_lock);
}

/* -- checks -------------------------------------------------------------------------------------------------------- */

nv_result drv_misuse(nv_result result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(drv.last_error, sizeof drv.last_error, format, args);
    va_end(args);
    drv.errors++;
    return result;
}

bool drv_is_sticky(nv_result result)
{
    switch (result) {
    case NV_ERROR_ECC_UNCORRECTABLE:
    case NV_ERROR_ILLEGAL_ADDRESS:
    case NV_ERROR_LAUNCH_TIMEOUT:
    case NV_ERROR_ASSERT:
    case NV_ERROR_ILLEGAL_INSTRUCTION:
    case NV_ERROR_MISALIGNED_ADDRESS:
    case NV_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

void drv_break(drv_context *context, nv_result result)
{
    if (context && !context->sticky)
        context->sticky = result;
}

drv_context *drv_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* One more than the function's place in names[]. */
static unsigned number_of(const char *function)
{
    unsigned i = 0;
    while (i < NAMES && strcmp(names[i], function) != 0)
        i++;
    return i + 1;
}

static nv_result injected(const char *function)
{
    for (size_t i = 0; i < MAX_FAILURES && drv.pending_failures > 0; i++) {
        failure *entry = &drv.failures[i];
        if (entry->nth > 0 && strcmp(entry->function, function) == 0 && --entry->nth == 0) {
            drv.pending_failures--;
            if (drv_is_sticky((nv_result)entry->result))
                drv_break(drv_current(), (nv_result)entry->result);
            return (nv_result)entry->result;
        }
    }
    return NV_SUCCESS;
}

nv_result drv_enter(const char *function, unsigned *number, int needs)
{
    pthread_mutex_lock(&drv_lock);
    if (*number == 0)
        *number = number_of(function);
    drv.calls[*number - 1]++;
    nv_result result = injected(function);
    drv_context *context = drv_current();
    if (result == NV_SUCCESS && needs != DRV_NEEDS_NOTHING && (!drv.initialised || drv.forked))
        result = drv_misuse(NV_ERROR_NOT_INITIALIZED, "%s before cuInit", function);
    if (result == NV_SUCCESS && needs == DRV_NEEDS_CONTEXT) {
        if (!context)
            result = drv_misuse(NV_ERROR_INVALID_CONTEXT, "%s without a current context", function);
        else if (!context->object.alive)
            result = drv_misuse(NV_ERROR_CONTEXT_IS_DESTROYED, "%s in a destroyed context", function);
        else
            result = context->sticky;
    }
    if (result != NV_SUCCESS)
        pthread_mutex_unlock(&drv_lock);
    return result;
}

nv_result drv_leave(nv_result result)
{
    pthread_mutex_unlock(&drv_lock);
    return result;
}

void *drv_new(size_t size, drv_kind kind, drv_context *context)
{
    drv_object *object = calloc(1, size);
    if (!object)
        abort();
    object->kind = kind;
    object->alive = true;
    object->context = context;
    bool counts = kind != DRV_CONTEXT && kind != DRV_FUNCTION && kind != DRV_NODE;
    if (context && counts)
        context->live++;
    drv.live += counts;
    return object;
}

void drv_bury(drv_object *object)
{
    bool counts = object->kind != DRV_CONTEXT && object->kind != DRV_FUNCTION && object->kind != DRV_NODE;
    object->alive = false;
    if (object->context && counts)
        object->context->live--;
    drv.live -= counts;
    if (!drv.dead)
        drv.dead_tail = &drv.dead;
    *drv.dead_tail = object;
    drv.dead_tail = &object->next;
    if (++drv.dead_count > MAX_DEAD) {
        drv_object *oldest = drv.dead;
        drv.dead = oldest->next;
        drv.dead_count--;
        free(oldest);
    }
}

nv_result drv_check(const void *handle, drv_kind kind, const char *function)
{
    const drv_object *object = handle;
    if (!object)
        return drv_misuse(NV_ERROR_INVALID_HANDLE, "%s: NULL handle", function);
    if (object->kind != kind)
        return drv_misuse(NV_ERROR_INVALID_HANDLE, "%s: a handle of another kind", function);
    if (!object->alive)
        return drv_misuse(NV_ERROR_INVALID_HANDLE, "%s: the handle was destroyed", function);
    if (object->context && object->context != drv_current())
        return drv_misuse(NV_ERROR_INVALID_CONTEXT, "%s: the handle is of another context", function);
    return NV_SUCCESS;
}

size_t drv_total_memory(void)
{
    return drv.memory;
}
int drv_version(void)
{
    return drv.version;
}

/* -- start --------------------------------------------------------------------------------------------------------- */

nv_result cuInit(unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_NOTHING);
    if (flags != 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuInit with flags"));
    if (drv.devices == 0)
        return drv_leave(NV_ERROR_NO_DEVICE);
    if (drv.forked)
        return drv_leave(NV_ERROR_NOT_INITIALIZED);
    drv.initialised = true;
    return drv_leave(NV_SUCCESS);
}

nv_result cuDriverGetVersion(int *version)
{
    DRV_ENTER(DRV_NEEDS_NOTHING);
    *version = drv.version;
    return drv_leave(NV_SUCCESS);
}

static const struct {
    nv_result result;
    const char *name, *text;
} errors[] = {
    {NV_SUCCESS, "CUDA_SUCCESS", "no error"},
    {NV_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {NV_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NV_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NV_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {NV_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {NV_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {NV_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NV_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the device"},
    {NV_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {NV_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported PTX version"},
    {NV_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NV_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NV_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {NV_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {NV_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "already registered"},
    {NV_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {NV_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NV_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {NV_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const char *error_text(nv_result result, bool name)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result)
            return name ? errors[i].name : errors[i].text;
    return NULL;
}

nv_result cuGetErrorName(nv_result error, const char **name)
{
    *name = error_text(error, true);
    return *name ? NV_SUCCESS : NV_ERROR_INVALID_VALUE;
}

nv_result cuGetErrorString(nv_result error, const char **text)
{
    *text = error_text(error, false);
    return *text ? NV_SUCCESS : NV_ERROR_INVALID_VALUE;
}

/* -- devices ------------------------------------------------------------------------------------------------------- */

static nv_result check_device(int device)
{
    return device >= 0 && device < drv.devices && device < MAX_DEVICES
               ? NV_SUCCESS
               : drv_misuse(NV_ERROR_INVALID_DEVICE, "device %d", device);
}

nv_result cuDeviceGetCount(int *count)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *count = drv.devices;
    return drv_leave(NV_SUCCESS);
}

nv_result cuDeviceGet(nv_device *device, int ordinal)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *device = ordinal;
    return drv_leave(check_device(ordinal));
}

nv_result cuDeviceGetName(char *name, int size, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    snprintf(name, (size_t)size, "Simulated H100");
    return drv_leave(check_device(device));
}

nv_result cuDeviceGetUuid_v2(nv_uuid *uuid, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    memset(uuid, 0xfa, sizeof *uuid);
    uuid->bytes[15] = (char)device;
    return drv_leave(check_device(device));
}

nv_result cuDeviceGetPCIBusId(char *text, int size, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    snprintf(text, (size_t)size, "0000:%02X:00.0", 0x41 + device);
    return drv_leave(check_device(device));
}

nv_result cuDeviceTotalMem_v2(size_t *bytes, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *bytes = drv.memory;
    return drv_leave(check_device(device));
}

static int attribute_value(nv_device_attribute attribute)
{
    switch (attribute) {
    case NV_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case NV_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case NV_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case NV_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case NV_ATTRIBUTE_MAX_GRID_DIM_X:
        return 0x7fffffff;
    case NV_ATTRIBUTE_MAX_GRID_DIM_Y:
    case NV_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case NV_ATTRIBUTE_WARP_SIZE:
        return 32;
    case NV_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case NV_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case NV_ATTRIBUTE_UNIFIED_ADDRESSING:
    case NV_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case NV_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case NV_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        return 1;
    case NV_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return 227 * 1024;
    case NV_ATTRIBUTE_INTEGRATED:
    case NV_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return 0;
    }
    return -1;
}

nv_result cuDeviceGetAttribute(int *value, nv_device_attribute attribute, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    *value = attribute_value(attribute);
    if (*value < 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "device attribute %d", (int)attribute));
    return drv_leave(check_device(device));
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */

nv_result cuDevicePrimaryCtxRetain(nv_context *context, nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = check_device(device);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (drv.retained[device]++ == 0) {
        drv.primary[device] = drv_new(sizeof *drv.primary[device], DRV_CONTEXT, NULL);
        drv.primary[device]->device = device;
    }
    *context = (nv_context)drv.primary[device];
    return drv_leave(NV_SUCCESS);
}

nv_result cuDevicePrimaryCtxRelease_v2(nv_device device)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    nv_result result = check_device(device);
    if (result == NV_SUCCESS && drv.retained[device] == 0)
        result = drv_misuse(NV_ERROR_INVALID_CONTEXT, "primary context released more often than retained");
    if (result == NV_SUCCESS && --drv.retained[device] == 0) {
        /* A broken context gives nothing back but its end. */
        if (drv.primary[device]->live > 0 && !drv.primary[device]->sticky)
            drv_misuse(NV_SUCCESS, "a primary context was closed with %u objects in it", drv.primary[device]->live);
        drv_memory_close(drv.primary[device]);
        drv_bury(&drv.primary[device]->object);
        drv.primary[device] = NULL;
    }
    return drv_leave(result);
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
    const drv_object *object = (const drv_object *)context;
    if (!object || object->kind != DRV_CONTEXT || depth == STACK_DEPTH)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_CONTEXT, "cuCtxPushCurrent: no context, or too many"));
    if (!object->alive)
        return drv_leave(drv_misuse(NV_ERROR_CONTEXT_IS_DESTROYED, "cuCtxPushCurrent: a destroyed context"));
    stack[depth++] = (drv_context *)context;
    return drv_leave(NV_SUCCESS);
}

nv_result cuCtxPopCurrent_v2(nv_context *context)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    if (depth == 0)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_CONTEXT, "cuCtxPopCurrent: the stack is empty"));
    *context = (nv_context)stack[--depth];
    return drv_leave(NV_SUCCESS);
}

nv_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    *least = 0;
    *greatest = -5;
    return drv_leave(NV_SUCCESS);
}
