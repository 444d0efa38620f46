/* decoder_layer - a whole decoder layer as one graph, prefill of one sequence: RMSNorm, Q, K and V, rotary embedding,
 * causal attention with fewer heads for keys than for queries, output projection and residual, and the feed-forward
 * block. Any number of tokens runs with the same plan; each is checked against plain C. */
#include <hal/plan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HIDDEN = 64, HEADS = 4, KV_HEADS = 2, DIM = 16, INNER = 160, POSITIONS = 64 };
enum { Q = HEADS * DIM, KV = KV_HEADS * DIM };

/* Everything constant, FP32; lies on the device just so. */
typedef struct weights {
    float attention_norm[HIDDEN], q[HIDDEN * Q], k[HIDDEN * KV], v[HIDDEN * KV], out[Q * HIDDEN];
    float ffn_norm[HIDDEN], gate[HIDDEN * INNER], up[HIDDEN * INNER], down[INNER * HIDDEN];
    float cosines[POSITIONS * DIM / 2], sines[POSITIONS * DIM / 2];
} weights;

#define WEIGHT(field, ...)                                                                                             \
    hal_graph_constant(g, #field, HAL_F32, HAL_DIMS(__VA_ARGS__),                                                      \
                       hal_range(memory, offsetof(weights, field), sizeof(((weights *)0)->field)))

static void build(hal_buffer *memory, hal_graph *g)
{
    hal_tensor x = hal_graph_input(g, "x", HAL_F32, HAL_DIMS(HAL_ROWS, HIDDEN));
    hal_tensor positions = hal_graph_index_input(g, "positions", 4, HAL_DIMS(HAL_ROWS));
    hal_tensor cosines = WEIGHT(cosines, POSITIONS, DIM / 2), sines = WEIGHT(sines, POSITIONS, DIM / 2);

    hal_tensor a = hal_graph_rmsnorm(g, x, WEIGHT(attention_norm, HIDDEN), 1e-6f);
    hal_tensor q = hal_graph_gemm(g, a, WEIGHT(q, HIDDEN, Q), NULL);
    hal_tensor k = hal_graph_gemm(g, a, WEIGHT(k, HIDDEN, KV), NULL);
    hal_tensor v = hal_graph_gemm(g, a, WEIGHT(v, HIDDEN, KV), NULL);
    q = hal_graph_rope(g, q, HEADS, cosines, sines, positions);
    k = hal_graph_rope(g, k, KV_HEADS, cosines, sines, positions);
    hal_tensor o = hal_graph_attention(
        g, q, k, v, HAL_GRAPH_ATTENTION(.q_heads = HEADS, .kv_heads = KV_HEADS, .causal = HAL_CAUSAL_BOTTOM_RIGHT));
    x = hal_graph_add(g, hal_graph_gemm(g, o, WEIGHT(out, Q, HIDDEN), NULL), x);

    a = hal_graph_rmsnorm(g, x, WEIGHT(ffn_norm, HIDDEN), 1e-6f);
    hal_tensor gate = hal_graph_gemm(g, a, WEIGHT(gate, HIDDEN, INNER), NULL);
    hal_tensor b = hal_graph_swiglu(g, gate, hal_graph_gemm(g, a, WEIGHT(up, HIDDEN, INNER), NULL));
    hal_graph_output(g, "y", hal_graph_add(g, hal_graph_gemm(g, b, WEIGHT(down, INNER, HIDDEN), NULL), x));
    /* Keys and values of these tokens, for the cache. */
    hal_graph_output(g, "keys", k);
    hal_graph_output(g, "values", v);
}

/* The same in plain C. */

static void normalise(const float *x, const float *weight, float *y)
{
    float squares = 0;
    for (int j = 0; j < HIDDEN; j++)
        squares += x[j] * x[j];
    for (int j = 0; j < HIDDEN; j++)
        y[j] = x[j] / sqrtf(squares / HIDDEN + 1e-6f) * weight[j];
}

static void multiply(const float *x, const float *matrix, int k, int n, float *y)
{
    for (int j = 0; j < n; j++) {
        y[j] = 0;
        for (int l = 0; l < k; l++)
            y[j] += x[l] * matrix[l * n + j];
    }
}

static void rotate(const weights *w, int position, int heads, float *x)
{
    const float *c = w->cosines + position * DIM / 2, *s = w->sines + position * DIM / 2;
    for (int head = 0; head < heads; head++, x += DIM)
        for (int i = 0; i < DIM / 2; i++) {
            const float low = x[i], high = x[i + DIM / 2];
            x[i] = low * c[i] - high * s[i];
            x[i + DIM / 2] = high * c[i] + low * s[i];
        }
}

/* One query, of token `last`, on all keys up to its own. */
static void attend(const float *q, const float *keys, const float *values, int last, float *o)
{
    for (int head = 0; head < HEADS; head++) {
        const int column = head / (HEADS / KV_HEADS) * DIM;
        float score[POSITIONS], most = -INFINITY, sum = 0;
        for (int t = 0; t <= last; t++) {
            score[t] = 0;
            for (int i = 0; i < DIM; i++)
                score[t] += q[head * DIM + i] * keys[t * KV + column + i] / sqrtf(DIM);
            most = fmaxf(most, score[t]);
        }
        for (int t = 0; t <= last; t++)
            sum += score[t] = expf(score[t] - most);
        for (int i = 0; i < DIM; i++) {
            o[head * DIM + i] = 0;
            for (int t = 0; t <= last; t++)
                o[head * DIM + i] += score[t] / sum * values[t * KV + column + i];
        }
    }
}

