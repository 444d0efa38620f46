/* tune.c - hal_tune: candidates, pruned by the cost model, checked, and timed in turns with the best so far. */
#include "tune.h"

#include "core.h"
#include "internal.h"
#include <math.h>

static const char op[] = "hal_tune";
static const double default_seconds = 2, least_turn = 0.002; /* of timing; of a candidate's turn */
static const double prune_above = 3; /* times the best prediction: predictions are floors, not times */
enum { MOST_ROUNDS = 21, LEAST_ROUNDS = 5, MOST_REPEATS = 64 };
static const double hopeless = 4; /* times the incumbent: one round says enough */
enum { CHUNK = 1 << 20, MOST_WAIT = 60 /* seconds */ };

typedef struct tuner {
    hal_device *device;
    hal_stream *stream;
    hal_tune_desc desc;
    hal_tune_subject subject; /* on operands of the tuner's own */
    hal_tune_run_fn run;
    void *run_user;
    hal_buffer *buffers[HAL_TUNE_OPERANDS + 1]; /* and a workspace */
    bool out[GEMM_MOST_CHOICES];                /* pruned or wrong */
    uint8_t *want, *got;                        /* bytes of the result */
    hal_tune_result result;
} tuner;

static void describe(hal_tuned_op of, const gemm_choice *c, char text[64])
{
    if (of == HAL_TUNED_ATTENTION) {
        snprintf(text, 64, "%s %u rows, %u split%s", c->kernel, c->tile_m, c->tile_n, c->tile_n == 1 ? "" : "s");
    } else {
        snprintf(text, 64, "%s %ux%ux%u", c->kernel, c->tile_m, c->tile_n, c->tile_k);
    }
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
    hal_tune_subject *s = &t->subject;
    const uint32_t result = s->operands - 1;
    hal_span spans[HAL_TUNE_OPERANDS] = {{0}};
    hal_status status = hal_stream_create(t->device, HAL_STREAM(.label = op), &t->stream);
    for (uint32_t i = 0; status == HAL_OK && i < s->operands; i++) {
        status = hal_buffer_create(t->device, HAL_BUFFER(.size = s->sizes[i], .label = op), &t->buffers[i]);
        status = status == HAL_OK ? fill(t, t->buffers[i], s->sizes[i], s->dtypes[i], i + 1) : status;
        spans[i] = hal_whole(t->buffers[i]);
    }
    status = status == HAL_OK ? hal_tune_subject_bind(t->device, s, spans) : status;
    t->result.candidates = s->count;
    if (status == HAL_OK && s->workspace) {
        hal_buffer **workspace = &t->buffers[HAL_TUNE_OPERANDS];
        status = hal_buffer_create(t->device, HAL_BUFFER(.size = s->workspace, .label = op), workspace);
        s->attention.workspace = hal_whole(*workspace);
    }
    t->want = status == HAL_OK ? malloc(s->sizes[result]) : NULL;
    t->got = status == HAL_OK ? malloc(s->sizes[result]) : NULL;
    if (status == HAL_OK && (!t->want || !t->got)) {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory", op);
    }
    return status;
}

/* A download may still be on its way to where the host's bytes are: then these are rather lost. */
static void close_operands(tuner *t)
{
    const bool idle = !t->stream || hal_stream_wait(t->stream, HAL_SECONDS(MOST_WAIT)) == HAL_OK;
    for (uint32_t i = 0; i <= HAL_TUNE_OPERANDS; i++) {
        hal_buffer_destroy(t->buffers[i]);
    }
    hal_stream_destroy(t->stream);
    if (idle) {
        free(t->want);
        free(t->got);
    }
}

static hal_status prune(tuner *t)
{
    hal_model_machine machine;
    double predicted[GEMM_MOST_CHOICES], best = INFINITY;
    hal_status status = hal_model_machine_find(&t->device->info, &machine);
    for (uint32_t i = 0; status == HAL_OK && i < t->subject.count; i++) {
        predicted[i] = hal_tune_subject_predict(&t->device->info, &machine, &t->subject, &t->subject.choices[i]);
        best = fmin(best, predicted[i]);
    }
    for (uint32_t i = 1; status == HAL_OK && i < t->subject.count; i++) { /* the rules' stays */
        t->out[i] = predicted[i] > prune_above * best;
        t->result.pruned += t->out[i];
    }
    return status;
}

static hal_status told(tuner *t, hal_tune_stage stage, uint32_t index)
{
    return !t->desc.progress || t->desc.progress(t->desc.user, stage, index, t->subject.count)
               ? HAL_OK
               : (hal_set_error("%s: stopped as asked", op), HAL_TIMEOUT);
}

