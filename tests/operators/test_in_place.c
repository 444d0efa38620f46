/* test_in_place.c - an output that is exactly an input gets the bits that an output of its own gets: for each operator
 * on rows that allows it (RoPE's is in test_rope.c), in each place, for short rows and long ones. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

/* x and r are read, y and s are written; all have the same shape, dtype and leading dimension. w: FP32, a row. */
typedef struct operands {
    uint64_t rows, columns, ld;
    hal_dtype dtype;
    hal_mode mode;
    hal_span x, r, w, y, s, workspace;
} operands;

static hal_status softmax(hal_cmdlist *list, const operands *io)
{
    return hal_softmax(list, HAL_SOFTMAX(.rows = io->rows, .columns = io->columns, .dtype = io->dtype, .x = io->x,
                                         .y = io->y, .ldx = io->ld, .ldy = io->ld, .mode = io->mode));
}

static hal_status log_softmax(hal_cmdlist *list, const operands *io)
{
    return hal_softmax(list, HAL_SOFTMAX(.rows = io->rows, .columns = io->columns, .dtype = io->dtype, .x = io->x,
                                         .y = io->y, .ldx = io->ld, .ldy = io->ld, .log = true, .mode = io->mode));
}

static hal_rmsnorm_desc norm(const operands *io)
{
    return *HAL_RMSNORM(.rows = io->rows, .columns = io->columns, .dtype = io->dtype, .dtype_weight = HAL_F32,
                        .x = io->x, .weight = io->w, .y = io->y, .ldx = io->ld, .ldy = io->ld, .eps = 1e-5f,
                        .mode = io->mode, .workspace = io->workspace);
}

static hal_status rmsnorm(hal_cmdlist *list, const operands *io)
{
    const hal_rmsnorm_desc d = norm(io);
    return hal_rmsnorm(list, &d);
}

static hal_status add_rmsnorm(hal_cmdlist *list, const operands *io)
{
    hal_rmsnorm_desc d = norm(io);
    d.residual = io->r;
    d.sum = io->s;
    d.ld_residual = d.ld_sum = io->ld;
    return hal_rmsnorm(list, &d);
}

static hal_status activation(hal_cmdlist *list, const operands *io)
{
    return hal_activation(list, HAL_ACTIVATION(.rows = io->rows, .columns = io->columns, .act = HAL_ACT_GELU_ERF,
                                               .dtype = io->dtype, .x = io->x, .y = io->y, .ldx = io->ld, .ldy = io->ld,
                                               .mode = io->mode));
}

static hal_status binary(hal_cmdlist *list, const operands *io)
{
    return hal_binary(list, HAL_BINARY(.rows = io->rows, .columns = io->columns, .op = HAL_SWIGLU, .dtype = io->dtype,
                                       .a = io->x, .b = io->r, .y = io->y, .lda = io->ld, .ldb = io->ld, .ldy = io->ld,
                                       .mode = io->mode));
}

static hal_status cast(hal_cmdlist *list, const operands *io)
{
    return hal_cast(list, HAL_CAST(.rows = io->rows, .columns = io->columns, .dtype = io->dtype, .x = io->x, .y = io->y,
                                   .ldx = io->ld, .ldy = io->ld));
}

/* Whose place an output takes. */
typedef enum place { OWN, X, R } place;
static const struct {
    const char *name;
    hal_status (*tell)(hal_cmdlist *list, const operands *io);
    place y, s;
} calls[] = {{"softmax", softmax, X, OWN},
             {"log-softmax", log_softmax, X, OWN},
             {"rmsnorm", rmsnorm, X, OWN},
             {"add + rmsnorm, y = x", add_rmsnorm, X, OWN},
             {"y = residual", add_rmsnorm, R, OWN},
             {"sum = x", add_rmsnorm, OWN, X},
             {"sum = residual", add_rmsnorm, OWN, R},
             {"y = x, sum = residual", add_rmsnorm, X, R},
             {"y = residual, sum = x", add_rmsnorm, R, X},
             {"activation", activation, X, OWN},
             {"swiglu, y = a", binary, X, OWN},
             {"swiglu, y = b", binary, R, OWN},
             {"cast", cast, X, OWN}};

