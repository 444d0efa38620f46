/* The cache loader on arbitrary files. The first byte chooses how much of the entry is made right, so that the checks
 * behind the checksum are reached as well: bit 0 the magic, bit 1 the key, bit 2 the size, bit 3 the checksum of it
 * all. */
#include "core.h"

#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEADER 48

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char folder[64], entry[160];
static hal_core core;
static hal_cache_key key;

/* Store one entry to learn its place; its first bytes are the magic. */
static bool prepare(uint8_t magic[8])
{
    static const char name[] = "fuzz";
    snprintf(folder, sizeof folder, "/tmp/hal-fuzz-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return false;
    core.cache_dir = folder;
    key = hal_cache_key_make(&(hal_cache_part){name, sizeof name}, 1);
    hal_cache_store(&core, key, name, sizeof name);
    snprintf(entry, sizeof entry, "%s/%d.%d.%d/%016llx%016llx.bin", folder, HAL_VERSION_MAJOR, HAL_VERSION_MINOR,
             HAL_VERSION_PATCH, (unsigned long long)key.digest[1], (unsigned long long)key.digest[0]);
    FILE *file = fopen(entry, "rb");
    bool fine = file != NULL && fread(magic, 1, 8, file) == 8;
    if (file != NULL)
        fclose(file);
    return fine;
}

static void clean_up(void)
{
    char sub[96];
    snprintf(sub, sizeof sub, "%s/%d.%d.%d", folder, HAL_VERSION_MAJOR, HAL_VERSION_MINOR, HAL_VERSION_PATCH);
    unlink(entry);
    rmdir(sub);
    rmdir(folder);
}

static void repair(uint8_t *file, size_t size, uint8_t how, const uint8_t magic[8])
{
    uint64_t payload = size - HEADER;
    if (how & 1)
        memcpy(file, magic, 8);
    if (how & 2)
        memcpy(file + 8, key.digest, 16);
    if (how & 4)
        memcpy(file + 24, &payload, 8);
    if (how & 8) {
        XXH3_state_t state;
        XXH3_128bits_reset(&state);
        XXH3_128bits_update(&state, file, 32);
        XXH3_128bits_update(&state, file + HEADER, (size_t)payload);
        XXH128_hash_t hash = XXH3_128bits_digest(&state);
        memcpy(file + 32, &hash.low64, 8);
        memcpy(file + 40, &hash.high64, 8);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t magic[8];
    static bool prepared;
    if (!prepared) {
        if (!prepare(magic))
            abort();
        atexit(clean_up);
        prepared = true;
    }
    if (size == 0)
        return 0;
    uint8_t how = bytes[0], *copy = malloc(size);
    if (copy == NULL)
        return 0;
    size--;
    memcpy(copy, bytes + 1, size);
    if (size >= HEADER)
        repair(copy, size, how, magic);
    FILE *file = fopen(entry, "wb");
    if (file == NULL || fwrite(copy, 1, size, file) != size || fclose(file) != 0 || chmod(entry, 0600) != 0)
        abort();
    void *data;
    size_t got;
    bool right = size >= HEADER && (how & 15) == 15;
    hal_status status = hal_cache_load(&core, key, &data, &got);
    /* Loaded exactly if it is whole, and then with exactly its payload. */
    if (status == HAL_OK && (got != size - HEADER || memcmp(data, copy + HEADER, got) != 0))
        abort();
    if (right && status != HAL_OK)
        abort();
    hal_free(data);
    free(copy);
    return 0;
}
