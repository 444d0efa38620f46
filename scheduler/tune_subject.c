/* tune_subject.c - the operators that hal_tune knows: what they compute on, what there is to choose, and how long it
 * takes at the least. */
#include "tune.h"

#include "attention.h"
#include "core.h"

#include <math.h>

static const char op[] = "hal_tune";

static hal_status nothing_to_choose(const char *why)
{
    return hal_fail(HAL_ERROR_UNSUPPORTED, "%s: nothing to choose: %s", op, why);
}

/* The plain product that is meant. */
static hal_status open_gemm(const hal_gemm_desc *given, hal_tune_subject *s)
{
    gemm_problem p;
    bool empty;
    hal_status status = hal_gemm_resolve(given, false, &p, &empty);
    if (status != HAL_OK) {
        return status;
    }
    if (empty || p.k == 0 || hal_gemm_has_options(&p)) {
        return nothing_to_choose("the product is empty, or has options that one kernel alone can do");
    }
    s->gemm = (hal_gemm_desc){.struct_size = sizeof s->gemm,
                              .m = p.m,
                              .n = p.n,
                              .k = p.k,
                              .batch = p.batch,
                              .stride_a = (uint64_t)p.m * p.k,
                              .stride_b = (uint64_t)p.k * p.n,
                              .dtype = p.operands[GEMM_A].dtype,
                              .dtype_d = p.operands[GEMM_D].dtype,
                              .trans_a = p.trans_a,
                              .trans_b = p.trans_b};
    s->shape = hal_gemm_shape(&p);
    const hal_gemm_desc *g = &s->gemm;
    const hal_dtype dtypes[] = {g->dtype, g->dtype, g->dtype_d};
    const uint64_t elements[] = {g->m * g->k, g->k * g->n, g->m * g->n};
    s->operands = 3;
    for (uint32_t i = 0; i < s->operands; i++) {
        s->dtypes[i] = dtypes[i];
        s->sizes[i] = elements[i] * g->batch * hal_dtype_size(dtypes[i]);
    }
    return hal_gemm_resolve(g, false, &p, &empty); /* its sizes have no more than 64 bits */
}

/* The plain attention that is meant: no mask, no pages, all keys. Splits are added up in another order. */
static hal_status open_attention(const hal_attention_desc *given, hal_tune_subject *s)
{
    attention_problem p;
    bool empty;
    hal_status status = hal_attention_resolve(given, false, &p, &empty);
    if (status != HAL_OK) {
        return status;
    }
    const hal_attention_desc *d = &p.desc;
    if (empty || d->kv_length == 0 || d->batch * d->kv_heads > HAL_MAX_DIMENSION) {
        return nothing_to_choose("there are no queries or no keys, or more than 2^31 heads");
    }
    s->attention = (hal_attention_desc){.struct_size = sizeof s->attention,
                                        .batch = d->batch,
                                        .q_heads = d->q_heads,
                                        .kv_heads = d->kv_heads,
                                        .head_dim = d->head_dim,
                                        .value_dim = d->value_dim,
                                        .q_length = d->q_length,
                                        .kv_length = d->kv_length,
                                        .dtype = d->dtype,
                                        .dtype_o = d->dtype_o};
    status = hal_attention_resolve(&s->attention, false, &p, &empty); /* packed, of no more than 64 bits */
    s->shape = hal_attention_shape(&p);
    s->operands = 4;
    s->error = d->dtype_o == HAL_F32 ? 0x1p-18 : d->dtype_o == HAL_F16 ? 0x1p-9 : 0x1p-6;
    for (uint32_t i = 0; i < s->operands; i++) {
        const hal_operand *o = &p.operands[i];
        s->dtypes[i] = o->dtype;
        s->sizes[i] = o->columns * hal_dtype_size(o->dtype);
    }
    return status;
}

hal_status hal_tune_subject_open(const hal_tune_desc *desc, hal_tune_subject *s)
{
    *s = (hal_tune_subject){.operands = 0};
    if (desc->gemm && desc->attention) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "%s: gemm and attention; give one of them", op);
    }
    return desc->attention ? open_attention(desc->attention, s) : open_gemm(desc->gemm, s);
}

static hal_status bind_gemm(const hal_device_info *info, hal_tune_subject *s, const hal_span *operands)
{
    gemm_problem p;
    bool empty;
    s->gemm.a = operands[0];
    s->gemm.b = operands[1];
    s->gemm.d = operands[2];
    hal_status status = hal_gemm_resolve(&s->gemm, true, &p, &empty);
    s->count = status == HAL_OK ? hal_gemm_choices(info, &p, s->choices) : 0;
    return status;
}

