/* nvrtc.c - CUDA C to a cubin through NVRTC, where it is installed. A cubin before PTX: an NVRTC newer than the driver
 * writes PTX that the driver refuses. */
#include "cuda_backend.h"

typedef struct nv_program *nv_program;
enum { NVRTC_SUCCESS = 0, NVRTC_ERROR_OUT_OF_MEMORY = 1 };

struct cuda_nvrtc {
    void *library;
    int major, minor;
    const char *(*nvrtcGetErrorString)(int result);
    int (*nvrtcVersion)(int *major, int *minor);
    int (*nvrtcCreateProgram)(nv_program *program, const char *source, const char *name, int header_count,
                              const char *const *headers, const char *const *include_names);
    int (*nvrtcDestroyProgram)(nv_program *program);
    int (*nvrtcCompileProgram)(nv_program program, int option_count, const char *const *options);
    int (*nvrtcGetCUBINSize)(nv_program program, size_t *size);
    int (*nvrtcGetCUBIN)(nv_program program, char *cubin);
    int (*nvrtcGetPTXSize)(nv_program program, size_t *size);
    int (*nvrtcGetPTX)(nv_program program, char *ptx);
    int (*nvrtcGetProgramLogSize)(nv_program program, size_t *size);
    int (*nvrtcGetProgramLog)(nv_program program, char *log);
};

static bool resolve(cuda_nvrtc *nvrtc)
{
#define FIND(name) ((*(void **)&nvrtc->name = hal_library_symbol(nvrtc->library, #name)) != NULL)
    return FIND(nvrtcGetErrorString) && FIND(nvrtcVersion) && FIND(nvrtcCreateProgram) && FIND(nvrtcDestroyProgram) &&
           FIND(nvrtcCompileProgram) && FIND(nvrtcGetCUBINSize) && FIND(nvrtcGetCUBIN) && FIND(nvrtcGetPTXSize) &&
           FIND(nvrtcGetPTX) && FIND(nvrtcGetProgramLogSize) && FIND(nvrtcGetProgramLog) &&
           nvrtc->nvrtcVersion(&nvrtc->major, &nvrtc->minor) == NVRTC_SUCCESS;
#undef FIND
}

void cuda_nvrtc_free(cuda_nvrtc *nvrtc)
{
    /* The library stays loaded: each loading costs it memory that closing does not give back. */
    hal_free(nvrtc);
}

