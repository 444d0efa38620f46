/* graph_build.c - the operators of a graph: checks of shapes and types, and the shape of the result. */
#include "graph_build.h"

enum { MOST_HEAD_DIM = 256 }; /* of attention */

/* "a is [rows, 4096], b [4095, 64]; ..." */
static hal_tensor mismatch(hal_graph *graph, const char *op, const char *x_field, const hal_tensor_info *x,
                           const char *y_field, const hal_tensor_info *y, const char *remedy)
{
    char x_text[HAL_DIMS_TEXT], y_text[HAL_DIMS_TEXT];
    hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: %s '%s' is %s, %s '%s' %s; %s", op, x_field, x->name,
                     hal_dims_text(&x->dims, x_text), y_field, y->name, hal_dims_text(&y->dims, y_text), remedy);
    return HAL_NO_TENSOR;
}

/* A dimension without its value: HAL_ROWS counts once, as itself. */
static void rows_of(const hal_dims *dims, uint64_t *product, bool *vary)
{
    *product = 1;
    *vary = dims->size[0] == HAL_ROWS;
    for (uint32_t i = *vary; i + 1 < dims->rank; i++) {
        *product *= dims->size[i];
    }
}

bool hal_dims_same_rows(const hal_dims *x, const hal_dims *y)
{
    uint64_t rows_x, rows_y;
    bool vary_x, vary_y;
    rows_of(x, &rows_x, &vary_x);
    rows_of(y, &rows_y, &vary_y);
    return rows_x == rows_y && vary_x == vary_y;
}

uint64_t hal_dims_columns(const hal_dims *dims)
{
    const uint64_t last = dims->size[dims->rank - 1];
    return last == HAL_ROWS ? 1 : last;
}

bool hal_dims_one_a_row(const hal_dims *vector, const hal_dims *matrix)
{
    hal_dims column = *vector; /* its elements as rows of one element */
    if (column.rank < HAL_MAX_RANK) {
        column.size[column.rank++] = 1;
        return hal_dims_same_rows(&column, matrix);
    }
    return hal_dims_columns(vector) == 1 && hal_dims_same_rows(vector, matrix);
}

bool hal_dims_one_row(const hal_dims *dims)
{
    uint64_t rows;
    bool vary;
    rows_of(dims, &rows, &vary);
    return rows == 1 && !vary;
}

bool hal_dims_equal(const hal_dims *x, const hal_dims *y)
{
    return x->rank == y->rank && memcmp(x->size, y->size, x->rank * sizeof x->size[0]) == 0;
}

/* A vector of `columns` elements in one row. */
static bool is_vector(const hal_tensor_info *info, uint64_t columns)
{
    return hal_dims_one_row(&info->dims) && hal_dims_columns(&info->dims) == columns;
}

/* The result of a step that has no other, and the step. */
static hal_tensor finish(hal_graph *graph, const char *op, hal_step *step, hal_dtype dtype, const hal_dims *dims)
{
    const hal_tensor made = hal_graph_result(graph, op, step, HAL_ROLE_Y, dtype, dims);
    return made.id && hal_graph_step(graph, step) ? made : HAL_NO_TENSOR;
}

static hal_dims with_columns(hal_dims dims, uint64_t columns)
{
    dims.rank += dims.size[dims.rank - 1] == HAL_ROWS; /* a column becomes a matrix */
    dims.size[dims.rank - 1] = columns;
    return dims;
}

/* GEMM */

typedef struct gemm_operands {
    const hal_tensor_info *a, *b, *bias, *scale_a, *scale_b;
} gemm_operands;

static bool gemm_take(hal_graph *graph, const char *op, hal_tensor a, hal_tensor b,
                      const hal_graph_gemm_options *options, gemm_operands *of)
{
    return (of->a = hal_graph_operand(graph, op, "a", a, HAL_TAKES_FLOATS | HAL_TAKES_F8)) != NULL &&
           (of->b = hal_graph_operand(graph, op, "b", b, HAL_TAKES_FLOATS | HAL_TAKES_F8)) != NULL &&
           hal_graph_optional(graph, op, "bias", options->bias, HAL_TAKES_FLOATS, &of->bias) &&
           hal_graph_optional(graph, op, "scale_a", options->scale_a, HAL_TAKES_F32, &of->scale_a) &&
           hal_graph_optional(graph, op, "scale_b", options->scale_b, HAL_TAKES_F32, &of->scale_b);
}

