/* attention_task.cl - attention for CPU devices: a group is one work-item, one core's task, and takes ROWS rows with
 * explicit vectors. Steps and orders of summation are attention.cl's; a vector's components are its lanes. Keys and
 * values are widened into panels of PANEL columns, keys transposed, so that both products are the micro tile of
 * gemm_task.cl: GROUP rows by a panel. Constants: DTYPE, STRICT, ROWS, HEAD_ROOM and VALUE_ROOM: the dimensions or a
 * little more. Where there is but one group of rows, each key serves it once, so nothing is packed: keys are turned in
 * registers, and values taken as they lie. The bits are the same. */
#define THREADS 1
#include "attention.clh"
#include "columns.clh"

#define DIRECT (ROWS <= 12 && !STRICT)
#define GROUP  (DIRECT || ROWS < 6 ? ROWS : ROWS == 8 ? 4 : 6)
#ifdef __AVX512F__
#define PANEL 32
#else
#define PANEL 16
#endif
#define VECTORS (PANEL / 8)
#define UNROLL  __attribute__((opencl_unroll_hint))
#define ROLLED  __attribute__((opencl_unroll_hint(1))) /* compiles faster, and runs as fast */

#define ROW(i)  r[i] /* of a block to be turned */

float8 multiply8(float8 x, float8 y)
{
    return STRICT ? hm_mul8(x, y) : x * y;
}

float8 add_product8(float8 sum, float8 x, float8 y)
{
    return STRICT ? hm_flush8(sum + hm_mul8(x, y)) : x * y + sum;
}

/* Dimensions d to d + 7 of a row; zero beyond `dim`. */
float8 load_row8(global const uchar *span, ulong row, uint d, uint dim)
{
    return flush_if8(STRICT, load_part8(span, DTYPE, row + d, min(8u, dim - d), 0.0f));
}

void load_queries(const operands *at, const sequence *s, uint first_row, uint rows, local float *q)
{
    const uint dim = at->args->head_dim;
    for (uint i = 0; i < rows; i++) {
        const bool there = first_row + i < s->rows;
        const ulong row = there ? query_at(at, s, first_row + i) : 0;
        for (uint d = 0; d < dim; d += 8)
            vstore8(there ? load_row8(at->span[ATTENTION_Q], row, d, dim) : (float8)(0.0f), 0, q + i * HEAD_ROOM + d);
    }
}

#if !DIRECT
/* The block's keys, transposed. What lies behind the last key is not read, and counts as zero. */
void load_keys(const operands *at, const sequence *s, const strides *t, uint key0, local float *panels)
{
    global const uchar *span = at->span[ATTENTION_K];
    const uint dim = at->args->head_dim;
    for (uint j = 0; j < KEYS; j += 8) {
        local float *to = panels + j / PANEL * (HEAD_ROOM * PANEL) + j % PANEL;
        ulong rows[8];
        const uint count = key0 + j < s->keys ? min(8u, s->keys - key0 - j) : 0;
        for (uint i = 0; i < 8; i++)
            rows[i] = i < count ? key_at(at, s, t, key0 + j + i) : 0;
        for (uint d = 0; d < dim; d += 8) {
            float8 r[8];
            UNROLL for (uint i = 0; i < 8; i++) r[i] = i < count ? load_row8(span, rows[i], d, dim) : (float8)(0.0f);
            store_turned(r, to + d * PANEL, PANEL);
        }
    }
}

/* The block's values. Returns whether all are finite. */
bool load_values(const operands *at, const sequence *s, const strides *t, uint key0, local float *panels)
{
    global const uchar *span = at->span[ATTENTION_V];
    const uint dim = at->args->value_dim;
    int8 finite = (int8)(-1);
    for (uint j = 0; j < KEYS; j++) {
        const bool there = key0 + j < s->keys;
        const ulong row = there ? key_at(at, s, t, key0 + j) : 0;
        for (uint d = 0; d < dim; d += 8) {
            const float8 v = there ? load_row8(span, row, d, dim) : (float8)(0.0f);
            finite &= v * 0.0f == 0.0f;
            vstore8(v, 0, panels + d / PANEL * (KEYS * PANEL) + j * PANEL + d % PANEL);
        }
    }
    return all(finite);
}

