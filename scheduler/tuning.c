/* tuning.c - the tunings of a device: loaded at its first use, looked up at each product, saved. */
#include "tuning.h"

#include "core.h"
#include "internal.h"
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILE = 1 << 24, MEMOS = 256 };

/* How well an entry's device fits this one: the driver, too; the family; not at all. */
typedef enum fit { FIT_NONE, FIT_FAMILY, FIT_DEVICE } fit;

/* What a shape was answered the last time. Kept by a hash of the shape; a new one takes the place of an old one. */
typedef struct memo {
    hal_tuned_shape shape; /* of HAL_DTYPE_DEFAULT: none */
    bool found;
    gemm_choice choice;
} memo;

typedef struct store {
    const hal_device_info *info;
    pthread_rwlock_t lock;
    hal_tuning *list;
    uint8_t *fits; /* by entry: a fit */
    uint32_t count, capacity;
    atomic_uint usable; /* entries that fit; read without the lock */
    memo memos[MEMOS];
} store;

static const char store_key;

static fit fit_of(const hal_device_info *info, const hal_tuning *t)
{
    if (strcmp(t->device, info->name) == 0 && strcmp(t->driver, info->driver) == 0) {
        return FIT_DEVICE;
    }
    return strcmp(t->driver, "*") == 0 && strstr(info->name, t->device) ? FIT_FAMILY : FIT_NONE;
}

static bool same_key(const hal_tuning *x, const hal_tuning *y)
{
    return x->op == y->op && x->dtype == y->dtype && x->trans_a == y->trans_a && x->trans_b == y->trans_b &&
           x->m == y->m && x->n == y->n && x->k == y->k && x->batch == y->batch && strcmp(x->device, y->device) == 0 &&
           strcmp(x->driver, y->driver) == 0;
}

static hal_status note_locked(store *s, const hal_tuning *t)
{
    uint32_t at = 0;
    memset(s->memos, 0, sizeof s->memos);
    while (at < s->count && !same_key(&s->list[at], t)) {
        at++;
    }
    if (at == HAL_MOST_TUNINGS) {
        return hal_fail(HAL_ERROR_LIMIT, "tunings: a device has at most %d; hal_tuning_clear forgets them",
                        HAL_MOST_TUNINGS);
    }
    if (at == s->capacity) {
        const uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
        hal_tuning *list = realloc(s->list, capacity * sizeof *list);
        s->list = list ? list : s->list;
        uint8_t *fits = list ? realloc(s->fits, capacity) : NULL;
        s->fits = fits ? fits : s->fits;
        if (!list || !fits) {
            return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "tunings: out of host memory for %u", capacity);
        }
        s->capacity = capacity;
    }
    s->list[at] = *t;
    s->fits[at] = (uint8_t)fit_of(s->info, t);
    if (at == s->count) {
        s->count++;
        atomic_fetch_add(&s->usable, s->fits[at] != FIT_NONE);
    }
    return HAL_OK;
}

static hal_status note_all(store *s, const hal_tuning *list, uint32_t count)
{
    hal_status status = HAL_OK;
    pthread_rwlock_wrlock(&s->lock);
    for (uint32_t i = 0; status == HAL_OK && i < count; i++) {
        status = note_locked(s, &list[i]);
    }
    pthread_rwlock_unlock(&s->lock);
    return status;
}

static hal_status note_text(store *s, const char *name, const char *text, size_t size, bool shipped)
{
    hal_tuning *list;
    uint32_t count;
    hal_status status = hal_tuning_parse(name, text, size, &list, &count);
    for (uint32_t i = 0; i < count; i++) {
        list[i].shipped = shipped;
    }
    status = status == HAL_OK ? note_all(s, list, count) : status;
    free(list);
    return status;
}

/* The user's file; malloc'ed, NULL: there is none ($HAL_TUNING is empty, or there is no cache). */
static char *default_path(const hal_device *device)
{
    const char *named = getenv("HAL_TUNING"), *folder = device->core.cache_dir;
    char *path = NULL;
    if (named) {
        return *named ? strdup(named) : NULL;
    }
    return folder && *folder && asprintf(&path, "%s/tuning.json", folder) >= 0 ? path : NULL;
}

static hal_status load_file(store *s, const char *path)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe is refused, not waited for */
    if (file < 0) {
        return hal_fail(errno == ENOENT ? HAL_ERROR_NOT_FOUND : HAL_ERROR_IO, "tunings: cannot read %s: %s", path,
                        strerror(errno));
    }
    hal_status status = HAL_OK;
    char *text = NULL;
    ssize_t size = 0;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MOST_FILE) {
        status = hal_fail(HAL_ERROR_IO, "tunings: %s is no file of at most %d bytes", path, MOST_FILE);
    } else if (!(text = malloc((size_t)info.st_size + 1))) {
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "tunings: out of host memory for %s", path);
    } else if ((size = read(file, text, (size_t)info.st_size)) != info.st_size) {
        status = hal_fail(HAL_ERROR_IO, "tunings: %s could not be read whole", path);
    }
    close(file);
    status = status == HAL_OK ? note_text(s, path, text, (size_t)size, false) : status;
    free(text);
    return status;
}

