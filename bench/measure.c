/* measure.c - a job is checked, then timed: it, its limit and its peers in turn, round by round, so that whatever the
 * machine does in the meantime meets all of them alike; ratios are taken within a round. */
#include "job.h"
#include "stats.h"

#include <math.h>
#include <string.h>

enum { MAX_ROUNDS = 63, LEAST_ROUNDS = 5, LEAST_IN_SUITE = 3, MAX_REPEATS = 64 };

/* Short calls are repeated until they take this long; and the limit until it takes as long as the calls, within this,
 * so that both are as likely to be interrupted by others on the machine. */
static const double round_seconds = 0.002, most_floor_seconds = 0.05;

typedef struct measurement {
    bench_run *run;
    const bench_device *device;
    bench_job *job;
    bench_stage stage;
    bench_host_limit *host_limit; /* on CPU devices */
    double published;             /* GFLOP/s, of GPUs */
    double call_seconds;          /* of a call, once it is warm */
    uint32_t repeats, floor_repeats, rounds;
    double submit[MAX_ROUNDS], wait[MAX_ROUNDS], on_device[MAX_ROUNDS], seconds[MAX_ROUNDS];
    double floor_rate[MAX_ROUNDS], peer_rate[BENCH_MAX_PEERS][MAX_ROUNDS];
} measurement;

static bool is_cpu(const measurement *self)
{
    return self->device->info.type == HAL_DEVICE_CPU;
}

static double job_work(const bench_job *job)
{
    return job->limit == BENCH_LIMIT_FMA ? job->flops : job->bytes;
}

static uint64_t copy_size(const bench_job *job)
{
    const double least = 1 << 20, most = 1 << 28;
    return (uint64_t)fmin(fmax(job->bytes / 2, least), most) / 64 * 64;
}

static bool open_floor(measurement *self)
{
    const bench_job *job = self->job;
    if (!is_cpu(self)) {
        self->published = bench_peak_find(self->device->info.name, job->dtype).gflops;
        return true;
    }
    self->host_limit =
        bench_host_limit_create(job->limit, 2 * (double)copy_size(job), self->run->machine.floors.threads);
    if (!self->host_limit)
        snprintf(self->stage.error, sizeof self->stage.error, "out of memory for the host's own copy");
    return self->host_limit != NULL;
}

static const char *floor_name(const measurement *self)
{
    static const char *const host[] = {"FP32 multiply-add, all cores", "non-temporal copy, all cores",
                                       "read, all cores"};
    if (is_cpu(self))
        return host[self->job->limit];
    if (self->job->limit != BENCH_LIMIT_FMA)
        return "the device's copy";
    return isnan(self->published) ? "" : "published peak";
}

static bool run_job(measurement *self, uint32_t round)
{
    bench_times times;
    if (!bench_stage_call(&self->stage, self->repeats, !is_cpu(self), &times))
        return false;
    self->submit[round] = times.submit * 1e9;
    self->wait[round] = times.wait * 1e9;
    self->on_device[round] = times.device * 1e9;
    self->seconds[round] = bench_times_seconds(&times);
    return true;
}

static bool run_floor(measurement *self, uint32_t round)
{
    bench_times times;
    uint64_t size = copy_size(self->job);
    if (self->host_limit)
        self->floor_rate[round] = bench_host_limit_measure(self->host_limit, self->floor_repeats);
    else if (self->job->limit == BENCH_LIMIT_FMA)
        self->floor_rate[round] = self->published;
    else if (bench_stage_copy(&self->stage, size, self->floor_repeats, &times))
        self->floor_rate[round] = 2 * (double)size * 1e-9 / bench_times_seconds(&times);
    else
        return false;
    return true;
}

static bool run_peer(measurement *self, uint32_t which, uint32_t round)
{
    double seconds;
    bench_peer *peer = &self->job->peers[which];
    if (!peer->name)
        return true;
    if (!peer->call(peer, self->repeats, &seconds)) {
        snprintf(self->stage.error, sizeof self->stage.error, "%s failed", peer->name);
        return false;
    }
    self->peer_rate[which][round] = (peer->work > 0 ? peer->work : job_work(self->job)) * 1e-9 / seconds;
    return true;
}

/* Everyone once, the order reversed in every other round. */
static bool run_round(measurement *self, uint32_t round)
{
    enum { TURNS = 2 + BENCH_MAX_PEERS };
    for (uint32_t i = 0; i < TURNS; i++) {
        uint32_t turn = round % 2 ? TURNS - 1 - i : i;
        bool good = turn == 0   ? run_job(self, round)
                    : turn == 1 ? run_floor(self, round)
                                : run_peer(self, turn - 2, round);
        if (!good)
            return false;
    }
    return true;
}

/* How often each is called in a round; the first time, which may compile, is over then. */
static bool choose_repeats(measurement *self)
{
    bench_times warm;
    if (!bench_stage_call(&self->stage, 1, !is_cpu(self), &warm))
        return false;
    self->call_seconds = bench_times_seconds(&warm);
    self->repeats = (uint32_t)fmin(fmax(ceil(round_seconds / self->call_seconds), 1), MAX_REPEATS);
    self->floor_repeats = 1;
    if (!run_floor(self, 0))
        return false;
    double start = bench_seconds(), calls = fmin(self->call_seconds * self->repeats, most_floor_seconds);
    if (!run_floor(self, 0))
        return false;
    self->floor_repeats = (uint32_t)fmin(fmax(calls / (bench_seconds() - start), 1), MAX_REPEATS);
    for (uint32_t i = 0; i < BENCH_MAX_PEERS; i++)
        if (!run_peer(self, i, 0))
            return false;
    return true;
}

