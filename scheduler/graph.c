/* graph.c - graphs: what goes in and comes out, and the first failure. The operators' calls are in graph_build.c. */
#include "graph_build.h"

#include "internal.h"
#include <stdarg.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { GRAPH_TYPE = 0x48414c47 };

struct hal_graph {
    uint32_t type;
    uint32_t tag; /* hal_tensor.graph */
    hal_status failed;
    char failure[512];
    hal_program program;
    uint32_t *names; /* tensors with a name that was given, by its hash; 0: a free place. Half are free */
    uint32_t name_places, name_count;
};

static bool is_graph(const hal_graph *graph)
{
    return graph && graph->type == GRAPH_TYPE;
}

static hal_status check_graph(const hal_graph *graph, const char *op)
{
    return is_graph(graph) ? HAL_OK
                           : hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: graph is %s; use what hal_graph_create gave", op,
                                      graph ? "not a live graph" : "NULL");
}

hal_status hal_graph_create(const hal_graph_desc *given, hal_graph **graph)
{
    if (!graph) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_graph_create: graph is NULL; pass where to put it");
    }
    *graph = NULL;
    hal_graph_desc desc;
    hal_status status = hal_desc_read(given, &desc, sizeof desc, "hal_graph_desc");
    if (status != HAL_OK) {
        return status;
    }
    hal_graph *made = calloc(1, sizeof *made);
    char *label = made ? strdup(desc.label && *desc.label ? desc.label : "graph") : NULL;
    if (!label) {
        free(made);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_graph_create: out of host memory");
    }
    made->type = GRAPH_TYPE;
    made->tag = (uint32_t)(hal_now() ^ (uintptr_t)made >> 4);
    made->program.label = label;
    *graph = made;
    return HAL_OK;
}

void hal_graph_destroy(hal_graph *graph)
{
    if (is_graph(graph)) {
        hal_program_clear(&graph->program);
        free(graph->names);
        graph->type = 0;
        free(graph);
    }
}

hal_status hal_graph_usable(const hal_graph *graph, const char *op)
{
    hal_status status = check_graph(graph, op);
    if (status != HAL_OK || graph->failed == HAL_OK) {
        return status;
    }
    return hal_fail(graph->failed, "%s", graph->failure);
}

hal_status hal_graph_status(const hal_graph *graph)
{
    return hal_graph_usable(graph, "hal_graph_status");
}

const hal_program *hal_graph_program(const hal_graph *graph)
{
    return &graph->program;
}

bool hal_graph_refuse(hal_graph *graph, hal_status status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(graph->failure, sizeof graph->failure, format, values);
    va_end(values);
    graph->failed = status;
    hal_set_error("%s", graph->failure);
    return false;
}

/* What has just failed below, with its message. */
static bool pass_on(hal_graph *graph, hal_status status)
{
    return hal_graph_refuse(graph, status, "%s", hal_last_error());
}

bool hal_graph_takes(hal_graph *graph, const char *op)
{
    return check_graph(graph, op) == HAL_OK && graph->failed == HAL_OK;
}

bool hal_graph_options(hal_graph *graph, const void *given, void *options, size_t size, const char *type)
{
    hal_status status = hal_desc_read(given, options, size, type);
    return status == HAL_OK || pass_on(graph, status);
}

/* "f32, f16 or bf16" */
static void name_types(unsigned takes, char text[64])
{
    size_t used = 0;
    for (unsigned dtype = 0; dtype <= HAL_F8E4M3; dtype++) {
        if (takes >> dtype & 1) {
            const char *between = !used ? "" : takes >> (dtype + 1) ? ", " : " or ";
            used += (size_t)snprintf(text + used, 64 - used, "%s%s", between,
                                     dtype ? hal_dtype_name((hal_dtype)dtype) : "indices");
        }
    }
}