static void plain(const weights *w, int tokens, const float *x, const int *positions, float *y, float *keys,
                  float *values)
{
    for (int t = 0; t < tokens; t++, x += HIDDEN, y += HIDDEN) {
        float a[HIDDEN], q[Q], o[Q], gate[INNER], up[INNER], down[HIDDEN];
        normalise(x, w->attention_norm, a);
        multiply(a, w->q, HIDDEN, Q, q);
        multiply(a, w->k, HIDDEN, KV, keys + t * KV);
        multiply(a, w->v, HIDDEN, KV, values + t * KV);
        rotate(w, positions[t], HEADS, q);
        rotate(w, positions[t], KV_HEADS, keys + t * KV);
        attend(q, keys, values, t, o);
        multiply(o, w->out, Q, HIDDEN, y);
        for (int j = 0; j < HIDDEN; j++)
            y[j] += x[j];
        normalise(y, w->ffn_norm, a);
        multiply(a, w->gate, HIDDEN, INNER, gate);
        multiply(a, w->up, HIDDEN, INNER, up);
        for (int j = 0; j < INNER; j++)
            gate[j] = gate[j] / (1 + expf(-gate[j])) * up[j];
        multiply(gate, w->down, INNER, HIDDEN, down);
        for (int j = 0; j < HIDDEN; j++)
            y[j] += down[j];
    }
}

static int count_wrong(const float *got, const float *want, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += !(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])));
    return wrong;
}

static void fill(float *values, size_t count, float spread)
{
    for (size_t i = 0; i < count; i++)
        values[i] = spread * (float)(rand() % 2001 - 1000) / 1000;
}

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(void)
{
    static weights w;
    static float x[POSITIONS * HIDDEN], y[POSITIONS * HIDDEN], keys[POSITIONS * KV], values[POSITIONS * KV];
    static float want_y[POSITIONS * HIDDEN], want_keys[POSITIONS * KV], want_values[POSITIONS * KV];
    int positions[POSITIONS], wrong = 0, result = 1;
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *buffers[5] = {NULL}, *memory = NULL;
    hal_graph *graph = NULL;
    hal_plan *plan = NULL;
    void *const host[] = {x, positions, y, keys, values};
    const uint64_t row_bytes[] = {sizeof x / POSITIONS, sizeof(int), sizeof y / POSITIONS, sizeof keys / POSITIONS,
                                  sizeof values / POSITIONS};

    fill((float *)&w, offsetof(weights, cosines) / sizeof(float), 0.2f);
    fill(x, POSITIONS * HIDDEN, 1);
    TRY(hal_rope_table(POSITIONS, DIM, 10000, w.cosines, w.sines));
    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = sizeof w, .label = "weights"), &memory));
    for (int i = 0; i < 5; i++)
        TRY(hal_buffer_create(device, HAL_BUFFER(.size = POSITIONS * row_bytes[i]), &buffers[i]));

    TRY(hal_graph_create(HAL_GRAPH(.label = "decoder layer"), &graph));
    build(memory, graph);
    TRY(hal_plan_create(device, graph, HAL_PLAN(.replay = true, .measure_rows = POSITIONS), &plan));
    hal_cmdlist *now = hal_stream_cmdlist(stream);
    TRY(hal_cmd_upload(now, hal_whole(memory), &w, sizeof w));

    static const int lengths[] = {POSITIONS, 1, 37, POSITIONS};
    for (int turn = 0; turn < 4; turn++) {
        const int tokens = lengths[turn];
        hal_span spans[5];
        for (int i = 0; i < tokens; i++)
            positions[i] = i;
        for (int i = 0; i < 5; i++) {
            spans[i] = hal_range(buffers[i], 0, (uint64_t)tokens * row_bytes[i]);
            TRY(i < 2 ? hal_cmd_upload(now, spans[i], host[i], spans[i].size) : HAL_OK);
        }
        TRY(hal_plan_run(plan, stream, (uint64_t)tokens,
                         HAL_BINDINGS(spans[0], spans[1], spans[2], spans[3], spans[4])));
        for (int i = 2; i < 5; i++)
            TRY(hal_cmd_download(now, host[i], spans[i]));
        TRY(hal_stream_wait(stream, HAL_SECONDS(60)));
        plain(&w, tokens, x, positions, want_y, want_keys, want_values);
        wrong += count_wrong(y, want_y, tokens * HIDDEN) + count_wrong(keys, want_keys, tokens * KV) +
                 count_wrong(values, want_values, tokens * KV);
    }
    TRY(hal_graph_dump(graph, HAL_GRAPH_TEXT, stdout));
    printf("\n");
    TRY(hal_plan_explain(plan, POSITIONS, stdout));
    printf("\ndecoder layer on %s (%s): %d elements wrong in 4 runs\n", hal_device_get_info(device)->name,
           hal_device_get_info(device)->backend, wrong);
    result = wrong != 0;
    goto done;
fail:
    fprintf(stderr, "decoder_layer: %s\n", hal_last_error());
done:
    hal_plan_destroy(plan);
    hal_graph_destroy(graph);
    for (int i = 0; i < 5; i++)
        hal_buffer_destroy(buffers[i]);
    hal_buffer_destroy(memory);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return result;
}
