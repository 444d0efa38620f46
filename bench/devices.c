/* devices.c - which devices are there, and why not the others? Also the choice of what is measured. */
#include "bench.h"
#include "report.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *type_name(hal_device_type type)
{
    static const char *const names[] = {"other", "CPU", "integrated GPU", "discrete GPU"};
    return (unsigned)type < 4 ? names[type] : "?";
}

/* What --backend says, else HAL_BACKEND; NULL: everything. */
static const char *selection(const bench_options *options)
{
    const char *environment = getenv("HAL_BACKEND");
    if (options->backends)
        return options->backends;
    return environment && *environment ? environment : NULL;
}

/* The reason may begin with the backend's name, as errors do. */
static void print_absent(const hal_device_entry *entry, const char *what, FILE *out)
{
    size_t length = strlen(entry->backend);
    bool named = !strncmp(entry->reason, entry->backend, length) && !strncmp(entry->reason + length, ": ", 2);
    fprintf(out, "%s %s: %s\n", entry->backend, what, entry->reason + (named ? length + 2 : 0));
}

static void print_table(const hal_device_list *list, FILE *out, bool colour)
{
    bench_table *table = bench_table_create("<select|<device|<type|units|memory|<driver");
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        const hal_device_info *info = entry->info;
        if (!entry->available)
            continue;
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s:%u", entry->backend, info->index);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", info->name);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", type_name(info->type));
        bench_table_cell(table, BENCH_TONE_PLAIN, "%u", info->compute_units);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%.1f GiB", (double)info->memory_size / (1 << 30));
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", info->driver);
    }
    bench_table_print(table, out, colour);
    bench_table_destroy(table);
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        if (!entry->available)
            print_absent(entry, "is absent", out);
    }
}

static void print_all(const hal_device_info *info, FILE *out)
{
    const struct {
        const char *name;
        bool value;
    } flags[] = {{"fp16", info->fp16},
                 {"bf16", info->bf16},
                 {"fp8", info->fp8},
                 {"fp64", info->fp64},
                 {"int64", info->int64},
                 {"subgroups", info->subgroups},
                 {"subgroup_shuffle", info->subgroup_shuffle},
                 {"matrix_units", info->matrix_units},
                 {"async_matrix", info->async_matrix},
                 {"unified_memory", info->unified_memory},
                 {"import_host_memory", info->import_host_memory},
                 {"timestamps", info->timestamps},
                 {"subnormals_f32", info->subnormals_f32},
                 {"subnormals_f16", info->subnormals_f16},
                 {"priorities", info->priorities},
                 {"native_replay", info->native_replay}};
    fprintf(out, "\n%s:%u  %s\n", info->backend, info->index, info->name);
    fprintf(out, "  driver            %s, API %u.%u", info->driver, info->api_major, info->api_minor);
    if (info->compute_capability)
        fprintf(out, ", compute capability %u.%u", info->compute_capability / 10, info->compute_capability % 10);
    fprintf(out, "\n  identity          uuid %s, pci %s\n", *info->uuid ? info->uuid : "-",
            *info->pci ? info->pci : "-");
    fprintf(out, "  type              %s, %u compute units\n", type_name(info->type), info->compute_units);
    fprintf(out, "  subgroup          %u (%u to %u)\n", info->subgroup_size, info->subgroup_size_min,
            info->subgroup_size_max);
    fprintf(out, "  group             at most %u work-items, %u x %u x %u; %u bytes shared\n", info->max_group_size,
            info->max_group_dim[0], info->max_group_dim[1], info->max_group_dim[2], info->max_shared_memory);
    fprintf(out, "  grid              %llu x %llu x %llu groups\n", (unsigned long long)info->max_group_count[0],
            (unsigned long long)info->max_group_count[1], (unsigned long long)info->max_group_count[2]);
    if (info->max_loop_iterations)
        fprintf(out, "  loops             end after %u turns, whatever the kernel says\n", info->max_loop_iterations);
    fprintf(out, "  arguments         %u bytes, spans aligned to %u\n", info->max_args, info->span_alignment);
    fprintf(out, "  memory            %llu bytes, %llu a buffer\n", (unsigned long long)info->memory_size,
            (unsigned long long)info->max_buffer_size);
    fprintf(out, "  texel views       %llu texels, aligned to %u\n", (unsigned long long)info->max_view_elements,
            info->view_alignment);
    fprintf(out, "  timestamp period  %g ns\n  has              ", info->timestamp_period_ns);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].value)
            fprintf(out, " %s", flags[i].name);
    fputs("\n  has not          ", out);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (!flags[i].value)
            fprintf(out, " %s", flags[i].name);
    fputc('\n', out);
}

