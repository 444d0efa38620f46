/* cache.c - the on-disk cache of compiled programs.
 *
 * An entry is one file, FOLDER/VERSION/KEY.bin: a header with the key, the size and a checksum of everything, then the
 * payload. A driver may crash on a damaged binary, so nothing is handed out that does not check. Entries are written
 * aside and renamed: readers see all of one or none. The folder must be the user's own, or it is not used: whoever can
 * write to it decides what code runs. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ENTRY_MAX                         (256u << 20)
#define TEXT(x)                           #x
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)
#define HAL_CACHE_VERSION                 VERSION_TEXT(HAL_VERSION_MAJOR, HAL_VERSION_MINOR, HAL_VERSION_PATCH)
#define MAGIC                             "libhal\1\n"

typedef struct cache_header {
    char magic[8];
    uint64_t key[2];
    uint64_t size;        /* of the payload */
    uint64_t checksum[2]; /* XXH3-128 of the fields above and the payload */
} cache_header;

hal_cache_key hal_cache_key_make(const hal_cache_part *parts, size_t count)
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    /* Each part is led by its length, so that "ab","c" and "a","bc" differ. */
    for (size_t i = 0; i < count; i++) {
        uint64_t size = parts[i].data ? parts[i].size : 0;
        XXH3_128bits_update(&state, &size, sizeof size);
        if (size > 0)
            XXH3_128bits_update(&state, parts[i].data, (size_t)size);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    return (hal_cache_key){{hash.low64, hash.high64}};
}

static void checksum(const cache_header *header, const void *data, uint64_t out[2])
{
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, header, offsetof(cache_header, checksum));
    XXH3_128bits_update(&state, data, (size_t)header->size);
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    out[0] = hash.low64;
    out[1] = hash.high64;
}

static char *join(const char *a, const char *b)
{
    size_t size = strlen(a) + strlen(b) + 1;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s%s", a, b);
    return path;
}

char *hal_cache_folder(const char *wanted)
{
    if (wanted != NULL)
        return strdup(wanted);
    const char *own = getenv("HAL_CACHE_DIR");
    if (own != NULL)
        return strdup(own);
    /* The XDG rules: a relative path is to be ignored. */
    const char *xdg = getenv("XDG_CACHE_HOME");
    if (xdg != NULL && xdg[0] == '/')
        return join(xdg, "/libhal");
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/')
        return join(home, "/.cache/libhal");
    return strdup("");
}

static void entry_name(hal_cache_key key, char name[48])
{
    snprintf(name, 48, "%016llx%016llx.bin", (unsigned long long)key.digest[1], (unsigned long long)key.digest[0]);
}

static bool is_private(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        if (slash == NULL)
            return made;
        *slash = '/';
    }
}

/* The folder of this version's entries as a descriptor, or -1. */
static int open_folder(const hal_core *core, bool create)
{
    struct stat info;
    if (core->cache_dir == NULL || core->cache_dir[0] == '\0')
        return -1;
    char *path = join(core->cache_dir, "/" HAL_CACHE_VERSION);
    if (path == NULL)
        return -1;
    int folder = -1;
    if (!create || make_folders(path))
        folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) {
        if (create)
            hal_log(core, HAL_LOG_WARNING, "cache: cannot create %s (%s): compiled programs are not kept", path,
                    strerror(errno));
    } else if (fstat(folder, &info) != 0 || !is_private(&info)) {
        hal_log(core, HAL_LOG_WARNING, "cache: %s belongs to somebody else or can be written by others: it is not used",
                path);
        close(folder);
        folder = -1;
    }
    free(path);
    return folder;
}

static bool read_all(int file, void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = read(file, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t put = write(file, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

/* The payload of an open entry, or NULL if anything is wrong with it. */
static void *read_entry(int file, hal_cache_key key, size_t *size)
{
    cache_header header;
    uint64_t sum[2];
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || !is_private(&info))
        return NULL;
    if (!read_all(file, &header, sizeof header) || memcmp(header.magic, MAGIC, sizeof header.magic) != 0 ||
        memcmp(header.key, key.digest, sizeof header.key) != 0 || header.size > ENTRY_MAX ||
        (uint64_t)info.st_size != sizeof header + header.size)
        return NULL;
    void *data = malloc(header.size > 0 ? (size_t)header.size : 1);
    if (data == NULL)
        return NULL;
    if (read_all(file, data, (size_t)header.size)) {
        checksum(&header, data, sum);
        if (memcmp(sum, header.checksum, sizeof sum) == 0) {
            *size = (size_t)header.size;
            return data;
        }
    }
    free(data);
    return NULL;
}

hal_status hal_cache_load(const hal_core *core, hal_cache_key key, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    int folder = open_folder(core, false);
    if (folder < 0)
        return HAL_ERROR_NOT_FOUND;
    char name[48];
    entry_name(key, name);
    /* O_NONBLOCK: a FIFO of that name must not hold us up. */
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool exists = file >= 0 || errno == ELOOP;
    if (file >= 0) {
        *data = read_entry(file, key, size);
        close(file);
    }
    if (*data == NULL && exists) {
        hal_log(core, HAL_LOG_INFO, "cache: entry %s in %s is damaged: it is removed and built again", name,
                core->cache_dir);
        unlinkat(folder, name, 0);
    }
    close(folder);
    return *data != NULL ? HAL_OK : HAL_ERROR_NOT_FOUND;
}

/* A write past the file size limit raises SIGXFSZ, which would end the process for the sake of a cache. */
static bool write_entry(int file, const cache_header *header, const void *data)
{
    sigset_t signal, old;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    if (pthread_sigmask(SIG_BLOCK, &signal, &old) != 0)
        return false;
    bool written = write_all(file, header, sizeof *header) && write_all(file, data, (size_t)header->size);
    int reason = errno;
    if (!written && reason == EFBIG && !sigismember(&old, SIGXFSZ))
        sigtimedwait(&signal, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = reason;
    return written;
}

void hal_cache_store(const hal_core *core, hal_cache_key key, const void *data, size_t size)
{
    if (size > ENTRY_MAX || (data == NULL && size > 0))
        return;
    int folder = open_folder(core, true);
    if (folder < 0)
        return;
    cache_header header = {.magic = MAGIC, .key = {key.digest[0], key.digest[1]}, .size = size};
    checksum(&header, data, header.checksum);
    char name[48], aside[96];
    entry_name(key, name);
    /* The address of a local tells the threads of a process apart, the clock the turns. */
    snprintf(aside, sizeof aside, ".new-%ld-%llx-%llx", (long)getpid(), (unsigned long long)(uintptr_t)&header,
             (unsigned long long)hal_now());
    int file = openat(folder, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool stored = file >= 0 && write_entry(file, &header, data);
    int reason = errno;
    if (file >= 0 && close(file) != 0 && stored) {
        stored = false;
        reason = errno;
    }
    if (stored && renameat(folder, aside, folder, name) != 0) {
        stored = false;
        reason = errno;
    }
    if (!stored) {
        hal_log(core, HAL_LOG_WARNING, "cache: cannot write to %s (%s): the program is not kept", core->cache_dir,
                strerror(reason));
        if (file >= 0)
            unlinkat(folder, aside, 0);
    }
    close(folder);
}
