/* The JSON reader, and what reads machines from it, on arbitrary text. Every value is visited, so that a pointer which
 * leaves its block shows under the address sanitizer. */
#include <hal/model.h>

#include "core.h"
#include "json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static size_t visit(const hal_json *value)
{
    size_t sum = (value->key ? strlen(value->key) : 0) + (value->string ? strlen(value->string) : 0);
    uint32_t count = 0;
    for (const hal_json *member = value->first; member; member = member->next, count++)
        sum += visit(member);
    if (count != value->count)
        abort();
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    hal_json *root;
    hal_model_machine machine;
    char *text = malloc(size ? size : 1); /* without a NUL behind it */
    if (!text)
        return 0;
    memcpy(text, bytes, size);
    hal_status status = hal_json_parse("fuzz", text, size, &root);
    if ((status == HAL_OK) != (root != NULL) || (root && visit(root) > size))
        abort();
    hal_json_free(root);
    if (hal_model_machine_parse(text, size, &machine) == HAL_OK && !*machine.name)
        abort();
    free(text);
    return 0;
}
