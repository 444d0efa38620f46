/* graph_run.c - hal-bench fusion, ffn and layer: the same graph eager and replayed, separate and fused, on one stream
 * and on several, in turns. */
#include "graphs.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 63, MAX_VARIANTS = 6, MAX_LAYERS = 64 };

/* One way to run the graph. */
typedef struct variant {
    const char *mode;
    bool replay, fused;
    uint32_t streams;
    hal_plan *plan;
    hal_plan_stats stats;
    void *results[2];
    double submit[MAX_ROUNDS], wait[MAX_ROUNDS], device;
    uint64_t submits, kernels; /* of the layers once */
} variant;

typedef struct graph_run {
    bench_run *run;
    const bench_device *device;
    hal_device *opened;
    hal_stream *stream;
    hal_event *start, *end;
    bench_graph graph;
    hal_buffer *outputs[2], *other; /* other: what every second layer writes where the output is the next one's input */
    uint32_t layers, rounds, variant_count;
    variant variants[MAX_VARIANTS];
    char error[500];
} graph_run;

static bool did(graph_run *self, hal_status status, const char *doing)
{
    return bench_succeeded(status, doing, self->error, sizeof self->error);
}

static void add_variant(graph_run *self, const char *mode, bool replay, bool fused, uint32_t streams)
{
    self->variants[self->variant_count++] =
        (variant){.mode = mode, .replay = replay, .fused = fused, .streams = streams, .device = NAN};
}

static void choose_variants(graph_run *self)
{
    add_variant(self, "eager", false, false, 1);
    add_variant(self, "replay", true, false, 1);
    add_variant(self, "eager", false, true, 1);
    add_variant(self, "replay", true, true, 1);
    if (self->graph.kind >= BENCH_GRAPH_FFN && !self->run->options->quick) {
        add_variant(self, "eager, 2 streams", false, false, 2);
        add_variant(self, "eager, 2 streams", false, true, 2);
    }
}

static bool create_buffer(graph_run *self, uint64_t size, hal_buffer **buffer)
{
    return did(self, hal_buffer_create(self->opened, HAL_BUFFER(.size = size, .label = "output"), buffer), "outputs");
}

static bool open_run(graph_run *self, bench_graph_kind kind, const bench_graph_shape *shape)
{
    const hal_event_desc *timing = HAL_EVENT(.timing = true);
    bool good = did(self, bench_device_open(self->device, &self->opened), "opening the device") &&
                did(self, hal_stream_create(self->opened, HAL_STREAM(.label = "graph"), &self->stream), "a stream");
    if (good && self->device->info.timestamps)
        good = did(self, hal_event_create(self->opened, timing, &self->start), "an event") &&
               did(self, hal_event_create(self->opened, timing, &self->end), "an event");
    if (good && !bench_graph_build(&self->graph, kind, shape, self->stream)) {
        snprintf(self->error, sizeof self->error, "building the graph: %s", hal_last_error());
        good = false;
    }
    for (uint32_t i = 0; good && i < self->graph.outputs; i++)
        good = create_buffer(self, self->graph.output_bytes[i], &self->outputs[i]);
    if (good && self->graph.chains && self->layers > 1)
        good = create_buffer(self, self->graph.output_bytes[0], &self->other);
    return good;
}

static void close_run(graph_run *self)
{
    for (uint32_t i = 0; i < self->variant_count; i++) {
        hal_plan_destroy(self->variants[i].plan);
        free(self->variants[i].results[0]);
        free(self->variants[i].results[1]);
    }
    hal_buffer_destroy(self->outputs[0]);
    hal_buffer_destroy(self->outputs[1]);
    hal_buffer_destroy(self->other);
    bench_graph_close(&self->graph);
    hal_event_destroy(self->start);
    hal_event_destroy(self->end);
    hal_stream_destroy(self->stream);
    hal_device_destroy(self->opened);
}

