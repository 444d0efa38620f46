/* glsl.c - compiles GLSL through shaderc, which is loaded when first needed and not needed otherwise. */
#include "vulkan_backend.h"

/* The few parts of <shaderc/shaderc.h> used here; its ABI is stable, and the header need not be installed. */
enum { SHADERC_COMPUTE = 2, SHADERC_ENV_VULKAN = 0, SHADERC_OPTIMISE_SPEED = 2, SHADERC_SUCCESS = 0 };
#define SHADERC_VULKAN_1_2 ((1u << 22) | (2u << 12))

typedef struct shaderc_compiler *shaderc_compiler_t;
typedef struct shaderc_options *shaderc_options_t;
typedef struct shaderc_result *shaderc_result_t;

struct vk_glsl {
    void *library;
    shaderc_compiler_t (*compiler_initialize)(void);
    void (*compiler_release)(shaderc_compiler_t);
    shaderc_options_t (*compile_options_initialize)(void);
    void (*compile_options_release)(shaderc_options_t);
    void (*compile_options_add_macro_definition)(shaderc_options_t, const char *, size_t, const char *, size_t);
    void (*compile_options_set_optimization_level)(shaderc_options_t, int);
    void (*compile_options_set_target_env)(shaderc_options_t, int, uint32_t);
    shaderc_result_t (*compile_into_spv)(shaderc_compiler_t, const char *, size_t, int, const char *, const char *,
                                         shaderc_options_t);
    void (*result_release)(shaderc_result_t);
    size_t (*result_get_length)(shaderc_result_t);
    const char *(*result_get_bytes)(shaderc_result_t);
    const char *(*result_get_error_message)(shaderc_result_t);
    int (*result_get_compilation_status)(shaderc_result_t);
    void (*get_spv_version)(unsigned *, unsigned *); /* missing from some builds */
};

static hal_status load(hal_native_device *device, struct vk_glsl **out)
{
    static const char *const names[] = {"libshaderc_shared.so.1", "libshaderc.so.1", "libshaderc_shared.so", NULL};
    struct vk_glsl *glsl = hal_calloc(device->core, 1, sizeof *glsl);
    if (!glsl)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory while loading shaderc");
    glsl->library = hal_library_open(names);
    if (!glsl->library) {
        hal_free(glsl);
        return hal_fail_prefix(
            HAL_ERROR_UNAVAILABLE,
            "vulkan: GLSL needs a shaderc library that loads (libshaderc1; Debian 12's lacks symbols), or give "
            "SPIR-V");
    }
    const char *missing = NULL;
#define SYMBOL(name)                                                                                                   \
    *(void **)&glsl->name = hal_library_symbol(glsl->library, "shaderc_" #name);                                       \
    if (!glsl->name)                                                                                                   \
        missing = "shaderc_" #name;
    SYMBOL(compiler_initialize)
    SYMBOL(compiler_release)
    SYMBOL(compile_options_initialize)
    SYMBOL(compile_options_release)
    SYMBOL(compile_options_add_macro_definition)
    SYMBOL(compile_options_set_optimization_level)
    SYMBOL(compile_options_set_target_env)
    SYMBOL(compile_into_spv)
    SYMBOL(result_release)
    SYMBOL(result_get_length)
    SYMBOL(result_get_bytes)
    SYMBOL(result_get_error_message)
    SYMBOL(result_get_compilation_status)
#undef SYMBOL
    *(void **)&glsl->get_spv_version = hal_library_symbol(glsl->library, "shaderc_get_spv_version");
    if (missing) {
        hal_library_close(glsl->library);
        hal_free(glsl);
        return hal_fail(HAL_ERROR_UNAVAILABLE, "vulkan: the shaderc library has no %s: install a newer libshaderc1",
                        missing);
    }
    *out = glsl;
    return HAL_OK;
}

static hal_status loaded(hal_native_device *device)
{
    hal_status status = HAL_OK;
    pthread_mutex_lock(&device->glsl_lock);
    if (!device->glsl)
        status = load(device, &device->glsl);
    pthread_mutex_unlock(&device->glsl_lock);
    return status;
}

void hal_vk_glsl_close(hal_native_device *device)
{
    if (!device->glsl)
        return;
    hal_library_close(device->glsl->library);
    hal_free(device->glsl);
    device->glsl = NULL;
}

/* Of the options, which are shared with other languages' compilers, shaderc understands -DNAME and -DNAME=VALUE. */
static void add_macros(const struct vk_glsl *glsl, shaderc_options_t to, const char *options)
{
    for (const char *at = options; at && *at;) {
        at += strspn(at, " \t\n");
        size_t length = strcspn(at, " \t\n");
        if (length > 2 && strncmp(at, "-D", 2) == 0) {
            const char *name = at + 2;
            const char *equals = memchr(name, '=', length - 2);
            size_t name_length = equals ? (size_t)(equals - name) : length - 2;
            const char *value = equals ? equals + 1 : "1";
            size_t value_length = equals ? length - 3 - name_length : 1;
            glsl->compile_options_add_macro_definition(to, name, name_length, value, value_length);
        }
        at += length;
    }
}

static void add_constants(const struct vk_glsl *glsl, shaderc_options_t to, const hal_constant *constants,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char value[16];
        if (!constants[i].name)
            continue;
        snprintf(value, sizeof value, "%u", constants[i].value);
        glsl->compile_options_add_macro_definition(to, constants[i].name, strlen(constants[i].name), value,
                                                   strlen(value));
    }
}

