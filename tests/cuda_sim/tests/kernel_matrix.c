/* kernel_matrix.c - see kernel_matrix.h. */
#include "kernel_matrix.h"
#include "kernel_abi.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOLERANCE 4e-6

uint32_t kernel_dtype_size(uint32_t dtype)
{
    return dtype == HAL_KERNEL_F32 ? 4 : dtype == HAL_KERNEL_F8E4M3 ? 1 : 2;
}

kernel_matrix kernel_matrix_of(uint32_t dtype, uint32_t rows, uint32_t columns, uint32_t pad)
{
    const size_t elements = (size_t)(rows - 1) * (columns + pad) + columns;
    kernel_matrix m = {NULL, elements * kernel_dtype_size(dtype), dtype, rows, columns, columns + pad};
    m.data = dtype ? kernel_memory(m.bytes) : NULL;
    return m;
}

void kernel_matrix_set(const kernel_matrix *m, uint32_t row, uint32_t column, float value)
{
    kernel_set(m->data, m->dtype, (size_t)row * m->ld + column, value);
}

double kernel_matrix_get(const kernel_matrix *m, uint32_t row, uint32_t column)
{
    return kernel_get(m->data, m->dtype, (size_t)row * m->ld + column);
}

void kernel_matrix_fill(const kernel_matrix *m, uint32_t seed, float factor)
{
    for (uint32_t i = 0; i < m->rows && m->data; i++) {
        for (uint32_t j = 0; j < m->columns; j++) {
            kernel_matrix_set(m, i, j, factor * kernel_number(i, j, seed));
        }
    }
}

bool kernel_padding_is_left(const kernel_matrix *m, char *text, size_t size)
{
    const uint32_t bytes = kernel_dtype_size(m->dtype);
    for (uint32_t i = 0; i + 1 < m->rows; i++) {
        const uint8_t *from = (const uint8_t *)m->data + ((size_t)i * m->ld + m->columns) * bytes;
        for (uint32_t j = 0; j < (m->ld - m->columns) * bytes; j++) {
            if (from[j] != 0xff) {
                snprintf(text, size, "written behind row %u", i);
                return false;
            }
        }
    }
    return true;
}

bool kernel_value_is(const kernel_matrix *m, uint32_t row, uint32_t column, double want, char *text, size_t size)
{
    const double got = kernel_matrix_get(m, row, column);
    const double tolerance = m->dtype == HAL_KERNEL_F32 ? TOLERANCE : 1.0 / 256;
    if (got == want || fabs(got - want) <= tolerance * (1 + fabs(want))) {
        return true;
    }
    snprintf(text, size, "element (%u, %u) is %.9g, not %.9g", row, column, got, want);
    return false;
}

bool kernel_codes_are(const kernel_matrix *codes, const kernel_matrix *scales, uint32_t row, const double *want,
                      char *text, size_t size)
{
    const double scale = kernel_matrix_get(scales, 0, row);
    double most = 0;
    for (uint32_t j = 0; j < codes->columns; j++) {
        const double got = scale * kernel_matrix_get(codes, row, j);
        most = fmax(most, fabs(want[j]));
        if (!(fabs(got - want[j]) <= fabs(want[j]) / 16 + scale / 1024)) {
            snprintf(text, size, "code (%u, %u) is for %.9g, not %.9g", row, j, got, want[j]);
            return false;
        }
    }
    if (!(fabs(scale * 448 - most) <= TOLERANCE * most)) {
        snprintf(text, size, "scale %u is %.9g, not %.9g", row, scale, most / 448);
        return false;
    }
    return true;
}

kernel_result kernel_launch_spans(sim_launch *launch, const kernel_spans *spans, const void *args, size_t args_size,
                                  sim_counters *counters, char *text, size_t size)
{
    uint64_t params[64];
    sim_range ranges[KERNEL_MOST_SPANS];
    size_t count = 0;
    for (uint32_t i = 0; i < spans->count; i++) {
        const kernel_matrix *m = spans->of[i]->data ? spans->of[i] : spans->of[0];
        params[i] = (uint64_t)(uintptr_t)m->data;
        if (spans->of[i]->data) {
            ranges[count++] = kernel_range(m->data, m->bytes, !(spans->written & 1u << i));
        }
    }
    memcpy(params + spans->count, args, args_size);
    launch->params = (const uint8_t *)params;
    return kernel_launch(launch, ranges, count, counters, text, size);
}
