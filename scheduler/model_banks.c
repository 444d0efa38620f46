/* model_banks.c - bank conflicts of a column read. */
#include "model_parts.h"

enum { BANKS = 32, LANES = 32, MOST_ROWS = 1 << 20 };

/* Rounds of one warp: the most different words that a bank is asked for. */
static uint64_t rounds_of(const uint64_t words[LANES], uint64_t count)
{
    uint64_t most = 0;
    uint64_t asked[BANKS] = {0};
    for (uint64_t lane = 0; lane < count; lane++) {
        bool again = false;
        for (uint64_t other = 0; other < lane && !again; other++)
            again = words[other] == words[lane];
        uint64_t *bank = &asked[words[lane] % BANKS];
        *bank += !again;
        most = *bank > most ? *bank : most;
    }
    return most;
}

static uint64_t rounds_of_column(uint64_t rows, uint64_t cols, uint64_t stride, bool swizzle, uint64_t column)
{
    uint64_t rounds = 0;
    for (uint64_t first = 0; first < rows; first += LANES) {
        const uint64_t count = rows - first < LANES ? rows - first : LANES;
        uint64_t words[LANES];
        for (uint64_t lane = 0; lane < count; lane++) {
            const uint64_t row = first + lane;
            words[lane] = row * stride + (swizzle ? column ^ (row % cols) : column);
        }
        rounds += rounds_of(words, count);
    }
    return rounds;
}

hal_status hal_model_bank_rounds(uint64_t rows, uint64_t cols, uint64_t stride, bool swizzle, uint64_t *rounds)
{
    if (!rounds)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model banks: rounds must not be NULL");
    *rounds = 0;
    if (!rows || rows > MOST_ROWS)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model banks: rows is from 1 to %d", MOST_ROWS);
    if (!cols || (swizzle && (cols & (cols - 1))))
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model banks: cols is at least 1, and a power of two to swizzle");
    if (!stride || stride > UINT32_MAX)
        return hal_fail(HAL_ERROR_INVALID_ARGUMENT, "model banks: stride is from 1 to 2^32 - 1");
    /* Without a swizzle all columns are alike, up to a turn of the banks; with one, those that are 32 apart. */
    const uint64_t columns = !swizzle ? 1 : cols < BANKS ? cols : BANKS;
    for (uint64_t column = 0; column < columns; column++) {
        const uint64_t of_this = rounds_of_column(rows, cols, stride, swizzle, column);
        *rounds = of_this > *rounds ? of_this : *rounds;
    }
    return HAL_OK;
}
