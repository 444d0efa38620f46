/* peaks.c - published peaks of GPUs, from the cost model's descriptions of machines. */
#include "bench.h"

#include <hal/model.h>
#include <math.h>

static double giga(double per_s)
{
    return per_s > 0 ? per_s / 1e9 : NAN;
}

bench_peak bench_peak_find(const char *device_name, hal_dtype dtype)
{
    hal_device_info info = {.type = HAL_DEVICE_DISCRETE};
    hal_model_machine machine;
    snprintf(info.name, sizeof info.name, "%s", device_name);
    if (hal_model_machine_find(&info, &machine) != HAL_OK || machine.generic)
        return (bench_peak){NAN, NAN};
    return (bench_peak){giga(machine.flops_per_s[dtype]), giga(machine.memory_bytes_per_s)};
}
