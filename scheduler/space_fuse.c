/* space_fuse.c - whether a step may work on another's tile: it may if all elements it needs at a time are in the tile,
 * and are complete. */
#include "space.h"

#include <stdarg.h>
#include <stdio.h>

/* What is asked, and where the reason goes. */
typedef struct question {
    const hal_program *program;
    const hal_step *producer, *consumer;
    const hal_space *from, *to; /* large, and only in part written */
    const uint64_t *tile;
    char *reason;
    size_t reason_size;
} question;

static bool refuse(const question *q, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool refuse(const question *q, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(q->reason, q->reason_size, format, values);
    va_end(values);
    return false;
}

/* Reductions that have to be over before a statement's result is complete: its own, and those of what it reads. Bit d:
 * dimension d. */
static void pending(const hal_space *space, unsigned masks[HAL_SPACE_STATEMENTS])
{
    for (uint32_t s = 0; s < space->statements; s++) {
        const hal_statement *statement = &space->statement[s];
        masks[s] = 0;
        for (uint32_t i = 0; i < statement->dims; i++) {
            masks[s] |= hal_space_reduces(statement, statement->dim[i]) ? 1u << statement->dim[i] : 0;
        }
        for (uint32_t before = 0; before < s; before++) {
            for (uint32_t a = 0; a < statement->accesses; a++) {
                masks[s] |= statement->access[a].role == space->statement[before].access[0].role ? masks[before] : 0;
            }
        }
    }
}

static const char *reduced_over(const hal_space *space, uint32_t dim)
{
    for (uint32_t s = 0; s < space->statements; s++) {
        const hal_statement *statement = &space->statement[s];
        for (uint32_t i = 0; i < statement->dims; i++) {
            if (statement->dim[i] == dim && hal_space_reduces(statement, dim)) {
                return statement->what;
            }
        }
    }
    return "the sum";
}

static bool is_complete(const question *q, unsigned reductions)
{
    for (uint32_t d = 0; d < q->from->dims; d++) {
        const uint64_t points = hal_space_tile(q->from, q->tile, d), extent = q->from->dim[d].extent;
        if (reductions >> d & 1 && points < extent) {
            return refuse(q, "%s is not complete inside its loop: a tile has %llu of %llu", reduced_over(q->from, d),
                          (unsigned long long)points, (unsigned long long)extent);
        }
    }
    return true;
}

/* How much of an index of the joining tensor the consumer needs at a time: what it reduces over, now or once more
 * statements have passed it on, and what lies between its accesses of the tensor (RoPE's pairs). */
static uint64_t needed_at_once(const question *q, const hal_statement *statement, const hal_space_access *access,
                               uint32_t index, const char **what)
{
    const hal_affine *at = &access->index[index];
    int64_t apart = 0;
    for (uint32_t a = 0; a < statement->accesses; a++) {
        const hal_space_access *other = &statement->access[a];
        const bool same = other->role >= 0 && q->consumer->tensors[other->role] == q->consumer->tensors[access->role];
        if (same && other->rank > index && other->index[index].plus - at->plus > apart) {
            apart = other->index[index].plus - at->plus;
        }
    }
    uint64_t needed = 1 + (uint64_t)apart;
    *what = "a pair";
    for (uint32_t d = 0; d < q->to->dims; d++) {
        const hal_dim *dim = &q->to->dim[d];
        if (at->times[d] && dim->extent && (at->times[d] < apart || dim->kind == HAL_DIM_REDUCTION)) {
            needed += (uint64_t)at->times[d] * (dim->extent - 1);
            *what = dim->kind == HAL_DIM_REDUCTION ? reduced_over(q->to, d) : *what;
        }
    }
    return needed;
}

/* One access of the consumer against the producer's tile of the tensor. */
static bool fits(const question *q, const hal_space_access *made, const hal_statement *statement,
                 const hal_space_access *access)
{
    for (uint32_t i = 0; i < made->rank; i++) {
        const uint64_t whole = hal_space_values(q->from, &made->index[i], NULL);
        const uint64_t have = hal_space_values(q->from, &made->index[i], q->tile);
        if (have >= whole) {
            continue;
        }
        if (made->rank != access->rank) {
            return refuse(q, "'%s' is read in another shape than it is made in",
                          q->program->tensors[q->consumer->tensors[access->role]].name);
        }
        const char *what;
        const uint64_t needed = needed_at_once(q, statement, access, i, &what);
        const bool columns = i + 1 == access->rank;
        if (needed >= whole) {
            return refuse(q, "%s needs the whole %s: a tile has %llu of %llu %s", what, columns ? "row" : "column",
                          (unsigned long long)have, (unsigned long long)whole, columns ? "columns" : "rows");
        }
        if (have % needed) {
            return refuse(q, "%s needs %llu %s together: a tile has %llu", what, (unsigned long long)needed,
                          columns ? "columns" : "rows", (unsigned long long)have);
        }
    }
    return true;
}

/* Everything the consumer does with a tensor that the producer makes. */
static bool may_read(const question *q, const hal_space_access *made)
{
    const uint32_t tensor = q->producer->tensors[made->role];
    if (q->consumer->op == HAL_STEP_GATHER && q->consumer->tensors[HAL_ROLE_X] == tensor) {
        return refuse(q, "rows are looked up by their ids: each may be any of the tensor's");
    }
    for (uint32_t s = 0; s < q->to->statements; s++) {
        const hal_statement *statement = &q->to->statement[s];
        for (uint32_t a = 0; a < statement->accesses; a++) {
            const hal_space_access *access = &statement->access[a];
            if (access->role >= 0 && !access->write && q->consumer->tensors[access->role] == tensor &&
                !fits(q, made, statement, access)) {
                return false;
            }
        }
    }
    return true;
}

static bool reads(const hal_step *step, uint32_t tensor)
{
    for (uint32_t role = 0; role < HAL_ROLE_FIRST_OUTPUT; role++) {
        if (step->tensors[role] == tensor) {
            return true;
        }
    }
    return false;
}

bool hal_space_may_fuse(const hal_program *program, const hal_step *producer, const hal_step *consumer, uint64_t rows,
                        const uint64_t tile[HAL_SPACE_DIMS], char *reason, size_t reason_size)
{
    hal_space from, to;
    const question q = {.program = program,
                        .producer = producer,
                        .consumer = consumer,
                        .from = &from,
                        .to = &to,
                        .tile = tile,
                        .reason = reason,
                        .reason_size = reason_size};
    unsigned masks[HAL_SPACE_STATEMENTS] = {0};
    bool joined = false;
    hal_space_of(program, producer, rows, &from);
    hal_space_of(program, consumer, rows, &to);
    pending(&from, masks);
    for (uint32_t s = 0; s < from.statements; s++) {
        const hal_statement *statement = &from.statement[s];
        for (uint32_t a = 0; a < statement->accesses; a++) {
            const hal_space_access *made = &statement->access[a];
            if (made->role < 0 || !made->write || !reads(consumer, producer->tensors[made->role])) {
                continue;
            }
            joined = true;
            if (!is_complete(&q, masks[s]) || !may_read(&q, made)) {
                return false;
            }
        }
    }
    return joined || refuse(&q, "no tensor joins the two");
}
