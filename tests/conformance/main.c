/* The main program of `conformance` (every promise of hal/) and `threads` (what ThreadSanitizer runs), on the backend
 * that HAL_BACKEND names.
 *
 *   conformance [TOPIC...]
 *
 * A backend without a device is a failure, unless HAL_TEST_ALLOW_MISSING=1: then everything is skipped (exit status
 * 77). */
#include "conf.h"

#include <locale.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

hal_device *conf_device;
const char *conf_backend;

static bool wanted(const char *topic, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], topic) == 0)
            return true;
    return argc <= 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--child") == 0) {
#ifdef __SANITIZE_ADDRESS__
        __lsan_disable(); /* leaks are looked for in the parent, where the drivers are kept mapped */
#endif
        return conf_child(argv[2]);
    }
    /* As a user's program would have it. */
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
        setlocale(LC_ALL, "C.UTF-8");
    if (getenv("HAL_BACKEND") == NULL) {
        fprintf(stderr, "set HAL_BACKEND to the backend to test\n");
        return 2;
    }
    hal_status status = conf_try_open(NULL, &conf_device);
    if (status != HAL_OK) {
        const char *allow = getenv("HAL_TEST_ALLOW_MISSING");
        fprintf(stderr, "HAL_BACKEND=%s cannot be opened: %s: %s\n", getenv("HAL_BACKEND"), hal_status_name(status),
                hal_last_error());
        bool missing = status == HAL_ERROR_UNAVAILABLE || status == HAL_ERROR_NOT_FOUND;
        if (!missing || allow == NULL || strcmp(allow, "1") != 0)
            return 1;
        printf("skipped: all topics of %s\n", getenv("HAL_BACKEND"));
        return 77;
    }
    const hal_device_info *info = hal_device_get_info(conf_device);
    static char backend[sizeof info->backend];
    memcpy(backend, info->backend, sizeof backend);
    conf_backend = backend;
    printf("%s:%u %s (%s)\n", info->backend, info->index, info->name, info->driver);
    int failed = 0;
    for (const conf_topic *topic = conf_topics; topic->name != NULL; topic++) {
        if (!wanted(topic->name, argc, argv))
            continue;
        fflush(stdout);
        uint64_t start = conf_now();
        failed += topic->run();
        printf("topic %s: %.1f s\n", topic->name, (double)(conf_now() - start) * 1e-9);
    }
    conf_release_shared();
    hal_device_destroy(conf_device);
    printf("%s: %d failed, %u skipped\n", getenv("HAL_BACKEND"), failed, conf_skip_count());
    return failed != 0;
}
