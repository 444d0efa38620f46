/* model_rows.c - rows shared out among tasks, and what the order of a sum does to it. */
#include "model_parts.h"

hal_status hal_model_row_split_of(uint64_t rows, uint64_t splits, hal_model_row_split *split)
{
    bool over = false;
    if (!split || !splits)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model row split: split must not be NULL, nor splits 0");
    *split = (hal_model_row_split){
        .tasks = times(&over, rows, splits), .combines = splits > 1 ? rows : 0, .phases = splits > 1 ? 2 : 1};
    return over ? too_large("model row split") : HAL_OK;
}

float hal_model_segmented_sum(const float *values, uint64_t count, uint64_t segments)
{
    float sum = 0;
    if (!values || !segments)
        return NAN;
    segments = segments < count ? segments : count; /* empty parts add nothing */
    for (uint64_t segment = 0, at = 0; segment < segments; segment++) {
        const uint64_t end = at + (count - at) / (segments - segment);
        float part = 0;
        for (; at < end; at++)
            part += values[at];
        sum += part;
    }
    return sum;
}

double hal_model_ulps(double got, double want)
{
    const float near = fabsf((float)want);
    if (!isfinite(got) || !isfinite(want) || !isfinite(near))
        return NAN;
    const double ulp = (double)nextafterf(near, INFINITY) - (double)near;
    return isfinite(ulp) ? (got - want) / ulp : NAN;
}
