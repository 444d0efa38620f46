/* internal.h - the objects behind the public handles, and the rules that hold them together.
 *
 * Lifetime. Objects are reference counted; children hold their device, recorded lists hold what they recorded. Work in
 * flight holds nothing: when an object's last reference goes, hal_bury notes the point that every stream has reached,
 * and the object is freed once all are passed. So the hot path counts nothing.
 *
 * Locks, in the order they may be taken: attach, stream, recording, device. Backends are called with stream and
 * recording locks held, never (but for completed points) with the device lock.
 */
#ifndef HAL_INTERNAL_H
#define HAL_INTERNAL_H

#include "backend.h"
#include "hazard.h"
#include "pool.h"
#include <pthread.h>
#include <sched.h>

typedef enum hal_type {
    HAL_TYPE_DEVICE = 0x48414c01,
    HAL_TYPE_BUFFER,
    HAL_TYPE_STREAM,
    HAL_TYPE_EVENT,
    HAL_TYPE_MODULE,
    HAL_TYPE_KERNEL,
    HAL_TYPE_CMDLIST
} hal_type;

/* First member of every object. */
typedef struct hal_object {
    uint32_t type;
    atomic_uint refs;
    hal_device *device;
    char *label;
    void (*free_object)(struct hal_object *object); /* no reference and no work is left */
    atomic_bool used;                               /* work may have referred to it: it must be buried */
} hal_object;

/* Limits that tests lower; 0 or HAL_REST: not lowered. */
typedef struct hal_limits {
    uint64_t memory;        /* bytes of DEVICE memory that may be reserved */
    uint64_t list_commands; /* commands of one native list */
    uint64_t pooled;        /* bytes of the largest buffer that shares an allocation */
    uint64_t first_point;
} hal_limits;

typedef struct hal_grave hal_grave;
typedef struct hal_memory_block hal_memory_block;
typedef struct hal_trace hal_trace;
typedef struct hal_attachment hal_attachment;

struct hal_device {
    hal_object object;
    hal_core core;
    const hal_backend *backend;
    hal_native_device *native;
    hal_device_info info;
    hal_limits limits;
    atomic_bool lost;
    atomic_bool closing;            /* hal_device_destroy was called */
    volatile const uint32_t *alive; /* a page that fork wipes: 0 in a child */
    atomic_uint_fast64_t faults[4];
    atomic_uint memory_numbers;
    atomic_uint mapped_buffers;

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t moved; /* a gate opened or a held-back stream advanced; monotonic clock */
    hal_stream *streams;
    hal_grave *graves;
    hal_memory_block *blocks;
    uint64_t next_block_size;
    hal_memory_stats stats;
    pthread_rwlock_t trace_lock; /* taken after a stream's */
    hal_trace *_Atomic trace;

    pthread_mutex_t attach_lock; /* may call into libhal: taken before every other lock */
    hal_attachment *attachments;
    uint32_t keepers; /* of the attachments: the handle, and what outlives it and needs them */
    pthread_mutex_t builtin_lock;
    hal_module **builtins; /* hal_builtin_count entries, made at first use; they hold no reference to the device */
};

struct hal_buffer {
    hal_object object;
    hal_native_memory *memory;
    uint32_t number; /* of this buffer, see hal_native_span */
    uint64_t offset; /* of the buffer in the native memory */
    uint64_t size;
    hal_memory kind;
    bool imported;
    atomic_bool mapped;
    void *map_pointer;
    hal_memory_block *block; /* the pool block it lies in; NULL: the native memory is its own */
    uint64_t reserved;       /* bytes of its own native memory */
    hal_release_fn release;
    void *release_user, *release_pointer;
};

struct hal_module {
    hal_object object;
    hal_native_module *native;
};

struct hal_kernel {
    hal_object object;
    hal_module *module;
    hal_native_kernel *native;
    hal_kernel_desc desc; /* label and constants are not kept */
};

struct hal_event {
    hal_object object;
    bool gate, timing;
    hal_native_event *native; /* timing only */
    pthread_mutex_t lock;
    hal_stream *stream; /* latest record; NULL before */
    uint64_t point;
    bool open;                    /* gate: no one waits */
    atomic_uint_fast64_t signals; /* gate: how often it was opened; a wait is for the next one */
};

