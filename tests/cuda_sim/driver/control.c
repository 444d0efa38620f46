/* control.c - the stand-in driver's lock, its checks of handles, call counts, injected failures, and what a test can
 * ask. */
#include "drv.h"

#include <stdarg.h>

#define MAX_FAILURES 16
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
#include "extra.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
};
#define NAMES (sizeof names / sizeof names[0])

static struct {
    bool initialised, forked;      /* cuInit was called; by the parent of this process */
    drv_object *dead, **dead_tail; /* the last that died, the oldest first */
    unsigned dead_count, live, errors;
    char last_error[sizeof(sim_fault)], last_fault[sizeof(sim_fault)];
    unsigned long calls[NAMES + 1]; /* the last: of other functions */
    failure failures[MAX_FAILURES];
    unsigned pending_failures;
} drv;

static __thread bool in_callback;

/* -- control ------------------------------------------------------------------------------------------------------- */

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

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(NULL, NULL, in_child);
    drv_settings_read();
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
    if (drv_set.report)
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

__attribute__((visibility("default"))) const char *cuda_sim_last_fault(void)
{
    return drv.last_fault;
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

/* -- errors -------------------------------------------------------------------------------------------------------- */

nv_result drv_misuse(nv_result result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(drv.last_error, sizeof drv.last_error, format, args);
    va_end(args);
    drv.errors++;
    return result;
}

static nv_result result_of(sim_fault_kind kind)
{
    switch (kind) {
    case SIM_NO_FAULT:
        return NV_SUCCESS;
    case SIM_FAULT_ADDRESS:
        return NV_ERROR_ILLEGAL_ADDRESS;
    case SIM_FAULT_MISALIGNED:
        return NV_ERROR_MISALIGNED_ADDRESS;
    case SIM_FAULT_INSTRUCTION:
        return NV_ERROR_ILLEGAL_INSTRUCTION;
    case SIM_FAULT_DEADLOCK: /* a device would hang */
    case SIM_FAULT_ENDLESS:
        return NV_ERROR_LAUNCH_TIMEOUT;
    case SIM_FAULT_UNDEFINED: /* a device would go on with wrong values */
    case SIM_FAULT_RACE:
    case SIM_FAULT_DIVERGENT:
    case SIM_FAULT_ASYNC:
    case SIM_FAULT_TRAP:
    case SIM_FAULT_RESOURCES:
        break;
    }
    return NV_ERROR_LAUNCH_FAILED;
}

nv_result drv_fault(const sim_fault *fault)
{
    snprintf(drv.last_fault, sizeof drv.last_fault, "%s", fault->text);
    if (drv_set.report)
        fprintf(stderr, "cuda_sim: %s\n", fault->text);
    return drv_misuse(result_of(fault->kind), "%s", fault->text);
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

/* -- entering and leaving ------------------------------------------------------------------------------------------ */

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

static nv_result check_context(const drv_context *context, const char *function)
{
    if (!context)
        return drv_misuse(NV_ERROR_INVALID_CONTEXT, "%s without a current context", function);
    if (!context->object.alive || context->closing)
        return drv_misuse(NV_ERROR_CONTEXT_IS_DESTROYED, "%s in a destroyed context", function);
    return context->sticky;
}

nv_result drv_enter(const char *function, unsigned *number, int needs)
{
    pthread_mutex_lock(&drv_lock);
    if (*number == 0)
        *number = number_of(function);
    drv.calls[*number - 1]++;
    nv_result result = injected(function);
    if (result == NV_SUCCESS && in_callback)
        result = drv_misuse((nv_result)NV_ERROR_NOT_PERMITTED, "%s in a host function", function);
    if (result == NV_SUCCESS && needs != DRV_NEEDS_NOTHING && (!drv.initialised || drv.forked))
        result = drv_misuse(NV_ERROR_NOT_INITIALIZED, "%s before cuInit", function);
    if (result == NV_SUCCESS && needs == DRV_NEEDS_CONTEXT)
        result = check_context(drv_current(), function);
    if (result != NV_SUCCESS)
        pthread_mutex_unlock(&drv_lock);
    return result;
}

nv_result drv_leave(nv_result result)
{
    pthread_mutex_unlock(&drv_lock);
    return result;
}

nv_result drv_start(void)
{
    if (drv.forked)
        return NV_ERROR_NOT_INITIALIZED;
    drv.initialised = true;
    return NV_SUCCESS;
}

void drv_callback_begin(void)
{
    in_callback = true;
}

void drv_callback_end(void)
{
    in_callback = false;
}

/* -- objects ------------------------------------------------------------------------------------------------------- */

void *drv_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    if (!memory)
        abort();
    return memory;
}

static int counts(drv_kind kind)
{
    return kind != DRV_CONTEXT && kind != DRV_FUNCTION && kind != DRV_NODE;
}

void *drv_new(size_t size, drv_kind kind, drv_context *context)
{
    drv_object *object = drv_alloc(size);
    object->kind = kind;
    object->alive = true;
    object->context = context;
    if (context)
        context->live += (unsigned)counts(kind);
    drv.live += (unsigned)counts(kind);
    return object;
}

void drv_die(drv_object *object)
{
    if (!object->alive)
        return;
    object->alive = false;
    if (object->context)
        object->context->live -= (unsigned)counts(object->kind);
    drv.live -= (unsigned)counts(object->kind);
}

void drv_bury(drv_object *object)
{
    drv_die(object);
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
