/* test_kernel_abi.c - holds the GLSL mirror of hal_gemm_args (kernels_glsl/gemm.glsl, read as text) against
 * kernel_abi.h: the same fields, types and order. No device is needed. */
#include "kernel_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct field {
    const char *name;
    size_t offset, size;
    const char *type;
} field;

#define FIELD(name, type)                                                                                              \
    {                                                                                                                  \
#name, offsetof(hal_gemm_args, name), sizeof(((hal_gemm_args *)0)->name), type                                 \
    }
static const field fields[] = {
    FIELD(m, "uint"),        FIELD(n, "uint"),        FIELD(k, "uint"),         FIELD(flags, "uint"),
    FIELD(alpha, "float"),   FIELD(beta, "float"),    FIELD(base_a, "uint"),    FIELD(base_b, "uint"),
    FIELD(lda, "uint"),      FIELD(ldb, "uint"),      FIELD(ldc, "uint"),       FIELD(ldd, "uint"),
    FIELD(ldr, "uint"),      FIELD(stride_a, "uint"), FIELD(stride_b, "uint"),  FIELD(stride_c, "uint"),
    FIELD(stride_d, "uint"), FIELD(stride_r, "uint"), FIELD(group_base, "uint")};
#define FIELDS (sizeof fields / sizeof fields[0])

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t size = fread(text, 1, (1 << 20) - 1, file);
    assert_true(size > 0);
    fclose(file);
    return text;
}

/* The table above covers the struct without a hole, and only 4-byte scalars. */
static void test_struct(void **state)
{
    (void)state;
    size_t at = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        assert_int_equal(fields[i].offset, at);
        assert_int_equal(fields[i].size % 4, 0);
        at += fields[i].size;
    }
    assert_int_equal(at, sizeof(hal_gemm_args));
    assert_true(sizeof(hal_gemm_args) <= 128);
    assert_int_equal(fields[FIELDS - 1].offset, sizeof(hal_gemm_args) - 12); /* group_base is what a split fills in */
}

static void test_glsl(void **state)
{
    (void)state;
    char *text = read_text(KERNELS_GLSL "/gemm.glsl");
    char *block = strstr(text, "buffer gemm_block {");
    assert_non_null(block);
    char *end = strstr(block, "};");
    assert_non_null(end);
    *end = 0;
    size_t next = 0;
    char *save_line = NULL, *line = strtok_r(strchr(block, '{') + 1, ";", &save_line);
    assert_non_null(line);
    assert_non_null(strstr(line, "uint64_t span[6]"));
    while ((line = strtok_r(NULL, ";", &save_line))) {
        char *save = NULL, *type = strtok_r(line, " \n,", &save);
        if (!type) {
            continue;
        }
        for (char *name; (name = strtok_r(NULL, " \n,", &save)); next++) {
            assert_true(next < FIELDS);
            char want[40];
            if (fields[next].size == 4) {
                snprintf(want, sizeof want, "%s", fields[next].name);
            } else {
                snprintf(want, sizeof want, "%s[%zu]", fields[next].name, fields[next].size / 4);
            }
            assert_string_equal(name, want);
            assert_string_equal(type, fields[next].type);
        }
    }
    assert_int_equal(next, FIELDS);
    free(text);
}

/* The decoding of flags is written twice, too. */
static void test_flags(void **state)
{
    (void)state;
    const uint32_t flags = GEMM_FLAGS(1u, 2u, 3u, 1u, 4u);
    assert_int_equal(GEMM_DTYPE_C(flags), 1);
    assert_int_equal(GEMM_DTYPE_D(flags), 2);
    assert_int_equal(GEMM_DTYPE_BIAS(flags), 3);
    assert_int_equal(GEMM_DTYPE_RESIDUAL(flags), 1);
    assert_int_equal(GEMM_ACT(flags), 4);
    assert_int_equal(flags & (GEMM_TRANS_A | GEMM_TRANS_B), 0);
    char *text = read_text(KERNELS_GLSL "/gemm.glsl");
    static const char *const lines[] = {
        "#define DTYPE_C(flags) ((flags) & 3u)\n",         "#define DTYPE_D(flags) ((flags) >> 2 & 3u)\n",
        "#define DTYPE_BIAS(flags) ((flags) >> 4 & 3u)\n", "#define DTYPE_RESIDUAL(flags) ((flags) >> 6 & 3u)\n",
        "#define ACT(flags) ((flags) >> 8 & 7u)\n",        "#define FLAG_TRANS_A 0x800u\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        assert_non_null(strstr(text, lines[i]));
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_struct), cmocka_unit_test(test_glsl),
                                       cmocka_unit_test(test_flags)};
    return cmocka_run_group_tests_name("kernel abi", tests, NULL, NULL);
}
