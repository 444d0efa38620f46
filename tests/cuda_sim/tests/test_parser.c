/* The grammar, without the instructions: every mnemonic is taken by a binder that keeps nothing but what it was given.
 * (ptx_op_find() here stands before the one of exec/ops.c.) */
#include "../exec/sim.h"
#include "../ptx/bind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned failures;
static ptx_module *module;
static const ptx_function *entry;

static void check(const char *place, bool good, const char *what)
{
    if (!good) {
        failures++;
        fprintf(stderr, "line %s: %s\n", place, what);
    }
}
#define TEXT(x)       #x
#define LINE(x)       TEXT(x)
#define CHECK(wanted) check(LINE(__LINE__), wanted, #wanted)

static sim_next do_nothing(struct sim_warp *warp, const ptx_insn *insn, uint32_t mask)
{
    (void)warp;
    (void)insn;
    (void)mask;
    return SIM_NEXT;
}

/* "src.type d, s": the last suffix is the type; every operand that can be a source is bound as one. */
static bool bind_any(ptx_bind *b)
{
    ptx_insn *i = b->insn;
    i->run = do_nothing;
    if (strcmp(i->mnemonic, "mov") != 0 && strcmp(i->mnemonic, "src") != 0) {
        return true;
    }
    b->next = i->suffix_count ? i->suffix_count - 1 : 0;
    i->type = (uint8_t)bind_type(b);
    i->d = bind_dest_or_sink(b, &i->operand[0], (ptx_type)i->type);
    i->a = bind_source(b, 1, (ptx_type)i->type);
    return bind_ok(b);
}

static bool bind_load(ptx_bind *b)
{
    bool wide;
    b->insn->run = do_nothing;
    b->insn->b = bind_address(b, &b->insn->operand[1], &wide);
    b->insn->flag = wide;
    return bind_ok(b);
}

const ptx_op *ptx_op_find(const char *mnemonic)
{
    static const ptx_op any = {"any", bind_any}, load = {"ld", bind_load};
    return strcmp(mnemonic, "ld") == 0 ? &load : strcmp(mnemonic, "unknown") == 0 ? NULL : &any;
}

#define HEAD ".version 8.6\n.target sm_90a\n.address_size 64\n"

/* Loads HEAD and `text`; frees what was loaded before. */
static bool load(const char *head, const char *text)
{
    static char whole[1 << 16], error[512];
    ptx_module_free(module);
    int size = snprintf(whole, sizeof whole, "%s%s", head, text);
    char *exact = malloc((size_t)size); /* not a byte behind the text may be read */
    memcpy(exact, whole, (size_t)size);
    module = ptx_module_load(exact, (size_t)size, error, sizeof error);
    free(exact);
    entry = module ? ptx_module_entry(module, "k") : NULL;
    if (!entry) {
        fprintf(stderr, "%s: %s\n", text, module ? "no entry k" : error);
        exit(1); /* all further checks look at it */
    }
    return true;
}

static bool body(const char *text)
{
    static char whole[1 << 16];
    snprintf(whole, sizeof whole,
             ".visible .entry k(.param .u64 p0, .param .b8 p1[12]) {\n.reg .b32 %%r<100>; .reg .b64 %%rd<100>; .reg "
             ".b16 %%h<10>; .reg .pred %%p<10>; .reg .f32 %%f<9>;\n%s\n}\n",
             text);
    return load(HEAD, whole);
}

static const ptx_operand *operand(uint32_t insn, uint32_t index)
{
    static const ptx_operand none;
    bool there = entry && insn < entry->insn_count && index < entry->insn[insn].operand_count;
    return there ? &entry->insn[insn].operand[index] : &none;
}

/* Bits of a constant as lane `lane` would read them. */
static uint64_t constant(uint32_t slot, uint32_t bytes, uint32_t lane)
{
    uint64_t bits = 0;
    if (slot < entry->constant_start || slot + bytes * (lane + 1) > entry->constant_start + entry->constant_bytes) {
        return 0xdeadbeefdeadbeef;
    }
    memcpy(&bits, entry->constants + (slot - entry->constant_start) + lane * bytes, bytes);
    return bits;
}

