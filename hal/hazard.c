/* hazard.c - see hazard.h.
 *
 * The graph keeps, for each key, the bytes touched so far as sorted disjoint segments, each with its last writer and
 * the commands that read it since. A read waits for the writers of the segments it meets, a write for their readers
 * (who have waited for the writer) or, without readers, for their writer; then it replaces all it met by one segment.
 * So the list of a key grows with the number of ranges alive, not with the number of commands. Reader lists share their
 * tails, and splitting a segment costs nothing. */
#include "hazard.h"

#define NONE UINT32_MAX

void hal_hazard_window_reset(hal_hazard_window *window)
{
    window->read.used = window->written.used = 0;
    window->lost = false;
}

void hal_hazard_window_lose(hal_hazard_window *window)
{
    window->lost = true;
}

static bool ends_before(const hal_hazard_range *range, const void *key, uint64_t begin)
{
    return (uintptr_t)range->key < (uintptr_t)key || (range->key == key && range->end < begin);
}

/* The first range that ends at `begin` or after it, or belongs to a later key. */
static uint32_t set_find(const hal_hazard_set *set, const void *key, uint64_t begin)
{
    uint32_t low = 0, high = set->used;
    /* Most accesses come in rising order, and much that is read lies below all that is written. */
    if (high && ends_before(&set->ranges[high - 1], key, begin))
        return high;
    if (high && !ends_before(&set->ranges[0], key, begin))
        return 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (ends_before(&set->ranges[middle], key, begin))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool set_meets(const hal_hazard_set *set, const hal_hazard_access *access)
{
    uint32_t i = set_find(set, access->key, access->begin);
    if (i < set->used && set->ranges[i].key == access->key && set->ranges[i].end == access->begin)
        i++; /* only touches it */
    return i < set->used && set->ranges[i].key == access->key && set->ranges[i].begin < access->end;
}

/* Join `access` with the ranges that it meets or touches. false: no room. */
static bool set_put(hal_hazard_set *set, const hal_hazard_access *access)
{
    hal_hazard_range joined = {access->key, access->begin, access->end};
    uint32_t first = set_find(set, access->key, access->begin), end = first;
    for (; end < set->used && set->ranges[end].key == access->key && set->ranges[end].begin <= access->end; end++) {
        if (set->ranges[end].begin < joined.begin)
            joined.begin = set->ranges[end].begin;
        if (set->ranges[end].end > joined.end)
            joined.end = set->ranges[end].end;
    }
    if (end == first && set->used == HAL_HAZARD_WINDOW)
        return false;
    if (end != first + 1 && set->used > end)
        memmove(&set->ranges[first + 1], &set->ranges[end], (set->used - end) * sizeof joined);
    set->ranges[first] = joined;
    set->used = set->used + 1 - (end - first);
    return true;
}

static bool window_conflict(const hal_hazard_window *window, const hal_hazard_access *access)
{
    return set_meets(&window->written, access) || (access->write && set_meets(&window->read, access));
}

static bool window_put(hal_hazard_window *window, const hal_hazard_access *access)
{
    return set_put(access->write ? &window->written : &window->read, access);
}

bool hal_hazard_window_add(hal_hazard_window *window, const hal_hazard_access *accesses, uint32_t count)
{
    bool barrier = window->lost;
    for (uint32_t i = 0; i < count && !barrier; i++)
        barrier = accesses[i].begin < accesses[i].end && window_conflict(window, &accesses[i]);
    for (uint32_t i = 0; i < count && !barrier; i++)
        barrier = accesses[i].begin < accesses[i].end && !window_put(window, &accesses[i]);
    if (!barrier)
        return false;
    hal_hazard_window_reset(window);
    for (uint32_t i = 0; i < count; i++)
        if (accesses[i].begin < accesses[i].end)
            window_put(window, &accesses[i]);
    return true;
}

typedef struct segment {
    uint64_t begin, end;
    uint32_t writer;  /* command, or NONE */
    uint32_t readers; /* the newest node, or NONE */
} segment;

typedef struct reader {
    uint32_t command, next;
} reader;

typedef struct keyed {
    const void *key;
    segment *segments;
    uint32_t count, capacity;
} keyed;

typedef struct builder {
    hal_core *core;
    hal_hazard_graph *graph;
    keyed *table; /* open addressing, a power of two of places */
    uint32_t mask;
    reader *readers;
    uint32_t reader_count, reader_capacity;
    uint32_t dep_capacity;
    uint32_t *seen; /* seen[d] == i + 1: d is a dependency of i already, or follows from one */
    uint32_t current;
    bool failed; /* out of host memory */
} builder;

/* Room for one more element; false (and failed) if there is none. */
static bool grow(builder *b, void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    void **place = array;
    if (count < *capacity)
        return true;
    uint32_t wanted = *capacity < 8 ? 8 : *capacity * 2;
    void *grown = wanted > *capacity ? hal_realloc(b->core, *place, wanted * size) : NULL;
    if (grown == NULL) {
        b->failed = true;
        return false;
    }
    *place = grown;
    *capacity = wanted;
    return true;
}

static void add_dep(builder *b, uint32_t dep)
{
    hal_hazard_graph *graph = b->graph;
    if (dep == NONE || dep == b->current || b->seen[dep] == b->current + 1)
        return;
    b->seen[dep] = b->current + 1;
    if (grow(b, &graph->deps, graph->edges, &b->dep_capacity, sizeof *graph->deps))
        graph->deps[graph->edges++] = dep;
}

static keyed *find_key(builder *b, const void *key)
{
    uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    for (uint32_t at = (uint32_t)(hash >> 32) & b->mask;; at = (at + 1) & b->mask) {
        keyed *entry = &b->table[at];
        if (entry->count == 0 || entry->key == key) {
            entry->key = key;
            return entry;
        }
    }
}

/* The first segment that ends after `at`. */
static uint32_t first_after(const keyed *entry, uint64_t at)
{
    uint32_t low = 0, high = entry->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entry->segments[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert(builder *b, keyed *entry, uint32_t at, segment new_segment)
{
    if (!grow(b, &entry->segments, entry->count, &entry->capacity, sizeof *entry->segments))
        return false;
    memmove(entry->segments + at + 1, entry->segments + at, (entry->count - at) * sizeof *entry->segments);
    entry->segments[at] = new_segment;
    entry->count++;
    return true;
}

/* Cut the segment that holds `at` in two there. */
static void cut(builder *b, keyed *entry, uint64_t at)
{
    uint32_t i = first_after(entry, at);
    if (i == entry->count || entry->segments[i].begin >= at)
        return;
    segment right = entry->segments[i];
    right.begin = at;
    if (insert(b, entry, i + 1, right))
        entry->segments[i].end = at;
}

static void add_reader(builder *b, keyed *entry, uint32_t at)
{
    uint32_t newest = entry->segments[at].readers;
    if (newest != NONE && b->readers[newest].command == b->current)
        return;
    if (!grow(b, &b->readers, b->reader_count, &b->reader_capacity, sizeof *b->readers))
        return;
    b->readers[b->reader_count] = (reader){b->current, newest};
    entry->segments[at].readers = b->reader_count++;
}

static void read_range(builder *b, keyed *entry, uint64_t begin, uint64_t end)
{
    cut(b, entry, begin);
    cut(b, entry, end);
    uint32_t i = first_after(entry, begin);
    while (begin < end && !b->failed) {
        uint64_t gap_end = i < entry->count && entry->segments[i].begin < end ? entry->segments[i].begin : end;
        if (begin < gap_end && !insert(b, entry, i, (segment){begin, gap_end, NONE, NONE}))
            return;
        add_dep(b, entry->segments[i].writer);
        add_reader(b, entry, i);
        begin = entry->segments[i++].end;
    }
}

static void write_range(builder *b, keyed *entry, uint64_t begin, uint64_t end)
{
    cut(b, entry, begin);
    cut(b, entry, end);
    if (b->failed)
        return;
    uint32_t first = first_after(entry, begin), last = first;
    for (; last < entry->count && entry->segments[last].begin < end; last++) {
        const segment *old = &entry->segments[last];
        if (old->readers == NONE)
            add_dep(b, old->writer);
        for (uint32_t r = old->readers; r != NONE; r = b->readers[r].next)
            add_dep(b, b->readers[r].command);
    }
    segment whole = {begin, end, b->current, NONE};
    if (first == last) {
        insert(b, entry, first, whole);
        return;
    }
    entry->segments[first] = whole;
    memmove(entry->segments + first + 1, entry->segments + last, (entry->count - last) * sizeof *entry->segments);
    entry->count -= last - first - 1;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sort the current command's dependencies and leave out those that a later one waits for itself. The search looks one
 * step deep and at a bounded number of edges: enough for chains and diamonds. */
static void reduce(builder *b)
{
    hal_hazard_graph *graph = b->graph;
    uint32_t start = graph->dep_start[b->current], kept = graph->edges;
    uint32_t budget = 256;
    if (graph->edges - start < 2)
        return;
    qsort(graph->deps + start, graph->edges - start, sizeof *graph->deps, compare);
    for (uint32_t i = start; i < graph->edges; i++)
        b->seen[graph->deps[i]] = 0;
    for (uint32_t i = graph->edges; i-- > start;) {
        uint32_t dep = graph->deps[i];
        if (b->seen[dep] == b->current + 1)
            continue; /* follows from one that is kept, or from one left out, which follows in turn */
        graph->deps[--kept] = dep;
        for (uint32_t k = graph->dep_start[dep]; k < graph->dep_start[dep + 1] && budget > 0; k++, budget--)
            b->seen[graph->deps[k]] = b->current + 1;
    }
    memmove(graph->deps + start, graph->deps + kept, (graph->edges - kept) * sizeof *graph->deps);
    graph->edges -= kept - start;
}

static bool prepare(builder *b, const hal_hazard_command *commands, uint32_t count)
{
    uint64_t accesses = 0, places = 16;
    for (uint32_t i = 0; i < count; i++)
        accesses += commands[i].count;
    while (places < accesses * 2 && places < (UINT64_C(1) << 31))
        places *= 2;
    b->mask = (uint32_t)(places - 1);
    b->table = hal_calloc(b->core, places, sizeof *b->table);
    b->seen = hal_calloc(b->core, (size_t)count + 1, sizeof *b->seen);
    b->graph->dep_start = hal_calloc(b->core, (size_t)count + 1, sizeof *b->graph->dep_start);
    b->graph->barrier = hal_calloc(b->core, (size_t)count + 1, sizeof *b->graph->barrier);
    return b->table != NULL && b->seen != NULL && b->graph->dep_start != NULL && b->graph->barrier != NULL;
}

/* Greedy: a barrier as late as possible, so each one covers the most. */
static void place_barriers(hal_hazard_graph *graph, uint32_t count)
{
    uint32_t group = 0; /* first command since the last barrier */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t end = graph->dep_start[i + 1];
        if (end == graph->dep_start[i] || graph->deps[end - 1] < group)
            continue;
        graph->barrier[i] = true;
        graph->barriers++;
        group = i;
    }
}

hal_status hal_hazard_graph_build(hal_core *core, const hal_hazard_command *commands, uint32_t count,
                                  hal_hazard_graph *graph)
{
    *graph = (hal_hazard_graph){0};
    builder b = {.core = core, .graph = graph};
    b.failed = !prepare(&b, commands, count);
    for (uint32_t i = 0; i < count && !b.failed; i++) {
        b.current = i;
        for (uint32_t k = 0; k < commands[i].count && !b.failed; k++) {
            const hal_hazard_access *access = &commands[i].accesses[k];
            if (access->begin >= access->end)
                continue;
            keyed *entry = find_key(&b, access->key);
            if (access->write)
                write_range(&b, entry, access->begin, access->end);
            else
                read_range(&b, entry, access->begin, access->end);
        }
        if (!b.failed)
            reduce(&b);
        graph->dep_start[i + 1] = graph->edges;
    }
    for (uint32_t i = 0; b.table != NULL && i <= b.mask; i++)
        hal_free(b.table[i].segments);
    hal_free(b.table);
    hal_free(b.readers);
    hal_free(b.seen);
    if (b.failed) {
        hal_hazard_graph_free(graph);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY,
                        "hal_cmdlist_finish: no host memory for the dependencies of %u commands", count);
    }
    place_barriers(graph, count);
    return HAL_OK;
}

void hal_hazard_graph_free(hal_hazard_graph *graph)
{
    hal_free(graph->dep_start);
    hal_free(graph->deps);
    hal_free(graph->barrier);
    *graph = (hal_hazard_graph){0};
}
