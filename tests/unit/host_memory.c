/* host_memory.c - see host_memory.h. */
#include "host_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

/* The one state of a test. */
static struct {
    pthread_mutex_t lock;           /* drivers call back from threads of theirs */
    bool counting, fails_elsewhere; /* elsewhere: on every thread but ... */
    pthread_t main;                 /* ... this one */
    uint64_t calls, fail_at;        /* 0: none fails */
    int64_t live;
} host = {.lock = PTHREAD_MUTEX_INITIALIZER};

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
int __real_posix_memalign(void **pointer, size_t alignment, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *pointer);

/* Whether this allocation may go on. */
static bool allowed(int64_t change)
{
    pthread_mutex_lock(&host.lock);
    host.calls += host.counting;
    const bool elsewhere = host.fails_elsewhere && !pthread_equal(pthread_self(), host.main);
    const bool fails = elsewhere || (host.counting && host.calls == host.fail_at);
    host.live += fails ? 0 : change;
    pthread_mutex_unlock(&host.lock);
    errno = fails ? ENOMEM : errno;
    return !fails;
}

void *__wrap_malloc(size_t size)
{
    return allowed(1) ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allowed(1) ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *pointer, size_t size)
{
    return allowed(pointer ? 0 : 1) ? __real_realloc(pointer, size) : NULL;
}

int __wrap_posix_memalign(void **pointer, size_t alignment, size_t size)
{
    return allowed(1) ? __real_posix_memalign(pointer, alignment, size) : ENOMEM;
}

char *__wrap_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void __wrap_free(void *pointer)
{
    if (pointer) {
        host_memory_add_live(-1);
    }
    __real_free(pointer);
}

void host_memory_count(uint64_t fail_at)
{
    pthread_mutex_lock(&host.lock);
    host.calls = 0;
    host.fail_at = fail_at;
    host.counting = true;
    pthread_mutex_unlock(&host.lock);
}

uint64_t host_memory_stop(void)
{
    pthread_mutex_lock(&host.lock);
    const uint64_t calls = host.calls;
    host.counting = false;
    pthread_mutex_unlock(&host.lock);
    return calls;
}

void host_memory_fail_elsewhere(bool fails)
{
    pthread_mutex_lock(&host.lock);
    host.main = pthread_self();
    host.fails_elsewhere = fails;
    pthread_mutex_unlock(&host.lock);
}

int64_t host_memory_live(void)
{
    pthread_mutex_lock(&host.lock);
    const int64_t live = host.live;
    pthread_mutex_unlock(&host.lock);
    return live;
}

void host_memory_add_live(int64_t count)
{
    pthread_mutex_lock(&host.lock);
    host.live += count;
    pthread_mutex_unlock(&host.lock);
}
