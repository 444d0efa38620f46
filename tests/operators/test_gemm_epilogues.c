/* test_gemm_epilogues.c - C, bias, activation and residual of D's dtype, in D's of whole rows of 32 bytes: the form
 * that CPU devices of Vulkan have a kernel of its own for (gemm_task_flat), with everything that it tells apart. */
#include "flat.h"
#include "gemm.h"
#include "test_gemm.h"

typedef struct epilogue {
    bool c, bias, residual;
    hal_act act;
} epilogue;

/* Rows of `matrix` begin at multiples of so many elements, and nothing before the first. */
static void align_rows(matrix *x, uint64_t elements)
{
    x->ld = (x->columns + elements - 1) / elements * elements;
    x->stride = x->rows * x->ld;
    x->offset = 0;
}

static bool is_flat(fixture *f, const hal_gemm_desc *desc)
{
    gemm_problem problem;
    gemm_plan plan;
    gemm_kernel kernel;
    bool empty;
    OK(hal_gemm_resolve(desc, true, &problem, &empty));
    OK(hal_gemm_plan(hal_device_get_info(f->device), &problem, 0, &plan, &kernel));
    return plan.flat;
}

static void one_epilogue(fixture *f, const epilogue *e, hal_dtype dtype, hal_dtype dtype_d, uint32_t round, bool exact)
{
    uint64_t seed = 17u * round + dtype;
    gemm_case g;
    case_random(&g, dtype, round & 1, round & 2, 9 + random_below(&seed, 30), 33 + random_below(&seed, 80),
                1 + random_below(&seed, 60), &seed);
    g.batch = round % 3 == 0 ? 3 : 1;
    g.alpha = g.beta = exact ? 2.0f : 1.25f;
    g.act = e->act;
    g.present[AT_C] = e->c;
    g.present[AT_BIAS] = e->bias;
    g.present[AT_RESIDUAL] = e->residual;
    case_shape(&g);
    for (int i = AT_C; i < MATRICES; i++) {
        matrix *x = &g.matrices[i];
        x->dtype = dtype_d;
        if (i == AT_D)
            align_rows(x, 32 / hal_dtype_size(dtype_d));
        else if (round % 4 < 2) /* else wherever case_random has put it */
            align_rows(x, 4);
    }
    case_fill(&g, exact ? FILL_INTEGER : FILL_RANDOM, &seed);
    case_upload(&g, f);
    const hal_gemm_desc desc = case_desc(&g);
    assert_int_equal(is_flat(f, &desc), hal_flat_device(hal_device_get_info(f->device)));
    case_run(&g, f);
    case_check(&g, exact);
    case_free(&g);
}

void test_epilogues(void **state)
{
    static const epilogue epilogues[] = {{.act = HAL_ACT_NONE},
                                         {.residual = true},
                                         {.bias = true, .act = HAL_ACT_RELU},
                                         {.c = true, .bias = true, .residual = true, .act = HAL_ACT_RELU},
                                         {.bias = true, .residual = true, .act = HAL_ACT_GELU_TANH},
                                         {.c = true, .act = HAL_ACT_SILU}};
    uint32_t round = 0;
    for (size_t i = 0; i < sizeof epilogues / sizeof epilogues[0]; i++)
        for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++)
            for (int same = 0; same < 2; same++, round++)
                one_epilogue(*state, &epilogues[i], dtype, same ? dtype : HAL_F32, round,
                             epilogues[i].act <= HAL_ACT_RELU);
}
