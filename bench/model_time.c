/* model_time.c - topics on time: pipeline, transfer, graphcopy, mix, persistent, amdahl, machine. */
#include "model.h"

#include "bench.h"

#include <math.h>
#include <string.h>

#define MOST_US   1e15
#define MOST_SIZE 1e18

#define TIME(name, text)                                                                                               \
    {                                                                                                                  \
        name, "US", MODEL_REAL, false, 0, MOST_US, 0, text                                                             \
    }
#define MACHINE_OPTION(is_optional)                                                                                    \
    {                                                                                                                  \
        "device", "NAME", MODEL_TEXT, is_optional, 0, 0, 0, "a machine, or a .json file of your own"                   \
    }

/* Two stages by the closed form. */
static bool run_two_stages(model_call *call)
{
    static const char *const needed[] = {"tm", "tc"};
    uint32_t count;
    const double *slots = model_reals(call, "slots", &count);
    for (int i = 0; i < 2; i++)
        if (!model_given(call, needed[i]))
            return model_refuse(call, "--%s is missing; see hal-bench model pipeline --help", needed[i]);
    if (count != 1 || slots[0] != floor(slots[0]))
        return model_refuse(call, "--slots takes one whole number for two stages");
    const double tm = model_real(call, "tm"), tc = model_real(call, "tc");
    const uint64_t n = model_count(call, "n");
    const double piped = hal_model_pipeline_us(n, tm, tc, (uint64_t)slots[0]);
    model_put_real(call->answer, "serial_us", hal_model_pipeline_us(n, tm, tc, 1));
    model_put_real(call->answer, "pipelined_us", piped);
    model_put_real(call->answer, "busy_fraction", piped > 0 ? (double)n * tc / piped : 0);
    model_put_real(call->answer, "load_fraction", piped > 0 ? (double)n * tm / piped : 0);
    return true;
}

/* Any number of stages, by simulation. */
static bool run_line(model_call *call)
{
    uint32_t count, slot_count, slots[MODEL_LIST];
    const double *times = model_reals(call, "stages", &count), *given = model_reals(call, "slots", &slot_count);
    hal_model_stage stages[HAL_MODEL_STAGES];
    double total, serial = 0, column[3][MODEL_LIST];
    if (model_given(call, "tm") || model_given(call, "tc"))
        return model_refuse(call, "--stages takes the place of --tm and --tc");
    if (slot_count + 1 != count)
        return model_refuse(call, "--slots takes a number between each two of the %u stages", count);
    for (uint32_t i = 0; i < slot_count; i++) {
        if (given[i] != floor(given[i]))
            return model_refuse(call, "--slots takes whole numbers");
        slots[i] = (uint32_t)given[i];
    }
    const hal_model_line line = {.stages = count, .items = model_count(call, "n"), .time_us = times, .slots = slots};
    if (!model_check(call, "--n, --stages", hal_model_line_run(&line, &total, stages)))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        serial += (double)line.items * times[i];
        column[0][i] = stages[i].busy_fraction;
        column[1][i] = stages[i].starved_us;
        column[2][i] = stages[i].blocked_us;
    }
    model_put_real(call->answer, "serial_us", serial);
    model_put_real(call->answer, "pipelined_us", total);
    model_put_real(call->answer, "busy_fraction", stages[count - 1].busy_fraction);
    model_put_reals(call->answer, "stage_busy", column[0], count);
    model_put_reals(call->answer, "stage_starved_us", column[1], count);
    model_put_reals(call->answer, "stage_blocked_us", column[2], count);
    return true;
}

static bool run_pipeline(model_call *call)
{
    return model_given(call, "stages") ? run_line(call) : run_two_stages(call);
}

static bool run_transfer(model_call *call)
{
    const double bytes = model_real(call, "bytes"), rate = model_real(call, "bw"),
                 compute = model_real(call, "compute"), overhead = model_real(call, "overhead");
    const uint64_t most = 1 << 20, best = hal_model_chunks_best(bytes, rate, compute, overhead, most);
    const uint64_t chunks = model_given(call, "chunks") ? model_count(call, "chunks") : best;
    model_put_real(call->answer, "copy_us", bytes / rate * 1e6);
    model_put_real(call->answer, "whole_us", hal_model_chunked_us(bytes, rate, compute, overhead, 1));
    model_put_real(call->answer, "chunked_us", hal_model_chunked_us(bytes, rate, compute, overhead, chunks));
    model_put_count(call->answer, "best_chunks", best);
    return true;
}

