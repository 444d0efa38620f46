/* test_model_bytes.c - the bytes that the model predicts of each kind of step (hal_space_traffic) are those that the
 * stand-in for a CUDA driver counts while the step runs, read and written, exactly. Nothing else counts them.
 *
 * A kernel's tile is taken from its name, which has its constants, or from the function that plans it. What many
 * work-items load from one address (an id, a mask's element) is no operand's traffic but counts once for each of them:
 * a case says how often (`shared`). */
#include "rows.h"

#include "../cuda_sim/driver/cuda_sim.h"
#include "program.h"
#include "row_kernels.h"
#include "space.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 16, MOST_TENSORS = 32, TABLE = 50, GROUP = 256 };
enum { WITH_BIAS = 1, WITH_RESIDUAL = 2, WITH_UP = 4, WITH_CODES = 8, TRANS_B = 16, WITH_SUM = 32, WITH_MASK = 64 };

typedef struct shape {
    hal_dtype dtype;
    uint64_t rows, columns, inner; /* GEMM: m, n, k; attention: queries, keys, elements of a head */
    uint32_t with, heads, kv_heads;
    hal_causal causal;
} shape;

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
    const char *name;
    void (*build)(hal_graph *graph, const shape *s);
    void (*walk)(const run *r, hal_walk *walk);
    uint64_t (*shared)(const run *r); /* bytes read beyond the model's, or NULL */
    bool workspace;
    const char *kernel; /* that must have run: how its name begins */
    shape shape;
} bytes_case;

static hal_tensor in(hal_graph *graph, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    return hal_graph_input(graph, name, dtype, HAL_DIMS(rows, columns));
}

static uint32_t named(const hal_program *program, const char *name)
{
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        if (strcmp(program->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return 0;
}

/* --- steps --- */

static void build_gemm(hal_graph *g, const shape *s)
{
    hal_graph_gemm_options desc = *HAL_GRAPH_GEMM(.trans_b = (s->with & TRANS_B) != 0);
    if (s->with & WITH_BIAS) {
        desc.bias = hal_graph_input(g, "bias", HAL_F32, HAL_DIMS(s->columns));
    }
    if (s->with & WITH_RESIDUAL) {
        in(g, "residual", s->dtype, HAL_ROWS, s->columns);
    }
    if (s->with & WITH_UP) {
        in(g, "up", s->dtype, s->inner, s->columns);
    }
    if (s->with & WITH_CODES) {
        hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS));
    }
    const bool turned = s->with & TRANS_B;
    hal_graph_gemm(g, in(g, "a", s->dtype, HAL_ROWS, s->inner),
                   in(g, "b", s->dtype, turned ? s->columns : s->inner, turned ? s->inner : s->columns), &desc);
}

static void build_gemm_scaled(hal_graph *g, const shape *s)
{
    const hal_tensor rows = hal_graph_input(g, "rows", HAL_F32, HAL_DIMS(HAL_ROWS));
    const hal_tensor columns = hal_graph_input(g, "columns", HAL_F32, HAL_DIMS(s->columns));
    hal_graph_gemm(g, in(g, "a", HAL_F8E4M3, HAL_ROWS, s->inner), in(g, "b", HAL_F8E4M3, s->inner, s->columns),
                   HAL_GRAPH_GEMM(.scale_a = rows, .scale_b = columns, .dtype = HAL_BF16));
}

static void build_activation(hal_graph *g, const shape *s)
{
    hal_graph_activation(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_ACT_GELU_TANH);
}

static void build_add_row(hal_graph *g, const shape *s)
{
    hal_graph_add(g, in(g, "a", s->dtype, HAL_ROWS, s->columns),
                  hal_graph_input(g, "b", HAL_F32, HAL_DIMS(s->columns)));
}

static void build_multiply_column(hal_graph *g, const shape *s)
{
    hal_graph_multiply(g, in(g, "a", s->dtype, HAL_ROWS, s->columns), in(g, "b", s->dtype, HAL_ROWS, 1));
}

static void build_swiglu(hal_graph *g, const shape *s)
{
    hal_graph_swiglu(g, in(g, "gate", s->dtype, HAL_ROWS, s->columns), in(g, "up", s->dtype, HAL_ROWS, s->columns));
}