static void test_headers(void)
{
    CHECK(load(HEAD, ".entry k() { ret; }"));
    CHECK(module->version == 86 && module->target == 90 && module->arch_specific);
    CHECK(load(".version 7.0 .target sm_80, debug .address_size 64\n", ".weak .entry k { ret; }"));
    CHECK(module->version == 70 && module->target == 80 && !module->arch_specific);
    CHECK(load("// first\n/* a\nb */ .version 7.0\r\n.target sm_80\n", ".entry k ( ) { ret; } // at the end"));
    CHECK(entry->insn[0].line == 5);
    CHECK(load(HEAD, ".file 1 \"a.cu\", 1, 2\n.entry k() .maxntid 64, 2 .minnctapersm 2 .maxnreg 40 { .pragma "
                     "\"nounroll\"; .loc 1 2 3 ret; .loc 1 2 3, function_name $x + 4, inlined_at 1 2 3\nret; }\n"
                     ".section .debug_str { $x: .b8 1, 2 {} }"));
    CHECK(entry->max_threads[0] == 64 && entry->max_threads[1] == 2 && entry->max_threads[2] == 1);
    CHECK(entry->min_blocks == 2 && entry->max_registers == 40);
    CHECK(entry->required_threads[0] == 0 && entry->cluster[0] == 0 && entry->insn_count == 2);
    CHECK(load(HEAD, ".entry k() .reqntid 1,2,3 .explicitcluster .reqnctapercluster 2 { ret; } .entry j() { ret; }"));
    CHECK(entry->required_threads[2] == 3 && entry->cluster[0] == 2 && entry->cluster[2] == 1);
    CHECK(ptx_module_entry(module, "j") && !ptx_module_entry(module, "i") && entry->is_entry);
    CHECK(load(HEAD, ".entry k(.param .u32 a, .param .align 8 .b8 b[12], .param .u64 .ptr .global .align 16 c, .param "
                     ".u8 d, .param .align 64 .b8 e[128], .param .v4 .f32 f) { ret; }"));
    CHECK(entry->param_count == 6 && entry->param[1]->offset == 8 && entry->param[2]->offset == 24);
    CHECK(entry->param[3]->offset == 32 && entry->param[4]->offset == 64 && entry->param[4]->size == 128);
    CHECK(entry->param[5]->offset == 192 && entry->param[5]->size == 16 && entry->param_bytes == 208);
}

static void test_variables(void)
{
    CHECK(load(HEAD, ".global .align 8 .b32 a[4] = {1, -2, 0x10};\n.const .f32 b = 0f3F800000;\n.global .u64 c[2] = "
                     "{a, generic(a)+8};\n.global .b8 d[2][3] = {{1}, {2, 3}};\n.global .u16 e[] = {7, 8, 9};\n.global "
                     ".f64 f = 1.5;\n.extern .shared .align 16 .b8 dyn[];\n.shared .b32 top;\n.entry k() {\n.reg .b32 "
                     "t0, t3; .reg .b64 t1, t2;\n.shared .align 64 .b8 s[3], t;\n.local .b64 l[2]; .local .b8 "
                     "m;\nmov.u32 t0, dyn; mov.u64 t1, s; mov.u64 t2, a+4; mov.u32 t3, t+1; mov.u64 t1, m; ld.b32 t0, "
                     "[s+5]; ld.b32 t0, [dyn+2]; ld.b32 t0, [a]; }"));
    uint64_t base = (uintptr_t)module->data, number;
    float single;
    CHECK(base % 256 == 0 && ((int32_t *)(void *)module->data)[1] == -2);
    CHECK(((int32_t *)(void *)module->data)[2] == 16 && ((int32_t *)(void *)module->data)[3] == 0);
    memcpy(&single, module->data + ptx_module_symbol(module, "b")->offset, 4);
    CHECK(single == 1.0f);
    memcpy(&number, module->data + ptx_module_symbol(module, "c")->offset + 8, 8);
    CHECK(number == base + 8);
    CHECK(memcmp(module->data + ptx_module_symbol(module, "d")->offset, "\1\0\0\2\3\0", 6) == 0);
    CHECK(ptx_module_symbol(module, "e")->size == 6 && !ptx_module_symbol(module, "dyn"));
    CHECK(!ptx_module_symbol(module, "s") && !ptx_module_symbol(module, "k"));
    /* top at 0, s at 64, t at 128: the alignment is that of each variable */
    CHECK(entry->shared_bytes == 129 && entry->dynamic_align == 16 && entry->local_bytes == 17);
    CHECK(constant(entry->insn[0].a, 4, 31) == SIM_SHARED_BASE + 144 && ptx_dynamic_offset(entry) == 144);
    CHECK(constant(entry->insn[1].a, 8, 0) == SIM_SHARED_BASE + 64);
    CHECK(constant(entry->insn[2].a, 8, 5) == base + 4);
    CHECK(constant(entry->insn[3].a, 4, 5) == SIM_SHARED_BASE + 129);
    CHECK(constant(entry->insn[4].a, 8, 5) == 16);
    CHECK(!entry->insn[5].flag && constant(entry->insn[5].b, 4, 0) == SIM_SHARED_BASE + 64);
    CHECK(operand(5, 1)->offset == 5 && operand(6, 1)->offset == 2);
    CHECK(constant(entry->insn[6].b, 4, 0) == SIM_SHARED_BASE + 144);
    CHECK(entry->insn[7].flag && constant(entry->insn[7].b, 8, 0) == base);
}

