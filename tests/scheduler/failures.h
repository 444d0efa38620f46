/* failures.h - the life of something with one thing failing, for every thing: host memory, device memory, submissions.
 * Whatever failed, nothing is lost, and the same goes well right after. */
#ifndef TEST_FAILURES_H
#define TEST_FAILURES_H

#include "gemm_case.h"

typedef struct a_life {
    hal_device *device;
    hal_status (*live)(void *user); /* from its creation to its destruction; the first failure */
    void (*check)(void *user);      /* that results are right */
    void *user;
} a_life;

/* Each allocation of host memory fails in turn; at least so many of them end the life. */
void fail_host_memory(const a_life *life, uint32_t least);
/* Each event of the kind fails in turn, with `natural`. */
void fail_each(const a_life *life, hal_fault fault, hal_status natural, uint32_t least);

#endif
