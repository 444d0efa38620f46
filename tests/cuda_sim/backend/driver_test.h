/* driver_test.h - what the tests of the stand-in's own driver API share: its entry points, and a context. */
#ifndef DRIVER_TEST_H
#define DRIVER_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../driver/cuda_sim.h"
#include "../driver/extra.h"

typedef struct driver {
#define NV_FUNCTION(name, params) __typeof__(nv_result params) *name; /* NOLINT(bugprone-macro-parentheses) */
#define NV_OPTIONAL(name, params) NV_FUNCTION(name, params)
#include "../../../backends/cuda/driver.def"
#include "../driver/extra.def"
#undef NV_FUNCTION
#undef NV_OPTIONAL
    __typeof__(cuda_sim_errors) *errors;
    __typeof__(cuda_sim_last_fault) *last_fault;
    __typeof__(cuda_sim_last_error) *last_error;
    __typeof__(cuda_sim_counters_read) *counters_read;
    __typeof__(cuda_sim_counters_reset) *counters_reset;
} driver;
extern driver cu;
extern int capability; /* 90 */

#define IS(want, call) driver_is((int)(want), (call), #call, __FILE__, __LINE__)
#define OK(call)       IS(NV_SUCCESS, call)
void driver_is(int want, nv_result got, const char *call, const char *file, int line);

int driver_begin(void **state); /* a context is current */
int driver_end(void **state);   /* and nothing is left of it */

nv_module driver_module(const char *ptx);
nv_function driver_function(nv_module module, const char *name);
nv_stream driver_stream(void);
nv_ptr driver_words(uint32_t count); /* all 0 */
uint32_t driver_word(nv_ptr address);
/* Launch with one parameter, the address. */
nv_result driver_launch(nv_function function, unsigned grid, unsigned block, unsigned shared, nv_stream stream,
                        nv_ptr address);

/* Kernels: store (counts its threads in the first word), cluster (the size of a cluster), wild (leaves its memory),
 * stale (reads fresh shared memory), stuck (waits for a barrier alone), table (adds to a .global array). */
extern const char driver_ptx[];

int driver_test_launches(void);
int driver_test_streams(void);

#endif
