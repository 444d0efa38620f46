/* sim_test.h - opcode tests: a row of operands and the answer for each lane.
 *
 *   SIM_OP("add.sat.s32 d, a, b;", "rrr", {0x7fffffff, 0x7fffffff, 1}, {3, 1, 2});
 *
 * The text is put into an entry that loads a, b, c, e of a lane's row, runs the text and stores d; it runs once with
 * all lanes, and once with some of them, whose neighbours' d must stay. Answers are worked out from the PTX ISA, never
 * from the interpreter. Every text goes through ptxas too (ptxas.cmake). */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include "../exec/sim_api.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row ends where its opcode's operands do. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef struct sim_row {
    uint64_t d, a, b, c, e;
} sim_row;

/* Kinds of d, a, b, c, e in this order: h 16 bits, r 32, l 64, p predicate (0 or 1). For d also: f and D (f32 and f64:
 * any NaN will do where a NaN is expected), x and y (f16 and bf16, the same). */
void sim_test_rows(const char *where, const char *text, const char *kinds, const sim_row *rows, size_t count);

#define SIM_TEXT(x) #x
#define SIM_LINE(x) SIM_TEXT(x)
#define SIM_HERE    __FILE__ ":" SIM_LINE(__LINE__)
#define SIM_OP(text, kinds, ...)                                                                                       \
    sim_test_rows(SIM_HERE, text, kinds, (const sim_row[]){__VA_ARGS__},                                               \
                  sizeof((const sim_row[]){__VA_ARGS__}) / sizeof(sim_row))

enum { SIM_TEST_MEMORY = 65536 };
typedef struct sim_test {
    const char *version, *target; /* sm_80 unless a test asks for more */
    const char *directives;       /* of the entry: ".maxnreg 64"; NULL: none */
    bool all_lanes;               /* no run with some of the lanes only (collective instructions) */
    sim_options options;
    uint8_t *memory; /* global memory of SIM_TEST_MEMORY bytes; register g holds its address */
    uint32_t cluster[3];
    unsigned failures;
    sim_fault fault; /* of the last run */
    sim_counters counters;
} sim_test;
extern sim_test sim_tester; /* the one test that runs */

/* Runs the body of an entry with parameters g (.u64, in register g); %n is the thread in the grid. false: see fault. */
bool sim_test_run(const char *body, uint32_t blocks, uint32_t threads);
/* The module must be refused with this in the message. */
void sim_test_refused(const char *where, const char *body, const char *message);
/* The body must end in this fault with this in its text. */
void sim_test_faults(const char *where, const char *body, uint32_t threads, sim_fault_kind kind, const char *text);
#define SIM_REFUSED(body, message)            sim_test_refused(SIM_HERE, body, message)
#define SIM_FAULTS(body, threads, kind, text) sim_test_faults(SIM_HERE, body, threads, kind, text)
void sim_test_check(const char *where, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define SIM_CHECK(good, ...) sim_test_check(SIM_HERE, good, __VA_ARGS__)

void sim_test_target(const char *target, const char *version);

typedef struct sim_group {
    const char *name;
    void (*run)(void);
} sim_group;
/* main() of every test: with an argument, every text is also written to files in that folder, for ptxas. */
int sim_test_main(int argc, char **argv, const char *name, const sim_group *groups, size_t count);
#define SIM_MAIN(name, groups) sim_test_main(argc, argv, name, groups, sizeof(groups) / sizeof(groups)[0])

/* Bits of numbers. */
static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint64_t bits_of_double(double value)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float float_of_bits(uint32_t bits)
{
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}
static inline double double_of_bits(uint64_t bits)
{
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
