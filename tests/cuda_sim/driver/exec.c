/* exec.c - the stand-in driver's executable graphs: instantiated by copy, updated within the documented limits, run in
 * the most awkward order. */
#include "drv.h"

static drv_body *body_new(uint32_t count, uint32_t dep_count)
{
    drv_body *body = drv_alloc(sizeof *body);
    body->refs = 1;
    body->count = count;
    body->work = drv_alloc(count * sizeof *body->work);
    body->dep_start = drv_alloc((count + 1u) * sizeof *body->dep_start);
    body->deps = drv_alloc(dep_count * sizeof *body->deps);
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
        drv_work_keep(&node->work);
        body->dep_start[i + 1] = body->dep_start[i] + node->dep_count;
        memcpy(body->deps + body->dep_start[i], node->deps, node->dep_count * sizeof *node->deps);
    }
    return body;
}

void drv_body_drop(drv_body *body)
{
    if (!body || --body->refs > 0)
        return;
    for (uint32_t i = 0; i < body->count; i++)
        drv_work_drop(&body->work[i]);
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
nv_result drv_body_run(const drv_body *body, const drv_context *context)
{
    bool *done = calloc(body->count + 1u, sizeof *done);
    nv_result result = done ? NV_SUCCESS : NV_ERROR_OUT_OF_MEMORY;
    for (uint32_t ran = 0; ran < body->count && result == NV_SUCCESS; ran++) {
        uint32_t next = body->count;
        while (next-- > 0)
            if (!done[next] && is_ready(body, next, done))
                break;
        result = drv_work_run(&body->work[next], context);
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

/* -- updates ------------------------------------------------------------------------------------------------------- */

/* The work of a node in the executable graph, or NULL after a misuse. The node must still be in the graph that was
 * instantiated. */
static drv_work *work_of(nv_graph_exec exec_handle, nv_node handle, drv_work_kind kind, nv_result *result)
{
    const drv_exec *exec = (const drv_exec *)exec_handle;
    const drv_node *node = (const drv_node *)handle;
    *result = drv_check(exec, DRV_EXEC, "setting a node");
    if (*result == NV_SUCCESS)
        *result = drv_check(node, DRV_NODE, "setting a node");
    if (*result == NV_SUCCESS &&
        (node->graph != exec->graph || node->index >= exec->body->count || exec->body->work[node->index].kind != kind))
        *result = drv_misuse(NV_ERROR_INVALID_VALUE, "setting a node of another graph or kind");
    return *result == NV_SUCCESS ? &exec->body->work[node->index] : NULL;
}

/* Give a node new work, which is taken over, and leave launches in flight what they have. */
static nv_result replace(nv_graph_exec exec_handle, nv_node handle, const drv_work *work)
{
    drv_exec *exec = (drv_exec *)exec_handle;
    if (exec->body->refs > 1) {
        const drv_body *old = exec->body;
        drv_body *copy = body_new(old->count, old->dep_start[old->count]);
        memcpy(copy->work, old->work, old->count * sizeof *old->work);
        memcpy(copy->dep_start, old->dep_start, (old->count + 1u) * sizeof *old->dep_start);
        memcpy(copy->deps, old->deps, old->dep_start[old->count] * sizeof *old->deps);
        for (uint32_t i = 0; i < copy->count; i++)
            drv_work_keep(&copy->work[i]);
        drv_body_drop(exec->body);
        exec->body = copy;
    }
    drv_work *place = &exec->body->work[((const drv_node *)handle)->index];
    drv_work_drop(place);
    *place = *work;
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
    nv_result result;
    drv_work work;
    const drv_work *old = work_of(exec, node, DRV_LAUNCH, &result);
    if (!old)
        return drv_leave(result);
    result = drv_take_kernel(&work, params, old->launch->cluster);
    return drv_leave(result ? result : replace(exec, node, &work));
}

nv_result cuGraphExecMemcpyNodeSetParams(nv_graph_exec exec, nv_node node, const nv_memcpy3d *params,
                                         nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    nv_result result;
    drv_work work;
    const drv_work *old = work_of(exec, node, DRV_COPY, &result);
    if (!old)
        return drv_leave(result);
    result = drv_take_copy(&work, params, context);
    /* "Returns CUDA_ERROR_INVALID_VALUE if the memory operands' mappings changed" */
    if (result == NV_SUCCESS &&
        (!same_memory(old->copy.dst, work.copy.dst) || !same_memory(old->copy.src, work.copy.src)))
        result = NV_ERROR_INVALID_VALUE;
    return drv_leave(result ? result : replace(exec, node, &work));
}

nv_result cuGraphExecMemsetNodeSetParams(nv_graph_exec exec, nv_node node, const nv_memset_node *params,
                                         nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    nv_result result;
    drv_work work;
    const drv_work *old = work_of(exec, node, DRV_FILL, &result);
    if (!old)
        return drv_leave(result);
    result = drv_take_fill(&work, params, context);
    /* Other changes than value and address "may cause the update to be rejected": here growth and element size do. */
    if (result == NV_SUCCESS && (!same_memory(old->fill.dst, work.fill.dst) || work.fill.count > old->fill.count ||
                                 work.fill.element_size != old->fill.element_size))
        result = NV_ERROR_INVALID_VALUE;
    return drv_leave(result ? result : replace(exec, node, &work));
}

nv_result cuGraphExecHostNodeSetParams(nv_graph_exec exec, nv_node node, const nv_host_node *params)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    nv_result result;
    const drv_work work = {.kind = DRV_HOST, .host = *params};
    work_of(exec, node, DRV_HOST, &result);
    if (result == NV_SUCCESS && !params->fn)
        result = drv_misuse(NV_ERROR_INVALID_VALUE, "a host node without a function");
    return drv_leave(result ? result : replace(exec, node, &work));
}

static nv_result set_event(nv_graph_exec exec, nv_node node, nv_event event, drv_work_kind kind)
{
    nv_result result;
    const drv_work work = {.kind = kind, .event = (drv_event *)event};
    work_of(exec, node, kind, &result);
    if (result == NV_SUCCESS)
        result = drv_check(event, DRV_EVENT, "setting a node");
    return drv_leave(result ? result : replace(exec, node, &work));
}

nv_result cuGraphExecEventRecordNodeSetEvent(nv_graph_exec exec, nv_node node, nv_event event)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return set_event(exec, node, event, DRV_RECORD);
}

nv_result cuGraphExecEventWaitNodeSetEvent(nv_graph_exec exec, nv_node node, nv_event event)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return set_event(exec, node, event, DRV_AWAIT);
}

/* -- launches ------------------------------------------------------------------------------------------------------ */

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
