/* ragged.c - hal_ragged: one plan of a batch's lengths and pages, many layers. */
#include <hal/ragged.h>

#include "attention.h"

#include "core.h"
#include "recording.h"

/* What goes up, each at a multiple of 16 bytes of one buffer. */
enum { CU_Q, KV_LENGTHS, PAGES, ITEMS, ARRAYS };

enum { RAGGED_TYPE = 0x48414c52 };

struct hal_ragged {
    uint32_t type; /* RAGGED_TYPE; other handles are told by it */
    hal_ragged_desc desc;
    char *label;
    hal_stream *stream;
    hal_buffer *metadata, *scratch;
    uint32_t *words; /* what was uploaded */
    uint64_t capacity, used, start[ARRAYS];
    bool planned;
    uint32_t sequences, page_columns;
    hal_attention_desc attention; /* of every layer, but for q, k, v, o and lse */
    attention_list list;
    hal_ragged_stats stats;
};

static hal_status live(const hal_ragged *ragged, const char *call)
{
    return ragged && ragged->type == RAGGED_TYPE
               ? HAL_OK
               : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: ragged is %s; use what hal_ragged_create gave", call,
                          ragged ? "not a live one" : "NULL");
}

hal_status hal_ragged_create(hal_stream *stream, const hal_ragged_desc *given, hal_ragged **ragged)
{
    hal_ragged_desc desc;
    if (!ragged) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_ragged_create: ragged is NULL; pass a place for it");
    }
    *ragged = NULL;
    hal_status status = hal_check(stream, HAL_TYPE_STREAM, "hal_ragged_create: stream");
    status = status == HAL_OK ? hal_desc_read(given, &desc, sizeof desc, "hal_ragged_desc") : status;
    if (status == HAL_OK && (desc.page_size == 0 || desc.page_size > HAL_MAX_DIMENSION)) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_ragged_create: page_size is %u; use 1 to 2^31 - 1 tokens",
                          desc.page_size);
    }
    if (status == HAL_OK && (desc.q_heads == 0 || desc.kv_heads == 0 || desc.q_heads % desc.kv_heads)) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                          "hal_ragged_create: q_heads is %u, kv_heads %u; the first is a multiple of the second",
                          desc.q_heads, desc.kv_heads);
    }
    if (status != HAL_OK) {
        return status;
    }
    hal_core *core = &stream->object.device->core;
    hal_ragged *r = hal_calloc(core, 1, sizeof *r);
    if (!r) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_ragged_create: out of host memory");
    }
    r->type = RAGGED_TYPE;
    r->desc = desc;
    r->stream = stream;
    hal_retain(&stream->object);
    hal_device_keep(stream->object.device);
    status = hal_label(core, desc.label, "ragged", &r->label);
    if (status != HAL_OK) {
        hal_ragged_destroy(r);
        return status;
    }
    *ragged = r;
    return HAL_OK;
}

void hal_ragged_destroy(hal_ragged *r)
{
    if (r && r->type == RAGGED_TYPE) {
        hal_device *device = r->stream->object.device;
        r->type = 0;
        hal_buffer_destroy(r->metadata);
        hal_buffer_destroy(r->scratch);
        hal_release(&r->stream->object);
        hal_free(r->words);
        hal_free(r->label);
        hal_free(r);
        hal_device_leave(device);
    }
}

/* Totals of a batch whose every sequence has been checked. */
typedef struct totals {
    uint64_t tokens, longest_q, longest_kv;
} totals;

static hal_status check_sequence(const hal_ragged *r, const hal_ragged_batch *b, uint32_t s)
{
    const int64_t queries = b->q_lengths[s], keys = b->kv_lengths[s], size = r->desc.page_size;
    if (queries < 0 || keys < 0 || keys > b->page_columns * size) {
        return hal_fail(HAL_ERROR_OUT_OF_RANGE,
                        "hal_ragged_plan: sequence %u has %lld queries and %lld keys; %u pages of %lld hold less, or a "
                        "length is negative",
                        s, (long long)queries, (long long)keys, b->page_columns, (long long)size);
    }
    if (!b->page_table) {
        return HAL_OK; /* there are no columns, and so no keys */
    }
    const int32_t *pages = b->page_table + (size_t)s * b->page_columns;
    for (int64_t i = 0; i < (keys + size - 1) / size; i++) {
        if (pages[i] < 0 || (uint64_t)pages[i] >= r->desc.pages) {
            return hal_fail(HAL_ERROR_OUT_OF_RANGE, "hal_ragged_plan: page %lld of sequence %u is %d; there are %llu",
                            (long long)i, s, pages[i], (unsigned long long)r->desc.pages);
        }
    }
    return HAL_OK;
}

