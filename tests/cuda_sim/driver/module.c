/* module.c - the stand-in driver's modules: PTX that the device takes; any other image is refused as a driver refuses
 * what is not for its device. */
#include "drv.h"

#include <elf.h>

enum { KEPT_IMAGES = 16 };

/* Images without variables of their own never change: those of the last texts are kept, as a driver keeps what it
 * compiled. */
static drv_image *kept;

/* -- images -------------------------------------------------------------------------------------------------------- */

void drv_image_drop(drv_image *image)
{
    if (--image->refs > 0)
        return;
    ptx_module_free(image->code);
    free(image);
}

static uint64_t hash(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a, 8 bytes at a time */
    for (; size >= 8; text += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, text, sizeof word);
        h = (h ^ word) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    for (; size > 0; text++, size--)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* A reference to the kept image of that text, or NULL. */
static drv_image *find_kept(uint64_t text_hash, size_t size)
{
    for (drv_image *image = kept; image; image = image->next) {
        if (image->hash == text_hash && image->size == size) {
            image->refs++;
            return image;
        }
    }
    return NULL;
}

static void keep(drv_image *image)
{
    drv_image **last = &kept;
    unsigned count = 0;
    image->refs++;
    image->next = kept;
    kept = image;
    for (; *last && count < KEPT_IMAGES; last = &(*last)->next)
        count++;
    drv_image *oldest = *last;
    *last = NULL;
    if (oldest)
        drv_image_drop(oldest);
}

/* With the lock held, which is given up while the text is read. */
static drv_image *load_image(const char *text, size_t size, char *error, size_t error_size)
{
    uint64_t text_hash = hash(text, size);
    drv_image *image = find_kept(text_hash, size);
    if (image)
        return image;
    pthread_mutex_unlock(&drv_lock);
    ptx_module *code = ptx_module_load(text, size, error, error_size);
    pthread_mutex_lock(&drv_lock);
    if (!code)
        return NULL;
    image = drv_alloc(sizeof *image);
    *image = (drv_image){.refs = 1, .hash = text_hash, .size = size, .code = code};
    if (code->data_size == 0)
        keep(image);
    return image;
}

/* -- what the device takes ----------------------------------------------------------------------------------------- */

/* The newest PTX ISA of a driver: the PTX ISA document, "Release Notes". */
static int newest_ptx(int driver)
{
    static const struct {
        int driver, ptx;
    } known[] = {{13010, 91}, {13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
                 {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80}, {11080, 78}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (driver >= known[i].driver)
            return known[i].ptx;
    return 70;
}

/* "sm_90" runs on 9.0 and all later, "sm_100f" on 10.x from 10.0 on, "sm_90a" on 9.0 only. */
static bool is_for_device(int target, char suffix)
{
    int device = 10 * drv_set.profile->major + drv_set.profile->minor;
    if (suffix == 'a')
        return target == device;
    if (suffix == 'f')
        return target <= device && target / 10 == device / 10;
    return target <= device;
}

static nv_result refuse(char *log, size_t size, nv_result result, const char *why)
{
    snprintf(log, size, "%s", why);
    return result;
}

/* What a driver says before it compiles. */
static nv_result check_ptx(const char *text, char *log, size_t log_size)
{
    int major, minor, target;
    char suffix = 0;
    const char *version = strstr(text, ".version"), *arch = strstr(text, ".target sm_");
    if (!version || sscanf(version, ".version %d.%d", &major, &minor) != 2)
        return refuse(log, log_size, NV_ERROR_INVALID_PTX, "Missing .version directive");
    if (!arch || sscanf(arch, ".target sm_%d%c", &target, &suffix) < 1)
        return refuse(log, log_size, NV_ERROR_INVALID_PTX, "Missing .target directive");
    if (10 * major + minor > newest_ptx(drv_set.version))
        return refuse(log, log_size, NV_ERROR_UNSUPPORTED_PTX_VERSION, "Unsupported .version");
    if (!is_for_device(target, suffix))
        return refuse(log, log_size, NV_ERROR_NO_BINARY_FOR_GPU, "The target is not for this device");
    return NV_SUCCESS;
}

static nv_result check_elf(const uint8_t *image)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    /* One for this very device cannot be executed either: machine code is refused altogether. */
    return header.e_machine == EM_CUDA ? NV_ERROR_NO_BINARY_FOR_GPU : NV_ERROR_INVALID_IMAGE;
}

/* -- modules ------------------------------------------------------------------------------------------------------- */

static void make_module(nv_module *out, drv_image *image)
{
    drv_module *module = drv_new(sizeof *module, DRV_MODULE, drv_current());
    module->image = image;
    if (image->code->data_size > 0)
        module->globals = drv_note(DRV_GLOBALS, image->code->data, image->code->data_size);
    *out = (nv_module)module;
}

static nv_result load(nv_module *out, const void *data, char *log, size_t log_size)
{
    char error[512] = "";
    drv_image *image = NULL;
    nv_result result;
    if (!out || !data)
        return drv_misuse(NV_ERROR_INVALID_VALUE, "a module without an image");
    if (memcmp(data, ELFMAG, SELFMAG) == 0)
        return check_elf(data);
    result = check_ptx(data, error, sizeof error);
    if (result == NV_SUCCESS && !(image = load_image(data, strlen(data), error, sizeof error)))
        result = NV_ERROR_INVALID_PTX;
    if (result == NV_SUCCESS)
        make_module(out, image);
    else if (log && log_size > 0)
        snprintf(log, log_size, "cuda_sim: %s", error);
    return result;
}

nv_result cuModuleLoadDataEx(nv_module *out, const void *image, unsigned int option_count, nv_jit_option *options,
                             void **values)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    char *log = NULL;
    size_t log_size = 0;
    for (unsigned i = 0; i < option_count; i++) {
        if (options[i] == NV_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        else if (options[i] == NV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            log_size = (uintptr_t)values[i];
    }
    return drv_leave(load(out, image, log, log_size));
}

nv_result cuModuleLoadData(nv_module *out, const void *image)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    return drv_leave(load(out, image, NULL, 0));
}

nv_result cuModuleUnload(nv_module handle)
{
    DRV_ENTER(DRV_NEEDS_INIT);
    drv_module *module = (drv_module *)handle;
    nv_result result = drv_check(module, DRV_MODULE, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    for (drv_function *function = module->functions, *next; function; function = next) {
        next = function->next;
        drv_bury(&function->object);
    }
    if (module->globals)
        drv_forget(module->globals);
    drv_image_drop(module->image);
    drv_bury(&module->object);
    return drv_leave(NV_SUCCESS);
}

nv_result cuModuleGetGlobal_v2(nv_ptr *pointer, size_t *bytes, nv_module handle, const char *name)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_module *module = (drv_module *)handle;
    nv_result result = drv_check(module, DRV_MODULE, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    const ptx_symbol *symbol = ptx_module_symbol(module->image->code, name);
    if (!symbol)
        return drv_leave(NV_ERROR_NOT_FOUND);
    if (pointer)
        *pointer = (uintptr_t)module->image->code->data + symbol->offset;
    if (bytes)
        *bytes = symbol->size;
    return drv_leave(NV_SUCCESS);
}

/* -- functions ----------------------------------------------------------------------------------------------------- */

static drv_function *make_function(drv_module *module, const ptx_function *code)
{
    drv_function *function = drv_new(sizeof *function, DRV_FUNCTION, drv_current());
    function->image = module->image;
    function->code = code;
    function->max_dynamic_shared =
        code->shared_bytes < DRV_SHARED_DEFAULT ? DRV_SHARED_DEFAULT - code->shared_bytes : 0;
    memcpy(function->cluster, code->cluster, sizeof function->cluster);
    function->carveout = -1;
    function->next = module->functions;
    module->functions = function;
    return function;
}

nv_result cuModuleGetFunction(nv_function *out, nv_module handle, const char *name)
{
    DRV_ENTER(DRV_NEEDS_CONTEXT);
    drv_module *module = (drv_module *)handle;
    nv_result result = drv_check(module, DRV_MODULE, __func__);
    if (result != NV_SUCCESS)
        return drv_leave(result);
    const ptx_function *code = ptx_module_entry(module->image->code, name);
    if (!code)
        return drv_leave(NV_ERROR_NOT_FOUND);
    drv_function *function = module->functions;
    while (function && function->code != code)
        function = function->next;
    *out = (nv_function)(function ? function : make_function(module, code));
    return drv_leave(NV_SUCCESS);
}