static bool gemm_check(hal_graph *graph, const char *op, const gemm_operands *of, bool trans_b, uint64_t *n)
{
    const hal_dims *b = &of->b->dims;
    if (b->rank != 2 || b->size[0] == HAL_ROWS || b->size[trans_b] != hal_dims_columns(&of->a->dims)) {
        mismatch(graph, op, "a", of->a, "b", of->b,
                 trans_b ? "a [..., k] goes with b [n, k]" : "a [..., k] goes with b [k, n]; or set trans_b");
        return false;
    }
    if (of->a->dtype != of->b->dtype) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: a '%s' is of %s, b '%s' of %s; cast one", op,
                                of->a->name, hal_tensor_dtype_name(of->a), of->b->name, hal_tensor_dtype_name(of->b));
    }
    *n = b->size[!trans_b];
    if (of->bias && !is_vector(of->bias, *n)) {
        mismatch(graph, op, "bias", of->bias, "b", of->b, "bias has one element a column of the result");
        return false;
    }
    if (of->scale_a && !hal_dims_one_a_row(&of->scale_a->dims, &of->a->dims)) {
        mismatch(graph, op, "scale_a", of->scale_a, "a", of->a, "scale_a has one element a row of a");
        return false;
    }
    if (of->scale_b && !is_vector(of->scale_b, *n)) {
        mismatch(graph, op, "scale_b", of->scale_b, "b", of->b, "scale_b has one element a column of the result");
        return false;
    }
    return true;
}

hal_tensor hal_graph_gemm(hal_graph *graph, hal_tensor a, hal_tensor b, const hal_graph_gemm_options *given)
{
    static const char op[] = "hal_graph_gemm";
    hal_graph_gemm_options options;
    gemm_operands of;
    uint64_t n = 0;
    if (!hal_graph_takes(graph, op) ||
        !hal_graph_options(graph, given, &options, sizeof options, "hal_graph_gemm_options") ||
        !gemm_take(graph, op, a, b, &options, &of) || !gemm_check(graph, op, &of, options.trans_b, &n)) {
        return HAL_NO_TENSOR;
    }
    hal_dtype dtype = options.dtype;
    if (dtype == HAL_DTYPE_DEFAULT) {
        dtype = of.a->dtype == HAL_F8E4M3 ? HAL_F32 : of.a->dtype;
    }
    if ((unsigned)dtype >= 32 || !(HAL_TAKES_FLOATS >> dtype & 1)) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                         "%s: dtype is %d; use HAL_F32, HAL_F16 or HAL_BF16, and hal_graph_quantize for codes", op,
                         (int)dtype);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_GEMM,
                     .trans_b = options.trans_b,
                     .alpha = options.alpha,
                     .tensors = {[HAL_ROLE_X] = a.id,
                                 [HAL_ROLE_B] = b.id,
                                 [HAL_ROLE_BIAS] = options.bias.id,
                                 [HAL_ROLE_SCALE_A] = options.scale_a.id,
                                 [HAL_ROLE_SCALE_B] = options.scale_b.id}};
    const hal_dims dims = with_columns(of.a->dims, n);
    return finish(graph, op, &step, dtype, &dims);
}

/* Rows, element by element */

hal_tensor hal_graph_activation(hal_graph *graph, hal_tensor x, hal_act act)
{
    static const char op[] = "hal_graph_activation";
    const hal_tensor_info *of;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS))) {
        return HAL_NO_TENSOR;
    }
    if ((unsigned)act > HAL_ACT_SIGMOID) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: act is %d; use a hal_act", op, (int)act);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_ACTIVATION, .act = act, .tensors = {[HAL_ROLE_X] = x.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, of->dtype, &dims);
}