/* The id, checked. 0: refused. */
static uint32_t id_of(hal_graph *graph, const char *op, const char *field, hal_tensor tensor)
{
    if (tensor.id == 0) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: %s is no tensor; pass one of the graph's", op, field);
        return 0;
    }
    if (tensor.graph != graph->tag || tensor.id >= graph->program.tensor_count) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: %s, tensor %u, is not of graph '%s'", op, field,
                         tensor.id, graph->program.label);
        return 0;
    }
    return tensor.id;
}

const hal_tensor_info *hal_graph_operand(hal_graph *graph, const char *op, const char *field, hal_tensor tensor,
                                         unsigned takes)
{
    const uint32_t id = id_of(graph, op, field, tensor);
    if (!id) {
        return NULL;
    }
    const hal_tensor_info *info = &graph->program.tensors[id];
    if (!(takes >> info->dtype & 1)) {
        char types[64];
        name_types(takes, types);
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: %s, '%s', is of %s; use %s", op, field, info->name,
                         hal_tensor_dtype_name(info), types);
        return NULL;
    }
    return info;
}

bool hal_graph_optional(hal_graph *graph, const char *op, const char *field, hal_tensor tensor, unsigned takes,
                        const hal_tensor_info **info)
{
    *info = NULL;
    if (tensor.id) {
        *info = hal_graph_operand(graph, op, field, tensor, takes);
        return *info != NULL;
    }
    return true;
}

/* Dimensions and sizes stay below 2^31 rows and columns, so that no count of bytes passes 64 bits whatever HAL_ROWS
 * becomes. */
static bool check_dims(hal_graph *graph, const char *op, const char *name, const hal_dims *dims, bool may_vary)
{
    if (dims->rank < 1 || dims->rank > HAL_MAX_RANK) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: rank of '%s' is %u; use 1 to %d", op, name,
                                dims->rank, HAL_MAX_RANK);
    }
    uint64_t row = 1; /* elements but for the first dimension */
    for (uint32_t i = dims->rank; i-- > 0;) {
        const uint64_t size = dims->size[i];
        if (size == HAL_ROWS && (i > 0 || !may_vary)) {
            return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                    i ? "%s: dimension %u of '%s' is HAL_ROWS; only the first may be"
                                      : "%s: dimension %u of '%s' is HAL_ROWS; a constant has fixed dimensions",
                                    op, i, name);
        }
        if (size != HAL_ROWS && (size == 0 || size > INT32_MAX)) {
            return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                    "%s: dimension %u of '%s' is %llu; use 1 to 2^31 - 1", op, i, name,
                                    (unsigned long long)size);
        }
        row *= i > 0 ? size : 1;
        if (row > INT32_MAX) {
            return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                    "%s: dimensions of '%s' but the first multiply to more than 2^31 - 1", op, name);
        }
    }
    return true;
}

/* Where a name is, or the free place where it would be. */
static uint32_t *place_of(const hal_graph *graph, const char *name)
{
    uint32_t at = (uint32_t)XXH3_64bits(name, strlen(name)) & (graph->name_places - 1);
    while (graph->names[at] && strcmp(graph->program.tensors[graph->names[at]].name, name) != 0) {
        at = (at + 1) & (graph->name_places - 1);
    }
    return &graph->names[at];
}

/* For one more name. */
static bool make_room(hal_graph *graph)
{
    if (2 * (graph->name_count + 1) <= graph->name_places) {
        return true;
    }
    const uint32_t places = graph->name_places;
    uint32_t *names = graph->names, *larger = calloc(places ? 2 * places : 64, sizeof *larger);
    if (!larger) {
        return hal_graph_refuse(graph, HAL_ERROR_OUT_OF_MEMORY, "out of host memory for the names of a graph");
    }
    graph->names = larger;
    graph->name_places = places ? 2 * places : 64;
    for (uint32_t i = 0; i < places; i++) {
        if (names[i]) {
            *place_of(graph, graph->program.tensors[names[i]].name) = names[i];
        }
    }
    free(names);
    return true;
}

/* The name of a tensor that check_name has let pass. */
static void note_name(hal_graph *graph, uint32_t id)
{
    *place_of(graph, graph->program.tensors[id].name) = id;
    graph->name_count++;
}

