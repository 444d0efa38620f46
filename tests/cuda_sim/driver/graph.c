/* graph.c - the stand-in driver's graphs: nodes and edges. */
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
        drv_work_drop(&graph->nodes[i]->work);
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
    node->deps = drv_alloc(count * sizeof *node->deps);
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

/* Takes the work over. */
static nv_result add_node(nv_node *out, nv_graph handle, const nv_node *deps, size_t dep_count, const drv_work *work)
{
    drv_graph *graph = (drv_graph *)handle;
    nv_result result = drv_check(graph, DRV_GRAPH, "adding a node");
    if (result != NV_SUCCESS) {
        drv_work_drop(work);
        return result;
    }
    drv_node *node = drv_new(sizeof *node, DRV_NODE, drv_current());
    node->graph = graph;
    node->index = graph->count;
    node->work = *work;
    result = take_deps(node, deps, dep_count);
    if (result != NV_SUCCESS) {
        drv_work_drop(work);
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

nv_result drv_take_kernel(drv_work *work, const nv_kernel_node *params, const unsigned *cluster)
{
    if (params->extra || params->kern)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a kernel node with extra or kern");
    return drv_work_launch(work, params->func, params->grid, params->block, params->shared_bytes, cluster,
                           params->params);
}

static nv_result check_context(nv_context context)
{
    return (drv_context *)context == drv_current()
               ? NV_SUCCESS
               : drv_misuse(NV_ERROR_INVALID_CONTEXT, "a node for another context than the current one");
}

nv_result drv_take_copy(drv_work *work, const nv_memcpy3d *params, nv_context context)
{
    nv_result result = check_context(context);
    if (result != NV_SUCCESS)
        return result;
    if (params->src_type != NV_MEMORYTYPE_UNIFIED || params->dst_type != NV_MEMORYTYPE_UNIFIED || params->height != 1 ||
        params->depth != 1 || params->reserved0 || params->reserved1)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a copy node that is not a line between unified addresses");
    return drv_work_copy(work, params->dst_device + params->dst_x, params->src_device + params->src_x, params->width,
                         "a copy node");
}

nv_result drv_take_fill(drv_work *work, const nv_memset_node *params, nv_context context)
{
    nv_result result = check_context(context);
    if (result != NV_SUCCESS)
        return result;
    if (params->height != 1)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a fill node of height %zu", params->height);
    return drv_work_fill(work, params->dst, params->value, params->element_size, params->width, "a fill node");
}

nv_result cuGraphAddKernelNode_v2(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                                  const nv_kernel_node *params)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = drv_take_kernel(&work, params, NULL);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddMemcpyNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                               const nv_memcpy3d *params, nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = drv_take_copy(&work, params, context);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddMemsetNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                               const nv_memset_node *params, nv_context context)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_work work;
    nv_result result = drv_take_fill(&work, params, context);
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddEmptyNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_work work = {.kind = DRV_NOTHING};
    return drv_leave(add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddHostNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                             const nv_host_node *params)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    const drv_work work = {.kind = DRV_HOST, .host = *params};
    if (!params->fn)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "a host node without a function"));
    return drv_leave(add_node(node, graph, deps, dep_count, &work));
}

static nv_result add_event(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count, nv_event event,
                           drv_work_kind kind)
{
    const drv_work work = {.kind = kind, .event = (drv_event *)event};
    nv_result result = drv_check(event, DRV_EVENT, "an event node");
    return drv_leave(result ? result : add_node(node, graph, deps, dep_count, &work));
}

nv_result cuGraphAddEventRecordNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count,
                                    nv_event event)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return add_event(node, graph, deps, dep_count, event, DRV_RECORD);
}

nv_result cuGraphAddEventWaitNode(nv_node *node, nv_graph graph, const nv_node *deps, size_t dep_count, nv_event event)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return add_event(node, graph, deps, dep_count, event, DRV_AWAIT);
}

/* Clusters are an attribute of the node, as its parameters have no place for them. Executable graphs made before keep
 * the launch that they have. */
nv_result cuGraphKernelNodeSetAttribute(nv_node handle, nv_launch_attribute_id attribute, const nv_launch_value *value)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_node *node = (drv_node *)handle;
    nv_result result = drv_check(node, DRV_NODE, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    if (node->work.kind != DRV_LAUNCH || attribute != NV_LAUNCH_CLUSTER_DIMENSION || !value)
        return drv_leave(drv_misuse(NV_ERROR_INVALID_VALUE, "node attribute %d", (int)attribute));
    const drv_launch *old = node->work.launch;
    result = drv_check_cluster(old->code->name, old->grid, value->cluster, false);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    size_t size = sizeof *old + old->code->param_bytes;
    drv_launch *launch = memcpy(drv_alloc(size), old, size);
    launch->refs = 1;
    launch->image->refs++;
    memcpy(launch->cluster, value->cluster, sizeof launch->cluster);
    drv_work_drop(&node->work);
    node->work.launch = launch;
    return drv_leave(NV_SUCCESS);
}
