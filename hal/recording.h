/* recording.h - a recorded list between its first command and its last submission. */
#ifndef HAL_RECORDING_H
#define HAL_RECORDING_H

#include "internal.h"

/* Where a command's parts are while the arrays still grow. */
typedef struct hal_part {
    uint32_t first_span;
    uint32_t first_arg; /* byte in args */
    uint32_t first_access;
    uint32_t access_count;
    uint64_t upload; /* copies from the list's own bytes: 1 + their offset; else 0 */
} hal_part;

/* A stretch of commands that becomes one native list, and the event command that ends it, if any. */
typedef struct hal_segment {
    uint32_t first, count;
    hal_event *event; /* referenced through refs */
    bool event_is_wait;
    bool recorded_inside; /* a wait for what an earlier segment records */
    hal_hazard_graph graph;
    hal_list_program program;
    hal_list_scalar *scalars;
    hal_native_list *native;
} hal_segment;

/* What the list does with a slot. */
typedef struct hal_slot_use {
    bool used, written;
    uint64_t begin, end; /* bytes touched; end HAL_REST: to the end of the binding */
    uint64_t least;      /* the binding must have at least this many bytes */
    uint32_t alignment;  /* of the address, where plain bindings or views are used */
} hal_slot_use;

/* A growing array. */
typedef struct hal_array {
    void *data;
    uint32_t count, capacity;
} hal_array;

typedef struct hal_recording {
    pthread_mutex_t lock; /* a list may be told and submitted by one thread at a time; the stall report reads */
    bool finished;
    hal_status failed;               /* the first command that could not be recorded */
    char failure[256];               /* what was said of it */
    hal_array commands;              /* hal_command */
    hal_array parts;                 /* hal_part, one a command */
    hal_array spans;                 /* hal_native_span */
    hal_array args;                  /* bytes */
    hal_array accesses;              /* hal_hazard_access */
    hal_array scalars;               /* hal_list_scalar, command indices of the whole list */
    hal_array refs;                  /* hal_object * */
    hal_array uploads;               /* bytes */
    hal_array segments;              /* hal_segment */
    hal_array fixed;                 /* hal_hazard_access: fixed memory the list touches, sorted and merged at finish */
    bool last_is_dispatch;           /* hal_cmd_scalar may refer to it */
    uint32_t last_args;              /* bytes of its args that scalars may set */
    uint32_t last_first, last_count; /* commands of the last dispatch */
    uint32_t scalar_count;
    uint32_t slot_count;
    uint32_t slot_alignment; /* that every slot's address has: hal_recording_align_slots; 0: none is known */
    uint32_t most_commands;  /* hal_recording_bound; 0: as many as there is memory for */
    hal_slot_use slots[HAL_MAX_SLOTS];
    char slot_keys[HAL_MAX_SLOTS]; /* their addresses are hazard keys */
    hal_native_memory *upload_memory;
    uint64_t upload_size;
    /* The last submission, to tell whether the next one binds anything new. */
    uint64_t serial;
    hal_native_span last_bindings[HAL_MAX_SLOTS];
    uint32_t last_scalars[HAL_MAX_SLOTS];
    bool last_had_scalars;
    uint64_t submits;
} hal_recording;

/* `count` new elements of `size` bytes at the end; NULL: out of memory. */
void *hal_array_add(hal_core *core, hal_array *array, uint32_t count, size_t size);

/* A command on its way to a stream or a recording. keys are hazard keys, one a span. */
typedef struct hal_told {
    hal_command command;
    const void *keys[HAL_MAX_BINDINGS];
    hal_access access[HAL_MAX_BINDINGS];
    hal_native_span spans[HAL_MAX_BINDINGS]; /* a copy has dst and src here, a fill dst */
    uint32_t span_count;
    uint32_t alignment[HAL_MAX_BINDINGS]; /* needed of slot addresses */
    hal_object *refs[HAL_MAX_BINDINGS + 1];
    uint32_t ref_count;
    uint64_t upload; /* as hal_part.upload */
} hal_told;

/* What span i of the command touches. */
hal_hazard_access hal_told_access(const hal_told *told, uint32_t i);
/* Backends never see an empty span: give those a few bytes, once hazards are derived. */
void hal_told_fill_empty(hal_told *told);

/* A recorded list remembers its first failure, so that finish cannot succeed on half a list. Returns `status`. */
hal_status hal_cmdlist_noted(hal_cmdlist *list, hal_status status);

/* What an operator asks of a dispatch, on top of what the kernel and the device do. */
typedef struct hal_dispatch_rules {
    const uint32_t *alignments; /* powers of two, for the address of span i, also of a slot's later; NULL: none */
    uint64_t most_groups;       /* one command runs: a larger grid is cut, so that no command runs for long, and each
                                   is handed over by itself; 0: as many as the device takes. A splittable kernel's */
} hal_dispatch_rules;

/* hal_cmd_dispatch for operators. */
hal_status hal_cmd_dispatch_with(hal_cmdlist *list, hal_kernel *kernel, hal_grid grid, const hal_span *spans,
                                 uint32_t span_count, const hal_dispatch_rules *rules, const void *args,
                                 uint32_t args_size);

/* Slots of this list, which has no commands yet, will be bound at multiples of `alignment`, a power of two: operators
 * may choose kernels that need it, and a submission that does otherwise is refused. */
void hal_recording_align_slots(hal_cmdlist *list, uint32_t alignment);
/* What is known of addresses of slots; 1: nothing. */
uint32_t hal_slot_alignment(const hal_cmdlist *list);

/* More commands than these are HAL_ERROR_LIMIT. */
void hal_recording_bound(hal_cmdlist *list, uint32_t commands);

hal_status hal_recording_append(hal_cmdlist *list, const hal_told *told);
hal_status hal_recording_event(hal_cmdlist *list, hal_event *event, bool is_wait);
hal_status hal_recording_bytes(hal_cmdlist *list, const void *source, uint32_t size, uint64_t *upload);

#endif
