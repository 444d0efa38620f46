/* test_tma.c - boxes of tensors: every rank, every swizzle, what lies outside, multicast, under every timing.
 * Expectations: PTX ISA, "Tensors" (Tiled Mode, Out of Boundary Access, Traversal Stride, Swizzling Modes) and
 * "cp.async.bulk.tensor"; CUDA Driver API, cuTensorMapEncodeTiled. */
#include "../exec/tensor_map.h"
#include "sim_test.h"
#include <stdio.h>
#include <string.h>

enum { THREADS = 32, TIMINGS = 6, TENSOR_BYTES = 32768, BOX = 32768, BOX_BYTES = 16384, MAP = 61440, NUMBERS = 61696 };
enum { U8 = 0, U16 = 1, U32 = 2, F16 = 6, F32 = 7, F64 = 8, BF16 = 9, F32_FTZ = 10 }; /* CUtensorMapDataType */
enum { FREE, SPAN_32, SPAN_64, SPAN_128 };                                            /* CUtensorMapSwizzle */

/* In global memory: the tensor at 0, the box at BOX, the map at MAP, at NUMBERS five coordinates and the box's bytes.
 * %c0 to %c4, %bytes: those; %map; %box: of this thread, in 16-byte steps; %buffer: 16 KiB of shared memory. */
#define BEGIN                                                                                                          \
    ".reg .pred %first, %done;\n.reg .b32 %buffer, %barrier, %bytes, %at, %c<5>, %t, %r<9>;\n"                         \
    ".reg .b64 %map, %box, %rd<9>;\n.reg .b16 %mask;\n"                                                                \
    ".shared .align 1024 .b8 buffer[16384];\n.shared .align 8 .b64 barrier;\n"                                         \
    "mov.u32 %buffer, buffer;\nmov.u32 %barrier, barrier;\nmov.u32 %t, %tid.x;\n"                                      \
    "add.u64 %map, g, 61440;\n"                                                                                        \
    "ld.global.u32 %c0, [g+61696];\nld.global.u32 %c1, [g+61700];\nld.global.u32 %c2, [g+61704];\n"                    \
    "ld.global.u32 %c3, [g+61708];\nld.global.u32 %c4, [g+61712];\nld.global.u32 %bytes, [g+61716];\n"                 \
    "shl.b32 %at, %t, 4;\ncvt.u64.u32 %box, %at;\nadd.u64 %box, %box, g;\nadd.u64 %box, %box, 32768;\n"                \
    "setp.eq.u32 %first, %t, 0;\n@%first mbarrier.init.shared::cta.b64 [%barrier], 1;\n"                               \
    "fence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
#define EXPECT "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%barrier], %bytes;\n"
#define WAIT   "again:\nmbarrier.try_wait.parity.shared::cta.b64 %done, [%barrier], 0;\n@!%done bra again;\n"
#define EACH_CHUNK(work)                                                                                               \
    "mov.u32 %r8, %at;\nmov.u64 %rd8, %box;\nmore:\nsetp.ge.u32 %done, %r8, %bytes;\n@%done bra over;\n"               \
    "add.u32 %r7, %buffer, %r8;\n" work "add.u32 %r8, %r8, 512;\nadd.u64 %rd8, %rd8, 512;\nbra more;\nover:\n"
#define SHOW                                                                                                           \
    EACH_CHUNK("ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r7];\nst.global.v4.u32 [%rd8], {%r1, %r2, %r3, %r4};\n")
#define FILL                                                                                                           \
    EACH_CHUNK("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd8];\nst.shared.v4.u32 [%r7], {%r1, %r2, %r3, %r4};\n")
#define LOAD_OF(rank, coordinates)                                                                                     \
    BEGIN EXPECT "@%first cp.async.bulk.tensor." rank "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "    \
                 "[%buffer], [%map, {" coordinates "}], [%barrier];\n" WAIT SHOW
#define STORE_OF(rank, coordinates)                                                                                    \
    BEGIN FILL "fence.proxy.async.shared::cta;\nbar.sync 0;\n"                                                         \
               "@%first cp.async.bulk.tensor." rank "d.global.shared::cta.tile.bulk_group [%map, {" coordinates        \
               "}], [%buffer];\n"                                                                                      \
               "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"

