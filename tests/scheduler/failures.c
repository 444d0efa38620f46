/* failures.c - see failures.h. */
#include "failures.h"

#include "host_memory.h"

#include <string.h>

static void settle(const a_life *life, hal_memory_stats *stats)
{
    OK(hal_device_wait(life->device, TEST_TIMEOUT));
    OK(hal_device_memory_stats(life->device, stats));
}

static void check_same(const hal_memory_stats *before, const a_life *life)
{
    hal_memory_stats after;
    settle(life, &after);
    assert_int_equal(after.count, before->count);
    assert_int_equal(after.current, before->current);
}

/* The life in which the nth allocation fails; whether there was one. */
static bool fail_one(const a_life *life, uint64_t nth, uint32_t *failed)
{
    host_memory_count(nth);
    const hal_status status = life->live(life->user);
    const bool reached = host_memory_stop() >= nth;
    if (status != HAL_OK && (!reached || status != HAL_ERROR_OUT_OF_MEMORY)) {
        fail_msg("allocation %llu: %s: %s", (unsigned long long)nth, hal_status_name(status), hal_last_error());
    }
    *failed += status != HAL_OK;
    return reached;
}

void fail_host_memory(const a_life *life, uint32_t least)
{
    hal_memory_stats before;
    OK(life->live(life->user)); /* what is kept for good is kept now */
    settle(life, &before);
    uint32_t failed = 0, grown = 0;
    for (uint64_t nth = 1;; nth += grown == 0) {
        const int64_t live = host_memory_live();
        if (!fail_one(life, nth, &failed)) {
            break;
        }
        check_same(&before, life);
        /* Backends keep what a busy moment needed for the next one; what is lost is lost again each time. */
        grown = host_memory_live() != live ? grown + 1 : 0;
        if (grown > 3) {
            fail_msg("allocation %llu fails and %lld are lost", (unsigned long long)nth,
                     (long long)(host_memory_live() - live));
        }
    }
    print_message("%u allocations of host memory failed\n", failed);
    assert_true(failed >= least);
    life->check(life->user);
}

void fail_each(const a_life *life, hal_fault fault, hal_status natural, uint32_t least)
{
    hal_memory_stats before;
    OK(life->live(life->user));
    settle(life, &before);
    uint32_t failed = 0, passed = 0;
    for (uint64_t nth = 1; passed < 4; nth++) { /* some failures are got round */
        OK(hal_device_inject_fault(life->device, fault, nth));
        const hal_status status = life->live(life->user);
        OK(hal_device_inject_fault(life->device, fault, 0));
        if (status == HAL_OK) {
            passed++;
            continue;
        }
        passed = 0;
        failed++;
        assert_int_equal(status, natural);
        assert_true(hal_last_error()[0] != 0 && !strchr(hal_last_error(), '\n'));
        life->check(life->user);
    }
    assert_true(failed >= least && failed < 200);
    check_same(&before, life);
}
