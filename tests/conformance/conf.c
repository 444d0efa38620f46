/* conf.c - see conf.h. */
#include "conf.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint32_t skipped;

void conf_expect(hal_status want, hal_status got, const char *call, const char *file, int line)
{
    if (got == want)
        return;
    print_error("%s:%d: %s gave %s, not %s; last error: %s\n", file, line, call, hal_status_name(got),
                hal_status_name(want), hal_last_error());
    _fail(file, line);
}

void conf_expect_error(const char *part)
{
    const char *text = hal_last_error();
    if (text[0] != '\0' && strchr(text, '\n') == NULL && strstr(text, part) != NULL)
        return;
    fail_msg("the last error does not say '%s': %s", part, text);
}

void conf_skipped(const char *name, const char *format, ...)
{
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    print_message("skipped %s on %s: %s\n", name, conf_backend, reason);
    skipped++;
}

uint32_t conf_skip_count(void)
{
    return skipped;
}

int conf_case_setup(void **state)
{
    (void)state;
    const char *factor = getenv("HAL_TEST_SLOW"); /* under a sanitizer or a layer: how many times slower */
    alarm(60u * (factor != NULL ? (unsigned)atoi(factor) : 1u));
    return 0;
}

int conf_case_teardown(void **state)
{
    (void)state;
    alarm(0);
    return 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
typedef struct libraries {
    char names[256][256];
    uint32_t count;
} libraries;

/* Only collected here: opening one under the loader's lock waits for a thread that holds its other lock. */
static int collect(struct dl_phdr_info *info, size_t size, void *found)
{
    libraries *all = found;
    (void)size;
    if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0' && all->count < 256)
        snprintf(all->names[all->count++], sizeof all->names[0], "%s", info->dlpi_name);
    return 0;
}
#endif

/* Under a sanitizer, keep the drivers' libraries mapped: what they do is told by the library's name, and a library that
 * is gone has none. Some are unloaded again when their devices have been listed, so those are loaded first. */
static void pin_drivers(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static const char *const early[] = {"libvulkan_lvp.so"};
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++)
        dlopen(early[i], RTLD_LAZY | RTLD_NODELETE);
    libraries *all = calloc(1, sizeof *all);
    assert_non_null(all);
    dl_iterate_phdr(collect, all);
    for (uint32_t i = 0; i < all->count; i++)
        dlopen(all->names[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    free(all);
#endif
}

hal_status conf_try_open(const char *limits, hal_device **device)
{
    pin_drivers();
    hal_status status = hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .limits = limits), device);
    pin_drivers();
    return status;
}

hal_device *conf_open(const char *limits)
{
    hal_device *device;
    OK(conf_try_open(limits, &device));
    return device;
}

typedef struct known_kernel {
    const char *name;
    hal_access bindings[3];
    uint32_t binding_count;
    uint32_t args_size;
    uint32_t group;
    bool splittable;
} known_kernel;

static const known_kernel known[] = {
    {"fill_index", {HAL_WRITE}, 1, sizeof(conf_fill), 64, false},
    {"add_f32", {HAL_READ, HAL_READ, HAL_WRITE}, 3, sizeof(conf_count), 64, false},
    {"scale_u32", {HAL_READ_WRITE}, 1, sizeof(conf_scale), 64, false},
    {"copy_u32", {HAL_READ, HAL_WRITE}, 2, sizeof(conf_count), 64, false},
    {"spin", {HAL_WRITE}, 1, 4, 1, false},
    {"group_mark", {HAL_READ_WRITE}, 1, sizeof(conf_mark), 1, true},
    {"fill_const", {HAL_WRITE}, 1, sizeof(conf_count), 64, false},
    {"view_copy", {HAL_READ, HAL_WRITE}, 2, sizeof(conf_count), 64, false},
};

hal_kernel_desc conf_kernel_desc(const char *name)
{
    size_t length = strlen(name);
    bool offset = length > 4 && strcmp(name + length - 4, "_off") == 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const known_kernel *kernel = &known[i];
        if (strncmp(kernel->name, name, length - (offset ? 4 : 0)) != 0 ||
            strlen(kernel->name) != length - (offset ? 4 : 0))
            continue;
        hal_kernel_desc desc = {.struct_size = sizeof desc,
                                .binding_count = kernel->binding_count,
                                .args_size = kernel->args_size,
                                .group = {kernel->group, 1, 1},
                                .splittable = kernel->splittable,
                                .abi = offset ? HAL_ABI_OFFSET : HAL_ABI_PLAIN};
        memcpy(desc.bindings, kernel->bindings, sizeof kernel->bindings);
        return desc;
    }
    fail_msg("no test kernel %s", name);
    return (hal_kernel_desc){0};
}

