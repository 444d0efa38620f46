/* Descriptions of machines: those that are built in, and what a file may say; the JSON reader below them. */
#include "model_test.h"

#include "json.h"
#include <locale.h>
#include <unistd.h>

static void built_in_machines(void **state)
{
    (void)state;
    hal_model_machine machine;
    const uint32_t count = hal_model_machine_count();
    for (uint32_t i = 0; i < count; i++) {
        good(hal_model_machine_get(i, &machine));
        assert_true(*machine.name && *machine.source && machine.units > 0);
        assert_true(machine.memory_bytes_per_s > 0 && machine.submit_us >= 0);
        assert_true(hal_model_peak(&machine, HAL_F16) > 0);
        hal_model_machine again;
        good(hal_model_machine_named(machine.name, &again));
        assert_string_equal(again.name, machine.name);
    }
    assert_int_equal(hal_model_machine_get(count, &machine), HAL_ERROR_INVALID_ARGUMENT);
    for (const char *const *name =
             (const char *const[]){"h100", "H200", "A100", "rtx pro 6000", "RTX 4090", "Ascend 910B", "cpu", NULL};
         *name; name++)
        good(hal_model_machine_named(*name, &machine));
    machine = machine_named("Ascend 910B");
    static const char *const buffers[] = {"L0A", "L0B", "L0C", "L1", "UB", ""};
    static const uint64_t kib[] = {64, 64, 128, 512, 192, 0};
    for (int i = 0; i < 6; i++) {
        assert_string_equal(machine.buffers[i].name, buffers[i]);
        assert_int_equal(machine.buffers[i].size, kib[i] * 1024);
    }
    assert_int_equal(hal_model_machine_named("H10", &machine), HAL_ERROR_NOT_FOUND);
    assert_non_null(strstr(hal_last_error(), "RTX PRO 6000"));
}

static const char *found(const char *device, hal_device_type type, hal_model_machine *machine)
{
    hal_device_info info = {.type = type, .compute_units = 6, .max_shared_memory = 12345};
    snprintf(info.name, sizeof info.name, "%s", device);
    good(hal_model_machine_find(&info, machine));
    return machine->name;
}

static void found_by_device(void **state)
{
    (void)state;
    hal_model_machine m;
    assert_string_equal(found("NVIDIA H100 80GB HBM3", HAL_DEVICE_DISCRETE, &m), "H100");
    assert_string_equal(found("NVIDIA H100 PCIe", HAL_DEVICE_DISCRETE, &m), "H100 PCIe");
    assert_string_equal(found("NVIDIA GH200 480GB", HAL_DEVICE_DISCRETE, &m), "GH200");
    assert_string_equal(found("NVIDIA A100-SXM4-40GB", HAL_DEVICE_DISCRETE, &m), "A100 40GB");
    assert_string_equal(found("NVIDIA A100-SXM4-80GB", HAL_DEVICE_DISCRETE, &m), "A100");
    assert_string_equal(found("Tesla T4", HAL_DEVICE_DISCRETE, &m), "T4");
    assert_string_equal(found("NVIDIA H200", HAL_DEVICE_DISCRETE, &m), "H200");
    assert_string_equal(found("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", HAL_DEVICE_DISCRETE, &m),
                        "RTX PRO 6000");
    assert_string_equal(found("NVIDIA GeForce RTX 4090", HAL_DEVICE_DISCRETE, &m), "RTX 4090");
    assert_string_equal(found("NVIDIA XH1000", HAL_DEVICE_DISCRETE, &m), "discrete GPU");
    assert_string_equal(found("Intel(R) Graphics", HAL_DEVICE_INTEGRATED, &m), "integrated GPU");
    assert_string_equal(found("", HAL_DEVICE_OTHER, &m), "integrated GPU");
    assert_string_equal(found("llvmpipe (LLVM 15.0.6, 256 bits)", HAL_DEVICE_CPU, &m), "CPU");
    assert_true(m.generic && m.units == 6 && m.shared_per_block == 12345);
    exact(6 * machine_named("CPU").flops_per_s[HAL_F32], m.flops_per_s[HAL_F32]);
}

