/* space_tile.c - what tiles of a space touch, and what that costs in bytes. */
#include "space.h"

#include "operand.h"
#include <string.h>

static uint64_t part_of(uint64_t extent, uint64_t points)
{
    return points == 0 || points > extent ? extent : points;
}

uint64_t hal_space_tile(const hal_space *space, const uint64_t *tile, uint32_t dim)
{
    return part_of(space->dim[dim].extent, tile ? tile[dim] : 0);
}

/* space->dims: there is none. */
static uint32_t dim_named(const hal_space *space, char letter)
{
    uint32_t d = 0;
    while (d < space->dims && space->dim[d].name[0] != letter) {
        d++;
    }
    return d;
}

/* A dimension of an index: values 0, times, 2 times, ... (points - 1) times. */
typedef struct stride {
    uint64_t times, points;
} stride;

/* Ascending. Dimensions of one point add nothing. */
static uint32_t strides_of(const hal_affine *index, const uint64_t points[HAL_SPACE_DIMS],
                           stride strides[HAL_SPACE_DIMS])
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < HAL_SPACE_DIMS; d++) {
        const uint64_t times = (uint64_t)(index->times[d] < 0 ? -index->times[d] : index->times[d]);
        if (times == 0 || points[d] == 1) {
            continue;
        }
        uint32_t at = count++;
        for (; at > 0 && strides[at - 1].times > times; at--) {
            strides[at] = strides[at - 1];
        }
        strides[at] = (stride){times, points[d]};
    }
    return count;
}

/* Different sums of a point of each. `run` values follow each other without a gap as long as each stride lands within
 * what there is; from the first gap on every point is a copy of all before, and copies may meet. */
static uint64_t values_of(const hal_affine *index, const uint64_t points[HAL_SPACE_DIMS])
{
    stride strides[HAL_SPACE_DIMS];
    const uint32_t count = strides_of(index, points, strides);
    uint64_t values = 1, span = 0;
    bool dense = true;
    for (uint32_t i = 0; i < count; i++) {
        const stride *s = &strides[i];
        if (s->points == 0) {
            return 0;
        }
        const uint64_t step = s->times / strides[0].times;
        dense = dense && s->times % strides[0].times == 0 && step <= values;
        values = dense ? values + step * (s->points - 1) : values * s->points;
        span += s->times * (s->points - 1);
    }
    return values <= span ? values : span + 1;
}

static uint64_t elements_of(const hal_space_access *access, const uint64_t points[HAL_SPACE_DIMS])
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < access->rank; i++) {
        elements *= values_of(&access->index[i], points);
    }
    return elements;
}

static void points_of(const hal_space *space, const uint64_t *tile, uint64_t points[HAL_SPACE_DIMS])
{
    for (uint32_t d = 0; d < HAL_SPACE_DIMS; d++) {
        points[d] = d < space->dims ? hal_space_tile(space, tile, d) : 1;
    }
}

uint64_t hal_space_values(const hal_space *space, const hal_affine *index, const uint64_t *tile)
{
    uint64_t points[HAL_SPACE_DIMS];
    points_of(space, tile, points);
    return values_of(index, points);
}

uint64_t hal_space_footprint(const hal_space *space, const hal_space_access *access,
                             const uint64_t tile[HAL_SPACE_DIMS])
{
    uint64_t points[HAL_SPACE_DIMS];
    points_of(space, tile, points);
    return elements_of(access, points);
}

static uint32_t tensor_of(const hal_step *step, const hal_space_access *access)
{
    return access->role < 0 ? 0 : step->tensors[access->role];
}

/* How far an access goes in each dimension. RoPE's tables have a column for each pair that it turns, which may be fewer
 * than a head has. */
static void extents_of(const hal_program *program, const hal_step *step, const hal_space *space,
                       const hal_space_access *access, uint64_t extent[HAL_SPACE_DIMS])
{
    const uint64_t columns = hal_tensor_columns(&program->tensors[tensor_of(step, access)]);
    points_of(space, NULL, extent);
    for (uint32_t d = 0; access->rank == 2 && d < space->dims; d++) {
        if (access->index[1].times[d] == 1 && extent[d] > columns) {
            extent[d] = columns;
        }
    }
}

static bool same_index(const hal_space_access *x, const hal_space_access *y)
{
    bool same = x->rank == y->rank;
    for (uint32_t i = 0; same && i < x->rank; i++) {
        same = x->index[i].plus == y->index[i].plus;
        for (uint32_t d = 0; same && d < HAL_SPACE_DIMS; d++) {
            same = x->index[i].times[d] == y->index[i].times[d];
        }
    }
    return same;
}

/* Elements of a tensor that the step touches. What two accesses have in common is counted once where they are the same,
 * or all of it is touched. */
