/* kernel_flat.h - sizes of the flat kernels (flat.h), for C and GLSL. */
#ifndef HAL_KERNEL_FLAT_H
#define HAL_KERNEL_FLAT_H

#define FLAT_LANES     8  /* of a subgroup */
#define FLAT_SUBGROUPS 8  /* of a group, at least */
#define FLAT_RUN       32 /* columns that a subgroup takes at a time: four neighbours a lane */
#define FLAT_DIGITS    8

/* The constant REST: what the groups of a row cover is just the row; it ends between runs; it ends within a run. */
#define FLAT_WHOLE 0
#define FLAT_RUNS  1
#define FLAT_PART  2

#endif