static const char *const loads[] = {LOAD_OF("1", "%c0"), LOAD_OF("2", "%c0, %c1"), LOAD_OF("3", "%c0, %c1, %c2"),
                                    LOAD_OF("4", "%c0, %c1, %c2, %c3"), LOAD_OF("5", "%c0, %c1, %c2, %c3, %c4")};
static const char *const stores[] = {STORE_OF("1", "%c0"), STORE_OF("2", "%c0, %c1"), STORE_OF("3", "%c0, %c1, %c2"),
                                     STORE_OF("4", "%c0, %c1, %c2, %c3"), STORE_OF("5", "%c0, %c1, %c2, %c3, %c4")};

/* A packed tensor. */
static sim_tensor_map tensor(uint8_t type, uint8_t bytes, uint8_t rank, const uint64_t *size, const uint16_t *box,
                             uint8_t swizzle)
{
    sim_tensor_map map = {.magic = SIM_TENSOR_MAP_MAGIC, .data_type = type, .rank = rank, .swizzle = swizzle};
    map.address = (uint64_t)(uintptr_t)sim_tester.memory;
    map.element_bytes = bytes;
    uint64_t stride = bytes;
    for (uint32_t d = 0; d < rank; d++) {
        map.size[d] = size[d];
        map.box[d] = box[d];
        map.element_stride[d] = 1;
        stride *= size[d];
        if (d + 1u < rank) {
            map.stride[d] = stride;
        }
    }
    return map;
}

static uint32_t elements_of(const sim_tensor_map *map)
{
    uint32_t count = 1;
    for (uint32_t d = 0; d < map->rank; d++) {
        count *= (map->box[d] + map->element_stride[d] - 1u) / map->element_stride[d];
    }
    return count;
}

/* Puts everything into global memory; the tensor's bytes count up, so that each 2-byte element of it is its own. */
static void prepare(uint32_t time, const sim_tensor_map *map, const int32_t *at)
{
    sim_test_target("sm_90a", "8.6");
    sim_tester.options.timing = time == 0 ? SIM_EAGER : time == 1 ? SIM_LATE : SIM_SEEDED;
    sim_tester.options.seed = time;
    sim_tester.cluster[0] = sim_tester.cluster[1] = sim_tester.cluster[2] = 1;
    for (uint32_t i = 0; i < TENSOR_BYTES / 2; i++) {
        uint16_t value = (uint16_t)(i * 3 + 1);
        memcpy(sim_tester.memory + (size_t)2 * i, &value, sizeof value);
    }
    for (uint32_t i = 0; i < BOX_BYTES; i++) {
        sim_tester.memory[BOX + i] = (uint8_t)(i * 7 + i / 256 + 5);
    }
    memcpy(sim_tester.memory + MAP, map, sizeof *map);
    int32_t numbers[6] = {0};
    memcpy(numbers, at, map->rank * sizeof *at);
    numbers[5] = (int32_t)(elements_of(map) * map->element_bytes);
    memcpy(sim_tester.memory + NUMBERS, numbers, sizeof numbers);
}

/* Where element i of the box, in order, lies in the tensor: its byte, or -1 outside. */
static int64_t place_of(const sim_tensor_map *map, const int32_t *at, uint32_t i)
{
    int64_t byte = 0, stride = map->element_bytes;
    bool inside = true;
    for (uint32_t d = 0; d < map->rank; d++) {
        uint32_t count = (map->box[d] + map->element_stride[d] - 1u) / map->element_stride[d];
        int64_t x = at[d] + (int64_t)(i % count) * map->element_stride[d];
        i /= count;
        inside = inside && x >= 0 && x < (int64_t)map->size[d];
        byte += x * (d ? (int64_t)map->stride[d - 1] : stride);
    }
    return inside ? byte : -1;
}

static bool is_nan(uint8_t type, const uint8_t *bits, uint32_t bytes)
{
    uint64_t value = 0, sign = UINT64_C(1) << (8 * bytes - 1);
    uint64_t infinity = type == F16 ? 0x7c00 : type == BF16 ? 0x7f80 : type == F32 ? 0x7f800000 : 0x7ffULL << 52;
    memcpy(&value, bits, bytes);
    return (value & ~sign) > infinity;
}

