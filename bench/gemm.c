/* gemm.c - how fast is a matrix product, against what the machine can do and against OpenBLAS? */
#include "gemm.h"
#include "stats.h"

#include <hal/ops.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_ROUNDS = 15 };

/* Everything one problem needs on its device. */
typedef struct bench_product {
    hal_device *device;
    hal_stream *stream;
    hal_buffer *a, *b, *d, *workspace;
    hal_event *start, *end; /* NULL on devices without timestamps */
    hal_gemm_desc desc;
    hal_status status; /* of the call that failed */
    char error[500];
} bench_product;

typedef struct sample {
    double submit, wait, device; /* seconds; device NAN if unknown */
} sample;

/* Did a call succeed? If not, remember what was being done. */
static bool did(bench_product *product, hal_status status, const char *doing)
{
    if (status) {
        product->status = status;
        snprintf(product->error, sizeof product->error, "%s: %s", doing, hal_last_error());
    }
    return status == HAL_OK;
}

static bool create_buffer(bench_product *product, uint64_t size, const char *label, hal_buffer **buffer)
{
    return did(product, hal_buffer_create(product->device, HAL_BUFFER(.size = size, .label = label), buffer), label);
}

static bool create_objects(bench_product *product, const bench_device *device, const bench_problem *problem)
{
    uint64_t element = hal_dtype_size(problem->dtype), workspace = 0, m = problem->m, n = problem->n, k = problem->k;
    const hal_event_desc *timing = HAL_EVENT(.timing = true);
    bool good =
        did(product, hal_device_open(HAL_DEVICE(.select = device->select, .label = "hal-bench"), &product->device),
            "opening the device") &&
        did(product, hal_stream_create(product->device, HAL_STREAM(.label = "gemm"), &product->stream),
            "making a stream") &&
        create_buffer(product, m * k * element, "A", &product->a) &&
        create_buffer(product, k * n * element, "B", &product->b) &&
        create_buffer(product, m * n * element, "D", &product->d);
    if (good && device->info.timestamps)
        good = did(product, hal_event_create(product->device, timing, &product->start), "making an event") &&
               did(product, hal_event_create(product->device, timing, &product->end), "making an event");
    if (!good)
        return false;
    product->desc = *HAL_GEMM(.m = m, .n = n, .k = k, .dtype = problem->dtype, .a = hal_whole(product->a),
                              .b = hal_whole(product->b), .d = hal_whole(product->d));
    if (!did(product, hal_gemm_workspace(product->device, &product->desc, &workspace), "sizing the workspace"))
        return false;
    if (workspace > 0) {
        if (!create_buffer(product, workspace, "workspace", &product->workspace))
            return false;
        product->desc.workspace = hal_whole(product->workspace);
    }
    return did(product, hal_gemm_prepare(product->device, &product->desc), "compiling the kernel");
}

static bool upload_operands(bench_product *product, const bench_problem *problem)
{
    uint64_t element = hal_dtype_size(problem->dtype);
    hal_cmdlist *now = hal_stream_cmdlist(product->stream);
    const uint32_t poison = UINT32_MAX; /* NaN in every dtype: what the kernel does not write shows */
    return did(product,
               hal_cmd_upload(now, hal_whole(product->a), problem->a->elements, problem->m * problem->k * element),
               "uploading A") &&
           did(product,
               hal_cmd_upload(now, hal_whole(product->b), problem->b->elements, problem->k * problem->n * element),
               "uploading B") &&
           did(product, hal_cmd_fill(now, hal_whole(product->d), &poison, (uint32_t)element), "filling D") &&
           did(product, hal_stream_wait(product->stream, HAL_SECONDS(60)), "uploading the operands");
}

static bool open_product(bench_product *product, const bench_device *device, const bench_problem *problem)
{
    *product = (bench_product){0};
    return create_objects(product, device, problem) && upload_operands(product, problem);
}

static void close_product(bench_product *product)
{
    hal_event_destroy(product->start);
    hal_event_destroy(product->end);
    hal_buffer_destroy(product->a);
    hal_buffer_destroy(product->b);
    hal_buffer_destroy(product->d);
    hal_buffer_destroy(product->workspace);
    hal_stream_destroy(product->stream);
    hal_device_destroy(product->device);
}

