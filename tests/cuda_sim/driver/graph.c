/* graph.c - the stand-in driver's graphs: nodes and edges, instantiation by copy, updates with the documented limits.
 */
#include "drv.h"

/* -- graphs -------------------------------------------------------------------------------------------------------- */

nv_result cuGraphCreate(nv_graph *out, unsigned int flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    if (flags)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "cuGraphCreate: flags %u", flags));
    drv_graph *graph = drv_new(sizeof *graph, DRV_GRAPH, drv_current());
    *out = (nv_graph)graph;
    return drv_leave(NV_SUCCESS);
}

nv_result cuGraphDestroy(nv_graph handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_graph *graph = (drv_graph *)handle;
    nv_result result = drv_check(graph, DRV_GRAPH, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    for (uint32_t i = 0; i < graph->count; i++) {
        free(graph->nodes[i]->deps);
        graph->nodes[i]->deps = NULL;
        drv_bury(&graph->nodes[i]->object);
    }
    free(graph->nodes);
    graph->nodes = NULL;
    drv_bury(&graph->object);
    return drv_leave(NV_SUCCESS);
}

/* The nodes that `node` waits for: live, of this graph, each once. */
static nv_result take_deps(drv_node *node, const nv_node *deps, size_t count)
{
    node->deps = calloc(count + 1, sizeof *node->deps);
    if (!node->deps)
        abort();
    for (size_t i = 0; i < count; i++) {
        const drv_node *dep = (const drv_node *)deps[i];
        nv_result result = drv_check(dep, DRV_NODE, "a dependency");
        if (result != NV_SUCCESS)
            return result;
        if (dep->graph != node->graph)
            return drv_misuse(NV_ERROR_INVALID_VALUE, "a dependency is a node of another graph");
        for (size_t j = 0; j < i; j++)
            if (node->deps[j] == dep->index)
                return drv_misuse(NV_ERROR_INVALID_VALUE, "a dependency is named twice");
        node->deps[i] = dep->index;
    }
    node->dep_count = (uint32_t)count;
    return NV_SUCCESS;
}

static nv_result add_node(nv_node *out, nv_graph handle, const nv_node *deps, size_t dep_count, const drv_work *work)
{
    drv_graph *graph = (drv_graph *)handle;
    nv_result result = drv_check(graph, DRV_GRAPH, "adding a node");
    if (result != NV_SUCCESS)
        return result;
    drv_node *node = drv_new(sizeof *node, DRV_NODE, drv_current());
    node->graph = graph;
    node->index = graph->count;
    node->work = *work;
    result = take_deps(node, deps, dep_count);
    if (result != NV_SUCCESS) {
        free(node->deps);
        node->deps = NULL;
        drv_bury(&node->object);
        return result;
    }
    if (graph->count == graph->capacity) {
        graph->capacity = 2 * graph->capacity + 16;
        graph->nodes = realloc(graph->nodes, graph->capacity * sizeof(drv_node *));
        if (!graph->nodes)
            abort();
    }
    graph->nodes[graph->count++] = node;
    *out = (nv_node)node;
    return NV_SUCCESS;
}

/* -- what nodes do ------------------------------------------------------------------------------------------------- */

static nv_result take_kernel(drv_work *work, const nv_kernel_node *params)
{
    if (params->extra || params->kern)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a kernel node with extra or kern");
    return drv_work_launch(work, params->func, params->grid, params->block, params->shared_bytes, params->params);
}

static nv_result check_context(nv_context context)
{
    return (drv_context *)context == drv_current()
               ? NV_SUCCESS
               : drv_misuse(NV_ERROR_INVALID_CONTEXT, "a node for another context than the current one");
}

static nv_result take_copy(drv_work *work, const nv_memcpy3d *params)
{
    if (params->src_type != NV_MEMORYTYPE_UNIFIED || params->dst_type != NV_MEMORYTYPE_UNIFIED || params->height != 1 ||
        params->depth != 1 || params->reserved0 || params->reserved1)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a copy node that is not a line between unified addresses");
    return drv_work_copy(work, params->dst_device + params->dst_x, params->src_device + params->src_x, params->width,
                         "a copy node");
}

static nv_result take_fill(drv_work *work, const nv_memset_node *params)
{
    if (params->height != 1)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a fill node of height %zu", params->height);
    return drv_work_fill(work, params->dst, params->value, params->element_size, params->width, "a fill node");
}

nv_result cuGraphAddKernelNode_v2(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                                  const nv_kernel_node *params)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = take_kernel(&work, params);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddMemcpyNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                               const nv_memcpy3d *params, nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = check_context(context);
    if (result == NV_SUCCESS)
        result = take_copy(&work, params);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddMemsetNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                               const nv_memset_node *params, nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = check_context(context);
    if (result == NV_SUCCESS)
        result = take_fill(&work, params);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddEmptyNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_work work = {.kind = DRV_NOTHING};
    return drv_leave(add_node(node, graph, deps, dep_count, &work));
}

