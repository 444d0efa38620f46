/* test_model_bytes.c - the bytes that the model predicts of each kind of step (hal_space_traffic) are those that the
 * stand-in for a CUDA driver counts while the step runs, read and written, exactly. Nothing else counts them.
 *
 * A kernel's tile is taken from its name, which has its constants, or from the function that plans it. Two things are
 * beside the model, and said by each case (`beside`): what many work-items load from one address counts once for each
 * of them, and is no traffic; the workspace of kernels of two phases. */
#include "bytes_step.h"

#include "../cuda_sim/driver/cuda_sim.h"
#include "kernel_rows.h"
#include "row_kernels.h"
#include "space.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 16, MOST_TENSORS = 32, GROUP = 256 };

/* The step of a program, its memory, and what ran. */
typedef struct run {
    const shape *shape;
    const hal_device_info *info;
    hal_program program;
    hal_step step;
    hal_space space;
    hal_buffer *buffers[MOST_TENSORS];
    hal_span spans[MOST_TENSORS];
    uint64_t workspace; /* bytes that two phases went through */
    cuda_sim_kernel kernels[KERNELS];
    unsigned count;
} run;

typedef struct bytes_case {
    const char *name, *kernel; /* how the name of one that must run begins */
    void (*build)(hal_graph *graph, const shape *s);
    void (*walk)(const run *r, hal_walk *walk);
    shape shape;
    hal_traffic (*beside)(const run *r); /* beyond the model's, or NULL */
    bool workspace;                      /* the step is given one */
    bool queue;                          /* the GEMM before the step is in the same kernel */
    bool once;                           /* each operand is moved once, and that is all */
    bool bound; /* what is read depends on data, or on what the model does not know: it says no less */
} bytes_case;

/* --- how kernels go over them --- */

static void set(const hal_space *space, uint64_t *tile, char letter, uint64_t points)
{
    for (uint32_t d = 0; d < space->dims; d++) {
        if (space->dim[d].name[0] == letter) {
            tile[d] = points;
        }
    }
}

/* The constant `at` of the kernel that ran first. */
static uint64_t constant(const run *r, uint32_t at)
{
    const char *text = strstr(r->kernels[0].name, "__");
    assert_non_null(text);
    text += 2;
    for (uint32_t i = 0; i < at; i++) {
        text = strchr(text, '_');
        assert_non_null(text);
        text++;
    }
    return strtoull(text, NULL, 10);
}

static bool ran(const run *r, const char *kernel)
{
    bool found = false;
    for (unsigned i = 0; i < r->count; i++) {
        found = found || strncmp(r->kernels[i].name, kernel, strlen(kernel)) == 0;
    }
    return found;
}

/* Rows by columns of D, each finished by a work-item, or four of a row by gemm_mma_any, whose tile has two columns of B
 * for each of SwiGLU's. gemm_small takes an element of A for each of the columns in 16 bytes of B, or for four where B
 * is transposed, and repeats the last row up to its constant number of rows. */
static void walk_gemm(const run *r, hal_walk *walk)
{
    const bool options = ran(r, "gemm_mma_any");
    uint64_t m = 32, n = 32;
    if (ran(r, "gemm_small")) {
        m = walk->tile_rows = constant(r, 2);
        n = constant(r, 1) ? constant(r, 3) / (constant(r, 4) / 32) : 16 / hal_dtype_size(r->shape->dtype);
    } else if (!ran(r, "gemm_any") && !ran(r, "gemm_queue")) {
        m = constant(r, 3);
        n = constant(r, 4) / (options && r->step.tensors[HAL_ROLE_B_UP] ? 2 : 1);
    }
    walk->apart = r->workspace != 0; /* SwiGLU's two products are kernels of their own, then */
    set(&r->space, walk->tile, 'i', m);
    set(&r->space, walk->tile, 'j', n);
    set(&r->space, walk->lane, 'i', 1);
    set(&r->space, walk->lane, 'j', options ? 4 : 1);
}

/* Four neighbours a work-item. */
static void walk_fours(const run *r, hal_walk *walk)
{
    set(&r->space, walk->lane, 'i', 1);
    set(&r->space, walk->lane, 'j', 4);
}

