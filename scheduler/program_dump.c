/* program_dump.c - a program as text, for Graphviz, and as JSON. */
#include "program.h"

#include "core.h"
#include "json_write.h"

static const char *kind_name(hal_tensor_kind kind)
{
    static const char *const names[] = {"input", "constant", "step", "fused"};
    return names[kind];
}

/* The numbers of a step that are not zero, by name. */
typedef struct attribute {
    const char *name;
    float value;
} attribute;
enum { ATTRIBUTES = 9 };

static uint32_t attributes_of(const hal_step *step, attribute list[ATTRIBUTES])
{
    const attribute all[ATTRIBUTES] = {{"alpha", step->alpha},
                                       {"eps", step->eps},
                                       {"scale", step->scale},
                                       {"softcap", step->softcap},
                                       {"causal", (float)step->causal},
                                       {"heads", (float)step->heads},
                                       {"kv_heads", (float)step->kv_heads},
                                       {"trans_b", (float)step->trans_b},
                                       {"log", (float)step->log}};
    uint32_t count = 0;
    for (uint32_t i = 0; i < ATTRIBUTES; i++) {
        if (all[i].value != 0) {
            list[count++] = all[i];
        }
    }
    return count;
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

void hal_program_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        fputc(is_control(*text) ? ' ' : *text, out);
    }
}

/* "y: bf16 [rows, 64]" */
static void text_tensor(const hal_tensor_info *tensor, FILE *out)
{
    char dims[HAL_DIMS_TEXT];
    hal_program_text(out, tensor->name);
    fprintf(out, ": %s %s", hal_tensor_dtype_name(tensor), hal_dims_text(&tensor->dims, dims));
}

static void text_step(const hal_program *program, const hal_step *step, FILE *out)
{
    char name[HAL_STEP_NAME];
    attribute attributes[ATTRIBUTES];
    const char *between = "  ";
    for (uint32_t role = HAL_ROLE_FIRST_OUTPUT; role < HAL_ROLES; role++) {
        if (step->tensors[role]) {
            fputs(between, out);
            text_tensor(&program->tensors[step->tensors[role]], out);
            between = ", ";
        }
    }
    fprintf(out, " = %s(", hal_step_name(step, name));
    between = "";
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        if (step->tensors[role]) {
            fprintf(out, "%s%s ", between, hal_role_name((hal_role)role));
            hal_program_text(out, program->tensors[step->tensors[role]].name);
            between = ", ";
        }
    }
    fputs(")", out);
    const uint32_t count = attributes_of(step, attributes);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, " %s ", attributes[i].name);
        hal_json_write_float(out, attributes[i].value);
    }
    for (uint32_t i = 0; step->op == HAL_STEP_TRANSPOSE && i < program->tensors[step->tensors[HAL_ROLE_X]].dims.rank;
         i++) {
        fprintf(out, "%s%u", i ? ", " : " perm ", step->perm[i]);
    }
    if (step->round_between != HAL_DTYPE_DEFAULT) {
        fprintf(out, " between %s", hal_dtype_name(step->round_between));
    }
    fputc('\n', out);
}

static uint32_t output_at(const hal_program *program, uint32_t slot)
{
    uint32_t id = 1;
    while (!program->tensors[id].output || program->tensors[id].output_slot != slot) {
        id++;
    }
    return id;
}

static void dump_text(const hal_program *program, FILE *out)
{
    fputs("graph ", out);
    hal_program_text(out, program->label);
    fputc('\n', out);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->kind == HAL_TENSOR_INPUT || tensor->kind == HAL_TENSOR_CONSTANT) {
            fprintf(out, "  %s ", kind_name(tensor->kind));
            text_tensor(tensor, out);
            fputc('\n', out);
        }
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        text_step(program, &program->steps[i], out);
    }
    for (uint32_t slot = 0; slot < program->outputs; slot++) {
        fputs("  output ", out);
        hal_program_text(out, program->tensors[output_at(program, slot)].name);
        fputc('\n', out);
    }
}

/* A quoted string of the DOT language. */
static void dot_string(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(is_control(*text) ? ' ' : *text, out);
    }
}

