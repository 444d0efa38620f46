/* hal/base.h - status codes, errors, spans, timeouts: what every other header builds on.
 *
 * Conventions of the whole library
 *  - Every call that can fail returns a hal_status; results come back through the last parameters. On failure an
 *    out-parameter is set to NULL or 0 and hal_last_error() holds one line: what, where, which value, what to do.
 *  - Descriptors begin with struct_size and are made by a macro with designated initialisers; a field left zero takes
 *    its documented default. The macros serve C, and C++ from 2020 on (where fields are named in the order of their
 *    declaration); from other languages fill struct_size with the size of the struct you know; non-zero
 *    trailing bytes that this library does not know are refused. A NULL descriptor means all defaults where no field
 *    is required.
 *  - A struct of results that begins with struct_size is filled up to it: set it before the call.
 *  - Destroying NULL is a no-op everywhere.
 *  - Labels are copied. Strings returned by the library live as long as the object they were asked of.
 *  - Any function may be called from any thread. One stream and one command list is used by one thread at a time.
 *  - Nothing here aborts, prints (unless HAL_LOG or a log callback asks for it) or waits without a deadline.
 */
#ifndef HAL_BASE_H
#define HAL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <initializer_list>
extern "C" {
#endif

#define HAL_VERSION_MAJOR 0
#define HAL_VERSION_MINOR 1
#define HAL_VERSION_PATCH 0

#if defined(__GNUC__)
#define HAL_API __attribute__((visibility("default")))
#else
#define HAL_API
#endif

typedef struct hal_device hal_device;   /* one device of one backend */
typedef struct hal_buffer hal_buffer;   /* memory a device can use */
typedef struct hal_stream hal_stream;   /* an in-order queue; streams overlap */
typedef struct hal_event hal_event;     /* a point on a stream, or a gate the host opens */
typedef struct hal_module hal_module;   /* program variants for the backends */
typedef struct hal_kernel hal_kernel;   /* an entry point of a module, specialised */
typedef struct hal_cmdlist hal_cmdlist; /* commands: immediate, or recorded and replayed */

/* What the macros of the other headers are made of: a struct; the address of a descriptor, and of an array and how long
 * it is, which live until the statement ends. C++ has HAL_DESC from 2020 on, and wants fields in their order. */
#ifdef __cplusplus
extern "C++" {
template <class T> const T *hal_desc_address(const T &desc)
{
    return &desc;
}
}
#define HAL_VALUE(type, ...) (type{__VA_ARGS__})
#define HAL_DESC(type, ...)  hal_desc_address(type{.struct_size = sizeof(type), __VA_ARGS__})
#define HAL_ARRAY(type, ...) (std::initializer_list<type>{__VA_ARGS__}.begin())
#define HAL_COUNT(type, ...) ((uint32_t)std::initializer_list<type>{__VA_ARGS__}.size())
#else
#define HAL_VALUE(type, ...) ((type){__VA_ARGS__})
#define HAL_DESC(type, ...)  (&(type){.struct_size = sizeof(type), __VA_ARGS__})
#define HAL_ARRAY(type, ...) ((const type[]){__VA_ARGS__})
#define HAL_COUNT(type, ...) ((uint32_t)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type)))
#endif

/* Zero is success, positive is "not yet", negative is an error. The same misuse gives the same code on all backends. */
typedef enum hal_status {
    HAL_OK = 0,
    HAL_TIMEOUT = 1,                 /* the deadline passed; the work goes on and can be waited for again */
    HAL_ERROR_INVALID_ARGUMENT = -1, /* NULL, foreign or wrong-type object, bad enum, wrong binding count */
    HAL_ERROR_OUT_OF_RANGE = -2,     /* a span that leaves its buffer or binding */
    HAL_ERROR_ALIGNMENT = -3,        /* an offset that the kernel's binding form or element size forbids */
    HAL_ERROR_OVERLAP = -4,          /* input and output overlap where that is illegal */
    HAL_ERROR_LIMIT = -5,            /* a limit is exceeded: group size, grid, shared memory, args; an operator's size
                                        of 2^31 or more */
    HAL_ERROR_INVALID_STATE = -6,    /* right object, wrong moment: list not finished, event never recorded, forked */
    HAL_ERROR_UNSUPPORTED = -7,      /* this device cannot do it; see hal_device_info */
    HAL_ERROR_UNAVAILABLE = -8,      /* no backend has a device, or this build lacks the kernel */
    HAL_ERROR_NOT_FOUND = -9,        /* what was named is not there: a kernel, an entry point, a device; also a backend
                                        whose driver is missing */
    HAL_ERROR_OUT_OF_MEMORY = -10,   /* device or host memory; the device works on */
    HAL_ERROR_COMPILE = -11,         /* a program was refused; the compile log is in hal_last_error() */
    HAL_ERROR_IO = -12,              /* a file could not be read or written */
    HAL_ERROR_DEVICE_LOST = -13,     /* sticky: every later call on the device says so; destroying still works */
    HAL_ERROR_BACKEND = -14          /* the driver failed in a way that has no better name */
} hal_status;

/* The code's name, e.g. "HAL_ERROR_LIMIT". Never NULL. */
HAL_API const char *hal_status_name(hal_status status);
/* The calling thread's last failure as one line; "" before the first. Valid until the thread's next libhal call. */
HAL_API const char *hal_last_error(void);
/* "0.1.0", of the library that is linked (HAL_VERSION_* are of the header). */
HAL_API const char *hal_version(void);

/* Timeouts are relative, in nanoseconds. 0 asks without waiting. HAL_FOREVER never gives up: for programs that have
 * their own watchdog. */
#define HAL_NANOSECONDS(n)  ((uint64_t)(n))
#define HAL_MICROSECONDS(n) ((uint64_t)(n)*1000u)
#define HAL_MILLISECONDS(n) ((uint64_t)(n)*1000000u)
#define HAL_SECONDS(n)      ((uint64_t)(n)*1000000000u)
#define HAL_FOREVER         UINT64_MAX

typedef enum hal_dtype {
    HAL_DTYPE_DEFAULT = 0, /* each operator says what this means; usually HAL_F32 or "like the input" */
    HAL_F32 = 1,
    HAL_F16 = 2,
    HAL_BF16 = 3,
    HAL_F8E4M3 = 4 /* E4M3FN: finite only, max 448 */
} hal_dtype;

/* Bytes per element; 0 for an unknown dtype. */
HAL_API uint32_t hal_dtype_size(hal_dtype dtype);
/* "f32", "f16", "bf16", "f8e4m3". */
HAL_API const char *hal_dtype_name(hal_dtype dtype);

typedef enum hal_access { HAL_ACCESS_NONE = 0, HAL_READ = 1, HAL_WRITE = 2, HAL_READ_WRITE = 3 } hal_access;

typedef enum hal_span_kind { HAL_SPAN_NONE = 0, HAL_SPAN_BUFFER = 1, HAL_SPAN_SLOT = 2 } hal_span_kind;

/* Where data is: bytes [offset, offset + size) of a buffer, or of whatever slot `slot` is bound to at submit.
 * A zero-initialised span means "none". Spans hold no reference: a recorded list does. */
typedef struct hal_span {
    hal_span_kind kind;
    uint32_t slot;      /* HAL_SPAN_SLOT: index into the binding table of hal_cmdlist_submit */
    hal_buffer *buffer; /* HAL_SPAN_BUFFER */
    uint64_t offset;    /* bytes */
    uint64_t size;      /* bytes; HAL_REST means up to the end of the buffer or binding */
} hal_span;

#define HAL_REST         UINT64_MAX
#define HAL_MAX_BINDINGS 16  /* spans of one dispatch */
#define HAL_MAX_SLOTS    64  /* slots and mutable scalars of one list, each */
#define HAL_MAX_ARGS     256 /* bytes of one dispatch's argument struct */

static inline hal_span hal_range(hal_buffer *buffer, uint64_t offset, uint64_t size)
{
    hal_span span = {HAL_SPAN_BUFFER, 0, buffer, offset, size};
    return span;
}
static inline hal_span hal_at(hal_buffer *buffer, uint64_t offset)
{
    return hal_range(buffer, offset, HAL_REST);
}
static inline hal_span hal_whole(hal_buffer *buffer)
{
    return hal_range(buffer, 0, HAL_REST);
}
static inline hal_span hal_slot_range(uint32_t slot, uint64_t offset, uint64_t size)
{
    hal_span span = {HAL_SPAN_SLOT, slot, NULL, offset, size};
    return span;
}
static inline hal_span hal_slot(uint32_t slot, uint64_t offset)
{
    return hal_slot_range(slot, offset, HAL_REST);
}

#ifdef __cplusplus
}
#endif
#endif