/* The same, after a pass over the row. */
static void walk_quantize(const run *r, hal_walk *walk)
{
    set(&r->space, walk->tile, 'i', 1);
    set(&r->space, walk->tile, 'k', 4);
    walk_fours(r, walk);
}

/* A row that fits on chip is whole. */
static void walk_activation_row(const run *r, hal_walk *walk)
{
    const hal_dtype between = r->step.round_between ? r->step.round_between : HAL_F32;
    walk_quantize(r, walk);
    if (r->shape->columns <= ACTIVATION_ROW_KEPT / hal_dtype_size(between)) {
        set(&r->space, walk->tile, 'k', 0);
        set(&r->space, walk->lane, 'j', 0);
    }
}

/* Rows that fit on chip are whole. Strict softmax looks for the greatest element first, then it adds. */
static void walk_rows(const run *r, hal_walk *walk)
{
    hal_row_shape laid = hal_row_shape_of(r->info, r->shape->rows, r->shape->columns, 0);
    if (r->workspace) { /* parts of a row */
        laid.keep = 0;
        laid.rows = 1;
    }
    walk->passes = r->step.op == HAL_STEP_SOFTMAX && r->shape->with & STRICT ? 2 : 1;
    walk->tile_rows = walk->lane_rows = laid.rows;
    set(&r->space, walk->tile, 'i', 1);
    set(&r->space, walk->tile, 'k', laid.keep ? 0 : 4 * laid.threads);
    set(&r->space, walk->tile, 'j', laid.keep ? 0 : 4 * laid.threads);
    memcpy(walk->lane, walk->tile, sizeof walk->lane);
}

static void walk_once(const run *r, hal_walk *walk)
{
    (void)r;
    (void)walk;
}

/* A pair of a head. */
static void walk_rope(const run *r, hal_walk *walk)
{
    set(&r->space, walk->lane, 'i', 1);
    set(&r->space, walk->lane, 'h', 1);
    set(&r->space, walk->lane, 'c', 1);
}

/* Of attention's keys, so many as its workspace has parts for. */
static uint64_t splits_of(const run *r)
{
    const uint64_t part = r->shape->rows * r->shape->heads * (r->shape->inner + 2) * 4;
    return r->workspace ? r->workspace / part : 1;
}

/* The keys of one. */
static uint64_t split_keys(const run *r)
{
    return hal_groups(hal_groups(r->shape->columns, 64), splits_of(r)) * 64;
}

/* `attention` loads its queries again for each block of keys that is seen; attention_mma for each split, seen or not.
 */
static void walk_attention(const run *r, hal_walk *walk)
{
    const bool mma = ran(r, "attention_mma");
    walk->block = 64;
    walk->apart = walk->joined = true;
    walk->ahead = mma;
    set(&r->space, walk->tile, 'i', mma ? 64 : 16);
    set(&r->space, walk->tile, 'g', 1);
    set(&r->space, walk->tile, 's', mma ? split_keys(r) : 64);
    memcpy(walk->lane, walk->tile, sizeof walk->lane);
}

/* --- beside the model --- */

/* Stored by one phase, loaded by the next. */
static hal_traffic beside_gemm(const run *r)
{
    return (hal_traffic){r->workspace, r->workspace};
}

/* The GEMM, by its own tiles. Counts, each read and written when a group takes a number: of tasks, one more a group; of
 * a block's tiles; of groups. In the end they are zeros again. */
static hal_traffic beside_queue(const run *r)
{
    run gemm = *r;
    hal_walk walk = {.apart = false};
    gemm.workspace = 0;
    gemm.step = r->program.steps[0];
    hal_space_of(&r->program, &gemm.step, r->shape->rows, &gemm.space);
    walk_gemm(&gemm, &walk);
    hal_traffic traffic = hal_space_traffic(&r->program, &gemm.step, r->shape->rows, &walk);
    const uint64_t tasks = hal_groups(r->shape->rows, 32) * hal_groups(r->shape->columns, 32),
                   groups = hal_fewer(tasks, 4 * (uint64_t)r->info->compute_units),
                   taken = 2 * (tasks + groups) * sizeof(uint32_t);
    traffic.read += taken;
    traffic.written += taken + r->workspace;
    return traffic;
}