static void check_box(const char *where, const sim_tensor_map *map, const int32_t *at, const uint8_t *box)
{
    for (uint32_t i = 0; i < elements_of(map); i++) {
        int64_t from = place_of(map, at, i);
        const uint8_t *got = box + (size_t)i * map->element_bytes;
        static const uint8_t zero[8];
        bool good = from < 0 && map->fill_nan
                        ? is_nan(map->data_type, got, map->element_bytes)
                        : memcmp(got, from < 0 ? zero : sim_tester.memory + from, map->element_bytes) == 0;
        if (!good) {
            sim_test_check(where, false, "element %u of the box (byte %lld of the tensor) is wrong", i,
                           (long long)from);
            return;
        }
    }
}

static void loads_box(const char *where, const sim_tensor_map *map, const int32_t *at)
{
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t, map, at);
        bool good = sim_test_run(loads[map->rank - 1], 1, THREADS);
        sim_test_check(where, good, "timing %u: %s", t, sim_tester.fault.text);
        if (good) {
            check_box(where, map, at, sim_tester.memory + BOX);
        }
    }
}

/* All elements of the box inside the tensor get there, and nothing else changes. */
static void stores_box(const char *where, const sim_tensor_map *map, const int32_t *at)
{
    static uint8_t want[TENSOR_BYTES];
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t, map, at);
        memcpy(want, sim_tester.memory, TENSOR_BYTES);
        for (uint32_t i = 0; i < elements_of(map); i++) {
            int64_t to = place_of(map, at, i);
            if (to >= 0) {
                memcpy(want + to, sim_tester.memory + BOX + (size_t)i * map->element_bytes, map->element_bytes);
            }
        }
        bool good = sim_test_run(stores[map->rank - 1], 1, THREADS);
        sim_test_check(where, good, "timing %u: %s", t, sim_tester.fault.text);
        sim_test_check(where, !good || memcmp(want, sim_tester.memory, TENSOR_BYTES) == 0,
                       "timing %u: wrong elements in the tensor", t);
    }
}

static void ranks(void)
{
    static const uint64_t size[5] = {24, 7, 5, 4, 3};
    static const uint16_t box[5] = {8, 3, 2, 3, 2};
    static const int32_t places[][5] = {{0, 0, 0, 0, 0},   {8, 2, 1, 1, 1},  {-3, -1, -1, -2, -1}, {20, 5, 4, 3, 2},
                                        {16, 6, 0, 2, -1}, {24, 0, 0, 0, 0}, {0, 0, 0, 0, 3},      {-8, 7, -2, 4, -2}};
    for (uint32_t rank = 1; rank <= 5; rank++) {
        sim_tensor_map map = tensor(U16, 2, (uint8_t)rank, size, box, FREE);
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            loads_box(SIM_HERE, &map, places[p]);
            stores_box(SIM_HERE, &map, places[p]);
        }
    }
}

static void element_sizes(void)
{
    static const struct {
        uint8_t type, bytes;
    } types[] = {{U8, 1}, {U16, 2}, {U32, 4}, {F16, 2}, {F32, 4}, {F64, 8}, {BF16, 2}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        uint32_t width = 32u / types[i].bytes;
        sim_tensor_map map = tensor(types[i].type, types[i].bytes, 2, (const uint64_t[]){(uint64_t)width * 2, 9},
                                    (const uint16_t[]){(uint16_t)width, 8}, FREE);
        for (uint32_t nan = 0; nan <= (types[i].type >= F16 ? 1u : 0u); nan++) {
            map.fill_nan = (uint8_t)nan;
            loads_box(SIM_HERE, &map, (const int32_t[]){(int32_t)width + 1, 4});
            loads_box(SIM_HERE, &map, (const int32_t[]){-1, -7});
        }
        stores_box(SIM_HERE, &map, (const int32_t[]){(int32_t)width + 1, 4});
    }
}