/* scores = q k^T, by ascending dimension. */
void multiply_keys(uint dim, uint first, uint rows, local const float *q, local const float *keys, local float *scores)
{
    for (uint panel = 0; panel < KEYS / PANEL; panel++) {
        for (uint i = first; i < rows; i += GROUP) {
            local const float *k = keys + panel * (HEAD_ROOM * PANEL), *x = q + i * HEAD_ROOM;
            float8 sum[GROUP][VECTORS];
            UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++) sum[r][v] =
                (float8)(0.0f);
            for (uint d = 0; d < dim; d++, x++, k += PANEL)
                UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++) sum[r][v] =
                    add_product8(sum[r][v], (float8)(x[r * HEAD_ROOM]), vload8(v, k));
            UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++)
                vstore8(sum[r][v], v, scores + (i + r) * KEYS + panel * PANEL);
        }
    }
}

/* o += weights v, by ascending key. `holes`: weights of zero are skipped, so that NaN and infinity in a hidden value
 * stay hidden. */
void multiply_values(uint dim, uint keys, uint first, uint rows, bool holes, local const float *weights,
                     local const float *values, local float *o)
{
    for (uint column = 0; column < dim; column += PANEL) {
        for (uint i = first; i < rows; i += GROUP) {
            local const float *b = values + column * KEYS, *w = weights + i * KEYS;
            local float *to = o + i * VALUE_ROOM + column;
            float8 sum[GROUP][VECTORS];
            UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++) sum[r][v] =
                vload8(v, to + r * VALUE_ROOM);
            if (holes) {
                for (uint j = 0; j < keys; j++, w++, b += PANEL)
                    for (uint r = 0; r < GROUP; r++)
                        if (w[r * KEYS] != 0.0f)
                            for (uint v = 0; v < VECTORS; v++)
                                sum[r][v] = add_product8(sum[r][v], (float8)(w[r * KEYS]), vload8(v, b));
            } else {
                for (uint j = 0; j < keys; j++, w++, b += PANEL)
                    UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++) sum[r][v] =
                        add_product8(sum[r][v], (float8)(w[r * KEYS]), vload8(v, b));
            }
            UNROLL for (uint r = 0; r < GROUP; r++) UNROLL for (uint v = 0; v < VECTORS; v++)
                vstore8(sum[r][v], v, to + r * VALUE_ROOM);
        }
    }
}

#else
#define LINE (DTYPE == HAL_KERNEL_F32 ? 16 : 32) /* elements of a line of the cache */

/* Where eight keys or values lie; behind the last one it repeats. */
void locate_rows(const operands *at, const sequence *s, const strides *t, uint key, ulong rows[8])
{
    for (uint i = 0; i < 8; i++)
        rows[i] = key_at(at, s, t, min(key + i, s->keys - 1));
}

/* A part of the rows that come next, while `d` goes through them: 64 elements of a row at a time, since eight rows at
 * once are too many for the device to see that they go on. */
void fetch_rows(global const uchar *span, const ulong rows[8], uint d)
{
    UNROLL for (uint c = 0; c < 64; c += LINE) fetch_ahead(span, DTYPE, rows[d / 8 % 8] + d / 64 * 64 + c);
}

/* scores = q k^T, by ascending dimension, of all rows and the keys from key0 on. Those behind the last are replaced
 * later. */
void multiply_keys(const operands *at, const sequence *s, const strides *t, uint key0, local const float *q,
                   local float *scores)
{
    global const uchar *span = at->span[ATTENTION_K];
    const uint dim = at->args->head_dim, keys = min(s->keys - key0, KEYS);
    ulong rows[8], next[8], ahead[8];
    locate_rows(at, s, t, key0, next);
    locate_rows(at, s, t, key0 + 8, ahead);
    for (uint j = 0; j < keys; j += 8) {
        float8 sum[GROUP];
        UNROLL for (uint i = 0; i < 8; i++) rows[i] = next[i], next[i] = ahead[i];
        locate_rows(at, s, t, key0 + j + 16, ahead);
        UNROLL for (uint n = 0; n < GROUP; n++) sum[n] = (float8)(0.0f);
        local const float *x = q;
        for (uint d = 0; d < dim; d += 8, x += 8) {
            float8 r[8];
            fetch_rows(span, ahead, d);
            UNROLL for (uint i = 0; i < 8; i++) r[i] = load_row8(span, rows[i], d, dim);
            turn8(r);
            UNROLL for (uint c = 0; c < 8; c++) UNROLL for (uint n = 0; n < GROUP; n++) sum[n] =
                add_product8(sum[n], (float8)(x[n * HEAD_ROOM + c]), r[c]);
        }
        UNROLL for (uint n = 0; n < GROUP; n++) vstore8(sum[n], 0, scores + n * KEYS + j);
    }
}

