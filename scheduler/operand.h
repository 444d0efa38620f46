/* operand.h - what every operator does with its operands: defaults, checks of extent, alignment and overlap, and the
 * dispatch. An operator file fills a table of hal_operand, resolves it, fills its argument struct and calls
 * hal_operator_dispatch. */
#ifndef HAL_OPERAND_H
#define HAL_OPERAND_H

#include <hal/ops.h>

#include "kernel_abi.h"
#include "kernel_cache.h"

/* A matrix of the operator: `rows` rows of `columns` elements, `ld` elements apart, once per problem of a batch. A
 * vector is one row. The fields up to stride are given; `present` says whether it is touched at all. */
typedef struct hal_operand {
    const char *name; /* of the descriptor's field */
    bool present;
    hal_span span;
    hal_dtype dtype;
    uint64_t rows, columns, ld; /* ld 0: columns */
    uint64_t batch, stride;     /* batch 0: 1 */
    uint64_t bytes;             /* from the first byte of the first element to the last of the last */
    uint64_t start;             /* of the buffer in the memory it lies in */
    uint32_t slot_alignment;    /* what a slot's address is surely a multiple of; 0: nothing is known */
} hal_operand;

/* Dimensions are 32-bit in the kernels, with room to add a tile. */
#define HAL_MAX_DIMENSION ((uint64_t)INT32_MAX)

/* Copies a descriptor (hal_desc_read) after a check for NULL; `type` names it: "hal_softmax_desc". */
hal_status hal_operator_desc(const char *op, const void *given, void *desc, size_t size, const char *type);

/* *dtype takes its default if it is HAL_DTYPE_DEFAULT, and must then be F32, F16, BF16 or, if `f8`, F8E4M3. */
hal_status hal_operand_dtype(const char *op, const char *field, hal_dtype *dtype, hal_dtype fallback, bool f8);

/* Each of `dimensions` must be at most HAL_MAX_DIMENSION. `names`: for the message, like "rows, columns". */
hal_status hal_operand_dimensions(const char *op, const char *names, const uint64_t *dimensions, uint32_t count);

/* Fill in defaults, and check leading dimension, alignment and extent of one operand that is present. The span becomes
 * as tight as the extent. `spans` false (prepare, workspace): a missing span is accepted; else it is an error. */
hal_status hal_operand_resolve(const char *op, hal_operand *operand, bool spans);

/* Notes what the list promises of its slots (hal_recording_align_slots). */
void hal_operands_align_slots(const hal_cmdlist *list, hal_operand *operands, uint32_t count);
/* Whether the address is known up to multiples of `alignment`: of buffers it is. */
bool hal_operand_placed(const hal_operand *operand, uint64_t alignment);
/* Bytes from the last multiple of `alignment` in the memory to the operand: the memory counts, not the buffer, as
 * imported memory may begin anywhere in its first page. 0 if alignment is 0. */
uint64_t hal_operand_before(const hal_operand *operand, uint64_t alignment);
/* Lets its span begin so many bytes earlier, for a view or an output that must begin at such a multiple. */
void hal_operand_move_back(hal_operand *operand, uint64_t bytes);
/* What a dispatch binds for them: spans, and the alignment of their elements. An absent one is bound to the span of
 * operand `stand_in`, and the kernel must not touch it. */
void hal_operands_bind(const hal_operand *operands, uint32_t count, uint32_t stand_in, hal_span *spans,
                       uint32_t *alignments);

/* Whether two resolved operands share an element. Exact for column blocks of one matrix; else their byte ranges count.
 */
bool hal_operands_overlap(const hal_operand *x, const hal_operand *y);
/* HAL_ERROR_OVERLAP if `out` shares memory with another present operand of the table. Bit i of `exactly`: operand i may
 * be exactly `out` (span, dtype, leading dimension, stride). */
hal_status hal_operand_check_output(const char *op, const hal_operand *operands, uint32_t count, uint32_t out,
                                    uint32_t exactly);

void hal_set64(uint32_t words[2], uint64_t value);
uint64_t hal_groups(uint64_t size, uint64_t tile); /* tiles that cover `size`; 0 for 0 */
uint64_t hal_fewer(uint64_t x, uint64_t y);        /* the less of two counts */

/* `wanted`, a power of two, halved until a group of so many work-items is allowed. */
uint32_t hal_threads_allowed(const hal_device_info *info, uint32_t wanted);
/* Work-items of a group of a kernel on rows: one task on CPU devices whose groups run on one core, else 256 or what the
 * device allows (a power of two). */
uint32_t hal_row_threads(const hal_device_info *info);
/* Elements that such a group takes where each is computed by itself: four a work-item, a long stretch for a task. */
uint32_t hal_row_tile(const hal_device_info *info);

/* A kernel and how an operator launches it. */
typedef struct hal_operator_launch {
    hal_kernel_spec spec; /* name, constants, args_size, group; bindings and their count are filled in */
    const char *const *constant_names;
    hal_grid grid;
    uint64_t most_groups; /* of one dispatch, so that it does not run for long; 0: any number */
} hal_operator_launch;

/* Starts a launch: zero but for the name, the constants, the argument size and a group of 1. */
void hal_operator_launch_start(hal_operator_launch *launch, const char *kernel, const uint32_t *constants,
                               const char *const *names, uint32_t count, uint32_t args_size);

/* Records the dispatch: the kernel is compiled if need be. `access` is of each operand, `stand_in` as above. */
hal_status hal_operator_dispatch(hal_cmdlist *list, const char *op, hal_operator_launch *launch,
                                 const hal_operand *operands, const hal_access *access, uint32_t count,
                                 uint32_t stand_in, const void *args);
/* Only compiles it. */
hal_status hal_operator_prepare(hal_device *device, const char *op, hal_operator_launch *launch,
                                const hal_access *access, uint32_t count);

#endif
