/* unit.h - what the unit tests share. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core.h"

/* A small generator with a printed seed, so that a failure can be repeated (UNIT_SEED). */
static inline uint64_t unit_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t unit_seed(void)
{
    const char *text = getenv("UNIT_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

#endif
