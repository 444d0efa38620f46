/* ffn_graph - the feed-forward block of Qwen3-8B as a graph: RMSNorm, gate and up, SwiGLU, down, and the residual. It
 * is compiled for the device to a plan, run twice by replaying what was recorded, checked against plain C, and
 * explained: which operators became one, where results lie, what each step should cost.
 *
 *   ffn_graph [ROWS HIDDEN INNER]     Qwen3-8B itself: ffn_graph 1024 4096 12288 (plain C takes minutes for that) */
#include <hal/plan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct ffn {
    uint64_t rows, hidden, inner;
    uint16_t *x, *y, *weights; /* BF16 */
} ffn;

/* Where each weight lies in `weights`, in elements. */
enum { NORM, GATE, UP, DOWN, ALL };
static uint64_t place(const ffn *f, int weight)
{
    const uint64_t matrix = f->hidden * f->inner;
    const uint64_t places[] = {0, f->hidden, f->hidden + matrix, f->hidden + 2 * matrix, f->hidden + 3 * matrix};
    return places[weight];
}

static void build(const ffn *f, hal_buffer *weights, hal_graph *graph)
{
    const uint64_t h = f->hidden, n = f->inner;
    /* Without a check a line: the graph keeps the first failure, and hal_plan_create reports it. */
    hal_tensor x = hal_graph_input(graph, "x", HAL_BF16, HAL_DIMS(HAL_ROWS, h));
    hal_tensor norm = hal_graph_constant(graph, "norm", HAL_BF16, HAL_DIMS(h), hal_at(weights, 2 * place(f, NORM)));
    hal_tensor gate = hal_graph_constant(graph, "gate", HAL_BF16, HAL_DIMS(h, n), hal_at(weights, 2 * place(f, GATE)));
    hal_tensor up = hal_graph_constant(graph, "up", HAL_BF16, HAL_DIMS(h, n), hal_at(weights, 2 * place(f, UP)));
    hal_tensor down = hal_graph_constant(graph, "down", HAL_BF16, HAL_DIMS(n, h), hal_at(weights, 2 * place(f, DOWN)));

    hal_tensor a = hal_graph_rmsnorm(graph, x, norm, 1e-6f);
    hal_tensor g = hal_graph_gemm(graph, a, gate, NULL);
    hal_tensor b = hal_graph_swiglu(graph, g, hal_graph_gemm(graph, a, up, NULL));
    hal_graph_output(graph, "y", hal_graph_add(graph, hal_graph_gemm(graph, b, down, NULL), x));
}

/* The same in plain C, one row at a time; results are rounded to BF16 where the graph has a tensor. */

static float rounded(float value)
{
    return hal_bf16_to_f32(hal_bf16_from_f32(value));
}

static void multiply(const float *row, const uint16_t *matrix, uint64_t k, uint64_t n, float *result)
{
    for (uint64_t j = 0; j < n; j++)
        result[j] = 0;
    for (uint64_t l = 0; l < k; l++)
        for (uint64_t j = 0; j < n; j++)
            result[j] += row[l] * hal_bf16_to_f32(matrix[l * n + j]);
    for (uint64_t j = 0; j < n; j++)
        result[j] = rounded(result[j]);
}

static void plain_row(const ffn *f, const uint16_t *x, float *a, float *gate, float *up, float *y)
{
    float squares = 0;
    for (uint64_t j = 0; j < f->hidden; j++)
        squares += hal_bf16_to_f32(x[j]) * hal_bf16_to_f32(x[j]);
    const float root = 1 / sqrtf(squares / (float)f->hidden + 1e-6f);
    for (uint64_t j = 0; j < f->hidden; j++)
        a[j] = rounded(hal_bf16_to_f32(x[j]) * root * hal_bf16_to_f32(f->weights[place(f, NORM) + j]));
    multiply(a, f->weights + place(f, GATE), f->hidden, f->inner, gate);
    multiply(a, f->weights + place(f, UP), f->hidden, f->inner, up);
    for (uint64_t j = 0; j < f->inner; j++)
        gate[j] = rounded(rounded(gate[j] / (1 + expf(-gate[j]))) * up[j]);
    multiply(gate, f->weights + place(f, DOWN), f->inner, f->hidden, y);
    for (uint64_t j = 0; j < f->hidden; j++)
        y[j] = rounded(y[j] + hal_bf16_to_f32(x[j]));
}

