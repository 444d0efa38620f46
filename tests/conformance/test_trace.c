/* The trace file: JSON that a viewer can load, with what was told and what ran. */
#include "conf.h"

#include <ctype.h>
#include <unistd.h>

/* A reader that only says whether the text is one JSON value: where it ends, or NULL. */
static const char *json_value(const char *at, int depth);

static const char *blanks(const char *at)
{
    while (at != NULL && isspace((unsigned char)*at))
        at++;
    return at;
}

static const char *json_string(const char *at)
{
    if (at == NULL || *at++ != '"')
        return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\') {
            at++;
            if (*at == 'u')
                for (int i = 0; i < 4; i++)
                    if (!isxdigit((unsigned char)*++at))
                        return NULL;
            if (strchr("\"\\/bfnrtu", *at) == NULL && !isxdigit((unsigned char)*at))
                return NULL;
        }
    }
    return at + 1;
}

static const char *json_members(const char *at, int depth, bool object)
{
    char close = object ? '}' : ']';
    at = blanks(at + 1);
    if (*at == close)
        return at + 1;
    for (;;) {
        if (object) {
            at = blanks(json_string(at));
            if (at == NULL || *at++ != ':')
                return NULL;
        }
        at = blanks(json_value(blanks(at), depth + 1));
        if (at == NULL)
            return NULL;
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
        at = blanks(at);
    }
}

static const char *json_value(const char *at, int depth)
{
    static const char *const words[3] = {"true", "false", "null"};
    if (at == NULL || depth > 50)
        return NULL;
    if (*at == '{' || *at == '[')
        return json_members(at, depth, *at == '{');
    if (*at == '"')
        return json_string(at);
    for (int i = 0; i < 3; i++)
        if (strncmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    size_t length = strspn(at, "-+.eE0123456789");
    return length > 0 && (isdigit((unsigned char)*at) || *at == '-') ? at + length : NULL;
}

static bool is_json(const char *text)
{
    const char *end = blanks(json_value(blanks(text), 0));
    return end != NULL && *end == '\0';
}

static char *read_trace(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 4 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (4 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

static void written(void **state)
{
    (void)state;
    assert_true(is_json("{\"a\":[1,-2.5e3,\"x\\\"\"],\"b\":{}}") && !is_json("{\"a\":1,}") && !is_json("[1") &&
                !is_json("\"\n\""));
    char path[64] = "/tmp/hal-trace-XXXXXX";
    close(mkstemp(path));
    hal_device *device = conf_open(NULL);
    hal_stream *stream;
    OK(hal_stream_create(device, HAL_STREAM(.label = "a \"stream\"\\ with\nodd words"), &stream));
    hal_buffer *y = conf_buffer(device, 4096);
    hal_kernel *fill = conf_kernel(device, "fill_index");
    hal_cmdlist *list;
    OK(hal_cmdlist_create(device, HAL_CMDLIST(.label = "the recorded list"), &list));
    OK(conf_do_fill(list, fill, hal_whole(y), 1024, 1));
    OK(hal_cmdlist_finish(list));
    for (int turn = 0; turn < 2; turn++) {
        OK(hal_trace_start(device));
        for (int i = 0; i < 10; i++)
            OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(y), 1024, 1));
        OK(hal_cmd_copy(hal_stream_cmdlist(stream), hal_range(y, 0, 64), hal_range(y, 64, 64)));
        OK(hal_cmdlist_submit(list, stream, NULL));
        OK(hal_trace_write(device, path, SOON));
        char *text = read_trace(path);
        assert_true(is_json(text));
        assert_non_null(strstr(text, "traceEvents"));
        assert_non_null(strstr(text, "fill_index"));
        assert_non_null(strstr(text, "copy"));
        assert_non_null(strstr(text, "the recorded list"));
        assert_non_null(strstr(text, "odd words"));
        uint32_t count = 0;
        for (const char *at = text; (at = strstr(at, "fill_index")) != NULL; at++)
            count++;
        assert_true(count >= 10);
        free(text);
    }
    /* Wrong moments and a path that cannot be written. */
    EXPECT(HAL_ERROR_INVALID_STATE, hal_trace_write(device, path, SOON));
    OK(hal_trace_start(device));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_trace_start(device));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_trace_write(device, NULL, SOON));
    EXPECT(HAL_ERROR_IO, hal_trace_write(device, "/no/such/folder/trace.json", SOON));
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(y), 1024, 2));
    conf_check_u32(stream, y, 0, 1024, 2, 1);
    unlink(path);
    hal_cmdlist_destroy(list);
    hal_kernel_destroy(fill);
    hal_buffer_destroy(y);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

int conf_test_trace(void)
{
    const struct CMUnitTest tests[] = {CASE(written)};
    return RUN("trace", tests);
}