/* -- executable graphs --------------------------------------------------------------------------------------------- */

static drv_body *body_new(uint32_t count, uint32_t dep_count)
{
    drv_body *body = calloc(1, sizeof *body);
    if (!body)
        abort();
    body->refs = 1;
    body->count = count;
    body->work = calloc(count + 1u, sizeof *body->work);
    body->dep_start = calloc(count + 1u, sizeof *body->dep_start);
    body->deps = calloc(dep_count + 1u, sizeof *body->deps);
    if (!body->work || !body->dep_start || !body->deps)
        abort();
    return body;
}

static drv_body *body_of(const drv_graph *graph)
{
    uint32_t deps = 0;
    for (uint32_t i = 0; i < graph->count; i++)
        deps += graph->nodes[i]->dep_count;
    drv_body *body = body_new(graph->count, deps);
    for (uint32_t i = 0; i < graph->count; i++) {
        const drv_node *node = graph->nodes[i];
        body->work[i] = node->work;
        body->dep_start[i + 1] = body->dep_start[i] + node->dep_count;
        memcpy(body->deps + body->dep_start[i], node->deps, node->dep_count * sizeof *node->deps);
    }
    return body;
}

void drv_body_drop(drv_body *body)
{
    if (!body || --body->refs > 0)
        return;
    free(body->work);
    free(body->dep_start);
    free(body->deps);
    free(body);
}

static bool is_ready(const drv_body *body, uint32_t index, const bool *done)
{
    for (uint32_t i = body->dep_start[index]; i < body->dep_start[index + 1]; i++)
        if (!done[body->deps[i]])
            return false;
    return true;
}

/* Of the nodes that may run, always the last: what works only in recorded order, for want of an edge, comes out wrong.
 */
nv_result drv_body_run(const drv_body *body)
{
    bool *done = calloc(body->count + 1u, sizeof *done);
    nv_result result = done ? NV_SUCCESS : NV_ERROR_OUT_OF_MEMORY;
    for (uint32_t ran = 0; ran < body->count && result == NV_SUCCESS; ran++) {
        uint32_t next = body->count;
        while (next-- > 0)
            if (!done[next] && is_ready(body, next, done))
                break;
        result = drv_work_run(&body->work[next]);
        done[next] = true;
    }
    free(done);
    return result;
}

nv_result cuGraphInstantiateWithFlags(nv_graph_exec *out, nv_graph handle, unsigned long long flags)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_graph *graph = (drv_graph *)handle;
    nv_result result = drv_check(graph, DRV_GRAPH, __func__);
    if (result == NV_SUCCESS && flags)
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "cuGraphInstantiateWithFlags: flags %llu", flags);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    drv_exec *exec = drv_new(sizeof *exec, DRV_EXEC, drv_current());
    exec->graph = graph;
    exec->body = body_of(graph);
    *out = (nv_graph_exec)exec;
    return drv_leave(NV_SUCCESS);
}