hal_tensor hal_graph_binary(hal_graph *graph, hal_binary_op operation, hal_tensor a, hal_tensor b)
{
    static const char op[] = "hal_graph_binary";
    const hal_tensor_info *x, *y;
    if (!hal_graph_takes(graph, op) || !(x = hal_graph_operand(graph, op, "a", a, HAL_TAKES_FLOATS)) ||
        !(y = hal_graph_operand(graph, op, "b", b, HAL_TAKES_FLOATS))) {
        return HAL_NO_TENSOR;
    }
    if ((unsigned)operation > HAL_SWIGLU) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: op is %d; use a hal_binary_op", op, (int)operation);
        return HAL_NO_TENSOR;
    }
    const uint64_t columns = hal_dims_columns(&y->dims);
    if ((columns != 1 && columns != hal_dims_columns(&x->dims)) ||
        (!hal_dims_one_row(&y->dims) && !hal_dims_same_rows(&x->dims, &y->dims))) {
        return mismatch(graph, op, "a", x, "b", y, "b has a's rows or one, and a's columns or one");
    }
    hal_step step = {.op = HAL_STEP_BINARY,
                     .binary = operation,
                     .round_between = operation == HAL_SWIGLU ? x->dtype : HAL_DTYPE_DEFAULT,
                     .tensors = {[HAL_ROLE_X] = a.id, [HAL_ROLE_B] = b.id}};
    const hal_dims dims = x->dims;
    return finish(graph, op, &step, x->dtype, &dims);
}

hal_tensor hal_graph_cast(hal_graph *graph, hal_tensor x, hal_dtype dtype)
{
    static const char op[] = "hal_graph_cast";
    const hal_tensor_info *of;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS | HAL_TAKES_F8))) {
        return HAL_NO_TENSOR;
    }
    if (!hal_dtype_size(dtype)) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: dtype is %d; use a hal_dtype", op, (int)dtype);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_CAST, .tensors = {[HAL_ROLE_X] = x.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, dtype, &dims);
}

/* Along rows */

hal_tensor hal_graph_rmsnorm(hal_graph *graph, hal_tensor x, hal_tensor weight, float eps)
{
    static const char op[] = "hal_graph_rmsnorm";
    const hal_tensor_info *of, *w;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS)) ||
        !hal_graph_optional(graph, op, "weight", weight, HAL_TAKES_FLOATS, &w)) {
        return HAL_NO_TENSOR;
    }
    if (w && !is_vector(w, hal_dims_columns(&of->dims))) {
        return mismatch(graph, op, "weight", w, "x", of, "weight has one element a column of x");
    }
    hal_step step = {
        .op = HAL_STEP_RMSNORM, .eps = eps, .tensors = {[HAL_ROLE_X] = x.id, [HAL_ROLE_WEIGHT] = weight.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, of->dtype, &dims);
}

hal_tensor hal_graph_softmax(hal_graph *graph, hal_tensor x, float scale, hal_tensor mask)
{
    static const char op[] = "hal_graph_softmax";
    const hal_tensor_info *of, *m;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS)) ||
        !hal_graph_optional(graph, op, "mask", mask, HAL_TAKES_FLOATS, &m)) {
        return HAL_NO_TENSOR;
    }
    if (m && (hal_dims_columns(&m->dims) != hal_dims_columns(&of->dims) ||
              (!hal_dims_one_row(&m->dims) && !hal_dims_same_rows(&m->dims, &of->dims)))) {
        return mismatch(graph, op, "mask", m, "x", of, "mask has x's rows or one, and x's columns");
    }
    hal_step step = {
        .op = HAL_STEP_SOFTMAX, .scale = scale, .tensors = {[HAL_ROLE_X] = x.id, [HAL_ROLE_MASK] = mask.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, of->dtype, &dims);
}