static uint64_t touched(const hal_space *space, const hal_program *program, const hal_step *step, uint32_t tensor)
{
    const hal_space_access *seen[HAL_SPACE_STATEMENTS * HAL_SPACE_ACCESSES];
    uint32_t count = 0;
    uint64_t elements = 0;
    for (uint32_t s = 0; s < space->statements; s++) {
        for (uint32_t a = 0; a < space->statement[s].accesses; a++) {
            const hal_space_access *access = &space->statement[s].access[a];
            bool again = tensor_of(step, access) != tensor;
            for (uint32_t i = 0; !again && i < count; i++) {
                again = same_index(seen[i], access);
            }
            if (!again) {
                uint64_t extent[HAL_SPACE_DIMS];
                extents_of(program, step, space, access, extent);
                seen[count++] = access;
                elements += elements_of(access, extent);
            }
        }
    }
    return elements;
}

uint64_t hal_space_step_bytes(const hal_space *space, const hal_program *program, const hal_step *step, uint64_t rows)
{
    uint64_t bytes = 0;
    for (uint32_t role = 0; role < HAL_ROLES; role++) {
        const uint32_t id = step->tensors[role];
        bool counted = id == 0;
        for (uint32_t before = 0; before < role; before++) {
            counted = counted || step->tensors[before] == id;
        }
        if (!counted) {
            const uint64_t all = hal_tensor_bytes(&program->tensors[id], rows);
            const uint64_t some = touched(space, program, step, id) * program->tensors[id].element_size;
            bytes += some < all ? some : all;
        }
    }
    return bytes;
}

uint64_t hal_space_bytes(const hal_program *program, const hal_step *step, uint64_t rows)
{
    hal_space space;
    hal_space_of(program, step, rows, &space);
    return hal_space_step_bytes(&space, program, step, rows);
}

/* Elements that all tiles load or store through an access. Tiles at the edge are smaller: each dimension that indexes
 * the access is cut into whole tiles and a rest, and every mixture of the two is counted. A tile loops over what the
 * statement reduces, and an operand that this does not index is loaded once; other dimensions load it again. */
static uint64_t tiled_elements(const hal_space *space, const hal_statement *statement, const hal_space_access *access,
                               const uint64_t extents[HAL_SPACE_DIMS], const uint64_t *tile, bool apart)
{
    uint64_t again = 1;
    uint32_t cut[HAL_SPACE_DIMS], cuts = 0;
    for (uint32_t i = 0; i < statement->dims; i++) {
        const uint32_t d = statement->dim[i];
        const uint64_t extent = extents[d], points = part_of(extent, tile[d]);
        if (access->write && hal_space_reduces(statement, d)) {
            continue; /* an empty sum is stored, too */
        }
        if (extent == 0) {
            return 0;
        }
        if (hal_space_indexed(access, d)) {
            cut[cuts++] = d;
        } else if (apart ? !hal_space_reduces(statement, d) : space->dim[d].kind == HAL_DIM_PARALLEL) {
            again *= (extent + points - 1) / points;
        }
    }
    uint64_t elements = 0;
    for (uint32_t mixture = 0; mixture < 1u << cuts; mixture++) {
        uint64_t points[HAL_SPACE_DIMS] = {1, 1, 1, 1, 1, 1}, tiles = 1;
        for (uint32_t i = 0; i < cuts; i++) {
            const uint64_t extent = extents[cut[i]], whole = part_of(extent, tile[cut[i]]);
            const bool rest = mixture >> i & 1;
            points[cut[i]] = rest ? extent % whole : whole;
            tiles *= rest ? extent % whole != 0 : extent / whole;
        }
        elements += tiles ? tiles * elements_of(access, points) : 0;
    }
    return again * elements;
}

static bool reductions_whole(const hal_space *space, const hal_statement *statement, const uint64_t *tile)
{
    for (uint32_t i = 0; i < statement->dims; i++) {
        const uint32_t d = statement->dim[i];
        if (hal_space_reduces(statement, d) && hal_space_tile(space, tile, d) < space->dim[d].extent) {
            return false;
        }
    }
    return true;
}

static const uint64_t *tile_of(const hal_statement *statement, const hal_walk *walk)
{
    return statement->what ? walk->tile : walk->lane;
}

/* Whether what access `a` of statement `s` loads was loaded before and is still there, or is the step's own result. */
static bool at_hand(const hal_space *space, const hal_step *step, uint32_t s, uint32_t a, const hal_walk *walk)
{
    const hal_space_access *access = &space->statement[s].access[a];
    const uint32_t tensor = tensor_of(step, access);
    if (hal_role_written((uint32_t)access->role) && !access->write) {
        return true;
    }
    for (uint32_t before = walk->apart ? s : 0; before <= s; before++) {
        const hal_statement *statement = &space->statement[before];
        const uint64_t *tile = tile_of(statement, walk), *here = tile_of(&space->statement[s], walk);
        const uint32_t end = before < s ? statement->accesses : a;
        for (uint32_t b = 0; b < end; b++) {
            const hal_space_access *other = &statement->access[b];
            if (tensor_of(step, other) != tensor) {
                continue;
            }
            if (before == s ? same_index(other, access)
                            : reductions_whole(space, statement, tile) &&
                                  hal_space_footprint(space, other, tile) == hal_space_footprint(space, access, here)) {
                return true;
            }
        }
    }
    return false;
}

