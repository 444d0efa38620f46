/* cuda_sim.h - what a test or a tool can ask of the stand-in driver, and tell it. Get the functions by dlsym from the
 * loaded library. docs/cuda_sim.md lists the environment variables, which are read when the library is loaded. */
#ifndef CUDA_SIM_H
#define CUDA_SIM_H

#include "../exec/sim_api.h"

/* Misuse seen so far: freed or foreign handles, wrong contexts, memory used after it was freed, leaks of a closed
 * context, and the faults of kernels. Injected failures do not count. */
unsigned cuda_sim_errors(void);
/* What the last misuse was; "" if there was none. */
const char *cuda_sim_last_error(void);
/* What stopped the last kernel that failed: its name, line, opcode, block and thread. "" if none did. */
const char *cuda_sim_last_fault(void);
/* Calls of one driver function so far. */
unsigned long cuda_sim_calls(const char *function);
/* Objects of any kind that are alive: allocations, streams, events, modules, graphs, executable graphs. */
unsigned cuda_sim_live(void);
/* Let the nth call of a function from now on (1: the next) fail with a CUresult; 0 takes back what is left for it. A
 * result that would be sticky on a real device is sticky here: every call in that context gives it until the primary
 * context was released. */
void cuda_sim_fail(const char *function, unsigned long nth, int result);

/* Counts of every kernel that ran since the library was loaded or the last reset. They are exact, and no times. */
typedef struct cuda_sim_kernel {
    char name[128];
    unsigned long long launches;
    sim_counters total; /* of all launches; registers and shared_bytes: the most of any */
} cuda_sim_kernel;
/* Copies the first `capacity` of them, in the order of their first launch, and returns how many there are.
 * `struct_size` is sizeof(cuda_sim_kernel); another one is answered by 0. */
unsigned cuda_sim_counters_read(cuda_sim_kernel *kernels, unsigned capacity, unsigned long struct_size);
void cuda_sim_counters_reset(void);

#endif
