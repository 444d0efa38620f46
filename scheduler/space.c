/* space.c - see space.h. The table says what each operator computes; everything else is derived from it. */
#include "space.h"

#include "core.h"
#include <ctype.h>

/* A statement: what it writes, = or += (reduced into), what it reads. ~1, ~2 are temporaries; others are roles, left
 * out where the step has none of it; with ! it is the statement that is left out. Dimensions are letters, see
 * extent_of. An index of several counts through them, the last the fastest: [i,gre] is column (g R + r) E + e; a digit
 * there is that value of a dimension of two. */
typedef struct rule {
    const char *text;
    const char *what; /* hal_statement.what */
    int functions;    /* FLOPs beside those that are counted */
} rule;

static const rule rules[HAL_STEP_OPS][HAL_SPACE_STATEMENTS] = {
    [HAL_STEP_GEMM] = {{"~1[i,j] += x[i,k] b[k,j]", "the sum over k", 0},
                       {"~2[i,j] += x[i,k] b_up[k,j]!", "the sum over k", 0},
                       {"y[i,j] = ~1[i,j] ~2[i,j] scale_a[i] scale_b[j] bias[j] residual[i,j] scale_d[i]", NULL, 0}},
    [HAL_STEP_ACTIVATION] = {{"scales[i] += x[i,k]", "the scale", 0}, {"y[i,j] = x[i,j] scales[i]", NULL, 0}},
    [HAL_STEP_BINARY] = {{"scales[i] += x[i,k] b[i,k]", "the scale", 0}, {"y[i,j] = x[i,j] b[i,j] scales[i]", NULL, 0}},
    [HAL_STEP_RMSNORM] = {{"~1[i] += x[i,k] residual[i,k]", "the mean of the squares", 1},
                          {"scales[i] += x[i,k] residual[i,k] weight[k] ~1[i]", "the scale", 0},
                          {"y[i,j] sum[i,j] = x[i,j] residual[i,j] weight[j] ~1[i] scales[i]", NULL, 0}},
    [HAL_STEP_SOFTMAX] = {{"~1[i] += x[i,k] mask[i,k]", "the greatest element and the sum of exponentials", 3},
                          {"y[i,j] = x[i,j] mask[i,j] ~1[i]", NULL, 2}},
    [HAL_STEP_CAST] = {{"y[i,j] = x[i,j]", NULL, 0}},
    [HAL_STEP_QUANTIZE] = {{"scales[i] += x[i,k]", "the scale", 0}, {"y[i,j] = x[i,j] scales[i] scale_a[i]", NULL, 0}},
    [HAL_STEP_DEQUANTIZE] = {{"y[i,j] = x[i,j] scale_a[i]", NULL, 0}},
    [HAL_STEP_TRANSPOSE] = {{"y[i,j] = x[abc,d]", NULL, 0}}, /* y's index is put in by perm */
    [HAL_STEP_ROPE] = {{"y[i,h0c] y[i,h1c] = x[i,h0c] x[i,h1c] cos[i,c] sin[i,c] positions[i]", NULL, 3}},
    [HAL_STEP_GATHER] = {{"y[i,j] = x[i,j] b[i]", NULL, 0}}, /* x's row is one of the table, whichever */
    [HAL_STEP_ATTENTION] = {{"~1[i,gr,s] += x[i,gre] b[s,ge]", "the product of query and key", 0},
                            {"~2[i,gr] += ~1[i,gr,s] mask[i,s] kv_lengths[0]",
                             "the greatest score and the sum of exponentials", 3},
                            {"~3[i,gr,s] = ~1[i,gr,s] ~2[i,gr]", NULL, 1},
                            {"y[i,grv] += ~3[i,gr,s] v[s,gv]", "the weighted sum over keys", 0}},
};

typedef struct maker {
    const hal_program *program;
    const hal_step *step;
    uint64_t rows;
    hal_space *space;
} maker;

static const hal_tensor_info *tensor_of(const maker *m, hal_role role)
{
    return &m->program->tensors[m->step->tensors[role]];
}

static uint64_t ratio(uint64_t x, uint64_t y)
{
    return y ? x / y : 0;
}

