/* conf.h - what the conformance cases share. Each topic is a file with one function that runs its group; the program
 * runs them all on the backend that HAL_BACKEND names. */
#ifndef CONF_H
#define CONF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hal/hal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No wait of a case is longer than this unless it says so. */
#define SOON HAL_SECONDS(20)

typedef struct conf_fill {
    uint32_t n, base;
} conf_fill;
typedef struct conf_count {
    uint32_t n;
} conf_count;
typedef struct conf_scale {
    uint32_t n, mul, add;
} conf_scale;
typedef struct conf_mark {
    uint32_t gx, gy, gz, base[3];
} conf_mark;

/* The device under test, open for the whole run, and the name of its backend. */
extern hal_device *conf_device;
extern const char *conf_backend;

/* Fail with the call's own words if it did not return `want`. */
#define EXPECT(want, call) conf_expect((want), (call), #call, __FILE__, __LINE__)
#define OK(call)           EXPECT(HAL_OK, call)
void conf_expect(hal_status want, hal_status got, const char *call, const char *file, int line);
/* The last error is one line that holds `part`. */
void conf_expect_error(const char *part);
/* Leave the case out, with the reason. */
#define SKIP(...)                                                                                                      \
    do {                                                                                                               \
        conf_skipped(__func__, __VA_ARGS__);                                                                           \
        skip();                                                                                                        \
    } while (0)
void conf_skipped(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A further device of the backend under test, with lowered limits (NULL: none). */
hal_device *conf_open(const char *limits);
hal_status conf_try_open(const char *limits, hal_device **device);

/* A kernel of test_kernels by name (see kernels/). */
hal_status conf_try_kernel(hal_device *device, const char *name, hal_kernel **kernel);
hal_kernel *conf_kernel(hal_device *device, const char *name);
/* The same for conf_device, made once. */
hal_kernel *conf_shared(const char *name);
void conf_release_shared(void);
/* The same with a changed description; `desc` starts as conf_kernel_desc gives it. */
hal_kernel_desc conf_kernel_desc(const char *name);
hal_status conf_module(hal_device *device, const char *name, hal_module **module);
/* A file of the kernels folder or of the build's; NULL if it is not there. Free it. */
char *conf_read(const char *name, size_t *size);

hal_buffer *conf_buffer(hal_device *device, uint64_t size);
hal_stream *conf_stream(hal_device *device);
hal_event *conf_event(hal_device *device);
hal_event *conf_gate(hal_device *device);
hal_cmdlist *conf_list(hal_device *device);
/* Blocking reads and writes of a buffer on a stream. */
void conf_write(hal_stream *stream, hal_buffer *buffer, uint64_t offset, const void *data, uint64_t size);
void conf_get(hal_stream *stream, hal_buffer *buffer, uint64_t offset, void *data, uint64_t size);
/* Every u32 of [first, first + n) of the buffer is base, base + step, ... */
void conf_check_u32(hal_stream *stream, hal_buffer *buffer, uint64_t first, uint32_t n, uint32_t base, uint32_t step);

/* Groups of 64 for n elements. */
static inline hal_grid conf_grid(uint32_t n)
{
    return HAL_GRID1((n + 63) / 64);
}

/* fill_index on a list: out[i] = base + i. */
hal_status conf_do_fill(hal_cmdlist *list, hal_kernel *fill, hal_span out, uint32_t n, uint32_t base);
hal_status conf_do_scale(hal_cmdlist *list, hal_kernel *scale, hal_span y, uint32_t n, uint32_t mul, uint32_t add);
hal_status conf_do_copy(hal_cmdlist *list, hal_kernel *copy, hal_span src, hal_span dst, uint32_t n);
hal_status conf_do_add(hal_cmdlist *list, hal_kernel *add, hal_span a, hal_span b, hal_span c, uint32_t n);

/* Keep the stream's device busy for at least that many ms, with dispatches that wait for each other. `out` is 4 bytes.
 * Returns at once. */
void conf_busy(hal_stream *stream, hal_kernel *spin, hal_buffer *out, uint32_t ms);

uint32_t conf_skip_count(void);
uint64_t conf_now(void);
uint64_t conf_rss(void);     /* resident bytes of the process */
uint32_t conf_handles(void); /* open file descriptors */
/* The process has grown by less than `allowance` bytes since conf_rss() was `start`. Under a sanitizer, which keeps
 * freed memory, nothing is checked. */
void conf_check_growth(uint64_t start, uint64_t allowance);

/* Run this program again with `argument` and more environment ("NAME=value", NULL-terminated; "NAME" unsets); its
 * output goes to `text`. Returns the exit status, or -1 if it did not end by itself. */
int conf_run_self(const char *argument, const char *const *environment, char *text, size_t size);

/* A group of cases: run() gives the number that failed. The table ends with a NULL name. */
typedef struct conf_topic {
    const char *name;
    int (*run)(void);
} conf_topic;
extern const conf_topic conf_topics[];
int conf_test_select(void);
int conf_test_device(void);
int conf_test_cache(void);
int conf_test_buffer(void);
int conf_test_stream(void);
int conf_test_event(void);
int conf_test_module(void);
int conf_test_command(void);
int conf_test_grid(void);
int conf_test_list(void);
int conf_test_replay(void);
int conf_test_errors(void);
int conf_test_faults(void);
int conf_test_trace(void);
int conf_test_stress(void);
int conf_test_hardening(void);
int conf_test_hardening_held(void);
int conf_test_hardening_threads(void);

/* What a child started by conf_run_self does; its exit status. */
int conf_child(const char *argument);
int conf_child_compile(void);
int conf_child_cycles(void);
int conf_child_first_opens(void);
int conf_child_lost_driver(void);

/* Before and after each case: a deadline, so that a hang ends the run at the case that hangs. */
int conf_case_setup(void **state);
int conf_case_teardown(void **state);
#define CASE(name)       cmocka_unit_test_setup_teardown(name, conf_case_setup, conf_case_teardown)
#define RUN(name, tests) cmocka_run_group_tests_name(name, tests, NULL, NULL)

#endif