static void build_cast(hal_graph *g, const shape *s)
{
    hal_graph_cast(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_F8E4M3);
}

static void build_rmsnorm(hal_graph *g, const shape *s)
{
    if (s->with & WITH_SUM) {
        in(g, "residual", s->dtype, HAL_ROWS, s->columns);
    }
    hal_graph_rmsnorm(g, in(g, "x", s->dtype, HAL_ROWS, s->columns),
                      hal_graph_input(g, "weight", HAL_F32, HAL_DIMS(s->columns)), 1e-5f);
}

static void build_softmax(hal_graph *g, const shape *s)
{
    const bool mask = s->with & WITH_MASK;
    hal_graph_softmax(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), 1,
                      mask ? in(g, "mask", HAL_F32, HAL_ROWS, s->columns) : HAL_NO_TENSOR);
}

static void build_quantize(hal_graph *g, const shape *s)
{
    hal_tensor scales;
    hal_graph_quantize(g, in(g, "x", s->dtype, HAL_ROWS, s->columns), HAL_NO_TENSOR, &scales);
}

static void build_quantize_given(hal_graph *g, const shape *s)
{
    hal_graph_quantize(g, in(g, "x", s->dtype, HAL_ROWS, s->columns),
                       hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS)), NULL);
}

static void build_dequantize(hal_graph *g, const shape *s)
{
    hal_graph_dequantize(g, in(g, "x", HAL_F8E4M3, HAL_ROWS, s->columns),
                         hal_graph_input(g, "scales", HAL_F32, HAL_DIMS(HAL_ROWS)), s->dtype);
}

static void build_transpose(hal_graph *g, const shape *s)
{
    hal_graph_transpose(g, hal_graph_input(g, "x", s->dtype, HAL_DIMS(HAL_ROWS, s->inner, s->columns)),
                        (const uint32_t[4]){0, 2, 1});
}

static void build_rope(hal_graph *g, const shape *s)
{
    const hal_tensor ids = hal_graph_index_input(g, "ids", 4, HAL_DIMS(HAL_ROWS));
    hal_graph_rope(g, in(g, "x", s->dtype, HAL_ROWS, s->heads * s->inner), s->heads,
                   in(g, "cos", HAL_F32, TABLE, s->inner / 2), in(g, "sin", HAL_F32, TABLE, s->inner / 2), ids);
}

static void build_gather(hal_graph *g, const shape *s)
{
    hal_graph_gather(g, in(g, "table", s->dtype, TABLE, s->columns),
                     hal_graph_index_input(g, "ids", 8, HAL_DIMS(HAL_ROWS)));
}

static void build_attention(hal_graph *g, const shape *s)
{
    hal_graph_attention_options desc =
        *HAL_GRAPH_ATTENTION(.q_heads = s->heads, .kv_heads = s->kv_heads, .causal = s->causal);
    if (s->with & WITH_MASK) {
        desc.mask = in(g, "mask", HAL_F32, HAL_ROWS, s->columns);
    }
    hal_graph_attention(g, in(g, "q", s->dtype, HAL_ROWS, s->heads * s->inner),
                        in(g, "k", s->dtype, s->columns, s->kv_heads * s->inner),
                        in(g, "v", s->dtype, s->columns, s->kv_heads * s->inner), &desc);
}

