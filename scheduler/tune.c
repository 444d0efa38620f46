/* tune.c - hal_tune: candidates, pruned by the cost model, checked, and timed in turns with the best so far. */
#include "tune.h"

#include "core.h"
#include "internal.h"
#include <hal/model.h>

#include <math.h>

static const char op[] = "hal_tune";
static const double default_seconds = 2, least_turn = 0.002; /* of timing; of a candidate's turn */
static const double prune_above = 3; /* times the best prediction: predictions are floors, not times */
enum { MOST_ROUNDS = 21, LEAST_ROUNDS = 5, MOST_REPEATS = 64 };
static const double hopeless = 4; /* times the incumbent: one round says enough */
enum { OPERANDS = 3, CHUNK = 1 << 20, MOST_WAIT = 60 /* seconds */ };

typedef struct tuner {
    hal_device *device;
    hal_stream *stream;
    hal_tune_desc desc;
    hal_gemm_desc gemm; /* of the tuner's own operands */
    hal_tune_run_fn run;
    void *run_user;
    hal_buffer *buffers[OPERANDS]; /* a, b, d */
    uint64_t sizes[OPERANDS];
    gemm_choice choices[GEMM_MOST_CHOICES];
    bool out[GEMM_MOST_CHOICES]; /* pruned or wrong */
    uint32_t count;
    uint8_t *want, *got; /* bytes of d */
    hal_tune_result result;
} tuner;

static void describe(const gemm_choice *c, char text[64])
{
    snprintf(text, 64, "%s %ux%ux%u", c->kernel, c->tile_m, c->tile_n, c->tile_k);
}

/* HAL_TIMEOUT is for who asks to stop. */
static hal_status finish(tuner *t)
{
    hal_status status = hal_stream_wait(t->stream, HAL_SECONDS(MOST_WAIT));
    return status == HAL_TIMEOUT
               ? hal_fail(HAL_ERROR_LIMIT, "%s: a candidate runs for more than %d s; tune a smaller shape", op,
                          MOST_WAIT)
               : status;
}

/* Small whole numbers, whose sums are exact in any order: results can be compared bit for bit. */
static hal_status fill(tuner *t, hal_buffer *buffer, uint64_t size, hal_dtype dtype, uint32_t seed)
{
    const uint32_t width = hal_dtype_size(dtype);
    const uint64_t chunk = size < CHUNK ? size : CHUNK;
    float *values = malloc(chunk / width * sizeof *values);
    uint8_t *bytes = malloc(chunk);
    hal_status status = values && bytes ? HAL_OK : hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory", op);
    for (uint64_t i = 0; status == HAL_OK && i < chunk / width; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)((int)(seed >> 24) % 5 - 2);
    }
    status = status == HAL_OK ? hal_numeric_encode(dtype, values, chunk / width, bytes) : status;
    for (uint64_t at = 0; status == HAL_OK && at < size; at += chunk) {
        const uint64_t part = size - at < chunk ? size - at : chunk;
        status = hal_cmd_upload(hal_stream_cmdlist(t->stream), hal_range(buffer, at, part), bytes, part);
    }
    free(values);
    free(bytes);
    return status;
}

static hal_status open_operands(tuner *t)
{
    const hal_gemm_desc *g = &t->gemm;
    const uint64_t batch = g->batch ? g->batch : 1;
    const uint64_t matrices[OPERANDS] = {g->m * g->k, g->k * g->n, g->m * g->n};
    hal_status status = hal_stream_create(t->device, HAL_STREAM(.label = op), &t->stream);
    for (uint32_t i = 0; status == HAL_OK && i < OPERANDS; i++) {
        const hal_dtype dtype = i == 2 ? g->dtype_d : g->dtype;
        t->sizes[i] = matrices[i] * batch * hal_dtype_size(dtype);
        status = hal_buffer_create(t->device, HAL_BUFFER(.size = t->sizes[i], .label = op), &t->buffers[i]);
        status = status == HAL_OK ? fill(t, t->buffers[i], t->sizes[i], dtype, i + 1) : status;
    }
    t->want = status == HAL_OK ? malloc(t->sizes[2]) : NULL;
    t->got = status == HAL_OK ? malloc(t->sizes[2]) : NULL;
    if (status == HAL_OK && (!t->want || !t->got)) {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory", op);
    }
    t->gemm.a = t->buffers[0] ? hal_whole(t->buffers[0]) : t->gemm.a;
    t->gemm.b = t->buffers[1] ? hal_whole(t->buffers[1]) : t->gemm.b;
    t->gemm.d = t->buffers[2] ? hal_whole(t->buffers[2]) : t->gemm.d;
    return status;
}

