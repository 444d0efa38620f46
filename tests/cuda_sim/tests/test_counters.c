/* Counters of patterns whose costs are known: sectors of 32 bytes of global memory, and rounds over the 32 banks of
 * shared memory (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; CUDA C++ Programming Guide,
 * "Shared Memory" of compute capability 5.x and up). */
#include "sim_test.h"
#include <stdio.h>

typedef unsigned long long count;

/* One warp's `access` with %p = g + %n * stride + start. */
static void global(const char *where, const char *access, uint32_t stride, uint32_t start, count bytes, count sectors)
{
    char body[512];
    snprintf(body, sizeof body,
             ".reg .b64 %%p; .reg .b32 x<4>; .reg .b64 y<2>; .reg .b16 h; .reg .pred %%q;\n"
             "mad.wide.u32 %%p, %%n, %u, g; add.u64 %%p, %%p, %u; setp.lt.u32 %%q, %%n, 4;\n%s\n",
             stride, start, access);
    bool good = sim_test_run(body, 1, 32);
    const sim_counters *c = &sim_tester.counters;
    count all_bytes = c->global_read_bytes + c->global_write_bytes;
    count all_sectors = c->global_read_sectors + c->global_write_sectors;
    sim_test_check(where, good && all_bytes == bytes && all_sectors == sectors, "%s%s, %u+%u: %llu bytes, %llu sectors",
                   sim_tester.fault.text, access, stride, start, all_bytes, all_sectors);
}
#define GLOBAL(...) global(SIM_HERE, __VA_ARGS__)

static void sectors(void)
{
#define LOAD4  "ld.global.b32 x0, [%p];"
#define LOAD8  "ld.global.b64 y0, [%p];"
#define LOAD16 "ld.global.v4.b32 {x0, x1, x2, x3}, [%p];"
    GLOBAL(LOAD4, 4, 0, 128, 4);
    GLOBAL(LOAD4, 4, 16, 128, 5); /* across sectors */
    GLOBAL(LOAD4, 4, 32, 128, 4);
    GLOBAL(LOAD4, 8, 0, 128, 8);
    GLOBAL(LOAD4, 128, 0, 128, 32);
    GLOBAL(LOAD4, 32, 28, 128, 32);
    GLOBAL(LOAD4, 0, 64, 128, 1); /* all lanes the same */
    GLOBAL(LOAD8, 8, 0, 256, 8);
    GLOBAL(LOAD8, 8, 24, 256, 9);
    GLOBAL(LOAD8, 16, 0, 256, 16);
    GLOBAL(LOAD16, 16, 0, 512, 16);
    GLOBAL(LOAD16, 16, 16, 512, 17);
    GLOBAL(LOAD16, 64, 0, 512, 32);
    GLOBAL("ld.global.b16 h, [%p];", 2, 0, 64, 2);
    GLOBAL("ld.global.b16 h, [%p];", 2, 2, 64, 3);
    GLOBAL("@%q " LOAD4, 4, 24, 16, 2); /* four lanes */
    GLOBAL("@%q " LOAD4, 64, 0, 16, 4);
    GLOBAL("st.global.b32 [%p], %n;", 4, 0, 128, 4);
    GLOBAL("st.global.b32 [%p], %n;", 256, 0, 128, 32);
    GLOBAL("red.global.add.u32 [%p], 1;", 4, 0, 256, 8); /* read and written */
    GLOBAL(LOAD4 LOAD4, 4, 0, 256, 8);                   /* no cache */
}

static void directions(void)
{
    SIM_CHECK(sim_test_run(".reg .b64 p; .reg .b32 x; mad.wide.u32 p, %n, 4, g; ld.global.b32 x, [p]; "
                           "st.global.b32 [p+1024], x; st.global.b32 [p+2048], x;",
                           3, 64),
              "%s", sim_tester.fault.text);
    const sim_counters *c = &sim_tester.counters;
    SIM_CHECK(c->global_read_bytes == 768 && c->global_write_bytes == 1536 && c->global_read_sectors == 24 &&
                  c->global_write_sectors == 48 && c->shared_read_bytes == 0 && c->atomics == 0,
              "%llu %llu %llu %llu", (count)c->global_read_bytes, (count)c->global_write_bytes,
              (count)c->global_read_sectors, (count)c->global_write_sectors);
    /* Descending and mixed orders of lanes count like ascending ones. */
    SIM_CHECK(
        sim_test_run(".reg .b64 p; .reg .b32 x; xor.b32 x, %n, 31; mad.wide.u32 p, x, 4, g; ld.global.b32 x, [p]; "
                     "xor.b32 x, %n, 8; mad.wide.u32 p, x, 4, g; ld.global.b32 x, [p];",
                     1, 32),
        "%s", sim_tester.fault.text);
    SIM_CHECK(c->global_read_sectors == 8, "%llu", (count)c->global_read_sectors);
}

