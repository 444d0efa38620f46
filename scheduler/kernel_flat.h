/* kernel_flat.h - sizes of the flat kernels (flat.h), for C and GLSL. */
#ifndef HAL_KERNEL_FLAT_H
#define HAL_KERNEL_FLAT_H

#define FLAT_LANES     8  /* of a subgroup */
#define FLAT_SUBGROUPS 8  /* of a group, at least */
#define FLAT_RUN       32 /* columns that a subgroup takes at a time: four neighbours a lane */
#define FLAT_DIGITS    8

#endif
