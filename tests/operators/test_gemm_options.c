/* test_gemm_options.c - hal_gemm's options on the device that HAL_BACKEND names: strict and batch-invariant mode,
 * SwiGLU, E4M3 with scales, D transposed, split-K, groups, and chains whose bits are those of separate operators. */
#include "kernel_math.h"
#include "options_case.h"

#include "gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers: every mode gives the host's bits, but for activations, which only strict mode has the same everywhere.
 */
static void test_exact(void **state)
{
    fixture *f = *state;
    uint64_t seed = 21;
    for (uint32_t round = 0; round < 60; round++) {
        options_case c = options_draw(&seed);
        c.mode = (hal_mode)(round % 3);
        options_create(&c, f, FILL_INTEGER, &seed);
        if (round % 2) {
            options_add_workspace(&c, f);
        }
        options_check(&c, f);
        options_destroy(&c);
    }
}

/* Strict mode with all options and any numbers. */
static void test_strict_options(void **state)
{
    fixture *f = *state;
    uint64_t seed = 22;
    for (uint32_t round = 0; round < 60; round++) {
        options_case c = options_draw(&seed);
        c.mode = HAL_MODE_STRICT;
        options_create(&c, f, FILL_RANDOM, &seed);
        options_check(&c, f);
        options_destroy(&c);
    }
}

/* Numbers of all sizes, such that products and sums are subnormal, just not, or overflow. */
static void spread(operand *x, uint64_t *seed)
{
    for (uint64_t row = 0; row < x->host.rows; row++) {
        for (uint64_t column = 0; column < x->host.columns; column++) {
            const uint32_t draw = random_below(seed, 1000), bits = random_below(seed, 1u << 31) << 1 | (draw & 1);
            const int power = row % 3 == 0 ? -63 : row % 3 == 1 ? 0 : -126 + (int)random_below(seed, 140);
            float v = ldexpf((float)(int32_t)bits * 0x1p-31f, power + (int)random_below(seed, 4));
            v = draw < 8 ? hm_float_of(bits & 0x807fffffu) : v; /* subnormal */
            v = draw == 9 && row % 16 == 5 ? test_specials[random_below(seed, test_special_count)] : v;
            matrix_set(&x->host, 0, row, column, v);
        }
    }
}

/* FP32 in strict mode: every backend gives the bits of the host's copy, so all give the same. */
static void test_strict_f32(void **state)
{
    fixture *f = *state;
    uint64_t seed = 23;
    for (uint32_t round = 0; round < 4; round++) {
        options_case c = {.m = 331,
                          .n = 317,
                          .k = round == 0 ? 1 : 10 + 10 * round,
                          .batch = 1,
                          .trans_b = round & 1,
                          .dtype = HAL_F32,
                          .dtype_c = HAL_F32,
                          .dtype_d = HAL_F32,
                          .between = HAL_F32,
                          .act = (hal_act)(round == 3 ? HAL_ACT_SILU : HAL_ACT_NONE),
                          .mode = HAL_MODE_STRICT,
                          .alpha = round ? 1.0f : 0.625f,
                          .beta = 1.0f,
                          .swiglu_alpha = 1.0f,
                          .has = {[A] = true, [B] = true, [D] = true, [RESIDUAL] = round == 2}};
        options_create(&c, f, FILL_RANDOM, &seed);
        spread(&c.x[A], &seed);
        spread(&c.x[B], &seed);
        operand_upload(&c.x[A], f);
        operand_upload(&c.x[B], f);
        options_check(&c, f);
        options_destroy(&c);
    }
}

/* Separate operators that store `between`. */
typedef struct chain {
    const options_case *c;
    operand first, second, result;
} chain;

