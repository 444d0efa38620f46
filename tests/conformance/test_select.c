/* Which device is opened, and what is listed where drivers are missing. */
#include "conf.h"

#include <ctype.h>

static const char *const backends[3] = {"cuda", "opencl", "vulkan"};

static hal_status open_as(const char *select, hal_device **device)
{
    return hal_device_open(HAL_DEVICE(.select = select), device);
}

/* The selection opens a device of the backend under test. */
static void opens(const char *select)
{
    hal_device *device;
    OK(open_as(select, &device));
    assert_string_equal(hal_device_get_info(device)->backend, conf_backend);
    hal_device_destroy(device);
}

/* It opens nothing, and says what was asked for and what there is. */
static void refuses(const char *select)
{
    hal_device *device = (hal_device *)&device;
    EXPECT(HAL_ERROR_NOT_FOUND, open_as(select, &device));
    assert_null(device);
    conf_expect_error(select);
    conf_expect_error(conf_backend);
}

static void text(char *out, size_t size, const char *format, const char *part)
{
    snprintf(out, size, format, conf_backend, part);
}

static void by_name(void **state)
{
    (void)state;
    char select[256], upper[16] = "";
    for (size_t i = 0; conf_backend[i] != '\0'; i++)
        upper[i] = (char)toupper((unsigned char)conf_backend[i]);
    opens(conf_backend);
    opens(upper);
    text(select, sizeof select, "%s:0", "");
    opens(select);
    text(select, sizeof select, " %s ", "");
    opens(select);
    text(select, sizeof select, "%s:99,%s", conf_backend);
    opens(select);
}

static void by_part(void **state)
{
    (void)state;
    const hal_device_info *info = hal_device_get_info(conf_device);
    char select[256], part[16];
    size_t length = strlen(info->name) < 8 ? strlen(info->name) : 8;
    assert_true(length > 0);
    for (size_t i = 0; i < length; i++)
        part[i] = (char)(isupper((unsigned char)info->name[i]) ? tolower(info->name[i]) : toupper(info->name[i]));
    part[length] = '\0';
    text(select, sizeof select, "%s:%s", part);
    opens(select);
    if (info->uuid[0] != '\0') {
        text(select, sizeof select, "%s:%s", info->uuid);
        opens(select);
    }
}

static void refused(void **state)
{
    (void)state;
    char select[64];
    refuses("vulcan");
    refuses("hip");
    refuses("vulcan,directx");
    text(select, sizeof select, "vulcan,%s", ""); /* a misspelt name is not passed over, */
    refuses(select);
    text(select, sizeof select, "%s,vulcan", ""); /* nor left for the day it is needed */
    refuses(select);
    hal_device_list *list = (hal_device_list *)&list;
    EXPECT(HAL_ERROR_NOT_FOUND, hal_device_list_create("vulcan", &list));
    assert_null(list);
    const char *const parts[] = {"99", "-1", "abc-no-such-card", "4294967296", "0x0", ""};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        text(select, sizeof select, "%s:%s", parts[i]);
        refuses(select);
    }
    for (int i = 0; i < 3; i++)
        refuses("vulcan");
    open_as("vulcan", &(hal_device *){NULL});
    for (int i = 0; i < 3; i++)
        conf_expect_error(backends[i]); /* the valid names */
}

/* HAL_BACKEND is the selection where there is none in the descriptor; empty is as unset. */
static void by_environment(void **state)
{
    (void)state;
    hal_device *device;
    const char *given = getenv("HAL_BACKEND");
    char *old = given ? strdup(given) : NULL;
    setenv("HAL_BACKEND", "vulcan", 1);
    EXPECT(HAL_ERROR_NOT_FOUND, hal_device_open(NULL, &device));
    conf_expect_error("vulcan");
    opens(conf_backend);
    setenv("HAL_BACKEND", conf_backend, 1);
    OK(hal_device_open(NULL, &device));
    assert_string_equal(hal_device_get_info(device)->backend, conf_backend);
    hal_device_destroy(device);
    for (int i = 0; i < 2; i++) {
        setenv("HAL_BACKEND", "", 1);
        if (i == 1)
            unsetenv("HAL_BACKEND");
        OK(hal_device_open(NULL, &device));
        hal_device_destroy(device);
    }
    if (old)
        setenv("HAL_BACKEND", old, 1);
    free(old);
}

static void list_of_all(void **state)
{
    (void)state;
    hal_device_list *list;
    bool seen[3] = {false}, found = false;
    OK(hal_device_list_create(NULL, &list));
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        for (int k = 0; k < 3; k++)
            seen[k] |= strcmp(entry->backend, backends[k]) == 0;
        if (entry->available) {
            assert_string_equal(entry->reason, "");
            assert_string_equal(entry->info->backend, entry->backend);
            found |= strcmp(entry->backend, conf_backend) == 0;
        } else {
            assert_null(entry->info);
            assert_true(strlen(entry->reason) > 5);
        }
    }
    assert_true(seen[0] && seen[1] && seen[2] && found);
    assert_null(hal_device_list_get(list, hal_device_list_count(list)));
    hal_device_list_destroy(list);
    OK(hal_device_list_create(conf_backend, &list));
    assert_true(hal_device_list_count(list) > 0);
    for (uint32_t i = 0; i < hal_device_list_count(list); i++)
        assert_string_equal(hal_device_list_get(list, i)->backend, conf_backend);
    hal_device_list_destroy(list);
    hal_device_list_destroy(NULL);
    assert_int_equal(hal_device_list_count(NULL), 0);
    assert_null(hal_device_list_get(NULL, 0));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_device_list_create(NULL, NULL));
}

