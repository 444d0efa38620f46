/* model_test.h - what the tests of the cost model share. */
#ifndef MODEL_TEST_H
#define MODEL_TEST_H

#include "unit.h"

#include <hal/model.h>
#include <hal/numeric.h>
#include <math.h>

#define MIB 1048576.0
#define KIB 1024.0

/* Within half of the last digit that is written: near(5.44, 5.4412, 0.005). */
static inline void near_to(double want, double got, double by, const char *what, int line)
{
    if (!(fabs(got - want) <= by))
        fail_msg("line %d: %s is %.12g, not %.12g", line, what, got, want);
}
#define near(want, got, by) near_to(want, got, by, #got, __LINE__)
#define exact(want, got)    near_to(want, (double)(got), 1e-9 * fmax(1, fabs((double)(want))), #got, __LINE__)

#define good(call)          assert_int_equal(call, HAL_OK)

static inline hal_model_machine machine_named(const char *name)
{
    hal_model_machine machine;
    good(hal_model_machine_named(name, &machine));
    return machine;
}

/* From 1 to most. */
static inline uint64_t pick(uint64_t *state, uint64_t most)
{
    return 1 + unit_random(state) % most;
}

/* From 0 to most, in steps of a 64th: sums of them are exact. */
static inline double pick_time(uint64_t *state, uint64_t most)
{
    return (double)(unit_random(state) % (most * 64 + 1)) / 64;
}

#endif
