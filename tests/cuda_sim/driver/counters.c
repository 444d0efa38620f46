/* counters.c - the stand-in driver's counters, by the kernel's name. */
#include "drv.h"

#include "../exec/sim.h"

static struct {
    cuda_sim_kernel *kernels;
    unsigned count, capacity;
} counted;

static cuda_sim_kernel *find(const char *name)
{
    for (unsigned i = 0; i < counted.count; i++)
        if (strncmp(counted.kernels[i].name, name, sizeof counted.kernels[i].name - 1) == 0)
            return &counted.kernels[i];
    if (counted.count == counted.capacity) {
        counted.capacity = 2 * counted.capacity + 16;
        counted.kernels = realloc(counted.kernels, counted.capacity * sizeof *counted.kernels);
        if (!counted.kernels)
            abort();
    }
    cuda_sim_kernel *kernel = &counted.kernels[counted.count++];
    memset(kernel, 0, sizeof *kernel);
    snprintf(kernel->name, sizeof kernel->name, "%s", name);
    return kernel;
}

void drv_counters_add(const char *name, const sim_counters *counters)
{
    pthread_mutex_lock(&drv_lock);
    cuda_sim_kernel *kernel = find(name);
    kernel->launches++;
    sim_counters_add(&kernel->total, counters);
    pthread_mutex_unlock(&drv_lock);
}

__attribute__((visibility("default"))) unsigned cuda_sim_counters_read(cuda_sim_kernel *kernels, unsigned capacity,
                                                                       unsigned long struct_size)
{
    if (struct_size != sizeof *kernels)
        return 0;
    pthread_mutex_lock(&drv_lock);
    unsigned count = counted.count, copied = count < capacity ? count : capacity;
    if (copied > 0)
        memcpy(kernels, counted.kernels, copied * sizeof *kernels);
    pthread_mutex_unlock(&drv_lock);
    return count;
}

__attribute__((visibility("default"))) void cuda_sim_counters_reset(void)
{
    pthread_mutex_lock(&drv_lock);
    counted.count = 0;
    pthread_mutex_unlock(&drv_lock);
}