/* All work-items of a group load their token's id, but the model counts it for each pair. */
static hal_traffic beside_rope(const run *r)
{
    const uint64_t a_group = hal_row_tile(r->info) / r->shape->inner, pairs = r->shape->heads * r->shape->inner / 2;
    return (hal_traffic){r->shape->rows * 4 * (GROUP * hal_groups(r->shape->heads, a_group) - pairs), 0};
}

static uint64_t keys_seen(const shape *s, uint64_t query)
{
    const uint64_t ahead = s->causal == HAL_CAUSAL_BOTTOM_RIGHT ? s->columns : s->rows, seen = query + 1 + ahead;
    return s->causal == HAL_CAUSAL_NONE ? s->columns : seen < s->rows ? 0 : hal_fewer(seen - s->rows, s->columns);
}

/* Splits have an o of their own, its greatest score and its sum; each of 128 work-items that put a row together loads
 * all scores, and for each of its columns scores, sums and, where the row sees a key, parts. */
static hal_traffic beside_splits(const run *r)
{
    const uint64_t heads = r->shape->heads, parts = r->shape->rows * heads * splits_of(r), dim = r->shape->inner;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < r->shape->rows; i++) {
        seen += heads * hal_groups(keys_seen(r->shape, i), split_keys(r));
    }
    return (hal_traffic){(parts * (128 + 2 * dim) + seen * dim) * 4, parts * 4 * (dim + 2)};
}

/* Partial sums of a row, which each of the groups that share the row loads. */
static hal_traffic beside_parts(const run *r)
{
    const uint64_t sums = r->shape->rows * ROW_SUMS * 4;
    return (hal_traffic){RMSNORM_PARTS * sums, sums};
}

/* --- running and comparing --- */

static void fill(fixture *f, const hal_tensor_info *tensor, hal_buffer *buffer, uint64_t rows)
{
    const uint64_t bytes = hal_tensor_bytes(tensor, rows);
    uint8_t *elements = calloc(1, bytes);
    assert_non_null(elements);
    for (uint64_t i = 0; tensor->dtype == HAL_DTYPE_DEFAULT && i < bytes; i += tensor->element_size) {
        elements[i] = (uint8_t)((i / tensor->element_size * 7 + 43) % TABLE); /* an index, little endian */
    }
    OK(hal_cmd_upload(f->list, hal_whole(buffer), elements, bytes));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    free(elements);
}

static void run_open(run *r, fixture *f, const bytes_case *c)
{
    hal_graph *graph;
    r->shape = &c->shape;
    r->info = hal_device_get_info(f->device);
    OK(hal_graph_create(NULL, &graph));
    c->build(graph, &c->shape);
    OK(hal_graph_status(graph));
    OK(hal_program_copy(hal_graph_program(graph), &r->program));
    hal_graph_destroy(graph);
    r->step = r->program.steps[r->program.step_count - 1];
    bytes_fuse(&r->program, &r->step, &c->shape);
    hal_space_of(&r->program, &r->step, c->shape.rows, &r->space);
    assert_true(r->program.tensor_count < MOST_TENSORS);
    for (uint32_t i = 1; i < r->program.tensor_count; i++) {
        const hal_tensor_info *tensor = &r->program.tensors[i];
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = hal_tensor_bytes(tensor, c->shape.rows)), &r->buffers[i]));
        r->spans[i] = hal_whole(r->buffers[i]);
        fill(f, tensor, r->buffers[i], c->shape.rows);
    }
}

static void run_close(run *r)
{
    for (uint32_t i = 1; i < r->program.tensor_count; i++) {
        hal_buffer_destroy(r->buffers[i]);
    }
    hal_program_clear(&r->program);
}

/* The stand-in's functions; NULL where another driver is loaded, or none. */
typedef struct counting {
    __typeof__(cuda_sim_counters_read) *read;
    __typeof__(cuda_sim_counters_reset) *reset;
} counting;

static counting find_counting(void)
{
    const char *path = getenv("HAL_CUDA_LIBRARY");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    counting found = {NULL, NULL};
    if (library) {
        *(void **)&found.read = dlsym(library, "cuda_sim_counters_read");
        *(void **)&found.reset = dlsym(library, "cuda_sim_counters_reset");
    }
    return found;
}