static bool run_product(bench_product *product, sample *times)
{
    uint64_t elapsed = 0;
    double start = bench_seconds();
    if ((product->start && !did(product, hal_event_record(product->start, product->stream), "timing")) ||
        !did(product, hal_gemm(hal_stream_cmdlist(product->stream), &product->desc), "hal_gemm") ||
        (product->end && !did(product, hal_event_record(product->end, product->stream), "timing")) ||
        !did(product, hal_stream_flush(product->stream), "flushing"))
        return false;
    double handed_over = bench_seconds();
    if (!did(product, hal_stream_wait(product->stream, HAL_SECONDS(120)), "waiting for the product"))
        return false;
    times->wait = bench_seconds() - handed_over;
    times->submit = handed_over - start;
    times->device = NAN;
    if (product->start && !did(product, hal_event_elapsed(product->start, product->end, &elapsed), "timing"))
        return false;
    if (product->start)
        times->device = (double)elapsed * 1e-9;
    return true;
}

static bool check_product(bench_product *product, const bench_problem *problem, double *error)
{
    void *result = malloc(problem->m * problem->n * hal_dtype_size(problem->dtype));
    hal_cmdlist *now = hal_stream_cmdlist(product->stream);
    if (!result) {
        snprintf(product->error, sizeof product->error, "out of memory");
        return false;
    }
    bool good = did(product, hal_cmd_download(now, result, hal_whole(product->d)), "reading the result") &&
                did(product, hal_stream_wait(product->stream, HAL_SECONDS(60)), "reading the result");
    if (good)
        *error = bench_gemm_error(problem, result);
    free(result);
    return good;
}

/* What the device could do: measured on the host just now for CPU devices, published for GPUs. */
static bench_peak peak_of(const bench_run *run, const bench_device *device, hal_dtype dtype)
{
    uint32_t threads = run->machine.floors.threads;
    if (device->info.type != HAL_DEVICE_CPU)
        return bench_peak_find(device->info.name, dtype);
    return (bench_peak){bench_floors_fma(threads), bench_floors_read(threads)};
}

static void fill_row(bench_run *run, const bench_device *device, const bench_problem *problem, const sample *samples,
                     uint32_t rounds, bench_row *row)
{
    double submit[MAX_ROUNDS], wait[MAX_ROUNDS], total[MAX_ROUNDS], on_device[MAX_ROUNDS];
    double element = hal_dtype_size(problem->dtype), m = (double)problem->m, n = (double)problem->n,
           k = (double)problem->k;
    for (uint32_t i = 0; i < rounds; i++) {
        submit[i] = samples[i].submit * 1e9;
        wait[i] = samples[i].wait * 1e9;
        on_device[i] = samples[i].device * 1e9;
        total[i] = samples[i].submit + samples[i].wait;
    }
    row->rounds = rounds;
    row->libhal_ns = bench_median(submit, rounds);
    row->wait_ns = bench_median(wait, rounds);
    row->device_ns = bench_median(on_device, rounds);
    bool host_clock = device->info.type == HAL_DEVICE_CPU || !(row->device_ns > 0);
    row->seconds = host_clock ? bench_median(total, rounds) : row->device_ns * 1e-9;
    double flops = 2 * m * n * k, bytes = (m * k + k * n + m * n) * element;
    row->gflops = flops / row->seconds * 1e-9;
    row->gbps = bytes / row->seconds * 1e-9;
    /* Where the roofline bends; about 50 FLOP a byte on a device whose peaks are not known. */
    bench_peak peak = peak_of(run, device, problem->dtype);
    double ridge = peak.gflops / peak.gbps;
    bool compute = flops / bytes > (isnan(ridge) ? 50 : ridge);
    row->bound = compute ? "compute" : "memory";
    row->peak_fraction = compute ? row->gflops / peak.gflops : row->gbps / peak.gbps;
}

