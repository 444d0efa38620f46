/* Memory: kinds, sizes, mapping, importing, running out of it. */
#include "conf.h"

#include <sys/mman.h>
#include <unistd.h>

static const hal_memory kinds[3] = {HAL_MEMORY_DEVICE, HAL_MEMORY_HOST, HAL_MEMORY_UNIFIED};

static hal_buffer *of_kind(hal_memory kind, uint64_t size)
{
    hal_buffer *buffer;
    OK(hal_buffer_create(conf_device, HAL_BUFFER(.size = size, .memory = kind), &buffer));
    return buffer;
}

static void every_kind(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    for (int k = 0; k < 3; k++) {
        for (int dedicated = 0; dedicated < 2; dedicated++) {
            hal_buffer *buffer;
            OK(hal_buffer_create(
                conf_device, HAL_BUFFER(.size = 40000, .memory = kinds[k], .label = "forty", .dedicated = dedicated),
                &buffer));
            assert_int_equal(hal_buffer_size(buffer), 40000);
            assert_string_equal(hal_buffer_label(buffer), "forty");
            OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(buffer), 10000, 3));
            conf_check_u32(stream, buffer, 0, 10000, 3, 1);
            hal_buffer_destroy(buffer);
        }
    }
    hal_stream_destroy(stream);
}

static void size_zero(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    for (int k = 0; k < 3; k++) {
        hal_buffer *buffer = of_kind(kinds[k], 0);
        assert_int_equal(hal_buffer_size(buffer), 0);
        OK(hal_cmd_fill(list, hal_whole(buffer), "x", 1));
        OK(hal_cmd_upload(list, hal_whole(buffer), NULL, 0));
        OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(buffer), 0, 0));
        EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_fill(list, hal_range(buffer, 0, 1), "x", 1));
        EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_cmd_fill(list, hal_at(buffer, 1), "x", 1));
        OK(hal_stream_wait(stream, SOON));
        hal_buffer_destroy(buffer);
    }
    hal_stream_destroy(stream);
}

/* Neighbours in a pool keep to themselves, and every buffer starts where any kernel can bind it. */
static void neighbours(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    hal_buffer *buffers[COUNT];
    hal_stream *stream = conf_stream(conf_device);
    hal_memory_stats before, during, after;
    OK(hal_device_memory_stats(conf_device, &before));
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t n = 1 + i * 37 % 100;
        buffers[i] = conf_buffer(conf_device, n * 4);
        bytes += n * 4;
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(buffers[i]), n, i * 1000));
    }
    OK(hal_device_memory_stats(conf_device, &during));
    assert_int_equal(during.current, before.current + bytes);
    assert_int_equal(during.count, before.count + COUNT);
    assert_true(during.peak >= during.current && during.reserved >= during.current);
    for (uint32_t i = 0; i < COUNT; i += 2)
        hal_buffer_destroy(buffers[i]);
    for (uint32_t i = 1; i < COUNT; i += 2)
        conf_check_u32(stream, buffers[i], 0, 1 + i * 37 % 100, i * 1000, 1);
    for (uint32_t i = 1; i < COUNT; i += 2)
        hal_buffer_destroy(buffers[i]);
    OK(hal_device_memory_stats(conf_device, &after));
    assert_int_equal(after.current, before.current);
    assert_int_equal(after.count, before.count);
    assert_int_equal(after.peak, during.peak);
    hal_stream_destroy(stream);
}

/* 2^60 bytes: refused, and the device works on, three times over. */
static void far_too_large(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (int k = 0; k < 3; k++) {
            hal_buffer *buffer = (hal_buffer *)&buffer;
            EXPECT(HAL_ERROR_OUT_OF_MEMORY,
                   hal_buffer_create(conf_device, HAL_BUFFER(.size = UINT64_C(1) << 60, .memory = kinds[k]), &buffer));
            assert_null(buffer);
            EXPECT(HAL_ERROR_OUT_OF_MEMORY,
                   hal_buffer_create(conf_device, HAL_BUFFER(.size = UINT64_MAX, .memory = kinds[k]), &buffer));
        }
        hal_buffer *small = conf_buffer(conf_device, 4096);
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(small), 1024, turn));
        conf_check_u32(stream, small, 0, 1024, turn, 1);
        hal_buffer_destroy(small);
    }
    hal_stream_destroy(stream);
}

