/* run_cases.c - runs conformance cases on libhal: every folder with a case.json below the given ones. */
#include "case_ops.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 16

typedef struct counts {
    unsigned long passed, failed, skipped;
} counts;

static const char usage[] =
    "Usage: run_cases [--backend LIST] [--verbose] DIR...\n"
    "\n"
    "Runs every case (a folder with a case.json) below each DIR and compares whole output files.\n"
    "  --backend LIST  run on each of these devices: a comma list of BACKEND[:WHICH], e.g. opencl,vulkan\n"
    "                  (default: one device, chosen by HAL_BACKEND, else the best there is)\n"
    "  --verbose       print the cases that pass, too\n"
    "  --help          print this\n"
    "\n"
    "Prints a line for each case that fails or is skipped, and last \"N passed, N failed, N skipped\".\n"
    "Exit status: 0 no failure, 1 a failure or nothing to run, 2 wrong usage.\n";

static void run_folder(const case_device *d, const char *folder, bool verbose, counts *n)
{
    const hal_device_info *info = hal_device_get_info(d->device);
    case_file c;
    char why[512] = "";
    case_result outcome;
    if (!case_open(&c, folder)) {
        outcome = CASE_FAILED;
        snprintf(why, sizeof why, "malformed: %s", c.error);
    } else if (!case_op_known(c.op)) {
        outcome = CASE_SKIPPED;
        snprintf(why, sizeof why, "operator %.64s not in this library version", c.op);
    } else if (!case_load(&c, folder)) {
        outcome = CASE_FAILED;
        snprintf(why, sizeof why, "malformed: %s", c.error);
    } else {
        outcome = case_run(d, &c, why, sizeof why);
    }
    case_close(&c);
    if (outcome == CASE_FAILED) {
        n->failed++;
        printf("FAILED %s on %s: %s\n", folder, info->backend, why);
    } else if (outcome == CASE_SKIPPED) {
        n->skipped++;
        printf("skipped %s: %s\n", folder, why);
    } else {
        n->passed++;
        if (verbose) {
            printf("passed %s on %s\n", folder, info->backend);
        }
    }
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* In the order of names, so that two runs print the same. */
static void walk(const case_device *d, const char *folder, int depth, bool verbose, counts *n)
{
    char path[4096];
    struct stat status;
    if (snprintf(path, sizeof path, "%s/case.json", folder) >= (int)sizeof path || depth > MAX_DEPTH) {
        n->failed++;
        printf("FAILED %s: the path is too long or too deep\n", folder);
        return;
    }
    if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
        run_folder(d, folder, verbose, n);
        return;
    }
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, visible, alphasort);
    if (count < 0) {
        n->failed++;
        printf("FAILED %s: cannot read the folder\n", folder);
        return;
    }
    for (int i = 0; i < count; i++) {
        if (snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name) < (int)sizeof path &&
            lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
            walk(d, path, depth + 1, verbose, n);
        }
        free(entries[i]);
    }
    free(entries);
}

/* `select` NULL: HAL_BACKEND decides. */
static bool run_on(const char *select, char **folders, int folder_count, bool verbose, counts *n)
{
    case_device d = {0};
    hal_status status = hal_device_open(HAL_DEVICE(.select = select, .label = "run_cases"), &d.device);
    if (status == HAL_OK) {
        status = hal_stream_create(d.device, HAL_STREAM(.label = "run_cases"), &d.stream);
    }
    if (status != HAL_OK) {
        printf("cannot open %s: %s: %s\n", select ? select : "a device", hal_status_name(status), hal_last_error());
        hal_device_destroy(d.device);
        return false;
    }
    d.list = hal_stream_cmdlist(d.stream);
    const hal_device_info *info = hal_device_get_info(d.device);
    printf("%s:%u %s\n", info->backend, info->index, info->name);
    for (int i = 0; i < folder_count; i++) {
        walk(&d, folders[i], 0, verbose, n);
    }
    hal_stream_destroy(d.stream);
    hal_device_destroy(d.device);
    return true;
}

int main(int argc, char **argv)
{
    char *backends = NULL;
    bool verbose = false;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[first], "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(argv[first], "--backend") == 0 && first + 1 < argc) {
            backends = argv[++first];
        } else {
            fprintf(stderr, "run_cases: %s is no option, or lacks its value\n%s", argv[first], usage);
            return 2;
        }
    }
    if (first == argc) {
        fprintf(stderr, "run_cases: no folder given\n%s", usage);
        return 2;
    }
    counts n = {0, 0, 0};
    bool opened = true;
    if (!backends) {
        opened = run_on(NULL, argv + first, argc - first, verbose, &n);
    } else {
        char *save = NULL;
        for (char *one = strtok_r(backends, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
            opened = run_on(one, argv + first, argc - first, verbose, &n) && opened;
        }
    }
    if (opened && n.passed + n.failed + n.skipped == 0) {
        printf("no case.json below the given folders\n");
        opened = false;
    }
    printf("%lu passed, %lu failed, %lu skipped\n", n.passed, n.failed, n.skipped);
    return n.failed || !opened ? 1 : 0;
}