/* The spans of layer `layer`: the last one writes the output. */
static uint32_t bind(const graph_run *self, uint32_t layer, hal_span spans[BENCH_GRAPH_OPERANDS])
{
    const bench_graph *g = &self->graph;
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->operand_count; i++)
        if (!g->operands[i].constant)
            spans[count++] = hal_whole(g->operands[i].buffer);
    const bool to_output = (self->layers - layer) % 2 == 1;
    if (g->chains && layer > 0)
        spans[0] = hal_whole(to_output ? self->other : self->outputs[0]);
    for (uint32_t i = 0; i < g->outputs; i++)
        spans[count++] = hal_whole(g->chains && !to_output ? self->other : self->outputs[i]);
    return count;
}

/* All layers once: the host's time until they are told, and until they are done. */
static bool run_layers(graph_run *self, variant *v, bool on_device, double *submit, double *wait)
{
    hal_span spans[MAX_LAYERS][BENCH_GRAPH_OPERANDS];
    hal_bindings bindings[MAX_LAYERS];
    for (uint32_t i = 0; i < self->layers; i++)
        bindings[i] =
            (hal_bindings){.struct_size = sizeof bindings[i], .spans = spans[i], .span_count = bind(self, i, spans[i])};
    const double begin = bench_seconds();
    if (on_device && !did(self, hal_event_record(self->start, self->stream), "timing"))
        return false;
    for (uint32_t i = 0; i < self->layers; i++)
        if (!did(self, hal_plan_run(v->plan, self->stream, self->graph.shape.rows, &bindings[i]), v->mode))
            return false;
    if ((on_device && !did(self, hal_event_record(self->end, self->stream), "timing")) ||
        !did(self, hal_stream_flush(self->stream), "flushing"))
        return false;
    const double told = bench_seconds();
    if (!did(self, hal_stream_wait(self->stream, HAL_SECONDS(120)), "waiting for the result"))
        return false;
    *submit = told - begin;
    *wait = bench_seconds() - told;
    return true;
}

static bool read_results(graph_run *self, variant *v)
{
    hal_cmdlist *now = hal_stream_cmdlist(self->stream);
    bool good = true;
    for (uint32_t i = 0; good && i < self->graph.outputs; i++) {
        v->results[i] = malloc(self->graph.output_bytes[i]);
        if (!v->results[i])
            snprintf(self->error, sizeof self->error, "out of memory");
        good = v->results[i] &&
               did(self, hal_cmd_download(now, v->results[i], hal_whole(self->outputs[i])), "reading the result");
    }
    return did(self, hal_stream_wait(self->stream, HAL_SECONDS(60)), "reading the result") && good;
}

static bool get_stats(graph_run *self, variant *v)
{
    v->stats = (hal_plan_stats){.struct_size = sizeof v->stats};
    return did(self, hal_plan_get_stats(v->plan, self->graph.shape.rows, &v->stats), "statistics");
}

/* Compile, run once from poisoned outputs, and keep what came out and what it took. */
static bool prepare(graph_run *self, variant *v)
{
    const hal_plan_desc *desc =
        HAL_PLAN(.label = v->mode, .fusion = v->fused ? HAL_FUSE_MODEL : HAL_FUSE_NONE, .replay = v->replay,
                 .streams = v->streams, .measure_rows = self->graph.shape.rows);
    const uint8_t poison = 0xFF;
    double submit, wait;
    if (!did(self, hal_plan_create(self->opened, self->graph.graph, desc, &v->plan), v->mode) ||
        !did(self, hal_plan_prepare(v->plan, self->graph.shape.rows), v->mode))
        return false;
    for (uint32_t i = 0; i < self->graph.outputs; i++)
        if (!did(self, hal_cmd_fill(hal_stream_cmdlist(self->stream), hal_whole(self->outputs[i]), &poison, 1),
                 "poison"))
            return false;
    if (!get_stats(self, v))
        return false;
    const uint64_t submits = v->stats.submits, kernels = v->stats.kernels;
    if (!run_layers(self, v, false, &submit, &wait) || !read_results(self, v) || !get_stats(self, v))
        return false;
    v->submits = v->stats.submits - submits;
    v->kernels = v->stats.kernels - kernels;
    return true;
}

