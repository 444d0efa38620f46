/* test_transpose.c - hal_transpose on the device that HAL_BACKEND names, byte for byte against a loop on the host. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

typedef struct side {
    hal_buffer *buffer;
    uint8_t *bytes;
    uint64_t size, offset; /* of all; of the first element, in elements */
} side;

static uint64_t span_of(const uint64_t *dims, const uint64_t *strides, uint32_t rank)
{
    uint64_t last = 0;
    for (uint32_t i = 0; i < rank; i++) {
        last += (dims[i] - 1) * strides[i];
    }
    return last + 1;
}

static void side_create(side *s, fixture *f, uint64_t elements, uint64_t size, uint64_t offset)
{
    s->offset = offset;
    s->size = (offset + elements + 5) * size;
    s->bytes = malloc(s->size);
    assert_non_null(s->bytes);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = s->size), &s->buffer));
}

static void side_free(side *s)
{
    hal_buffer_destroy(s->buffer);
    free(s->bytes);
}

/* What y should be: its strides are used as given, or as packed. */
static void reference(const hal_transpose_desc *d, const uint64_t *strides_x, const uint64_t *strides_y, const side *x,
                      side *y)
{
    const uint64_t size = hal_dtype_size(d->dtype);
    uint64_t at[HAL_MAX_DIMS] = {0};
    for (bool more = true; more;) {
        uint64_t from = x->offset, to = y->offset;
        for (uint32_t i = 0; i < d->rank; i++) {
            from += at[d->perm[i]] * strides_x[d->perm[i]];
            to += at[d->perm[i]] * strides_y[i];
        }
        memcpy(y->bytes + to * size, x->bytes + from * size, size);
        more = false;
        for (uint32_t i = d->rank; i-- > 0 && !more;) {
            more = ++at[i] < d->dims[i];
            at[i] = more ? at[i] : 0;
        }
    }
}

static void packed(const uint64_t *dims, uint32_t rank, uint64_t *strides)
{
    uint64_t step = 1;
    for (uint32_t i = rank; i-- > 0;) {
        strides[i] = step;
        step *= dims[i];
    }
}

/* Runs a transposition twice between fresh buffers. `d` has no spans yet; strides 0: packed. */
static void run(fixture *f, hal_transpose_desc d, uint64_t offset_x, uint64_t offset_y, uint64_t *seed)
{
    const uint64_t size = hal_dtype_size(d.dtype);
    const uint8_t poison = 0x5A;
    uint64_t strides_x[HAL_MAX_DIMS], strides_y[HAL_MAX_DIMS], dims_y[HAL_MAX_DIMS];
    for (uint32_t i = 0; i < d.rank; i++) {
        dims_y[i] = d.dims[d.perm[i]];
    }
    memcpy(strides_x, d.strides_x, sizeof strides_x);
    memcpy(strides_y, d.strides_y, sizeof strides_y);
    if (d.strides_x[0] == 0) {
        packed(d.dims, d.rank, strides_x);
    }
    if (d.strides_y[0] == 0) {
        packed(dims_y, d.rank, strides_y);
    }
    side x, y;
    side_create(&x, f, span_of(d.dims, strides_x, d.rank), size, offset_x);
    side_create(&y, f, span_of(dims_y, strides_y, d.rank), size, offset_y);
    for (uint64_t i = 0; i < x.size; i++) {
        x.bytes[i] = (uint8_t)random_below(seed, 256);
    }
    memset(y.bytes, poison, y.size);
    reference(&d, strides_x, strides_y, &x, &y);
    d.x = hal_at(x.buffer, offset_x * size);
    d.y = hal_at(y.buffer, offset_y * size);
    OK(hal_cmd_upload(f->list, hal_whole(x.buffer), x.bytes, x.size));
    uint8_t *got = malloc(y.size);
    for (int turn = 0; turn < 2; turn++) {
        OK(hal_cmd_fill(f->list, hal_whole(y.buffer), &poison, 1));
        OK(hal_transpose(f->list, &d));
        OK(hal_cmd_download(f->list, got, hal_whole(y.buffer)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        for (uint64_t i = 0; i < y.size; i++) {
            if (got[i] != y.bytes[i]) {
                print_error("%s, rank %u, offsets %llu %llu:", hal_dtype_name(d.dtype), d.rank,
                            (unsigned long long)offset_x, (unsigned long long)offset_y);
                for (uint32_t j = 0; j < d.rank; j++) {
                    print_error(" %llu (perm %u, strides %llu %llu)", (unsigned long long)d.dims[j], d.perm[j],
                                (unsigned long long)strides_x[j], (unsigned long long)strides_y[j]);
                }
                fail_msg("; byte %llu of y is %#x, want %#x", (unsigned long long)i, got[i], y.bytes[i]);
            }
        }
    }
    free(got);
    side_free(&x);
    side_free(&y);
}

static hal_dtype any_dtype(uint64_t *seed)
{
    return (hal_dtype)(HAL_F32 + random_below(seed, 4));
}

static void test_matrices(void **state)
{
    fixture *f = *state;
    uint64_t seed = 21;
    for (uint32_t round = 0; round < 64; round++) {
        hal_transpose_desc d = {
            .struct_size = sizeof d,
            .rank = 2,
            .dims = {test_sizes[round % test_size_count], test_sizes[random_below(&seed, test_size_count)]},
            .perm = {1, 0},
            .dtype = any_dtype(&seed)};
        run(f, d, random_below(&seed, 5), random_below(&seed, 5), &seed);
    }
}

static void test_permutations(void **state)
{
    static const uint32_t perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint64_t dims[][3] = {{2, 3, 4}, {1, 70, 35}, {33, 1, 40}, {5, 64, 128}, {17, 9, 33}, {40, 50, 3}};
    fixture *f = *state;
    uint64_t seed = 22;
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < 6; j++) {
            hal_transpose_desc d = {.struct_size = sizeof d, .rank = 3, .dtype = any_dtype(&seed)};
            memcpy(d.perm, perms[i], sizeof perms[i]);
            memcpy(d.dims, dims[j], sizeof dims[j]);
            run(f, d, 4 * random_below(&seed, 2), 4 * random_below(&seed, 2), &seed);
        }
    }
}

