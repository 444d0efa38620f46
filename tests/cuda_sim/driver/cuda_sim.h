/* cuda_sim.h - what a test can ask of the stand-in driver, and tell it. Get the functions by dlsym from the loaded
 * library.
 *
 * Environment, read when the library is loaded:
 *   HAL_CUDA_SIM_DEVICES   number of devices (1; 0: cuInit says that there is none)
 *   HAL_CUDA_SIM_VERSION   of the driver (13000)
 *   HAL_CUDA_SIM_MEMORY    bytes of each device (1 GiB)
 *   HAL_CUDA_SIM_REPORT    1: say at exit, on stderr, what was misused and what is still alive
 *   HAL_CUDA_SIM_FAIL      FUNCTION:NTH:CODE,... the nth call of a function gives that CUresult */
#ifndef CUDA_SIM_H
#define CUDA_SIM_H

/* Misuse seen so far: freed or foreign handles, wrong contexts, memory used after it was freed, leaks of a closed
 * context. Injected failures do not count. */
unsigned cuda_sim_errors(void);
/* What the last misuse was; "" if there was none. */
const char *cuda_sim_last_error(void);
/* Calls of one driver function so far. */
unsigned long cuda_sim_calls(const char *function);
/* Objects of any kind that are alive: allocations, streams, events, modules, graphs, executable graphs. */
unsigned cuda_sim_live(void);
/* Let the nth call of a function from now on (1: the next) fail with a CUresult; 0 takes back what is left for it. A
 * result that would be sticky on a real device is sticky here: every call in that context gives it until the primary
 * context was released. */
void cuda_sim_fail(const char *function, unsigned long nth, int result);

#endif