static void dump_dot(const hal_program *program, FILE *out)
{
    char text[HAL_DIMS_TEXT];
    fputs("digraph \"", out);
    dot_string(out, program->label);
    fputs("\" {\n  node [shape=box, fontname=\"sans-serif\"];\n", out);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        if (tensor->kind == HAL_TENSOR_FUSED) {
            continue;
        }
        fprintf(out, "  t%u [style=%s, label=\"", i,
                tensor->kind == HAL_TENSOR_STEP && !tensor->output ? "dotted" : "solid");
        dot_string(out, tensor->name);
        fprintf(out, "\\n%s %s\"];\n", hal_tensor_dtype_name(tensor), hal_dims_text(&tensor->dims, text));
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hal_step *step = &program->steps[i];
        char name[HAL_STEP_NAME];
        fprintf(out, "  s%u [shape=ellipse, style=filled, fillcolor=\"#e8f0fe\", label=\"%s\"];\n", i,
                hal_step_name(step, name));
        for (uint32_t role = 0; role < HAL_ROLES; role++) {
            const uint32_t tensor = step->tensors[role];
            if (tensor && hal_role_written(role)) {
                fprintf(out, "  s%u -> t%u [label=\"%s\"];\n", i, tensor, hal_role_name((hal_role)role));
            } else if (tensor) {
                fprintf(out, "  t%u -> s%u [label=\"%s\"];\n", tensor, i, hal_role_name((hal_role)role));
            }
        }
    }
    fputs("}\n", out);
}

static void json_tensor(const hal_program *program, uint32_t id, FILE *out)
{
    const hal_tensor_info *tensor = &program->tensors[id];
    fprintf(out, "%s\n    {\"id\": %u, \"name\": ", id > 1 ? "," : "", id);
    hal_json_write_string(out, tensor->name);
    fprintf(out, ", \"kind\": \"%s\", \"dtype\": \"%s\", \"dims\": [", kind_name(tensor->kind),
            hal_tensor_dtype_name(tensor));
    for (uint32_t i = 0; i < tensor->dims.rank; i++) {
        const uint64_t size = tensor->dims.size[i];
        fputs(i ? ", " : "", out);
        if (size == HAL_ROWS) {
            fputs("\"rows\"", out);
        } else {
            fprintf(out, "%llu", (unsigned long long)size);
        }
    }
    fputc(']', out);
    if (tensor->kind == HAL_TENSOR_INPUT) {
        fprintf(out, ", \"input\": %u", tensor->slot);
    }
    if (tensor->output) {
        fprintf(out, ", \"output\": %u", tensor->output_slot);
    }
    fputc('}', out);
}

static void json_roles(const hal_step *step, const char *key, uint32_t first, uint32_t end, FILE *out)
{
    const char *between = "";
    fprintf(out, ", \"%s\": {", key);
    for (uint32_t role = first; role < end; role++) {
        if (step->tensors[role]) {
            fprintf(out, "%s\"%s\": %u", between, hal_role_name((hal_role)role), step->tensors[role]);
            between = ", ";
        }
    }
    fputc('}', out);
}

static void json_step(const hal_program *program, uint32_t index, FILE *out)
{
    const hal_step *step = &program->steps[index];
    char name[HAL_STEP_NAME];
    attribute attributes[ATTRIBUTES];
    fprintf(out, "%s\n    {\"op\": \"%s\"", index ? "," : "", hal_step_name(step, name));
    json_roles(step, "reads", 0, HAL_ROLE_FIRST_OUTPUT, out);
    json_roles(step, "writes", HAL_ROLE_FIRST_OUTPUT, HAL_ROLES, out);
    const uint32_t count = attributes_of(step, attributes);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, ", \"%s\": ", attributes[i].name);
        hal_json_write_float(out, attributes[i].value);
    }
    for (uint32_t i = 0; step->op == HAL_STEP_TRANSPOSE && i < program->tensors[step->tensors[HAL_ROLE_X]].dims.rank;
         i++) {
        fprintf(out, "%s%u", i ? ", " : ", \"perm\": [", step->perm[i]);
    }
    fputs(step->op == HAL_STEP_TRANSPOSE ? "]" : "", out);
    if (step->round_between != HAL_DTYPE_DEFAULT) {
        fprintf(out, ", \"round_between\": \"%s\"", hal_dtype_name(step->round_between));
    }
    fprintf(out, ", \"operators\": %u}", step->fused ? step->fused : 1);
}

static void dump_json(const hal_program *program, FILE *out)
{
    fputs("{\n  \"graph\": ", out);
    hal_json_write_string(out, program->label);
    fputs(",\n  \"tensors\": [", out);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        json_tensor(program, i, out);
    }
    fputs("\n  ],\n  \"steps\": [", out);
    for (uint32_t i = 0; i < program->step_count; i++) {
        json_step(program, i, out);
    }
    fputs("\n  ]\n}\n", out);
}

hal_status hal_program_dump(const hal_program *program, hal_graph_format format, FILE *out)
{
    static void (*const dump[])(const hal_program *, FILE *) = {dump_text, dump_dot, dump_json};
    if (!out || (unsigned)format > HAL_GRAPH_JSON) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT,
                        "hal_graph_dump: out is %s, format %d; use a file and a hal_graph_format",
                        out ? "given" : "NULL", (int)format);
    }
    dump[format](program, out);
    return fflush(out) == 0 && !ferror(out)
               ? HAL_OK
               : hal_fail(HAL_ERROR_IO, "hal_graph_dump: writing graph '%s' failed", program->label);
}
