/* model_attention.c - attention: what the unfused form moves, and how large the blocks of keys should be. */
#include "model_parts.h"

enum { BF16 = 2, FP32 = 4, STATISTICS = 3 }; /* m, l and the factor of a row */
enum { MOST_TRIED = 1 << 20 };

hal_status hal_model_attention_costs(uint64_t length, uint64_t d, hal_model_attention *cost)
{
    bool over = false;
    if (!cost)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model attention: cost must not be NULL");
    memset(cost, 0, sizeof *cost);
    if (!length || !d)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model attention: length and d must not be 0");
    hal_model_attention c = {.operand = times(&over, times(&over, length, d), BF16),
                             .score = times(&over, times(&over, length, length), FP32)};
    c.scores = times(&over, c.score, 4); /* two matrices, each way */
    c.minimum = times(&over, c.operand, 4);
    if (over)
        return too_large("model attention");
    *cost = c;
    return HAL_OK;
}

static hal_status check_kv(uint64_t length, uint64_t d, uint64_t shared, uint64_t b)
{
    static const struct {
        const char *name;
        uint64_t most;
    } limits[] = {{"length", 1ULL << 40}, {"d", 1 << 20}, {"shared", 1ULL << 40}, {"b", 1ULL << 40}};
    const uint64_t values[] = {length, d, shared, b};
    for (int i = 0; i < 4; i++)
        if (!values[i] || values[i] > limits[i].most)
            return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model K/V block: %s is from 1 to %llu", limits[i].name,
                            (unsigned long long)limits[i].most);
    return HAL_OK;
}

hal_status hal_model_kv_block(uint64_t length, uint64_t d, uint64_t shared, uint64_t b, bool prefetch, hal_model_kv *kv)
{
    bool over = false;
    if (!kv)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model K/V block: kv must not be NULL");
    memset(kv, 0, sizeof *kv);
    hal_status status = check_kv(length, d, shared, b);
    if (status != HAL_OK)
        return status;
    const uint64_t block = times(&over, (prefetch ? 2 : 1) * BF16 * d, b);
    /* of a query row: itself, its scores, its output, its statistics */
    const uint64_t row = plus(&over, (BF16 + FP32) * d + STATISTICS * FP32, FP32 * b);
    if (over || block >= shared || (shared - block) / row == 0)
        return HAL_OK;
    hal_model_kv v = {.q_rows = (shared - block) / row};
    v.scans = parts_of(length, v.q_rows);
    v.kv_bytes = times(&over, v.scans, times(&over, 2 * BF16 * d, length));
    v.updates = times(&over, v.scans, parts_of(length, b));
    if (over)
        return too_large("model K/V block");
    *kv = v;
    return HAL_OK;
}

hal_status hal_model_kv_best(uint64_t length, uint64_t d, uint64_t shared, bool prefetch, double bytes_per_s,
                             double update_us, uint64_t *b, hal_model_kv *kv)
{
    if (!b || !kv)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model K/V block: b and kv must not be NULL");
    *b = 0;
    memset(kv, 0, sizeof *kv);
    if (!sensible(bytes_per_s) || bytes_per_s == 0 || !sensible(update_us))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model K/V block: a rate above 0 and a time are wanted");
    double least = INFINITY;
    for (uint64_t size = 1; size <= length && size <= MOST_TRIED; size++) {
        hal_model_kv v;
        hal_status status = hal_model_kv_block(length, d, shared, size, prefetch, &v);
        if (status != HAL_OK)
            return status;
        if (!v.q_rows)
            break; /* nor with a larger block */
        const double us = (double)v.kv_bytes / bytes_per_s * 1e6 + (double)v.updates * update_us;
        if (us < least) {
            least = us;
            *b = size;
            *kv = v;
        }
    }
    return HAL_OK;
}
