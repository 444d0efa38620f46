/* counters.c - what the stand-in CUDA driver counted of each kernel (docs/cuda_sim.md). No other driver counts. */
#include "bench.h"
#include "table.h"

#include "../tests/cuda_sim/driver/cuda_sim.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>

/* A count of all launches as one of each: exact where all did the same. */
static void cell(bench_table *table, uint64_t total, uint64_t launches)
{
    if (total == 0)
        bench_table_cell(table, BENCH_TONE_DIM, "0");
    else if (total % launches == 0)
        bench_table_cell(table, BENCH_TONE_PLAIN, "%" PRIu64, total / launches);
    else
        bench_table_cell(table, BENCH_TONE_PLAIN, "%.1f", (double)total / (double)launches);
}

static void print_all(const cuda_sim_kernel *kernels, unsigned count, FILE *out, bool colour)
{
    bench_table *table =
        bench_table_create("<kernel|launches|warp instr.|read B|read sectors|written B|written sectors|shared read B|"
                           "shared written B|conflicts|atomics|mma|wgmma|mma FLOP|registers|shared B");
    for (unsigned i = 0; i < count; i++) {
        const sim_counters *c = &kernels[i].total;
        const uint64_t each[] = {c->warp_instructions,
                                 c->global_read_bytes,
                                 c->global_read_sectors,
                                 c->global_write_bytes,
                                 c->global_write_sectors,
                                 c->shared_read_bytes,
                                 c->shared_write_bytes,
                                 c->shared_conflicts,
                                 c->atomics,
                                 c->mma,
                                 c->wgmma,
                                 c->mma_flops};
        bench_table_cell(table, BENCH_TONE_PLAIN, "%s", kernels[i].name);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%llu", kernels[i].launches);
        for (size_t j = 0; j < sizeof each / sizeof each[0]; j++)
            cell(table, each[j], kernels[i].launches);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%u", c->registers);
        bench_table_cell(table, BENCH_TONE_PLAIN, "%u", c->shared_bytes);
    }
    fputs("\nCounted by the stand-in CUDA driver, for one launch each; registers are PTX's, not a device's. These are "
          "no times,\nand times measured on the stand-in are no device's.\n",
          out);
    bench_table_print(table, out, colour);
    bench_table_destroy(table);
}

void bench_counters(FILE *out, bool colour)
{
    const char *path = getenv("HAL_CUDA_LIBRARY");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    __typeof__(cuda_sim_counters_read) *read = NULL;
    if (library)
        *(void **)&read = dlsym(library, "cuda_sim_counters_read");
    unsigned count = read ? read(NULL, 0, sizeof(cuda_sim_kernel)) : 0;
    cuda_sim_kernel *kernels = calloc(count + 1u, sizeof *kernels);
    if (!read)
        fputs("\ncounters: only the stand-in CUDA driver has them (docs/cuda_sim.md), and no device here uses it\n",
              out);
    else if (kernels && count > 0)
        print_all(kernels, read(kernels, count, sizeof *kernels), out, colour);
    else
        fputs("\ncounters: no kernel ran on the stand-in CUDA driver\n", out);
    free(kernels);
    if (library)
        dlclose(library);
}
