/* hal/ragged.h - attention over a batch of sequences of any lengths, with keys and values in pages: planned once a
 * step, run for many layers.
 *
 * What depends on the lengths and page tables alone is the same in every layer: the list of what there is to compute,
 * the number of splits of long sequences, the scratch, and the metadata on the device. hal_ragged_plan makes it and
 * uploads it in one copy; hal_ragged_run tells one layer's attention and uploads nothing. Without it, four arrays
 * (offsets of queries, lengths of keys, page tables, the list) would go up for each layer: 144 for 36 layers instead
 * of 4. (Plan and run: Ye et al., "FlashInfer", 2025, section 3.3.)
 *
 * A run names the batch that the caller means; where it is not the one that was planned, the run is an error before
 * anything is told to the device. Memory is allocated by hal_ragged_plan when a batch is larger than any before, never
 * by a run. A ragged object is used by one thread at a time, on the stream that it was made for. */
#ifndef HAL_RAGGED_H
#define HAL_RAGGED_H

#include <hal/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hal_ragged hal_ragged;

/* What all layers have in common. Queries and outputs are packed [token][head][dim], sequence after sequence; keys and
 * values are pages of [page_size][kv_heads][dim]. As in hal_attention_desc, 0 is the default. */
typedef struct hal_ragged_desc {
    size_t struct_size;
    const char *label; /* NULL: "ragged" */
    uint32_t q_heads, kv_heads;
    uint32_t head_dim, value_dim;
    hal_dtype dtype, dtype_o;
    uint32_t page_size; /* tokens; at least 1 */
    uint64_t pages;     /* in the k and v of each layer */
    hal_causal causal;
    float scale, softcap;
    hal_mode mode;
} hal_ragged_desc;
#define HAL_RAGGED(...) HAL_DESC(hal_ragged_desc, __VA_ARGS__)

HAL_API hal_status hal_ragged_create(hal_stream *stream, const hal_ragged_desc *desc, hal_ragged **ragged);
HAL_API void hal_ragged_destroy(hal_ragged *ragged); /* legal while its work runs: that is finished first */

/* The batch of one step, in host memory; it is copied. Sequence s has q_lengths[s] queries, kv_lengths[s] keys (those
 * of this step's own tokens included, if they are to be seen), and the pages page_table[s * page_columns], ... */
typedef struct hal_ragged_batch {
    size_t struct_size;
    uint32_t sequences; /* 0 is legal: runs do nothing */
    const int32_t *q_lengths, *kv_lengths;
    const int32_t *page_table;
    uint32_t page_columns;
} hal_ragged_batch;
#define HAL_RAGGED_BATCH(...) HAL_DESC(hal_ragged_batch, __VA_ARGS__)

/* Lengths below 0, pages outside of [0, pages), or more keys than pages hold: HAL_ERROR_OUT_OF_RANGE, named by
 * sequence. */
HAL_API hal_status hal_ragged_plan(hal_ragged *ragged, const hal_ragged_batch *batch);

typedef struct hal_ragged_layer {
    size_t struct_size;
    const hal_ragged_batch *batch; /* the one that was planned, or an equal one */
    hal_span q, k, v, o;
    hal_span lse; /* FP32 [token][q_heads]; none: not wanted */
} hal_ragged_layer;
#define HAL_RAGGED_LAYER(...) HAL_DESC(hal_ragged_layer, __VA_ARGS__)

/* One layer's attention. HAL_ERROR_INVALID_STATE: nothing is planned, or other lengths or pages are. */
HAL_API hal_status hal_ragged_run(hal_ragged *ragged, const hal_ragged_layer *layer);

typedef struct hal_ragged_stats {
    size_t struct_size;
    uint64_t plans, runs;
    uint64_t uploads; /* copies of metadata to the device */
    uint64_t upload_bytes;
    uint64_t arrays;           /* that went along in them */
    uint64_t arrays_unplanned; /* that would have gone up if each run had planned for itself */
    uint32_t items;            /* of the present plan: tiles of queries, times splits, that there is work for */
    uint32_t tiles;            /* a grid over the longest sequence would have so many */
    uint32_t splits;           /* of a sequence's keys, at most */
    uint64_t scratch_bytes;
    double plan_us; /* host time of the last plan */
} hal_ragged_stats;
HAL_API hal_status hal_ragged_get_stats(const hal_ragged *ragged, hal_ragged_stats *stats); /* set struct_size */

#ifdef __cplusplus
}
#endif
#endif
