/* transpose.h - copies between strided memory, for operators that only move elements. */
#ifndef HAL_TRANSPOSE_H
#define HAL_TRANSPOSE_H

#include "operand.h"

/* Copies the rows of x to y: both resolved and checked, of one dtype and shape, apart or exactly the same (then nothing
 * is done). */
hal_status hal_copy_rows(hal_cmdlist *list, const char *op, const hal_operand *x, const hal_operand *y);

#endif
