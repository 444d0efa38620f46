/* The PTX reader on arbitrary text, binders and all. With no .version of its own, a text gets a header, or a whole
 * entry around it, so that a fuzzer reaches the instructions at once: a first byte of '#' or '$' asks for that. */
#include "../ptx/ptx.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const char header[] = ".version 8.6\n.target sm_90a\n.address_size 64\n";
static const char before[] = ".entry k(.param .u64 p0, .param .align 64 .b8 p1[128]) {\n.reg .b16 %h<9>; .reg .b32 "
                             "%r<99>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %d<9>; .reg .pred %p<9>; .shared "
                             ".align 16 .b8 s[64];\n";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    bool headed = size > 0 && (bytes[0] == '#' || bytes[0] == '$'), in_entry = headed && bytes[0] == '$';
    char *text = malloc(sizeof header + sizeof before + size + 1), error[512] = "", *at = text;
    if (!text) {
        return 0;
    }
    if (headed) {
        at = stpcpy(at, header);
        at = in_entry ? stpcpy(at, before) : at;
        bytes++;
        size--;
    }
    memcpy(at, bytes, size);
    at += size;
    if (in_entry) {
        *at++ = '}';
    }
    /* As long as the text is, so that a read behind it is seen. */
    size_t length = (size_t)(at - text);
    char *exact = realloc(text, length ? length : 1);
    text = exact ? exact : text;
    ptx_module *module = ptx_module_load(text, length, error, sizeof error);
    if (!module && error[0] == '\0') {
        fprintf(stderr, "refused without a word\n");
        abort();
    }
    ptx_module_free(module);
    free(text);
    return 0;
}
