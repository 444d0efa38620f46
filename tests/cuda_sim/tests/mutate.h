/* mutate.h - mutants of a kernel: its PTX with one change that its author could have made. Each must be caught under
 * one timing at least, by a fault or by wrong numbers.
 *
 * For another kernel: a function that launches it and compares its numbers (kernel_run.h), a list of mutants, and
 * kernel_mutants() on both; see test_kernel_mutants.c. */
#ifndef MUTATE_H
#define MUTATE_H

#include "kernel_run.h"

typedef struct kernel_subject {
    const char *text, *entry; /* kernel_text() */
    kernel_runner *run;
    const void *problem;
    bool no_races; /* without the race check: the numbers alone must tell */
} kernel_subject;

typedef enum mutant_change {
    MUTANT_DROP,         /* the line */
    MUTANT_LAST_OPERAND, /* becomes `with` */
    MUTANT_REPLACE,      /* `find` by `with` */
    MUTANT_SWAP,         /* the first two of the operands in {}, in the which-th {} that `find` counts: "", "{", "{{" */
} mutant_change;

/* Lines that begin with `opcode` and hold `holds`, if given: the which-th of them from 0 on, all, or the last. Only
 * lines behind the one that holds `from` and before the next one that holds `until` count, where these are given. */
enum { MUTANT_ALL = -1, MUTANT_LAST = -2 };
typedef struct mutant {
    const char *name, *opcode;
    int which;
    mutant_change change;
    const char *find, *with, *holds, *from, *until;
} mutant;

/* Prints what each timing shows, up to the first that catches: a fault (f), wrong numbers (#) or nothing (.). */
void kernel_mutants(const kernel_subject *subject, const mutant *list, size_t count);
#define KERNEL_MUTANTS(subject, list) kernel_mutants(subject, list, sizeof(list) / sizeof(list)[0])
/* The kernel as it is must be right under every timing. */
void kernel_right(const kernel_subject *subject, const char *name);
/* Both, for an entry of one of libhal's own kernels. */
void kernel_checked(const char *file, const char *entry, kernel_runner *run, const void *problem, const mutant *list,
                    size_t count);
#define KERNEL(file, entry, run, problem, list)                                                                        \
    kernel_checked(KERNELS file ".ptx", entry, run, problem, list, sizeof(list) / sizeof(list)[0])

#endif