static void close_operands(tuner *t)
{
    for (uint32_t i = 0; i < OPERANDS; i++) {
        hal_buffer_destroy(t->buffers[i]);
    }
    hal_stream_destroy(t->stream);
    free(t->want);
    free(t->got);
}

/* The plain product that is meant, and its candidates. */
static hal_status open_problem(tuner *t, const hal_gemm_desc *given)
{
    gemm_problem p;
    bool empty;
    hal_status status = hal_gemm_resolve(given, false, &p, &empty);
    if (status != HAL_OK) {
        return status;
    }
    if (empty || p.k == 0 || hal_gemm_has_options(&p)) {
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        "%s: nothing to choose: the product is empty, or has options that one kernel alone can do", op);
    }
    t->gemm = (hal_gemm_desc){.struct_size = sizeof t->gemm,
                              .m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .batch = p.batch,
                              .stride_a = (uint64_t)p.m * p.k,
                              .stride_b = (uint64_t)p.k * p.n,
                              .dtype = p.operands[GEMM_A].dtype,
                              .dtype_d = p.operands[GEMM_D].dtype,
                              .trans_a = p.trans_a,
                              .trans_b = p.trans_b};
    status = hal_gemm_resolve(&t->gemm, false, &p, &empty); /* its sizes have no more than 64 bits */
    status = status == HAL_OK ? open_operands(t) : status;
    if (status == HAL_OK && (status = hal_gemm_resolve(&t->gemm, true, &p, &empty)) == HAL_OK) {
        t->count = hal_gemm_choices(&t->device->info, &p, t->choices);
        t->result.candidates = t->count;
    }
    return status;
}

/* How many times slower a kernel is than the model's machine: a CPU device that runs kernels made for GPUs. */
static double slowness(hal_device_type type, const gemm_choice *c)
{
    const gemm_kernel kernel = strncmp(c->kernel, "gemm_task", 9) == 0 ? GEMM_KERNEL_TASK : 0;
    return type == HAL_DEVICE_CPU ? hal_gemm_slowest(type, GEMM_KERNEL_TASK) / hal_gemm_slowest(type, kernel) : 1;
}

/* A floor: the FLOPs with the last wave of tiles as it is, or the bytes that such tiles read. */
static double predict(const tuner *t, const hal_model_machine *machine, const gemm_choice *c)
{
    const hal_gemm_desc *g = &t->gemm;
    const hal_model_gemm gemm = {.m = g->m,
                                 .k = g->k,
                                 .n = g->n,
                                 .tile_m = c->tile_m,
                                 .tile_k = c->tile_k ? c->tile_k : 16,
                                 .tile_n = c->tile_n,
                                 .a_size = hal_dtype_size(g->dtype),
                                 .b_size = hal_dtype_size(g->dtype),
                                 .d_size = hal_dtype_size(g->dtype_d)};
    hal_model_gemm_cost cost;
    if (hal_model_gemm_costs(&gemm, &cost) != HAL_OK || !cost.tiles) {
        return 0;
    }
    const double tiles = (double)cost.tiles * (double)g->batch, units = t->device->info.compute_units;
    const double waves = ceil(tiles / units) * units / tiles;
    const double padded = (double)cost.tiles * c->tile_m * c->tile_n / ((double)g->m * (double)g->n);
    return slowness(t->device->info.type, c) *
           hal_model_floor_us(machine, g->dtype, (double)cost.flops * (double)g->batch * waves * padded,
                              (double)cost.traffic * (double)g->batch);
}

static hal_status prune(tuner *t)
{
    hal_model_machine machine;
    double predicted[GEMM_MOST_CHOICES], best = INFINITY;
    hal_status status = hal_model_machine_find(&t->device->info, &machine);
    for (uint32_t i = 0; status == HAL_OK && i < t->count; i++) {
        predicted[i] = predict(t, &machine, &t->choices[i]);
        best = fmin(best, predicted[i]);
    }
    for (uint32_t i = 1; status == HAL_OK && i < t->count; i++) { /* the rules' stays */
        t->out[i] = predicted[i] > prune_above * best;
        t->result.pruned += t->out[i];
    }
    return status;
}