static void steps(void)
{
    sim_tensor_map map = tensor(U16, 2, 3, (const uint64_t[]){16, 20, 9}, (const uint16_t[]){16, 7, 5}, FREE);
    map.element_stride[1] = 2;
    map.element_stride[2] = 3;
    loads_box(SIM_HERE, &map, (const int32_t[]){0, 3, 1});
    loads_box(SIM_HERE, &map, (const int32_t[]){4, -2, 7});
}

/* PTX ISA "Swizzling Modes": which 16-byte chunk of a line of 128 bytes lies at each place, and after how many lines
 * that repeats. */
static const uint8_t span_32[2][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}};
static const uint8_t span_64[4][8] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5}, {3, 2, 1, 0, 7, 6, 5, 4}};
static const uint8_t span_128[8][8] = {{0, 1, 2, 3, 4, 5, 6, 7}, {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5},
                                       {3, 2, 1, 0, 7, 6, 5, 4}, {4, 5, 6, 7, 0, 1, 2, 3}, {5, 4, 7, 6, 1, 0, 3, 2},
                                       {6, 7, 4, 5, 2, 3, 0, 1}, {7, 6, 5, 4, 3, 2, 1, 0}};
static const struct {
    const uint8_t (*line)[8];
    uint32_t lines;
} tables[] = {{NULL, 0}, {span_32, 2}, {span_64, 4}, {span_128, 8}};

/* The chunk that lies at `place` of a box whose shared address is a multiple of 1024. */
static uint32_t chunk_at(uint32_t swizzle, uint32_t place)
{
    return place / 8 * 8 + tables[swizzle].line[place / 8 % tables[swizzle].lines][place % 8];
}

/* Rows as wide as the span, 16 lines of 128 bytes. */
static sim_tensor_map swizzled_tensor(uint32_t swizzle)
{
    uint16_t width = (uint16_t)(8u << swizzle), rows = (uint16_t)(1024u / width);
    return tensor(BF16, 2, 2, (const uint64_t[]){width, rows}, (const uint16_t[]){width, rows}, (uint8_t)swizzle);
}

/* One element of the tensor is set, the others are zero: it must be found at its place. */
static void one_hot_swizzles(void)
{
    enum { CHUNKS = 128 };
    for (uint32_t swizzle = SPAN_32; swizzle <= SPAN_128; swizzle++) {
        sim_tensor_map map = swizzled_tensor(swizzle);
        for (uint32_t place = 0; place < CHUNKS; place++) {
            uint32_t hot = chunk_at(swizzle, place) * 16 + place % 8 * 2;
            prepare(0, &map, (const int32_t[]){0, 0});
            memset(sim_tester.memory, 0, TENSOR_BYTES);
            sim_tester.memory[hot] = 0x5a;
            bool good = sim_test_run(loads[1], 1, THREADS);
            SIM_CHECK(good, "%s", sim_tester.fault.text);
            for (uint32_t i = 0; good && i < CHUNKS * 16; i++) {
                good = sim_tester.memory[BOX + i] == (i == place * 16 + place % 8 * 2 ? 0x5a : 0);
            }
            SIM_CHECK(good, "swizzle %u: byte %u of the tensor is not in chunk %u", swizzle, hot, place);
        }
    }
}

static void whole_swizzles(void)
{
    for (uint32_t swizzle = SPAN_32; swizzle <= SPAN_128; swizzle++) {
        sim_tensor_map map = swizzled_tensor(swizzle);
        for (uint32_t t = 0; t < TIMINGS; t++) {
            prepare(t, &map, (const int32_t[]){0, 0});
            bool good = sim_test_run(loads[1], 1, THREADS);
            SIM_CHECK(good, "%s", sim_tester.fault.text);
            for (uint32_t place = 0; good && place < 128; place++) {
                good = memcmp(sim_tester.memory + BOX + (size_t)place * 16,
                              sim_tester.memory + (size_t)chunk_at(swizzle, place) * 16, 16) == 0;
            }
            SIM_CHECK(good, "swizzle %u, timing %u: load", swizzle, t);
            prepare(t, &map, (const int32_t[]){0, 0});
            good = sim_test_run(stores[1], 1, THREADS);
            SIM_CHECK(good, "%s", sim_tester.fault.text);
            for (uint32_t place = 0; good && place < 128; place++) {
                good = memcmp(sim_tester.memory + BOX + (size_t)place * 16,
                              sim_tester.memory + (size_t)chunk_at(swizzle, place) * 16, 16) == 0;
            }
            SIM_CHECK(good, "swizzle %u, timing %u: store", swizzle, t);
        }
    }
}