hal_tensor hal_graph_quantize(hal_graph *graph, hal_tensor x, hal_tensor scales, hal_tensor *row_scales)
{
    static const char op[] = "hal_graph_quantize";
    const hal_tensor_info *of, *given;
    if (row_scales) {
        *row_scales = HAL_NO_TENSOR;
    }
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS)) ||
        !hal_graph_optional(graph, op, "scales", scales, HAL_TAKES_F32, &given)) {
        return HAL_NO_TENSOR;
    }
    if (given && !hal_dims_one_a_row(&given->dims, &of->dims)) {
        return mismatch(graph, op, "scales", given, "x", of, "scales has one element a row of x");
    }
    if (!given && !row_scales) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                         "%s: scales is none and row_scales is NULL; codes without their scales mean nothing", op);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_QUANTIZE, .tensors = {[HAL_ROLE_X] = x.id, [HAL_ROLE_SCALE_A] = scales.id}};
    const hal_dims dims = of->dims;
    hal_tensor made_scales = scales;
    if (!given) {
        hal_dims rows = dims; /* all dimensions but the last */
        rows.rank -= rows.rank > 1;
        rows.size[0] = dims.rank == 1 && dims.size[0] != HAL_ROWS ? 1 : rows.size[0];
        made_scales = hal_graph_result(graph, op, &step, HAL_ROLE_SCALES, HAL_F32, &rows);
    }
    const hal_tensor codes = made_scales.id ? finish(graph, op, &step, HAL_F8E4M3, &dims) : HAL_NO_TENSOR;
    if (row_scales && codes.id) {
        *row_scales = made_scales;
    }
    return codes;
}

hal_tensor hal_graph_dequantize(hal_graph *graph, hal_tensor codes, hal_tensor row_scales, hal_dtype dtype)
{
    static const char op[] = "hal_graph_dequantize";
    const hal_tensor_info *of, *scales;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "codes", codes, HAL_TAKES_F8)) ||
        !(scales = hal_graph_operand(graph, op, "row_scales", row_scales, HAL_TAKES_F32))) {
        return HAL_NO_TENSOR;
    }
    if (!hal_dims_one_a_row(&scales->dims, &of->dims)) {
        return mismatch(graph, op, "row_scales", scales, "codes", of, "row_scales has one element a row of codes");
    }
    dtype = dtype == HAL_DTYPE_DEFAULT ? HAL_F32 : dtype;
    if ((unsigned)dtype >= 32 || !(HAL_TAKES_FLOATS >> dtype & 1)) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: dtype is %d; use HAL_F32, HAL_F16 or HAL_BF16", op,
                         (int)dtype);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_DEQUANTIZE,
                     .tensors = {[HAL_ROLE_X] = codes.id, [HAL_ROLE_SCALE_A] = row_scales.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, dtype, &dims);
}

/* Moved about */

hal_tensor hal_graph_transpose(hal_graph *graph, hal_tensor x, const uint32_t perm[HAL_MAX_RANK])
{
    static const char op[] = "hal_graph_transpose";
    const hal_tensor_info *of;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS | HAL_TAKES_F8))) {
        return HAL_NO_TENSOR;
    }
    if (!perm) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: perm is NULL; give %u dimensions", op, of->dims.rank);
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_TRANSPOSE, .tensors = {[HAL_ROLE_X] = x.id}};
    hal_dims dims = {.rank = of->dims.rank};
    unsigned seen = 0;
    for (uint32_t i = 0; i < dims.rank; i++) {
        if (perm[i] >= dims.rank || seen >> perm[i] & 1) {
            hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                             "%s: perm[%u] is %u; of %u dimensions each is named once", op, i, perm[i], dims.rank);
            return HAL_NO_TENSOR;
        }
        seen |= 1u << perm[i];
        step.perm[i] = perm[i];
        dims.size[i] = of->dims.size[perm[i]];
    }
    return finish(graph, op, &step, of->dtype, &dims);
}

hal_tensor hal_graph_gather(hal_graph *graph, hal_tensor table, hal_tensor ids)
{
    static const char op[] = "hal_graph_gather";
    const hal_tensor_info *of, *i;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "table", table, HAL_TAKES_FLOATS)) ||
        !(i = hal_graph_operand(graph, op, "ids", ids, HAL_TAKES_INDICES))) {
        return HAL_NO_TENSOR;
    }
    if (of->dims.rank != 2 || i->dims.rank == HAL_MAX_RANK) {
        return mismatch(graph, op, "table", of, "ids", i, "a table has 2 dimensions, ids at most 3");
    }
    hal_step step = {.op = HAL_STEP_GATHER, .tensors = {[HAL_ROLE_X] = table.id, [HAL_ROLE_B] = ids.id}};
    hal_dims dims = i->dims;
    dims.size[dims.rank++] = of->dims.size[1];
    return finish(graph, op, &step, of->dtype, &dims);
}