static void test_operands(void)
{
    CHECK(body("op.a.shared::cluster.3d.L2::128B %r1, {%r2, _, 7}, [%rd1+-8], [p1+4], %r3|%p1, !%p2, -1, 0x10U, 010, "
               "0b11, 0f3F800000, 0d4000000000000000, 1.5, _, %tid.y, WARP_SZ;"));
    const ptx_insn *i = &entry->insn[0];
    CHECK(strcmp(i->mnemonic, "op") == 0 && strcmp(i->text, "op.a.shared::cluster.3d.L2::128B") == 0);
    CHECK(i->suffix_count == 4 && strcmp(i->suffix[1], "shared::cluster") == 0 && strcmp(i->suffix[2], "3d") == 0);
    CHECK(i->operand_count == 16 && i->guard == PTX_NO_GUARD && i->line == 6);
    CHECK(operand(0, 0)->kind == PTX_REGISTER && operand(0, 0)->type == PTX_B32 && operand(0, 0)->reg > 0);
    CHECK(operand(0, 1)->kind == PTX_VECTOR && operand(0, 1)->count == 3);
    CHECK(operand(0, 1)->element[1].kind == PTX_SINK && operand(0, 1)->element[2].bits == 7);
    CHECK(operand(0, 2)->kind == PTX_ADDRESS && operand(0, 2)->base->type == PTX_B64 && operand(0, 2)->offset == -8);
    CHECK(operand(0, 3)->symbol && operand(0, 3)->symbol->offset == 8 && operand(0, 3)->offset == 4);
    CHECK(operand(0, 4)->kind == PTX_PAIR && operand(0, 4)->element[1].type == PTX_PRED);
    CHECK(operand(0, 5)->negated && operand(0, 6)->bits == UINT64_MAX && operand(0, 7)->bits == 16);
    CHECK(operand(0, 8)->bits == 8 && operand(0, 9)->bits == 3);
    CHECK(operand(0, 10)->is_float && operand(0, 10)->is_single && operand(0, 10)->bits == 0x3ff0000000000000);
    CHECK(operand(0, 11)->bits == 0x4000000000000000 && !operand(0, 11)->is_single);
    CHECK(operand(0, 12)->bits == 0x3ff8000000000000 && operand(0, 13)->kind == PTX_SINK);
    CHECK(operand(0, 14)->kind == PTX_SPECIAL_REGISTER && operand(0, 14)->special == PTX_TID_Y);
    CHECK(operand(0, 15)->bits == 32);
    CHECK(body("op [%rd1, {%r1, %r2}], [64], [p0, {%r1}, {%h1, %h2}];"));
    CHECK(operand(0, 0)->count == 1 && operand(0, 0)->element[0].count == 2 && operand(0, 1)->base->bits == 64);
    CHECK(operand(0, 2)->count == 2 && operand(0, 2)->element[1].count == 2);
    CHECK(body("@%p1 op; @!%p1 op; op;"));
    CHECK(entry->insn[0].guard != PTX_NO_GUARD && !entry->insn[0].guard_negated && entry->insn[1].guard_negated);
    CHECK(entry->insn[0].guard_reg == entry->insn[1].guard_reg && entry->insn[0].guard == entry->insn[1].guard);
}

