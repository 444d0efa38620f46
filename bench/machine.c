/* machine.c - what the figures were measured on. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void bench_pause(double seconds)
{
    struct timespec span = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&span, NULL);
}

uint64_t bench_rss(void)
{
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%lu %lu", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The value after `key` and a separator on the first line of `path` that starts with key. */
static void read_value(const char *path, const char *key, char *value, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        char *text = line + strlen(key);
        text += strspn(text, " \t:=\"");
        text[strcspn(text, "\"\n")] = 0;
        snprintf(value, size, "%s", text);
        break;
    }
    if (file)
        fclose(file);
}

void bench_machine_describe(bench_machine *machine)
{
    struct utsname system;
    char distribution[80] = "";
    snprintf(machine->cpu, sizeof machine->cpu, "unknown");
    read_value("/proc/cpuinfo", "model name", machine->cpu, sizeof machine->cpu);
    read_value("/etc/os-release", "PRETTY_NAME", distribution, sizeof distribution);
    if (uname(&system) == 0)
        snprintf(machine->os, sizeof machine->os, "%s%s%.30s %.40s", distribution, *distribution ? ", " : "",
                 system.sysname, system.release);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    machine->cores = cores > 0 ? (uint32_t)cores : 1;
}
