/* spread.c - a CPU device's threads, each on a CPU of its own.
 *
 * A driver that runs kernels on the CPU has a thread for each core, which sleep between kernels. Left alone, the
 * system often wakes two of them on one core and moves one away some milliseconds later: a kernel shorter than that
 * then takes twice its time, now and then, and a measurement says how the system felt. */
#include "bench.h"

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 1024 };

static int compare(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* This process's threads but the one that asks, in the order of their numbers. Returns how many. */
static uint32_t list_threads(int ids[MAX_THREADS])
{
    uint32_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && count < MAX_THREADS && (entry = readdir(folder));) {
        const int id = atoi(entry->d_name);
        if (id > 0 && id != gettid())
            ids[count++] = id;
    }
    if (folder)
        closedir(folder);
    qsort(ids, count, sizeof *ids, compare);
    return count;
}

/* The next of the CPUs that this process may use, after `cpu`, round and round. */
static uint32_t next_cpu(const cpu_set_t *allowed, uint32_t cpu)
{
    do
        cpu = (cpu + 1) % CPU_SETSIZE;
    while (!CPU_ISSET(cpu, allowed));
    return cpu;
}

/* A driver makes its threads one after the other, so those of one device follow each other in the list. A thread that
 * has ended meanwhile is no fault. */
void bench_threads_spread(void)
{
    int ids[MAX_THREADS];
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < 2)
        return;
    const uint32_t count = list_threads(ids);
    for (uint32_t i = 0, cpu = CPU_SETSIZE - 1; i < count; i++) {
        cpu = next_cpu(&allowed, cpu);
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(ids[i], sizeof one, &one);
    }
}

hal_status bench_device_open(const bench_device *device, hal_device **opened)
{
    const hal_status status = hal_device_open(HAL_DEVICE(.select = device->select, .label = "hal-bench"), opened);
    if (status == HAL_OK && device->info.type == HAL_DEVICE_CPU)
        bench_threads_spread();
    return status;
}