static hal_status tell_swiglu_chain(hal_cmdlist *list, const chain *h, hal_gemm_desc desc)
{
    const options_case *c = h->c;
    const bool alternate = desc.interleaved;
    desc.workspace = (hal_span){0};
    desc.round_between = HAL_F32;
    desc.interleaved = false;
    desc.b_up = desc.residual = (hal_span){0};
    desc.dtype_d = c->between;
    desc.d = operand_span(&h->first);
    desc.ldd = h->first.host.ld;
    desc.stride_d = c->m * desc.ldd;
    desc.ldb *= alternate ? 2 : 1; /* rows in turn: trans_b */
    hal_status status = hal_gemm(list, &desc);
    desc.b = alternate ? hal_at(c->x[B].buffer, (c->x[B].host.offset + c->x[B].host.ld) * hal_dtype_size(c->dtype))
                       : operand_span(&c->x[UP]);
    desc.d = operand_span(&h->second);
    desc.ldd = h->second.host.ld;
    desc.stride_d = c->m * desc.ldd;
    status = status == HAL_OK ? hal_gemm(list, &desc) : status;
    const bool last = !c->has[RESIDUAL];
    const operand *y = last ? &h->result : &h->first;
    return status != HAL_OK
               ? status
               : hal_binary(list,
                            HAL_BINARY(.rows = c->batch * c->m, .columns = c->n, .op = HAL_SWIGLU, .dtype = c->between,
                                       .dtype_y = last ? c->dtype_d : c->between, .a = operand_span(&h->first),
                                       .lda = h->first.host.ld, .b = operand_span(&h->second), .ldb = h->second.host.ld,
                                       .y = operand_span(y), .ldy = y->host.ld, .alpha = c->swiglu_alpha,
                                       .round_between = c->between, .mode = c->mode));
}

static hal_status tell_act_chain(hal_cmdlist *list, const chain *h, hal_gemm_desc desc)
{
    const options_case *c = h->c;
    const bool add = c->has[RESIDUAL];
    const operand *y = c->act || add ? &h->first : &h->result;
    desc.round_between = HAL_F32;
    desc.residual = (hal_span){0};
    desc.act = HAL_ACT_NONE;
    desc.dtype_d = y->host.dtype;
    desc.d = operand_span(y);
    desc.ldd = y->host.ld;
    desc.stride_d = c->m * desc.ldd;
    hal_status status = hal_gemm(list, &desc);
    y = add ? &h->first : &h->result;
    return status != HAL_OK || !c->act
               ? status
               : hal_activation(list, HAL_ACTIVATION(.rows = c->batch * c->m, .columns = c->n, .act = c->act,
                                                     .dtype = c->between, .dtype_y = y->host.dtype,
                                                     .x = operand_span(&h->first), .ldx = h->first.host.ld,
                                                     .y = operand_span(y), .ldy = y->host.ld, .mode = c->mode));
}

static hal_status tell_chain(hal_cmdlist *list, void *user)
{
    const chain *h = user;
    const options_case *c = h->c;
    const hal_gemm_desc desc = options_desc(c);
    hal_status status = options_swiglu(c) ? tell_swiglu_chain(list, h, desc) : tell_act_chain(list, h, desc);
    return status != HAL_OK || !c->has[RESIDUAL]
               ? status
               : hal_binary(list, HAL_BINARY(.rows = c->batch * c->m, .columns = c->n, .op = HAL_ADD,
                                             .dtype = c->between, .dtype_b = c->dtype_c, .dtype_y = c->dtype_d,
                                             .a = operand_span(&h->first), .lda = h->first.host.ld,
                                             .b = operand_span(&c->x[RESIDUAL]), .ldb = c->x[RESIDUAL].host.ld,
                                             .y = operand_span(&h->result), .ldy = h->result.host.ld, .mode = c->mode));
}

static void check_chain(options_case *c, fixture *f, uint64_t *seed)
{
    const uint64_t rows = c->batch * c->m;
    chain h = {.c = c};
    operand_create(&h.first, f, "first", c->between, rows, c->n, FILL_NAN, seed);
    operand_create(&h.second, f, "second", c->between, rows, c->n, FILL_NAN, seed);
    operand_create(&h.result, f, "result", c->dtype_d, rows, c->n, FILL_POISON, seed);
    operand *const fused[] = {&c->x[D]}, *const separate[] = {&h.result};
    operands_run(f, options_tell, c, fused, 1);
    operands_run(f, tell_chain, &h, separate, 1);
    const matrix *x = &c->x[D].host, *y = &h.result.host;
    const uint64_t size = hal_dtype_size(c->dtype_d);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t column = 0; column < c->n; column++) {
            if (memcmp(x->data + (x->offset + row * x->ld + column) * size,
                       y->data + (y->offset + row * y->ld + column) * size, size) != 0) {
                options_print(c);
                fail_msg("[%d][%d] is %a fused, %a from separate operators", (int)row, (int)column,
                         matrix_get(x, 0, row, column), matrix_get(y, 0, row, column));
            }
        }
    }
    operand_free(&h.first);
    operand_free(&h.second);
    operand_free(&h.result);
}

