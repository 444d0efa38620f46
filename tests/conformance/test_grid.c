/* Grids: larger than a device takes at once, split or refused; group counts in each axis. */
#include "conf.h"

/* Each group of x * y * z is run exactly once: its own place is 1 more than before. */
static void marks(hal_device *device, hal_kernel *mark, uint32_t x, uint32_t y, uint32_t z, bool recorded)
{
    uint32_t n = x * y * z;
    hal_stream *stream = conf_stream(device);
    hal_buffer *out = conf_buffer(device, (uint64_t)n * 4 + 64);
    hal_cmdlist *list = recorded ? conf_list(device) : hal_stream_cmdlist(stream);
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(out), &(uint32_t){0}, 4));
    OK(hal_cmd_dispatch(list, mark, HAL_GRID3(x, y, z), HAL_SPANS(hal_whole(out)), &(conf_mark){x, y, z, {9, 9, 9}},
                        sizeof(conf_mark)));
    if (recorded) {
        OK(hal_cmdlist_finish(list));
        OK(hal_cmdlist_submit(list, stream, NULL));
    }
    conf_check_u32(stream, out, 0, n, 1, 0);
    conf_check_u32(stream, out, n, 16, 0, 0);
    if (recorded)
        hal_cmdlist_destroy(list);
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
}

static void each_axis(void **state)
{
    (void)state;
    const uint32_t counts[2] = {65536, 70000};
    for (int c = 0; c < 2; c++) {
        marks(conf_device, conf_shared("group_mark"), counts[c], 1, 1, c);
        marks(conf_device, conf_shared("group_mark"), 1, counts[c], 1, c);
        marks(conf_device, conf_shared("group_mark"), 1, 1, counts[c], c);
    }
    marks(conf_device, conf_shared("group_mark"), 7, 5, 3, false);
}

/* The same with lowered limits, where every axis is split, in whole and in broken parts. */
static void split(void **state)
{
    (void)state;
    hal_device *device = conf_open("group_count=7");
    hal_kernel *mark = conf_kernel(device, "group_mark");
    const uint32_t grids[][3] = {{7, 7, 7}, {8, 1, 1}, {1, 8, 1}, {1, 1, 8}, {15, 8, 7}, {14, 14, 14}, {20, 3, 9}};
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
        for (int recorded = 0; recorded < 2; recorded++)
            marks(device, mark, grids[i][0], grids[i][1], grids[i][2], recorded);
    hal_cmdlist *list = conf_list(device);
    hal_buffer *out = conf_buffer(device, 4096);
    OK(hal_cmd_dispatch(list, mark, HAL_GRID3(15, 8, 1), HAL_SPANS(hal_whole(out)), &(conf_mark){15, 8, 1, {0, 0, 0}},
                        sizeof(conf_mark)));
    OK(hal_cmdlist_finish(list));
    hal_cmdlist_stats stats;
    OK(hal_cmdlist_get_stats(list, &stats));
    assert_int_equal(stats.commands, 6);
    hal_cmdlist_destroy(list);
    hal_buffer_destroy(out);
    hal_kernel_destroy(mark);
    hal_device_destroy(device);
}

/* A kernel that cannot be split is refused, and nothing runs. */
static void not_splittable(void **state)
{
    (void)state;
    hal_device *device = conf_open("group_count=7");
    hal_kernel *fill = conf_kernel(device, "fill_index");
    hal_stream *stream = conf_stream(device);
    hal_buffer *out = conf_buffer(device, 4096);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    OK(hal_cmd_fill(list, hal_whole(out), &(uint32_t){0}, 4));
    EXPECT(HAL_ERROR_LIMIT, conf_do_fill(list, fill, hal_whole(out), 64 * 8, 1));
    conf_expect_error("fill_index");
    conf_check_u32(stream, out, 0, 1024, 0, 0);
    OK(conf_do_fill(list, fill, hal_whole(out), 64 * 7, 1));
    conf_check_u32(stream, out, 0, 64 * 7, 1, 1);
    hal_kernel_destroy(fill);
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

static void beyond_all_limits(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *out = conf_buffer(conf_device, 4096);
    const uint32_t most = 1u << 31;
    const hal_grid grids[3] = {{most, 1, 1}, {1, most, 1}, {1, 1, UINT32_MAX}};
    for (int i = 0; i < 3; i++)
        EXPECT(HAL_ERROR_LIMIT,
               hal_cmd_dispatch(hal_stream_cmdlist(stream), conf_shared("group_mark"), grids[i],
                                HAL_SPANS(hal_whole(out)), &(conf_mark){1, 1, 1, {0, 0, 0}}, sizeof(conf_mark)));
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
}

/* Sizes that fill no group. */
static void odd_sizes(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *out = conf_buffer(conf_device, 4096);
    const uint32_t sizes[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 193, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(out), &(uint32_t){0x5a5a5a5a}, 4));
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(out), sizes[i], 4));
        conf_check_u32(stream, out, 0, sizes[i], 4, 1);
        conf_check_u32(stream, out, sizes[i], 1024 - sizes[i], 0x5a5a5a5a, 0);
    }
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
}

/* Groups of other shapes than 64 x 1 x 1. */
static void group_sizes(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *out = conf_buffer(conf_device, 4096);
    hal_module *module;
    OK(conf_module(conf_device, "fill_index", &module));
    const uint32_t sizes[] = {1, 3, 8, 32, 100, 128, 256};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] > hal_device_get_info(conf_device)->max_group_size)
            continue;
        hal_kernel_desc desc = conf_kernel_desc("fill_index");
        hal_kernel *kernel;
        desc.group[0] = sizes[i];
        desc.group[1] = desc.group[2] = 0; /* counts as 1 */
        OK(hal_kernel_create(module, "fill_index", &desc, &kernel));
        OK(hal_cmd_dispatch(hal_stream_cmdlist(stream), kernel, HAL_GRID1((1000 + sizes[i] - 1) / sizes[i]),
                            HAL_SPANS(hal_whole(out)), &(conf_fill){1000, i}, sizeof(conf_fill)));
        conf_check_u32(stream, out, 0, 1000, i, 1);
        hal_kernel_destroy(kernel);
    }
    hal_module_destroy(module);
    hal_buffer_destroy(out);
    hal_stream_destroy(stream);
}

int conf_test_grid(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_axis), CASE(split), CASE(not_splittable), CASE(beyond_all_limits), CASE(odd_sizes), CASE(group_sizes),
    };
    return RUN("grid", tests);
}