static void test_slots(void)
{
    CHECK(body("mov.b32 %r1, %r99; mov.b64 %rd1, %rd2; mov.pred %p1, %p2; mov.b16 %h1, 5; mov.b32 %r2, 5; mov.b32 %r2, "
               "5; mov.b64 %rd1, 5; mov.b32 _, -1; mov.b32 %r1, %tid.x; mov.b32 %r2, %tid.x; mov.pred %p3, 1;"));
    CHECK(entry->registers_32 == 4 && entry->registers_64 == 2 && entry->predicates == 3);
    CHECK(entry->register_count == 10 && strcmp(entry->register_name[operand(0, 1)->reg], "%r99") == 0);
    for (uint32_t i = 0; i < entry->insn_count; i++) {
        uint32_t align = entry->insn[i].type == PTX_PRED ? 4 : 64;
        CHECK(entry->insn[i].d % align == 0 && entry->insn[i].a % align == 0 && entry->insn[i].a < entry->file_bytes);
    }
    CHECK(entry->insn[4].a == entry->insn[5].a && entry->insn[4].a != entry->insn[6].a);
    CHECK(entry->insn[3].a == entry->insn[4].a); /* 16 and 32 bits: the same lanes */
    CHECK(constant(entry->insn[6].a, 8, 31) == 5 && entry->insn[7].d == 0 && entry->insn[7].write_count == 0);
    CHECK(entry->special_count == 1 && entry->insn[8].a == entry->special[0].slot);
    CHECK(entry->insn[8].a == entry->insn[9].a && constant(entry->insn[10].a, 4, 0) == 0xffffffff);
    CHECK(entry->insn[0].read_count == 1 && entry->insn[0].reads[0] == operand(0, 1)->reg);
    CHECK(entry->insn[0].write_count == 1 && entry->insn[0].writes[0] == operand(0, 0)->reg);
    CHECK(entry->constant_start >= entry->special[0].slot + 128 && entry->constant_start % 64 == 0);
    CHECK(entry->file_bytes == entry->constant_start + entry->constant_bytes);
    CHECK(body("mov.f32 %f1, 0f7FA00001; mov.b32 %r1, 0fFF800001; mov.f32 %f1, 1.5; mov.b64 %rd1, 1.5; mov.u32 %r1, "
               "0x123456789; mov.u16 %h1, -1;"));
    CHECK(constant(entry->insn[0].a, 4, 3) == 0x7fa00001 && constant(entry->insn[1].a, 4, 3) == 0xff800001);
    CHECK(constant(entry->insn[2].a, 4, 3) == 0x3fc00000 && constant(entry->insn[3].a, 8, 3) == 0x3ff8000000000000);
    CHECK(constant(entry->insn[4].a, 4, 0) == 0x23456789 && constant(entry->insn[5].a, 4, 0) == 0xffff);
}

static void test_scopes(void)
{
    /* What inline assembly does: the same names in braces of their own. */
    CHECK(body("mov.b32 %r1, 1; { .reg .b32 %r1; .reg .pred p; mov.b32 %r1, 2; W: bra W; @p bra D; { .reg .pred p; W: "
               "bra W; bra D; } D: } { .reg .b64 %r<5>; W: bra W; D: mov.b64 %r1, %r4; bra D; } mov.b32 %r1, 3; bra E; "
               "E:"));
    CHECK(operand(0, 0)->reg != operand(1, 0)->reg && operand(0, 0)->type == PTX_B32);
    CHECK(operand(2, 0)->kind == PTX_LABEL && operand(2, 0)->target == 2 && operand(3, 0)->target == 6);
    CHECK(operand(4, 0)->target == 4 && operand(5, 0)->target == 6 && operand(6, 0)->target == 6);
    CHECK(operand(7, 0)->type == PTX_B64 && operand(8, 0)->target == 7 && operand(9, 0)->reg == operand(0, 0)->reg);
    CHECK(operand(10, 0)->target == 11 && entry->insn_count == 11);
    CHECK(body("{ .reg .b32 %r1<5>, x1; mov.b32 %r14, x1; { .reg .b32 x<3>; mov.b32 %r1, x1; } }"));
    CHECK(operand(0, 1)->reg != operand(1, 1)->reg && operand(0, 0)->reg != operand(1, 0)->reg);
    /* One name in two ranges: the inner one's. */
    CHECK(body("{ .reg .b64 %r1<5>, x; mov.b64 %r14, x; { .reg .b16 %r<50>, y; mov.b16 %r14, y; mov.b16 %r12, y; } }"));
    CHECK(operand(0, 0)->type == PTX_B64 && operand(1, 0)->type == PTX_B16 && operand(2, 0)->type == PTX_B16);
    CHECK(body("W: op; { { bra W; } op; W: op; }") && operand(1, 0)->target == 3);
    CHECK(body(".reg .v4 .b32 v; op v, v.y; .reg .v2 .f32 w<3>; op w2.x, w2;"));
    CHECK(operand(0, 0)->kind == PTX_VECTOR && operand(0, 0)->count == 4);
    CHECK(operand(0, 1)->kind == PTX_REGISTER && operand(0, 1)->reg == operand(0, 0)->element[1].reg);
    CHECK(operand(1, 1)->element[0].reg == operand(1, 0)->reg && operand(1, 0)->type == PTX_F32);
    CHECK(body("T: .branchtargets A, B; brx.idx %r1, T; A: op; B: op; bra A;"));
    CHECK(operand(0, 1)->kind == PTX_VECTOR && operand(0, 1)->count == 2);
    CHECK(operand(0, 1)->element[0].target == 1 && operand(0, 1)->element[1].target == 2);
    CHECK(body("{{{{ op; }}}} {} op; L: M: bra L; bra M;") && operand(2, 0)->target == 2 && operand(3, 0)->target == 2);
}

