/* model_machine.c - descriptions of machines, and what they make of bytes and FLOPs. */
#include "json.h"
#include "model_parts.h"

#include <ctype.h>
#include <strings.h>

enum { MOST_FILE = 1 << 20 };

typedef enum field_kind { REAL, COUNT, SIZE } field_kind; /* double, uint32_t, uint64_t */

#define FIELD(name, kind)                                                                                              \
    {                                                                                                                  \
#name, offsetof(hal_model_machine, name), kind                                                                 \
    }
static const struct {
    const char *name;
    size_t offset;
    field_kind kind;
} fields[] = {
    FIELD(memory_bytes_per_s, REAL),
    FIELD(link_bytes_per_s, REAL),
    FIELD(latency_us, REAL),
    FIELD(submit_us, REAL),
    FIELD(launch_us, REAL),
    FIELD(wait_us, REAL),
    FIELD(memory_size, SIZE),
    FIELD(l2_size, SIZE),
    FIELD(units, COUNT),
    FIELD(warp, COUNT),
    FIELD(threads_per_unit, COUNT),
    FIELD(blocks_per_unit, COUNT),
    FIELD(threads_per_block, COUNT),
    FIELD(registers_per_unit, COUNT),
    FIELD(registers_per_thread, COUNT),
    FIELD(register_granule, COUNT),
    FIELD(warp_granule, COUNT),
    FIELD(shared_per_unit, COUNT),
    FIELD(shared_per_block, COUNT),
    FIELD(shared_reserved, COUNT),
    FIELD(shared_granule, COUNT),
};

static const char *const type_names[] = {
    [HAL_DEVICE_OTHER] = "other",
    [HAL_DEVICE_CPU] = "cpu",
    [HAL_DEVICE_INTEGRATED] = "integrated",
    [HAL_DEVICE_DISCRETE] = "discrete",
};

/* Numbers */

static hal_status bad_field(const char *name, const char *wanted)
{
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "machine description: \"%s\" is no %s", name, wanted);
}

static hal_status read_real(const hal_json *value, double *real)
{
    if (value->type != HAL_JSON_NUMBER || value->number < 0)
        return bad_field(value->key, "number from 0 on");
    *real = value->number;
    return HAL_OK;
}

static hal_status read_whole(const hal_json *value, double most, uint64_t *whole)
{
    if (value->type != HAL_JSON_NUMBER || !(value->number >= 0 && value->number <= most) ||
        value->number != floor(value->number))
        return bad_field(value->key, "whole number in range");
    *whole = (uint64_t)value->number;
    return HAL_OK;
}

static hal_status read_field(const hal_json *value, hal_model_machine *machine)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].name, value->key) != 0)
            continue;
        void *target = (char *)machine + fields[i].offset;
        uint64_t whole = 0;
        if (fields[i].kind == REAL)
            return read_real(value, target);
        hal_status status = read_whole(value, fields[i].kind == COUNT ? UINT32_MAX : 9007199254740992.0, &whole);
        if (fields[i].kind == COUNT)
            *(uint32_t *)target = (uint32_t)whole;
        else
            *(uint64_t *)target = whole;
        return status;
    }
    return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "machine description: there is no field \"%s\"", value->key);
}

/* Everything else */

static hal_status read_text(const hal_json *value, char *text, size_t size)
{
    if (value->type != HAL_JSON_STRING || strlen(value->string) >= size)
        return bad_field(value->key, "string that is short enough");
    snprintf(text, size, "%s", value->string);
    return HAL_OK;
}

static hal_status read_type(const hal_json *value, hal_model_machine *machine)
{
    for (size_t i = 0; value->type == HAL_JSON_STRING && i < sizeof type_names / sizeof type_names[0]; i++)
        if (!strcmp(type_names[i], value->string)) {
            machine->type = (hal_device_type)i;
            return HAL_OK;
        }
    return bad_field(value->key, "type: cpu, integrated, discrete, other");
}

