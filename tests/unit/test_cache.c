/* The on-disk cache: what it keeps, what it refuses, and what it does when it cannot. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char base[64], folder[96];
static hal_core core;
static int warnings;

static void count_warnings(void *user, hal_log_level level, const char *message)
{
    (void)user, (void)message;
    warnings += level <= HAL_LOG_WARNING;
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char child[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            remove_tree(child);
        else
            unlink(child);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static int setup(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/hal-cache-XXXXXX");
    if (mkdtemp(base) == NULL)
        return -1;
    snprintf(folder, sizeof folder, "%s/a/b", base);
    core.cache_dir = folder;
    core.log = count_warnings;
    warnings = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    remove_tree(base);
    return 0;
}

static hal_cache_key key_of(const char *text)
{
    hal_cache_part part = HAL_CACHE_TEXT(text);
    return hal_cache_key_make(&part, 1);
}

static bool loads(const char *name, const char *want)
{
    void *data;
    size_t size;
    if (hal_cache_load(&core, key_of(name), &data, &size) != HAL_OK) {
        assert_null(data);
        assert_int_equal(size, 0);
        return false;
    }
    assert_int_equal(size, strlen(want));
    assert_memory_equal(data, want, size);
    hal_free(data);
    return true;
}

static void store(const char *name, const char *data)
{
    hal_cache_store(&core, key_of(name), data, strlen(data));
}

/* The folder with the entries, and the only entry in it. */
static void find_entry(char *dir, char *file, size_t size)
{
    DIR *at;
    snprintf(dir, size, "%s/%d.%d.%d", folder, HAL_VERSION_MAJOR, HAL_VERSION_MINOR, HAL_VERSION_PATCH);
    at = opendir(dir);
    assert_non_null(at);
    file[0] = '\0';
    for (struct dirent *entry; (entry = readdir(at)) != NULL;) {
        if (entry->d_name[0] == '.' && (entry->d_name[1] == '\0' || entry->d_name[1] == '.'))
            continue;
        assert_string_equal(file, ""); /* no second entry, nothing left aside */
        snprintf(file, size, "%.150s/%.100s", dir, entry->d_name);
    }
    closedir(at);
}

static void keeps(void **state)
{
    (void)state;
    assert_false(loads("x", ""));
    store("x", "first");
    assert_true(loads("x", "first"));
    store("x", "second");
    assert_true(loads("x", "second"));
    assert_false(loads("y", ""));
    store("empty", "");
    assert_true(loads("empty", ""));
    assert_int_equal(warnings, 0);
}