char *conf_read(const char *name, size_t *size)
{
    const char *const folders[2] = {CONF_KERNELS, CONF_BUILT_KERNELS};
    FILE *file = NULL;
    for (int i = 0; i < 2 && file == NULL; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        file = fopen(path, "rb");
    }
    if (file == NULL)
        return NULL;
    char *text = malloc(1 << 20);
    *size = text != NULL ? fread(text, 1, (1 << 20) - 1, file) : 0;
    fclose(file);
    if (text != NULL)
        text[*size] = '\0';
    return text;
}

hal_status conf_module(hal_device *device, const char *name, hal_module **module)
{
    char file[128];
    size_t size = 0, spirv_size = 0;
    snprintf(file, sizeof file, "%s.spv", name);
    char *source = conf_read("test_kernels.cl", &size);
    char *ptx = conf_read("test_kernels.ptx", &size);
    char *spirv = conf_read(file, &spirv_size);
    hal_status status = hal_module_create(
        device,
        HAL_MODULE(.label = name, .opencl_c = source, .cuda_ptx = ptx, .spirv = spirv, .spirv_size = spirv_size),
        module);
    free(source);
    free(ptx);
    free(spirv);
    return status;
}

hal_status conf_try_kernel(hal_device *device, const char *name, hal_kernel **kernel)
{
    hal_module *module;
    hal_kernel_desc desc = conf_kernel_desc(name);
    *kernel = NULL;
    hal_status status = conf_module(device, name, &module);
    if (status != HAL_OK)
        return status;
    status = hal_kernel_create(module, name, &desc, kernel);
    hal_module_destroy(module); /* the kernel keeps it */
    return status;
}

hal_kernel *conf_kernel(hal_device *device, const char *name)
{
    hal_kernel *kernel;
    OK(conf_try_kernel(device, name, &kernel));
    return kernel;
}

static hal_kernel *shared[2 * sizeof known / sizeof known[0]];
static const char *shared_names[2 * sizeof known / sizeof known[0]];

hal_kernel *conf_shared(const char *name)
{
    size_t i = 0;
    while (shared_names[i] != NULL && strcmp(shared_names[i], name) != 0)
        i++;
    if (shared[i] == NULL) {
        shared[i] = conf_kernel(conf_device, name);
        shared_names[i] = name;
    }
    return shared[i];
}

void conf_release_shared(void)
{
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        hal_kernel_destroy(shared[i]);
}

hal_buffer *conf_buffer(hal_device *device, uint64_t size)
{
    hal_buffer *buffer;
    OK(hal_buffer_create(device, HAL_BUFFER(.size = size), &buffer));
    return buffer;
}

hal_stream *conf_stream(hal_device *device)
{
    hal_stream *stream;
    OK(hal_stream_create(device, NULL, &stream));
    return stream;
}

hal_event *conf_event(hal_device *device)
{
    hal_event *event;
    OK(hal_event_create(device, NULL, &event));
    return event;
}

hal_event *conf_gate(hal_device *device)
{
    hal_event *event;
    OK(hal_event_create(device, HAL_EVENT(.gate = true, .label = "the gate"), &event));
    return event;
}

hal_cmdlist *conf_list(hal_device *device)
{
    hal_cmdlist *list;
    OK(hal_cmdlist_create(device, NULL, &list));
    return list;
}

void conf_write(hal_stream *stream, hal_buffer *buffer, uint64_t offset, const void *data, uint64_t size)
{
    OK(hal_cmd_upload(hal_stream_cmdlist(stream), hal_range(buffer, offset, size), data, size));
    OK(hal_stream_wait(stream, SOON));
}

void conf_get(hal_stream *stream, hal_buffer *buffer, uint64_t offset, void *data, uint64_t size)
{
    OK(hal_cmd_download(hal_stream_cmdlist(stream), data, hal_range(buffer, offset, size)));
    OK(hal_stream_wait(stream, SOON));
}

void conf_check_u32(hal_stream *stream, hal_buffer *buffer, uint64_t first, uint32_t n, uint32_t base, uint32_t step)
{
    uint32_t *got = malloc(n * sizeof *got);
    assert_non_null(got);
    memset(got, 0xa5, n * sizeof *got);
    conf_get(stream, buffer, first * sizeof *got, got, n * sizeof *got);
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != base + i * step)
            fail_msg("element %llu is %u, not %u", (unsigned long long)(first + i), got[i], base + i * step);
    free(got);
}