/* Every way must give the bits of the first: no fusion of these graphs moves a sum. */
static bool same_bits(graph_run *self, const variant *v)
{
    for (uint32_t i = 0; i < self->graph.outputs; i++)
        if (memcmp(v->results[i], self->variants[0].results[i], self->graph.output_bytes[i]) != 0) {
            snprintf(self->error, sizeof self->error, "wrong result: %s%s differs from one kernel an operator", v->mode,
                     v->fused ? ", fused" : "");
            return false;
        }
    return true;
}

/* Round by round, every way once, in alternating order. On CPU devices the device's clock adds work to the stream, so
 * it gets a run of its own. */
static bool measure(graph_run *self)
{
    const double budget = self->run->options->command == BENCH_SUITE ? 0.5 : 3, deadline = bench_seconds() + budget;
    double ignored;
    while (self->rounds < self->run->options->rounds && (self->rounds < 3 || bench_seconds() < deadline) &&
           !bench_interrupted()) {
        for (uint32_t i = 0; i < self->variant_count; i++) {
            variant *v = &self->variants[self->rounds % 2 ? self->variant_count - 1 - i : i];
            if (!run_layers(self, v, false, &v->submit[self->rounds], &v->wait[self->rounds]))
                return false;
        }
        self->rounds++;
    }
    for (uint32_t i = 0; self->start && i < self->variant_count; i++) {
        uint64_t elapsed;
        if (!run_layers(self, &self->variants[i], true, &ignored, &ignored) ||
            !did(self, hal_event_elapsed(self->start, self->end, &elapsed), "timing"))
            return false;
        self->variants[i].device = (double)elapsed;
    }
    return true;
}

/* A small one of the kind against the host's own computation in double. Sums of k products of about one, stored in
 * dtype three times on the way at most: the bound is loose, a wrong operator is far outside of it. */
static bool check_small(graph_run *self, bench_graph_kind kind, const bench_graph_shape *shape)
{
    enum { ROWS = 5, HIDDEN = 64 };
    const bench_graph_shape small = {.rows = ROWS,
                                     .hidden = HIDDEN,
                                     .intermediate = 96,
                                     .heads = 4,
                                     .kv_heads = 2,
                                     .head_dim = 32,
                                     .dtype = shape->dtype};
    graph_run check = {.run = self->run, .device = self->device, .layers = 1};
    variant *v = &check.variants[0];
    double want[HIDDEN], submit, wait;
    const double unit = shape->dtype == HAL_BF16 ? 0x1p-8 : shape->dtype == HAL_F16 ? 0x1p-11 : 0x1p-20;
    add_variant(&check, "check", false, false, 1);
    bool good = open_run(&check, kind, &small) && prepare(&check, v) && run_layers(&check, v, false, &submit, &wait);
    for (uint64_t row = 0; good && row < ROWS && kind >= BENCH_GRAPH_PROJECTION; row++) {
        good = bench_graph_expect(&check.graph, row, want);
        for (uint64_t i = 0; good && i < HIDDEN; i++) {
            const double got = bench_element(v->results[0], shape->dtype, row * HIDDEN + i);
            good = fabs(got - want[i]) <= 16 * unit * (1 + fabs(want[i]));
            if (!good)
                snprintf(check.error, sizeof check.error, "wrong result: row %u, column %u is %.6g, not %.6g",
                         (unsigned)row, (unsigned)i, got, want[i]);
        }
    }
    memcpy(self->error, check.error, sizeof self->error);
    close_run(&check);
    return good;
}

static void fill_row(const graph_run *self, const variant *v, bench_row *row)
{
    row->rounds = self->rounds;
    row->dtype = self->graph.shape.dtype;
    row->mode = v->mode;
    row->fused = v->fused;
    row->submits = v->submits;
    row->kernels = v->kernels;
    row->bytes = v->stats.bytes * self->layers;
    row->peak_bytes = v->stats.peak_bytes;
    row->libhal_ns = bench_median(v->submit, self->rounds) * 1e9;
    row->wait_ns = bench_median(v->wait, self->rounds) * 1e9;
    row->device_ns = v->device;
    row->predicted_ns = v->stats.predicted_us * 1e3 * self->layers;
}