/* A driver that is not there is a line with its reason, and changes nothing for the others. */
static void missing_drivers(void **state)
{
    (void)state;
    static const char *const gone[3][4] = {
        {"HAL_CUDA_LIBRARY=/none/libcuda.so.1", NULL},
        {"OCL_ICD_VENDORS=/none", "OCL_ICD_FILENAMES", NULL},
        {"VK_ICD_FILENAMES=/none/icd.json", "VK_DRIVER_FILES=/none/icd.json", "VK_ADD_DRIVER_FILES", NULL},
    };
    char all[4096], some[4096], line[64];
    assert_int_equal(conf_run_self("list", NULL, all, sizeof all), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(conf_run_self("list", gone[i], some, sizeof some), 0);
        for (int k = 0; k < 3; k++) {
            snprintf(line, sizeof line, "%s present", backends[k]);
            bool before = strstr(all, line) != NULL, now = strstr(some, line) != NULL;
            if (now != (k == i ? false : before))
                fail_msg("without %s: %s", gone[i][0], some);
        }
        snprintf(line, sizeof line, "%s absent: ", backends[i]);
        assert_non_null(strstr(some, line));
        assert_true(strcspn(strstr(some, line) + strlen(line), "\n") > 10); /* a reason */
    }
    static const char *const nothing[] = {"HAL_CUDA_LIBRARY=/none/libcuda.so.1",
                                          "OCL_ICD_VENDORS=/none",
                                          "OCL_ICD_FILENAMES",
                                          "VK_ICD_FILENAMES=/none/icd.json",
                                          "VK_DRIVER_FILES=/none/icd.json",
                                          "HAL_BACKEND",
                                          NULL};
    assert_int_equal(conf_run_self("list", nothing, some, sizeof some), 0);
    assert_null(strstr(some, "present"));
    assert_int_equal(conf_run_self("open", nothing, some, sizeof some), 0);
    assert_non_null(strstr(some, "HAL_ERROR_UNAVAILABLE"));
}

/* Asking for one backend loads no driver of the others. */
static void untouched_drivers(void **state)
{
    (void)state;
    static const char *const libraries[3] = {"libcuda", "libOpenCL", "libvulkan"};
    char maps[4096];
    assert_int_equal(conf_run_self("maps", NULL, maps, sizeof maps), 0);
    for (int i = 0; i < 3; i++) {
        bool own = strcmp(backends[i], conf_backend) == 0;
        if ((strstr(maps, libraries[i]) != NULL) != own)
            fail_msg("%s alone loads: %s", conf_backend, maps);
    }
}

/* Nothing is printed unless it is asked for. */
static void silence(void **state)
{
    (void)state;
    static const char *const talk[] = {"HAL_LOG=debug", NULL}, *const quiet[] = {"HAL_LOG", NULL};
    char text[16384];
    assert_int_equal(conf_run_self("compile", quiet, text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(conf_run_self("compile", talk, text, sizeof text), 0);
    assert_non_null(strstr(text, "hal info: "));
}

/* The same again, from the child that missing_drivers and untouched_drivers start. */
static int print_list(void)
{
    hal_device_list *list;
    if (hal_device_list_create(NULL, &list) != HAL_OK)
        return 1;
    for (uint32_t i = 0; i < hal_device_list_count(list); i++) {
        const hal_device_entry *entry = hal_device_list_get(list, i);
        printf("%s %s%s\n", entry->backend, entry->available ? "present" : "absent: ", entry->reason);
    }
    hal_device_list_destroy(list);
    return 0;
}

static int print_maps(void)
{
    hal_device *device;
    char line[512];
    if (hal_device_open(NULL, &device) != HAL_OK)
        return 1;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strstr(line, " r-xp ") != NULL && strrchr(line, '/') != NULL &&
            strstr(strrchr(line, '/'), "/lib") != NULL &&
            (strstr(line, "libcuda.") != NULL || strstr(line, "libOpenCL.") != NULL ||
             strstr(line, "libvulkan.") != NULL))
            fputs(strrchr(line, '/') + 1, stdout);
    if (file != NULL)
        fclose(file);
    hal_device_destroy(device);
    return 0;
}

static int print_open(void)
{
    hal_device *device;
    hal_status status = hal_device_open(NULL, &device);
    printf("%s %s\n", hal_status_name(status), hal_last_error());
    hal_device_destroy(device);
    return 0;
}

int conf_child(const char *argument)
{
    if (strcmp(argument, "list") == 0)
        return print_list();
    if (strcmp(argument, "maps") == 0)
        return print_maps();
    if (strcmp(argument, "open") == 0)
        return print_open();
    if (strcmp(argument, "compile") == 0)
        return conf_child_compile();
    if (strcmp(argument, "cycles") == 0)
        return conf_child_cycles();
    if (strcmp(argument, "first_opens") == 0)
        return conf_child_first_opens();
    if (strcmp(argument, "lost_driver") == 0)
        return conf_child_lost_driver();
    return 2;
}

int conf_test_select(void)
{
    const struct CMUnitTest tests[] = {
        CASE(by_name),     CASE(by_part),         CASE(refused),           CASE(by_environment),
        CASE(list_of_all), CASE(missing_drivers), CASE(untouched_drivers), CASE(silence),
    };
    return RUN("select", tests);
}
