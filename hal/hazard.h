/* hazard.h - which command must wait for which, from the bytes they read and write. */
#ifndef HAL_HAZARD_H
#define HAL_HAZARD_H

#include "core.h"

/* Bytes [begin, end) of what `key` stands for: native memory, or a slot of a list. Different keys never overlap. An
 * empty range touches nothing. */
typedef struct hal_hazard_access {
    const void *key;
    uint64_t begin, end;
    bool write;
} hal_hazard_access;

/* What ran on a stream since the last point where everything was done: the bytes read and the bytes written, each as
 * sorted disjoint ranges, so that a command costs a few steps however many came before it. */
#define HAL_HAZARD_WINDOW 64
typedef struct hal_hazard_range {
    const void *key;
    uint64_t begin, end;
} hal_hazard_range;
typedef struct hal_hazard_set {
    uint32_t used;
    hal_hazard_range ranges[HAL_HAZARD_WINDOW];
} hal_hazard_set;
typedef struct hal_hazard_window {
    hal_hazard_set read, written;
    bool lost; /* see hal_hazard_window_lose */
} hal_hazard_window;

void hal_hazard_window_reset(hal_hazard_window *window);
/* The last command taken in was refused, and with it the barrier it may have had: the next one gets one. */
void hal_hazard_window_lose(hal_hazard_window *window);
/* Take the next command in. true: it must wait for everything before it (it conflicts with something, or the window is
 * full), and the window now holds this command alone. count <= HAL_HAZARD_WINDOW. */
bool hal_hazard_window_add(hal_hazard_window *window, const hal_hazard_access *accesses, uint32_t count);

typedef struct hal_hazard_command {
    const hal_hazard_access *accesses;
    uint32_t count;
} hal_hazard_command;

/* Command i waits for deps[dep_start[i] .. dep_start[i + 1]), rising indices below i. Edges that follow from others are
 * left out where that is cheap to see. barrier[i]: everything before i must be done first; as few as there can be if
 * the order stays. */
typedef struct hal_hazard_graph {
    uint32_t *dep_start; /* count + 1 entries */
    uint32_t *deps;
    bool *barrier;
    uint32_t edges;
    uint32_t barriers;
} hal_hazard_graph;

hal_status hal_hazard_graph_build(hal_core *core, const hal_hazard_command *commands, uint32_t count,
                                  hal_hazard_graph *graph);
void hal_hazard_graph_free(hal_hazard_graph *graph);

#endif