/* GEMM, activation and residual in one are the same bits as one by one, in every mode. */
static void test_chains(void **state)
{
    fixture *f = *state;
    uint64_t seed = 24;
    for (uint32_t round = 0; round < 72; round++) { /* twice each activation by each mode, with scales and without */
        options_case c = options_draw(&seed);
        c.has[UP] = c.interleaved = c.trans_d = false;
        c.has[SCALE_A] = c.has[SCALE_B] = c.has[SCALE_D] = round % 2; /* plain: the fast kernels */
        c.dtype = round % 2 ? c.dtype : c.between;
        c.dtype_d = wide_dtype(&seed);
        c.has[SCALE_D] = false;
        c.has[BIAS] = c.has[RESIDUAL] = round % 5 != 0;
        c.act = (hal_act)(round / 6 % (HAL_ACT_SIGMOID + 1));
        c.mode = (hal_mode)(round / 2 % 3);
        options_create(&c, f, FILL_RANDOM, &seed);
        check_chain(&c, f, &seed);
        options_destroy(&c);
    }
}

/* SwiGLU is GEMM, GEMM and hal_binary, bit for bit: in strict mode, and with the workspace that it asks for in every
 * mode. */
static void test_swiglu_chain(void **state)
{
    fixture *f = *state;
    uint64_t seed = 25;
    for (uint32_t round = 0; round < 48; round++) {
        options_case c = options_draw(&seed);
        c.has[C] = c.has[BIAS] = c.trans_d = c.has[SCALE_A] = c.has[SCALE_B] = c.has[SCALE_D] = false;
        c.act = HAL_ACT_NONE;
        c.interleaved = round % 2;
        c.has[UP] = !c.interleaved;
        c.trans_b = c.interleaved || c.trans_b;
        c.dtype_d = wide_dtype(&seed);
        c.mode = (hal_mode)(round / 2 % 3);
        c.k = 1 + c.k;
        options_create(&c, f, FILL_RANDOM, &seed);
        if (c.mode != HAL_MODE_STRICT) {
            options_add_workspace(&c, f);
        }
        check_chain(&c, f, &seed);
        options_destroy(&c);
    }
}

/* A row's bits are the same alone, among few and among many. */
static void test_batch_invariant(void **state)
{
    fixture *f = *state;
    uint64_t seed = 26;
    static const uint64_t rows[] = {1, 2, 7, 9, 16, 17, 33, 130, 300};
    const size_t count = sizeof rows / sizeof rows[0];
    for (uint32_t round = 0; round < 3 * 2 * 2; round++) {
        options_case c = options_draw(&seed);
        c.m = 300;
        c.n = 75;
        c.k = 600 + round;
        c.batch = 1;
        memset(c.has, 0, sizeof c.has);
        c.has[A] = c.has[B] = c.has[D] = true;
        c.interleaved = c.trans_a = c.trans_d = false;
        c.trans_b = round & 1;
        c.dtype = (hal_dtype)(HAL_F32 + round / 4);
        c.dtype_d = c.between = HAL_F32; /* no rounding that hides a difference */
        c.act = HAL_ACT_SILU;
        c.mode = round & 2 ? HAL_MODE_BATCH_INVARIANT : HAL_MODE_STRICT;
        options_create(&c, f, FILL_RANDOM, &seed);
        const uint64_t bytes = c.x[D].host.bytes, first = c.x[D].host.offset * 4;
        uint8_t *whole = malloc(bytes);
        assert_non_null(whole);
        for (size_t i = count; i-- > 0;) {
            const uint64_t at = i + 1 < count ? random_below(&seed, (uint32_t)(300 - rows[i])) : 0;
            hal_gemm_desc desc = options_desc(&c);
            desc.m = rows[i];
            desc.a.offset += at * desc.lda * hal_dtype_size(c.dtype);
            OK(hal_gemm(f->list, &desc));
            OK(hal_cmd_download(f->list, c.x[D].host.data, hal_whole(c.x[D].buffer)));
            OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
            if (i + 1 == count) {
                memcpy(whole, c.x[D].host.data, bytes);
                continue;
            }
            for (uint64_t row = 0; row < rows[i]; row++) {
                const uint64_t ld = c.x[D].host.ld;
                if (memcmp(c.x[D].host.data + first + row * ld * 4, whole + first + (at + row) * ld * 4, c.n * 4) !=
                    0) {
                    options_print(&c);
                    fail_msg("row %d of %d differs from row %d of 300", (int)row, (int)rows[i], (int)(at + row));
                }
            }
        }
        free(whole);
        options_destroy(&c);
    }
}