static hal_status bind_attention(hal_device *device, hal_tune_subject *s, const hal_span *operands)
{
    attention_problem p;
    bool empty;
    s->attention.q = operands[0];
    s->attention.k = operands[1];
    s->attention.v = operands[2];
    s->attention.o = operands[3];
    hal_status status = hal_attention_resolve(&s->attention, true, &p, &empty);
    return status == HAL_OK ? hal_attention_choices(device, &p, s->choices, &s->count, &s->workspace) : status;
}

hal_status hal_tune_subject_bind(hal_device *device, hal_tune_subject *s, const hal_span *operands)
{
    return s->shape.op == HAL_TUNED_ATTENTION ? bind_attention(device, s, operands)
                                              : bind_gemm(hal_device_get_info(device), s, operands);
}

/* How many times slower a kernel is than the model's machine: a CPU device that runs kernels made for GPUs. */
static double slowness(hal_device_type type, const gemm_choice *c)
{
    const gemm_kernel kernel = strncmp(c->kernel, "gemm_task", 9) == 0 ? GEMM_KERNEL_TASK : 0;
    return type == HAL_DEVICE_CPU ? hal_gemm_slowest(type, GEMM_KERNEL_TASK) / hal_gemm_slowest(type, kernel) : 1;
}

/* How much longer it takes that the last wave of tasks does not fill the device. */
static double waves(double tasks, double units)
{
    return ceil(tasks / units) * units / tasks;
}

/* The FLOPs with the last wave of tiles as it is, or the bytes that such tiles read. */
static double predict_gemm(const hal_device_info *info, const hal_model_machine *machine, const hal_gemm_desc *g,
                           const gemm_choice *c)
{
    const hal_model_gemm gemm = {.m = g->m,
                                 .k = g->k,
                                 .n = g->n,
                                 .tile_m = c->tile_m,
                                 .tile_k = c->tile_k ? c->tile_k : 16,
                                 .tile_n = c->tile_n,
                                 .a_size = hal_dtype_size(g->dtype),
                                 .b_size = hal_dtype_size(g->dtype),
                                 .d_size = hal_dtype_size(g->dtype_d)};
    hal_model_gemm_cost cost;
    if (hal_model_gemm_costs(&gemm, &cost) != HAL_OK || !cost.tiles) {
        return 0;
    }
    const double batch = (double)g->batch, tiles = (double)cost.tiles * batch;
    const double padded = (double)cost.tiles * c->tile_m * c->tile_n / ((double)g->m * (double)g->n);
    return slowness(info->type, c) *
           hal_model_floor_us(machine, g->dtype,
                              (double)cost.flops * batch * waves(tiles, info->compute_units) * padded,
                              (double)cost.traffic * batch);
}

/* Each tile of rows reads all keys and values; each split stores FP32 parts, which are read again. */
static double predict_attention(const hal_device_info *info, const hal_model_machine *machine,
                                const hal_tune_subject *s, const gemm_choice *c)
{
    const hal_attention_desc *d = &s->attention;
    const double dims = d->head_dim + d->value_dim, heads = s->shape.batch;
    const double tiles = heads * (double)hal_groups(s->shape.m, c->tile_m), rows = tiles * c->tile_m;
    const double parts = c->tile_n > 1 ? 2.0 * heads * s->shape.m * c->tile_n * (d->value_dim + 2) * sizeof(float) : 0;
    const double keys = (double)d->kv_length;
    return hal_model_floor_us(machine, d->dtype, 2 * rows * keys * dims * waves(tiles * c->tile_n, info->compute_units),
                              tiles * keys * dims * hal_dtype_size(d->dtype) + parts);
}

double hal_tune_subject_predict(const hal_device_info *info, const hal_model_machine *machine,
                                const hal_tune_subject *s, const gemm_choice *choice)
{
    return s->shape.op == HAL_TUNED_ATTENTION ? predict_attention(info, machine, s, choice)
                                              : predict_gemm(info, machine, &s->gemm, choice);
}

hal_status hal_tune_subject_run(hal_cmdlist *list, const hal_tune_subject *s, const gemm_choice *choice)
{
    return s->shape.op == HAL_TUNED_ATTENTION ? hal_attention_chosen(list, &s->attention, choice)
                                              : hal_gemm_chosen(list, &s->gemm, choice);
}