static void destroy_store(void *state)
{
    store *s = state;
    pthread_rwlock_destroy(&s->lock);
    free(s->list);
    free(s->fits);
    free(s);
}

/* A file that cannot be used is a warning, not a failure of whoever multiplies first. */
static hal_status create_store(hal_device *device, void **state)
{
    store *s = calloc(1, sizeof *s);
    if (!s || pthread_rwlock_init(&s->lock, NULL) != 0) {
        free(s);
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "tunings: out of host memory");
    }
    s->info = &device->info;
    for (uint32_t i = 0; i < hal_tuning_text_count; i++) {
        const char *text = hal_tuning_texts[i];
        if (note_text(s, "a built-in tuning", text, strlen(text), true) != HAL_OK) {
            hal_log(&device->core, HAL_LOG_WARNING, "%s", hal_last_error());
        }
    }
    char *path = default_path(device);
    const hal_status status = path ? load_file(s, path) : HAL_OK;
    if (status != HAL_OK && (status != HAL_ERROR_NOT_FOUND || getenv("HAL_TUNING"))) {
        hal_log(&device->core, HAL_LOG_WARNING, "%s", hal_last_error());
    }
    free(path);
    *state = s;
    return HAL_OK;
}

static hal_status store_of(hal_device *device, store **s)
{
    void *state = NULL;
    hal_status status = hal_device_attach(device, &store_key, create_store, destroy_store, &state);
    *s = state;
    return status;
}

/* How far shapes are apart, in factors of 2; INFINITY: too far. */
static double distance(const hal_tuning *t, const hal_tuned_shape *p)
{
    const uint64_t tuned[] = {t->m, t->n, t->k, t->batch}, asked[] = {p->m, p->n, p->k, p->batch};
    double sum = 0;
    for (size_t i = 0; i < sizeof tuned / sizeof tuned[0]; i++) {
        if (tuned[i] > 2 * asked[i] || asked[i] > 2 * tuned[i]) {
            return INFINITY;
        }
        sum += tuned[i] == asked[i] ? 0 : fabs(log2((double)tuned[i] / (double)asked[i]));
    }
    return sum;
}

/* All that must agree. */
static bool same_sort(const hal_tuning *t, const hal_tuned_shape *p)
{
    return t->op == p->op && t->dtype == p->dtype && t->trans_a == p->trans_a && t->trans_b == p->trans_b;
}

static const hal_tuning *nearest_of(const store *s, const hal_tuned_shape *p)
{
    const hal_tuning *best = NULL;
    double nearest = INFINITY;
    fit best_fit = FIT_NONE;
    for (uint32_t i = 0; i < s->count; i++) {
        const hal_tuning *t = &s->list[i];
        if (s->fits[i] < best_fit || s->fits[i] == FIT_NONE || !same_sort(t, p)) {
            continue;
        }
        const double apart = distance(t, p);
        if (apart < INFINITY && (s->fits[i] > best_fit || apart < nearest)) {
            best = t;
            nearest = apart;
            best_fit = (fit)s->fits[i];
        }
    }
    return best;
}

static memo *memo_of(store *s, const hal_tuned_shape *p)
{
    uint64_t hash = 0;
    const uint32_t parts[] = {(uint32_t)p->op, p->m, p->n, p->k, p->batch, (uint32_t)p->dtype, p->trans_a, p->trans_b};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return &s->memos[hash % MEMOS];
}

static bool memo_answers(const memo *x, const hal_tuned_shape *p)
{
    const hal_tuned_shape *m = &x->shape;
    return m->op == p->op && m->dtype == p->dtype && m->m == p->m && m->n == p->n && m->k == p->k &&
           m->batch == p->batch && m->trans_a == p->trans_a && m->trans_b == p->trans_b;
}

bool hal_tuning_find(hal_device *device, const hal_tuned_shape *p, gemm_choice *choice)
{
    store *s;
    if (store_of(device, &s) != HAL_OK || atomic_load_explicit(&s->usable, memory_order_relaxed) == 0) {
        return false;
    }
    memo *x = memo_of(s, p);
    pthread_rwlock_rdlock(&s->lock);
    const bool known = memo_answers(x, p);
    memo answer = *x;
    pthread_rwlock_unlock(&s->lock);
    if (!known) {
        pthread_rwlock_wrlock(&s->lock);
        const hal_tuning *best = nearest_of(s, p);
        answer = (memo){.shape = *p, .found = best != NULL};
        answer.choice = best ? best->choice : answer.choice;
        *x = answer;
        pthread_rwlock_unlock(&s->lock);
    }
    if (answer.found) {
        *choice = answer.choice;
    }
    return answer.found;
}

