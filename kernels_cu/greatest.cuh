/* greatest.cuh - the greatest number of a group. */
#ifndef HAL_GREATEST_CUH
#define HAL_GREATEST_CUH

#include <stdint.h>

/* The greatest `mine` of a group of `threads`, at most THREADS of them, of which this is `thread`. To be called again
 * behind a barrier. */
template <uint32_t THREADS>
__device__ __forceinline__ uint32_t greatest(uint32_t mine, uint32_t thread, uint32_t threads)
{
    __shared__ uint32_t partial[THREADS];
    partial[thread] = mine;
    for (uint32_t stride = threads / 2; stride > 0; stride /= 2) {
        __syncthreads();
        if (thread < stride)
            partial[thread] = max(partial[thread], partial[thread + stride]);
    }
    __syncthreads();
    return partial[0];
}

#endif
