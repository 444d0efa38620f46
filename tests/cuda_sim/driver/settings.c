/* settings.c - the stand-in driver's environment and its device profiles. */
#include "drv.h"

drv_settings drv_set;

/* NVIDIA's data sheets and the CUDA C Programming Guide, section "Compute Capabilities". */
static const drv_profile profiles[] = {
    {"h100", "Simulated H100", 9, 0, 132, 228 << 10, 227 << 10, 50 << 20, 1980000, 2619000, 5120, true},
    {"a100", "Simulated A100", 8, 0, 108, 164 << 10, 163 << 10, 40 << 20, 1410000, 1593000, 5120, false},
    {"b200", "Simulated B200", 10, 0, 148, 228 << 10, 227 << 10, 126 << 20, 1965000, 3996000, 8192, true},
};

static void refuse(const char *name, const char *value, const char *known)
{
    fprintf(stderr, "cuda_sim: %s=%s is not one of: %s\n", name, value, known);
    drv_set.broken = true;
}

static const char *text(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

static unsigned long long number(const char *name, unsigned long long fallback)
{
    const char *value = text(name, NULL);
    char *end;
    if (!value)
        return fallback;
    unsigned long long parsed = strtoull(value, &end, 0);
    if (*end || *value == '-')
        refuse(name, value, "a number");
    return parsed;
}

static const drv_profile *profile(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    refuse("HAL_CUDA_SIM_PROFILE", name, "h100, a100, b200");
    return &profiles[0];
}

static void read_timing(const char *value)
{
    char *end;
    drv_set.options.timing = strcmp(value, "late") == 0 ? SIM_LATE : SIM_EAGER;
    if (strncmp(value, "seed:", 5) == 0) {
        drv_set.options.timing = SIM_SEEDED;
        drv_set.options.seed = strtoull(value + 5, &end, 0);
        if (end != value + 5 && !*end)
            return;
    } else if (strcmp(value, "late") == 0 || strcmp(value, "eager") == 0) {
        return;
    }
    refuse("HAL_CUDA_SIM_TIMING", value, "eager, late, seed:N");
}

static void read_checks(const char *value)
{
    bool races = strcmp(value, "all") == 0 || strstr(value, "races");
    bool undefined = strcmp(value, "all") == 0 || strstr(value, "undefined");
    if (!races && !undefined && strcmp(value, "none") != 0)
        refuse("HAL_CUDA_SIM_CHECKS", value, "all, none, races, undefined");
    drv_set.options.no_races = !races;
    drv_set.options.no_undefined = !undefined;
}

void drv_settings_read(void)
{
    drv_set.profile = profile(text("HAL_CUDA_SIM_PROFILE", "h100"));
    drv_set.devices = (int)number("HAL_CUDA_SIM_DEVICES", 1);
    drv_set.version = (int)number("HAL_CUDA_SIM_VERSION", 13000);
    drv_set.memory = (size_t)number("HAL_CUDA_SIM_MEMORY", 1ull << 30);
    drv_set.report = number("HAL_CUDA_SIM_REPORT", 0) != 0;
    drv_set.options.threads = (uint32_t)number("HAL_CUDA_SIM_THREADS", 0);
    read_timing(text("HAL_CUDA_SIM_TIMING", "eager"));
    read_checks(text("HAL_CUDA_SIM_CHECKS", "all"));
}