static hal_status check_batch(const hal_ragged *r, const hal_ragged_batch *b, totals *t)
{
    *t = (totals){0};
    if (b->sequences && (!b->q_lengths || !b->kv_lengths || (b->page_columns && !b->page_table))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_ragged_plan: q_lengths, kv_lengths or page_table is NULL");
    }
    hal_status status = HAL_OK;
    for (uint32_t s = 0; status == HAL_OK && s < b->sequences; s++) {
        status = check_sequence(r, b, s);
        const uint64_t queries = (uint64_t)b->q_lengths[s], keys = (uint64_t)b->kv_lengths[s];
        t->tokens += queries;
        t->longest_q = queries > t->longest_q ? queries : t->longest_q;
        t->longest_kv = keys > t->longest_kv ? keys : t->longest_kv;
    }
    if (status == HAL_OK && (t->tokens > HAL_MAX_DIMENSION || b->sequences > HAL_MAX_DIMENSION)) {
        status = hal_fail(HAL_ERROR_LIMIT, "hal_ragged_plan: %llu tokens of %u sequences; use less than 2^31",
                          (unsigned long long)t->tokens, b->sequences);
    }
    return status;
}

static hal_attention_desc describe(const hal_ragged *r, const hal_ragged_batch *b, const totals *t)
{
    const hal_ragged_desc *d = &r->desc;
    return (hal_attention_desc){.struct_size = sizeof(hal_attention_desc),
                                .batch = b->sequences,
                                .q_heads = d->q_heads,
                                .kv_heads = d->kv_heads,
                                .head_dim = d->head_dim,
                                .value_dim = d->value_dim,
                                .q_length = t->longest_q,
                                .kv_length = t->longest_kv,
                                .q_tokens = t->tokens,
                                .dtype = d->dtype,
                                .dtype_o = d->dtype_o,
                                .page_size = d->page_size,
                                .pages = d->pages,
                                .page_columns = b->page_columns,
                                .scale = d->scale,
                                .causal = d->causal,
                                .softcap = d->softcap,
                                .mode = d->mode,
                                .cu_q = hal_slot(0, 0), /* only that there is one, until the metadata has a place */
                                .kv_lengths = hal_slot(0, 0),
                                .page_table = hal_slot(0, 0)};
}

/* Tiles that there are queries for, of one head of keys. */
static uint64_t count_tiles(const hal_ragged *r, const hal_ragged_batch *b, uint32_t rows)
{
    uint64_t tiles = 0;
    for (uint32_t s = 0; s < b->sequences; s++) {
        tiles += hal_groups((uint64_t)b->q_lengths[s] * (r->desc.q_heads / r->desc.kv_heads), rows);
    }
    return tiles;
}

/* Splits that the tiles there are need to keep the device busy. */
static uint32_t choose_splits(const hal_ragged *r, uint64_t tiles, uint64_t longest_kv)
{
    const hal_device_info *info = hal_device_get_info(r->stream->object.device);
    const uint64_t groups = tiles * r->desc.kv_heads, wanted = 2 * (uint64_t)info->compute_units;
    const uint64_t most = longest_kv / ATTENTION_KEYS / 4;
    uint64_t splits = groups == 0 || groups >= wanted ? 1 : hal_groups(wanted, groups);
    splits = splits < most ? splits : most;
    return splits > 64 ? 64 : splits > 1 ? (uint32_t)splits : 1;
}

/* Room for the words of a batch; the places of its arrays. */
static hal_status make_room(hal_ragged *r, const hal_ragged_batch *b, uint64_t items)
{
    const uint64_t sizes[ARRAYS] = {(uint64_t)b->sequences + 1, b->sequences, (uint64_t)b->sequences * b->page_columns,
                                    items * ATTENTION_ITEM_WORDS};
    uint64_t words = 0;
    for (int i = 0; i < ARRAYS; i++) {
        r->start[i] = words;
        words += (sizes[i] + 3) / 4 * 4;
    }
    r->used = words;
    if (words > UINT32_MAX) {
        return hal_fail(HAL_ERROR_LIMIT, "hal_ragged_plan: page tables and list need %llu words; use less than 2^32",
                        (unsigned long long)words);
    }
    if (words <= r->capacity) {
        return HAL_OK;
    }
    const uint64_t capacity = words + words / 2;
    hal_buffer *metadata = NULL;
    uint32_t *host = hal_calloc(&r->stream->object.device->core, capacity, sizeof *host);
    if (!host) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_ragged_plan: out of host memory for %llu words",
                        (unsigned long long)capacity);
    }
    hal_status status = hal_buffer_create(r->stream->object.device,
                                          HAL_BUFFER(.size = capacity * sizeof *host, .label = r->label), &metadata);
    if (status != HAL_OK) {
        hal_free(host);
        return status;
    }
    hal_buffer_destroy(r->metadata);
    hal_free(r->words);
    r->metadata = metadata;
    r->words = host;
    r->capacity = capacity;
    return HAL_OK;
}