static void shape_text(const graph_run *self, char text[64])
{
    const bench_graph_shape *s = &self->graph.shape;
    const uint64_t columns = self->graph.kind == BENCH_GRAPH_ACTIVATION ? s->intermediate : s->hidden;
    const int used = snprintf(text, 64, "%llux%llu", (unsigned long long)s->rows, (unsigned long long)columns);
    if (self->layers > 1)
        snprintf(text + used, 64 - (size_t)used, " x%u", self->layers);
}

static void measure_graph(bench_run *run, const bench_device *device, bench_graph_kind kind,
                          const bench_graph_shape *shape, uint32_t layers)
{
    graph_run self = {.run = run, .device = device, .layers = layers};
    bench_progress(run, "%s: graph %s", device->select, bench_graph_name(kind));
    if (bench_interrupted())
        return;
    bool good = check_small(&self, kind, shape) && open_run(&self, kind, shape);
    self.graph.kind = kind;
    if (good)
        choose_variants(&self);
    for (uint32_t i = 0; good && i < self.variant_count; i++)
        good = prepare(&self, &self.variants[i]) && same_bits(&self, &self.variants[i]);
    good = good && measure(&self);
    if (!good || self.rounds == 0) {
        bench_row *row = bench_row_add(run, BENCH_ROW_GRAPH, device, bench_graph_name(kind));
        row->mode = "";
        if (!good)
            bench_row_fail(run, row, "%s", self.error);
        else
            run->row_count--; /* interrupted before there was a figure */
    }
    for (uint32_t i = 0; good && self.rounds > 0 && i < self.variant_count; i++) {
        bench_row *row = bench_row_add(run, BENCH_ROW_GRAPH, device, bench_graph_name(kind));
        shape_text(&self, row->shape);
        fill_row(&self, &self.variants[i], row);
    }
    close_run(&self);
}

/* On CPU devices small enough that submissions show; on GPUs Qwen3-8B's (its config.json). */
static bench_graph_shape shape_of(const bench_run *run, const bench_device *device)
{
    const bench_options *o = run->options;
    const bool cpu = device->info.type == HAL_DEVICE_CPU;
    bench_graph_shape s = {.rows = o->rows ? o->rows
                                   : cpu   ? 16
                                           : 128,
                           .hidden = cpu ? 256 : 4096,
                           .intermediate = cpu ? 768 : 12288,
                           .heads = cpu ? 4 : 32,
                           .kv_heads = cpu ? 2 : 8,
                           .head_dim = cpu ? 64 : 128,
                           .dtype = o->has_dtype ? o->dtype
                                    : cpu        ? HAL_F32
                                                 : HAL_BF16};
    if (o->hidden) {
        s.hidden = o->hidden;
        s.intermediate = 3 * o->hidden;
        s.head_dim = 64;
        s.heads = (uint32_t)(o->hidden / 64);
        s.kv_heads = s.heads % 2 ? s.heads : s.heads / 2;
    }
    return s;
}

static uint32_t layers_of(const bench_options *options)
{
    return options->layers ? options->layers : 3;
}

void bench_fusion(bench_run *run, const bench_device *device)
{
    const bench_graph_shape shape = shape_of(run, device);
    for (bench_graph_kind kind = BENCH_GRAPH_ACTIVATION; kind <= BENCH_GRAPH_PROJECTION; kind++)
        measure_graph(run, device, kind, &shape, 1);
}

void bench_ffn(bench_run *run, const bench_device *device)
{
    const bench_graph_shape shape = shape_of(run, device);
    measure_graph(run, device, BENCH_GRAPH_FFN, &shape, layers_of(run->options));
}

void bench_layer(bench_run *run, const bench_device *device)
{
    const bench_graph_shape shape = shape_of(run, device);
    measure_graph(run, device, BENCH_GRAPH_LAYER, &shape, layers_of(run->options));
}

uint32_t bench_fusion_steps(const bench_options *options)
{
    (void)options;
    return BENCH_GRAPH_PROJECTION - BENCH_GRAPH_ACTIVATION + 1;
}

uint32_t bench_ffn_steps(const bench_options *options)
{
    (void)options;
    return 1;
}

uint32_t bench_layer_steps(const bench_options *options)
{
    (void)options;
    return 1;
}