/* The pattern belongs to the address: a box that begins on line 1 or 3 of it goes on from there. */
static void swizzles_follow_the_address(void)
{
    static const char body[] = BEGIN
        "add.u32 %r6, %buffer, %c2;\n" EXPECT
        "@%first cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r6], [%map, {%c0, %c1}], "
        "[%barrier];\n" WAIT "mov.u32 %buffer, %r6;\n" SHOW;
    for (uint32_t line = 0; line < 8; line++) {
        sim_tensor_map map = swizzled_tensor(SPAN_128);
        prepare(0, &map, (const int32_t[]){0, 0});
        uint32_t offset = line * 128;
        memcpy(sim_tester.memory + NUMBERS + 8, &offset, sizeof offset);
        bool good = sim_test_run(body, 1, THREADS);
        SIM_CHECK(good, "%s", sim_tester.fault.text);
        for (uint32_t place = 0; good && place < 128; place++) {
            uint32_t chunk = chunk_at(SPAN_128, place + 8 * line) - 8 * line;
            good =
                memcmp(sim_tester.memory + BOX + (size_t)place * 16, sim_tester.memory + (size_t)chunk * 16, 16) == 0;
        }
        SIM_CHECK(good, "line %u", line);
    }
}

#define MEET "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"

/* Two blocks, each loads one half of the box for both. */
static void multicast(void)
{
    static const char body[] = BEGIN MEET EXPECT
        "mov.u32 %r5, %ctaid.x;\nshl.b32 %c1, %r5, 3;\nshl.b32 %r6, %r5, 10;\nadd.u32 %r6, %buffer, %r6;\nmov.b16 "
        "%mask, 3;\n"
        "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r6], [%map, {%c0, %c1}], [%barrier], %mask;\n" WAIT
        "mul.wide.u32 %rd1, %r5, 2048;\nadd.u64 %box, %box, %rd1;\n" SHOW MEET;
    sim_tensor_map map = tensor(BF16, 2, 2, (const uint64_t[]){64, 16}, (const uint16_t[]){64, 8}, FREE);
    for (uint32_t t = 0; t < TIMINGS; t++) {
        prepare(t, &map, (const int32_t[]){0, 0});
        int32_t bytes = 2048;
        memcpy(sim_tester.memory + NUMBERS + 20, &bytes, sizeof bytes);
        sim_tester.cluster[0] = 2;
        bool good = sim_test_run(body, 2, THREADS);
        SIM_CHECK(good, "timing %u: %s", t, sim_tester.fault.text);
        good = good && memcmp(sim_tester.memory + BOX, sim_tester.memory, 2048) == 0 &&
               memcmp(sim_tester.memory + BOX + 2048, sim_tester.memory, 2048) == 0;
        SIM_CHECK(good, "timing %u: wrong boxes", t);
    }
}

/* Elements of the box are added to the tensor's; U32 and BF16 by the map's type. */
static void reductions(void)
{
    static const char body[] =
        BEGIN FILL "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
                   "@%first cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group "
                   "[%map, {%c0, %c1}], [%buffer];\n"
                   "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
    sim_tensor_map map = tensor(U32, 4, 2, (const uint64_t[]){4, 4}, (const uint16_t[]){4, 4}, FREE);
    prepare(1, &map, (const int32_t[]){0, 1});
    uint32_t old[16], add[16], now[16];
    memcpy(old, sim_tester.memory, sizeof old);
    memcpy(add, sim_tester.memory + BOX, sizeof add);
    bool good = sim_test_run(body, 1, THREADS);
    SIM_CHECK(good, "%s", sim_tester.fault.text);
    memcpy(now, sim_tester.memory, sizeof now);
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t want = i < 4 ? old[i] : old[i] + add[i - 4];
        SIM_CHECK(now[i] == want, "element %u: %#x, not %#x", i, now[i], want);
    }
    map = tensor(U16, 2, 2, (const uint64_t[]){8, 4}, (const uint16_t[]){8, 4}, FREE);
    prepare(1, &map, (const int32_t[]){0, 0});
    SIM_FAULTS(body, THREADS, SIM_FAULT_INSTRUCTION, "reduction");
}