/* Of transformers */

hal_tensor hal_graph_rope(hal_graph *graph, hal_tensor x, uint32_t heads, hal_tensor cosines, hal_tensor sines,
                          hal_tensor positions)
{
    static const char op[] = "hal_graph_rope";
    const hal_tensor_info *of, *c, *s, *p;
    if (!hal_graph_takes(graph, op) || !(of = hal_graph_operand(graph, op, "x", x, HAL_TAKES_FLOATS)) ||
        !(c = hal_graph_operand(graph, op, "cosines", cosines, HAL_TAKES_F32)) ||
        !(s = hal_graph_operand(graph, op, "sines", sines, HAL_TAKES_F32)) ||
        !hal_graph_optional(graph, op, "positions", positions, HAL_TAKES_INDICES, &p)) {
        return HAL_NO_TENSOR;
    }
    const uint64_t columns = hal_dims_columns(&of->dims);
    if (heads == 0 || columns % heads) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                         "%s: heads is %u, x '%s' has %llu columns; they must divide", op, heads, of->name,
                         (unsigned long long)columns);
        return HAL_NO_TENSOR;
    }
    if (c->dims.rank != 2 || c->dims.size[0] == HAL_ROWS || !hal_dims_equal(&c->dims, &s->dims)) {
        return mismatch(graph, op, "cosines", c, "sines", s, "both are [positions, rotary_dim / 2]");
    }
    if (2 * c->dims.size[1] > columns / heads) {
        return mismatch(graph, op, "cosines", c, "x", of, "a head has fewer elements than twice the tables' columns");
    }
    const bool fixed = of->dims.size[0] != HAL_ROWS;
    if (!p && fixed && hal_tensor_rows(of, 0) > c->dims.size[0]) {
        return mismatch(graph, op, "cosines", c, "x", of, "the tables have fewer positions than x has rows");
    }
    if (p && (!hal_dims_one_a_row(&p->dims, &of->dims) || p->element_size != 4)) {
        return mismatch(graph, op, "positions", p, "x", of, "positions are int32, one a row of x");
    }
    hal_step step = {.op = HAL_STEP_ROPE,
                     .heads = heads,
                     .tensors = {[HAL_ROLE_X] = x.id,
                                 [HAL_ROLE_COS] = cosines.id,
                                 [HAL_ROLE_SIN] = sines.id,
                                 [HAL_ROLE_POSITIONS] = positions.id}};
    const hal_dims dims = of->dims;
    return finish(graph, op, &step, of->dtype, &dims);
}

typedef struct attention_operands {
    const hal_tensor_info *q, *k, *v, *mask, *lengths;
} attention_operands;

static bool attention_heads(hal_graph *graph, const char *op, const attention_operands *of, uint32_t q_heads,
                            uint32_t kv_heads)
{
    if (q_heads % kv_heads) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                "%s: q_heads is %u, kv_heads %u; the first is a multiple of the second", op, q_heads,
                                kv_heads);
    }
    const uint64_t q = hal_dims_columns(&of->q->dims), k = hal_dims_columns(&of->k->dims),
                   v = hal_dims_columns(&of->v->dims);
    if (q % q_heads || k % kv_heads || v % kv_heads || q / q_heads != k / kv_heads) {
        char text[3][HAL_DIMS_TEXT];
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                "%s: q is %s, k %s, v %s with %u and %u heads; q is [rows, q_heads * d], k [keys, "
                                "kv_heads * d], v [keys, kv_heads * e]",
                                op, hal_dims_text(&of->q->dims, text[0]), hal_dims_text(&of->k->dims, text[1]),
                                hal_dims_text(&of->v->dims, text[2]), q_heads, kv_heads);
    }
    if (q / q_heads > MOST_HEAD_DIM || v / kv_heads > MOST_HEAD_DIM) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: heads have %llu and %llu elements; at most %d",
                                op, (unsigned long long)(q / q_heads), (unsigned long long)(v / kv_heads),
                                MOST_HEAD_DIM);
    }
    return true;
}

