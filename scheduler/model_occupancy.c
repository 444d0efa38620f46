/* model_occupancy.c - how many blocks are resident on a unit. */
#include "model_parts.h"

static uint64_t round_up(uint64_t value, uint64_t granule)
{
    return granule > 1 ? parts_of(value, granule) * granule : value;
}

/* Warps whose registers fit: each partition of the unit gives whole portions to whole warps. */
static uint64_t warps_by_registers(const hal_model_machine *machine, uint32_t registers)
{
    const uint64_t of_warp = round_up((uint64_t)registers * machine->warp, machine->register_granule);
    const uint64_t partitions = machine->warp_granule ? machine->warp_granule : 1;
    return machine->registers_per_unit / partitions / of_warp * partitions;
}

hal_status hal_model_occupancy_of(const hal_model_machine *machine, uint32_t threads, uint32_t registers,
                                  uint64_t shared, hal_model_occupancy *occupancy)
{
    if (!machine || !occupancy)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model occupancy: machine and occupancy must not be NULL");
    *occupancy = (hal_model_occupancy){0};
    if (!machine->warp || !machine->threads_per_unit)
        return hal_fail(HAL_ERROR_UNSUPPORTED,
                        "model occupancy: the description of %s says nothing of resident threads", machine->name);
    if (!threads)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model occupancy: threads must not be 0");
    const uint64_t warps = parts_of(threads, machine->warp), most_warps = machine->threads_per_unit / machine->warp;
    const uint64_t of_block = round_up(shared + machine->shared_reserved, machine->shared_granule);
    const bool registers_fit =
        registers <= machine->registers_per_thread &&
        warps * round_up((uint64_t)registers * machine->warp, machine->register_granule) <= machine->registers_per_unit;
    const uint64_t most[] = {
        [HAL_MODEL_LIMIT_THREADS] = threads <= machine->threads_per_block ? most_warps / warps : 0,
        [HAL_MODEL_LIMIT_REGISTERS] = !registers       ? UINT64_MAX
                                      : !registers_fit ? 0
                                                       : warps_by_registers(machine, registers) / warps,
        [HAL_MODEL_LIMIT_SHARED] = shared > machine->shared_per_block ? 0
                                   : of_block                         ? machine->shared_per_unit / of_block
                                                                      : UINT64_MAX,
        [HAL_MODEL_LIMIT_BLOCKS] = machine->blocks_per_unit ? machine->blocks_per_unit : UINT64_MAX,
    };
    for (int i = HAL_MODEL_LIMIT_REGISTERS; i <= HAL_MODEL_LIMIT_BLOCKS; i++)
        if (most[i] < most[occupancy->limit])
            occupancy->limit = (hal_model_limit)i;
    occupancy->blocks = (uint32_t)most[occupancy->limit];
    occupancy->warps = (uint32_t)(occupancy->blocks * warps);
    occupancy->occupancy = (double)occupancy->warps / (double)most_warps;
    return HAL_OK;
}

const char *hal_model_limit_name(hal_model_limit limit)
{
    static const char *const names[] = {"threads", "registers", "shared", "blocks"};
    return (unsigned)limit < sizeof names / sizeof names[0] ? names[limit] : "unknown";
}
