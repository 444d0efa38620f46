/* host_memory.h - host memory that runs out where a test says: malloc and its like are wrapped by the linker, for
 * libhal and the test (CMake: hal_test_wraps_memory). */
#ifndef HOST_MEMORY_H
#define HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* From now on allocations are counted, and number `fail_at` of them fails; 0: none does. */
void host_memory_count(uint64_t fail_at);
/* Until here. Returns how many there were. */
uint64_t host_memory_stop(void);
/* Every allocation fails on all threads but this one. */
void host_memory_fail_elsewhere(bool fails);

/* Allocations not freed. Those of the C library that the wrapped free() takes must be added by hand. */
int64_t host_memory_live(void);
void host_memory_add_live(int64_t count);

#endif
