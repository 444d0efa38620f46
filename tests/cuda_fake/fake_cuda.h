/* fake_cuda.h - what a test can ask of the fake driver, and tell it. Get the functions by dlsym from the loaded
 * library.
 *
 * Environment, read when the library is loaded:
 *   HAL_FAKE_CUDA_DEVICES   number of devices (1; 0: cuInit says that there is none)
 *   HAL_FAKE_CUDA_VERSION   of the driver (13000)
 *   HAL_FAKE_CUDA_MEMORY    bytes of each device (1 GiB)
 *   HAL_FAKE_CUDA_REPORT    1: say at exit, on stderr, what was misused and what is still alive
 *   HAL_FAKE_CUDA_FAIL      FUNCTION:NTH:CODE,... the nth call of a function gives that CUresult */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

/* Misuse seen so far: freed or foreign handles, wrong contexts, memory used after it was freed, leaks of a closed
 * context. Injected failures do not count. */
unsigned fake_cuda_errors(void);
/* What the last misuse was; "" if there was none. */
const char *fake_cuda_last_error(void);
/* Calls of one driver function so far. */
unsigned long fake_cuda_calls(const char *function);
/* Objects of any kind that are alive: allocations, streams, events, modules, graphs, executable graphs. */
unsigned fake_cuda_live(void);
/* Let the nth call of a function from now on (1: the next) fail with a CUresult; 0 takes back what is left for it. A
 * result that would be sticky on a real device is sticky here: every call in that context gives it until the primary
 * context was released. */
void fake_cuda_fail(const char *function, unsigned long nth, int result);

#endif