static bool check_name(hal_graph *graph, const char *op, const char *name)
{
    if (!name || !*name || *name == '%') {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                "%s: name is %s%s%s; give one that does not begin with %%", op, name ? "'" : "",
                                name ? name : "NULL", name ? "'" : "");
    }
    if (!make_room(graph)) {
        return false;
    }
    return !*place_of(graph, name) ||
           hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                            "%s: there is a tensor '%s' already; names are unique in a graph", op, name);
}

static hal_tensor add(hal_graph *graph, const hal_tensor_info *info, const char *name)
{
    uint32_t id;
    hal_status status = hal_program_add_tensor(&graph->program, info, name, &id);
    if (status != HAL_OK) {
        pass_on(graph, status);
        return HAL_NO_TENSOR;
    }
    if (name) {
        note_name(graph, id);
    }
    return (hal_tensor){id, graph->tag};
}

static hal_tensor add_input(hal_graph *graph, const char *op, const char *name, hal_dtype dtype, uint32_t element_size,
                            const hal_dims *dims)
{
    if (!check_name(graph, op, name) || !check_dims(graph, op, name, dims, true)) {
        return HAL_NO_TENSOR;
    }
    const hal_tensor_info info = {.kind = HAL_TENSOR_INPUT,
                                  .dtype = dtype,
                                  .element_size = element_size,
                                  .dims = *dims,
                                  .slot = graph->program.inputs};
    const hal_tensor made = add(graph, &info, name);
    graph->program.inputs += made.id != 0;
    return made;
}

static bool check_dtype(hal_graph *graph, const char *op, const char *name, hal_dtype dtype)
{
    return hal_dtype_size(dtype) ||
           hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: dtype of '%s' is %d; use a hal_dtype", op,
                            name ? name : "NULL", (int)dtype);
}

hal_tensor hal_graph_input(hal_graph *graph, const char *name, hal_dtype dtype, hal_dims dims)
{
    static const char op[] = "hal_graph_input";
    if (!hal_graph_takes(graph, op) || !check_dtype(graph, op, name, dtype)) {
        return HAL_NO_TENSOR;
    }
    return add_input(graph, op, name, dtype, hal_dtype_size(dtype), &dims);
}

hal_tensor hal_graph_index_input(hal_graph *graph, const char *name, uint32_t element_size, hal_dims dims)
{
    static const char op[] = "hal_graph_index_input";
    if (!hal_graph_takes(graph, op)) {
        return HAL_NO_TENSOR;
    }
    if (element_size != 4 && element_size != 8) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: element_size of '%s' is %u; use 4 or 8", op,
                         name ? name : "NULL", element_size);
        return HAL_NO_TENSOR;
    }
    return add_input(graph, op, name, HAL_DTYPE_DEFAULT, element_size, &dims);
}

/* The span of a constant: none, or of a buffer that has it all. */
static bool check_span(hal_graph *graph, const char *op, const char *name, const hal_tensor_info *info)
{
    const hal_span *span = &info->constant;
    if (span->kind == HAL_SPAN_NONE) {
        return true;
    }
    if (span->kind != HAL_SPAN_BUFFER) {
        return hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT,
                                "%s: span of '%s' is of a slot; constants lie in a buffer", op, name);
    }
    hal_status status = hal_check(span->buffer, HAL_TYPE_BUFFER, "hal_graph_constant: span.buffer");
    if (status != HAL_OK) {
        return pass_on(graph, status);
    }
    const uint64_t end = hal_buffer_size(span->buffer), bytes = hal_tensor_bytes(info, 0);
    const uint64_t rest = span->offset > end ? 0 : end - span->offset;
    const uint64_t room = span->size == HAL_REST ? rest : span->size;
    if (room > rest || room < bytes) {
        return hal_graph_refuse(graph, HAL_ERROR_OUT_OF_RANGE,
                                "%s: '%s' is %llu bytes; its span has %llu, and buffer '%s' %llu from byte %llu on", op,
                                name, (unsigned long long)bytes, (unsigned long long)room,
                                hal_buffer_label(span->buffer), (unsigned long long)rest,
                                (unsigned long long)span->offset);
    }
    if (span->offset % info->element_size) {
        return hal_graph_refuse(graph, HAL_ERROR_ALIGNMENT, "%s: '%s' starts at byte %llu; use a multiple of %u", op,
                                name, (unsigned long long)span->offset, info->element_size);
    }
    return true;
}