static hal_status make_scratch(hal_ragged *r, uint64_t bytes)
{
    if (bytes <= r->stats.scratch_bytes) {
        return HAL_OK;
    }
    hal_buffer *scratch;
    hal_status status =
        hal_buffer_create(r->stream->object.device, HAL_BUFFER(.size = bytes, .label = r->label), &scratch);
    if (status == HAL_OK) {
        hal_buffer_destroy(r->scratch);
        r->scratch = scratch;
        r->stats.scratch_bytes = bytes;
    }
    return status;
}

/* The arrays. Items of one sequence follow each other, its last tile first: under a causal mask that has the most keys,
 * and what takes long should not begin last. */
static void write_words(hal_ragged *r, const hal_ragged_batch *b)
{
    uint32_t *cu_q = r->words + r->start[CU_Q], *item = r->words + r->start[ITEMS], tokens = 0;
    for (uint32_t s = 0; s < b->sequences; s++) {
        const uint64_t rows = (uint64_t)b->q_lengths[s] * (r->desc.q_heads / r->desc.kv_heads);
        cu_q[s] = tokens;
        tokens += (uint32_t)b->q_lengths[s];
        for (uint64_t tile = hal_groups(rows, r->list.rows); tile-- > 0;) {
            for (uint32_t split = 0; split < r->list.splits; split++, item += ATTENTION_ITEM_WORDS) {
                item[0] = s;
                item[1] = (uint32_t)tile;
                item[2] = split;
            }
        }
    }
    cu_q[b->sequences] = tokens;
    if (b->sequences) {
        memcpy(r->words + r->start[KV_LENGTHS], b->kv_lengths, b->sequences * sizeof(int32_t));
        memcpy(r->words + r->start[PAGES], b->page_table ? b->page_table : b->kv_lengths,
               (size_t)b->sequences * b->page_columns * sizeof(int32_t));
    }
}

static hal_span array_span(const hal_ragged *r, int array)
{
    const uint64_t end = array + 1 < ARRAYS ? r->start[array + 1] : r->used;
    return hal_range(r->metadata, r->start[array] * 4, (end - r->start[array]) * 4);
}

/* Which tiles and splits; what kernels will need. */
static hal_status lay_out(hal_ragged *r, const hal_ragged_batch *b, const totals *t)
{
    hal_device *device = r->stream->object.device;
    r->attention = describe(r, b, t);
    hal_status status = hal_attention_layout(device, &r->attention, &r->list);
    if (status != HAL_OK) {
        return status;
    }
    if (r->desc.mode == HAL_MODE_FAST) {
        r->attention.splits = choose_splits(r, count_tiles(r, b, r->list.rows), t->longest_kv);
        status = hal_attention_layout(device, &r->attention, &r->list);
    }
    const uint64_t items = count_tiles(r, b, r->list.rows) * r->list.splits;
    if (status == HAL_OK && items > HAL_MAX_DIMENSION) {
        status =
            hal_fail(HAL_ERROR_LIMIT, "hal_ragged_plan: %llu tiles; use less than 2^31", (unsigned long long)items);
    }
    r->list.count = (uint32_t)items;
    const uint64_t ratio = r->desc.q_heads / r->desc.kv_heads;
    r->stats.tiles = (uint32_t)(hal_groups(t->longest_q * ratio, r->list.rows) * b->sequences * r->list.splits);
    return status;
}

static hal_status plan_batch(hal_ragged *r, const hal_ragged_batch *b)
{
    totals t;
    hal_status status = check_batch(r, b, &t);
    r->planned = false;
    r->list = (attention_list){.rows = 1, .splits = 1};
    r->stats.tiles = 0;
    if (status == HAL_OK && t.tokens) {
        status = lay_out(r, b, &t);
    }
    status = status == HAL_OK ? make_room(r, b, r->list.count) : status;
    status = status == HAL_OK ? make_scratch(r, r->list.workspace) : status;
    if (status != HAL_OK) {
        return status;
    }
    write_words(r, b);
    status =
        hal_cmd_upload(hal_stream_cmdlist(r->stream), hal_range(r->metadata, 0, r->used * 4), r->words, r->used * 4);
    if (status != HAL_OK) {
        return status;
    }
    r->attention.cu_q = array_span(r, CU_Q);
    r->attention.kv_lengths = array_span(r, KV_LENGTHS);
    r->attention.page_table = array_span(r, PAGES);
    r->attention.workspace = r->scratch ? hal_whole(r->scratch) : (hal_span){0};
    r->list.items = array_span(r, ITEMS);
    r->sequences = b->sequences;
    r->page_columns = b->page_columns;
    r->planned = true;
    r->stats.plans++;
    r->stats.uploads++;
    r->stats.upload_bytes += r->used * 4;
    r->stats.arrays += ARRAYS;
    r->stats.items = r->list.count;
    r->stats.splits = r->list.splits;
    return HAL_OK;
}