nv_result cuGraphExecDestroy(nv_graph_exec handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_exec *exec = (drv_exec *)handle;
    nv_result result = drv_check(exec, DRV_EXEC, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    drv_body_drop(exec->body); /* launches in flight have their own reference */
    drv_marker_drop(exec->last);
    drv_bury(&exec->object);
    return drv_leave(NV_SUCCESS);
}

/* The work of a node in the executable graph, not shared with a launch in flight. */
static nv_result writable(drv_exec *exec, nv_node handle, drv_work_kind kind, drv_work **work)
{
    const drv_node *node = (const drv_node *)handle;
    nv_result result = drv_check(exec, DRV_EXEC, "setting a node");
    if (result == NV_SUCCESS)
        result = drv_check(node, DRV_NODE, "setting a node");
    if (result != NV_SUCCESS)
        return result;
    if (node->graph != exec->graph || node->work.kind != kind)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "setting a node of another graph or kind");
    if (exec->body->refs > 1) {
        const drv_body *old = exec->body;
        drv_body *copy = body_new(old->count, old->dep_start[old->count]);
        memcpy(copy->work, old->work, old->count * sizeof *old->work);
        memcpy(copy->dep_start, old->dep_start, (old->count + 1u) * sizeof *old->dep_start);
        memcpy(copy->deps, old->deps, old->dep_start[old->count] * sizeof *old->deps);
        drv_body_drop(exec->body);
        exec->body = copy;
    }
    *work = &exec->body->work[node->index];
    return NV_SUCCESS;
}

static bool same_memory(const void *a, const void *b)
{
    const drv_allocation *first = drv_find(a, 1), *second = drv_find(b, 1);
    return first && second && first->kind == second->kind;
}

nv_result cuGraphExecKernelNodeSetParams_v2(nv_graph_exec exec, nv_node node, const nv_kernel_node *params)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work *old = NULL, work = {.kind = DRV_NOTHING};
    nv_result result = writable((drv_exec *)exec, node, DRV_LAUNCH, &old);
    if (result == NV_SUCCESS)
        result = take_kernel(&work, params);
    if (result == NV_SUCCESS && old)
        *old = work;
    return drv_leave(result);
}

nv_result cuGraphExecMemcpyNodeSetParams(nv_graph_exec exec, nv_node node, const nv_memcpy3d *params,
                                         nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work *old = NULL, work = {.kind = DRV_NOTHING};
    nv_result result = writable((drv_exec *)exec, node, DRV_COPY, &old);
    if (result == NV_SUCCESS)
        result = check_context(context);
    if (result == NV_SUCCESS)
        result = take_copy(&work, params);
    /* "Returns CUDA_ERROR_INVALID_VALUE if the memory operands' mappings changed" */
    if (result == NV_SUCCESS && old &&
        (!same_memory(old->copy.dst, work.copy.dst) || !same_memory(old->copy.src, work.copy.src)))
        result = NV_ERROR_INVALID_VALUE;
    if (result == NV_SUCCESS && old)
        *old = work;
    return drv_leave(result);
}

nv_result cuGraphExecMemsetNodeSetParams(nv_graph_exec exec, nv_node node, const nv_memset_node *params,
                                         nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work *old = NULL, work = {.kind = DRV_NOTHING};
    nv_result result = writable((drv_exec *)exec, node, DRV_FILL, &old);
    if (result == NV_SUCCESS)
        result = check_context(context);
    if (result == NV_SUCCESS)
        result = take_fill(&work, params);
    /* Other changes than value and address "may cause the update to be rejected": here growth and element size do. */
    if (result == NV_SUCCESS && old &&
        (!same_memory(old->fill.dst, work.fill.dst) || work.fill.count > old->fill.count ||
         work.fill.element_size != old->fill.element_size))
        result = NV_ERROR_INVALID_VALUE;
    if (result == NV_SUCCESS && old)
        *old = work;
    return drv_leave(result);
}

nv_result cuGraphLaunch(nv_graph_exec handle, nv_stream stream_handle)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_exec *exec = (drv_exec *)handle;
    drv_stream *stream = (drv_stream *)stream_handle;
    nv_result result = drv_check(exec, DRV_EXEC, __func__);
    if (result == NV_SUCCESS)
        result = drv_check(stream, DRV_STREAM, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    drv_op *op = drv_push(stream, DRV_OP_GRAPH);
    op->body = exec->body;
    op->body->refs++;
    op->wait = exec->last; /* behind earlier launches of the same executable graph */
    exec->last = drv_marker_new();
    op->signal = drv_marker_ref(exec->last);
    return drv_leave(NV_SUCCESS);
}
