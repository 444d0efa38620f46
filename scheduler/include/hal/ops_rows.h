/* hal/ops_rows.h - operators on rows: softmax, RMSNorm, activations, add and multiply, conversions, transposition,
 * RoPE, embedding look-up. Included by <hal/ops.h>; read its head first.
 *
 * A matrix has `rows` rows of `columns` elements; its leading dimension (ld..., elements, 0: columns) is the distance
 * between rows. Rows may be empty in number, which does nothing; an empty row of softmax or RMSNorm is
 * HAL_ERROR_INVALID_ARGUMENT. dtypes are HAL_F32, HAL_F16 and HAL_BF16 unless it says HAL_F8E4M3 too. Everything is
 * computed in FP32 and rounded once, to nearest even, at the store. An output may be exactly an input of the same dtype
 * and leading dimension (in place); any other overlap is HAL_ERROR_OVERLAP.
 *
 * All of these are batch-invariant: a row's bits depend on nothing but that row. */
#ifndef HAL_OPS_ROWS_H
#define HAL_OPS_ROWS_H

#include <hal/hal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much a result may depend on how it is computed. Each includes the one before. */
typedef enum hal_mode {
    HAL_MODE_FAST = 0,            /* the same device and shape give the same bits */
    HAL_MODE_BATCH_INVARIANT = 1, /* a row's bits depend neither on the other rows nor on how work is split */
    HAL_MODE_STRICT = 2           /* and are the same on every backend; subnormal numbers count as zero */
} hal_mode;

/* Activations. At -inf each takes its limit (SiLU, GELU: 0); NaN stays NaN, ReLU included. */
typedef enum hal_act {
    HAL_ACT_NONE = 0,
    HAL_ACT_RELU = 1,
    HAL_ACT_GELU_ERF = 2,  /* x/2 (1 + erf(x/sqrt 2)) */
    HAL_ACT_GELU_TANH = 3, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, 2016) */
    HAL_ACT_SILU = 4,      /* x / (1 + exp(-alpha x)): Swish; alpha is 1 where there is no such field */
    HAL_ACT_SIGMOID = 5    /* 1 / (1 + exp(-x)) */
} hal_act;

typedef enum hal_mask_kind {
    HAL_MASK_ADD = 0, /* added to the scores; -inf hides */
    HAL_MASK_BOOL = 1 /* one byte an element: 0 hides */
} hal_mask_kind;

/* y = softmax(scale x + mask) along each row, or its logarithm.
 *
 * The greatest element is subtracted first, and sums are FP32 (Milakov and Gimelshein, "Online normalizer calculation
 * for softmax", 2018, for rows that do not fit on chip). A row that is hidden whole, or all -inf, gives 0 (log: -inf);
 * a NaN spoils its own row only. */
typedef struct hal_softmax_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_dtype dtype;   /* of x; default HAL_F32 */
    hal_dtype dtype_y; /* default: dtype */
    hal_span x, y;
    uint64_t ldx, ldy;
    float scale;   /* 0 counts as 1 */
    bool log;      /* x - max - log(sum) */
    hal_span mask; /* none: nothing is hidden */
    hal_mask_kind mask_kind;
    hal_dtype dtype_mask; /* HAL_MASK_ADD; default HAL_F32 */
    uint64_t ldmask;
    uint64_t mask_rows; /* row r of x goes with row r % mask_rows of the mask; 0: rows */
    hal_mode mode;
} hal_softmax_desc;
#define HAL_SOFTMAX(...) HAL_DESC(hal_softmax_desc, __VA_ARGS__)
HAL_API hal_status hal_softmax(hal_cmdlist *list, const hal_softmax_desc *desc);
HAL_API hal_status hal_softmax_prepare(hal_device *device, const hal_softmax_desc *desc);

/* y = x / sqrt(mean(x^2) + eps) * weight along each row (Zhang and Sennrich, 2019; Llama's form: no mean, no bias).
 *
 * With `residual`, x is first replaced by x + residual, rounded to dtype: that is written to `sum` (if given; it may be
 * exactly the residual or x) and normalised. With dtype_y HAL_F8E4M3 the row is quantised as hal_quantize does with
 * HAL_SCALE_ROW_AMAX: `scales` is written, one FP32 a row, and the normalised row is rounded to round_between first. */
