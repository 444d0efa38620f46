/* builtin_rows.c - see builtin_rows.h. */
#include "builtin_rows.h"
#include "kernel_abi.h"
#include "kernel_convert.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 256, TILE = 1024, RELU = 1 }; /* of the activation; RELU: hal_act */
enum { SQUARE = 32 };                          /* of the transposition */

static size_t bytes_of(uint32_t dtype, uint32_t rows, uint32_t columns, uint32_t pad)
{
    return ((size_t)(rows - 1) * (columns + pad) + columns) * (dtype == HAL_KERNEL_F32 ? 4 : 2);
}

static void *rows_of(uint32_t dtype, uint32_t rows, uint32_t columns, uint32_t pad, uint32_t seed)
{
    void *data = kernel_memory(bytes_of(dtype, rows, columns, pad));
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            kernel_set(data, dtype, i * (columns + pad) + j, kernel_number(i, j, seed));
        }
    }
    return data;
}

static kernel_result compare(const builtin_activation *p, const void *a, const void *b, const void *y, char *text,
                             size_t size)
{
    for (size_t i = 0; i < p->rows; i++) {
        for (size_t j = 0; j < p->columns + p->pad && (j < p->columns || i + 1 < p->rows); j++) {
            const size_t at = i * (p->columns + p->pad) + j;
            const float got = kernel_get(y, p->dtype_y, at);
            if (j >= p->columns) {
                if (got == got) {
                    snprintf(text, size, "written behind row %zu, column %zu", i, j);
                    return KERNEL_WRONG;
                }
                continue;
            }
            float want = kernel_get(a, p->dtype_a, at);
            if (p->dtype_b) {
                want += kernel_get(b, p->dtype_b, i % p->b_rows * (p->b_columns + p->pad) + j % p->b_columns);
            } else {
                want = want > 0 ? want : 0;
            }
            if (got != want) {
                snprintf(text, size, "element (%zu, %zu) is %g, not %g", i, j, got, want);
                return KERNEL_WRONG;
            }
        }
    }
    return KERNEL_RIGHT;
}

typedef struct parameters {
    const void *a, *b, *y;
    hal_activation_args args;
} parameters;

kernel_result builtin_activation_run(const ptx_function *function, const void *problem, const sim_options *options,
                                     sim_counters *counters, char *text, size_t size)
{
    const builtin_activation *p = problem;
    void *a = rows_of(p->dtype_a, p->rows, p->columns, p->pad, 1);
    void *b = p->dtype_b ? rows_of(p->dtype_b, p->b_rows, p->b_columns, p->pad, 77) : NULL;
    void *y = kernel_memory(bytes_of(p->dtype_y, p->rows, p->columns, p->pad));
    parameters all = {a, b ? b : a, y, {.rows = p->rows, .columns = p->columns, .alpha = 1.0f}};
    all.args.flags = ROW_FLAGS(p->dtype_a, p->dtype_b, p->dtype_y, 0u, 0u, b ? ACTIVATION_ADD : (uint32_t)RELU);
    all.args.b_rows = p->b_rows;
    all.args.b_columns = p->b_columns;
    all.args.lda[0] = all.args.ldy[0] = p->columns + p->pad;
    all.args.ldb[0] = p->b_columns + p->pad;
    sim_range ranges[3] = {kernel_range(a, bytes_of(p->dtype_a, p->rows, p->columns, p->pad), true),
                           kernel_range(y, bytes_of(p->dtype_y, p->rows, p->columns, p->pad), false)};
    if (b) {
        ranges[2] = kernel_range(b, bytes_of(p->dtype_b, p->b_rows, p->b_columns, p->pad), true);
    }
    sim_launch l = {.function = function,
                    .grid = {(p->columns - 1) / TILE + 1, p->rows, 1},
                    .block = {THREADS, 1, 1},
                    .params = (const uint8_t *)&all,
                    .options = *options};
    kernel_result result = kernel_launch(&l, ranges, b ? 3 : 2, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare(p, a, b, y, text, size);
    }
    free(a);
    free(b);
    free(y);
    return result;
}

/* --- transposition --- */

static size_t bytes_of_elements(uint32_t width, uint32_t rows, uint32_t columns, uint32_t pad)
{
    return width * ((size_t)(rows - 1) * (columns + pad) + columns);
}

static uint32_t element_of(uint32_t row, uint32_t column)
{
    return (row * 1009 + column + 1) * 2654435761u;
}

static kernel_result compare_transposed(const builtin_transpose *p, const uint8_t *y, char *text, size_t size)
{
    static const uint8_t untouched[4] = {0xff, 0xff, 0xff, 0xff};
    const uint32_t ld = p->rows + p->pad_y;
    for (uint32_t i = 0; i < p->columns; i++) {
        for (uint32_t j = 0; j < ld && (j < p->rows || i + 1 < p->columns); j++) {
            const uint32_t value = element_of(j, i);
            const void *want = j < p->rows ? (const void *)&value : untouched;
            if (memcmp(y + p->width * ((size_t)i * ld + j), want, p->width) != 0) {
                snprintf(text, size, "element (%u, %u) is wrong", i, j);
                return KERNEL_WRONG;
            }
        }
    }
    return KERNEL_RIGHT;
}

kernel_result builtin_transpose_run(const ptx_function *function, const void *problem, const sim_options *options,
                                    sim_counters *counters, char *text, size_t size)
{
    const builtin_transpose *p = problem;
    const size_t bytes_x = bytes_of_elements(p->width, p->rows, p->columns, p->pad_x),
                 bytes_y = bytes_of_elements(p->width, p->columns, p->rows, p->pad_y);
    uint8_t *x = kernel_memory(bytes_x), *y = kernel_memory(bytes_y);
    for (uint32_t i = 0; i < p->rows; i++) {
        for (uint32_t j = 0; j < p->columns; j++) {
            const uint32_t value = element_of(i, j);
            memcpy(x + p->width * ((size_t)i * (p->columns + p->pad_x) + j), &value, p->width);
        }
    }
    struct {
        const void *x, *y;
        hal_transpose_args args;
    } all = {x, y, {.count_a = p->columns, .count_b = p->rows, .width = p->width}};
    all.args.xa[0] = all.args.yb[0] = 1;
    all.args.xb[0] = p->columns + p->pad_x;
    all.args.ya[0] = p->rows + p->pad_y;
    sim_range ranges[2] = {kernel_range(x, bytes_x, true), kernel_range(y, bytes_y, false)};
    sim_launch l = {.function = function,
                    .grid = {(p->rows - 1) / SQUARE + 1, (p->columns - 1) / SQUARE + 1, 1},
                    .block = {THREADS, 1, 1},
                    .params = (const uint8_t *)&all,
                    .options = *options};
    kernel_result result = kernel_launch(&l, ranges, 2, counters, text, size);
    if (result == KERNEL_RIGHT) {
        result = compare_transposed(p, y, text, size);
    }
    free(x);
    free(y);
    return result;
}
