/* The kernel cache as a device uses it. The file format has its own test (tests/unit/test_cache.c). */
#include "conf.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

typedef void (*entry_fn)(const char *path);

/* Call `each` for every file below; how many there are. */
static uint32_t walk(const char *path, entry_fn each)
{
    uint32_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char child[512];
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (lstat(child, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode)) {
            assert_int_equal(info.st_mode & 0777, 0700);
            count += walk(child, each);
            continue;
        }
        assert_int_equal(info.st_mode & 0777, 0600);
        count++;
        if (each != NULL)
            each(child);
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

static void remove_file(const char *path)
{
    unlink(path);
}

static void empty_file(const char *path)
{
    assert_int_equal(truncate(path, 0), 0);
}

static void halve_file(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size / 2), 0);
}

static void spoil_file(const char *path)
{
    struct stat info = {0};
    int file = open(path, O_RDWR);
    assert_true(file >= 0 && fstat(file, &info) == 0);
    for (int i = 1; i < 4; i++) {
        uint8_t byte;
        off_t at = info.st_size * i / 4;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        byte ^= 0x41;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
    }
    close(file);
}

static int setup(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/hal-conf-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : conf_case_setup(state);
}

static int teardown(void **state)
{
    char path[128];
    walk(folder, remove_file);
    snprintf(path, sizeof path, "%s/%s", folder, hal_version());
    rmdir(path);
    rmdir(folder);
    return conf_case_teardown(state);
}

/* Open a device with that cache, build a kernel and use it. */
static void build_and_use(const char *cache)
{
    hal_device *device;
    OK(hal_device_open(HAL_DEVICE(.select = getenv("HAL_BACKEND"), .cache_dir = cache), &device));
    hal_stream *stream = conf_stream(device);
    hal_buffer *buffer = conf_buffer(device, 4096);
    hal_kernel *fill = conf_kernel(device, "fill_index");
    OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(buffer), 1024, 9));
    conf_check_u32(stream, buffer, 0, 1024, 9, 1);
    hal_kernel_destroy(fill);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

static void entries_appear(void **state)
{
    (void)state;
    build_and_use(folder);
    uint32_t count = walk(folder, NULL);
    if (count == 0 && strcmp(conf_backend, "opencl") != 0)
        SKIP("this driver gives no binary to keep");
    assert_true(count > 0);
    build_and_use(folder);
    assert_int_equal(walk(folder, NULL), count); /* found, not built anew */
}

static void survives_damage(void **state)
{
    (void)state;
    const entry_fn damages[] = {spoil_file, halve_file, empty_file, remove_file};
    build_and_use(folder);
    uint32_t count = walk(folder, NULL);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        walk(folder, damages[i]);
        build_and_use(folder);
        assert_int_equal(walk(folder, NULL), count);
    }
}

static void works_without(void **state)
{
    (void)state;
    build_and_use("");
    build_and_use("/dev/null/no-folder");
    build_and_use("/proc/no-folder");
    assert_int_equal(chmod(folder, 0500), 0);
    build_and_use(folder);
    assert_int_equal(chmod(folder, 0700), 0);
}

/* HOME and XDG_CACHE_HOME unset: no cache, no failure. */
static void works_without_home(void **state)
{
    (void)state;
    static const char *const bare[] = {"HOME", "XDG_CACHE_HOME", "HAL_CACHE_DIR", NULL};
    char text[4096];
    assert_int_equal(conf_run_self("compile", bare, text, sizeof text), 0);
}

/* 8 processes start at once with one empty folder; each builds every kernel and checks one. */
static void many_processes(void **state)
{
    (void)state;
    char variable[96], text[1024];
    snprintf(variable, sizeof variable, "HAL_CACHE_DIR=%s", folder);
    const char *const environment[] = {variable, NULL};
    pid_t children[8];
    for (int i = 0; i < 8; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(conf_run_self("compile", environment, text, sizeof text)); /* starts a new program image */
    }
    for (int i = 0; i < 8; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    walk(folder, NULL);
    build_and_use(folder);
}

int conf_child_compile(void)
{
    static const char *const names[] = {"fill_index", "add_f32", "scale_u32", "copy_u32", "group_mark"};
    hal_device *device;
    hal_stream *stream;
    hal_buffer *buffer;
    hal_kernel *kernels[5];
    uint32_t got[256];
    if (hal_device_open(NULL, &device) != HAL_OK || hal_stream_create(device, NULL, &stream) != HAL_OK ||
        hal_buffer_create(device, HAL_BUFFER(.size = sizeof got), &buffer) != HAL_OK)
        return 1;
    for (int i = 0; i < 5; i++)
        if (conf_try_kernel(device, names[i], &kernels[i]) != HAL_OK) {
            printf("%s\n", hal_last_error());
            return 2;
        }
    if (conf_do_fill(hal_stream_cmdlist(stream), kernels[0], hal_whole(buffer), 256, 3) != HAL_OK ||
        hal_cmd_download(hal_stream_cmdlist(stream), got, hal_whole(buffer)) != HAL_OK ||
        hal_stream_wait(stream, SOON) != HAL_OK || got[0] != 3 || got[255] != 258)
        return 3;
    for (int i = 0; i < 5; i++)
        hal_kernel_destroy(kernels[i]);
    hal_buffer_destroy(buffer);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
    return 0;
}

#define CACHE_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int conf_test_cache(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_CASE(entries_appear),     CACHE_CASE(survives_damage), CACHE_CASE(works_without),
        CACHE_CASE(works_without_home), CACHE_CASE(many_processes),
    };
    return RUN("cache", tests);
}
