/* fusion_graphs.h - short ways to build a graph, fuse it, and ask what became of it. */
#ifndef FUSION_GRAPHS_H
#define FUSION_GRAPHS_H

#include "unit.h"

#include "fusion.h"

typedef struct fixture {
    hal_graph *graph;
    hal_program program;
    hal_decisions decisions;
    hal_fusion_options options;
    hal_device_info info;
    hal_model_machine machine;
    uint32_t names;
} fixture;

static inline fixture start_graph(hal_fusion policy)
{
    fixture f = {.options = {.policy = policy, .rows = 1024},
                 .info = {.type = HAL_DEVICE_DISCRETE,
                          .compute_units = 132,
                          .max_group_size = 1024,
                          .max_group_dim = {1024, 1024, 64},
                          .max_shared_memory = 232448,
                          .subgroup_size = 32,
                          .matrix_units = true,
                          .async_matrix = true}};
    assert_int_equal(hal_graph_create(NULL, &f.graph), HAL_OK);
    assert_int_equal(hal_model_machine_named("H100", &f.machine), HAL_OK);
    return f;
}

/* Inputs x0, x1, ... and constants c2, ..., outputs y5, ... */
static inline hal_tensor input(fixture *f, hal_dtype dtype, hal_dims dims)
{
    char name[16];
    snprintf(name, sizeof name, "x%u", f->names++);
    return hal_graph_input(f->graph, name, dtype, dims);
}

static inline hal_tensor weights(fixture *f, hal_dtype dtype, hal_dims dims)
{
    char name[16];
    snprintf(name, sizeof name, "c%u", f->names++);
    return hal_graph_constant(f->graph, name, dtype, dims, (hal_span){0});
}

static inline void output(fixture *f, hal_tensor tensor)
{
    char name[16];
    snprintf(name, sizeof name, "y%u", f->names++);
    hal_graph_output(f->graph, name, tensor);
}

static inline void fuse(fixture *f)
{
    if (hal_graph_status(f->graph) != HAL_OK) {
        fail_msg("%s", hal_last_error());
    }
    f->options.info = &f->info;
    f->options.machine = &f->machine;
    assert_int_equal(hal_program_copy(hal_graph_program(f->graph), &f->program), HAL_OK);
    assert_int_equal(hal_fuse(&f->program, &f->options, &f->decisions), HAL_OK);
}

static inline void end_graph(fixture *f)
{
    hal_decisions_clear(&f->decisions);
    hal_program_clear(&f->program);
    hal_graph_destroy(f->graph);
}

/* The steps' names, in order: "gemm+silu, rmsnorm". */
static inline void expect_steps(const fixture *f, const char *want)
{
    char got[1024] = "", name[HAL_STEP_NAME];
    for (uint32_t i = 0; i < f->program.step_count; i++) {
        strcat(strcat(got, i ? ", " : ""), hal_step_name(&f->program.steps[i], name));
    }
    assert_string_equal(got, want);
}

static inline const hal_decision *decision(const fixture *f, const char *rule)
{
    for (uint32_t i = 0; i < f->decisions.count; i++) {
        if (strcmp(f->decisions.list[i].rule, rule) == 0) {
            return &f->decisions.list[i];
        }
    }
    return NULL;
}

/* The first decision of a rule; `words` are in its reason. */
static inline const hal_decision *expect(const fixture *f, const char *rule, hal_verdict verdict, const char *words)
{
    const hal_decision *d = decision(f, rule);
    char text[HAL_DECISION_TEXT];
    if (!d) {
        fail_msg("no '%s'", rule);
    } else if (d->verdict != verdict || !strstr(hal_decision_reason(d, text), words)) {
        fail_msg("%s: verdict %d, '%s'; not %d, '%s'", rule, d->verdict, hal_decision_reason(d, text), verdict, words);
    }
    return d;
}

/* Fuses, expects, and ends. */
static inline void expect_alone(fixture *f, const char *rule, hal_verdict verdict, const char *words)
{
    fuse(f);
    expect(f, rule, verdict, words);
    end_graph(f);
}

#endif