/* What the letters count. */
static uint64_t extent_of(const maker *m, char letter)
{
    const hal_step *step = m->step;
    const hal_tensor_info *x = tensor_of(m, HAL_ROLE_X);
    switch (letter) {
    case 'i': /* rows of the result */
        return hal_tensor_rows(tensor_of(m, HAL_ROLE_Y), m->rows);
    case 'j': /* columns of the result */
        return hal_tensor_columns(tensor_of(m, HAL_ROLE_Y));
    case 'k': /* columns of x */
        return hal_tensor_columns(x);
    case 'h':
        return step->heads;
    case 'g': /* heads of keys */
        return step->kv_heads;
    case 'r': /* heads of queries that share one */
        return ratio(step->heads, step->kv_heads);
    case 's': /* keys */
        return hal_tensor_rows(tensor_of(m, HAL_ROLE_B), m->rows);
    case 'e': /* elements of a head of x */
        return ratio(hal_tensor_columns(x), step->heads);
    case 'v': /* elements of a head of v */
        return ratio(hal_tensor_columns(tensor_of(m, HAL_ROLE_V)), step->kv_heads);
    case 'c': /* pairs of a head; a transposition's third dimension */
        if (step->op == HAL_STEP_ROPE) {
            return ratio(hal_tensor_columns(x), 2 * (uint64_t)step->heads);
        }      /* fall through */
    default: { /* a, b, c, d: dimensions of a transposed x, the last is d */
        const uint32_t at = (uint32_t)(letter - 'a') + x->dims.rank;
        const uint64_t size = at < HAL_MAX_RANK ? 1 : x->dims.size[at - HAL_MAX_RANK];
        return size == HAL_ROWS ? m->rows : size;
    }
    }
}

/* The dimension of a letter, in the space and in the statement. */
static uint32_t dimension(const maker *m, hal_statement *statement, char letter)
{
    static const char names[][2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k",
                                    "l", "m", "n", "o", "p", "q", "r", "s", "t", "u", "v"};
    hal_space *space = m->space;
    uint32_t d = 0;
    while (d < space->dims && space->dim[d].name[0] != letter) {
        d++;
    }
    if (d == space->dims) {
        space->dim[space->dims++] = (hal_dim){names[letter - 'a'], HAL_DIM_PARALLEL, extent_of(m, letter)};
    }
    uint32_t at = 0;
    while (at < statement->dims && statement->dim[at] != d) {
        at++;
    }
    if (at == statement->dims) {
        statement->dim[statement->dims++] = (uint8_t)d;
    }
    return d;
}

/* Letters up to a comma or bracket; returns where that is. */
static const char *read_index(const maker *m, hal_statement *statement, const char *at, hal_affine *index)
{
    const char *end = at;
    int64_t times = 1;
    while (*end != ',' && *end != ']') {
        end++;
    }
    for (const char *letter = end; letter-- > at;) {
        if (isdigit((unsigned char)*letter)) {
            index->plus += times * (*letter - '0');
            times *= 2;
        } else {
            const uint32_t d = dimension(m, statement, *letter);
            index->times[d] = times;
            times *= (int64_t)m->space->dim[d].extent;
        }
    }
    return end;
}

/* A name of the table: a role, or below 0 a temporary. */
static int role_named(const char *name, size_t size)
{
    if (*name == '~') {
        return '0' - name[1];
    }
    for (int role = 0;; role++) {
        const char *known = hal_role_name((hal_role)role);
        if (*known == *name && strncmp(known, name, size) == 0 && !known[size]) {
            return role;
        }
    }
}

/* A tensor of one row serves all rows, one of one column all columns. B may be transposed. */
static void fit(const maker *m, hal_space_access *access)
{
    const hal_tensor_info *tensor = tensor_of(m, (hal_role)access->role);
    if (access->rank != 2) {
        return;
    }
    if (m->step->trans_b && (access->role == HAL_ROLE_B || access->role == HAL_ROLE_B_UP)) {
        const hal_affine first = access->index[0];
        access->index[0] = access->index[1];
        access->index[1] = first;
    }
    if (hal_tensor_rows(tensor, m->rows) == 1) {
        access->index[0] = (hal_affine){0};
    }
    /* RoPE's tables are for the pairs that they have. */
    const bool table = access->role == HAL_ROLE_COS || access->role == HAL_ROLE_SIN;
    if (hal_tensor_columns(tensor) == 1 && !table) {
        access->index[1] = (hal_affine){0};
    }
}

static bool written_before(const hal_space *space, int role)
{
    for (uint32_t s = 0; s < space->statements; s++) {
        for (uint32_t a = 0; a < space->statement[s].accesses; a++) {
            if (space->statement[s].access[a].role == role && space->statement[s].access[a].write) {
                return true;
            }
        }
    }
    return false;
}

