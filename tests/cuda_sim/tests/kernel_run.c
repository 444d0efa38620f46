/* kernel_run.c - see kernel_run.h. */
#include "kernel_run.h"
#include "kernel_abi.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return NULL;
    }
    char *text = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0 && (text = calloc(1, (size_t)size + 1)) &&
        fread(text, 1, (size_t)size, file) != (size_t)size) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

char *kernel_text(const char *path, const char *entry)
{
    char begin[256], *text = read_file(path);
    snprintf(begin, sizeof begin, ".visible .entry %s(", entry);
    char *first = text ? strstr(text, ".visible .entry ") : NULL, *from = text ? strstr(text, begin) : NULL;
    if (!from) {
        fprintf(stderr, "%s: no entry %s\n", path, entry);
        exit(2);
    }
    const char *end = strstr(from + 1, ".visible .entry ");
    size_t size = end ? (size_t)(end - from) : strlen(from);
    memmove(first, from, size);
    first[size] = 0;
    return text;
}

static int by_start(const void *a, const void *b)
{
    const sim_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

kernel_result kernel_launch(sim_launch *launch, sim_range *ranges, size_t count, sim_counters *counters, char *text,
                            size_t size)
{
    qsort(ranges, count, sizeof ranges[0], by_start);
    launch->ranges = ranges;
    launch->range_count = count;
    sim_fault fault = {0};
    if (sim_launch_run(launch, counters, &fault)) {
        return KERNEL_RIGHT;
    }
    snprintf(text, size, "%s", fault.text);
    return fault.kind == SIM_FAULT_RESOURCES ? KERNEL_NOT_RUN : KERNEL_FAULT;
}

sim_range kernel_range(const void *start, size_t bytes, bool read_only)
{
    uint64_t address = (uint64_t)(uintptr_t)start;
    return (sim_range){address, address + bytes, read_only};
}

void *kernel_memory(size_t bytes)
{
    void *memory = aligned_alloc(256, (bytes / 256 + 1) * 256);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(2);
    }
    return memset(memory, 0xff, bytes);
}

float kernel_number(size_t row, size_t column, uint32_t seed)
{
    uint32_t x = ((uint32_t)row * 7919 + (uint32_t)column + seed) * 2654435761u;
    return (float)(int)((x >> 16) % 7) - 3;
}

uint16_t kernel_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float kernel_of_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

float kernel_of_e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const float magnitude = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return (code & 127) == 127 ? NAN : code & 128 ? -magnitude : magnitude;
}

static uint8_t code_of(float value)
{
    uint8_t code = 0;
    while (kernel_of_e4m3(code) != value && code < 0xff) {
        code++;
    }
    return code;
}

void kernel_set(void *array, uint32_t dtype, size_t i, float value)
{
    if (dtype == HAL_KERNEL_F32) {
        ((float *)array)[i] = value;
    } else if (dtype == HAL_KERNEL_F8E4M3) {
        ((uint8_t *)array)[i] = code_of(value);
    } else {
        ((uint16_t *)array)[i] = kernel_bf16(value);
    }
}

float kernel_get(const void *array, uint32_t dtype, size_t i)
{
    return dtype == HAL_KERNEL_F32      ? ((const float *)array)[i]
           : dtype == HAL_KERNEL_F8E4M3 ? kernel_of_e4m3(((const uint8_t *)array)[i])
                                        : kernel_of_bf16(((const uint16_t *)array)[i]);
}