/* HAL_LIMITS=pooled=N: what is larger has an allocation of its own, of its own size. */
static void without_pool(void **state)
{
    (void)state;
    hal_device *device = conf_open("pooled=4096");
    hal_memory_stats before, own, pooled;
    OK(hal_device_memory_stats(device, &before));
    hal_buffer *large = conf_buffer(device, 8192);
    OK(hal_device_memory_stats(device, &own));
    assert_int_equal(own.reserved - before.reserved, 8192);
    hal_buffer *small = conf_buffer(device, 4096);
    OK(hal_device_memory_stats(device, &pooled));
    assert_true(pooled.reserved - own.reserved > 4096);
    hal_buffer_destroy(small);
    hal_buffer_destroy(large);
    hal_device_destroy(device);
}

/* Allocate until there is no more, free all, and go on: three times. */
static void until_out_of_memory(void **state)
{
    (void)state;
    hal_device *device = conf_open("memory=67108864");
    hal_stream *stream = conf_stream(device);
    hal_kernel *fill = conf_kernel(device, "fill_index");
    hal_buffer *first = conf_buffer(device, 4096), *more[200];
    uint32_t counts[3];
    for (uint32_t turn = 0; turn < 3; turn++) {
        uint32_t count = 0;
        hal_status status = HAL_OK;
        while (count < 200 && (status = hal_buffer_create(device, HAL_BUFFER(.size = 1 << 20), &more[count])) == HAL_OK)
            count++;
        assert_int_equal(status, HAL_ERROR_OUT_OF_MEMORY);
        assert_true(count >= 32 && count < 64);
        hal_memory_stats stats;
        OK(hal_device_memory_stats(device, &stats));
        assert_true(stats.reserved <= 67108864);
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(first), 1024, turn));
        OK(conf_do_fill(hal_stream_cmdlist(stream), fill, hal_whole(more[count - 1]), 1 << 18, turn));
        OK(hal_stream_wait(stream, SOON));
        counts[turn] = count;
        while (count > 0)
            hal_buffer_destroy(more[--count]);
        conf_check_u32(stream, first, 0, 1024, turn, 1);
    }
    assert_true(counts[1] + 1 >= counts[0]); /* the first read took a staging area */
    assert_int_equal(counts[2], counts[1]);
    hal_buffer_destroy(first);
    hal_kernel_destroy(fill);
    hal_stream_destroy(stream);
    hal_device_destroy(device);
}

static void map_reads_and_writes(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    for (int k = 1; k < 3; k++) {
        hal_buffer *buffer = of_kind(kinds[k], 40000);
        uint32_t *words;
        OK(conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(buffer), 10000, 7));
        OK(hal_stream_wait(stream, SOON));
        OK(hal_buffer_map(buffer, 400, 39600, HAL_READ_WRITE, (void **)&words));
        for (uint32_t i = 0; i < 9900; i++)
            assert_int_equal(words[i], 7 + 100 + i);
        for (uint32_t i = 0; i < 9900; i++)
            words[i] = 2 * i;
        OK(hal_buffer_unmap(buffer));
        OK(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32"), hal_whole(buffer), 10000, 1, 1));
        conf_check_u32(stream, buffer, 0, 100, 8, 1);
        conf_check_u32(stream, buffer, 100, 9900, 1, 2);
        OK(hal_buffer_map(buffer, 0, HAL_REST, HAL_READ, (void **)&words));
        assert_int_equal(words[9999], 2 * 9899 + 1);
        OK(hal_buffer_unmap(buffer));
        hal_buffer_destroy(buffer);
    }
    hal_stream_destroy(stream);
}

