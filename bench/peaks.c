/* peaks.c - published peaks of GPUs, from peaks.json. */
#include "bench.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

extern const unsigned char bench_peaks_json[];

/* Is `word` in `text`, not as a part of a longer word? */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++)
        if ((at == text || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

static double number(const cJSON *entry, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(entry, name);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

bench_peak bench_peak_find(const char *device_name, hal_dtype dtype)
{
    bench_peak peak = {NAN, NAN};
    cJSON *root = cJSON_Parse((const char *)bench_peaks_json), *entry;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(root, "devices"))
    {
        const char *word = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "match"));
        if (!word || !has_word(device_name, word))
            continue;
        peak.gflops = number(entry, hal_dtype_name(dtype));
        peak.gbps = number(entry, "gbps");
        break;
    }
    cJSON_Delete(root);
    return peak;
}
