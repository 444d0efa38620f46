/* plan_case.c - see plan_case.h. */
#include "plan_case.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t poison = 0x5A;

void plan_case_open(plan_case *c, fixture *f, uint64_t most_rows, uint64_t seed)
{
    *c = (plan_case){.f = f, .most_rows = most_rows, .seed = seed};
    OK(hal_graph_create(HAL_GRAPH(.label = "case"), &c->graph));
}

static void upload(plan_case *c, hal_buffer *buffer, const void *bytes, uint64_t size)
{
    OK(hal_cmd_upload(c->f->list, hal_range(buffer, 0, size), bytes, size));
}

/* Multiples of 1/64 in [-1, 1). */
static void fill_numbers(plan_case *c, hal_buffer *buffer, hal_dtype dtype, uint64_t count)
{
    float *values = malloc((count + 1) * sizeof *values);
    uint8_t *bytes = malloc(4 * (count + 1));
    assert_non_null(values);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        values[i] = ((float)random_below(&c->seed, 128) - 64) / 64;
    }
    OK(hal_numeric_encode(dtype, values, count, bytes));
    upload(c, buffer, bytes, count * hal_dtype_size(dtype));
    free(values);
    free(bytes);
}

hal_tensor plan_weight(plan_case *c, const char *name, hal_dtype dtype, uint64_t rows, uint64_t columns)
{
    const uint64_t size = rows * columns * hal_dtype_size(dtype);
    hal_buffer **buffer = &c->weights[c->weight_count++];
    assert_true(c->weight_count <= CASE_WEIGHTS);
    OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size, .label = name), buffer));
    fill_numbers(c, *buffer, dtype, rows * columns);
    hal_dims dims = rows == 1 ? HAL_DIMS(columns) : HAL_DIMS(rows, columns);
    return hal_graph_constant(c->graph, name, dtype, dims, hal_whole(*buffer));
}

static void fill_indices(plan_case *c, hal_buffer *buffer, uint32_t element_size, uint64_t count, uint32_t limit)
{
    uint8_t *bytes = calloc(count + 1, element_size);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t value = limit ? random_below(&c->seed, limit) : (uint32_t)c->most_rows;
        memcpy(bytes + i * element_size, &value, sizeof value);
    }
    upload(c, buffer, bytes, count * element_size);
    free(bytes);
}

void plan_case_memory(plan_case *c)
{
    OK(hal_graph_status(c->graph));
    const hal_program *program = hal_graph_program(c->graph);
    c->inputs = program->inputs;
    c->outputs = program->outputs;
    assert_true(c->inputs + c->outputs <= CASE_SLOTS);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->kind != HAL_TENSOR_INPUT && !tensor->output) {
            continue;
        }
        const uint32_t slot = tensor->output ? c->inputs + tensor->output_slot : tensor->slot;
        const uint64_t size = hal_tensor_bytes(tensor, c->most_rows);
        OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size, .label = tensor->name), &c->buffers[slot]));
        if (tensor->output) {
            c->want[slot] = malloc(size + 1);
            assert_non_null(c->want[slot]);
        } else if (tensor->dtype == HAL_DTYPE_DEFAULT) {
            fill_indices(c, c->buffers[slot], tensor->element_size, size / tensor->element_size, c->index_limits[slot]);
        } else {
            fill_numbers(c, c->buffers[slot], tensor->dtype, size / tensor->element_size);
        }
    }
    OK(hal_stream_wait(c->f->stream, TEST_TIMEOUT));
}

void plan_case_close(plan_case *c)
{
    hal_graph_destroy(c->graph);
    for (uint32_t i = 0; i < c->weight_count; i++) {
        hal_buffer_destroy(c->weights[i]);
    }
    for (uint32_t i = 0; i < CASE_SLOTS; i++) {
        hal_buffer_destroy(c->buffers[i]);
        free(c->want[i]);
    }
}

void plan_case_ffn(plan_case *c, fixture *f, hal_dtype dtype, uint64_t h, uint64_t inner, uint64_t most_rows)
{
    plan_case_open(c, f, most_rows, 1);
    hal_graph *g = c->graph;
    hal_tensor x = hal_graph_input(g, "x", dtype, HAL_DIMS(HAL_ROWS, h));
    hal_tensor norm = hal_graph_rmsnorm(g, x, plan_weight(c, "norm", dtype, 1, h), 1e-6f);
    hal_tensor gate = hal_graph_gemm(g, norm, plan_weight(c, "gate", dtype, h, inner), NULL);
    hal_tensor up = hal_graph_gemm(g, norm, plan_weight(c, "up", dtype, h, inner), NULL);
    hal_tensor hidden = hal_graph_swiglu(g, gate, up);
    hal_tensor down = hal_graph_gemm(g, hidden, plan_weight(c, "down", dtype, inner, h), NULL);
    hal_graph_output(g, "y", hal_graph_add(g, down, x));
    plan_case_memory(c);
}