/* What only fusion can make of a step. */
static void fuse(run *r)
{
    hal_program *program = &r->program;
    const uint32_t with = r->shape->with;
    const bool norm = r->step.op == HAL_STEP_RMSNORM;
    uint32_t *tensors = r->step.tensors;
    if (with & (WITH_RESIDUAL | WITH_SUM)) {
        tensors[HAL_ROLE_RESIDUAL] = named(program, "residual");
    }
    if (with & WITH_UP) {
        tensors[HAL_ROLE_B_UP] = named(program, "up");
    }
    if (with & WITH_SUM) {
        const hal_tensor_info sum = program->tensors[tensors[HAL_ROLE_X]];
        OK(hal_program_add_tensor(
            program,
            &(hal_tensor_info){
                .kind = HAL_TENSOR_STEP, .dtype = sum.dtype, .element_size = sum.element_size, .dims = sum.dims},
            NULL, &tensors[HAL_ROLE_SUM]));
    }
    if (with & WITH_CODES) {
        hal_tensor_info *y = &program->tensors[tensors[HAL_ROLE_Y]];
        y->dtype = HAL_F8E4M3;
        y->element_size = 1;
        const hal_tensor_info scales = {
            .kind = HAL_TENSOR_STEP, .dtype = HAL_F32, .element_size = 4, .dims = HAL_DIMS(HAL_ROWS)};
        if (norm) {
            OK(hal_program_add_tensor(program, &scales, NULL, &tensors[HAL_ROLE_SCALES]));
        } else {
            tensors[HAL_ROLE_SCALE_D] = named(program, "scales");
        }
    }
}

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

/* Rows by columns of D, each finished by a work-item. gemm_small takes an element of A for each of the columns in 16
 * bytes of B, or for four where B is transposed, and repeats the last row up to its constant number of rows. */
