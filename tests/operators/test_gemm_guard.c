/* test_gemm_guard.c - operands that end at, or begin after, a page that must not be touched: a read outside of an
 * operand is a crash, even where its value would not matter. Needs a device that takes the host's own memory. */
#include "gemm.h"
#include "test_gemm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Pages for `bytes`, with forbidden ones on both sides. */
typedef struct guarded {
    uint8_t *map;
    size_t map_size;
    uint8_t *inner; /* what may be touched */
    size_t inner_size;
    uint64_t at; /* where the operand starts */
} guarded;

static void guard(guarded *g, size_t bytes, bool at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    g->inner_size = (bytes + page - 1) / page * page;
    g->inner_size = g->inner_size ? g->inner_size : page;
    g->map_size = g->inner_size + 2 * page;
    g->map = mmap(NULL, g->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g->map != MAP_FAILED);
    g->inner = g->map + page;
    assert_int_equal(mprotect(g->map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g->inner + g->inner_size, page, PROT_NONE), 0);
    g->at = at_end ? g->inner_size - bytes : 0;
}

static size_t core_bytes(const matrix *x)
{
    return x->rows && x->columns
               ? ((x->batch - 1) * x->stride + (x->rows - 1) * x->ld + x->columns) * hal_dtype_size(x->dtype)
               : 0;
}

/* Run `g`, filled but not uploaded, with every operand in guarded memory. */
static void run_guarded(gemm_case *g, fixture *f, bool at_end, uint32_t without)
{
    guarded memory[MATRICES];
    hal_buffer *buffers[MATRICES] = {NULL};
    hal_gemm_desc desc = case_desc(g);
    hal_span *const spans[MATRICES] = {&desc.a, &desc.b, &desc.c, &desc.d, &desc.bias, &desc.residual};
    for (int i = 0; i < MATRICES; i++) {
        const matrix *x = &g->matrices[i];
        guard(&memory[i], core_bytes(x), at_end);
        memcpy(memory[i].inner + memory[i].at, x->data + x->offset * hal_dtype_size(x->dtype), core_bytes(x));
        OK(hal_buffer_import(f->device, memory[i].inner, memory[i].inner_size, NULL, NULL, "guarded", &buffers[i]));
        hal_span none = {0};
        *spans[i] = g->present[i] ? hal_at(buffers[i], memory[i].at) : none;
    }
    gemm_kernel used;
    OK(hal_gemm_without(f->list, &desc, without, &used));
    matrix *d = &g->matrices[AT_D];
    OK(hal_cmd_download(f->list, d->data + d->offset * hal_dtype_size(d->dtype),
                        hal_range(buffers[AT_D], memory[AT_D].at, core_bytes(d))));
    OK(hal_stream_wait(f->stream, TEST_TIMEOUT));
    for (int i = 0; i < MATRICES; i++) {
        hal_buffer_destroy(buffers[i]);
    }
    OK(hal_device_wait(f->device, TEST_TIMEOUT));
    for (int i = 0; i < MATRICES; i++) {
        munmap(memory[i].map, memory[i].map_size);
    }
}

void test_guard_pages(void **state)
{
    fixture *f = *state;
    if (!hal_device_get_info(f->device)->import_host_memory) {
        skip();
    }
    static const uint64_t rows[] = {1, 5, 20, 67};
    uint64_t seed = 31;
    for (hal_dtype dtype = HAL_F32; dtype <= HAL_BF16; dtype++) {
        for (uint32_t round = 0; round < 48; round++) {
            gemm_case g;
            case_random(&g, dtype, round & 1, round & 2, rows[round / 4 % 4], 1 + random_below(&seed, 70),
                        1 + random_below(&seed, 40), &seed);
            case_fill(&g, FILL_RANDOM, &seed);
            uint32_t without = round < 32 ? 0
                                          : GEMM_KERNEL_TASK | GEMM_KERNEL_MMA | GEMM_KERNEL_ASYNC |
                                                (round & 4 ? GEMM_KERNEL_SMALL : 0);
            run_guarded(&g, f, round / 16 != 1, without);
            case_check(&g, false);
            case_free(&g);
        }
    }
}
