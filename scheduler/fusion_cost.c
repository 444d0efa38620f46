/* fusion_cost.c - what a step moves, and the time that is predicted for it. */
#include "fusion_cost.h"

#include "gemm.h"
#include "space.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* SwiGLU as a core's task, against two products without it: in tiles half as wide B comes in shorter lines, and nothing
 * else is computed while a row goes through the activation. Measured with PoCL, two cores, 1 to 256 rows, FP32 and
 * BF16: 1.02 to 1.3, the more the smaller the matrices. Nor are the launches of the products and of SwiGLU saved, which
 * a CPU's driver takes up while the kernel before runs: graphs of 16 rows took 0.97 to 1.08 of the time of those apart.
 */
static const double narrow_work = 1.25;
enum { NARROW_LAUNCHES = 3 };

/* A GEMM in two phases stores FP32 sums and reads them again, and A for each of two sums; what the second phase moves
 * is not hidden behind the arithmetic of the first. */
static hal_step_cost cost_of(const hal_program *program, const hal_step *step, const hal_fusion_options *o)
{
    const bool matrices = step->op == HAL_STEP_GEMM || step->op == HAL_STEP_ATTENTION;
    const hal_tensor_info *x = &program->tensors[step->tensors[HAL_ROLE_X]];
    const hal_tensor_info *y = &program->tensors[step->tensors[HAL_ROLE_Y]];
    const hal_dtype dtype = matrices ? x->dtype : HAL_F32;
    gemm_phases phases;
    hal_space space;
    hal_step_phases(o->info, program, step, o->rows, o->mode, &phases);
    hal_space_of(program, step, o->rows, &space);
    const double flops = hal_space_flops(&space), sums = (double)phases.bytes;
    const uint64_t again = phases.sums > 1 ? hal_tensor_bytes(x, o->rows) : 0;
    const uint64_t bytes = hal_space_step_bytes(&space, program, step, o->rows) + again;
    if (phases.bytes == 0) {
        const double work = phases.narrow ? narrow_work : 1;
        const uint32_t launches = phases.narrow ? NARROW_LAUNCHES : 1;
        return (hal_step_cost){bytes,
                               hal_model_kernels_us(o->machine, dtype, work * flops, work * (double)bytes, launches)};
    }
    const double result = (double)hal_tensor_bytes(y, o->rows);
    return (hal_step_cost){
        bytes + 2 * phases.bytes,
        hal_model_kernels_us(o->machine, dtype, flops, (double)bytes - result + sums, phases.kernels) +
            hal_model_kernels_us(o->machine, HAL_F32, 0, sums + result, 1)};
}

double hal_step_predict_us(const hal_program *program, const hal_step *step, const hal_fusion_options *options)
{
    return cost_of(program, step, options).us;
}

/* All that a cost depends on but for the options. */
typedef struct work {
    hal_step step; /* in place of a tensor: the first role that has it, and one */
    struct {
        hal_dtype dtype;
        uint32_t element_size;
        hal_dims dims;
    } shapes[HAL_ROLES]; /* of its tensors, packed */
} work;

static XXH128_hash_t digest(const hal_program *program, const hal_step *step)
{
    work w;
    uint32_t count = 0;
    w.step = *step;
    w.step.fused = 0;
    for (uint32_t role = 0; role < HAL_ROLES; role++) {
        const uint32_t id = step->tensors[role];
        uint32_t first = 0;
        while (id && step->tensors[first] != id) {
            first++;
        }
        w.step.tensors[role] = id ? first + 1 : 0;
        if (id && first == role) {
            const hal_tensor_info *tensor = &program->tensors[id];
            memset(&w.shapes[count], 0, sizeof w.shapes[0]);
            w.shapes[count].dtype = tensor->dtype;
            w.shapes[count].element_size = tensor->element_size;
            w.shapes[count++].dims = tensor->dims;
        }
    }
    return XXH3_128bits(&w, offsetof(work, shapes) + count * sizeof w.shapes[0]);
}

hal_step_cost hal_step_costs_of(hal_step_costs *costs, const hal_step *step)
{
    const XXH128_hash_t hash = digest(costs->program, step);
    struct hal_known_cost *known = &costs->known[hash.low64 % HAL_KNOWN_COSTS];
    if (known->digest[0] != hash.low64 || known->digest[1] != hash.high64) {
        *known = (struct hal_known_cost){{hash.low64, hash.high64}, cost_of(costs->program, step, costs->options)};
    }
    return known->cost;
}