static bool run_graphcopy(model_call *call)
{
    hal_model_replay cost;
    if (!model_check(call, "--bytes, --bw",
                     hal_model_replay_costs(model_real(call, "bytes"), model_real(call, "bw"),
                                            model_real(call, "submit"), model_real(call, "prepare"),
                                            model_real(call, "compute"), &cost)))
        return false;
    model_put_real(call->answer, "eager_us", cost.eager_us);
    model_put_real(call->answer, "replay_us", cost.replay_us);
    model_put_real(call->answer, "break_even_bytes", cost.break_even_bytes);
    return true;
}

static bool run_mix(model_call *call)
{
    uint32_t pair;
    hal_model_mix mix;
    if (!model_check(call, "--p",
                     hal_model_mix_costs(model_real(call, "p"), model_reals(call, "old", &pair),
                                         model_reals(call, "new", &pair), model_given(call, "dispatch"),
                                         model_real(call, "dispatch"), &mix)))
        return false;
    model_put_real(call->answer, "old_us", mix.old_us);
    model_put_real(call->answer, "new_us", mix.new_us);
    model_put_real(call->answer, "choose_us", mix.choose_us);
    model_put_real(call->answer, "break_even", mix.break_even);
    cJSON_AddBoolToObject(call->answer, "better_below", mix.better_below);
    return true;
}

static bool run_persistent(model_call *call)
{
    hal_model_persistent cost;
    if (!model_check(call, "--tiles",
                     hal_model_persistent_costs(model_count(call, "tiles"), model_real(call, "tp"),
                                                model_real(call, "ta"), model_real(call, "launch"),
                                                model_real(call, "task"), &cost)))
        return false;
    model_put_real(call->answer, "coarse_us", cost.coarse_us);
    model_put_real(call->answer, "tiled_us", cost.tiled_us);
    return true;
}

static bool run_amdahl(model_call *call)
{
    model_put_real(call->answer, "speedup", hal_model_amdahl(model_real(call, "f"), model_real(call, "s")));
    return true;
}

/* Machines, in the form that a file of the user's has. */

static void put_known(cJSON *object, const char *name, double value)
{
    if (value > 0)
        model_put_real(object, name, value);
}

