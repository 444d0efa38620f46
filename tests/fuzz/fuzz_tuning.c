/* A file of tunings from anywhere: refused with a message, or read, written and read again to the same. */
#include "core.h"
#include "tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_again(const hal_tuning *list, uint32_t count)
{
    char *text = NULL;
    size_t size = 0;
    hal_tuning *again;
    uint32_t more;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    hal_tuning_write(out, list, count);
    fclose(out);
    if (hal_tuning_parse("fuzz", text, size, &again, &more) == HAL_OK) {
        for (uint32_t i = 0; i < count; i++) {
            if (more != count || list[i].m != again[i].m || list[i].batch != again[i].batch ||
                !hal_gemm_same_choice(&list[i].choice, &again[i].choice))
                abort();
        }
    }
    free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hal_tuning *list;
    uint32_t count;
    char *text = malloc(size ? size : 1); /* without a NUL behind it */
    if (!text)
        return 0;
    memcpy(text, bytes, size);
    const hal_status status = hal_tuning_parse("fuzz", text, size, &list, &count);
    if ((status == HAL_OK) != (list != NULL) || (!list && count))
        abort();
    for (uint32_t i = 0; i < count; i++) {
        const hal_tuning *t = &list[i];
        if (!t->m || !t->n || !t->k || !t->batch || !t->choice.tile_m || !t->choice.tile_n || !*t->device)
            abort();
    }
    if (list)
        read_again(list, count);
    free(list);
    free(text);
    return 0;
}