static hal_status read_flops(const hal_json *value, hal_model_machine *machine)
{
    hal_status status = value->type == HAL_JSON_OBJECT ? HAL_OK : bad_field(value->key, "object of dtypes");
    for (const hal_json *member = value->first; member && status == HAL_OK; member = member->next) {
        int dtype = HAL_F32;
        while (dtype < HAL_MODEL_DTYPES && strcmp(hal_dtype_name((hal_dtype)dtype), member->key) != 0)
            dtype++;
        status = dtype < HAL_MODEL_DTYPES ? read_real(member, &machine->flops_per_s[dtype])
                                          : bad_field(member->key, "dtype: f32, f16, bf16, f8e4m3");
    }
    return status;
}

static hal_status read_buffers(const hal_json *value, hal_model_machine *machine)
{
    if (value->type != HAL_JSON_OBJECT || value->count > HAL_MODEL_BUFFERS)
        return bad_field(value->key, "object of at most 8 memories");
    uint32_t count = 0;
    hal_status status = HAL_OK;
    for (const hal_json *member = value->first; member && status == HAL_OK; member = member->next, count++) {
        if (!*member->key || strlen(member->key) >= sizeof machine->buffers[0].name)
            return bad_field(member->key, "name of 1 to 7 letters");
        snprintf(machine->buffers[count].name, sizeof machine->buffers[0].name, "%s", member->key);
        status = read_whole(member, 9007199254740992.0, &machine->buffers[count].size);
    }
    return status;
}

static hal_status read_member(const hal_json *value, hal_model_machine *machine)
{
    if (!strcmp(value->key, "name"))
        return read_text(value, machine->name, sizeof machine->name);
    if (!strcmp(value->key, "source"))
        return read_text(value, machine->source, sizeof machine->source);
    if (!strcmp(value->key, "type"))
        return read_type(value, machine);
    if (!strcmp(value->key, "flops_per_s"))
        return read_flops(value, machine);
    if (!strcmp(value->key, "buffers"))
        return read_buffers(value, machine);
    if (!strcmp(value->key, "match"))
        return value->type == HAL_JSON_ARRAY ? HAL_OK : bad_field(value->key, "array of words");
    if (!strcmp(value->key, "generic")) {
        machine->generic = value->type == HAL_JSON_TRUE;
        return value->type == HAL_JSON_TRUE || value->type == HAL_JSON_FALSE ? HAL_OK
                                                                             : bad_field(value->key, "true or false");
    }
    return read_field(value, machine);
}

static hal_status read_machine(const hal_json *root, hal_model_machine *machine)
{
    memset(machine, 0, sizeof *machine);
    if (root->type != HAL_JSON_OBJECT)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "machine description: an object is wanted");
    hal_status status = HAL_OK;
    for (const hal_json *member = root->first; member && status == HAL_OK; member = member->next)
        status = read_member(member, machine);
    if (status == HAL_OK && !*machine->name)
        status = hal_fail(HAL_ERROR_INVALID_ARGUMENT, "machine description: it has no \"name\"");
    if (status != HAL_OK)
        memset(machine, 0, sizeof *machine);
    return status;
}

hal_status hal_model_machine_parse(const char *json, size_t size, hal_model_machine *machine)
{
    hal_json *root;
    if (!json || !machine)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_model_machine_parse: json and machine must not be NULL");
    memset(machine, 0, sizeof *machine);
    if (size > MOST_FILE)
        return hal_fail(HAL_ERROR_LIMIT, "machine description: larger than 1 MiB");
    hal_status status = hal_json_parse("machine description", json, size, &root);
    if (status == HAL_OK)
        status = read_machine(root, machine);
    hal_json_free(root);
    return status;
}

