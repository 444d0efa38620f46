/* cuda_test.h - what the CUDA backend's tests share. They use the public API on the stand-in driver, and ask it what
 * it was told. */
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hal/hal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOON HAL_SECONDS(20)

/* The stand-in driver's control functions (cuda_sim.h). */
typedef struct sim_control {
    unsigned (*errors)(void);
    const char *(*last_error)(void);
    unsigned long (*calls)(const char *function);
    unsigned (*live)(void);
    void (*inject)(const char *function, unsigned long nth, int result);
    int (*get_current)(void **context);
    int (*push)(void *context);
    int (*pop)(void **context);
} sim_control;
extern sim_control sim;

/* Fail with the call's own words if it did not return `want`. */
#define EXPECT(want, call) cuda_expect((want), (call), #call, __FILE__, __LINE__)
#define OK(call)           EXPECT(HAL_OK, call)
void cuda_expect(hal_status want, hal_status got, const char *call, const char *file, int line);
/* The last error is one line that holds `part`. */
void cuda_expect_error(const char *part);

hal_device *cuda_open(void);
/* Close the device and see that nothing is left and nothing was misused. */
void cuda_close(hal_device *device);
hal_module *cuda_module(hal_device *device);
hal_kernel *cuda_kernel(hal_module *module, const char *name, uint32_t bindings, uint32_t args_size);
hal_buffer *cuda_buffer(hal_device *device, uint64_t size);
hal_stream *cuda_stream(hal_device *device);
/* All n u32 of the buffer's start are first, first + step, ... */
void cuda_check(hal_stream *stream, hal_buffer *buffer, uint32_t n, uint32_t first, uint32_t step);

int cuda_test_lists(void);

#endif