/* o += weights v of eight keys and eight columns, without weights of zero. */
void add_seen(global const uchar *span, const ulong rows[8], uint d, uint dim, local const float *weights,
              local float *o)
{
    for (uint n = 0; n < GROUP; n++) {
        float8 sum = vload8(0, o + n * VALUE_ROOM + d);
        for (uint i = 0; i < 8; i++)
            if (weights[n * KEYS + i] != 0.0f)
                sum = add_product8(sum, (float8)(weights[n * KEYS + i]), load_row8(span, rows[i], d, dim));
        vstore8(sum, 0, o + n * VALUE_ROOM + d);
    }
}

/* o += weights v, by ascending key; those behind the last have weights of zero. Where a value is not finite these are
 * skipped, so that NaN and infinity stay hidden. */
void multiply_values(const operands *at, const sequence *s, const strides *t, uint key0, uint keys,
                     local const float *weights, local float *o)
{
    global const uchar *span = at->span[ATTENTION_V];
    const uint dim = at->args->value_dim;
    ulong rows[8], next[8], ahead[8];
    locate_rows(at, s, t, key0, next);
    locate_rows(at, s, t, key0 + 8, ahead);
    for (uint j = 0; j < keys; j += 8, weights += 8) {
        UNROLL for (uint i = 0; i < 8; i++) rows[i] = next[i], next[i] = ahead[i];
        locate_rows(at, s, t, key0 + j + 16, ahead);
        local float *to = o;
        for (uint d = 0; d < dim; d += 8, to += 8) {
            float8 sum[GROUP], zero = (float8)(0.0f);
            fetch_rows(span, ahead, d);
            UNROLL for (uint n = 0; n < GROUP; n++) sum[n] = vload8(0, to + n * VALUE_ROOM);
            UNROLL for (uint i = 0; i < 8; i++)
            {
                const float8 v = load_row8(span, rows[i], d, dim);
                zero = v * 0.0f + zero;
                UNROLL for (uint n = 0; n < GROUP; n++) sum[n] =
                    add_product8(sum[n], (float8)(weights[n * KEYS + i]), v);
            }
            if (any8(zero != 0.0f))
                add_seen(span, rows, d, dim, weights, o);
            else
                UNROLL for (uint n = 0; n < GROUP; n++) vstore8(sum[n], 0, to + n * VALUE_ROOM);
        }
    }
}
#endif

/* Scale, softcap and mask of eight keys of row r from `key` on, of which `count` are seen. */
float8 finish_scores(const operands *at, const sequence *s, uint r, uint key, uint count, float8 score)
{
    const hal_attention_args *args = at->args;
    const uint dtype_mask = ROW_DTYPE(args->flags, 2);
    float8 x = multiply8(score, (float8)(args->scale));
    if (args->softcap > 0.0f)
        x = multiply8((float8)(args->softcap), hm_tanh8(multiply8(x, (float8)(hm_reciprocal(args->softcap)))));
    if (dtype_mask != 0) {
        const ulong i = s->number * JOIN(args->mask_batch) + (s->head0 + r % s->ratio) * JOIN(args->mask_head) +
                        (r / s->ratio) * JOIN(args->mask_row) + key;
        float8 m;
        if (dtype_mask == HAL_KERNEL_F8E4M3) {
            float hides[8];
            for (uint j = 0; j < 8; j++)
                hides[j] = j < count && at->span[ATTENTION_MASK][i + j] != 0 ? 0.0f : -INFINITY;
            m = vload8(0, hides);
            x = m == 0.0f ? x : m;
        } else {
            m = flush_if8(STRICT, load_part8(at->span[ATTENTION_MASK], dtype_mask, i, min(8u, count), -INFINITY));
            x = m == -INFINITY ? m : flush_if8(STRICT, x + m);
        }
    }
    return count >= 8 ? x : (int8)(0, 1, 2, 3, 4, 5, 6, 7) < (int)count ? x : (float8)(-INFINITY);
}

float8 greater8(float8 x, float8 y)
{
    return y > x ? y : x;
}