bool hal_tuning_exact(hal_device *device, const hal_tuned_shape *p, hal_tuning *tuning)
{
    store *s;
    bool found = false;
    if (store_of(device, &s) != HAL_OK) {
        return false;
    }
    pthread_rwlock_rdlock(&s->lock);
    for (uint32_t i = 0; i < s->count && !found; i++) {
        const hal_tuning *t = &s->list[i];
        found = s->fits[i] == FIT_DEVICE && same_sort(t, p) && distance(t, p) == 0;
        if (found) {
            *tuning = *t;
        }
    }
    pthread_rwlock_unlock(&s->lock);
    return found;
}

hal_status hal_tuning_note(hal_device *device, const hal_tuning *tuning)
{
    store *s;
    hal_status status = store_of(device, &s);
    return status == HAL_OK ? note_all(s, tuning, 1) : status;
}

/* The device's store, and the path that is meant. */
static hal_status open_call(hal_device *device, const char *call, const char *path, store **s, char **meant)
{
    char what[64];
    snprintf(what, sizeof what, "%s: device", call);
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, what);
    status = status == HAL_OK ? store_of(device, s) : status;
    if (status != HAL_OK) {
        return status;
    }
    *meant = path ? strdup(path) : default_path(device);
    return *meant ? HAL_OK
                  : hal_fail(
                        HAL_ERROR_INVALID_ARGUMENT,
                        "%s: no path is given, HAL_TUNING is empty or unset, and there is no cache folder; give a path",
                        call);
}

hal_status hal_tuning_load(hal_device *device, const char *path)
{
    store *s;
    char *meant = NULL;
    hal_status status = open_call(device, "hal_tuning_load", path, &s, &meant);
    status = status == HAL_OK ? load_file(s, meant) : status;
    free(meant);
    return status;
}

/* Beside the file, then in its place: which must not be a pipe's or a device's. */
static hal_status write_aside(store *s, const char *path, char *aside)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return hal_fail(HAL_ERROR_IO, "tunings: cannot write %s: it is there, and no file", path);
    }
    int file = mkostemp(aside, O_CLOEXEC); /* 0600 */
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (!out) {
        const int why = errno;
        if (file >= 0) {
            close(file);
            unlink(aside);
        }
        return hal_fail(HAL_ERROR_IO, "tunings: cannot write %s: %s", aside, strerror(why));
    }
    pthread_rwlock_rdlock(&s->lock);
    hal_tuning_write(out, s->list, s->count);
    pthread_rwlock_unlock(&s->lock);
    bool good = fflush(out) == 0 && !ferror(out) && fsync(file) == 0;
    good = fclose(out) == 0 && good;
    if (!good || rename(aside, path) != 0) {
        const int why = errno;
        unlink(aside);
        return hal_fail(HAL_ERROR_IO, "tunings: cannot write %s: %s", path, strerror(why));
    }
    return HAL_OK;
}

/* The folder of the path is made if only it is missing, as the cache's may be. */
static void make_folder(const char *path)
{
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash && slash != folder) {
        *slash = '\0';
        mkdir(folder, 0700);
    }
    free(folder);
}

hal_status hal_tuning_save(hal_device *device, const char *path)
{
    store *s;
    char *meant = NULL, *aside = NULL;
    hal_status status = open_call(device, "hal_tuning_save", path, &s, &meant);
    if (status == HAL_OK && asprintf(&aside, "%s.XXXXXX", meant) < 0) {
        aside = NULL;
        status = hal_fail(HAL_ERROR_OUT_OF_MEMORY, "hal_tuning_save: out of host memory");
    }
    if (status == HAL_OK) {
        make_folder(meant);
        status = write_aside(s, meant, aside);
    }
    free(aside);
    free(meant);
    return status;
}

hal_status hal_tuning_clear(hal_device *device)
{
    store *s;
    hal_status status = hal_check(device, HAL_TYPE_DEVICE, "hal_tuning_clear: device");
    status = status == HAL_OK ? store_of(device, &s) : status;
    if (status == HAL_OK) {
        pthread_rwlock_wrlock(&s->lock);
        s->count = 0;
        memset(s->memos, 0, sizeof s->memos);
        atomic_store(&s->usable, 0);
        pthread_rwlock_unlock(&s->lock);
    }
    return status;
}