static void map_rules(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_buffer *device_buffer = of_kind(HAL_MEMORY_DEVICE, 4096), *buffer = of_kind(HAL_MEMORY_HOST, 4096);
    void *pointer = &pointer;
    EXPECT(HAL_ERROR_UNSUPPORTED, hal_buffer_map(device_buffer, 0, 64, HAL_READ, &pointer));
    assert_null(pointer);
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_buffer_map(buffer, 0, 4097, HAL_READ, &pointer));
    EXPECT(HAL_ERROR_OUT_OF_RANGE, hal_buffer_map(buffer, UINT64_MAX, 2, HAL_READ, &pointer));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_map(buffer, 0, 64, HAL_READ, NULL));
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_map(buffer, 0, 64, (hal_access)9, &pointer));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_buffer_unmap(buffer));
    OK(hal_buffer_map(buffer, 0, 64, HAL_READ, &pointer));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_buffer_map(buffer, 64, 64, HAL_READ, &pointer));
    EXPECT(HAL_ERROR_INVALID_STATE,
           conf_do_fill(hal_stream_cmdlist(stream), conf_shared("fill_index"), hal_whole(buffer), 16, 0));
    EXPECT(HAL_ERROR_INVALID_STATE, hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), "x", 1));
    OK(hal_buffer_unmap(buffer));
    OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(buffer), "x", 1));
    OK(hal_stream_wait(stream, SOON));
    hal_buffer_destroy(buffer);
    hal_buffer_destroy(device_buffer);
    hal_stream_destroy(stream);
}

/* Destroyed while the device uses it: the work ends well all the same. */
static void destroyed_in_use(void **state)
{
    (void)state;
    hal_stream *stream = conf_stream(conf_device);
    hal_cmdlist *list = hal_stream_cmdlist(stream);
    hal_buffer *word = conf_buffer(conf_device, 4), *kept = conf_buffer(conf_device, 4096);
    conf_busy(stream, conf_shared("spin"), word, 50);
    for (uint32_t i = 0; i < 20; i++) {
        hal_buffer *passing = of_kind(kinds[i % 3], 4096);
        OK(conf_do_fill(list, conf_shared("fill_index"), hal_whole(passing), 1024, i));
        OK(conf_do_copy(list, conf_shared("copy_u32"), hal_whole(passing), hal_whole(kept), 1024));
        hal_buffer_destroy(passing);
        hal_buffer *reuse = of_kind(kinds[i % 3], 4096); /* must not get the memory that is still in use */
        OK(hal_cmd_fill(hal_stream_cmdlist(stream), hal_whole(reuse), "\xee", 1));
        hal_buffer_destroy(reuse);
    }
    conf_check_u32(stream, kept, 0, 1024, 19, 1);
    hal_buffer_destroy(kept);
    hal_buffer_destroy(word);
    hal_stream_destroy(stream);
}

/* The same with two streams: what another stream writes at once must not land in memory given back too early. */
static void reuse_across_streams(void **state)
{
    (void)state;
    hal_stream *slow = conf_stream(conf_device), *fast = conf_stream(conf_device);
    hal_buffer *word = conf_buffer(conf_device, 4), *kept = conf_buffer(conf_device, 4096);
    hal_buffer *passing = conf_buffer(conf_device, 4096);
    conf_write(slow, passing, 0, &(uint32_t){77}, 4);
    conf_busy(slow, conf_shared("spin"), word, 100);
    OK(conf_do_copy(hal_stream_cmdlist(slow), conf_shared("copy_u32"), hal_whole(passing), hal_whole(kept), 1));
    OK(hal_stream_flush(slow));
    hal_buffer_destroy(passing);
    for (uint32_t i = 0; i < 20; i++) {
        hal_buffer *reuse = conf_buffer(conf_device, 4096);
        OK(hal_cmd_fill(hal_stream_cmdlist(fast), hal_whole(reuse), "\xee", 1));
        OK(hal_stream_wait(fast, SOON));
        hal_buffer_destroy(reuse);
    }
    conf_check_u32(slow, kept, 0, 1, 77, 1);
    hal_buffer_destroy(kept);
    hal_buffer_destroy(word);
    hal_stream_destroy(fast);
    hal_stream_destroy(slow);
}