static void describe(const hal_model_machine *m, cJSON *object)
{
    static const char *const types[] = {"other", "cpu", "integrated", "discrete"};
    cJSON_AddStringToObject(object, "name", m->name);
    cJSON_AddStringToObject(object, "source", m->source);
    cJSON_AddStringToObject(object, "type", types[m->type]);
    if (m->generic)
        cJSON_AddTrueToObject(object, "generic");
    cJSON *flops = cJSON_AddObjectToObject(object, "flops_per_s");
    for (int i = HAL_F32; i < HAL_MODEL_DTYPES; i++)
        put_known(flops, hal_dtype_name((hal_dtype)i), m->flops_per_s[i]);
    const struct {
        const char *name;
        double value;
    } fields[] = {
        {"memory_bytes_per_s", m->memory_bytes_per_s},
        {"link_bytes_per_s", m->link_bytes_per_s},
        {"latency_us", m->latency_us},
        {"submit_us", m->submit_us},
        {"launch_us", m->launch_us},
        {"wait_us", m->wait_us},
        {"memory_size", (double)m->memory_size},
        {"l2_size", (double)m->l2_size},
        {"units", m->units},
        {"warp", m->warp},
        {"threads_per_unit", m->threads_per_unit},
        {"blocks_per_unit", m->blocks_per_unit},
        {"threads_per_block", m->threads_per_block},
        {"registers_per_unit", m->registers_per_unit},
        {"registers_per_thread", m->registers_per_thread},
        {"register_granule", m->register_granule},
        {"warp_granule", m->warp_granule},
        {"shared_per_unit", m->shared_per_unit},
        {"shared_per_block", m->shared_per_block},
        {"shared_reserved", m->shared_reserved},
        {"shared_granule", m->shared_granule},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        put_known(object, fields[i].name, fields[i].value);
    cJSON *buffers = *m->buffers[0].name ? cJSON_AddObjectToObject(object, "buffers") : NULL;
    for (int i = 0; buffers && i < HAL_MODEL_BUFFERS && *m->buffers[i].name; i++)
        model_put_count(buffers, m->buffers[i].name, m->buffers[i].size);
}

/* This CPU: what hal-bench compares operators with, on the generic description's host costs. */
static bool measure(model_call *call, hal_model_machine *machine)
{
    bench_machine here = {0};
    bench_machine_describe(&here);
    if (!model_check(call, "--measure", hal_model_machine_named("CPU", machine)))
        return false;
    if (!bench_floors_measure(&here.floors))
        return model_refuse(call, "--measure: this CPU's speed could not be measured");
    snprintf(machine->name, sizeof machine->name, "%.63s", here.cpu);
    snprintf(machine->source, sizeof machine->source, "measured by hal-bench model machine --measure");
    machine->generic = false;
    machine->units = here.cores;
    machine->flops_per_s[HAL_F32] = round(here.floors.fma_gflops * 10) * 1e8;
    machine->memory_bytes_per_s = round(here.floors.copy_gbps * 10) * 1e8;
    return true;
}

static bool run_machine(model_call *call)
{
    hal_model_machine machine;
    if (model_given(call, "measure")) {
        if (!measure(call, &machine))
            return false;
        describe(&machine, call->answer);
    } else if (model_given(call, "device")) {
        if (!model_machine(call, &machine))
            return false;
        describe(&machine, call->answer);
    } else {
        cJSON *machines = cJSON_AddArrayToObject(call->answer, "machines");
        for (uint32_t i = 0; i < hal_model_machine_count(); i++)
            if (hal_model_machine_get(i, &machine) == HAL_OK)
                cJSON_AddItemToArray(machines, cJSON_CreateString(machine.name));
    }
    return true;
}

const model_topic model_time_topics[] = {
    {"pipeline",
     "stages that overlap: time and who is busy",
     "n items through a stage of tm (loading, say) and one of tc, with slots that an item holds from the start of the\n"
     "first to the end of the second. With one slot nothing overlaps.\n"
     "  serial_us      n (tm + tc)\n"
     "  pipelined_us   tm + (n - 1) max(tm, tc) + tc from two slots on\n"
     "  busy_fraction  of pipelined_us that the second stage is at work; load_fraction: the first\n"
     "--stages simulates more stages instead, --slots then has a number between each two. Fields besides: stage_busy, "
     "and\n"
     "stage_starved_us and stage_blocked_us, what each has waited for an item and for a slot.\n",
     "--n 4 --tm 1.29 --tc 0.28 --slots 2 --json",
     run_pipeline,
     {{"n", "N", MODEL_COUNT, false, 1, 1e15, 0, "items (with --stages: up to 10 million)"},
      {"tm", "US", MODEL_REAL, true, 0, MOST_US, 0, "time of the first stage; needed without --stages"},
      {"tc", "US", MODEL_REAL, true, 0, MOST_US, 0, "time of the second; needed without --stages"},
      {"slots", "N[,N...]", MODEL_REALS, false, 1, 4294967295.0, 0, "places between the stages"},
      {"stages", "US,US...", MODEL_REALS, true, 0, MOST_US, 0, "times of 1 to 16 stages"}}},
    {"transfer",
     "a copy in parts, computed on meanwhile",
     "A transfer in parts, each computed on while the next is copied.\n"
     "  copy_us      of the whole\n"
     "  whole_us     in one part: copy, then compute\n"
     "  chunked_us   in --chunks parts, or in the best number of them\n"
     "  best_chunks  up to 2^20; as many without an overhead\n",
     "--bytes 67108864 --bw 64e9 --compute 1000 --overhead 5 --json",
     run_transfer,
     {{"bytes", "BYTES", MODEL_REAL, false, 0, MOST_SIZE, 0, "size of all"},
      {"bw", "RATE", MODEL_REAL, false, 1, MOST_SIZE, 0, "bytes per second of the link"},
      TIME("compute", "computing on all of it"),
      {"overhead", "US", MODEL_REAL, true, 0, MOST_US, 0, "of each part in each stage (0)"},
      {"chunks", "N", MODEL_COUNT, true, 1, 1e15, 0, "parts (the best number)"}}},
    {"graphcopy",
     "graph replay that copies its input, against an eager call",
     "An eager call waits for its submission; a replayed graph needs its input copied to where it was recorded.\n"
     "  eager_us          submit + compute\n"
     "  replay_us         prepare + 2 bytes / bw + compute: the copy reads and writes\n"
     "  break_even_bytes  below it replay is faster; 0: never\n",
     "--bytes 1048576 --bw 1792e9 --submit 20 --prepare 5 --compute 20 --json",
     run_graphcopy,
     {{"bytes", "BYTES", MODEL_REAL, false, 0, MOST_SIZE, 0, "size of the input"},
      {"bw", "RATE", MODEL_REAL, false, 1, MOST_SIZE, 0, "bytes per second of device memory"},
      TIME("submit", "of an eager call"),
      TIME("prepare", "of a replay"),
      TIME("compute", "of the kernels")}},
    {"mix",
     "choosing a program by the mix of its calls",
     "Calls of two shapes, the first in a share of p: times of the old program and of the new.\n"
     "  old_us, new_us  mean of a call\n"
     "  choose_us       the better one for each shape, plus --dispatch a call\n"
     "  break_even      the p from which new is better than old, with --dispatch choosing than old; 0: for every p;\n"
     "                  null: for none\n"
     "  better_below    true: it is better below break_even, not above\n",
     "--p 0.7 --old 10,10 --new 5,20 --json",
     run_mix,
     {{"p", "SHARE", MODEL_REAL, false, 0, 1, 0, "of the first shape, 0 to 1"},
      {"old", "US,US", MODEL_REALS, false, 0, MOST_US, 2, "times of the old program, by shape"},
      {"new", "US,US", MODEL_REALS, false, 0, MOST_US, 2, "times of the new program, by shape"},
      {"dispatch", "US", MODEL_REAL, true, 0, MOST_US, 0, "price of choosing, a call (0)"}}},
    {"persistent",
     "one kernel that hands tiles over, against two",
     "Two kernels over all tiles, one after the other, against one whose tiles go from the first stage to the second "
     "at\n"
     "once.\n"
     "  coarse_us  2 launch + tiles (tp + ta)\n"
     "  tiled_us   launch, and a pipeline of tp + task and ta + task\n",
     "--tiles 8 --tp 12.8 --ta 1.76 --launch 5 --task 0.7 --json",
     run_persistent,
     {{"tiles", "N", MODEL_COUNT, false, 1, 1e15, 0, "tiles"},
      TIME("tp", "of a tile in the first stage"),
      TIME("ta", "of a tile in the second"),
      TIME("launch", "of a kernel"),
      TIME("task", "of handing a tile over")}},
    {"amdahl",
     "a part made faster",
     "  speedup  of the whole: 1 / (1 - f + f / s)\n",
     "--f 0.4 --s 4 --json",
     run_amdahl,
     {{"f", "SHARE", MODEL_REAL, false, 0, 1, 0, "part of the time, 0 to 1"},
      {"s", "FACTOR", MODEL_REAL, false, 1e-9, 1e18, 0, "how much faster it becomes"}}},
    {"machine",
     "descriptions of machines",
     "Without --device: the names of the machines that are built in. With it, the description: the form that a file "
     "of\n"
     "your own has, for --device FILE.json of this and other topics. Fields that are not known are left out.\n",
     "--device H100 --json",
     run_machine,
     {MACHINE_OPTION(true),
      {"measure", NULL, MODEL_FLAG, true, 0, 0, 0, "describe this CPU, measured in a third of a second"}}},
    {0}};