/* What a stream holds back while it waits for a gate, or for a stream that is held back. */
typedef enum hal_held_kind {
    HAL_HELD_GATE,
    HAL_HELD_WAIT,
    HAL_HELD_COMMAND,
    HAL_HELD_LIST,
    HAL_HELD_STAMP,
    HAL_HELD_MARK
} hal_held_kind;
typedef struct hal_held {
    struct hal_held *next;
    hal_held_kind kind;
    hal_event *event;   /* GATE, STAMP: referenced */
    hal_stream *stream; /* WAIT: referenced */
    uint64_t point;     /* WAIT, MARK; GATE: the signal that lets go */
    hal_command command;
    hal_native_span spans[HAL_MAX_BINDINGS];
    uint8_t args[HAL_MAX_ARGS];
    hal_cmdlist *list; /* LIST: referenced */
    uint32_t segment;
    uint32_t binding_count, scalar_count;
    hal_native_span *bindings; /* binding_count, then scalars */
    uint32_t *scalars;
} hal_held;

typedef struct hal_staging_block {
    struct hal_staging_block *next;
    hal_native_memory *memory;
    uint8_t *host;
    uint64_t size, used;
    uint64_t point;  /* of its last use */
    uint32_t pinned; /* downloads not yet copied out */
} hal_staging_block;

typedef struct hal_download {
    struct hal_download *next;
    hal_staging_block *block;
    const void *source;
    void *target;
    uint64_t size;
    uint64_t point;
} hal_download;

/* The last marks of a stream, for the stall report. */
#define HAL_HISTORY 32
typedef struct hal_history {
    uint64_t point, time;
    uint32_t commands;
    char label[40];
    char waits_for[40];
} hal_history;

struct hal_cmdlist {
    hal_object object;
    hal_stream *stream; /* immediate: the stream it belongs to */
    struct hal_recording *recording;
};

struct hal_stream {
    hal_object object;
    hal_stream *next; /* in device->streams */
    hal_native_stream *native;
    hal_cmdlist immediate;
    atomic_uint waiting;            /* threads beside the stream's own that want the lock; its own lets them go first */
    pthread_mutex_t lock;           /* everything below */
    uint64_t last_point;            /* last point named */
    atomic_uint_fast64_t issued;    /* last point the backend knows; behind last_point while held back */
    atomic_uint_fast64_t completed; /* last point known to be passed */
    bool dirty;                     /* something was told since the last mark */
    uint32_t unmarked;              /* commands since the last mark */
    const char *last_label;
    char waits_for[40];
    hal_hazard_window window;
    hal_held *held, **held_tail;
    uint32_t held_count;
    atomic_bool full;       /* what is held back stopped at a full queue, not at a gate */
    hal_status held_status; /* first failure of something held back; reported by the next wait */
    hal_staging_block *staging;
    uint64_t staging_size;
    hal_download *downloads, **downloads_tail;
    hal_history history[HAL_HISTORY];
    uint32_t history_count;
};

/* object.c */
hal_status hal_object_init(hal_object *object, hal_type type, hal_device *device, const char *label,
                           const char *fallback, void (*free_object)(hal_object *));
void hal_retain(hal_object *object);
void hal_release(hal_object *object); /* NULL is fine; the last reference buries or frees */
/* What is wrong with `object`, if hal_check or hal_check_on says so. */
hal_status hal_check_failed(const void *object, hal_type type, const char *what);
hal_status hal_check_on_failed(const hal_device *device, const void *object, hal_type type, const char *what);
/* HAL_OK if `object` is a live object of that type; `what` names the argument in the message. */
static inline hal_status hal_check(const void *object, hal_type type, const char *what)
{
    return object && ((const hal_object *)object)->type == (uint32_t)type ? HAL_OK
                                                                          : hal_check_failed(object, type, what);
}
/* As hal_check, and of `device`. */
static inline hal_status hal_check_on(const hal_device *device, const void *object, hal_type type, const char *what)
{
    return object && ((const hal_object *)object)->type == (uint32_t)type &&
                   ((const hal_object *)object)->device == device
               ? HAL_OK
               : hal_check_on_failed(device, object, type, what);
}
/* Read a caller's descriptor by the struct_size rule: an older caller's missing fields are zero, a newer caller's
 * unknown ones must be. desc may be NULL: all defaults. */
hal_status hal_desc_read(const void *desc, void *copy, size_t known, const char *what);
/* The other way: of `known` bytes of results those that the caller's struct has, by its struct_size, which stays. */
void hal_desc_write(const void *from, size_t known, void *to);
hal_status hal_label(hal_core *core, const char *label, const char *fallback, char **copy);

/* device.c */
/* In a child of fork the driver, its objects and the locks are the parent's: nothing may be touched, nothing is freed.
 */
bool hal_forked(const hal_device *device);
hal_status hal_device_usable(hal_device *device); /* not lost, not a forked child */
/* For what holds the device and needs the state that layers above attached, after hal_device_destroy, too. */
void hal_device_keep(hal_device *device);
void hal_device_leave(hal_device *device);
hal_status hal_device_note(hal_device *device, hal_status status); /* makes a lost device sticky; returns status */
bool hal_fault_hit(hal_device *device, hal_fault fault);
/* What is injected to fail this submission of `label`, a command or a list; HAL_OK: nothing. */
hal_status hal_submit_fault(hal_stream *stream, const char *label);