static hal_status told(tuner *t, hal_tune_stage stage, uint32_t index)
{
    return !t->desc.progress || t->desc.progress(t->desc.user, stage, index, t->count)
               ? HAL_OK
               : (hal_set_error("%s: stopped as asked", op), HAL_TIMEOUT);
}

/* The first result is the rules'; whoever gives another is out. So is who fails. */
static hal_status check(tuner *t)
{
    const uint8_t poison = 0xFF;
    hal_cmdlist *now = hal_stream_cmdlist(t->stream);
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < t->count; i++) {
        if (t->out[i]) {
            continue;
        }
        status = told(t, HAL_TUNE_CHECK, i);
        status = status == HAL_OK ? hal_cmd_fill(now, hal_whole(t->buffers[2]), &poison, 1) : status;
        if (status != HAL_OK) {
            break;
        }
        const hal_status ran = t->run(t->run_user, now, &t->gemm, &t->choices[i]);
        if (ran != HAL_OK && i == 0) {
            return ran;
        }
        status = hal_cmd_download(now, i ? t->got : t->want, hal_whole(t->buffers[2]));
        status = status == HAL_OK ? finish(t) : status;
        if (status != HAL_OK) {
            break;
        }
        t->out[i] = ran != HAL_OK || (i && memcmp(t->got, t->want, t->sizes[2]) != 0);
        t->result.wrong += t->out[i];
    }
    return status;
}

static hal_status time_choice(tuner *t, uint32_t index, uint32_t repeats, double *us)
{
    hal_cmdlist *now = hal_stream_cmdlist(t->stream);
    const uint64_t start = hal_now();
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < repeats; i++) {
        status = t->run(t->run_user, now, &t->gemm, &t->choices[index]);
    }
    status = status == HAL_OK ? finish(t) : status;
    *us = (double)(hal_now() - start) / 1e3 / repeats;
    return status;
}

