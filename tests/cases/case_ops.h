/* case_ops.h - runs a loaded case on a device. */
#ifndef CASE_OPS_H
#define CASE_OPS_H

#include "case_file.h"

typedef enum case_result { CASE_PASSED, CASE_FAILED, CASE_SKIPPED } case_result;

typedef struct case_device {
    hal_device *device;
    hal_stream *stream;
    hal_cmdlist *list; /* the stream's */
} case_device;

/* Whether this library version has the operator. */
bool case_op_known(const char *op);
/* `why` says what failed or why it is skipped. */
case_result case_run(const case_device *d, const case_file *c, char *why, size_t capacity);

#endif
