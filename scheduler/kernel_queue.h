/* kernel_queue.h - the counts of gemm_queue, 32 bits each, all 0 before and after: tasks that were taken, groups that
 * are done, and for each block of rows the tiles that are done. */
#ifndef HAL_KERNEL_QUEUE_H
#define HAL_KERNEL_QUEUE_H

#define QUEUE_TASKS  0
#define QUEUE_DONE   1
#define QUEUE_BLOCKS 2

#endif
