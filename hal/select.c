/* select.c - which device a selection names, and the device list. */
#include "internal.h"
#include "registry.h"
#include <ctype.h>
#include <strings.h>

struct hal_device_list {
    uint32_t count, capacity;
    hal_device_entry *entries;
    bool failed; /* out of host memory */
};

/* One "backend[:which]" of a selection. */
typedef struct term {
    char backend[32];
    char which[128];
    bool has_which;
} term;

static const char *skip_blanks(const char *at)
{
    while (isspace((unsigned char)*at)) {
        at++;
    }
    return at;
}

/* Read the next term; false at the end. Blanks around it do not count; too long text is cut and then matches nothing.
 */
static bool next_term(const char **at, term *out)
{
    do {
        *at = skip_blanks(*at + (**at == ','));
    } while (**at == ',');
    if (!**at) {
        return false;
    }
    size_t length = strcspn(*at, ",");
    char text[160];
    size_t kept = length < sizeof text - 1 ? length : sizeof text - 1;
    memcpy(text, *at, kept);
    text[kept] = 0;
    while (kept && isspace((unsigned char)text[kept - 1])) {
        text[--kept] = 0;
    }
    *at += length;
    char *colon = strchr(text, ':');
    out->has_which = colon != NULL;
    snprintf(out->which, sizeof out->which, "%.127s", colon ? colon + 1 : "");
    if (colon) {
        *colon = 0;
    }
    snprintf(out->backend, sizeof out->backend, "%.31s", text);
    return true;
}