static bool run_rounds(measurement *self)
{
    bench_times last;
    const bench_options *options = self->run->options;
    uint32_t most = options->rounds, enough = options->command == BENCH_SUITE ? LEAST_IN_SUITE : LEAST_ROUNDS;
    bool slow = self->call_seconds > self->job->budget; /* then once has to do */
    uint32_t least = slow ? 1 : most < enough ? most : enough;
    double deadline = bench_seconds() + self->job->budget;
    while (self->rounds < most && (self->rounds < least || bench_seconds() < deadline) && !bench_interrupted()) {
        if (!run_round(self, self->rounds))
            return false;
        self->rounds++;
    }
    self->on_device[0] = is_cpu(self) ? NAN : self->on_device[0];
    if (is_cpu(self) && !slow) { /* its clock adds work to the stream: in a run of its own */
        if (!bench_stage_call(&self->stage, self->repeats, true, &last))
            return false;
        self->on_device[0] = last.device * 1e9;
    }
    return true;
}

/* The median of ours / theirs. */
static double ratio_to(const measurement *self, const double *rates)
{
    double ratios[MAX_ROUNDS];
    for (uint32_t i = 0; i < self->rounds; i++)
        ratios[i] = job_work(self->job) * 1e-9 / self->seconds[i] / rates[i];
    return bench_median(ratios, self->rounds);
}

static void fill_row(const measurement *self, bench_row *row)
{
    const bench_job *job = self->job;
    uint32_t rounds = self->rounds;
    row->rounds = rounds;
    row->libhal_ns = bench_median(self->submit, rounds);
    row->wait_ns = bench_median(self->wait, rounds);
    row->device_ns = bench_median(self->on_device, is_cpu(self) ? 1 : rounds);
    row->seconds = bench_median(self->seconds, rounds);
    row->rate = job_work(job) * 1e-9 / row->seconds;
    row->gflops = job->flops > 0 ? job->flops * 1e-9 / row->seconds : NAN;
    row->gbps = job->bytes * 1e-9 / row->seconds;
    row->floor = floor_name(self);
    if (*row->floor) {
        row->floor_rate = bench_median(self->floor_rate, rounds);
        row->floor_ratio = ratio_to(self, self->floor_rate);
    }
    for (uint32_t i = 0; i < BENCH_MAX_PEERS; i++)
        if (job->peers[i].name) {
            row->peers[row->peer_count].name = job->peers[i].name;
            row->peers[row->peer_count].rate = bench_median(self->peer_rate[i], rounds);
            row->peers[row->peer_count++].ratio = ratio_to(self, self->peer_rate[i]);
        }
}

static bench_row *add_row(bench_run *run, const bench_device *device, const bench_job *job)
{
    bench_row *row = bench_row_add(run, BENCH_ROW_OPERATOR, device, job->label);
    row->op = job->op;
    memcpy(row->shape, job->shape, sizeof row->shape);
    row->dtype = job->dtype;
    row->unit = job->limit == BENCH_LIMIT_FMA ? "GFLOP/s" : "GB/s";
    return row;
}

bench_peak bench_peak_of(const bench_run *run, const bench_device *device, hal_dtype dtype)
{
    if (device->info.type != HAL_DEVICE_CPU)
        return bench_peak_find(device->info.name, dtype);
    return (bench_peak){run->machine.floors.fma_gflops, run->machine.floors.read_gbps};
}

bench_limit bench_job_limit(const bench_run *run, const bench_device *device, const bench_job *job)
{
    /* Where the roofline bends; about 50 FLOP a byte on a device whose peaks are not known. */
    bench_peak peak = bench_peak_of(run, device, job->dtype);
    double ridge = peak.gflops / peak.gbps;
    return job->flops / job->bytes > (isnan(ridge) ? 50 : ridge) ? BENCH_LIMIT_FMA : BENCH_LIMIT_READ;
}

void bench_job_no_memory(bench_run *run, const bench_device *device, const bench_job *job)
{
    bench_row_fail(run, add_row(run, device, job), "out of memory for the operands");
}

bench_row *bench_job_measure(bench_run *run, const bench_device *device, bench_job *job)
{
    measurement self = {.run = run, .device = device, .job = job};
    bench_times first;
    bench_worst worst;
    bench_row *row = NULL;
    bench_progress(run, "%s: %s %s %s", device->select, job->label, job->shape, hal_dtype_name(job->dtype));
    if (bench_interrupted())
        goto done;
    row = add_row(run, device, job);
    bool good = bench_stage_open(&self.stage, device, job) && bench_stage_call(&self.stage, 1, false, &first) &&
                bench_stage_check(&self.stage, &worst);
    hal_status status = self.stage.status;
    if (good) {
        row->max_error = worst.error;
        row->bound = worst.bound;
    }
    if (!good && (status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_UNSUPPORTED || status == HAL_ERROR_LIMIT))
        snprintf(row->note, sizeof row->note, "%.500s", self.stage.error); /* this build or device cannot do it */
    else if (good && !(worst.share <= 1))
        bench_row_fail(run, row, "wrong result: off by %.3g, %.3g times the bound", worst.error, worst.share);
    else if (!good || !open_floor(&self) || !choose_repeats(&self) || !run_rounds(&self))
        bench_row_fail(run, row, "%s", self.stage.error);
    else if (self.rounds == 0)
        row = (run->row_count--, NULL); /* interrupted before there was a figure */
    else
        fill_row(&self, row);
    bench_stage_close(&self.stage);
    bench_host_limit_destroy(self.host_limit);
done:
    for (uint32_t i = 0; i < BENCH_MAX_PEERS; i++)
        if (job->peers[i].name)
            job->peers[i].close(&job->peers[i]);
    return row;
}