static bool attention_check(hal_graph *graph, const char *op, const attention_operands *of,
                            const hal_graph_attention_options *options)
{
    if (!hal_dims_same_rows(&of->k->dims, &of->v->dims)) {
        mismatch(graph, op, "k", of->k, "v", of->v, "there is a value for each key");
        return false;
    }
    if (of->q->dtype != of->k->dtype || of->q->dtype != of->v->dtype) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: q is of %s, k of %s, v of %s; use one dtype",
                                op, hal_tensor_dtype_name(of->q), hal_tensor_dtype_name(of->k),
                                hal_tensor_dtype_name(of->v));
    }
    if ((unsigned)options->causal > HAL_CAUSAL_TOP_LEFT) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: causal is %d; use a hal_causal", op,
                                (int)options->causal);
    }
    hal_dims keys = of->k->dims; /* rows of k as columns of the mask */
    uint64_t count = 1;
    for (uint32_t i = 0; i + 1 < keys.rank; i++) {
        count *= keys.size[i];
    }
    if (of->mask && (!hal_dims_same_rows(&of->mask->dims, &of->q->dims) || keys.size[0] == HAL_ROWS ||
                     hal_dims_columns(&of->mask->dims) != count)) {
        mismatch(graph, op, "mask", of->mask, "k", of->k, "mask has q's rows and a column a key");
        return false;
    }
    if (of->lengths && (!is_vector(of->lengths, 1) || of->lengths->element_size != 4)) {
        mismatch(graph, op, "kv_lengths", of->lengths, "k", of->k, "kv_lengths is int32 [1]");
        return false;
    }
    return true;
}

hal_tensor hal_graph_attention(hal_graph *graph, hal_tensor q, hal_tensor k, hal_tensor v,
                               const hal_graph_attention_options *given)
{
    static const char op[] = "hal_graph_attention";
    hal_graph_attention_options options;
    attention_operands of;
    if (!hal_graph_takes(graph, op) ||
        !hal_graph_options(graph, given, &options, sizeof options, "hal_graph_attention_options") ||
        !(of.q = hal_graph_operand(graph, op, "q", q, HAL_TAKES_FLOATS)) ||
        !(of.k = hal_graph_operand(graph, op, "k", k, HAL_TAKES_FLOATS)) ||
        !(of.v = hal_graph_operand(graph, op, "v", v, HAL_TAKES_FLOATS)) ||
        !hal_graph_optional(graph, op, "mask", options.mask, HAL_TAKES_FLOATS, &of.mask) ||
        !hal_graph_optional(graph, op, "kv_lengths", options.kv_lengths, HAL_TAKES_INDICES, &of.lengths)) {
        return HAL_NO_TENSOR;
    }
    const uint32_t q_heads = options.q_heads ? options.q_heads : 1;
    const uint32_t kv_heads = options.kv_heads ? options.kv_heads : q_heads;
    if (!attention_heads(graph, op, &of, q_heads, kv_heads) || !attention_check(graph, op, &of, &options)) {
        return HAL_NO_TENSOR;
    }
    hal_step step = {.op = HAL_STEP_ATTENTION,
                     .heads = q_heads,
                     .kv_heads = kv_heads,
                     .causal = options.causal,
                     .scale = options.scale,
                     .softcap = options.softcap,
                     .tensors = {[HAL_ROLE_X] = q.id,
                                 [HAL_ROLE_B] = k.id,
                                 [HAL_ROLE_V] = v.id,
                                 [HAL_ROLE_MASK] = options.mask.id,
                                 [HAL_ROLE_KV_LENGTHS] = options.kv_lengths.id}};
    const hal_dims dims = with_columns(of.q->dims, q_heads * (hal_dims_columns(&of.v->dims) / kv_heads));
    return finish(graph, op, &step, of.q->dtype, &dims);
}