static bool contains(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; text++) {
        if (strncasecmp(text, part, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool matches(const term *want, const hal_device_info *info)
{
    if (strcasecmp(want->backend, info->backend) != 0) {
        return false;
    }
    if (!want->has_which) {
        return true;
    }
    if (!*want->which) {
        return false;
    }
    if (strspn(want->which, "0123456789") == strlen(want->which) && strlen(want->which) < 6) {
        return (uint32_t)strtoul(want->which, NULL, 10) == info->index;
    }
    return contains(info->name, want->which) || contains(info->uuid, want->which) || contains(info->pci, want->which);
}

bool hal_select_names(const char *select, const char *backend)
{
    term want;
    bool any = false;
    for (const char *at = select ? select : ""; next_term(&at, &want);) {
        any = true;
        if (strcasecmp(want.backend, backend) == 0) {
            return true;
        }
    }
    return !any;
}

static hal_device_entry *append(hal_device_list *list)
{
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 8;
        hal_device_entry *grown = realloc(list->entries, capacity * sizeof *grown);
        if (!grown) {
            list->failed = true;
            return NULL;
        }
        list->entries = grown;
        list->capacity = capacity;
    }
    hal_device_entry *entry = &list->entries[list->count];
    memset(entry, 0, sizeof *entry);
    entry->reason = "";
    list->count++;
    return entry;
}

static void found_device(void *user, const hal_device_info *info)
{
    hal_device_list *list = user;
    hal_device_info *copy = malloc(sizeof *copy);
    hal_device_entry *entry = copy ? append(list) : NULL;
    if (!entry) {
        free(copy);
        list->failed = true;
        return;
    }
    *copy = *info;
    entry->available = true;
    entry->backend = copy->backend;
    entry->info = copy;
}

static void found_absence(hal_device_list *list, const char *backend, const char *reason)
{
    hal_device_entry *entry = append(list);
    char *copy = entry ? strdup(reason) : NULL;
    if (!copy) {
        list->failed = true;
        return;
    }
    entry->backend = backend;
    entry->reason = copy;
}

static bool known_backend(const char *name)
{
    for (size_t i = 0; i < HAL_REGISTRY_COUNT; i++) {
        if (strcasecmp(hal_registry[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The first backend of a selection that does not exist. A misspelt one is an error wherever it stands: what was meant
 * first must not be passed over. */
static bool find_unknown(const char *select, term *unknown)
{
    for (const char *at = select ? select : ""; next_term(&at, unknown);) {
        if (!known_backend(unknown->backend)) {
            return true;
        }
    }
    return false;
}

hal_status hal_device_list_create(const char *select, hal_device_list **out)
{
    if (!out) {
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "hal_device_list_create: list is NULL");
    }
    *out = NULL;
    term unknown;
    if (find_unknown(select, &unknown)) {
        return hal_fail(HAL_ERROR_NOT_FOUND, "hal_device_list_create: no such backend '%s' (cuda, opencl, vulkan)",
                        unknown.backend);
    }
    hal_device_list *list = calloc(1, sizeof *list);
    if (!list) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a device list");
    }
    for (size_t i = 0; i < HAL_REGISTRY_COUNT; i++) {
        const hal_registry_entry *entry = &hal_registry[i];
        if (!hal_select_names(select, entry->name)) {
            continue;
        }
        uint32_t before = list->count;
        if (!entry->backend) {
            found_absence(list, entry->name, "left out of this build of libhal");
        } else if (entry->backend->enumerate(found_device, list) != HAL_OK && list->count == before) {
            found_absence(list, entry->name, hal_last_error());
        } else if (list->count == before) {
            found_absence(list, entry->name, "the driver is there but has no device");
        }
    }
    if (list->failed) {
        hal_device_list_destroy(list);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a device list");
    }
    *out = list;
    return HAL_OK;
}

uint32_t hal_device_list_count(const hal_device_list *list)
{
    return list ? list->count : 0;
}

const hal_device_entry *hal_device_list_get(const hal_device_list *list, uint32_t index)
{
    return list && index < list->count ? &list->entries[index] : NULL;
}

void hal_device_list_destroy(hal_device_list *list)
{
    if (!list) {
        return;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->entries[i].available) {
            free((void *)list->entries[i].info);
        } else if (list->entries[i].reason[0]) {
            free((void *)list->entries[i].reason);
        }
    }
    free(list->entries);
    free(list);
}

static const hal_backend *backend_named(const char *name)
{
    for (size_t i = 0; i < HAL_REGISTRY_COUNT; i++) {
        if (strcasecmp(hal_registry[i].name, name) == 0) {
            return hal_registry[i].backend;
        }
    }
    return NULL;
}

static void choose(hal_choice *choice, const hal_device_info *info)
{
    choice->backend = backend_named(info->backend);
    choice->index = info->index;
}

/* "available: opencl:0 (name), ...; absent: cuda (reason)" */
static void describe(const hal_device_list *list, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int absent = 0; absent < 2; absent++) {
        const char *lead = absent ? "; absent: " : "available: ";
        bool any = false;
        for (uint32_t i = 0; i < list->count && used < size; i++) {
            const hal_device_entry *entry = &list->entries[i];
            if (entry->available == (absent == 0)) {
                int n = absent ? snprintf(text + used, size - used, "%s%s (%.200s)", any ? ", " : lead, entry->backend,
                                          entry->reason)
                               : snprintf(text + used, size - used, "%s%s:%u (%s)", any ? ", " : lead, entry->backend,
                                          entry->info->index, entry->info->name);
                used += n > 0 ? (size_t)n : 0;
                any = true;
            }
        }
        if (!any && !absent) {
            used += (size_t)snprintf(text, size, "available: nothing");
        }
    }
}

static hal_status nothing_fits(const char *select, const char *source)
{
    hal_device_list *list;
    hal_status status = hal_device_list_create(NULL, &list);
    if (status != HAL_OK) {
        return status;
    }
    char text[2048];
    describe(list, text, sizeof text);
    term unknown;
    if (!*select) {
        status = hal_fail(HAL_ERROR_UNAVAILABLE, "no device found; %s", text);
    } else if (find_unknown(select, &unknown)) {
        status = hal_fail(HAL_ERROR_NOT_FOUND, "%s=%s: no such backend '%s' (cuda, opencl, vulkan); %s", source, select,
                          unknown.backend, text);
    } else {
        status = hal_fail(HAL_ERROR_NOT_FOUND, "%s=%s: no such device; %s", source, select, text);
    }
    hal_device_list_destroy(list);
    return status;
}

/* The best of a list: the registry's order, but a CPU device only if there is nothing else; among CPU devices the last
 * backend of the registry wins, which compiles for the CPU's own vectors. */
static const hal_device_info *best(const hal_device_list *list)
{
    const hal_device_info *cpu = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        const hal_device_info *info = list->entries[i].available ? list->entries[i].info : NULL;
        if (info && info->type != HAL_DEVICE_CPU) {
            return info;
        }
        if (info && (!cpu || strcmp(cpu->backend, info->backend) != 0)) {
            cpu = info;
        }
    }
    return cpu;
}

hal_status hal_select(const char *select, const char *source, hal_choice *choice)
{
    hal_device_list *list;
    choice->backend = NULL;
    term want;
    if (find_unknown(select, &want)) {
        return nothing_fits(select, source);
    }
    hal_status status = hal_device_list_create(select, &list);
    if (status != HAL_OK) {
        return status;
    }
    bool any = false;
    for (const char *at = select; !choice->backend && next_term(&at, &want);) {
        any = true;
        for (uint32_t i = 0; i < list->count && !choice->backend; i++) {
            if (list->entries[i].available && matches(&want, list->entries[i].info)) {
                choose(choice, list->entries[i].info);
            }
        }
    }
    if (!any && best(list)) {
        choose(choice, best(list));
    }
    hal_device_list_destroy(list);
    return choice->backend ? HAL_OK : nothing_fits(any ? select : "", source);
}