/* Any rank, permutation and strides: gaps at each level, in an order of memory that need not be that of dimensions. */
static void test_random(void **state)
{
    fixture *f = *state;
    uint64_t seed = 23;
    for (uint32_t round = 0; round < 120; round++) {
        hal_transpose_desc d = {.struct_size = sizeof d, .rank = 1 + round % HAL_MAX_DIMS, .dtype = any_dtype(&seed)};
        uint32_t order[HAL_MAX_DIMS];
        const uint32_t most = d.rank <= 2 ? 90 : d.rank <= 4 ? 12 : d.rank <= 6 ? 5 : 3;
        for (uint32_t i = 0; i < d.rank; i++) {
            const uint32_t j = random_below(&seed, i + 1), k = random_below(&seed, i + 1);
            d.dims[i] = 1 + random_below(&seed, most);
            d.perm[i] = d.perm[j];
            d.perm[j] = i;
            order[i] = order[k];
            order[k] = i;
        }
        if (round % 2) {
            uint64_t x = 1 + random_below(&seed, 2), y = 1 + random_below(&seed, 2);
            for (uint32_t i = d.rank; i-- > 0;) {
                d.strides_x[order[i]] = x;
                x = x * d.dims[order[i]] + random_below(&seed, 4);
                d.strides_y[i] = y;
                y = y * d.dims[d.perm[i]] + random_below(&seed, 4);
            }
        }
        run(f, d, random_below(&seed, 9), random_below(&seed, 9), &seed);
    }
}

/* Runs that can be moved in wide elements, and a dimension of x that is repeated. */
static void test_wide(void **state)
{
    fixture *f = *state;
    uint64_t seed = 24;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_F8E4M3; dtype++) {
        run(f,
            (hal_transpose_desc){.struct_size = sizeof(hal_transpose_desc),
                                 .rank = 3,
                                 .dims = {6, 50, 64},
                                 .perm = {1, 0, 2},
                                 .dtype = dtype},
            16, 0, &seed);
        run(f,
            (hal_transpose_desc){.struct_size = sizeof(hal_transpose_desc),
                                 .rank = 3,
                                 .dims = {6, 50, 16},
                                 .perm = {1, 0, 2},
                                 .dtype = dtype},
            0, 8, &seed);
        run(f,
            (hal_transpose_desc){
                .struct_size = sizeof(hal_transpose_desc), .rank = 1, .dims = {70000}, .perm = {0}, .dtype = dtype},
            0, 0, &seed);
        run(f,
            (hal_transpose_desc){
                .struct_size = sizeof(hal_transpose_desc), .rank = 1, .dims = {70001}, .perm = {0}, .dtype = dtype},
            3, 1, &seed);
        run(f,
            (hal_transpose_desc){.struct_size = sizeof(hal_transpose_desc),
                                 .rank = 3,
                                 .dims = {5, 7, 40},
                                 .perm = {2, 0, 1},
                                 .strides_x = {40, 0, 1},
                                 .dtype = dtype},
            0, 0, &seed);
    }
}

static void test_rules(void **state)
{
    fixture *f = *state;
    hal_buffer *x, *y;
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &x));
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 4096), &y));
    const hal_span sx = hal_whole(x), sy = hal_whole(y);
    OK(hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {0, 4}, .perm = {1, 0})));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_transpose(f->list, NULL));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_transpose(f->list, HAL_TRANSPOSE(.rank = 0, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_transpose(f->list, HAL_TRANSPOSE(.rank = 9, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {2, 4}, .perm = {0, 0}, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {2, 4}, .perm = {0, 2}, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {2, 4}, .perm = {1, 0}, .x = sx)));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {2, 4}, .perm = {1, 0},
                                                                             .strides_y = {1, 1}, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_OVERLAP, hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {2, 4}, .perm = {1, 0}, .x = sx,
                                                                    .y = hal_at(x, 28))));
    REFUSED(HAL_ERROR_OUT_OF_RANGE,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 2, .dims = {256, 5}, .perm = {1, 0}, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_OUT_OF_RANGE,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 3, .dims = {1u << 30, 1u << 30, 1u << 30}, .perm = {1, 0, 2},
                                                 .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_LIMIT,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 1, .dims = {UINT64_C(1) << 31}, .x = sx, .y = sy)));
    REFUSED(HAL_ERROR_ALIGNMENT,
            hal_transpose(f->list, HAL_TRANSPOSE(.rank = 1, .dims = {4}, .x = hal_at(x, 2), .y = sy)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    hal_buffer_destroy(x);
    hal_buffer_destroy(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matrices), cmocka_unit_test(test_permutations),
                                       cmocka_unit_test(test_random), cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_rules)};
    return ROWS_MAIN("transpose", tests);
}