static hal_status take_result(hal_native_device *device, shaderc_result_t result, const char *label, uint32_t **words,
                              size_t *size)
{
    const struct vk_glsl *glsl = device->glsl;
    if (!result)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: shaderc ran out of memory on module '%s'", label);
    if (glsl->result_get_compilation_status(result) != SHADERC_SUCCESS)
        return hal_fail(HAL_ERROR_COMPILE, "vulkan: GLSL of module '%s': %s", label,
                        glsl->result_get_error_message(result));
    *size = glsl->result_get_length(result);
    *words = hal_calloc(device->core, 1, *size);
    if (!*words)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "vulkan: out of host memory for the SPIR-V of module '%s'", label);
    memcpy(*words, glsl->result_get_bytes(result), *size);
    return HAL_OK;
}

static hal_status compile(hal_native_device *device, const char *source, const char *label, const char *options,
                          const hal_constant *constants, uint32_t constant_count, uint32_t **words, size_t *size)
{
    const struct vk_glsl *glsl = device->glsl;
    shaderc_compiler_t compiler = glsl->compiler_initialize();
    shaderc_options_t how = glsl->compile_options_initialize();
    hal_status status;
    if (!compiler || !how) {
        status = hal_fail(HAL_ERROR_BACKEND, "vulkan: shaderc could not be initialised");
        goto out;
    }
    glsl->compile_options_set_target_env(how, SHADERC_ENV_VULKAN, SHADERC_VULKAN_1_2);
    glsl->compile_options_set_optimization_level(how, SHADERC_OPTIMISE_SPEED);
    add_macros(glsl, how, options);
    add_constants(glsl, how, constants, constant_count);
    shaderc_result_t result =
        glsl->compile_into_spv(compiler, source, strlen(source), SHADERC_COMPUTE, label, "main", how);
    status = take_result(device, result, label, words, size);
    if (result)
        glsl->result_release(result);
out:
    if (how)
        glsl->compile_options_release(how);
    if (compiler)
        glsl->compiler_release(compiler);
    return status;
}

hal_status hal_vk_glsl_compile(hal_native_device *device, const char *source, const char *label, const char *options,
                               const hal_constant *constants, uint32_t constant_count, uint32_t **words, size_t *size)
{
    hal_status status = loaded(device);
    if (status != HAL_OK)
        return status;
    unsigned version[2] = {0, 0};
    if (device->glsl->get_spv_version)
        device->glsl->get_spv_version(&version[0], &version[1]);
    hal_cache_part parts[4 + 2 * HAL_MAX_BINDINGS] = {
        HAL_CACHE_TEXT("vulkan glsl 1"),
        {version, sizeof version},
        HAL_CACHE_TEXT(source),
        HAL_CACHE_TEXT(options),
    };
    size_t count = 4;
    for (uint32_t i = 0; i < constant_count && count + 2 <= sizeof parts / sizeof parts[0]; i++) {
        parts[count++] = HAL_CACHE_TEXT(constants[i].name);
        parts[count++] = (hal_cache_part){&constants[i].value, sizeof constants[i].value};
    }
    /* More constants than the key has room for: compile every time rather than risk another kernel's program. */
    bool cacheable = count == 4 + 2 * (size_t)constant_count;
    hal_cache_key key = hal_cache_key_make(parts, count);
    void *data = NULL;
    if (cacheable && hal_cache_load(device->core, key, &data, size) == HAL_OK) {
        *words = data;
        return HAL_OK;
    }
    status = compile(device, source, label, options, constants, constant_count, words, size);
    if (status == HAL_OK && cacheable)
        hal_cache_store(device->core, key, *words, *size);
    return status;
}