hal_status conf_do_fill(hal_cmdlist *list, hal_kernel *fill, hal_span out, uint32_t n, uint32_t base)
{
    return hal_cmd_dispatch(list, fill, conf_grid(n), HAL_SPANS(out), &(conf_fill){n, base}, sizeof(conf_fill));
}

hal_status conf_do_scale(hal_cmdlist *list, hal_kernel *scale, hal_span y, uint32_t n, uint32_t mul, uint32_t add)
{
    return hal_cmd_dispatch(list, scale, conf_grid(n), HAL_SPANS(y), &(conf_scale){n, mul, add}, sizeof(conf_scale));
}

hal_status conf_do_copy(hal_cmdlist *list, hal_kernel *copy, hal_span src, hal_span dst, uint32_t n)
{
    return hal_cmd_dispatch(list, copy, conf_grid(n), HAL_SPANS(src, dst), &(conf_count){n}, sizeof(conf_count));
}

hal_status conf_do_add(hal_cmdlist *list, hal_kernel *add, hal_span a, hal_span b, hal_span c, uint32_t n)
{
    return hal_cmd_dispatch(list, add, conf_grid(n), HAL_SPANS(a, b, c), &(conf_count){n}, sizeof(conf_count));
}

static void spins(hal_stream *stream, hal_kernel *spin, hal_buffer *out, uint32_t iterations, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), spin, HAL_GRID1(1), HAL_SPANS(hal_whole(out)), &iterations, 4));
}

/* ns that one dispatch of many takes with that many iterations, at best. */
static uint64_t measure_spin(hal_stream *stream, hal_kernel *spin, hal_buffer *out, uint32_t iterations)
{
    uint64_t least = UINT64_MAX;
    for (int turn = 0; turn < 5; turn++) {
        uint64_t start = conf_now();
        spins(stream, spin, out, iterations, 8);
        OK(hal_stream_wait(stream, SOON));
        uint64_t took = (conf_now() - start) / 8;
        least = took < least ? took : least;
    }
    return least;
}

void conf_busy(hal_stream *stream, hal_kernel *spin, hal_buffer *out, uint32_t ms)
{
    /* Some drivers cap a loop at 65,535 turns; longer ones are used only where they really take longer. */
    static uint32_t iterations;
    static uint64_t each;
    if (iterations == 0) {
        uint64_t brief = measure_spin(stream, spin, out, 60000);
        uint64_t longer = measure_spin(stream, spin, out, 1000000);
        iterations = longer > 8 * brief ? 1000000 : 60000;
        each = longer > 8 * brief ? longer : brief;
    }
    /* Twice as long as asked for: the machine may have been slow when it was measured. */
    uint64_t wanted = HAL_MILLISECONDS(ms) * 2;
    uint32_t turns = wanted < each ? (uint32_t)(iterations * wanted / each) + 1 : iterations;
    spins(stream, spin, out, turns, (uint32_t)(wanted / each) + 1);
    OK(hal_stream_flush(stream));
}

uint64_t conf_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t conf_rss(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void conf_check_growth(uint64_t start, uint64_t allowance)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)start, (void)allowance;
#else
    uint64_t now = conf_rss();
    if (now > start + allowance)
        fail_msg("the process grew from %llu to %llu KiB", (unsigned long long)start / 1024,
                 (unsigned long long)now / 1024);
#endif
}

uint32_t conf_handles(void)
{
    uint32_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* environ with changes; the array and nothing else is allocated. */
static char **changed_environment(const char *const *changes)
{
    size_t count = 0, more = 0;
    while (environ[count] != NULL)
        count++;
    while (changes != NULL && changes[more] != NULL)
        more++;
    char **out = calloc(count + more + 1, sizeof *out);
    assert_non_null(out);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool keep = true;
        for (size_t k = 0; k < more && keep; k++) {
            size_t name = strcspn(changes[k], "=");
            keep = strncmp(environ[i], changes[k], name) != 0 || environ[i][name] != '=';
        }
        if (keep)
            out[used++] = environ[i];
    }
    for (size_t k = 0; k < more; k++)
        if (strchr(changes[k], '=') != NULL)
            out[used++] = (char *)(uintptr_t)changes[k];
    return out;
}

int conf_run_self(const char *argument, const char *const *environment, char *text, size_t size)
{
    int ends[2], status = -1;
    pid_t child;
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    char **env = changed_environment(environment);
    char *const arguments[] = {(char *)"conformance", (char *)"--child", (char *)(uintptr_t)argument, NULL};
    int failed = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, env);
    posix_spawn_file_actions_destroy(&actions);
    free(env);
    close(ends[1]);
    assert_int_equal(failed, 0);
    size_t used = 0;
    for (ssize_t got; used + 1 < size && (got = read(ends[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