/* One operand; returns what follows it. *keep becomes false if the statement falls without it. */
static const char *read_access(const maker *m, hal_statement *statement, const char *at, bool write, bool *keep)
{
    hal_space_access *access = &statement->access[statement->accesses];
    const uint32_t dims = statement->dims;
    size_t size = 0;
    while (at[size] != '[') {
        size++;
    }
    *access = (hal_space_access){.write = write, .role = role_named(at, size)};
    at += size;
    do {
        at = read_index(m, statement, at + 1, &access->index[access->rank++]);
    } while (*at == ',');
    const bool must = *++at == '!';
    const bool there =
        access->role < 0 ? write || written_before(m->space, access->role) : m->step->tensors[access->role] != 0;
    if (!there) {
        statement->dims = dims;
    } else {
        statement->accesses++;
        if (access->role >= 0) {
            fit(m, access);
        }
    }
    *keep = *keep && (there || !must);
    return at + must;
}

bool hal_space_indexed(const hal_space_access *access, uint32_t dim)
{
    for (uint32_t i = 0; i < access->rank; i++) {
        if (access->index[i].times[dim]) {
            return true;
        }
    }
    return false;
}

/* What a statement writes is its first access. */
bool hal_space_reduces(const hal_statement *statement, uint32_t dim)
{
    return !hal_space_indexed(&statement->access[0], dim);
}

static double flops_of(const maker *m, const hal_statement *statement, bool sum, int functions)
{
    int flops = functions + sum - 1;
    for (uint32_t a = 0; a < statement->accesses; a++) {
        const hal_space_access *access = &statement->access[a];
        const bool ids = access->role >= 0 && tensor_of(m, (hal_role)access->role)->dtype == HAL_DTYPE_DEFAULT;
        flops += !access->write && !ids;
    }
    return flops;
}

static void read_rule(const maker *m, const rule *r, int functions)
{
    hal_space *space = m->space;
    hal_statement *statement = &space->statement[space->statements]; /* not one of them yet */
    const uint32_t dims = space->dims;
    bool keep = true, write = true, sum = false;
    statement->dims = statement->accesses = 0;
    statement->what = r->what;
    for (const char *at = r->text; *at;) {
        if (*at == ' ') {
            at++;
        } else if (*at == '=' || *at == '+') {
            sum = *at == '+';
            write = false;
            at += 1 + sum;
        } else {
            at = read_access(m, statement, at, write, &keep);
        }
    }
    if (!keep || statement->accesses == 0 || !statement->access[0].write) {
        space->dims = dims;
        return;
    }
    statement->flops = flops_of(m, statement, sum, functions);
    for (uint32_t i = 0; sum && i < statement->dims; i++) {
        if (hal_space_reduces(statement, statement->dim[i])) {
            space->dim[statement->dim[i]].kind = HAL_DIM_REDUCTION;
        }
    }
    space->statements++;
}

/* Dimension d of the result is dimension perm[d] of x. */
static void read_transpose(const maker *m)
{
    const uint32_t rank = tensor_of(m, HAL_ROLE_X)->dims.rank;
    char text[] = "y[aaa,a] = x[abc,d]"; /* missing dimensions are in front */
    for (uint32_t i = 0; i < HAL_MAX_RANK; i++) {
        const uint32_t missing = HAL_MAX_RANK - rank;
        text[i < 3 ? 2 + i : 6] = (char)('a' + (i < missing ? i : missing + m->step->perm[i - missing]));
    }
    read_rule(m, &(rule){text, NULL, 0}, 0);
}

void hal_space_of(const hal_program *program, const hal_step *step, uint64_t rows, hal_space *space)
{
    space->dims = space->statements = 0; /* what is behind the counts is not looked at */
    const maker m = {program, step, rows, space};
    const bool swiglu = step->op == HAL_STEP_BINARY ? step->binary == HAL_SWIGLU : step->tensors[HAL_ROLE_B_UP] != 0;
    for (uint32_t i = 0; step->op != HAL_STEP_TRANSPOSE && i < HAL_SPACE_STATEMENTS && rules[step->op][i].text; i++) {
        const rule *r = &rules[step->op][i];
        read_rule(&m, r, r->what ? r->functions : r->functions + swiglu + (step->act != HAL_ACT_NONE));
    }
    if (step->op == HAL_STEP_TRANSPOSE) {
        read_transpose(&m);
    }
}

double hal_space_flops(const hal_space *space)
{
    double flops = 0;
    for (uint32_t s = 0; s < space->statements; s++) {
        const hal_statement *statement = &space->statement[s];
        double points = 1;
        for (uint32_t i = 0; i < statement->dims; i++) {
            points *= (double)space->dim[statement->dim[i]].extent;
        }
        flops += points * statement->flops;
    }
    return flops;
}