/* One warp's store to, then load from shared memory at %p = s + %n * stride; conflicts of both together. */
static void shared(const char *where, const char *type, uint32_t stride, count conflicts)
{
    char body[512];
    snprintf(body, sizeof body,
             ".shared .align 16 .b8 s[8192]; .reg .b32 %%p, x<4>; .reg .b64 y<2>; .reg .b16 h; mov.u32 %%p, s;\n"
             "mad.lo.u32 %%p, %%n, %u, %%p; mov.b32 x0, 1; mov.b32 x1, 1; mov.b32 x2, 1; mov.b32 x3, 1;"
             "mov.b64 y0, 1; mov.b16 h, 1;\nst.shared.%s; bar.warp.sync -1; ld.shared.%s;\n",
             stride,
             type[0] == '4'   ? "b32 [%p], x0"
             : type[0] == '8' ? "b64 [%p], y0"
             : type[0] == '2' ? "b16 [%p], h"
                              : "v4.b32 [%p], {x0, x1, x2, x3}",
             type[0] == '4'   ? "b32 x0, [%p]"
             : type[0] == '8' ? "b64 y0, [%p]"
             : type[0] == '2' ? "b16 h, [%p]"
                              : "v4.b32 {x0, x1, x2, x3}, [%p]");
    bool good = sim_test_run(body, 1, 32);
    sim_test_check(where, good && sim_tester.counters.shared_conflicts == 2 * conflicts, "%s stride %u: %llu%s", type,
                   stride, (count)sim_tester.counters.shared_conflicts, sim_tester.fault.text);
}
#define SHARED(...) shared(SIM_HERE, __VA_ARGS__)

static void banks(void)
{
    SHARED("4", 4, 0);
    SHARED("4", 8, 1); /* two lanes a bank */
    SHARED("4", 12, 0);
    SHARED("4", 16, 3);
    SHARED("4", 128, 31); /* one bank */
    SHARED("4", 132, 0);
    SHARED("4", 0, 0); /* one word */
    SHARED("2", 2, 0);
    SHARED("2", 4, 0);
    SHARED("2", 8, 1);
    SHARED("2", 64, 15);
    SHARED("8", 8, 0);
    SHARED("8", 16, 2);   /* two halves of 2 rounds */
    SHARED("8", 128, 30); /* two halves of 16 */
    SHARED("8", 136, 0);
    SHARED("16", 16, 0);
    SHARED("16", 32, 4); /* four quarters of 2 */
    SHARED("16", 128, 28);
    SHARED("16", 144, 0);
}

static void bytes(void)
{
    SIM_CHECK(
        sim_test_run(".shared .b32 s[64]; .reg .b32 p, x; mov.u32 p, s; mov.u32 x, %tid.x; mad.lo.u32 p, x, 4, p; "
                     "st.shared.b32 [p], %n; bar.sync 0; ld.shared.b32 x, [p]; atom.shared.add.u32 x, [p], 1;",
                     2, 64),
        "%s", sim_tester.fault.text);
    const sim_counters *c = &sim_tester.counters;
    SIM_CHECK(c->shared_write_bytes == 1024 && c->shared_read_bytes == 1024 && c->atomics == 128 && c->barriers > 0,
              "%llu %llu %llu %llu", (count)c->shared_write_bytes, (count)c->shared_read_bytes, (count)c->atomics,
              (count)c->barriers);
    /* Lanes that are out keep their places: lanes 0 and 16 of an 8-byte access are in different halves. */
    SIM_CHECK(sim_test_run(".shared .align 8 .b64 s[64]; .reg .b32 p, x; .reg .pred q; mov.u32 p, s; "
                           "and.b32 x, %n, 15; setp.eq.u32 q, x, 0; mad.lo.u32 p, %n, 8, p; @q st.shared.b64 [p], g;",
                           1, 32),
              "%s", sim_tester.fault.text);
    SIM_CHECK(c->shared_conflicts == 0, "%llu", (count)c->shared_conflicts);
    SIM_CHECK(sim_test_run(".shared .align 8 .b64 s[64]; .reg .b32 p, x; .reg .pred q; mov.u32 p, s; "
                           "and.b32 x, %n, 15; setp.eq.u32 q, x, 0; mad.lo.u32 p, %n, 8, p; @q st.shared.b32 [p], x;",
                           1, 32),
              "%s", sim_tester.fault.text);
    SIM_CHECK(c->shared_conflicts == 1, "%llu", (count)c->shared_conflicts);
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {
        {"sectors", sectors}, {"directions", directions}, {"banks", banks}, {"bytes", bytes}};
    return SIM_MAIN("counters", groups);
}
