/* case_run.h - what the operators' runners share: a case on its way through a device. */
#ifndef CASE_RUN_H
#define CASE_RUN_H

#include "case_ops.h"

#include <hal/ops.h>

#define CASE_BUFFERS 32

typedef struct case_run_state {
    const case_device *d;
    const case_file *c;
    char *why;
    size_t capacity;
    hal_buffer *buffers[CASE_BUFFERS]; /* destroyed when the case is done */
    uint32_t buffer_count;
} case_run_state;

/* Note why, return what. */
case_result run_result(case_run_state *r, case_result what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
case_result run_failed(case_run_state *r, const char *call, hal_status status);
case_result run_malformed(case_run_state *r, const char *what);
case_result run_skipped(case_run_state *r, const char *what); /* "... is not in this library version" */

/* An empty device buffer, one with these bytes, an output's, full of 0x5A; NULL with `why` set. */
hal_buffer *run_scratch(case_run_state *r, uint64_t size);
hal_buffer *run_upload(case_run_state *r, const void *bytes, uint64_t size);
hal_buffer *run_poisoned(case_run_state *r, const case_tensor *out);
hal_span run_span(hal_buffer *buffer, const case_tensor *t, uint64_t element);
/* A span to the end of a buffer, from so many bytes further on. */
static inline hal_span run_behind(hal_span span, uint64_t bytes)
{
    return hal_at(span.buffer, span.offset + bytes);
}
/* Fetch an output and compare it whole. */
case_result run_check(case_run_state *r, const case_tensor *out, hal_buffer *buffer);

/* CASE_PASSED if there are so many inputs and outputs, or more, the first `least` inputs are there, and libhal computes
 * with every tensor's dtype; inputs from `least` on may hold whole numbers or flags, too. */
case_result run_check_tensors(case_run_state *r, uint32_t least, uint32_t outputs);
/* A whole number in [-2^31, 2^31]; false if it is there, but is none. */
bool run_signed(const case_file *c, const char *name, int64_t fallback, int64_t *value);
/* An axis attribute counted from the front; false if it is out of range. */
bool run_axis(const case_file *c, const case_tensor *t, int64_t fallback, uint32_t *axis);
const char *run_text(const case_file *c, const char *name, const char *fallback);
/* hal_act of a name in a case; false: unknown. */
bool run_act(const char *name, hal_act *act);

/* The version of ONNX's operators that the case is written for. */
uint64_t run_version(const case_file *c);
/* Whether t can be spread over a shape, its first dimension at the shape's dimension `at`, and the packed result; NULL
 * with `why` set. */
bool run_spreads(const case_tensor *t, const case_tensor *over, uint32_t at);
hal_buffer *run_spread(case_run_state *r, const case_tensor *t, const case_tensor *over, uint32_t at);

/* Where a tensor's rows have gaps between them and an operator would step over several: *span becomes a packed copy of
 * them (an input), or packed memory (an output) that run_put_back copies to where it belongs. false: `why` is set. */
bool run_pack(case_run_state *r, const case_tensor *in, hal_span *span);
bool run_pack_output(case_run_state *r, const case_tensor *out, hal_span *span);
hal_status run_put_back(case_run_state *r, const case_tensor *out, hal_span packed, hal_span to);

/* The runners, by family. */
case_result run_gemm(case_run_state *r);
case_result run_matmul(case_run_state *r);
case_result run_activation(case_run_state *r);
case_result run_swiglu(case_run_state *r);
case_result run_binary(case_run_state *r);
case_result run_softmax(case_run_state *r);
case_result run_rmsnorm(case_run_state *r);
case_result run_fused_add_rmsnorm(case_run_state *r);
case_result run_transpose(case_run_state *r);
case_result run_gather(case_run_state *r);
case_result run_rotary(case_run_state *r);
case_result run_cast(case_run_state *r);
case_result run_quantize_linear(case_run_state *r);
case_result run_quantize_rows(case_run_state *r);
case_result run_attention(case_run_state *r);

#endif