/* Scores become weights; what was summed with another greatest score shrinks. */
void weigh(const operands *at, const sequence *s, uint r, uint key0, local float *scores, local float *greatest,
           local float *sums, local float *o)
{
    const uint end = visible_keys(at, s, r), count = end > key0 ? min(end - key0, KEYS) : 0;
    float8 most8 = (float8)(*greatest);
    ROLLED for (uint i = 0; i < KEYS; i += 8)
    {
        float8 x = (float8)(-INFINITY);
        if (i < count)
            x = finish_scores(at, s, r, key0 + i, count - i, vload8(0, scores + i));
        vstore8(x, 0, scores + i);
        most8 = greater8(most8, x);
    }
    float most = most8.s0;
    most = greater(greater(greater(most, most8.s1), most8.s2), most8.s3);
    most = greater(greater(greater(greater(most, most8.s4), most8.s5), most8.s6), most8.s7);
    const float shift = most == -INFINITY ? 0.0f : most, shrink = weight_of(*greatest, shift);
    *greatest = most;
    float8 sum = multiply8(vload8(0, sums), (float8)(shrink));
    ROLLED for (uint i = 0; i < KEYS; i += 8)
    {
        const float8 w = hm_exp8(vload8(0, scores + i) - shift);
        vstore8(w, 0, scores + i);
        sum += w;
    }
    vstore8(sum, 0, sums);
    for (uint c = 0; shrink != 1.0f && c < at->args->value_dim; c += 8)
        vstore8(multiply8(vload8(0, o + c), (float8)(shrink)), 0, o + c);
}

void finish(const operands *at, const sequence *s, uint r, float greatest, float8 lanes, local const float *o)
{
    const uint dim = at->args->value_dim;
    const float4 four = lanes.lo + lanes.hi;
    const float2 two = four.lo + four.hi;
    const float sum = two.x + two.y, factor = sum == 0.0f ? 0.0f : hm_reciprocal(sum);
    const bool split = at->args->splits > 1;
    global uchar *to = at->span[split ? ATTENTION_PARTS : ATTENTION_O];
    const ulong start = split ? part_at(at, s, r) + 2 : output_at(at, s, r);
    const uint dtype = split ? HAL_KERNEL_F32 : ROW_DTYPE(at->args->flags, 1);
    for (uint c = 0; c < dim; c += 8) {
        const float8 x = vload8(0, o + c);
        store_part8(to, dtype, start + c, min(8u, dim - c),
                    split         ? x
                    : sum == 0.0f ? (float8)(0.0f)
                                  : multiply8(x, (float8)(factor)));
    }
    store_sums(at, s, r, greatest, sum);
}

__attribute__((reqd_work_group_size(1, 1, 1))) kernel void attention_task(SPANS, hal_attention_args args)
{
    local float q[ROWS * HEAD_ROOM];
#if !DIRECT
    local float keys[KEYS * HEAD_ROOM], values[KEYS * VALUE_ROOM];
#endif
    local float weights[ROWS * KEYS], o[ROWS * VALUE_ROOM], sums[ROWS * 8], greatest[ROWS];
    const operands at = OPERANDS;
    const sequence s = locate(&at);
    const uint first_row = s.tile * ROWS, row_end = min(first_row + ROWS, s.rows);
    if (first_row >= s.rows)
        return;
    const uint rows = (row_end - first_row + GROUP - 1) / GROUP * GROUP, block_end = last_block(&at, &s, row_end);
    const strides key_strides = strides_of_keys(&at, &s), value_strides = strides_of_values(&at, &s);
    for (uint i = 0; i < ROWS * VALUE_ROOM; i += 8)
        vstore8((float8)(0.0f), 0, o + i);
    for (uint i = 0; i < ROWS; i++) {
        vstore8((float8)(0.0f), i, sums);
        greatest[i] = -INFINITY;
    }
    load_queries(&at, &s, first_row, rows, q);

    for (uint block = s.first_block; block < block_end; block++) {
        const uint key0 = block * KEYS, seen = min(visible_keys(&at, &s, row_end - 1) - key0, KEYS);
        uint first = 0; /* rows before it see nothing of this block */
        while (first + GROUP < rows && visible_keys(&at, &s, first_row + first + GROUP - 1) <= key0)
            first += GROUP;
#if DIRECT
        multiply_keys(&at, &s, &key_strides, key0, q, weights);
#else
        load_keys(&at, &s, &key_strides, key0, keys);
        const bool holes = !load_values(&at, &s, &value_strides, key0, values);
        multiply_keys(args.head_dim, first, rows, q, keys, weights);
#endif
        for (uint i = first; i < rows; i++)
            weigh(&at, &s, first_row + i, key0, weights + i * KEYS, greatest + i, sums + 8 * i, o + i * VALUE_ROOM);
#if DIRECT
        multiply_values(&at, &s, &value_strides, key0, seen, weights, o);
#else
        multiply_values(args.value_dim, seen, first, rows, holes, weights, values, o);
#endif
    }
    for (uint r = first_row; r < row_end; r++)
        finish(&at, &s, r, greatest[r - first_row], vload8(r - first_row, sums), o + (r - first_row) * VALUE_ROOM);
}