/* Whether a result is the rules', as far as another order of sums may give it. */
static bool agrees(const tuner *t)
{
    enum { PART = 256 };
    const hal_tune_subject *s = &t->subject;
    const hal_dtype dtype = s->dtypes[s->operands - 1];
    const uint64_t width = hal_dtype_size(dtype), bytes = s->sizes[s->operands - 1], count = bytes / width;
    float want[PART], got[PART], greatest = 0, apart = 0;
    for (uint64_t at = 0; s->error > 0 && at < count; at += PART) {
        const uint64_t part = count - at < PART ? count - at : PART;
        if (hal_numeric_decode(dtype, t->want + at * width, part, want) != HAL_OK ||
            hal_numeric_decode(dtype, t->got + at * width, part, got) != HAL_OK) {
            return false;
        }
        for (uint64_t i = 0; i < part; i++) {
            const float difference = fabsf(got[i] - want[i]);
            greatest = fmaxf(greatest, fabsf(want[i]));
            apart = difference <= apart ? apart : difference; /* NaN stays */
        }
    }
    return s->error > 0 ? apart <= s->error * greatest : memcmp(t->got, t->want, bytes) == 0;
}

/* The first result is the rules'; whoever gives another is out. So is who fails. */
static hal_status check(tuner *t)
{
    const uint8_t poison = 0xFF;
    const hal_span result = hal_whole(t->buffers[t->subject.operands - 1]);
    hal_cmdlist *now = hal_stream_cmdlist(t->stream);
    hal_status status = HAL_OK;
    for (uint32_t i = 0; status == HAL_OK && i < t->subject.count; i++) {
        if (t->out[i]) {
            continue;
        }
        status = told(t, HAL_TUNE_CHECK, i);
        status = status == HAL_OK ? hal_cmd_fill(now, result, &poison, 1) : status;
        if (status != HAL_OK) {
            break;
        }
        const hal_status ran = t->run(t->run_user, now, &t->subject, &t->subject.choices[i]);
        if (ran != HAL_OK && i == 0) {
            return ran;
        }
        status = hal_cmd_download(now, i ? t->got : t->want, result);
        status = status == HAL_OK ? finish(t) : status;
        if (status != HAL_OK) {
            break;
        }
        t->out[i] = ran != HAL_OK || (i && !agrees(t));
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
        status = t->run(t->run_user, now, &t->subject, &t->subject.choices[index]);
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
    for (uint32_t i = 0; i < t->subject.count; i++) {
        left += !t->out[i];
    }
    const double share = (t->desc.seconds > 0 ? t->desc.seconds : default_seconds) / left;
    hal_status status = HAL_OK;
    for (uint32_t i = 1; status == HAL_OK && i < t->subject.count; i++) {
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
        describe(t->subject.shape.op, &t->subject.choices[best], t->result.choice);
        describe(t->subject.shape.op, &t->subject.choices[0], t->result.rule);
        t->subject.choices[0] = t->subject.choices[best];
    }
    return status;
}

static hal_status note(tuner *t)
{
    const hal_tuned_shape *s = &t->subject.shape;
    hal_tuning tuning = {.op = s->op,
                         .dtype = s->dtype,
                         .trans_a = s->trans_a,
                         .trans_b = s->trans_b,
                         .m = s->m,
                         .n = s->n,
                         .k = s->k,
                         .batch = s->batch,
                         .choice = t->subject.choices[0],
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
    status = status == HAL_OK ? hal_tune_subject_open(&t.desc, &t.subject) : status;
    status = status == HAL_OK ? open_operands(&t) : status;
    status = status == HAL_OK ? prune(&t) : status;
    status = status == HAL_OK ? check(&t) : status;
    status = status == HAL_OK ? choose(&t) : status;
    status = status == HAL_OK ? note(&t) : status;
    close_operands(&t);
    if (status == HAL_OK) {
        hal_desc_write(&t.result, sizeof t.result, result);
    }
    return status;
}

static hal_status run_chosen(void *user, hal_cmdlist *list, const hal_tune_subject *subject, const gemm_choice *choice)
{
    (void)user;
    return hal_tune_subject_run(list, subject, choice);
}

hal_status hal_tune(hal_device *device, const hal_tune_desc *desc, hal_tune_result *result)
{
    return hal_tune_with(device, desc, run_chosen, NULL, result);
}

hal_status hal_tune_known(hal_device *device, const hal_tune_desc *given, bool *known, hal_tune_result *result)
{
    static const char call[] = "hal_tune_known";
    hal_tune_desc desc;
    hal_tune_subject subject;
    hal_tuning tuning;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_tune_known: device");
    if (status == HAL_OK && (!known || (result && result->struct_size < sizeof(size_t)))) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: known is NULL, or struct_size is not set", call);
    }
    status = status == HAL_OK ? hal_operator_desc(call, given, &desc, sizeof desc, "hal_tune_desc") : status;
    status = status == HAL_OK ? hal_tune_subject_open(&desc, &subject) : status;
    if (status != HAL_OK && status != HAL_ERROR_UNSUPPORTED) {
        return status;
    }
    *known = status == HAL_OK && hal_tuning_exact(device, &subject.shape, &tuning);
    if (*known && result) {
        hal_tune_result found = {.us = tuning.us, .rule_us = tuning.rule_us, .changed = tuning.us < tuning.rule_us};
        describe(tuning.op, &tuning.choice, found.choice);
        hal_desc_write(&found, sizeof found, result);
    }
    return HAL_OK;
}