static hal_status load_locked(hal_native_device *device)
{
    const char *named = getenv("HAL_NVRTC_LIBRARY");
    const char *const usual[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    const char *const chosen[] = {named, NULL};
    cuda_nvrtc *nvrtc = hal_calloc(device->core, 1, sizeof *nvrtc);
    if (!nvrtc)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for NVRTC");
    nvrtc->library = hal_library_open(named && *named ? chosen : usual);
    if (!nvrtc->library) {
        cuda_nvrtc_free(nvrtc);
        return hal_fail_prefix(HAL_ERROR_UNAVAILABLE,
                               "cuda: CUDA C needs NVRTC, which was not found; install it, name it in "
                               "HAL_NVRTC_LIBRARY, or give cuda_ptx or cuda_cubin");
    }
    if (!resolve(nvrtc)) {
        hal_library_close(nvrtc->library);
        cuda_nvrtc_free(nvrtc);
        return hal_fail(HAL_ERROR_UNAVAILABLE, "cuda: the NVRTC library is older than 11.1 or not complete: update it");
    }
    device->nvrtc = nvrtc;
    return HAL_OK;
}

hal_status cuda_nvrtc_load(hal_native_device *device)
{
    pthread_mutex_lock(&device->lock);
    hal_status status = device->nvrtc ? HAL_OK : load_locked(device);
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* The options as one text, NUL after each: for the compiler as an array, for the cache as a key. */
typedef struct option_text {
    char *text;
    size_t size, capacity;
    int count;
} option_text;

static bool add_option(hal_core *core, option_text *options, const char *option, size_t length)
{
    if (!options->text || options->size + length + 1 > options->capacity) {
        size_t capacity = 2 * options->capacity + length + 256;
        char *text = hal_realloc(core, options->text, capacity);
        if (!text)
            return false;
        options->text = text;
        options->capacity = capacity;
    }
    memcpy(options->text + options->size, option, length);
    options->text[options->size + length] = 0;
    options->size += length + 1;
    options->count++;
    return true;
}

/* Options are shared by the source compilers: leave OpenCL's out. */
static bool add_user_options(hal_core *core, option_text *options, const char *text, bool *has_arch)
{
    for (;;) {
        text += strspn(text, " \t\n");
        size_t length = strcspn(text, " \t\n");
        if (length == 0)
            return true;
        if (strncmp(text, "-arch", 5) == 0 || strncmp(text, "--gpu-architecture", 18) == 0)
            *has_arch = true;
        if (strncmp(text, "-cl-", 4) != 0 && !add_option(core, options, text, length))
            return false;
        text += length;
    }
}

static bool make_options(hal_native_device *device, const char *user, const hal_kernel_desc *desc, bool ptx,
                         option_text *options)
{
    char option[256];
    bool has_arch = false;
    if (!add_user_options(device->core, options, user, &has_arch))
        return false;
    int length = snprintf(option, sizeof option, "-arch=%s_%u", ptx ? "compute" : "sm", device->compute_capability);
    if (!has_arch && !add_option(device->core, options, option, (size_t)length))
        return false;
    for (uint32_t i = 0; i < desc->constant_count; i++) {
        length = snprintf(option, sizeof option, "-D%s=%u", desc->constants[i].name, desc->constants[i].value);
        if (length >= (int)sizeof option || !add_option(device->core, options, option, (size_t)length))
            return false;
    }
    return true;
}

/* hal_fail with NVRTC's text and, after a failed compilation, its log. */
static hal_status fail(const cuda_nvrtc *nvrtc, int result, const char *call, const char *label, nv_program program)
{
    hal_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? HAL_ERROR_OUT_OF_MEMORY : HAL_ERROR_COMPILE;
    char *log = NULL;
    size_t size = 0;
    if (program && nvrtc->nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 1)
        log = malloc(size);
    if (log && nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS)
        log[0] = 0;
    hal_fail(status, "cuda: module \"%s\": %s (NVRTC %d.%d): %s: %s", label, call, nvrtc->major, nvrtc->minor,
             nvrtc->nvrtcGetErrorString(result), log ? log : "no log");
    free(log);
    return status;
}

/* What the compiled program is in the wanted form. */
static int get_image(const cuda_nvrtc *nvrtc, nv_program program, bool ptx, void **image, size_t *size,
                     const char **call)
{
    *call = ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize";
    int result = ptx ? nvrtc->nvrtcGetPTXSize(program, size) : nvrtc->nvrtcGetCUBINSize(program, size);
    if (result != NVRTC_SUCCESS || *size == 0 || (*image = malloc(*size)) == NULL)
        return result;
    *call = ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN";
    return ptx ? nvrtc->nvrtcGetPTX(program, *image) : nvrtc->nvrtcGetCUBIN(program, *image);
}

static hal_status compile(const cuda_nvrtc *nvrtc, const hal_native_module *module, const option_text *options,
                          bool ptx, void **image, size_t *size)
{
    nv_program program = NULL;
    const char *call = "nvrtcCreateProgram";
    hal_status status = HAL_OK;
    const char **list = calloc((size_t)options->count + 1, sizeof *list);
    *image = NULL;
    if (!list)
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for compiler options");
    const char *option = options->text;
    for (int i = 0; i < options->count; i++, option += strlen(option) + 1)
        list[i] = option;

    int result = nvrtc->nvrtcCreateProgram(&program, module->source, module->label, 0, NULL, NULL);
    if (result == NVRTC_SUCCESS) {
        call = "nvrtcCompileProgram";
        result = nvrtc->nvrtcCompileProgram(program, options->count, list);
    }
    if (result == NVRTC_SUCCESS)
        result = get_image(nvrtc, program, ptx, image, size, &call);
    if (result != NVRTC_SUCCESS)
        status = fail(nvrtc, result, call, module->label, program);
    else if (!*image)
        status = *size ? hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for a compiled program")
                       : hal_fail(HAL_ERROR_COMPILE,
                                  "cuda: module \"%s\": NVRTC wrote no cubin: options must name a real architecture "
                                  "(-arch=sm_NN)",
                                  module->label);
    if (program)
        nvrtc->nvrtcDestroyProgram(&program);
    free(list);
    if (status != HAL_OK) {
        free(*image);
        *image = NULL;
    }
    return status;
}

hal_status cuda_nvrtc_compile(hal_native_device *device, const hal_native_module *module, const hal_kernel_desc *desc,
                              bool ptx, void **image, size_t *size)
{
    option_text options = {0};
    char version[64];
    hal_status status = cuda_nvrtc_load(device);
    if (status != HAL_OK)
        return status;
    const cuda_nvrtc *nvrtc = device->nvrtc;
    if (!make_options(device, module->options, desc, ptx, &options)) {
        hal_free(options.text);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "cuda: no host memory for compiler options, or a constant's name is "
                                                 "longer than 240 bytes");
    }
    snprintf(version, sizeof version, "nvrtc %d.%d", nvrtc->major, nvrtc->minor);
    const hal_cache_part parts[] = {HAL_CACHE_TEXT(ptx ? "cuda ptx" : "cuda cubin"),
                                    HAL_CACHE_TEXT(device->key),
                                    {version, strlen(version)},
                                    {options.text, options.size},
                                    HAL_CACHE_TEXT(module->source)};
    hal_cache_key key = hal_cache_key_make(parts, sizeof parts / sizeof parts[0]);
    /* Headers of the caller's may change behind the key; those of the toolkit go with its version. */
    bool cacheable = !strstr(module->options, "-I") && !strstr(module->options, "include");
    status = cacheable ? hal_cache_load(device->core, key, image, size) : HAL_ERROR_NOT_FOUND;
    if (status == HAL_ERROR_NOT_FOUND) {
        status = compile(nvrtc, module, &options, ptx, image, size);
        if (status == HAL_OK && cacheable)
            hal_cache_store(device->core, key, *image, *size);
    }
    hal_free(options.text);
    return status;
}
