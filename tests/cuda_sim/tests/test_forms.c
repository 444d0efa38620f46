/* test_forms.c - forms of instructions that ptxas takes, and that it refuses: the interpreter's reader takes the first
 * and refuses the others. With a folder as argument each is written to a file there, for ptxas itself
 * (ptxas_forms.cmake). Both lists are what random forms once showed to be judged differently, and their neighbours. */
#include "../ptx/ptx.h"
#include <stdio.h>
#include <string.h>

#define BEGIN                                                                                                          \
    ".version 8.6\n.target sm_90a\n.address_size 64\n.const .align 16 .b8 c[64];\n"                                    \
    ".visible .entry k(.param .align 16 .b8 out[64]) .maxntid 128, 1, 1\n{\n"                                          \
    ".reg .pred p<4>; .reg .b16 h<4>; .reg .b32 r<8>; .reg .b64 d<4>; .reg .f32 f<8>; .reg .f64 g<4>;\n"               \
    ".shared .align 128 .b8 s[1024]; .local .align 16 .b8 l[64];\n"

static const char *const accepted[] = {
    "ld.L1::no_allocate.f32 f0, [d0];",
    "ld.L2::128B.f32 f0, [d0];",
    "st.global.L1::evict_first.f32 [d0], f0;",
    "ld.volatile.shared.f32 f0, [s];",
    "prefetch.local.L1 [l];",
    "prefetch.L2 [d0];",
    "prefetch.L2::evict_last [d0];",
    "mbarrier.init.b64 [s], 1;",
    "mbarrier.init.shared.b64 [r0], 1;",
    "mbarrier.test_wait.parity.b64 p0, [d0], 0;",
    "slct.b16.s32 h0, h1, h2, r0;",
    "slct.f64.f32 g0, g1, g2, f0;",
    "bfe.u32 r0, r1, 255, r2;",
    "bfi.b32 r0, r1, r2, r3, 255;",
    "bar.sync 0;",
    "bar.cta.sync 0;",
    "barrier.cta.sync.aligned 0;",
    "setp.lt.f16 p0, h0, h1;",
    "setp.lt.f32 p0|p1, f0, f1;",
    "setp.lt.bf16x2 p0|p1, r0, r1;",
    "add.rn.f16 h0, h1, h2;",
    "fma.rn.relu.bf16x2 r0, r1, r2, r3;",
    "cvt.rn.ftz.sat.f32.u64 f0, d0;",
    "cvt.rn.sat.f16.s32 h0, r0;",
    "cvt.rni.ftz.s32.f32 r0, f0;",
    "cvt.ftz.f32.f16 f0, h0;",
    "cvt.ftz.f32.bf16 f0, h0;",
    "cvt.rn.ftz.bf16.f32 h0, f0;",
    "cvt.rn.ftz.f32.f64 f0, g0;",
    "cvt.rn.satfinite.f16.f32 h0, f0;",
    "cvt.rn.relu.satfinite.f16x2.f32 r0, f0, f1;",
    "cvt.rz.relu.bf16.f32 h0, f0;",
    "cvt.rm.f16.f32 h0, f0;",
    "cvt.rn.relu.f16x2.e4m3x2 r0, h0;",
    "cvt.rna.tf32.f32 r0, f0;",
    "cvt.rzi.sat.u8.f16 h0, h2;",
    "cvt.sat.f32.f16 f0, h0;",
};

static const char *const refused[] = {
    "ld.shared.L1::evict_last.f32 f0, [s];",
    "ld.const.L1::no_allocate.f32 f0, [c];",
    "st.local.L1::evict_first.f32 [l], f0;",
    "ld.shared.L2::128B.f32 f0, [s];",
    "ld.volatile.local.f32 f0, [l];",
    "ld.relaxed.gpu.local.f32 f0, [l];",
    "st.release.gpu.local.f32 [l], f0;",
    "prefetch.shared.L1 [s];",
    "prefetch.const.L1 [c];",
    "prefetch.param.L2 [out];",
    "mbarrier.init.b64 [r0], 1;",
    "mbarrier.test_wait.parity.b64 p0, [r0], 0;",
    "mbarrier.arrive.b64 d0, [r0];",
    "slct.f16.s32 h0, h1, h2, r0;",
    "slct.bf16x2.f32 r0, r1, r2, f0;",
    "bfe.u32 r0, r1, 256, 1;",
    "bfe.s64 d0, d1, -1, r0;",
    "bfi.b32 r0, r1, r2, 1, 256;",
    "bar.sync.aligned 0;",
    "bar.cta.sync.aligned 0;",
    "setp.lt.f16 p0|p1, h0, h1;",
    "setp.lt.bf16 p0|p1, h0, h1;",
    "add.rz.f16 h0, h1, h2;",
    "fma.rz.f16 h0, h1, h2, h3;",
    "sub.rp.bf16x2 r0, r1, r2;",
    "cvt.rn.relu.f32.s32 f0, r0;",
    "cvt.rn.satfinite.f16.s32 h0, r0;",
    "cvt.rni.ftz.s32.f16 r0, h0;",
    "cvt.rni.ftz.s32.bf16 r0, h0;",
    "cvt.rni.ftz.f64.f64 g0, g1;",
    "cvt.rm.ftz.f16.s64 h0, d0;",
    "cvt.rn.ftz.f16x2.f32 r0, f0, f1;",
    "cvt.rn.ftz.satfinite.e4m3x2.f32 h0, f0, f1;",
    "cvt.rna.ftz.tf32.f32 r0, f0;",
    "cvt.rna.sat.tf32.f32 r0, f0;",
    "cvt.rna.tf32.s32 r0, r1;",
    "cvt.rz.satfinite.tf32.f32 r0, f0;",
    "cvt.rm.f16x2.f32 r0, f0, f1;",
    "cvt.rm.relu.f16.f32 h0, f0;",
    "cvt.rp.satfinite.f16.f32 h0, f0;",
    "cvt.rn.satfinite.f32.f64 f0, g0;",
    "cvt.rn.relu.bf16.f16 h0, h1;",
    "cvt.rzi.u8.bf16 h0, h2;",
    "cvt.rzi.sat.s32.bf16 r0, h0;",
    "cvt.sat.f32.bf16 f0, h0;",
};

static unsigned judge(const char *form, bool good, size_t number, const char *folder)
{
    char text[2048], why[1024] = "", path[4096];
    int size = snprintf(text, sizeof text, "%s%s\nret;\n}\n", BEGIN, form);
    ptx_module *module = ptx_module_load(text, (size_t)size, why, sizeof why);
    const bool is_right = (module != NULL) == good;
    if (!is_right) {
        fprintf(stderr, "%s is %s: %s\n", form, module ? "taken" : "refused", why);
    }
    ptx_module_free(module);
    if (folder) {
        snprintf(path, sizeof path, "%s/%s%zu.ptx", folder, good ? "good" : "bad", number);
        FILE *file = fopen(path, "w");
        if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
            fprintf(stderr, "%s cannot be written\n", path);
            return 1;
        }
    }
    return !is_right;
}

int main(int argc, char **argv)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        wrong += judge(accepted[i], true, i, argc > 1 ? argv[1] : NULL);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        wrong += judge(refused[i], false, i, argc > 1 ? argv[1] : NULL);
    }
    return wrong != 0;
}