/* What lies in `buffer`: elements as `want` has them, gaps as `before` has them. */
static void check(fixture *f, const char *call, const char *what, hal_buffer *buffer, const matrix *want,
                  const matrix *before)
{
    uint8_t *got = malloc(want->bytes);
    assert_non_null(got);
    OK(hal_cmd_download(f->list, got, hal_whole(buffer)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (uint64_t i = 0; i < want->bytes; i++) {
        const uint8_t expected = matrix_covers(want, i) ? want->data[i] : before->data[i];
        if (got[i] != expected) {
            fail_msg("%s in place (%s, %llu x %llu, ld %llu, offset %llu): byte %llu of %s is %02x, not %02x", call,
                     hal_dtype_name(want->dtype), (unsigned long long)want->rows, (unsigned long long)want->columns,
                     (unsigned long long)want->ld, (unsigned long long)want->offset, (unsigned long long)i, what,
                     got[i], expected);
        }
    }
    free(got);
}

/* One call with outputs of its own, and again in place. */
static void compare(fixture *f, size_t which, operands io, operand x[4], const operand *w)
{
    enum { AT_X, AT_R, AT_Y, AT_S };
    const place y = calls[which].y, s = calls[which].s;
    const uint8_t poison = 0x5A;
    operand_upload(&x[AT_X], f);
    operand_upload(&x[AT_R], f);
    for (int i = AT_Y; i <= AT_S; i++) {
        OK(hal_cmd_fill(f->list, hal_whole(x[i].buffer), &poison, 1));
    }
    io.w = operand_span(w);
    io.x = operand_span(&x[AT_X]);
    io.r = operand_span(&x[AT_R]);
    io.y = operand_span(&x[AT_Y]);
    io.s = operand_span(&x[AT_S]);
    OK(calls[which].tell(f->list, &io));
    OK(hal_cmd_download(f->list, x[AT_Y].host.data, hal_whole(x[AT_Y].buffer)));
    OK(hal_cmd_download(f->list, x[AT_S].host.data, hal_whole(x[AT_S].buffer)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    operand_check_gaps(&x[AT_Y]);
    const operand *const places[] = {NULL, &x[AT_X], &x[AT_R]};
    io.y = y == OWN ? io.y : operand_span(places[y]);
    io.s = s == OWN ? io.s : operand_span(places[s]);
    OK(calls[which].tell(f->list, &io));
    if (y != OWN) {
        check(f, calls[which].name, "y", places[y]->buffer, &x[AT_Y].host, &places[y]->host);
    }
    if (s != OWN) {
        check(f, calls[which].name, "sum", places[s]->buffer, &x[AT_S].host, &places[s]->host);
    }
}

static void each_call(fixture *f, hal_dtype dtype, uint64_t rows, uint64_t columns, uint64_t offset, uint64_t pad,
                      uint64_t *seed)
{
    static const char *const names[] = {"x", "residual", "y", "sum"};
    const uint64_t ld = columns + pad;
    operand x[4], w;
    hal_buffer *workspace;
    for (int i = 0; i < 4; i++) {
        operand_create_at(&x[i], f, names[i], dtype, rows, columns, offset, ld, i < 2 ? FILL_RANDOM : FILL_POISON,
                          seed);
    }
    operand_create_at(&w, f, "weight", HAL_F32, 1, columns + 1, 1, columns + 1, FILL_RANDOM, seed);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 1 << 20), &workspace));
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        operands io = {.rows = rows, .columns = columns, .ld = ld, .dtype = dtype, .mode = (hal_mode)(i % 3)};
        io.workspace = rows * columns > 20000 ? hal_whole(workspace) : (hal_span){0};
        compare(f, i, io, x, &w);
    }
    hal_buffer_destroy(workspace);
    operand_free(&w);
    for (int i = 0; i < 4; i++) {
        operand_free(&x[i]);
    }
}

/* Short and long rows, one and many; starts and steps that suit wide loads and that do not. */
static void each_shape(fixture *f)
{
    static const uint64_t shapes[][2] = {{1, 1}, {1, 64}, {5, 33}, {130, 8}, {3, 1024}, {2, 5000}, {1, 70000}};
    uint64_t seed = 31;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
            each_call(f, dtype, shapes[i][0], shapes[i][1], 0, (8 - shapes[i][1] % 8) % 8, &seed);
            each_call(f, dtype, shapes[i][0], shapes[i][1], 3, 1, &seed);
        }
    }
}

static void test_in_place(void **state)
{
    each_shape(*state);
}

/* The least that Vulkan and OpenCL promise, and kernels for any device. */
static void test_small_limits(void **state)
{
    (void)state;
    fixture f;
    fixture_open(&f, "shared=16384,group_size=128");
    each_shape(&f);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_place), cmocka_unit_test(test_small_limits)};
    return ROWS_MAIN("in_place", tests);
}
