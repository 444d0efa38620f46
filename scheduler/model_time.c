/* model_time.c - what a machine makes of bytes, FLOPs and launches. */
#include "model_parts.h"

double hal_model_peak(const hal_model_machine *machine, hal_dtype dtype)
{
    /* What a type is computed in where there is no arithmetic of its own. */
    static const hal_dtype wider[HAL_MODEL_DTYPES] = {
        [HAL_F8E4M3] = HAL_F16, [HAL_BF16] = HAL_F32, [HAL_F16] = HAL_F32};
    if (!machine || (int)dtype < HAL_F32 || (int)dtype >= HAL_MODEL_DTYPES)
        return 0;
    while (machine->flops_per_s[dtype] <= 0 && wider[dtype])
        dtype = wider[dtype];
    return machine->flops_per_s[dtype];
}

double hal_model_ridge(const hal_model_machine *machine, hal_dtype dtype)
{
    double peak = hal_model_peak(machine, dtype);
    return peak > 0 && machine->memory_bytes_per_s > 0 ? peak / machine->memory_bytes_per_s : NAN;
}

/* A machine that does not say how fast something is counts as infinitely fast at it: the result stays a floor. */
static double at_rate(double amount, double per_s)
{
    return per_s > 0 ? amount / per_s * 1e6 : 0;
}

double hal_model_floor_us(const hal_model_machine *machine, hal_dtype dtype, double flops, double bytes)
{
    if (!machine || !sensible(flops) || !sensible(bytes))
        return NAN;
    return fmax(at_rate(flops, hal_model_peak(machine, dtype)), at_rate(bytes, machine->memory_bytes_per_s));
}

double hal_model_kernels_us(const hal_model_machine *machine, hal_dtype dtype, double flops, double bytes,
                            uint64_t kernels)
{
    double floor_us = hal_model_floor_us(machine, dtype, flops, bytes);
    return isnan(floor_us) ? NAN : floor_us + (double)kernels * machine->launch_us;
}

double hal_model_unit_load_us(const hal_model_machine *machine, double bytes)
{
    if (!machine || !machine->units || !sensible(bytes))
        return NAN;
    return at_rate(bytes, machine->memory_bytes_per_s / machine->units);
}

double hal_model_unit_math_us(const hal_model_machine *machine, hal_dtype dtype, double flops)
{
    if (!machine || !machine->units || !sensible(flops))
        return NAN;
    return at_rate(flops, hal_model_peak(machine, dtype) / machine->units);
}

double hal_model_bytes_in_flight(double bytes_per_s, double latency_us)
{
    return sensible(bytes_per_s) && sensible(latency_us) ? bytes_per_s * latency_us * 1e-6 : NAN;
}

double hal_model_time_ratio(double traffic, double other_traffic, double rate, double other_rate)
{
    if (!sensible(traffic) || !sensible(other_traffic) || !sensible(rate) || !sensible(other_rate) ||
        other_traffic == 0 || rate == 0)
        return NAN;
    return traffic / other_traffic * (other_rate / rate);
}

double hal_model_mfu_us(double flops, double peak_flops_per_s, double mfu)
{
    if (!sensible(flops) || !sensible(peak_flops_per_s) || peak_flops_per_s == 0 || !(mfu > 0 && mfu <= 1))
        return NAN;
    return flops / (peak_flops_per_s * mfu) * 1e6;
}

double hal_model_call_us(double submit_us, double device_us, double wait_us)
{
    return sensible(submit_us) && sensible(device_us) && sensible(wait_us) ? submit_us + device_us + wait_us : NAN;
}

double hal_model_busy_gain(double device_share)
{
    return device_share > 0 && device_share <= 1 ? 1 / device_share : NAN;
}

double hal_model_amdahl(double f, double s)
{
    if (!(f >= 0 && f <= 1) || !(s > 0) || !isfinite(s))
        return NAN;
    return 1 / (1 - f + f / s);
}