static void record_step(run *r, fixture *f, const bytes_case *c)
{
    hal_buffer *workspace = NULL;
    uint64_t size = 0;
    const hal_mode mode = c->shape.with & STRICT ? HAL_MODE_STRICT : HAL_MODE_FAST;
    if (c->workspace) {
        OK(hal_step_workspace(f->device, &r->program, &r->step, c->shape.rows, mode, &size));
        assert_true(size != 0);
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = size), &workspace));
    }
    OK(hal_step_record(f->list, &r->program, &r->step, c->shape.rows, mode, r->spans,
                       workspace ? hal_whole(workspace) : (hal_span){0}));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    r->workspace = size;
    hal_buffer_destroy(workspace);
}

/* The program's GEMM and quantisation in one kernel; the queue is the workspace. */
static void record_queue(run *r, fixture *f, const bytes_case *c, const counting *sim)
{
    const hal_step *gemm = &r->program.steps[0];
    const shape *s = &c->shape;
    const hal_gemm_desc desc =
        *HAL_GEMM(.m = s->rows, .n = s->columns, .k = s->inner, .dtype = s->dtype,
                  .a = r->spans[gemm->tensors[HAL_ROLE_X]], .b = r->spans[gemm->tensors[HAL_ROLE_B]],
                  .d = r->spans[gemm->tensors[HAL_ROLE_Y]], .bias = r->spans[gemm->tensors[HAL_ROLE_BIAS]]);
    hal_buffer *queue;
    OK(hal_gemm_quantize_queue(&desc, &r->workspace));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = r->workspace), &queue));
    OK(hal_cmd_fill(f->list, hal_whole(queue), &(uint8_t){0}, 1));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    sim->reset();
    OK(hal_gemm_quantize(f->list, HAL_GEMM_QUANTIZE(.gemm = &desc, .codes = r->spans[r->step.tensors[HAL_ROLE_Y]],
                                                    .scales = r->spans[r->step.tensors[HAL_ROLE_SCALES]],
                                                    .queue = hal_whole(queue))));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(queue);
}

static void run_counted(run *r, fixture *f, const bytes_case *c)
{
    const counting sim = find_counting();
    if (!sim.reset || !sim.read) {
        fail_msg("the driver has no counters");
        return;
    }
    sim.reset();
    if (c->queue) {
        record_queue(r, f, c, &sim);
    } else {
        record_step(r, f, c);
    }
    r->count = sim.read(r->kernels, KERNELS, sizeof r->kernels[0]);
    assert_true(r->count > 0 && r->count <= KERNELS);
}

static bool agrees(const bytes_case *c, const run *r, const char *what, uint64_t counted, uint64_t predicted)
{
    if (counted != predicted) {
        print_error("%s (%llu, %llu, %llu; %s): %llu bytes %s, predicted %llu\n", c->name,
                    (unsigned long long)c->shape.rows, (unsigned long long)c->shape.columns,
                    (unsigned long long)c->shape.inner, r->kernels[0].name, (unsigned long long)counted, what,
                    (unsigned long long)predicted);
    }
    return counted == predicted;
}

/* Also what a plan reports, each operand once: never more than what is moved, but for what a causal mask hides. */
static bool compare(const bytes_case *c, const run *r)
{
    hal_walk walk = {.apart = false};
    c->walk(r, &walk);
    const hal_traffic model = hal_space_traffic(&r->program, &r->step, c->shape.rows, &walk);
    const hal_traffic beside = c->beside ? c->beside(r) : (hal_traffic){0, 0};
    const uint64_t least = hal_space_bytes(&r->program, &r->step, c->shape.rows);
    const uint64_t most = model.read + beside.read;
    uint64_t read = 0, written = 0;
    for (unsigned i = 0; i < r->count; i++) {
        read += r->kernels[i].total.global_read_bytes;
        written += r->kernels[i].total.global_write_bytes;
    }
    const bool writes = agrees(c, r, "written", written, model.written + beside.written);
    if (c->bound) {
        return writes && (read < most || agrees(c, r, "read, too many", read, most - 1));
    }
    const bool reads = agrees(c, r, "read", read, most);
    const bool exceeds =
        c->once ? agrees(c, r, "moved", read + written, least)
                : c->shape.causal || read + written >= least || agrees(c, r, "moved, too few", read + written, least);
    return writes && reads && exceeds;
}