typedef struct hal_rmsnorm_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_dtype dtype;         /* of x, residual and sum; default HAL_F32 */
    hal_dtype dtype_y;       /* default: dtype; HAL_F8E4M3: quantise */
    hal_dtype dtype_weight;  /* default: dtype */
    hal_dtype round_between; /* default HAL_F32: no rounding before quantising */
    hal_span x, weight, y;   /* weight: `columns` elements; none: ones */
    hal_span residual, sum, scales;
    uint64_t ldx, ldy, ld_residual, ld_sum;
    float eps; /* inside the root; used as it is, 0 included */
    hal_mode mode;
    hal_span workspace; /* hal_rmsnorm_workspace bytes let few long rows use the whole device; none: one pass */
} hal_rmsnorm_desc;
#define HAL_RMSNORM(...) HAL_DESC(hal_rmsnorm_desc, __VA_ARGS__)
HAL_API hal_status hal_rmsnorm(hal_cmdlist *list, const hal_rmsnorm_desc *desc);
HAL_API hal_status hal_rmsnorm_workspace(hal_device *device, const hal_rmsnorm_desc *desc, uint64_t *size);
HAL_API hal_status hal_rmsnorm_prepare(hal_device *device, const hal_rmsnorm_desc *desc);

/* y = act(x).
 *
 * With dtype_y HAL_F8E4M3 the result is rounded to round_between, and each row of that quantised as hal_quantize does
 * with HAL_SCALE_ROW_AMAX: `scales` is written, one FP32 a row. In hal_binary as well. These are the bits of the two
 * operators with a matrix of round_between in between, which need not be in memory here. */
typedef struct hal_activation_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_act act;
    hal_dtype dtype, dtype_y; /* default HAL_F32; dtype */
    hal_span x, y;
    uint64_t ldx, ldy;
    float alpha; /* HAL_ACT_SILU; 0 counts as 1 */
    hal_mode mode;
    hal_dtype round_between; /* HAL_F8E4M3 only; default HAL_F32: no rounding before quantising */
    hal_span scales;         /* HAL_F8E4M3 only */
} hal_activation_desc;
#define HAL_ACTIVATION(...) HAL_DESC(hal_activation_desc, __VA_ARGS__)
HAL_API hal_status hal_activation(hal_cmdlist *list, const hal_activation_desc *desc);

typedef enum hal_binary_op {
    HAL_ADD = 0,      /* a + b */
    HAL_MULTIPLY = 1, /* a b */
    HAL_SWIGLU = 2    /* SiLU(a) b, with alpha (Shazeer, "GLU Variants Improve Transformer", 2020) */
} hal_binary_op;

/* y = a op b. b may be smaller: row r goes with row r % b_rows of b, and b_columns is 1 or `columns`. */
typedef struct hal_binary_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_binary_op op;
    hal_dtype dtype, dtype_b, dtype_y; /* of a: default HAL_F32; the others: dtype */
    hal_span a, b, y;
    uint64_t lda, ldb, ldy;
    uint64_t b_rows, b_columns; /* 0: as many as a */
    float alpha;                /* HAL_SWIGLU; 0 counts as 1 */
    hal_dtype round_between; /* HAL_SWIGLU: SiLU(a) is rounded to it before the product; to HAL_F8E4M3 also the result
                                before it is quantised; default HAL_F32: neither is */
    hal_mode mode;
    hal_span scales; /* dtype_y HAL_F8E4M3 only: written, as of hal_activation */
} hal_binary_desc;
#define HAL_BINARY(...) HAL_DESC(hal_binary_desc, __VA_ARGS__)
HAL_API hal_status hal_binary(hal_cmdlist *list, const hal_binary_desc *desc);

/* y = x in another dtype; HAL_F8E4M3 on either side too; the same dtype copies the bits. To HAL_F8E4M3: finite overflow
 * and infinities become +-448, or NaN with no_saturate. To HAL_F16 overflow is infinity. NaN stays NaN. */
typedef struct hal_cast_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_dtype dtype, dtype_y; /* of x: default HAL_F32; of y: default: dtype (a copy) */
    hal_span x, y;
    uint64_t ldx, ldy;
    bool no_saturate;
} hal_cast_desc;
#define HAL_CAST(...) HAL_DESC(hal_cast_desc, __VA_ARGS__)
HAL_API hal_status hal_cast(hal_cmdlist *list, const hal_cast_desc *desc);

/* Where the scale of an element comes from. */
typedef enum hal_scaling {
    HAL_SCALE_ROW_AMAX = 0, /* quantise only: the row's largest magnitude / 448 (1 for a row of zeros; finite and
                               positive always), written to `scales`, one FP32 a row */
    HAL_SCALE_ROW = 1,      /* read: one a row */
    HAL_SCALE_COLUMN = 2,   /* read: one a column */
    HAL_SCALE_TENSOR = 3    /* read: one for all */
} hal_scaling;

