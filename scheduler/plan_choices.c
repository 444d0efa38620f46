/* plan_choices.c - the fusions of a plan as JSON, and back:
 *   {"format": "hal-plan-choices", "version": 1, "graph": "<digest, 16 hexadecimal digits>",
 *    "fusions": [{"rule": "gemm + residual", "tensor": 12, "made": true}, ...]}
 * A text is refused whole if it is not of that form, or of another graph. Fusion decides whether what it asks for is
 * legal. */
#include "plan_state.h"

#include "core.h"
#include "json.h"
#include "json_write.h"

#define FORMAT "hal-plan-choices"
enum { VERSION = 1, MOST_TEXT = 1 << 20, MOST_RULE = 128 };

/* FNV-1a over words. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ (word >> 8 * i & 0xff)) * 0x100000001b3u;
    }
    return hash;
}

static uint64_t mix_float(uint64_t hash, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return mix(hash, bits);
}

static uint64_t mix_step(uint64_t hash, const hal_step *step)
{
    const uint64_t words[] = {(uint64_t)step->op,     (uint64_t)step->act, (uint64_t)step->binary,
                              step->trans_b,          step->log,           (uint64_t)step->round_between,
                              (uint64_t)step->causal, step->heads,         step->kv_heads};
    const float floats[] = {step->alpha, step->eps, step->scale, step->softcap};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        hash = mix(hash, words[i]);
    }
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        hash = mix_float(hash, floats[i]);
    }
    for (uint32_t i = 0; i < HAL_ROLES; i++) {
        hash = mix(hash, step->tensors[i]);
    }
    for (uint32_t i = 0; i < HAL_MAX_RANK; i++) {
        hash = mix(hash, step->perm[i]);
    }
    return hash;
}

uint64_t hal_plan_digest(const hal_program *program)
{
    uint64_t hash = mix(0xcbf29ce484222325u, program->tensor_count);
    for (uint32_t i = 1; i < program->tensor_count; i++) {
        const hal_tensor_info *tensor = &program->tensors[i];
        hash = mix(hash, (uint64_t)tensor->kind << 32 | (uint64_t)tensor->dtype << 16 | tensor->element_size);
        hash = mix(hash, (uint64_t)tensor->output << 32 | tensor->dims.rank);
        for (uint32_t d = 0; d < tensor->dims.rank; d++) {
            hash = mix(hash, tensor->dims.size[d]);
        }
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        hash = mix_step(hash, &program->steps[i]);
    }
    return hash;
}

static hal_status refuse(const char *what)
{
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_desc.choices: %s; export them from a plan of this graph",
                    what);
}

static hal_status read_fusion(const hal_json *item, hal_decision *decision)
{
    const hal_json *rule = hal_json_get(item, "rule"), *tensor = hal_json_get(item, "tensor"),
                   *made = hal_json_get(item, "made");
    if (!rule || rule->type != HAL_JSON_STRING || strlen(rule->string) > MOST_RULE || !tensor ||
        tensor->type != HAL_JSON_NUMBER || !(tensor->number >= 1 && tensor->number < 4294967295.0) || !made ||
        (made->type != HAL_JSON_TRUE && made->type != HAL_JSON_FALSE)) {
        return refuse("a fusion has no rule, tensor and made as they should be");
    }
    *decision = (hal_decision){.rule = rule->string,
                               .tensor = (uint32_t)tensor->number,
                               .verdict = made->type == HAL_JSON_TRUE ? HAL_VERDICT_FUSED : HAL_VERDICT_DECLINED};
    return (double)decision->tensor == tensor->number ? HAL_OK : refuse("a tensor is no whole number");
}

static hal_status check_head(const hal_json *root, uint64_t graph)
{
    const hal_json *format = hal_json_get(root, "format"), *version = hal_json_get(root, "version"),
                   *digest = hal_json_get(root, "graph"), *fusions = hal_json_get(root, "fusions");
    char wanted[17];
    snprintf(wanted, sizeof wanted, "%016llx", (unsigned long long)graph);
    if (!format || format->type != HAL_JSON_STRING || strcmp(format->string, FORMAT) != 0) {
        return refuse("\"format\" is not \"" FORMAT "\"");
    }
    if (!version || version->type != HAL_JSON_NUMBER || version->number != VERSION) {
        return refuse("\"version\" is not 1");
    }
    if (!digest || digest->type != HAL_JSON_STRING || strcmp(digest->string, wanted) != 0) {
        return refuse("\"graph\" is another graph");
    }
    return fusions && fusions->type == HAL_JSON_ARRAY ? HAL_OK : refuse("\"fusions\" is no array");
}

hal_status hal_plan_import(const char *text, uint64_t graph, hal_decisions *decisions, hal_json **held)
{
    *decisions = (hal_decisions){0};
    *held = NULL;
    const size_t size = strnlen(text, MOST_TEXT + 1);
    if (size > MOST_TEXT) {
        return refuse("they are longer than 1 MiB");
    }
    hal_status status = hal_json_parse("hal_plan_desc.choices", text, size, held);
    status = status == HAL_OK ? check_head(*held, graph) : status;
    if (status != HAL_OK) {
        return status;
    }
    const hal_json *fusions = hal_json_get(*held, "fusions");
    decisions->list = calloc(fusions->count + 1, sizeof *decisions->list);
    if (!decisions->list) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for %u choices", fusions->count);
    }
    decisions->capacity = fusions->count + 1;
    for (const hal_json *item = fusions->first; item && status == HAL_OK; item = item->next) {
        status = read_fusion(item, &decisions->list[decisions->count++]);
    }
    return status;
}

static void write_choices(const hal_plan *plan, FILE *out)
{
    fprintf(out, "{\"format\": \"" FORMAT "\", \"version\": %d, \"graph\": \"%016llx\",\n \"fusions\": [", VERSION,
            (unsigned long long)plan->graph);
    const char *before = "";
    for (uint32_t i = 0; i < plan->decisions.count; i++) {
        const hal_decision *decision = &plan->decisions.list[i];
        if (decision->verdict != HAL_VERDICT_REFUSED) {
            fprintf(out, "%s\n  {\"rule\": ", before);
            hal_json_write_string(out, decision->rule);
            fprintf(out, ", \"tensor\": %u, \"made\": %s}", decision->tensor,
                    decision->verdict == HAL_VERDICT_FUSED ? "true" : "false");
            before = ",";
        }
    }
    fprintf(out, "]}\n");
}

hal_status hal_plan_export(const hal_plan *plan, char **json)
{
    if (json) {
        *json = NULL;
    }
    hal_status status = hal_plan_check(plan, "hal_plan_export");
    if (status == HAL_OK && !json) {
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_plan_export: json is NULL");
    }
    if (status != HAL_OK) {
        return status;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) {
        write_choices(plan, out);
        if (fclose(out) == 0) {
            *json = text;
            return HAL_OK;
        }
    }
    free(text);
    return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory to export plan '%s'", plan->program.label);
}

void hal_plan_export_free(char *json)
{
    free(json);
}