static uint32_t released;
static void *released_pointer;
static uint64_t released_size;

static void release(void *user, void *pointer, uint64_t size)
{
    assert_ptr_equal(user, &released);
    released_pointer = pointer;
    released_size = size;
    released++;
}

static void import_once(hal_stream *stream, uint8_t *memory, uint64_t size)
{
    hal_buffer *buffer;
    uint32_t words = (uint32_t)(size / 4), before = released;
    OK(hal_buffer_import(conf_device, memory, size, release, &released, "mine", &buffer));
    assert_int_equal(hal_buffer_size(buffer), size);
    OK(conf_do_scale(hal_stream_cmdlist(stream), conf_shared("scale_u32_off"), hal_whole(buffer), words, 3, 1));
    assert_int_equal(released, before);
    hal_buffer_destroy(buffer); /* while it is in use */
    OK(hal_stream_wait(stream, SOON));
    hal_memory_stats stats;
    OK(hal_device_memory_stats(conf_device, &stats)); /* collects */
    assert_int_equal(released, before + 1);
    assert_ptr_equal(released_pointer, memory);
    assert_int_equal(released_size, size);
}

static void import_host_memory(void **state)
{
    (void)state;
    if (!hal_device_get_info(conf_device)->import_host_memory)
        SKIP("the device cannot import host memory");
    hal_stream *stream = conf_stream(conf_device);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = aligned_alloc(page, 4 * page);
    assert_non_null(memory);
    released = 0;
    /* Page-aligned, at 4 bytes past it, and the last bytes of a page on to the next. */
    const uint64_t places[4][2] = {{0, 4 * page}, {4, 400}, {page - 8, 64}, {100, 2 * page}};
    for (int p = 0; p < 4; p++) {
        for (uint64_t i = 0; i < 4 * page; i += 4)
            memcpy(memory + i, &(uint32_t){(uint32_t)i}, 4);
        import_once(stream, memory + places[p][0], places[p][1]);
        for (uint64_t i = 0; i < 4 * page; i += 4) {
            uint32_t got, want = (uint32_t)i;
            memcpy(&got, memory + i, 4);
            if (i >= places[p][0] && i < places[p][0] + places[p][1])
                want = want * 3 + 1;
            assert_int_equal(got, want);
        }
    }
    hal_buffer *buffer;
    OK(hal_buffer_import(conf_device, memory, page, NULL, NULL, NULL, &buffer));
    void *mapped;
    OK(hal_buffer_map(buffer, 16, 16, HAL_READ_WRITE, &mapped));
    OK(hal_buffer_unmap(buffer));
    hal_buffer_destroy(buffer);
    EXPECT(HAL_ERROR_INVALID_ARGUMENT, hal_buffer_import(conf_device, NULL, 64, NULL, NULL, NULL, &buffer));
    free(memory);
    hal_stream_destroy(stream);
}

static void import_many_times(void **state)
{
    (void)state;
    if (!hal_device_get_info(conf_device)->import_host_memory)
        SKIP("the device cannot import host memory");
    enum { TURNS = 10000 };
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = 0;
    uint8_t *memory = aligned_alloc(page, 4 * page);
    released = 0;
    for (uint32_t i = 0; i < TURNS; i++) {
        hal_buffer *buffer;
        OK(hal_buffer_import(conf_device, memory + i % 2 * 4, 2 * page, i % 3 ? release : NULL, &released, NULL,
                             &buffer));
        hal_buffer_destroy(buffer);
        if (i == TURNS / 10)
            start = conf_rss();
    }
    assert_int_equal(released, TURNS - (TURNS + 2) / 3);
    conf_check_growth(start, 1 << 20);
    free(memory);
}

int conf_test_buffer(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_kind),         CASE(size_zero),           CASE(neighbours),
        CASE(far_too_large),      CASE(until_out_of_memory), CASE(map_reads_and_writes),
        CASE(map_rules),          CASE(destroyed_in_use),    CASE(reuse_across_streams),
        CASE(import_host_memory), CASE(import_many_times),   CASE(without_pool),
    };
    return RUN("buffer", tests);
}