/* What must be refused: the line that is to be named, a part of the message, the text. */
static const struct {
    int line;
    const char *message, *text;
} bad[] = {
    {1, ".version", ""},
    {1, ".version", ".target sm_80"},
    {1, "version", ".version 7"},
    {1, "not a number", ".version 7.x"},
    {1, "version", ".version 77.12"},
    {2, ".target", ".version 7.0\n.address_size 64"},
    {1, "target", ".version 7.0 .target compute_80"},
    {1, "target", ".version 7.0 .target sm_80x"},
    {1, "texmode", ".version 7.0 .target sm_80, texmode_unified"},
    {4, "64", HEAD ".address_size 32"},
    {4, "functions", HEAD ".func f() { ret; }"},
    {4, "functions", HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"},
    {4, "entries", HEAD ".extern .entry k() { ret; }"},
    {4, "alias", HEAD ".alias a, b;"},
    {4, "does not end", HEAD "/* "},
    {4, "does not end", HEAD ".file 1 \"abc"},
    {4, "does not end", HEAD ".section .x { .b8 1"},
    {4, "0x80", HEAD "\x80"},
    {4, "0x00", HEAD "\\0"},
    {4, "twice", HEAD ".entry k() { ret; } .entry k() { ret; }"},
    {4, "twice", HEAD ".global .b32 a; .global .b32 a;"},
    {4, "twice", HEAD ".entry k(.param .u32 a, .param .u32 a) { ret; }"},
    {4, "expected", HEAD ".entry k(.param .u32 a .param .u32 b) { ret; }"},
    {4, ".param", HEAD ".entry k(.reg .u32 a) { ret; }"},
    {4, "no size", HEAD ".entry k(.param .b8 a[]) { ret; }"},
    {4, "32764", HEAD ".entry k(.param .b8 a[40000]) { ret; }"},
    {4, "type", HEAD ".global .pred a;"},
    {4, "type", HEAD ".global .bf16 a;"},
    {4, "type", HEAD ".global a;"},
    {4, "power of two", HEAD ".global .align 3 .b8 a;"},
    {4, "from 1 to 4096", HEAD ".global .align 0 .b8 a;"},
    {4, "no size", HEAD ".global .b8 a[];"},
    {4, "external", HEAD ".extern .global .b8 a[4];"},
    {4, "external", HEAD ".extern .shared .b8 a[4];"},
    {4, "initial", HEAD ".shared .b8 a[4] = {1};"},
    {4, "more initial", HEAD ".global .b8 a[2] = {1, 2, 3};"},
    {4, "'{' expected", HEAD ".global .b8 a[2][2] = {1, 2, 3};"},
    {4, "'{' expected", HEAD ".global .b8 a[2] = 1;"},
    {4, "f32", HEAD ".global .f32 a = 1;"},
    {4, "b32", HEAD ".global .b32 a = 1.0;"},
    {4, "address", HEAD ".global .u64 a = b;"},
    {4, "address", HEAD ".global .u32 b; .global .u32 a = b;"},
    {4, "more than", HEAD ".global .b64 a[67108864];"},
    {4, "from 1", HEAD ".global .b8 a[18446744073709551615];"},
    {4, "this large", HEAD ".global .b8 a[65536][65536];"},
    {4, "49152", HEAD ".shared .b8 a[50000];"},
    {4, "outside", HEAD ".local .b8 a[4];"},
    {4, "not a number", HEAD ".global .b32 a = 0x1ffffffffffffffff;"},
    {4, "not a number", HEAD ".global .b32 a = 09;"},
    {4, "not a number", HEAD ".global .b32 a = 1x;"},
    {4, "not a number", HEAD ".global .b32 a = 0b12;"},
    {4, "not a number", HEAD ".global .f32 a = 0f3F80000;"},
    {4, "not a number", HEAD ".global .f32 a = 1.5.5;"},
    {4, "sign", HEAD ".global .f32 a = -0f3F800000;"},
    {4, "maxfoo", HEAD ".entry k() .maxfoo 3 { ret; }"},
    {4, "from 1", HEAD ".entry k() .maxntid 0 { ret; }"},
    {4, "statement", HEAD ".entry k() { ret; "},
    {4, "supported here", HEAD ".entry k() { ret; } }"},
    {4, "expected", HEAD ".entry k() { ret }"},
    {4, "a statement", HEAD ".entry k() { ; }"},
    {4, "predicate", HEAD ".entry k() { .reg .b32 r; @r ret; }"},
    {4, "a name", HEAD ".entry k() { .reg .pred p; @p { ret; } }"},
    {4, "predicate", HEAD ".entry k() { .reg .b32 r; op !r; }"},
    {5, "\"x\" is not known", HEAD ".entry k() {\nop x; }"},
    {6, "bra: ", HEAD ".entry k() {\nret;\nbra (; }"},
    {4, "not known", HEAD ".entry k() { bra L; { L: } }"},
    {4, "twice", HEAD ".entry k() { L: L: ret; }"},
    {4, "twice", HEAD ".entry k() { .reg .b32 a; .reg .b64 a; }"},
    {4, "twice", HEAD ".entry k() { .reg .b32 a<4>; .reg .b64 a2; }"},
    {4, "twice", HEAD ".entry k() { .reg .b32 a<4>; .reg .b64 a<2>; }"},
    {4, "twice", HEAD ".entry k() { .reg .b32 a<40>, a1<5>; op a14; }"},
    {4, "registers of type", HEAD ".entry k() { .reg .bf16 a; }"},
    {4, "registers of type", HEAD ".entry k() { .reg .b128 a; }"},
    {4, "registers of type", HEAD ".entry k() { .reg a; }"},
    {4, "from 0", HEAD ".entry k() { .reg .b32 a<4294967296>; }"},
    {4, "not known", HEAD ".entry k() { .reg .b32 a<4>; op a4; }"},
    {4, "not known", HEAD ".entry k() { .reg .b32 a<4>; op a01; }"},
    {4, "not a label", HEAD ".entry k() { op x; .reg .b32 x; }"},
    {4, ".x, .y or .z", HEAD ".entry k() { op %tid; }"},
    {4, "%tid needs", HEAD ".entry k() { op %tid.w; }"},
    {4, "calls", HEAD ".entry k() { call f; }"},
    {4, "calls", HEAD ".entry k() { op (a), b; }"},
    {4, "number expected", HEAD ".entry k() { .reg .b32 a; op {a, {a}}; }"},
    {4, "may not stand", HEAD ".entry k() { .reg .v2 .b32 a; op {a, 1}; }"},
    {4, "may not stand", HEAD ".entry k() { L: op {L, 1}; }"},
    {4, "address", HEAD ".entry k() { op [1.5]; }"},
    {4, "expected", HEAD ".entry k() { .reg .b32 a; op [a-4]; }"},
    {4, "between registers", HEAD ".entry k() { .reg .b32 a; op a|5; }"},
    {4, "operands", HEAD ".entry k() { op 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17; }"},
    {4, "suffixes", HEAD ".entry k() { op.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a; }"},
    {5, "unknown.b32: ", HEAD ".entry k() {\nunknown.b32 1; }"},
    {4, "where b32", HEAD ".entry k() { .reg .b64 a; .reg .b32 b; src.b32 b, a; }"},
    {4, "f32 where", HEAD ".entry k() { .reg .f32 a; .reg .b32 b; src.s32 b, a; }"},
    {4, "u32 where", HEAD ".entry k() { .reg .u32 a; .reg .b32 b; src.f32 b, a; }"},
    {4, "integer constant", HEAD ".entry k() { .reg .b32 b; src.f32 b, 1; }"},
    {4, "floating-point constant", HEAD ".entry k() { .reg .b32 b; src.s32 b, 0f3F800000; }"},
    {4, "floating-point constant", HEAD ".entry k() { .reg .b32 b; src.b32 b, 1.5; }"},
    {4, "floating-point constant", HEAD ".entry k() { .reg .b64 b; src.b64 b, 0f3F800000; }"},
    {4, "destination", HEAD ".entry k() { src.b32 1, 1; }"},
    {4, "special register", HEAD ".entry k() { .reg .b32 b; src.b32 b, %tid.x; }"},
    {4, "address is taken", HEAD ".shared .b32 s; .entry k() { .reg .b32 b; src.b32 b, s; }"},
    {4, "no u32", HEAD ".global .b32 s; .entry k() { .reg .b32 b; mov.u32 b, s; }"},
    {4, "a type expected", HEAD ".entry k() { .reg .b32 b; mov.foo b, b; }"},
    {4, "cannot be an address", HEAD ".entry k() { .reg .f32 b; ld.b32 b, [b]; }"},
    {4, "more than 256", NULL}, /* built below */
    {4, "scopes", NULL},
    {4, "characters", NULL},
};

/* Returns where the copies end. */
static char *repeat(char *to, const char *text, size_t count)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < count; i++, to += size) {
        memcpy(to, text, size + 1);
    }
    return to;
}

