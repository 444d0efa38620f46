/* report_json.c - results for programs: {"schema":1,"machine":{},"results":[]}, a result a line. */
#include "report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Text that grows; NULL once memory ran out. */
typedef struct text {
    char *bytes;
    size_t size;
} text;

static void append(text *out, const char *bytes)
{
    size_t more = bytes ? strlen(bytes) : 0;
    char *grown = out->bytes && bytes ? realloc(out->bytes, out->size + more + 1) : NULL;
    if (!grown) {
        free(out->bytes);
        out->bytes = NULL;
        return;
    }
    memcpy(grown + out->size, bytes, more + 1);
    out->bytes = grown;
    out->size += more;
}

static void append_item(text *out, cJSON *item)
{
    char *printed = item ? cJSON_PrintUnformatted(item) : NULL;
    append(out, printed);
    cJSON_free(printed);
    cJSON_Delete(item);
}

/* JSON has no NaN and no infinity: those become null. */
static void put(cJSON *item, const char *name, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(item, name, value);
    else
        cJSON_AddNullToObject(item, name);
}

/* Figures that only some rows have. */
static void put_known(cJSON *item, const char *name, double value)
{
    if (!isnan(value))
        put(item, name, value);
}

static void put_host_row(cJSON *item, const bench_row *row)
{
    cJSON_AddStringToObject(item, "case", row->label);
    put(item, "commands", row->commands);
    put(item, "libhal_ns", row->libhal_ns);
    put(item, "raw_ns", row->raw_ns);
    put(item, "ratio", row->ratio);
    cJSON *spread = cJSON_AddArrayToObject(item, "spread");
    if (!isnan(row->ratio)) {
        cJSON_AddItemToArray(spread, cJSON_CreateNumber(row->ratio_low));
        cJSON_AddItemToArray(spread, cJSON_CreateNumber(row->ratio_high));
    }
    put(item, "rounds", row->rounds);
    put(item, "submit_ns", row->libhal_ns);
    put(item, "device_ns", row->device_ns);
    put(item, "wait_ns", row->wait_ns);
    put(item, "total_ns", row->libhal_total_ns);
    put(item, "raw_total_ns", row->raw_total_ns);
    put(item, "total_ratio", row->total_ratio);
    put_known(item, "allocations", row->allocations);
    put_known(item, "rss_growth", row->rss_growth);
    put_known(item, "eager_ns", row->eager_ns);
    put_known(item, "record_ns", row->record_ns);
    put_known(item, "rerecord_ns", row->rerecord_ns);
    put_known(item, "break_even", row->break_even);
}

static void put_limits(cJSON *item, const bench_row *row)
{
    cJSON *floor = *row->floor ? cJSON_AddObjectToObject(item, "floor") : cJSON_AddNullToObject(item, "floor");
    if (*row->floor) {
        cJSON_AddStringToObject(floor, "limit", row->floor);
        put(floor, "rate", row->floor_rate);
    }
    put(item, "floor_ratio", row->floor_ratio);
    if (row->peer_count)
        cJSON_AddStringToObject(item, "peer", row->peers[0].name);
    else
        cJSON_AddNullToObject(item, "peer");
    put(item, "peer_ratio", row->peer_count ? row->peers[0].ratio : NAN);
    cJSON *peers = cJSON_AddArrayToObject(item, "peers");
    for (uint32_t i = 0; i < row->peer_count; i++) {
        cJSON *peer = cJSON_CreateObject();
        cJSON_AddStringToObject(peer, "name", row->peers[i].name);
        put(peer, "rate", row->peers[i].rate);
        put(peer, "ratio", row->peers[i].ratio);
        cJSON_AddItemToArray(peers, peer);
    }
}

static void put_operator_row(cJSON *item, const bench_row *row)
{
    cJSON_AddStringToObject(item, "op", row->op);
    cJSON_AddStringToObject(item, "case", row->label);
    cJSON_AddStringToObject(item, "shape", row->shape);
    if (row->m) {
        put(item, "m", (double)row->m);
        put(item, "n", (double)row->n);
        put(item, "k", (double)row->k);
        put(item, "peak_fraction", row->peak_fraction);
    }
    cJSON_AddStringToObject(item, "dtype", hal_dtype_name(row->dtype));
    put(item, "seconds", row->seconds);
    put(item, "rate", row->rate);
    cJSON_AddStringToObject(item, "unit", row->unit);
    put_limits(item, row);
    put(item, "max_error", row->max_error);
    put(item, "bound", row->bound);
    put(item, "gflops", row->gflops);
    put(item, "gbps", row->gbps);
    put(item, "rounds", row->rounds);
    put(item, "submit_ns", row->libhal_ns);
    put(item, "device_ns", row->device_ns);
    put(item, "wait_ns", row->wait_ns);
}

