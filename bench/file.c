/* file.c - files that are either complete or not there. */
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool bench_file_write(const char *path, const char *text, char *error, size_t error_size)
{
    char aside[4096];
    struct stat there;
    size_t size = strlen(text);
    if (!strcmp(path, "-")) {
        bool written = fwrite(text, 1, size, stdout) == size && fflush(stdout) == 0;
        if (!written)
            snprintf(error, error_size, "cannot write to standard output: %s", strerror(errno));
        return written;
    }
    /* A device or a pipe (/dev/stderr, say) is written to as it is: it must not be replaced. */
    bool special = stat(path, &there) == 0 && !S_ISREG(there.st_mode);
    if (snprintf(aside, sizeof aside, special ? "%s" : "%s.part", path) >= (int)sizeof aside) {
        snprintf(error, error_size, "the path is too long: %.100s...", path);
        return false;
    }
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
