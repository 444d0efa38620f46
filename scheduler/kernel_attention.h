/* kernel_attention.h - constants and the argument struct of the attention kernels, for all languages. */
#ifndef HAL_KERNEL_ATTENTION_H
#define HAL_KERNEL_ATTENTION_H

#include "kernel_abi.h"

/* Spans; ROW_OP bits; the keys that are looked at together, which is part of the order of summation, never tuned. */
#define ATTENTION_SPANS         11u
#define ATTENTION_Q             0
#define ATTENTION_K             1
#define ATTENTION_V             2
#define ATTENTION_O             3
#define ATTENTION_MASK          4
#define ATTENTION_CU_Q          5
#define ATTENTION_CU_K          6
#define ATTENTION_LENGTHS       7
#define ATTENTION_PAGES         8
#define ATTENTION_LSE           9
#define ATTENTION_PARTS         10 /* FP32 [token][q_heads][splits][value_dim + 2]: greatest score, sum, weighted sum */
#define ATTENTION_BOTTOM_RIGHT  1u
#define ATTENTION_TOP_LEFT      2u
#define ATTENTION_HAS_CU_Q      4u
#define ATTENTION_HAS_CU_K      8u
#define ATTENTION_HAS_LENGTHS   16u
#define ATTENTION_HAS_PAGES     32u
#define ATTENTION_HAS_LSE       64u
#define ATTENTION_HAS_LIST      128u
#define ATTENTION_LIST          ATTENTION_MASK /* of items {sequence, tile, split, 0}; goes with cu_q, so without a mask */
#define ATTENTION_KEYS          64u
#define ATTENTION_SCORE_THREADS 64u /* of a group of attention_scores: part of its order of summation */
#define ATTENTION_SCALED        0u  /* a hal_scores */
#define ATTENTION_CAPPED        1u
#define ATTENTION_MASKED        2u
#define ATTENTION_WEIGHTS       3u
#ifndef GL_core_profile
typedef struct hal_attention_args {
#include "kernel_args_attention.inc"
} hal_attention_args;
#endif

#endif