static void walk_gemm(const run *r, hal_walk *walk)
{
    uint64_t m = 32, n = 32;
    if (ran(r, "gemm_small")) {
        m = walk->tile_rows = constant(r, 2);
        n = constant(r, 1) ? constant(r, 3) / (constant(r, 4) / 32) : 16 / hal_dtype_size(r->shape->dtype);
    } else if (!ran(r, "gemm_any") && !ran(r, "gemm_queue")) {
        m = constant(r, 3);
        n = constant(r, 4);
    }
    walk->apart = r->workspace != 0; /* SwiGLU's two products are kernels of their own, then */
    set(&r->space, walk->tile, 'i', m);
    set(&r->space, walk->tile, 'j', n);
    set(&r->space, walk->lane, 'i', 1);
    set(&r->space, walk->lane, 'j', 1);
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

/* Rows that fit on chip are whole. */
static void walk_rows(const run *r, hal_walk *walk)
{
    const hal_row_shape laid = hal_row_shape_of(r->info, r->shape->rows, r->shape->columns, 0);
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

/* `attention` loads its queries again for each block of keys; attention_mma keeps them. */
static void walk_attention(const run *r, hal_walk *walk)
{
    const bool mma = ran(r, "attention_mma");
    const uint64_t rows = mma ? 64 : 16;
    walk->block = 64;
    walk->apart = !mma;
    set(&r->space, walk->tile, 'i', rows * r->shape->kv_heads / r->shape->heads);
    set(&r->space, walk->tile, 'g', 1);
    set(&r->space, walk->tile, 's', mma ? 0 : 64);
    memcpy(walk->lane, walk->tile, sizeof walk->lane);
}

/* --- what many load from one address --- */

/* All work-items of a group load their token's id, but the model counts it for each pair. */
static uint64_t shared_rope(const run *r)
{
    const uint64_t a_group = hal_row_tile(r->info) / r->shape->inner, pairs = r->shape->heads * r->shape->inner / 2;
    return r->shape->rows * 4 * (GROUP * hal_groups(r->shape->heads, a_group) - pairs);
}

/* Each head of queries loads the mask, not each of keys. */
static uint64_t shared_mask(const run *r)
{
    const shape *s = r->shape;
    return s->rows * s->columns * 4 * (s->heads - s->kv_heads);
}

/* --- running and comparing --- */

static void fill(fixture *f, const hal_tensor_info *tensor, hal_buffer *buffer, uint64_t rows)
{
    const uint64_t bytes = hal_tensor_bytes(tensor, rows);
    uint8_t *elements = calloc(1, bytes);
    assert_non_null(elements);
    for (uint64_t i = 0; tensor->dtype == HAL_DTYPE_DEFAULT && i < bytes; i += tensor->element_size) {
        elements[i] = (uint8_t)(i / tensor->element_size * 7 % TABLE); /* an index, little endian */
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
    fuse(r);
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

static void run_counted(run *r, fixture *f, const bytes_case *c)
{
    const counting sim = find_counting();
    hal_buffer *workspace = NULL;
    uint64_t size = 0;
    if (c->workspace) {
        OK(hal_step_workspace(f->device, &r->program, &r->step, c->shape.rows, HAL_MODE_FAST, &size));
        assert_true(size != 0);
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = size), &workspace));
    }
    sim.reset();
    OK(hal_step_record(f->list, &r->program, &r->step, c->shape.rows, HAL_MODE_FAST, r->spans,
                       workspace ? hal_whole(workspace) : (hal_span){0}));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    r->count = sim.read(r->kernels, KERNELS, sizeof r->kernels[0]);
    assert_true(r->count > 0 && r->count <= KERNELS);
    r->workspace = size;
    hal_buffer_destroy(workspace);
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

static bool check(fixture *f, const bytes_case *c)
{
    run r = {0};
    hal_walk walk = {.apart = false};
    uint64_t read = 0, written = 0;
    run_open(&r, f, c);
    run_counted(&r, f, c);
    for (unsigned i = 0; i < r.count; i++) {
        read += r.kernels[i].total.global_read_bytes;
        written += r.kernels[i].total.global_write_bytes;
    }
    bool right = ran(&r, c->kernel);
    if (!right) {
        print_error("%s: %s ran, not %s\n", c->name, r.kernels[0].name, c->kernel);
    } else {
        c->walk(&r, &walk);
        const hal_traffic t = hal_space_traffic(&r.program, &r.step, c->shape.rows, &walk);
        const uint64_t shared = c->shared ? c->shared(&r) : 0;
        right = agrees(c, &r, "read", read, t.read + r.workspace + shared);
        right = agrees(c, &r, "written", written, t.written + r.workspace) && right;
    }
    run_close(&r);
    return right;
}

#define F32  HAL_F32
#define BF16 HAL_BF16
static const bytes_case cases[] = {
    /* tiles that are full, tiles that are not; more rows mean larger tiles */
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm__", {F32, 64, 96, 48, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm__", {F32, 65, 33, 17, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm__", {F32, 700, 1100, 18, TRANS_B, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_mma", {BF16, 128, 128, 64, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_mma", {BF16, 72, 136, 40, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_mma", {BF16, 1500, 1544, 32, TRANS_B, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_small", {F32, 2, 96, 256, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_small", {BF16, 3, 72, 200, 0, 0, 0, 0}},
    {"gemm", build_gemm, walk_gemm, NULL, false, "gemm_small", {BF16, 5, 76, 200, TRANS_B, 0, 0, 0}},
    {"gemm+bias+residual", build_gemm, walk_gemm, NULL, false, "gemm__", {F32, 37, 40, 24, 3, 0, 0, 0}},
    {"gemm+bias+residual", build_gemm, walk_gemm, NULL, false, "gemm_mma", {BF16, 72, 136, 40, 3, 0, 0, 0}},
    {"gemm+bias+residual", build_gemm, walk_gemm, NULL, false, "gemm_small", {BF16, 3, 72, 200, 3, 0, 0, 0}},
    {"gemm+swiglu", build_gemm, walk_gemm, NULL, false, "gemm_any", {BF16, 37, 40, 24, WITH_UP, 0, 0, 0}},
    {"gemm+swiglu", build_gemm, walk_gemm, NULL, true, "gemm_combine", {BF16, 72, 136, 40, WITH_UP, 0, 0, 0}},
    {"gemm+quantize", build_gemm, walk_gemm, NULL, false, "gemm_any", {BF16, 37, 40, 24, WITH_CODES, 0, 0, 0}},
    {"gemm+quantize", build_gemm, walk_gemm, NULL, true, "gemm_combine", {BF16, 72, 136, 40, WITH_CODES, 0, 0, 0}},
    {"gemm in parts of k", build_gemm, walk_gemm, NULL, true, "gemm_combine", {BF16, 64, 72, 1024, 3, 0, 0, 0}},
    {"gemm of codes", build_gemm_scaled, walk_gemm, NULL, false, "gemm_any", {F32, 37, 40, 32, 0, 0, 0, 0}},
    {"activation", build_activation, walk_fours, NULL, false, "activation", {BF16, 37, 1030, 0, 0, 0, 0, 0}},
    {"add of a row", build_add_row, walk_fours, NULL, false, "activation", {BF16, 37, 1030, 0, 0, 0, 0, 0}},
    {"product with a column",
     build_multiply_column,
     walk_fours,
     NULL,
     false,
     "activation",
     {F32, 5, 1030, 0, 0, 0, 0, 0}},
    {"swiglu", build_swiglu, walk_fours, NULL, false, "activation", {BF16, 37, 130, 0, 0, 0, 0, 0}},
    {"cast", build_cast, walk_fours, NULL, false, "quantize", {BF16, 37, 131, 0, 0, 0, 0, 0}},
    {"rmsnorm", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 11, 130, 0, 0, 0, 0, 0}},
    {"rmsnorm", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 3, 4096, 0, 0, 0, 0, 0}},
    {"rmsnorm", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {F32, 2, 9220, 0, 0, 0, 0, 0}},
    {"add+rmsnorm", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 3, 1024, 0, WITH_SUM, 0, 0, 0}},
    {"add+rmsnorm", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 2, 9220, 0, WITH_SUM, 0, 0, 0}},
    {"rmsnorm+quantize", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 3, 1024, 0, WITH_CODES, 0, 0, 0}},
    {"rmsnorm+quantize", build_rmsnorm, walk_rows, NULL, false, "rmsnorm", {BF16, 2, 9220, 0, 40, 0, 0, 0}},
    {"softmax", build_softmax, walk_rows, NULL, false, "softmax", {F32, 11, 130, 0, 0, 0, 0, 0}},
    {"softmax", build_softmax, walk_rows, NULL, false, "softmax", {BF16, 3, 2050, 0, WITH_MASK, 0, 0, 0}},
    {"softmax", build_softmax, walk_rows, NULL, false, "softmax", {F32, 2, 9220, 0, WITH_MASK, 0, 0, 0}},
    {"quantize", build_quantize, walk_quantize, NULL, false, "quantize_row", {BF16, 5, 1030, 0, 0, 0, 0, 0}},
    {"quantize by scales", build_quantize_given, walk_fours, NULL, false, "quantize", {BF16, 5, 1030, 0, 0, 0, 0, 0}},
    {"dequantize", build_dequantize, walk_fours, NULL, false, "quantize", {BF16, 5, 1030, 0, 0, 0, 0, 0}},
    {"transpose", build_transpose, walk_once, NULL, false, "transpose", {BF16, 37, 40, 3, 0, 0, 0, 0}},
    {"rope", build_rope, walk_rope, shared_rope, false, "rope", {BF16, 37, 0, 64, 0, 5, 0, 0}},
    {"gather", build_gather, walk_fours, NULL, false, "gather", {BF16, 37, 1030, 0, 0, 0, 0, 0}},
    {"attention", build_attention, walk_attention, NULL, false, "attention", {F32, 21, 141, 32, 0, 4, 2, 0}},
    {"attention", build_attention, walk_attention, NULL, false, "attention", {F32, 21, 141, 32, 0, 4, 2, 1}},
    {"attention", build_attention, walk_attention, NULL, false, "attention", {F32, 75, 141, 32, 0, 2, 2, 2}},
    {"attention",
     build_attention,
     walk_attention,
     shared_mask,
     false,
     "attention",
     {F32, 21, 70, 32, WITH_MASK, 4, 2, 0}},
    {"attention", build_attention, walk_attention, NULL, false, "attention_mma", {BF16, 128, 128, 64, 0, 2, 2, 0}},
    {"attention", build_attention, walk_attention, NULL, false, "attention_mma", {BF16, 75, 141, 64, 0, 4, 2, 0}},
    {"attention", build_attention, walk_attention, NULL, false, "attention_mma", {BF16, 75, 141, 64, 0, 4, 2, 1}},
    {"attention", build_attention, walk_attention, NULL, false, "attention_mma", {BF16, 150, 141, 64, 0, 2, 2, 2}},
};

static void test_bytes(void **state)
{
    fixture *f = *state;
    bool right = true;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        right = check(f, &cases[i]) && right;
    }
    assert_true(right);
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
