/* hal/ops_attention.h - attention, forward. Included by <hal/ops.h>; read its head first. */
#ifndef HAL_OPS_ATTENTION_H
#define HAL_OPS_ATTENTION_H

#include <hal/ops_rows.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hal_causal {
    HAL_CAUSAL_NONE = 0,
    HAL_CAUSAL_BOTTOM_RIGHT = 1, /* query i of q_len sees keys j <= i + kv_len - q_len */
    HAL_CAUSAL_TOP_LEFT = 2      /* query i sees keys j <= i + causal_offset */
} hal_causal;

/* A stage of the scores, in the order of ONNX's qk_matmul_output_mode. */
typedef enum hal_scores {
    HAL_SCORES_SCALED = 0, /* scale Q K^T */
    HAL_SCORES_CAPPED = 1, /* after softcap */
    HAL_SCORES_MASKED = 2, /* after mask and causal: -inf where a key is hidden */
    HAL_SCORES_WEIGHTS = 3 /* after softmax; 0 where a key is hidden */
} hal_scores;

/* O = softmax(scale Q K^T + mask) V for each sequence and head, without the scores in memory (Dao et al.,
 * "FlashAttention", 2022; Milakov and Gimelshein, 2018). Scores, sums and the weighted sum are FP32.
 *
 * A query that sees no key gives 0 in O and -inf in lse. What lies behind a sequence's last key is never read, page
 * table entries included. softcap c > 0: scores become c tanh(score / c) before the mask. Query head h uses key and
 * value head h / (q_heads / kv_heads).
 *
 * Layout: element d of head h of token t of sequence s lies at s * ..._batch + t * ..._token + h * ..._head + d
 * (elements; a stride of 0 is the packed one: [batch][token][head][dim]). Lengths:
 * - q_length, kv_length alone: every sequence has so many tokens.
 * - cu_q, cu_k (int32, batch + 1): packed. Sequence s has tokens cu[s] to cu[s + 1] - 1, ..._batch is not used,
 * q_length or kv_length is the longest, and q_tokens, kv_tokens are the totals.
 * - kv_lengths (int32, batch): sequence s has so many keys, at most kv_length.
 * - page_size > 0: keys and values are in pages. Token t of sequence s lies in page
 *   page_table[s * page_columns + t / page_size]; k_batch and v_batch are the strides from page to page; kv_lengths
 * must be given, and cu_k must not.
 *
 * `scores` is for looking into a model: a slow pass of its own, beside the one that gives O. A key behind a sequence's
 * last has -inf there (weights: 0).
 *
 * Device-side lengths are trusted to be consistent with the memory given; kv_length beyond page_columns * page_size is
 * HAL_ERROR_OUT_OF_RANGE, and a kv_lengths entry beyond kv_length is cut to it. Only HAL_MODE_FAST splits keys. Matrix
 * units (FP16 and BF16, not HAL_MODE_STRICT) take the weights rounded to dtype; sums stay FP32. In HAL_MODE_STRICT O,
 * lse and scores are the same bits on every backend. */
typedef struct hal_attention_desc {
    size_t struct_size;
    uint64_t batch;
    uint32_t q_heads, kv_heads;   /* q_heads is a multiple of kv_heads */
    uint32_t head_dim, value_dim; /* of Q and K; of V and O (0: head_dim); 1 to 256 */
    uint64_t q_length, kv_length;
    uint64_t q_tokens, kv_tokens; /* with cu_q, cu_k */
    hal_dtype dtype, dtype_o;     /* of Q, K, V: default HAL_F32; of O: dtype */
    hal_span q, k, v, o;
    uint64_t q_batch, q_token, q_head, k_batch, k_token, k_head;
    uint64_t v_batch, v_token, v_head, o_batch, o_token, o_head;
    hal_span cu_q, cu_k, kv_lengths;
    uint32_t page_size;  /* tokens; 0: no pages */
    uint64_t pages;      /* in k and v */
    hal_span page_table; /* int32 [batch][page_columns] */
    uint64_t page_columns;
    float scale; /* 0: 1 / sqrt(head_dim) */
    hal_causal causal;
    int64_t causal_offset; /* HAL_CAUSAL_TOP_LEFT: keys that were there before the first query */
    float softcap;         /* 0: none */
    hal_span mask;         /* [batch][q_heads][q_length][kv_length], with strides; not together with cu_q */
    hal_mask_kind mask_kind;
    hal_dtype dtype_mask;                     /* HAL_MASK_ADD: default HAL_F32 */
    uint64_t mask_batch, mask_head, mask_row; /* elements; batch, head 0: shared by all; row 0: kv_length */
    hal_span lse;                             /* FP32 [token][q_heads], natural logarithm; none: not wanted */
    hal_mode mode;
    uint32_t splits;    /* parts that the keys of a sequence are split into; 0: chosen. Only with HAL_MODE_FAST */
    hal_span workspace; /* hal_attention_workspace bytes allow splits; fewer: HAL_ERROR_OUT_OF_RANGE; none: no splits */
    hal_span scores;    /* [batch][q_heads][q_length][kv_length]; none: not wanted; not together with cu_q */
    hal_scores scores_kind;
    hal_dtype dtype_scores;                         /* default: dtype */
    uint64_t scores_batch, scores_head, scores_row; /* elements; 0: packed */
} hal_attention_desc;
#define HAL_ATTENTION(...) HAL_DESC(hal_attention_desc, __VA_ARGS__)

HAL_API hal_status hal_attention(hal_cmdlist *list, const hal_attention_desc *desc);
HAL_API hal_status hal_attention_workspace(hal_device *device, const hal_attention_desc *desc, uint64_t *size);
HAL_API hal_status hal_attention_prepare(hal_device *device, const hal_attention_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
