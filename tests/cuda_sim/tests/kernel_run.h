/* kernel_run.h - whole kernels from nvcc's PTX in the stand-in: their text, a launch, and numbers to give them. */
#ifndef KERNEL_RUN_H
#define KERNEL_RUN_H

#include "../exec/sim_api.h"
#include "../ptx/ptx.h"

typedef enum kernel_result { KERNEL_RIGHT, KERNEL_NOT_RUN, KERNEL_FAULT, KERNEL_WRONG } kernel_result;

/* Launches a kernel on a problem of its own type and compares. `counters` may be NULL; `text` says what went wrong. */
typedef kernel_result kernel_runner(const ptx_function *function, const void *problem, const sim_options *options,
                                    sim_counters *counters, char *text, size_t size);

/* The module in a file with one of its entries only, for the caller to free; a test ends where there is none. */
char *kernel_text(const char *path, const char *entry);
/* sim_launch_run with its ranges in any order. `text` says what went wrong. */
kernel_result kernel_launch(sim_launch *launch, sim_range *ranges, size_t count, sim_counters *counters, char *text,
                            size_t size);
sim_range kernel_range(const void *start, size_t bytes, bool read_only);

/* Memory of exactly so many bytes, each 0xff: NaN in F32, F16 and BF16. A test ends where there is none. */
void *kernel_memory(size_t bytes);
/* -3 to 3, rows, columns and seeds each with their own: every sum of a few thousand products is exact. */
float kernel_number(size_t row, size_t column, uint32_t seed);
uint16_t kernel_bf16(float value);
float kernel_of_bf16(uint16_t bits);
float kernel_of_e4m3(uint8_t code);
/* One element of a HAL_KERNEL_ dtype: F32, BF16, or F8E4M3, which must have the value. */
void kernel_set(void *array, uint32_t dtype, size_t i, float value);
float kernel_get(const void *array, uint32_t dtype, size_t i);

#endif