static void modes(void **state)
{
    (void)state;
    char dir[256], file[256];
    struct stat info;
    mode_t old = umask(0);
    store("x", "data");
    umask(old);
    find_entry(dir, file, sizeof dir);
    assert_int_equal(stat(file, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(stat(dir, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
}

static void keys(void **state)
{
    (void)state;
    const hal_cache_part ab_c[2] = {HAL_CACHE_TEXT("ab"), HAL_CACHE_TEXT("c")};
    const hal_cache_part a_bc[2] = {HAL_CACHE_TEXT("a"), HAL_CACHE_TEXT("bc")};
    const hal_cache_part abc[1] = {HAL_CACHE_TEXT("abc")};
    const hal_cache_part more[3] = {HAL_CACHE_TEXT("ab"), HAL_CACHE_TEXT("c"), {NULL, 0}};
    hal_cache_key k[4] = {hal_cache_key_make(ab_c, 2), hal_cache_key_make(a_bc, 2), hal_cache_key_make(abc, 1),
                          hal_cache_key_make(more, 3)};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(&k[i], &k[j], sizeof k[i]);
    hal_cache_key again = hal_cache_key_make(ab_c, 2);
    assert_memory_equal(&again, &k[0], sizeof again);
}

static size_t read_file(const char *path, uint8_t *bytes, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, capacity, file);
    fclose(file);
    return size;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

/* Every byte flipped, every length, one byte more: not loaded, removed, and built anew. */
static void damage(void **state)
{
    (void)state;
    char dir[256], file[256];
    uint8_t good[512], bad[512];
    store("x", "a program that a driver would choke on");
    find_entry(dir, file, sizeof dir);
    size_t size = read_file(file, good, sizeof good - 1);
    for (size_t i = 0; i < 2 * size + 1; i++) {
        memcpy(bad, good, size);
        bad[size] = 0;
        if (i < size)
            bad[i] ^= (uint8_t)(1u << i % 8);
        write_file(file, bad, i < size ? size : i == 2 * size ? size + 1 : i - size);
        assert_false(loads("x", ""));
        assert_int_equal(access(file, F_OK), -1);
    }
    write_file(file, good, size);
    assert_true(loads("x", "a program that a driver would choke on"));
    store("x", "new");
    assert_true(loads("x", "new"));
}

/* A header that claims more than any entry may have must not lead to an allocation of that size. */
static void huge_claim(void **state)
{
    (void)state;
    char dir[256], file[256];
    uint8_t bytes[512];
    store("x", "data");
    find_entry(dir, file, sizeof dir);
    size_t size = read_file(file, bytes, sizeof bytes);
    memset(bytes + 24, 0x7f, 8);
    write_file(file, bytes, size);
    assert_false(loads("x", ""));
}

/* An entry under the name of another key: a copy or a collision of names. */
static void foreign_entry(void **state)
{
    (void)state;
    char dir[256], first[256], second[256];
    uint8_t bytes[512];
    store("x", "of x");
    find_entry(dir, first, sizeof dir);
    size_t size = read_file(first, bytes, sizeof bytes);
    unlink(first);
    store("y", "of y");
    find_entry(dir, second, sizeof dir);
    write_file(second, bytes, size);
    assert_false(loads("y", ""));
}

static void not_a_file(void **state)
{
    (void)state;
    char dir[256], file[256], target[256];
    uint8_t bytes[512];
    store("x", "data");
    find_entry(dir, file, sizeof dir);
    size_t size = read_file(file, bytes, sizeof bytes);
    snprintf(target, sizeof target, "%s/target", base);
    write_file(target, bytes, size);
    unlink(file);
    assert_int_equal(symlink(target, file), 0);
    assert_false(loads("x", ""));
    assert_int_equal(access(target, F_OK), 0); /* the link went, not what it points to */
    store("x", "data");
    unlink(file);
    assert_int_equal(mkfifo(file, 0600), 0);
    assert_false(loads("x", "")); /* and does not wait for a writer */
    assert_int_equal(mkdir(file, 0700), 0);
    assert_false(loads("x", ""));
    store("x", "data");
    assert_false(loads("x", ""));
    assert_int_equal(warnings, 1);
}

static void writable_by_others(void **state)
{
    (void)state;
    char dir[256], file[256];
    store("x", "data");
    find_entry(dir, file, sizeof dir);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(chmod(dir, i ? 0702 : 0720), 0);
        warnings = 0;
        assert_false(loads("x", ""));
        store("x", "other");
        assert_int_equal(warnings, 2);
        assert_int_equal(chmod(dir, 0700), 0);
        assert_true(loads("x", "data"));
    }
    assert_int_equal(chmod(file, 0666), 0);
    assert_false(loads("x", ""));
}

static void of_another_user(void **state)
{
    (void)state;
    char dir[256], file[256];
    store("x", "data");
    find_entry(dir, file, sizeof dir);
    if (chown(dir, 12345, (gid_t)-1) != 0) {
        print_message("[  SKIPPED ] of_another_user: only root can give a folder away\n");
        skip();
    }
    warnings = 0;
    assert_false(loads("x", ""));
    store("x", "other");
    assert_int_equal(warnings, 2);
    assert_int_equal(chown(dir, geteuid(), (gid_t)-1), 0);
    assert_true(loads("x", "data"));
}

static void no_folder(void **state)
{
    (void)state;
    char *const unusable[] = {"", NULL, "/dev/null/cache", "/proc/no/such"};
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        core.cache_dir = unusable[i];
        warnings = 0;
        store("x", "data");
        assert_false(loads("x", ""));
        assert_int_equal(warnings, i < 2 ? 0 : 1);
    }
}

/* A file size limit stands in for a full disk: the write fails half-way, and SIGXFSZ must not end the process. */
static void full_disk(void **state)
{
    (void)state;
    static char big[100000];
    char dir[256], file[256];
    memset(big, 'x', sizeof big - 1);
    store("x", "data");
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1000, 1000};
        setrlimit(RLIMIT_FSIZE, &limit);
        warnings = 0;
        store("x", big);
        store("y", big);
        void *data = NULL;
        size_t size = 0;
        bool fine = hal_cache_load(&core, key_of("x"), &data, &size) == HAL_OK && size == 4 && warnings == 2;
        sigset_t pending;
        sigpending(&pending);
        _exit(fine && !sigismember(&pending, SIGXFSZ) ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    find_entry(dir, file, sizeof dir); /* nothing is left aside */
    assert_true(loads("x", "data"));
}

/* 8 processes write and read the same 20 entries: each read finds nothing or one whole entry. */
static void many_processes(void **state)
{
    (void)state;
    static char text[50000];
    pid_t children[8];
    for (int p = 0; p < 8; p++) {
        children[p] = fork();
        if (children[p] != 0)
            continue;
        int wrong = 0;
        for (int turn = 0; turn < 100; turn++) {
            char name[32];
            void *data;
            size_t size;
            int which = turn * 7 % 20;
            snprintf(name, sizeof name, "kernel %d", which);
            if (hal_cache_load(&core, key_of(name), &data, &size) == HAL_OK) {
                const char *bytes = data;
                bool right = size == sizeof text - (size_t)which;
                for (size_t i = 0; i < size && right; i++)
                    right = bytes[i] == 'a' + which;
                wrong += !right;
                hal_free(data);
            }
            memset(text, 'a' + which, sizeof text);
            hal_cache_store(&core, key_of(name), text, sizeof text - (size_t)which);
        }
        _exit(wrong + warnings);
    }
    for (int p = 0; p < 8; p++) {
        int status = -1;
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void check_folder(const char *wanted, const char *want)
{
    char *got = hal_cache_folder(wanted);
    assert_non_null(got);
    assert_string_equal(got, want);
    free(got);
}

static void folder_choice(void **state)
{
    (void)state;
    setenv("HAL_CACHE_DIR", "/own", 1);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/me", 1);
    check_folder("/wanted", "/wanted");
    check_folder("", "");
    check_folder(NULL, "/own");
    unsetenv("HAL_CACHE_DIR");
    check_folder(NULL, "/xdg/libhal");
    setenv("XDG_CACHE_HOME", "relative", 1);
    check_folder(NULL, "/home/me/.cache/libhal");
    unsetenv("XDG_CACHE_HOME");
    check_folder(NULL, "/home/me/.cache/libhal");
    unsetenv("HOME");
    check_folder(NULL, "");
    setenv("HOME", "", 1);
    check_folder(NULL, "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(keeps),
        CASE(modes),
        CASE(keys),
        CASE(damage),
        CASE(huge_claim),
        CASE(foreign_entry),
        CASE(not_a_file),
        CASE(writable_by_others),
        CASE(of_another_user),
        CASE(no_folder),
        CASE(full_disk),
        CASE(many_processes),
        cmocka_unit_test(folder_choice),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