hal_status hal_ragged_plan(hal_ragged *ragged, const hal_ragged_batch *given)
{
    hal_ragged_batch batch;
    const uint64_t start = hal_now();
    hal_status status = live(ragged, "hal_ragged_plan");
    if (status != HAL_OK) {
        return status;
    }
    status = hal_operator_desc("hal_ragged_plan", given, &batch, sizeof batch, "hal_ragged_batch");
    status = status == HAL_OK ? plan_batch(ragged, &batch) : status;
    ragged->stats.plan_us = (double)(hal_now() - start) / 1e3;
    return status;
}

/* Whether the batch is the one that was planned: by what was uploaded. */
static hal_status check_same(const hal_ragged *r, const hal_ragged_batch *b)
{
    static const char again[] = "plan again";
    if (!r->planned || b->sequences != r->sequences || b->page_columns != r->page_columns) {
        return hal_fail(HAL_ERROR_INVALID_STATE,
                        "hal_ragged_run: %u sequences with %u page columns, but %u with %u are planned; %s",
                        b->sequences, b->page_columns, r->planned ? r->sequences : 0, r->page_columns, again);
    }
    if (b->sequences && (!b->q_lengths || !b->kv_lengths || (b->page_columns && !b->page_table))) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_ragged_run: q_lengths, kv_lengths or page_table is NULL");
    }
    const uint32_t *cu_q = r->words + r->start[CU_Q], *keys = r->words + r->start[KV_LENGTHS];
    for (uint32_t s = 0; s < b->sequences; s++) {
        const uint32_t planned = cu_q[s + 1] - cu_q[s];
        if ((uint32_t)b->q_lengths[s] != planned || (uint32_t)b->kv_lengths[s] != keys[s]) {
            return hal_fail(HAL_ERROR_INVALID_STATE,
                            "hal_ragged_run: sequence %u has %d queries and %d keys, but %u and %u are planned; %s", s,
                            b->q_lengths[s], b->kv_lengths[s], planned, keys[s], again);
        }
    }
    const size_t pages = (size_t)b->sequences * b->page_columns;
    for (size_t i = 0; i < pages; i++) {
        if ((uint32_t)b->page_table[i] != r->words[r->start[PAGES] + i]) {
            return hal_fail(HAL_ERROR_INVALID_STATE,
                            "hal_ragged_run: page %zu of sequence %zu differs from the plan; %s", i % b->page_columns,
                            i / b->page_columns, again);
        }
    }
    return HAL_OK;
}

hal_status hal_ragged_run(hal_ragged *ragged, const hal_ragged_layer *given)
{
    hal_ragged_layer layer;
    hal_ragged_batch batch;
    hal_status status = live(ragged, "hal_ragged_run");
    if (status != HAL_OK) {
        return status;
    }
    status = hal_operator_desc("hal_ragged_run", given, &layer, sizeof layer, "hal_ragged_layer");
    if (status == HAL_OK) {
        status = hal_operator_desc("hal_ragged_run: batch", layer.batch, &batch, sizeof batch, "hal_ragged_batch");
    }
    status = status == HAL_OK ? check_same(ragged, &batch) : status;
    if (status != HAL_OK) {
        return status;
    }
    if (ragged->list.count) {
        hal_attention_desc desc = ragged->attention;
        desc.q = layer.q;
        desc.k = layer.k;
        desc.v = layer.v;
        desc.o = layer.o;
        desc.lse = layer.lse;
        status = hal_attention_listed(hal_stream_cmdlist(ragged->stream), &desc, &ragged->list);
    }
    if (status == HAL_OK) {
        ragged->stats.runs++;
        ragged->stats.arrays_unplanned += ARRAYS;
    }
    return status;
}

hal_status hal_ragged_get_stats(const hal_ragged *ragged, hal_ragged_stats *stats)
{
    hal_status status = live(ragged, "hal_ragged_get_stats");
    if (status != HAL_OK) {
        return status;
    }
    if (!stats || stats->struct_size < sizeof(size_t)) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_ragged_get_stats: stats is NULL, or stats->struct_size is not set");
    }
    hal_desc_write(&ragged->stats, sizeof ragged->stats, stats);
    return HAL_OK;
}