/* Quantise: codes = E4M3(x / scale), saturating. x: rows x columns of dtype; codes: bytes. NaN stays NaN and does not
 * count for the scale; an infinity saturates, and the scale is taken from the largest finite FP32. The quotient is
 * rounded to FP32 and that to E4M3, as in ONNX QuantizeLinear, on every device. A scale that is read and not a positive
 * finite number makes the codes NaN. */
typedef struct hal_quantize_desc {
    size_t struct_size;
    uint64_t rows, columns;
    hal_dtype dtype;        /* of the numbers: default HAL_F32 */
    hal_dtype dtype_scales; /* default HAL_F32; what is written is HAL_F32 */
    hal_scaling scaling;
    hal_span x, codes, scales;
    uint64_t ldx, ld_codes;
    hal_mode mode;
} hal_quantize_desc;
#define HAL_QUANTIZE(...) HAL_DESC(hal_quantize_desc, __VA_ARGS__)
HAL_API hal_status hal_quantize(hal_cmdlist *list, const hal_quantize_desc *desc);
/* x = codes * scale: the same descriptor the other way round; x is written. */
HAL_API hal_status hal_dequantize(hal_cmdlist *list, const hal_quantize_desc *desc);

#define HAL_MAX_DIMS 8
/* y[i of perm] = x[i]: dimension d of y is dimension perm[d] of x. Elements are moved, not computed with: any dtype.
 * Strides of x may be anything, 0 (the same elements again) included; no two elements of y may meet: each of its
 * dimensions steps over all that those with smaller strides reach, else HAL_ERROR_INVALID_ARGUMENT. */
typedef struct hal_transpose_desc {
    size_t struct_size;
    uint32_t rank;               /* 1 to HAL_MAX_DIMS */
    uint64_t dims[HAL_MAX_DIMS]; /* of x, outermost first; a 0 among them: nothing to do */
    uint32_t perm[HAL_MAX_DIMS];
    hal_dtype dtype; /* default HAL_F32 */
    hal_span x, y;   /* may not overlap */
    uint64_t strides_x[HAL_MAX_DIMS],
        strides_y[HAL_MAX_DIMS]; /* elements, of x's and of y's dimensions; all 0: packed */
} hal_transpose_desc;
#define HAL_TRANSPOSE(...) HAL_DESC(hal_transpose_desc, __VA_ARGS__)
HAL_API hal_status hal_transpose(hal_cmdlist *list, const hal_transpose_desc *desc);

/* Rotary position embedding (Su et al., "RoFormer", 2021): the first rotary_dim elements of each head are rotated in
 * pairs by the angle that the tables give for the token's position; the others are copied.
 * (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin), each product and sum rounded to FP32. */
typedef struct hal_rope_desc {
    size_t struct_size;
    uint64_t tokens;
    uint32_t heads, head_dim;
    uint32_t rotary_dim;      /* even; 0: head_dim */
    bool interleaved;         /* pairs are neighbours (GPT-J); else rotary_dim / 2 apart (GPT-NeoX, Llama) */
    hal_dtype dtype;          /* of x and y: default HAL_F32 */
    hal_span x, y;            /* element (token, head, d) at token * token_stride + head * head_stride + d */
    uint64_t x_token, x_head; /* strides; 0: packed [token][head][dim] */
    uint64_t y_token, y_head;
    hal_span cos, sin;     /* FP32 [positions][rotary_dim / 2]; hal_rope_table fills them on the host */
    uint64_t positions;    /* rows of the tables */
    hal_span position_ids; /* int32 a token; none: first_position + token. Out of range: NaN is written */
    uint64_t first_position;
    hal_mode mode;
} hal_rope_desc;
#define HAL_ROPE(...) HAL_DESC(hal_rope_desc, __VA_ARGS__)
HAL_API hal_status hal_rope(hal_cmdlist *list, const hal_rope_desc *desc);
/* cos and sin of position * base^(-2 i / rotary_dim), computed in double; base is usually 10000. */
HAL_API hal_status hal_rope_table(uint64_t positions, uint32_t rotary_dim, double base, float *cosines, float *sines);

/* Row ids[i] of the table becomes row i of y: an embedding look-up. An id outside of the table gives a row of zeros. */
typedef struct hal_gather_desc {
    size_t struct_size;
    uint64_t count, columns; /* ids, and elements of a row */
    uint64_t table_rows;
    hal_dtype dtype, dtype_y; /* of the table: default HAL_F32; of y: dtype */
    hal_span table, ids, y;
    uint64_t ldt, ldy;
    bool ids_are_int64; /* else int32 */
} hal_gather_desc;
#define HAL_GATHER(...) HAL_DESC(hal_gather_desc, __VA_ARGS__)
HAL_API hal_status hal_gather(hal_cmdlist *list, const hal_gather_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