/* A case that split-K takes: nothing but an epilogue. */
static options_case draw_plain(uint64_t *seed)
{
    options_case c = options_draw(seed);
    c.batch = 1;
    c.k = 600 + random_below(seed, 200);
    c.has[UP] = c.interleaved = c.trans_d = c.has[SCALE_A] = c.has[SCALE_B] = c.has[SCALE_D] = false;
    c.dtype = c.dtype == HAL_F8E4M3 ? HAL_F32 : c.dtype;
    c.dtype_d = wide_dtype(seed);
    return c;
}

typedef struct parts_case {
    options_case c;
    uint32_t parts;
} parts_case;

static hal_status tell_parts(hal_cmdlist *list, void *user)
{
    const parts_case *p = user;
    const hal_gemm_desc desc = options_desc(&p->c);
    gemm_problem problem;
    gemm_kernel used;
    bool empty;
    hal_status status = hal_gemm_resolve(&desc, true, &problem, &empty);
    const gemm_phases phases = hal_gemm_phases_of(&problem, p->parts);
    return status == HAL_OK ? hal_gemm_record_phases(list, &problem, &phases, 0, &used) : status;
}

/* k in parts: whole numbers are exact, as without; others the same each time (operands_run). */
static void test_split_k(void **state)
{
    fixture *f = *state;
    uint64_t seed = 31;
    for (uint32_t round = 0; round < 24; round++) {
        parts_case p = {.c = draw_plain(&seed), .parts = 2 + round % 6};
        options_create(&p.c, f, round % 4 == 3 ? FILL_RANDOM : FILL_INTEGER, &seed);
        OK(hal_buffer_create(f->device, HAL_BUFFER(.size = p.parts * p.c.m * p.c.n * 4), &p.c.workspace));
        operand *const outputs[] = {&p.c.x[D]};
        operands_run(f, tell_parts, &p, outputs, 1);
        if (round % 4 != 3) {
            options_check_bits(&p.c);
        }
        options_destroy(&p.c);
    }
}

static uint32_t parts_for(hal_device_type type, uint32_t units, uint32_t m, uint32_t n, uint32_t k, hal_mode mode)
{
    const hal_device_info info = {.type = type,
                                  .compute_units = units,
                                  .subgroup_size = 32,
                                  .max_group_size = 1024,
                                  .max_group_dim = {1024, 1024, 64},
                                  .max_shared_memory = 100 << 10};
    gemm_problem problem = {.m = m, .n = n, .k = k, .batch = 1, .alpha = 1, .mode = mode};
    for (int i = 0; i < GEMM_OPERANDS; i++) {
        problem.operands[i].dtype = HAL_F32;
    }
    gemm_phases phases;
    return hal_gemm_phases(&info, &problem, 0, &phases) ? phases.parts : 1;
}

/* When it is used, and what it asks for. */
static void test_split_k_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 32;
    assert_int_equal(parts_for(HAL_DEVICE_DISCRETE, 132, 64, 64, 65536, HAL_MODE_FAST), 32);
    assert_true(parts_for(HAL_DEVICE_DISCRETE, 132, 1, 256, 16384, HAL_MODE_FAST) > 8);
    assert_int_equal(parts_for(HAL_DEVICE_DISCRETE, 132, 64, 64, 511, HAL_MODE_FAST), 1);
    assert_int_equal(parts_for(HAL_DEVICE_DISCRETE, 132, 4096, 4096, 65536, HAL_MODE_FAST), 1);
    assert_int_equal(parts_for(HAL_DEVICE_DISCRETE, 132, 64, 64, 65536, HAL_MODE_BATCH_INVARIANT), 1);
    parts_case p = {.c = draw_plain(&seed), .parts = 3};
    p.c.n = 129; /* so that a row's sums reach past the guard before B */
    options_create(&p.c, f, FILL_INTEGER, &seed);
    OK(hal_buffer_create(f->device, HAL_BUFFER(.size = 3 * p.c.m * p.c.n * 4 - 4), &p.c.workspace));
    REFUSED(HAL_ERROR_OUT_OF_RANGE, tell_parts(f->list, &p));
    hal_buffer_destroy(p.c.workspace);
    p.c.workspace = p.c.x[B].buffer;
    p.parts = 2;
    p.c.m = 1;
    REFUSED(HAL_ERROR_OVERLAP, tell_parts(f->list, &p));
    p.c.workspace = NULL;
    options_destroy(&p.c);
}

