/* flat.h - flat kernels: for CPU devices that run a subgroup of 8 work-items as one vector (kernels_glsl/flat.glsl says
 * why). Inputs are texel views, outputs are storage buffers, beyond whose ends stores are dropped. */
#ifndef HAL_FLAT_H
#define HAL_FLAT_H

#include "operand.h"

#include "kernel_flat.h"

#define HAL_FLAT_ARGS 128 /* bytes of arguments: what every Vulkan device takes as push constants */

/* Whether the device is such a one. */
bool hal_flat_device(const hal_device_info *info);

/* Whether the operand can be an output: rows start at multiples of 32 bytes, and a span may cover it. */
bool hal_flat_has_output(const hal_device_info *info, const hal_operand *operand);
/* Makes its span the output's, which may start earlier: by so many times 32 bytes. */
uint32_t hal_flat_make_output(const hal_device_info *info, hal_operand *operand);

/* The same for an output of single elements. */
bool hal_flat_has_element_output(const hal_device_info *info, const hal_operand *operand);
uint32_t hal_flat_make_element_output(const hal_device_info *info, hal_operand *operand);

/* How a group takes a row whole: runs of each subgroup, at least FLAT_SUBGROUPS of them. False: it is too long. */
typedef struct hal_flat_row {
    uint32_t runs, subgroups;
} hal_flat_row;
bool hal_flat_row_of(const hal_device_info *info, uint64_t columns, hal_flat_row *row);

/* The constant REST for rows of so many columns, of which a group takes so many. */
uint32_t hal_flat_rest(uint64_t columns, uint64_t group_columns);

/* Whether the operand can be read as texels of one element, and how: see hal_row_make_view. */
bool hal_flat_has_elements(const hal_device_info *info, const hal_operand *operand);
uint32_t hal_flat_make_elements(const hal_device_info *info, hal_operand *operand, hal_view *view);

/* hal_operator_launch_start for a flat kernel, in groups of so many subgroups. */
void hal_flat_launch_start(hal_operator_launch *launch, const char *kernel, const uint32_t *constants,
                           const char *const *names, uint32_t count, uint32_t args_size, uint32_t subgroups);

/* What such a kernel's push constants are: FLAT_DIGITS, then its arguments, `size` bytes. */
typedef struct hal_flat_words {
    uint32_t words[HAL_FLAT_ARGS / sizeof(uint32_t)];
} hal_flat_words;
hal_flat_words hal_flat_words_of(const void *args, size_t size);

#endif