static const char *built(size_t number)
{
    static char text[1 << 16];
    char *end = repeat(text, HEAD ".entry k() { ", 1);
    if (number == 0) {
        end = repeat(end, "op {", 1);
        end = repeat(end, "1,", 256);
        repeat(end, "1}; }", 1);
    } else if (number == 1) {
        repeat(end, "{", 100);
    } else {
        repeat(end, "abcdefgh", 600);
    }
    return text;
}

static void test_refusals(void)
{
    size_t count = sizeof bad / sizeof bad[0], ones_built = 0;
    for (size_t i = 0; i < count; i++) {
        char error[512], prefix[32];
        const char *text = bad[i].text ? bad[i].text : built(ones_built++);
        size_t size = strlen(text);
        char *exact = malloc(size + 1);
        memcpy(exact, text, size);
        if (size > 1 && memcmp(text + size - 2, "\\0", 2) == 0) {
            exact[size - 2] = '\0';
        }
        ptx_module *m = ptx_module_load(exact, size, error, sizeof error);
        snprintf(prefix, sizeof prefix, "line %d: ", bad[i].line);
        if (m || strncmp(error, prefix, strlen(prefix)) != 0 || !strstr(error, bad[i].message)) {
            failures++;
            fprintf(stderr, "%.200s\n -> %s, not \"%s...%s\"\n", text, m ? "accepted" : error, prefix, bad[i].message);
        }
        ptx_module_free(m);
        free(exact);
    }
}