void plan_case_branches(plan_case *c, fixture *f, uint32_t length, uint64_t most_rows)
{
    plan_case_open(c, f, most_rows, 2);
    hal_graph *g = c->graph;
    hal_tensor x = hal_graph_input(g, "x", HAL_F32, HAL_DIMS(HAL_ROWS, 64)), left = x, right = x;
    hal_tensor weight = plan_weight(c, "weight", HAL_F32, 1, 64);
    for (uint32_t i = 0; i < length; i++) {
        left = i % 2 ? hal_graph_rmsnorm(g, left, weight, 1e-6f) : hal_graph_activation(g, left, HAL_ACT_SILU);
        right = i % 2 ? hal_graph_softmax(g, right, 2.0f, HAL_NO_TENSOR)
                      : hal_graph_activation(g, right, HAL_ACT_GELU_TANH);
    }
    hal_graph_output(g, "y", hal_graph_add(g, left, right));
    plan_case_memory(c);
}

hal_plan *plan_create(const plan_case *c, const hal_plan_desc *desc)
{
    hal_plan *plan;
    OK(hal_plan_create(c->f->device, c->graph, desc, &plan));
    return plan;
}

hal_plan *plan_create_spread(const plan_case *c, const hal_plan_desc *desc)
{
    hal_plan *plan;
    OK(hal_plan_create_with(c->f->device, c->graph, desc, &(hal_plan_hooks){.spread = true}, &plan));
    return plan;
}

hal_status plan_run_on(const plan_case *c, hal_plan *plan, hal_stream *stream, uint64_t rows, hal_buffer *scratch)
{
    hal_span spans[CASE_SLOTS + 1];
    uint32_t count = c->inputs + c->outputs;
    for (uint32_t i = 0; i < count; i++) {
        spans[i] = hal_whole(c->buffers[i]);
    }
    if (scratch) {
        spans[count++] = hal_whole(scratch);
    }
    return hal_plan_run(plan, stream, rows,
                        &(hal_bindings){.struct_size = sizeof(hal_bindings), .spans = spans, .span_count = count});
}

void plan_poison(const plan_case *c)
{
    for (uint32_t i = c->inputs; i < c->inputs + c->outputs; i++) {
        OK(hal_cmd_fill(c->f->list, hal_whole(c->buffers[i]), &poison, 1));
    }
}

/* Bytes of the output in slot i that a run of so many rows writes. */
static uint64_t bytes_of(const plan_case *c, uint32_t slot, uint64_t rows)
{
    const hal_program *program = hal_graph_program(c->graph);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->output && c->inputs + tensor->output_slot == slot) {
            return hal_tensor_bytes(tensor, rows);
        }
    }
    fail();
    return 0;
}

static uint8_t *download(const plan_case *c, uint32_t slot, uint64_t *size)
{
    *size = hal_buffer_size(c->buffers[slot]);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    OK(hal_cmd_download(c->f->list, bytes, hal_whole(c->buffers[slot])));
    OK(hal_stream_wait(c->f->stream, TEST_TIMEOUT));
    return bytes;
}

void plan_compare(const plan_case *c, uint64_t rows, const char *what)
{
    for (uint32_t i = c->inputs; i < c->inputs + c->outputs; i++) {
        uint64_t size;
        uint8_t *got = download(c, i, &size);
        const uint64_t written = bytes_of(c, i, rows);
        for (uint64_t at = 0; at < size; at++) {
            const uint8_t want = at < written ? c->want[i][at] : poison;
            if (got[at] != want) {
                fail_msg("%s, %llu rows: byte %llu of %llu of output %u is %02x, want %02x", what,
                         (unsigned long long)rows, (unsigned long long)at, (unsigned long long)written, i - c->inputs,
                         got[at], want);
            }
        }
        free(got);
    }
}

void plan_expect(plan_case *c, uint64_t rows, hal_mode mode)
{
    hal_plan *plain = plan_create(c, HAL_PLAN(.fusion = HAL_FUSE_NONE, .mode = mode, .measure_rows = rows ? rows : 1));
    plan_poison(c);
    OK(plan_run_on(c, plain, c->f->stream, rows, NULL));
    for (uint32_t i = c->inputs; i < c->inputs + c->outputs; i++) {
        uint64_t size;
        uint8_t *got = download(c, i, &size);
        memcpy(c->want[i], got, size);
        free(got);
    }
    hal_plan_destroy(plain);
}

void plan_check(plan_case *c, hal_plan *plan, uint64_t rows, hal_buffer *scratch, hal_mode mode)
{
    plan_expect(c, rows, mode);
    for (int turn = 0; turn < 2; turn++) { /* recorded, then replayed */
        plan_poison(c);
        OK(plan_run_on(c, plan, c->f->stream, rows, scratch));
        plan_compare(c, rows, turn ? "run again" : "run");
    }
}

hal_plan_stats plan_stats(hal_plan *plan, uint64_t rows)
{
    hal_plan_stats stats = {.struct_size = sizeof stats};
    OK(hal_plan_get_stats(plan, rows, &stats));
    return stats;
}

hal_buffer *plan_scratch(const plan_case *c, hal_plan *plan, uint64_t rows)
{
    uint64_t size;
    hal_buffer *scratch;
    OK(hal_plan_scratch(plan, rows, &size));
    OK(hal_buffer_create(c->f->device, HAL_BUFFER(.size = size, .label = "scratch"), &scratch));
    return scratch;
}