/* Timed rounds within the problem's budget, OpenBLAS taking turns on CPU devices. False: product->error. */
static bool time_product(bench_run *run, const bench_device *device, const bench_problem *problem,
                         bench_product *product, bench_row *row)
{
    sample samples[MAX_ROUNDS];
    double ratios[MAX_ROUNDS];
    uint32_t rounds = 0, least = run->options->quick ? 2 : 3;
    int m = (int)problem->m, n = (int)problem->n, k = (int)problem->k;
    bench_sgemm_fn sgemm = device->info.type == HAL_DEVICE_CPU ? bench_openblas(run->machine.floors.threads) : NULL;
    float *peer = sgemm ? malloc((size_t)problem->m * problem->n * sizeof *peer) : NULL;
    bool good = true;
    if (peer)
        sgemm(101, 111, 111, m, n, k, 1, problem->a->values, k, problem->b->values, n, 0, peer, n);
    double deadline = bench_seconds() + problem->budget;
    while (rounds < MAX_ROUNDS && (rounds < least || bench_seconds() < deadline) && !bench_interrupted()) {
        if (!(good = run_product(product, &samples[rounds])))
            break;
        if (peer) {
            double start = bench_seconds();
            sgemm(101, 111, 111, m, n, k, 1, problem->a->values, k, problem->b->values, n, 0, peer, n);
            ratios[rounds] = (bench_seconds() - start) / (samples[rounds].submit + samples[rounds].wait);
            bench_pause(0.001); /* its threads go to sleep */
        }
        rounds++;
    }
    if (good && rounds > 0) {
        fill_row(run, device, problem, samples, rounds, row);
        row->vs_openblas = peer ? bench_median(ratios, rounds) : NAN;
    }
    free(peer);
    return good;
}

void bench_gemm_measure(bench_run *run, const bench_device *device, const bench_problem *problem)
{
    bench_product product;
    sample first;
    bench_progress(run, "%s: %s %llu x %llu x %llu %s", device->select, problem->label, (unsigned long long)problem->m,
                   (unsigned long long)problem->n, (unsigned long long)problem->k, hal_dtype_name(problem->dtype));
    if (bench_interrupted())
        return;
    bench_row *row = bench_row_add(run, BENCH_ROW_GEMM, device, problem->label);
    row->m = problem->m;
    row->n = problem->n;
    row->k = problem->k;
    row->dtype = problem->dtype;
    bool good = open_product(&product, device, problem) && run_product(&product, &first) &&
                check_product(&product, problem, &row->max_error);
    if (!good && (product.status == HAL_ERROR_UNAVAILABLE || product.status == HAL_ERROR_UNSUPPORTED))
        snprintf(row->note, sizeof row->note, "%.500s", product.error); /* this build or device has no such kernel */
    else if (good && !(row->max_error <= 1))
        bench_row_fail(run, row, "wrong result: off by %.3g times the bound", row->max_error);
    else if (!good || !time_product(run, device, problem, &product, row))
        bench_row_fail(run, row, "%s", product.error);
    else if (row->rounds == 0)
        run->row_count--; /* interrupted before there was a figure */
    close_product(&product);
}

uint64_t bench_gemm_fit(bench_run *run, const bench_device *device, const bench_problem *problem, uint64_t most,
                        double seconds)
{
    bench_product product;
    bench_problem probe = *problem;
    uint64_t fits = 0;
    for (probe.m = 16; probe.m <= most && !bench_interrupted(); probe.m *= 4) {
        sample times = {0};
        bool good = open_product(&product, device, &probe);
        for (int turn = 0; good && turn < 2; turn++) /* the first may compile */
            good = run_product(&product, &times);
        close_product(&product);
        if (!good)
            break;
        double each = (times.submit + times.wait) / (double)probe.m;
        fits = 1;
        while (2 * fits <= most && (double)(2 * fits) * each <= seconds)
            fits *= 2;
        if (fits <= probe.m * 4 || probe.m * 4 > most)
            break; /* near enough to what was timed; else look closer */
    }
    (void)run;
    return fits;
}

void bench_gemm(bench_run *run, const bench_device *device)
{
    const bench_options *options = run->options;
    bench_operand_data a, b = {0};
    if (!bench_operand_create(&a, options->m * options->k, options->dtype, 1) ||
        !bench_operand_create(&b, options->k * options->n, options->dtype, 2)) {
        bench_row_fail(run, bench_row_add(run, BENCH_ROW_GEMM, device, "gemm"), "out of memory for the operands");
    } else {
        bench_problem problem = {.label = "gemm",
                                 .m = options->m,
                                 .n = options->n,
                                 .k = options->k,
                                 .dtype = options->dtype,
                                 .budget = options->quick ? 0.2 : 3,
                                 .a = &a,
                                 .b = &b};
        bench_gemm_measure(run, device, &problem);
    }
    bench_operand_destroy(&a);
    bench_operand_destroy(&b);
}