/* Any beginning of a good text is refused or read, and never read beyond. */
static void test_cuts(void)
{
    static const char text[] = HEAD
        ".global .b32 a[2] = {1, -2}; /* c */ // d\n.visible .entry k(.param .align 8 .b8 p[16]) .maxntid 1, 2 {\n"
        ".reg .v2 .b32 %r<3>; .reg .pred %p; L: @!%p mov.b32 %r1.x, 0f3F800000; op.x::y {%r1.x, _}, [a+-4, {1}], "
        "%p|_, 1.5e+3;\nT: .branchtargets L; brx.idx %r2.x, T; { bra L; } .loc 1 2 3, function_name $f, inlined_at 1 "
        "2 3\n.pragma \"x\"; ret; }\n";
    for (size_t size = 0; size < sizeof text; size++) {
        char error[512];
        char *exact = malloc(size + 1);
        memcpy(exact, text, size);
        ptx_module *m = ptx_module_load(exact, size, error, sizeof error);
        CHECK(m || strncmp(error, "line ", 5) == 0);
        ptx_module_free(m);
        free(exact);
    }
}

int main(void)
{
    test_headers();
    test_variables();
    test_operands();
    test_slots();
    test_scopes();
    test_refusals();
    test_cuts();
    ptx_module_free(module);
    printf("%u checks failed\n", failures);
    return failures > 0;
}