/* How many elements are wrong: sums taken in another order may round to a neighbour, three times in a row. */
static uint64_t count_wrong(const ffn *f)
{
    const uint64_t most = f->hidden > f->inner ? f->hidden : f->inner;
    float *scratch = calloc(4 * most, sizeof *scratch);
    uint64_t wrong = scratch ? 0 : 1;
    for (uint64_t i = 0; scratch && i < f->rows; i++) {
        float *want = scratch + 3 * most;
        plain_row(f, f->x + i * f->hidden, scratch, scratch + most, scratch + 2 * most, want);
        for (uint64_t j = 0; j < f->hidden; j++) {
            const float got = hal_bf16_to_f32(f->y[i * f->hidden + j]);
            wrong += !(fabsf(got - want[j]) <= 0.02f * (1 + fabsf(want[j])));
        }
    }
    free(scratch);
    return wrong;
}

static void fill(const ffn *f)
{
    for (uint64_t i = 0; i < f->rows * f->hidden; i++)
        f->x[i] = hal_bf16_from_f32((float)(rand() % 2001 - 1000) / 500);
    for (uint64_t i = 0; i < place(f, ALL); i++) {
        const float spread = i < place(f, GATE) ? 1 : sqrtf(3 / (float)(i < place(f, DOWN) ? f->hidden : f->inner));
        f->weights[i] = hal_bf16_from_f32(spread * (float)(rand() % 2001 - 1000) / 1000);
    }
}

#define TRY(call)                                                                                                      \
    if ((call) != HAL_OK)                                                                                              \
    goto fail

int main(int argc, char **argv)
{
    ffn f = {.rows = 32, .hidden = 64, .inner = 192};
    hal_device *device = NULL;
    hal_stream *stream = NULL;
    hal_buffer *weights = NULL, *x = NULL, *y = NULL;
    hal_graph *graph = NULL;
    hal_plan *plan = NULL;
    int result = 1;

    if (argc == 4) {
        f = (ffn){.rows = strtoull(argv[1], NULL, 10),
                  .hidden = strtoull(argv[2], NULL, 10),
                  .inner = strtoull(argv[3], NULL, 10)};
    }
    const uint64_t elements = f.rows * f.hidden, bytes = 2 * elements;
    f.x = calloc(1, bytes);
    f.y = calloc(1, bytes);
    f.weights = calloc(1, 2 * place(&f, ALL));
    if (!f.x || !f.y || !f.weights) {
        fprintf(stderr, "ffn_graph: out of memory\n");
        goto done;
    }
    fill(&f);
    TRY(hal_device_open(NULL, &device));
    TRY(hal_stream_create(device, NULL, &stream));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = 2 * place(&f, ALL), .label = "weights"), &weights));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = bytes, .label = "x"), &x));
    TRY(hal_buffer_create(device, HAL_BUFFER(.size = bytes, .label = "y"), &y));

    TRY(hal_graph_create(HAL_GRAPH(.label = "ffn"), &graph));
    build(&f, weights, graph);
    TRY(hal_plan_create(device, graph, HAL_PLAN(.replay = true, .measure_rows = f.rows), &plan));

    hal_cmdlist *now = hal_stream_cmdlist(stream);
    TRY(hal_cmd_upload(now, hal_whole(weights), f.weights, 2 * place(&f, ALL)));
    TRY(hal_cmd_upload(now, hal_whole(x), f.x, bytes));
    for (int turn = 0; turn < 2; turn++) /* inputs, then outputs; each run may bind others */
        TRY(hal_plan_run(plan, stream, f.rows, HAL_BINDINGS(hal_whole(x), hal_whole(y))));
    TRY(hal_cmd_download(now, f.y, hal_whole(y)));
    TRY(hal_stream_wait(stream, HAL_SECONDS(60)));

    TRY(hal_plan_explain(plan, f.rows, stdout));
    const uint64_t wrong = count_wrong(&f);
    printf("\nffn on %s (%s): %llu of %llu elements wrong\n", hal_device_get_info(device)->name,
           hal_device_get_info(device)->backend, (unsigned long long)wrong, (unsigned long long)elements);
    result = wrong != 0;
    goto done;
fail:
    fprintf(stderr, "ffn_graph: %s\n", hal_last_error());
done:
    hal_plan_destroy(plan);
    hal_graph_destroy(graph);
    hal_buffer_destroy(y);
    hal_buffer_destroy(x);
    hal_buffer_destroy(weights);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    free(f.weights);
    free(f.y);
    free(f.x);
    return result;
}
