/* test_gemm.h - the files of the GEMM test program. */
#ifndef TEST_GEMM_H
#define TEST_GEMM_H

#include "gemm_case.h"

#define GEMM_RULES 13
extern const struct CMUnitTest gemm_rules[GEMM_RULES];

void test_guard_pages(void **state); /* test_gemm_guard.c */

/* test_gemm_split.c */
void test_second_of_groups(void **state);
void test_split_is_equal(void **state);
void test_split_count(void **state);

/* test_gemm_hardening.c */
void test_one_row_any_ld(void **state);
void test_slot_alignment(void **state);
void test_import_alignment(void **state);

void test_epilogues(void **state); /* test_gemm_epilogues.c */

/* test_gemm_async.c */
void test_async_matrix(void **state);
void test_async_choice(void **state);

int gemm_setup(void **state);
int gemm_teardown(void **state);

#endif