/* Copy the next item of a selection, BACKEND or BACKEND:WHICH; false at its end. */
static bool next_item(const char **wanted, char item[256])
{
    while (*wanted && **wanted) {
        size_t length = strcspn(*wanted, ",");
        snprintf(item, 256, "%.*s", (int)length, *wanted);
        *wanted += length + ((*wanted)[length] == ',');
        if (*item)
            return true;
    }
    return false;
}

/* List what is selected; NULL after a message if a name is not one of a backend. */
static hal_device_list *list_selected(const char *wanted)
{
    hal_device_list *list;
    char item[256];
    if (hal_device_list_create(wanted, &list)) {
        fprintf(stderr, "hal-bench: %s\n", hal_last_error());
        return NULL;
    }
    while (next_item(&wanted, item)) {
        size_t length = strcspn(item, ":");
        bool known = false;
        for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
            const char *backend = hal_device_list_get(list, i)->backend;
            known = known || (strlen(backend) == length && !strncasecmp(backend, item, length));
        }
        hal_device *device;
        if (known)
            continue;
        if (hal_device_open(HAL_DEVICE(.select = item), &device)) /* the message lists what there is */
            fprintf(stderr, "hal-bench: %s\n", hal_last_error());
        hal_device_destroy(device);
        hal_device_list_destroy(list);
        return NULL;
    }
    return list;
}

int bench_devices(const bench_options *options, FILE *out, bool colour)
{
    hal_device_list *list = list_selected(selection(options));
    if (!list)
        return 2;
    print_table(list, out, colour);
    for (uint32_t i = 0; options->verbose && i < hal_device_list_count(list); i++)
        if (hal_device_list_get(list, i)->available)
            print_all(hal_device_list_get(list, i)->info, out);
    int code = 0;
    if (options->json) {
        char error[400], *text = bench_report_devices_json(list);
        if (!text || !bench_file_write(options->json, text, error, sizeof error)) {
            fprintf(stderr, "hal-bench: %s\n", text ? error : "out of memory");
            code = 1;
        }
        free(text);
    }
    hal_device_list_destroy(list);
    return code;
}

static bool add_device(bench_run *run, const hal_device_info *info)
{
    for (uint32_t i = 0; i < run->device_count; i++)
        if (!strcmp(run->devices[i].info.backend, info->backend) && run->devices[i].info.index == info->index)
            return true;
    bench_device *devices = realloc(run->devices, (run->device_count + 1) * sizeof *devices);
    if (!devices)
        return false;
    run->devices = devices;
    bench_device *device = &devices[run->device_count++];
    device->info = *info;
    snprintf(device->select, sizeof device->select, "%.16s:%u", info->backend, info->index);
    return true;
}

/* The devices of one backend: all, or the first that is a GPU, else the first. Returns how many there are. */
static uint32_t add_backend(bench_run *run, const hal_device_list *list, const char *backend)
{
    const hal_device_info *best = NULL;
    uint32_t found = 0;
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        if (!entry->available || strcasecmp(entry->backend, backend) != 0)
            continue;
        found++;
        if (run->options->all_devices)
            add_device(run, entry->info);
        else if (!best || (best->type == HAL_DEVICE_CPU && entry->info->type != HAL_DEVICE_CPU))
            best = entry->info;
    }
    if (best)
        add_device(run, best);
    return found;
}

/* One item of a selection: BACKEND or BACKEND:WHICH. */
static int choose_item(bench_run *run, const hal_device_list *list, const char *item)
{
    if (!strchr(item, ':') && add_backend(run, list, item))
        return 0;
    hal_device *device;
    hal_status status = hal_device_open(HAL_DEVICE(.select = item), &device);
    if (status) {
        fprintf(stderr, "hal-bench: %s\n", hal_last_error());
        return status == HAL_ERROR_INVALID_ARGUMENT || status == HAL_ERROR_NOT_FOUND ? 2 : 1;
    }
    add_device(run, hal_device_get_info(device));
    hal_device_destroy(device);
    return 0;
}

int bench_devices_choose(bench_run *run)
{
    const char *wanted = selection(run->options), *rest = wanted;
    hal_device_list *list = list_selected(wanted);
    char item[256];
    int code = 0;
    if (!list)
        return 2;
    if (!wanted)
        for (uint32_t i = 0; i < hal_device_list_count(list); i++)
            add_backend(run, list, hal_device_list_get(list, i)->backend);
    while (!code && next_item(&rest, item))
        code = choose_item(run, list, item);
    for (uint32_t i = 0; !code && i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        if (!entry->available)
            print_absent(entry, "is not measured", run->out);
    }
    if (!code && run->device_count == 0) {
        fputs("hal-bench: no device to measure; hal-bench devices says why\n", stderr);
        code = 1;
    }
    hal_device_list_destroy(list);
    return code;
}
