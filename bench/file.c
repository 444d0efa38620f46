/* file.c - files that are written whole or not at all, and that are read up to a size. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A device or a pipe (/dev/stderr, say) is written to as it is: it must not be replaced. */
static bool is_special(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && !S_ISREG(there.st_mode);
}

/* The name of the file that is written first; false: too long. */
static bool name_aside(const char *path, bool special, char *aside, size_t size, char *error, size_t error_size)
{
    if (snprintf(aside, size, special ? "%s" : "%s.part", path) < (int)size)
        return true;
    snprintf(error, error_size, "the path is too long: %.100s...", path);
    return false;
}

bool bench_file_check(const char *path, char *error, size_t error_size)
{
    char aside[4096];
    if (!strcmp(path, "-"))
        return true;
    const bool special = is_special(path);
    if (!name_aside(path, special, aside, sizeof aside, error, error_size))
        return false;
    /* What is special is not opened: the reader of a pipe would see its end. */
    const int file = special ? -1 : open(aside, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    struct stat there;
    bool good = special ? access(path, W_OK) == 0 : file >= 0;
    if (good && special && stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        errno = EISDIR;
        good = false;
    }
    if (!good)
        snprintf(error, error_size, "cannot write %s: %s", path, strerror(errno));
    if (file >= 0) {
        close(file);
        unlink(aside);
    }
    return good;
}

bool bench_file_write(const char *path, const char *text, char *error, size_t error_size)
{
    char aside[4096];
    size_t size = strlen(text);
    if (!strcmp(path, "-")) {
        bool written = fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0;
        if (!written)
            snprintf(error, error_size, "cannot write to standard output: %s", strerror(errno));
        return written;
    }
    const bool special = is_special(path);
    if (!name_aside(path, special, aside, sizeof aside, error, error_size))
        return false;
    FILE *file = fopen(aside, "w");
    bool good = file && fwrite(text, 1, size, file) == size;
    if (file && fclose(file) != 0)
        good = false;
    if (good && !special)
        good = rename(aside, path) == 0;
    if (!good) {
        snprintf(error, error_size, "cannot write %s: %s", path, strerror(errno));
        if (file && !special)
            unlink(aside);
    }
    return good;
}

static char *read_open(FILE *file, const char *path, size_t most, size_t *size, char *error, size_t error_size)
{
    char *text = malloc(most + 2);
    *size = text ? fread(text, 1, most + 1, file) : 0;
    if (!text || ferror(file))
        snprintf(error, error_size, "cannot read %.200s: %s", path, strerror(errno));
    else if (*size > most)
        snprintf(error, error_size, "%.200s is larger than %zu MiB", path, most >> 20);
    else {
        text[*size] = 0;
        return text;
    }
    free(text);
    return NULL;
}

char *bench_file_read(const char *path, size_t most, size_t *size, char *error, size_t error_size)
{
    struct stat info;
    const int handle = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe without a writer would wait */
    const bool regular = handle >= 0 && fstat(handle, &info) == 0 && S_ISREG(info.st_mode);
    FILE *file = regular ? fdopen(handle, "rb") : NULL;
    char *text = NULL;
    if (file)
        text = read_open(file, path, most, size, error, error_size);
    else
        snprintf(error, error_size, "cannot read %.200s: %s", path,
                 handle >= 0 && !regular ? "it is not a regular file" : strerror(errno));
    if (file)
        fclose(file);
    else if (handle >= 0)
        close(handle);
    return text;
}