static void misuse(void)
{
    sim_tensor_map good = tensor(BF16, 2, 2, (const uint64_t[]){64, 16}, (const uint16_t[]){64, 8}, SPAN_128), bad;
    static const int32_t origin[5];
#define BAD(change, body, kind, text)                                                                                  \
    bad = good;                                                                                                        \
    change;                                                                                                            \
    prepare(1, &bad, origin);                                                                                          \
    SIM_FAULTS(body, THREADS, kind, text)
    BAD(bad.magic = 1, loads[1], SIM_FAULT_INSTRUCTION, "not a tensor map");
    BAD(, loads[2], SIM_FAULT_INSTRUCTION, "dimensions");
    BAD(bad.swizzle = 2, loads[1], SIM_FAULT_INSTRUCTION, "as wide");
    BAD(bad.box[0] = 32, loads[1], SIM_FAULT_INSTRUCTION, "as wide");
    BAD(bad.swizzle = 4, loads[1], SIM_FAULT_INSTRUCTION, "not supported");
    BAD(bad.interleave = 1, loads[1], SIM_FAULT_INSTRUCTION, "not supported");
    BAD(bad.data_type = F32_FTZ, loads[1], SIM_FAULT_INSTRUCTION, "not supported");
    BAD(bad.stride[0] = 8, loads[1], SIM_FAULT_INSTRUCTION, "damaged");
    /* A tensor that is larger than its memory. */
    bad = good;
    bad.size[1] = 1000000;
    prepare(1, &bad, (const int32_t[]){0, 600});
    SIM_FAULTS(loads[1], THREADS, SIM_FAULT_ADDRESS, "outside of global memory");
    prepare(1, &good, origin);
    SIM_FAULTS(BEGIN "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%buffer+64], [%map, {%c0, %c1}], [%barrier];\n",
               THREADS, SIM_FAULT_MISALIGNED, "multiple of 128");
    SIM_FAULTS(BEGIN "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                     "[%buffer+16256], [%map, {%c0, %c1}], [%barrier];\n",
               THREADS, SIM_FAULT_ADDRESS, "shared memory");
    SIM_FAULTS(BEGIN "add.u64 %map, %map, 32;\n@%first cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%map, {%c0, "
                     "%c1}];\n",
               THREADS, SIM_FAULT_MISALIGNED, "");
    /* The box counts whole on the barrier, whatever of it lies outside. */
    prepare(1, &good, (const int32_t[]){0, 12});
    int32_t bytes = 512;
    memcpy(sim_tester.memory + NUMBERS + 20, &bytes, sizeof bytes);
    SIM_FAULTS(loads[1], THREADS, SIM_FAULT_DEADLOCK, "");
    prepare(1, &good, origin);
    SIM_FAULTS(BEGIN FILL
               "bar.sync 0;\n@%first cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%c0, %c1}], "
               "[%buffer];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
               THREADS, SIM_FAULT_RACE, "");
    SIM_REFUSED(BEGIN "cp.async.bulk.tensor.2d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                      "[%buffer], [%map, {%c0, %c1}], [%barrier];\n",
                "im2col");
    SIM_REFUSED(BEGIN "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                      "[%buffer], [%map, {%c0, %c1}], [%barrier];\n",
                "3 coordinates");
    SIM_REFUSED(BEGIN "cp.async.bulk.tensor.6d.global.shared::cta.tile.bulk_group [%map, {%c0, %c1}], [%buffer];\n",
                "1d to 5d");
#undef BAD
}

int main(int argc, char **argv)
{
    static const sim_group groups[] = {{"ranks", ranks},
                                       {"element_sizes", element_sizes},
                                       {"steps", steps},
                                       {"one_hot_swizzles", one_hot_swizzles},
                                       {"whole_swizzles", whole_swizzles},
                                       {"swizzles_follow_the_address", swizzles_follow_the_address},
                                       {"multicast", multicast},
                                       {"reductions", reductions},
                                       {"misuse", misuse}};
    return SIM_MAIN("tma", groups);
}