static void put_graph_row(cJSON *item, const bench_row *row)
{
    cJSON_AddStringToObject(item, "graph", row->label);
    cJSON_AddStringToObject(item, "shape", row->shape);
    cJSON_AddStringToObject(item, "dtype", hal_dtype_name(row->dtype));
    cJSON_AddStringToObject(item, "mode", row->mode);
    cJSON_AddBoolToObject(item, "fused", row->fused);
    put(item, "submits", (double)row->submits);
    put(item, "kernels", (double)row->kernels);
    put(item, "bytes", (double)row->bytes);
    put(item, "peak_bytes", (double)row->peak_bytes);
    put(item, "submit_us", row->libhal_ns / 1e3);
    put(item, "device_us", row->device_ns / 1e3);
    put(item, "wait_us", row->wait_ns / 1e3);
    put(item, "predicted_us", row->predicted_ns / 1e3);
    put(item, "rounds", row->rounds);
}

static cJSON *row_item(const bench_row *row)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "kind", bench_row_kind(row));
    cJSON_AddStringToObject(item, "backend", row->backend);
    cJSON_AddStringToObject(item, "device", row->device);
    put(item, "index", row->index);
    if (row->kind == BENCH_ROW_OPERATOR)
        put_operator_row(item, row);
    else if (row->kind == BENCH_ROW_GRAPH)
        put_graph_row(item, row);
    else
        put_host_row(item, row);
    cJSON_AddBoolToObject(item, "failed", row->failed);
    if (*row->note)
        cJSON_AddStringToObject(item, "note", row->note);
    return item;
}

static cJSON *machine_item(const bench_machine *machine)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "cpu", machine->cpu);
    put(item, "cores", machine->cores);
    cJSON_AddStringToObject(item, "os", machine->os);
    cJSON_AddStringToObject(item, "libhal", hal_version());
    return item;
}

static void put_driver(cJSON *drivers, const hal_device_info *info)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "backend", info->backend);
    put(item, "index", info->index);
    cJSON_AddStringToObject(item, "device", info->name);
    cJSON_AddStringToObject(item, "driver", info->driver);
    cJSON_AddItemToArray(drivers, item);
}

char *bench_report_json(const bench_run *run)
{
    text out = {strdup("{\"schema\":1,\n\"machine\":"), 0};
    if (!out.bytes)
        return NULL;
    out.size = strlen(out.bytes);
    cJSON *machine = machine_item(&run->machine);
    cJSON *drivers = cJSON_AddArrayToObject(machine, "drivers");
    for (uint32_t i = 0; i < run->device_count; i++)
        put_driver(drivers, &run->devices[i].info);
    cJSON *floors = cJSON_AddObjectToObject(machine, "floors");
    put(floors, "fma_gflops", run->machine.floors.fma_gflops);
    put(floors, "copy_gbps", run->machine.floors.copy_gbps);
    put(floors, "read_gbps", run->machine.floors.read_gbps);
    put(floors, "threads", run->machine.floors.threads);
    cJSON_AddBoolToObject(machine, "interrupted", bench_interrupted());
    append_item(&out, machine);
    append(&out, ",\n\"results\":[");
    for (uint32_t i = 0; i < run->row_count; i++) {
        append(&out, i ? ",\n" : "\n");
        append_item(&out, row_item(&run->rows[i]));
    }
    append(&out, "\n]}\n");
    return out.bytes;
}

char *bench_report_devices_json(const hal_device_list *list)
{
    text out = {strdup("{\"schema\":1,\n\"machine\":"), 0};
    bench_machine machine = {0};
    if (!out.bytes)
        return NULL;
    out.size = strlen(out.bytes);
    bench_machine_describe(&machine);
    append_item(&out, machine_item(&machine));
    append(&out, ",\n\"results\":[");
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "kind", "device");
        cJSON_AddStringToObject(item, "backend", entry->backend);
        cJSON_AddBoolToObject(item, "available", entry->available);
        cJSON_AddStringToObject(item, "reason", entry->reason);
        if (entry->available) {
            put(item, "index", entry->info->index);
            cJSON_AddStringToObject(item, "device", entry->info->name);
            cJSON_AddStringToObject(item, "driver", entry->info->driver);
            put(item, "compute_units", entry->info->compute_units);
            put(item, "memory", (double)entry->info->memory_size);
        }
        append(&out, i ? ",\n" : "\n");
        append_item(&out, item);
    }
    append(&out, "\n]}\n");
    return out.bytes;
}