static bool check(fixture *f, const bytes_case *c, bool seen[HAL_STEP_OPS])
{
    run r = {0};
    run_open(&r, f, c);
    seen[r.step.op] = true;
    run_counted(&r, f, c);
    bool right = ran(&r, c->kernel);
    if (right) {
        right = compare(c, &r);
    } else {
        print_error("%s: %s ran, not %s\n", c->name, r.kernels[0].name, c->kernel);
    }
    run_close(&r);
    return right;
}

#define F32                 HAL_F32
#define BF16                HAL_BF16
#define SIZE(type, m, n, k) .dtype = (type), .rows = (m), .columns = (n), .inner = (k)
static const bytes_case cases[] = {
    /* Tiles that are full, tiles that are not; large problems have larger tiles. */
    {"gemm", "gemm__1_0_0_32_32", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 64, 96, 48)}},
    {"gemm", "gemm__", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 65, 33, 17)}},
    {"gemm", "gemm__1_0_1_64_64", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 1090, 1100, 18), .with = TRANS_B}},
    {"gemm", "gemm__1_0_0_128_128", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 2100, 2110, 5)}},
    {"gemm", "gemm_mma", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 128, 128, 64)}},
    {"gemm", "gemm_mma", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 72, 136, 40)}},
    {"gemm", "gemm_mma__3_0_1_128_128", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 60, 16920, 32), .with = TRANS_B}},
    {"gemm", "gemm_mma__3_0_0_128_256", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 60, 33800, 16)}},
    {"gemm", "gemm_async__3_0_1_128_128", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 1500, 1544, 32), .with = TRANS_B}},
    {"gemm", "gemm_async__3_0_0_128_256", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 2050, 2400, 40)}},
    {"gemm", "gemm_small", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 2, 96, 256)}},
    {"gemm", "gemm_small", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 3, 72, 200)}},
    {"gemm", "gemm_small", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 5, 76, 200), .with = TRANS_B}},
    {"gemm+bias+residual", "gemm__", bytes_gemm, walk_gemm,
     .shape = {SIZE(F32, 37, 40, 24), .with = WITH_BIAS | WITH_RESIDUAL}},
    {"gemm+bias+residual", "gemm_mma", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 72, 136, 40), .with = WITH_BIAS | WITH_RESIDUAL}},
    {"gemm+bias+residual", "gemm_small", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 3, 72, 200), .with = WITH_BIAS | WITH_RESIDUAL}},
    {"gemm+swiglu", "gemm_any", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 37, 40, 24), .with = WITH_UP}},
    {"gemm+swiglu", "gemm_mma_any", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 37, 40, 24), .with = WITH_UP | WITH_RESIDUAL}},
    {"gemm+swiglu", "gemm_combine", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 72, 136, 40), .with = WITH_UP},
     .beside = beside_gemm, .workspace = true},
    {"gemm+quantize", "gemm_any", bytes_gemm, walk_gemm, .shape = {SIZE(F32, 37, 40, 24), .with = WITH_CODES}},
    {"gemm+quantize", "gemm_mma_any", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 137, 140, 24), .with = WITH_CODES | WITH_BIAS | WITH_RESIDUAL}},
    {"gemm+quantize", "gemm_combine", bytes_gemm, walk_gemm, .shape = {SIZE(BF16, 72, 136, 40), .with = WITH_CODES},
     .beside = beside_gemm, .workspace = true},
    {"gemm in parts of k", "gemm_combine", bytes_gemm, walk_gemm,
     .shape = {SIZE(BF16, 64, 72, 1024), .with = WITH_BIAS | WITH_RESIDUAL}, .beside = beside_gemm, .workspace = true},
    {"gemm of codes", "gemm_mma_any", bytes_gemm_scaled, walk_gemm, .shape = {SIZE(HAL_F8E4M3, 37, 40, 32)}},
    {"gemm of codes", "gemm_any", bytes_gemm_scaled, walk_gemm,
     .shape = {SIZE(HAL_F8E4M3, 37, 40, 32), .with = STRICT}},
    {"gemm of codes", "gemm_mma_any", bytes_gemm_scaled, walk_gemm, .shape = {SIZE(HAL_F8E4M3, 193, 70, 45)}},
    {"gemm of codes+swiglu", "gemm_mma_any", bytes_gemm, walk_gemm,
     .shape = {SIZE(HAL_F8E4M3, 137, 140, 48), .with = WITH_UP}},
    /* A group for each tile, and fewer groups than tiles. */
    {"gemm and quantize by a queue", "gemm_queue", bytes_gemm_quantize, walk_quantize,
     .shape = {SIZE(BF16, 70, 50, 24), .with = WITH_BIAS}, .beside = beside_queue, .queue = true},
    {"gemm and quantize by a queue", "gemm_queue", bytes_gemm_quantize, walk_quantize,
     .shape = {SIZE(F32, 840, 810, 3)}, .beside = beside_queue, .queue = true},
    {"activation", "activation", bytes_activation, walk_fours, .shape = {SIZE(BF16, 37, 1030, 0)}, .once = true},
    {"add of a row", "activation", bytes_add_row, walk_fours, .shape = {SIZE(BF16, 37, 1030, 0)}},
    {"product with a column", "activation", bytes_multiply_column, walk_fours, .shape = {SIZE(F32, 5, 1030, 0)}},
    {"swiglu", "activation", bytes_swiglu, walk_fours, .shape = {SIZE(BF16, 37, 130, 0)}, .once = true},
    {"activation+quantize", "activation_row", bytes_activation, walk_activation_row,
     .shape = {SIZE(BF16, 5, 1030, 0), .with = WITH_CODES}, .once = true},
    {"swiglu+quantize", "activation_row", bytes_swiglu, walk_activation_row,
     .shape = {SIZE(BF16, 37, 130, 0), .with = WITH_CODES}, .once = true},
    {"swiglu+quantize", "activation_row", bytes_swiglu, walk_activation_row,
     .shape = {SIZE(BF16, 2, 16388, 0), .with = WITH_CODES}},
    {"add of a row, quantize", "activation_row", bytes_add_row, walk_activation_row,
     .shape = {SIZE(F32, 5, 1030, 0), .with = WITH_CODES}},
    {"cast", "quantize", bytes_cast, walk_fours, .shape = {SIZE(BF16, 37, 131, 0)}, .once = true},
    /* Several rows a group; one; and rows that do not fit on chip. */
    {"rmsnorm", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 11, 130, 0)}},
    {"rmsnorm", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 3, 4096, 0)}},
    {"rmsnorm", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(F32, 2, 9220, 0)}},
    {"add+rmsnorm", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 3, 1024, 0), .with = WITH_SUM}},
    {"add+rmsnorm", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 2, 9220, 0), .with = WITH_SUM}},
    {"rmsnorm+quantize", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 3, 1024, 0), .with = WITH_CODES}},
    {"add+rmsnorm+quantize", "rmsnorm", bytes_rmsnorm, walk_rows,
     .shape = {SIZE(BF16, 2, 9220, 0), .with = WITH_SUM | WITH_CODES}},
    {"rmsnorm in parts", "rmsnorm", bytes_rmsnorm, walk_rows, .shape = {SIZE(BF16, 2, 32768, 0)},
     .beside = beside_parts, .workspace = true},
    {"softmax", "softmax", bytes_softmax, walk_rows, .shape = {SIZE(F32, 11, 130, 0)}},
    {"softmax", "softmax", bytes_softmax, walk_rows, .shape = {SIZE(BF16, 3, 2050, 0), .with = WITH_MASK}},
    {"softmax", "softmax", bytes_softmax, walk_rows, .shape = {SIZE(F32, 2, 9220, 0), .with = WITH_MASK}},
    {"strict softmax", "softmax", bytes_softmax, walk_rows, .shape = {SIZE(F32, 11, 130, 0), .with = STRICT}},
    {"strict softmax", "softmax", bytes_softmax, walk_rows, .shape = {SIZE(F32, 3, 9220, 0), .with = STRICT}},
    {"strict softmax", "softmax", bytes_softmax, walk_rows,
     .shape = {SIZE(BF16, 2, 9222, 0), .with = WITH_MASK | STRICT}},
    {"quantize", "quantize_row", bytes_quantize, walk_quantize, .shape = {SIZE(BF16, 5, 1030, 0)}},
    {"quantize by scales", "quantize", bytes_quantize_given, walk_fours, .shape = {SIZE(BF16, 5, 1030, 0)}},
    {"dequantize", "quantize", bytes_dequantize, walk_fours, .shape = {SIZE(BF16, 5, 1030, 0)}},
    {"transpose", "transpose", bytes_transpose, walk_once, .shape = {SIZE(BF16, 37, 40, 3)}, .once = true},
    {"rope", "rope", bytes_rope, walk_rope, .shape = {SIZE(BF16, 37, 64, 64), .heads = 5}, .beside = beside_rope},
    {"rope of a part", "rope", bytes_rope, walk_rope, .shape = {SIZE(BF16, 37, 32, 64), .heads = 5},
     .beside = beside_rope},
    {"rope of a pair", "rope", bytes_rope, walk_rope, .shape = {SIZE(F32, 3, 2, 64), .heads = 5},
     .beside = beside_rope},
    {"gather", "gather", bytes_gather, walk_fours, .shape = {SIZE(BF16, 37, 1030, 0)}},
    /* Blocks of keys and tiles of rows that are full or not; keys that a tile does not see. */
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 141, 32), .heads = 4, .kv_heads = 2}},
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 141, 32), .heads = 4, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT}},
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 75, 141, 32), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_TOP_LEFT}},
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 70, 32), .with = WITH_MASK, .heads = 4, .kv_heads = 2}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 128, 128, 64), .heads = 2, .kv_heads = 2}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .heads = 4, .kv_heads = 2}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .heads = 4, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 150, 141, 64), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_TOP_LEFT}},
    {"attention, rows without keys", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 75, 21, 32), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT}},
    {"attention, rows without keys", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 150, 21, 64), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT}},
    /* Tiles that end between heads of queries that share one of keys. */
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 141, 32), .heads = 6, .kv_heads = 2}},
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 141, 32), .heads = 14, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT}},
    {"attention", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 21, 70, 32), .with = WITH_MASK, .heads = 20, .kv_heads = 1}},
    {"attention of one query", "attention", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 1, 70, 32), .with = WITH_MASK, .heads = 20, .kv_heads = 1}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .heads = 14, .kv_heads = 2}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .with = WITH_MASK, .heads = 6, .kv_heads = 2}},
    {"attention", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .heads = 3, .kv_heads = 1, .causal = HAL_CAUSAL_TOP_LEFT}},
    {"attention of fewer keys", "attention_mma", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 141, 64), .with = WITH_LENGTH, .heads = 4, .kv_heads = 2}, .bound = true},
    {"attention", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 5, 600, 32), .heads = 4, .kv_heads = 2}, .beside = beside_splits, .workspace = true},
    {"attention", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 75, 600, 64), .heads = 4, .kv_heads = 2}, .beside = beside_splits, .workspace = true},
    {"attention", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 300, 600, 32), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_TOP_LEFT},
     .beside = beside_splits, .workspace = true},
    {"attention", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(F32, 5, 600, 32), .heads = 6, .kv_heads = 2, .causal = HAL_CAUSAL_BOTTOM_RIGHT},
     .beside = beside_splits, .workspace = true},
    {"attention", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 300, 600, 64), .heads = 2, .kv_heads = 2, .causal = HAL_CAUSAL_TOP_LEFT},
     .beside = beside_splits, .workspace = true},
    {"attention, rows without keys", "attention_combine", bytes_attention, walk_attention,
     .shape = {SIZE(BF16, 700, 600, 64), .heads = 3, .kv_heads = 1, .causal = HAL_CAUSAL_BOTTOM_RIGHT},
     .beside = beside_splits, .workspace = true},
};

static void test_bytes(void **state)
{
    fixture *f = *state;
    bool right = true, seen[HAL_STEP_OPS] = {false};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        right = check(f, &cases[i], seen) && right;
    }
    assert_true(right);
    for (uint32_t op = 0; op < HAL_STEP_OPS; op++) {
        assert_true(seen[op]);
    }
}

int main(void)
{
    hal_device *probe = NULL;
    const bool device = hal_device_open(NULL, &probe) == HAL_OK, counts = device && find_counting().read;
    hal_device_destroy(probe);
    if (device && !counts) {
        printf("skipped: only the stand-in CUDA driver counts bytes (docs/cuda_sim.md)\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes)};
    return ROWS_MAIN("model_bytes", tests);
}