static hal_status parse(const char *text, hal_model_machine *machine)
{
    return hal_model_machine_parse(text, strlen(text), machine);
}

static void own_descriptions(void **state)
{
    (void)state;
    hal_model_machine m;
    good(parse("{\"name\": \"\\u00e9\\ud83d\\ude00\", \"units\": 3, \"flops_per_s\": {\"bf16\": 1.5E+13},\n"
               " \"memory_bytes_per_s\": 2e9, \"shared_per_block\": 4294967295, \"generic\": false}",
               &m));
    assert_string_equal(m.name, "\xc3\xa9\xf0\x9f\x98\x80");
    assert_true(m.units == 3 && m.flops_per_s[HAL_BF16] == 1.5e13 && m.shared_per_block == UINT32_MAX);
    exact(2, hal_model_unit_load_us(&m, 4000.0 / 3));
    static const char *const refused[][2] = {
        {"", "line 1"},
        {"[]", "object"},
        {"{}", "\"name\""},
        {"{\"name\": 3}", "\"name\""},
        {"{\"name\": \"x\", \"untis\": 3}", "untis"},
        {"{\"name\": \"x\", \"\\u001b[2J\\u007f\": 3}", "no field \" [2J \""}, /* not to a terminal */
        {"{\"name\": \"x\", \"units\": -1}", "units"},
        {"{\"name\": \"x\", \"units\": 1.5}", "units"},
        {"{\"name\": \"x\", \"units\": 4294967296}", "units"},
        {"{\"name\": \"x\", \"units\": \"3\"}", "units"},
        {"{\"name\": \"x\", \"memory_size\": 1e300}", "memory_size"},
        {"{\"name\": \"x\", \"wait_us\": -0.5}", "wait_us"},
        {"{\"name\": \"x\", \"wait_us\": 1e999}", "large"},
        {"{\"name\": \"x\", \"type\": \"quantum\"}", "type"},
        {"{\"name\": \"x\", \"flops_per_s\": {\"f64\": 1}}", "f64"},
        {"{\"name\": \"x\", \"flops_per_s\": 3}", "flops_per_s"},
        {"{\"name\": \"x\", \"buffers\": {\"\": 1}}", "letters"},
        {"{\"name\": \"x\", \"buffers\": {\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1}}",
         "8"},
        {"{\"name\": \"x\",\n\n \"generic\": yes}", "line 3"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(parse(refused[i][0], &m), HAL_ERROR_INVALID_ARGUMENT);
        if (!strstr(hal_last_error(), refused[i][1]))
            fail_msg("%s: \"%s\" does not say %s", refused[i][0], hal_last_error(), refused[i][1]);
        assert_true(!*m.name && !m.units);
    }
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/hal-model-XXXXXX";
    const int file = mkstemp(path);
    const char text[] = "{\"name\": \"mine\", \"units\": 2}";
    hal_model_machine m;
    assert_true(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    good(hal_model_machine_load(path, &m));
    assert_string_equal(m.name, "mine");
    assert_int_equal(ftruncate(file, (1 << 20) + 1), 0);
    assert_int_equal(hal_model_machine_load(path, &m), HAL_ERROR_LIMIT);
    close(file);
    unlink(path);
    assert_int_equal(hal_model_machine_load(path, &m), HAL_ERROR_IO);
    assert_int_equal(hal_model_machine_load("/", &m), HAL_ERROR_IO);
}

/* A locale may have a decimal comma; JSON has not. */
static double read_number(const char *text)
{
    hal_json *root;
    setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where it is installed */
    good(hal_json_parse("number", text, strlen(text), &root));
    setlocale(LC_NUMERIC, "C");
    const double number = root->number;
    hal_json_free(root);
    return number;
}

static void json_numbers(void **state)
{
    (void)state;
    uint64_t random = unit_seed();
    char text[64];
    for (int round = 0; round < 20000; round++) {
        const double mantissa = (double)(unit_random(&random) % 1000000000000000u);
        snprintf(text, sizeof text, "%.*e", (int)(unit_random(&random) % 15), (round % 2 ? -1 : 1) * mantissa);
        if (read_number(text) != strtod(text, NULL))
            fail_msg("%s is read as %.17g", text, read_number(text));
        /* More digits than a double has, far exponents: to the last place but one. */
        snprintf(text, sizeof text, "%.17ge%d", mantissa / 3, (int)(unit_random(&random) % 500) - 250);
        assert_true(fabs(read_number(text) - strtod(text, NULL)) <= 4e-16 * fabs(strtod(text, NULL)));
    }
}

static void json_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {"{",
                                      "[1,]",
                                      "[1 2]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{1:2}",
                                      "\"",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\ud800\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\udc00\"",
                                      "\"\\u0000\"",
                                      "\"\n\"",
                                      "\"\xff\"",
                                      "\"\x80\"",
                                      "\"\xc3\"",
                                      "\"\xc0\xaf\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xe2\x82\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "{\"\xff\":1}",
                                      "01",
                                      "-",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "1e+",
                                      "nul",
                                      "NaN",
                                      "Infinity",
                                      "1 1",
                                      "[1]]",
                                      "'a'",
                                      "// c\n1",
                                      "1e999",
                                      "-1e999",
                                      "[1,,2]",
                                      "\"\\"};
    hal_json *root;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (hal_json_parse("text", bad[i], strlen(bad[i]), &root) == HAL_OK)
            fail_msg("%s is accepted", bad[i]);
        assert_null(root);
    }
    assert_int_equal(hal_json_parse("text", "1\0", 2, &root), HAL_ERROR_INVALID_ARGUMENT);
    char deep[200];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    assert_int_equal(hal_json_parse("text", deep, 200, &root), HAL_ERROR_INVALID_ARGUMENT);
    good(hal_json_parse("text", deep + 36, 128, &root));
    hal_json_free(root);
}

static void json_values(void **state)
{
    (void)state;
    static const char text[] =
        " {\"a\": [null, true, false, -0.5, \"x\\n\\\"\\/\"], \"b\": {}, \"c\": \"\\u20AC\\ue000\"} ";
    hal_json *root;
    good(hal_json_parse("text", text, sizeof text - 1, &root));
    const hal_json *a = hal_json_get(root, "a"), *item = a->first;
    assert_true(root->count == 3 && a->type == HAL_JSON_ARRAY && a->count == 5);
    static const hal_json_type types[] = {HAL_JSON_NULL, HAL_JSON_TRUE, HAL_JSON_FALSE, HAL_JSON_NUMBER,
                                          HAL_JSON_STRING};
    for (int i = 0; i < 5; i++, item = item->next) {
        assert_int_equal(item->type, types[i]);
        if (i == 3)
            exact(-0.5, item->number);
        if (i == 4)
            assert_string_equal(item->string, "x\n\"/");
    }
    assert_null(item);
    assert_true(hal_json_get(root, "b")->type == HAL_JSON_OBJECT && hal_json_get(root, "b")->count == 0);
    assert_string_equal(hal_json_get(root, "c")->string, "\xe2\x82\xac\xee\x80\x80");
    assert_null(hal_json_get(root, "d"));
    assert_null(hal_json_get(a, "a"));
    assert_null(hal_json_get(NULL, "a"));
    hal_json_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_machines), cmocka_unit_test(found_by_device),
        cmocka_unit_test(own_descriptions),  cmocka_unit_test(files),
        cmocka_unit_test(json_numbers),      cmocka_unit_test(json_refuses),
        cmocka_unit_test(json_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