static int compare(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Sorts a copy. */
static double quantile(const double *samples, uint32_t count, double fraction)
{
    double sorted[MOST_ROUNDS];
    memcpy(sorted, samples, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    return sorted[(uint32_t)(fraction * (count - 1) + 0.5)];
}

typedef struct duel {
    double us[2], ratio_low, ratio_high; /* medians; quartiles of challenger / incumbent */
    uint32_t rounds;
} duel;

/* In turns, the order reversed in every other round; given up once the challenger is surely slower. */
static hal_status fight(tuner *t, uint32_t incumbent, uint32_t challenger, double seconds, duel *d)
{
    double times[2][MOST_ROUNDS], ratios[MOST_ROUNDS], warm = 1;
    const uint32_t sides[2] = {incumbent, challenger};
    hal_status status = time_choice(t, challenger, 1, &warm);
    const uint32_t repeats = (uint32_t)fmin(fmax(ceil(least_turn * 1e6 / warm), 1), MOST_REPEATS);
    const uint64_t deadline = hal_now() + (uint64_t)(seconds * 1e9);
    memset(d, 0, sizeof *d);
    while (status == HAL_OK && d->rounds < MOST_ROUNDS && (d->rounds < LEAST_ROUNDS || hal_now() < deadline)) {
        const uint32_t round = d->rounds;
        status = told(t, HAL_TUNE_TIME, challenger);
        for (uint32_t turn = 0; status == HAL_OK && turn < 2; turn++) {
            const uint32_t side = (turn + round) % 2;
            status = time_choice(t, sides[side], repeats, &times[side][round]);
        }
        if (status != HAL_OK) {
            break;
        }
        ratios[round] = times[1][round] / times[0][round];
        d->rounds++;
        d->ratio_low = quantile(ratios, d->rounds, 0.25);
        d->ratio_high = quantile(ratios, d->rounds, 0.75);
        if (d->ratio_low > (d->rounds < LEAST_ROUNDS ? hopeless : 1.05)) {
            break;
        }
    }
    for (int side = 0; status == HAL_OK && side < 2; side++) {
        d->us[side] = quantile(times[side], d->rounds, 0.5);
    }
    return status;
}

/* Each against the best so far; the last fight, best against the rules', gives the figures. */
static hal_status choose(tuner *t)
{
    uint32_t best = 0, left = 0;
    duel d;
    for (uint32_t i = 0; i < t->count; i++) {
        left += !t->out[i];
    }
    const double share = (t->desc.seconds > 0 ? t->desc.seconds : default_seconds) / left;
    hal_status status = HAL_OK;
    for (uint32_t i = 1; status == HAL_OK && i < t->count; i++) {
        if (t->out[i]) {
            continue;
        }
        status = fight(t, best, i, share, &d);
        if (status == HAL_OK) {
            t->result.dropped += d.rounds < MOST_ROUNDS && d.ratio_low > 1.05;
            best = d.ratio_high < 1 ? i : best;
        }
    }
    status = status == HAL_OK ? fight(t, 0, best, share, &d) : status;
    if (status == HAL_OK) {
        t->result.changed = best != 0 && d.ratio_high < 1;
        best = t->result.changed ? best : 0;
        t->result.rule_us = d.us[0];
        t->result.us = t->result.changed ? d.us[1] : d.us[0];
        t->result.rounds = d.rounds;
        describe(&t->choices[best], t->result.choice);
        describe(&t->choices[0], t->result.rule);
        t->choices[0] = t->choices[best];
    }
    return status;
}

static hal_status note(tuner *t)
{
    const hal_gemm_desc *g = &t->gemm;
    hal_tuning tuning = {.dtype = g->dtype,
                         .trans_a = g->trans_a,
                         .trans_b = g->trans_b,
                         .m = g->m,
                         .n = g->n,
                         .k = g->k,
                         .batch = g->batch,
                         .choice = t->choices[0],
                         .us = t->result.us,
                         .rule_us = t->result.rule_us};
    snprintf(tuning.device, sizeof tuning.device, "%s", t->device->info.name);
    snprintf(tuning.driver, sizeof tuning.driver, "%s", t->device->info.driver);
    return hal_tuning_note(t->device, &tuning);
}

hal_status hal_tune_with(hal_device *device, const hal_tune_desc *given, hal_tune_run_fn run, void *user,
                         hal_tune_result *result)
{
    tuner t = {.device = device, .run = run, .run_user = user};
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_tune: device");
    status = status == HAL_OK ? hal_operator_desc(op, given, &t.desc, sizeof t.desc, "hal_tune_desc") : status;
    if (status == HAL_OK && (!result || result->struct_size < sizeof(size_t))) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: result is NULL, or its struct_size is not set", op);
    }
    status = status == HAL_OK ? open_problem(&t, t.desc.gemm) : status;
    status = status == HAL_OK ? prune(&t) : status;
    status = status == HAL_OK ? check(&t) : status;
    status = status == HAL_OK ? choose(&t) : status;
    status = status == HAL_OK ? note(&t) : status;
    if (t.stream && hal_stream_wait(t.stream, HAL_SECONDS(MOST_WAIT)) != HAL_OK) {
        t.want = t.got = NULL; /* a download may still be on its way there: rather lose the bytes */
    }
    close_operands(&t);
    if (status == HAL_OK) {
        hal_desc_write(&t.result, sizeof t.result, result);
    }
    return status;
}

static hal_status run_gemm(void *user, hal_cmdlist *list, const hal_gemm_desc *gemm, const gemm_choice *choice)
{
    (void)user;
    return hal_gemm_chosen(list, gemm, choice);
}

hal_status hal_tune(hal_device *device, const hal_tune_desc *desc, hal_tune_result *result)
{
    return hal_tune_with(device, desc, run_gemm, NULL, result);
}

hal_status hal_tune_known(hal_device *device, const hal_gemm_desc *gemm, bool *known, hal_tune_result *result)
{
    gemm_problem p;
    hal_tuning tuning;
    bool empty;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_tune_known: device");
    if (status == HAL_OK && (!known || (result && result->struct_size < sizeof(size_t)))) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_tune_known: known is NULL, or struct_size is not set");
    }
    status = status == HAL_OK ? hal_gemm_resolve(gemm, false, &p, &empty) : status;
    if (status != HAL_OK) {
        return status;
    }
    *known = !empty && hal_tuning_exact(device, &p, &tuning);
    if (*known && result) {
        hal_tune_result found = {.us = tuning.us, .rule_us = tuning.rule_us, .changed = tuning.us < tuning.rule_us};
        describe(&tuning.choice, found.choice);
        hal_desc_write(&found, sizeof found, result);
    }
    return HAL_OK;
}