/* select.c */
typedef struct hal_choice {
    const hal_backend *backend;
    uint32_t index;
} hal_choice;
/* `source` says in messages where the selection came from. */
hal_status hal_select(const char *select, const char *source, hal_choice *choice);
bool hal_select_names(const char *select, const char *backend);

/* buffer.c */
/* Native memory, with the fault hook and the memory limit. `collect`: buried memory is freed if that helps; not with a
 * stream locked. */
hal_status hal_memory_reserve(hal_device *device, hal_native_memory_kind kind, uint64_t size, bool collect, void **host,
                              hal_native_memory **memory);
void hal_memory_unreserve(hal_device *device, uint64_t size);
/* Give the block's native memory back; the next block of the list. */
hal_memory_block *hal_memory_block_close(hal_device *device, hal_memory_block *block);

/* limits.c */
hal_status hal_limits_apply(const char *text, hal_device_info *info, hal_limits *limits);
hal_status hal_faults_apply(const char *text, hal_device *device);

/* grave.c */
void hal_bury(hal_object *object);
/* Every live stream of the device, referenced; the caller releases them and frees the array. NULL: out of memory. */
hal_stream **hal_streams_snapshot(hal_device *device, uint32_t *count);
void hal_collect(hal_device *device);
/* Wait for buried objects that no gate holds back, then free them. */
void hal_drain(hal_device *device, uint64_t timeout);

/* stream.c */
/* The stream's own thread takes its lock. */
static inline void hal_stream_lock(hal_stream *stream)
{
    while (atomic_load_explicit(&stream->waiting, memory_order_relaxed)) {
        sched_yield();
    }
    pthread_mutex_lock(&stream->lock);
}
/* Another thread takes it, and is not kept out by one that submits without pause. false: not until `deadline`. */
bool hal_stream_lock_beside(hal_stream *stream, uint64_t deadline);
hal_status hal_stream_mark_locked(hal_stream *stream, uint64_t *point);
hal_status hal_stream_wait_until(hal_stream *stream, uint64_t point, uint64_t timeout);
bool hal_stream_passed(hal_stream *stream, uint64_t point);
void hal_wait_moved_locked(hal_device *device, uint64_t deadline, uint64_t slice);
hal_status hal_stream_execute_locked(hal_stream *stream, const hal_command *command);
/* Later work on `stream` waits for `other` to pass `point`. */
hal_status hal_stream_follow_locked(hal_stream *stream, hal_stream *other, uint64_t point, const char *label);
hal_status hal_stream_wait_event_locked(hal_stream *stream, hal_event *event);
hal_status hal_stream_record_locked(hal_stream *stream, hal_event *event);

/* error.c */
void hal_set_patience(bool patient); /* of this thread, see hal_submit_patience */

/* held.c */
hal_status hal_held_push(hal_stream *stream, const hal_held *what);
hal_status hal_held_room(const hal_stream *stream, uint64_t more); /* HAL_ERROR_LIMIT if `more` cannot be held back */
void hal_tell_moved(hal_device *device);                           /* wake who waits for a gate or a held-back stream */
void hal_pump(hal_device *device);                                 /* let streams go on whose gates have opened */
/* Whether waiting for the gate means waiting now, and then for which of its signals. */
bool hal_gate_closed(hal_event *event, uint64_t *signal);
void hal_held_free(hal_held *held);

/* staging.c */
hal_status hal_staging_take_locked(hal_stream *stream, uint64_t size, hal_staging_block **block, uint64_t *offset);
void hal_staging_copy_out_locked(hal_stream *stream, uint64_t passed);
void hal_staging_free(hal_stream *stream);

/* recording.c, replay.c: see recording.h */
hal_status hal_list_submit_segment_locked(hal_cmdlist *list, uint32_t segment, hal_stream *stream,
                                          const hal_native_span *bindings, const uint32_t *scalars);

/* trace.c */
typedef struct hal_trace_mark {
    bool taken;
    uint32_t index;
    hal_native_event *start;
    uint64_t host_start;
} hal_trace_mark;
void hal_trace_begin(hal_stream *stream, hal_trace_mark *mark);
void hal_trace_end(hal_stream *stream, hal_trace_mark *mark, const char *name);
void hal_trace_drop(hal_device *device); /* an unwritten one */

/* log.c, clock */
static inline uint64_t hal_deadline(uint64_t now, uint64_t timeout)
{
    return timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
}
struct timespec hal_timespec(uint64_t monotonic_ns);

#endif