/* Problems of several shapes at once; one that is wrong leaves all undone. */
static void test_grouped(void **state)
{
    fixture *f = *state;
    enum { COUNT = 5 };
    uint64_t seed = 33;
    options_case c[COUNT];
    hal_gemm_desc descs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        c[i] = options_draw(&seed);
        options_create(&c[i], f, FILL_INTEGER, &seed);
        descs[i] = options_desc(&c[i]);
    }
    OK(hal_gemm_grouped(f->list, descs, 0));
    descs[3].lda = 1;
    descs[3].m = descs[3].k = 9;
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_grouped(f->list, descs, COUNT));
    REFUSED(HAL_ERROR_INVALID_ARGUMENT, hal_gemm_grouped(f->list, NULL, 1));
    OK(hal_cmd_download(f->list, c[0].x[D].host.data, hal_whole(c[0].x[D].buffer)));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (uint64_t i = 0; i < c[0].x[D].host.bytes; i++) {
        assert_int_equal(c[0].x[D].host.data[i], 0x5A);
    }
    descs[3] = options_desc(&c[3]);
    OK(hal_gemm_grouped(f->list, descs, COUNT));
    for (int i = 0; i < COUNT; i++) {
        OK(hal_cmd_download(f->list, c[i].x[D].host.data, hal_whole(c[i].x[D].buffer)));
        OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
        options_check_bits(&c[i]);
        options_destroy(&c[i]);
    }
}

/* What does not go together is refused. */
static void test_rules(void **state)
{
    fixture *f = *state;
    uint64_t seed = 27;
    options_case c = options_draw(&seed);
    memset(c.has, true, sizeof c.has);
    c.has[C] = c.has[BIAS] = c.interleaved = c.one_scale_a = c.one_scale_b = false;
    c.act = HAL_ACT_NONE;
    c.m = c.n = c.k = 20;
    c.dtype = c.dtype_c = HAL_F32;
    c.dtype_d = HAL_F8E4M3;
    options_create(&c, f, FILL_RANDOM, &seed);
    const hal_gemm_desc good = options_desc(&c);
    hal_gemm_desc desc = good;
    OK(hal_gemm(f->list, &desc));
#define WITH(code, ...)                                                                                                \
    desc = good;                                                                                                       \
    __VA_ARGS__;                                                                                                       \
    REFUSED(code, hal_gemm(f->list, &desc))
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.mode = (hal_mode)3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.round_between = HAL_F8E4M3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_c = HAL_F8E4M3);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.interleaved = true);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.act = HAL_ACT_RELU);
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.bias = operand_span(&c.x[BIAS]));
    WITH(HAL_ERROR_INVALID_ARGUMENT, desc.dtype_d = HAL_F32);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.scale_a.offset = c.x[SCALE_A].host.bytes - 16);
    WITH(HAL_ERROR_OUT_OF_RANGE, desc.batch = 3;
         desc.stride_a = desc.stride_b = desc.stride_r = desc.stride_scale_a = desc.stride_scale_d = 0);
    WITH(HAL_ERROR_ALIGNMENT, desc.scale_b.offset += 2);
    WITH(HAL_ERROR_OVERLAP, desc.d = desc.b_up);
    WITH(HAL_ERROR_OVERLAP, desc.dtype_d = desc.dtype_residual = HAL_F32; desc.scale_d = (hal_span){0};
         desc.trans_d = true; desc.d = desc.residual; desc.ldd = desc.ldr; desc.stride_d = desc.stride_r);
#undef WITH
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    options_destroy(&c);
    fixture tiny;
    fixture_open(&tiny, "shared=4608,group_size=64,cpu=0"); /* a task of a CPU device needs less */
    OK(hal_gemm_prepare(tiny.device, HAL_GEMM(.m = 9, .n = 9, .k = 9, .mode = HAL_MODE_STRICT)));
    REFUSED(HAL_ERROR_LIMIT, hal_gemm_prepare(tiny.device, HAL_GEMM(.m = 9, .n = 9, .k = 9, .interleaved = true)));
    fixture_close(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact),        cmocka_unit_test(test_strict_options),
                                       cmocka_unit_test(test_strict_f32),   cmocka_unit_test(test_chains),
                                       cmocka_unit_test(test_swiglu_chain), cmocka_unit_test(test_batch_invariant),
                                       cmocka_unit_test(test_split_k),      cmocka_unit_test(test_split_k_rules),
                                       cmocka_unit_test(test_grouped),      cmocka_unit_test(test_rules)};
    return ROWS_MAIN("gemm options", tests);
}