hal_tensor hal_graph_constant(hal_graph *graph, const char *name, hal_dtype dtype, hal_dims dims, hal_span span)
{
    static const char op[] = "hal_graph_constant";
    if (!hal_graph_takes(graph, op) || !check_dtype(graph, op, name, dtype) || !check_name(graph, op, name) ||
        !check_dims(graph, op, name, &dims, false)) {
        return HAL_NO_TENSOR;
    }
    const hal_tensor_info info = {.kind = HAL_TENSOR_CONSTANT,
                                  .dtype = dtype,
                                  .element_size = hal_dtype_size(dtype),
                                  .dims = dims,
                                  .constant = span};
    return check_span(graph, op, name, &info) ? add(graph, &info, name) : HAL_NO_TENSOR;
}

void hal_graph_output(hal_graph *graph, const char *name, hal_tensor tensor)
{
    static const char op[] = "hal_graph_output";
    if (!hal_graph_takes(graph, op)) {
        return;
    }
    const uint32_t id = id_of(graph, op, "tensor", tensor);
    if (!id || !check_name(graph, op, name)) {
        return;
    }
    hal_tensor_info *info = &graph->program.tensors[id];
    if (info->kind != HAL_TENSOR_STEP || info->output) {
        hal_graph_refuse(graph, HAL_ERROR_INVALID_ARGUMENT, "%s: '%s' is '%s', which is %s", op, name, info->name,
                         info->output ? "an output already" : "no operator's result");
        return;
    }
    char *copy = strdup(name);
    if (!copy) {
        hal_graph_refuse(graph, HAL_ERROR_OUT_OF_MEMORY, "%s: out of host memory for the name '%s'", op, name);
        return;
    }
    free(info->name);
    info->name = copy;
    note_name(graph, id);
    info->output = true;
    info->output_slot = graph->program.outputs++;
}

hal_tensor hal_graph_result(hal_graph *graph, const char *op, hal_step *step, hal_role role, hal_dtype dtype,
                            const hal_dims *dims)
{
    if (!check_dims(graph, op, "result", dims, true)) {
        return HAL_NO_TENSOR;
    }
    const hal_tensor_info info = {
        .kind = HAL_TENSOR_STEP, .dtype = dtype, .element_size = hal_dtype_size(dtype), .dims = *dims};
    const hal_tensor made = add(graph, &info, NULL);
    step->tensors[role] = made.id;
    return made;
}

bool hal_graph_step(hal_graph *graph, const hal_step *step)
{
    hal_status status = hal_program_add_step(&graph->program, step);
    return status == HAL_OK || pass_on(graph, status);
}

hal_status hal_graph_tensor(const hal_graph *graph, hal_tensor tensor, hal_dtype *dtype, hal_dims *dims)
{
    static const char op[] = "hal_graph_tensor";
    hal_status status = check_graph(graph, op);
    if (status != HAL_OK) {
        return status;
    }
    if (tensor.id == 0 || tensor.graph != graph->tag || tensor.id >= graph->program.tensor_count) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: tensor %u is not of graph '%s'", op, tensor.id,
                        graph->program.label);
    }
    const hal_tensor_info *info = &graph->program.tensors[tensor.id];
    if (dtype) {
        *dtype = info->dtype;
    }
    if (dims) {
        *dims = info->dims;
    }
    return HAL_OK;
}

hal_status hal_graph_dump(const hal_graph *graph, hal_graph_format format, FILE *out)
{
    hal_status status = check_graph(graph, "hal_graph_dump");
    return status == HAL_OK ? hal_program_dump(&graph->program, format, out) : status;
}