hal_status hal_model_machine_load(const char *path, hal_model_machine *machine)
{
    hal_json *root;
    if (!path || !machine)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_model_machine_load: path and machine must not be NULL");
    memset(machine, 0, sizeof *machine);
    hal_status status = hal_json_load(path, MOST_FILE, &root);
    if (status == HAL_OK)
        status = read_machine(root, machine);
    hal_json_free(root);
    return status;
}

/* Finding one */

/* Is `word` in `text`, in any case, not as a part of a longer word? */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; *at; at++)
        if (!strncasecmp(at, word, length) && (at == text || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length]))
            return length > 0;
    return false;
}

/* How much of a device's name a description knows: the length of its longest word in it. */
static size_t matched(const hal_json *root, const char *name)
{
    size_t longest = 0;
    const hal_json *words = hal_json_get(root, "match");
    for (const hal_json *word = words ? words->first : NULL; word; word = word->next)
        if (word->type == HAL_JSON_STRING && strlen(word->string) > longest && has_word(name, word->string))
            longest = strlen(word->string);
    return longest;
}

uint32_t hal_model_machine_count(void)
{
    return hal_model_device_count;
}

hal_status hal_model_machine_get(uint32_t index, hal_model_machine *machine)
{
    if (!machine || index >= hal_model_device_count)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_model_machine_get: there are %u machines",
                        hal_model_device_count);
    return hal_model_machine_parse(hal_model_devices[index], strlen(hal_model_devices[index]), machine);
}

/* The best match of a name, as an index; the count if none knows it. */
static hal_status find_match(const char *name, uint32_t *index)
{
    size_t longest = 0;
    *index = hal_model_device_count;
    for (uint32_t i = 0; i < hal_model_device_count; i++) {
        hal_json *root;
        hal_status status =
            hal_json_parse("machine description", hal_model_devices[i], strlen(hal_model_devices[i]), &root);
        if (status != HAL_OK)
            return status;
        size_t length = matched(root, name);
        hal_json_free(root);
        if (length > longest) {
            longest = length;
            *index = i;
        }
    }
    return HAL_OK;
}

static hal_status find_generic(const hal_device_info *info, hal_model_machine *machine)
{
    hal_device_type type = info->type == HAL_DEVICE_OTHER ? HAL_DEVICE_INTEGRATED : info->type;
    hal_status status = HAL_OK;
    for (uint32_t i = 0; i < hal_model_device_count && status == HAL_OK; i++) {
        status = hal_model_machine_get(i, machine);
        if (status == HAL_OK && machine->generic && machine->type == type)
            break;
    }
    uint32_t units = info->compute_units ? info->compute_units : 1;
    for (int i = 0; i < HAL_MODEL_DTYPES; i++)
        machine->flops_per_s[i] *= units;
    machine->units = units;
    if (info->max_shared_memory)
        machine->shared_per_block = info->max_shared_memory;
    return status;
}

hal_status hal_model_machine_find(const hal_device_info *info, hal_model_machine *machine)
{
    uint32_t index;
    if (!info || !machine)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_model_machine_find: info and machine must not be NULL");
    hal_status status = find_match(info->name, &index);
    if (status != HAL_OK)
        return status;
    return index < hal_model_device_count ? hal_model_machine_get(index, machine) : find_generic(info, machine);
}

hal_status hal_model_machine_named(const char *name, hal_model_machine *machine)
{
    char known[512] = "";
    uint32_t index;
    if (!name || !machine)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_model_machine_named: name and machine must not be NULL");
    for (uint32_t i = 0; i < hal_model_device_count; i++) {
        hal_status status = hal_model_machine_get(i, machine);
        if (status != HAL_OK || !strcasecmp(machine->name, name))
            return status;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", machine->name);
    }
    hal_status status = find_match(name, &index);
    if (status == HAL_OK && index < hal_model_device_count)
        return hal_model_machine_get(index, machine);
    memset(machine, 0, sizeof *machine);
    return status != HAL_OK ? status
                            : hal_fail(HAL_ERROR_NOT_FOUND, "there is no machine \"%.80s\"; there are %s", name, known);
}