/* Keys that are not `seen` are not loaded. */
static void add_statements(const hal_program *program, const hal_step *step, const hal_space *space,
                           const hal_walk *walk, uint64_t seen, hal_traffic *traffic)
{
    const uint32_t i = dim_named(space, 'i'), keys = dim_named(space, 's');
    for (uint32_t s = 0; s < space->statements; s++) {
        const hal_statement *statement = &space->statement[s];
        const uint64_t *tile = tile_of(statement, walk);
        const uint64_t together = statement->what ? walk->tile_rows : walk->lane_rows;
        const bool again = statement->what && walk->passes && !reductions_whole(space, statement, tile);
        for (uint32_t a = 0; a < statement->accesses; a++) {
            const hal_space_access *access = &statement->access[a];
            const uint32_t tensor = tensor_of(step, access);
            if (!tensor || at_hand(space, step, s, a, walk)) {
                continue;
            }
            uint64_t extent[HAL_SPACE_DIMS];
            extents_of(program, step, space, access, extent);
            if (!access->write && together && i < space->dims) {
                extent[i] = hal_groups(extent[i], together) * together;
            }
            if (keys < space->dims && (hal_space_indexed(access, keys) || !walk->ahead)) {
                extent[keys] = hal_fewer(extent[keys], seen);
            }
            *(access->write ? &traffic->written : &traffic->read) +=
                program->tensors[tensor].element_size * (again && !access->write ? walk->passes : 1) *
                tiled_elements(space, statement, access, extent, tile, walk->apart);
        }
    }
}

/* Each tile of rows as a step of its own, with the keys that its last row sees. `heads` rows are of one query. */
static void add_causal(const hal_program *program, const hal_step *step, const hal_space *space, const hal_walk *walk,
                       uint64_t heads, hal_traffic *traffic)
{
    const uint32_t i = dim_named(space, 'i');
    const uint64_t rows = space->dim[i].extent, queries = rows / heads, keys = space->dim[dim_named(space, 's')].extent,
                   tile = hal_space_tile(space, walk->tile, i);
    const bool bottom = step->causal == HAL_CAUSAL_BOTTOM_RIGHT;
    for (uint64_t first = 0; first < rows; first += tile) {
        const uint64_t last = hal_fewer(first + tile, rows), end = hal_groups(last, heads),
                       block = walk->block ? walk->block : 1;
        const uint64_t seen = !bottom ? end : end + keys > queries ? end + keys - queries : 0;
        hal_space part = *space;
        part.dim[i].extent = last - first;
        add_statements(program, step, &part, walk, hal_groups(seen, block) * block, traffic);
    }
}

/* Makes i count the rows of a head of keys: its queries times the heads that share it, which is returned. What has a
 * row for each of these has one where there is a single query, too. */
static uint64_t join_rows(hal_space *space)
{
    const uint32_t i = dim_named(space, 'i'), r = dim_named(space, 'r');
    const uint64_t heads = space->dim[r].extent;
    for (uint32_t s = 0; s < space->statements; s++) {
        for (uint32_t a = 0; a < space->statement[s].accesses; a++) {
            hal_space_access *access = &space->statement[s].access[a];
            if (access->role == HAL_ROLE_MASK || hal_space_indexed(access, r)) {
                access->index[0].times[i] = 1;
            }
        }
    }
    space->dim[i].extent *= heads;
    space->dim[r].extent = 1;
    return heads;
}

hal_traffic hal_space_traffic(const hal_program *program, const hal_step *step, uint64_t rows, const hal_walk *walk)
{
    hal_space space;
    hal_traffic traffic = {0, 0};
    hal_space_of(program, step, rows, &space);
    const bool attention = step->op == HAL_STEP_ATTENTION;
    const uint64_t heads = attention && walk->joined ? join_rows(&space) : 1;
    if (attention && step->causal != HAL_CAUSAL_NONE) {
        add_causal(program, step, &space, walk, heads, &traffic);
    } else {
        add_statements(program, step, &space, walk, UINT64_MAX, &traffic);
    }
    return traffic;
}

uint64_t hal_space_tiled_bytes(const hal_program *program, const hal_step *step, uint64_t rows,
                               const uint64_t tile[HAL_SPACE_DIMS])
{
    hal_walk walk = {.apart = false};
    memcpy(walk.tile, tile, sizeof walk.tile);
    memcpy(walk.lane, tile, sizeof walk.lane);
    const hal_traffic traffic = hal_space_traffic(program, step, rows, &walk);
    return traffic.read + traffic.written;
}
