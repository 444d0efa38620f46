/* staging.c - host memory that uploads and downloads pass through, so that the caller's may be reused at once. */
#include "internal.h"

#define BLOCK_SIZE   ((uint64_t)1 << 20)
#define MOST_STAGING ((uint64_t)64 << 20)

static bool idle(hal_stream *stream, const hal_staging_block *block)
{
    return !block->pinned && hal_stream_passed(stream, block->point);
}

static void free_block(hal_stream *stream, hal_staging_block *block)
{
    hal_device *device = stream->object.device;
    device->backend->memory_destroy(block->memory);
    hal_memory_unreserve(device, block->size);
    stream->staging_size -= block->size;
    hal_free(block);
}

/* Give idle blocks back, but for one of the usual size. */
static void trim(hal_stream *stream)
{
    bool kept = false;
    for (hal_staging_block **at = &stream->staging; *at;) {
        hal_staging_block *block = *at;
        if (!idle(stream, block) || (block->size == BLOCK_SIZE && !kept)) {
            kept |= block->size == BLOCK_SIZE && idle(stream, block);
            at = &block->next;
        } else {
            *at = block->next;
            free_block(stream, block);
        }
    }
}

static hal_staging_block *room(hal_stream *stream, uint64_t size)
{
    for (hal_staging_block *block = stream->staging; block; block = block->next) {
        if (block->used && idle(stream, block)) {
            block->used = 0;
        }
        if (block->size - block->used >= size) {
            return block;
        }
    }
    return NULL;
}

static hal_status add_block(hal_stream *stream, uint64_t size, hal_staging_block **out)
{
    hal_device *device = stream->object.device;
    hal_staging_block *block = hal_calloc(&device->core, 1, sizeof *block);
    if (!block) {
        return hal_fail(HAL_ERROR_OUT_OF_MEMORY, "out of host memory for a staging block");
    }
    block->size = size > BLOCK_SIZE ? size : BLOCK_SIZE;
    void *host = NULL;
    hal_status status = hal_memory_reserve(device, HAL_NATIVE_STAGING, block->size, false, &host, &block->memory);
    if (status != HAL_OK) {
        hal_free(block);
        return status;
    }
    block->host = host;
    block->next = stream->staging;
    stream->staging = block;
    stream->staging_size += block->size;
    *out = block;
    return HAL_OK;
}

/* Wait for uploads to make room. Held-back ones cannot be waited for: then memory grows, as the held commands do. */
static hal_status make_room(hal_stream *stream)
{
    if (stream->held) {
        return HAL_OK;
    }
    hal_device *device = stream->object.device;
    uint64_t point;
    hal_status status = hal_stream_mark_locked(stream, &point);
    if (status == HAL_OK) {
        status =
            hal_device_note(device, device->backend->stream_wait(stream->native, point, device->core.submit_timeout));
    }
    if (status == HAL_OK) {
        trim(stream);
    }
    return status;
}

hal_status hal_staging_take_locked(hal_stream *stream, uint64_t size, hal_staging_block **out, uint64_t *offset)
{
    hal_staging_block *block = room(stream, size);
    hal_status status = HAL_OK;
    if (!block && stream->staging_size + size > MOST_STAGING) {
        trim(stream);
        if (stream->staging_size + size > MOST_STAGING) {
            status = make_room(stream);
        }
        block = status == HAL_OK ? room(stream, size) : NULL;
    }
    if (status == HAL_OK && !block) {
        status = add_block(stream, size, &block);
    }
    if (status != HAL_OK) {
        return status;
    }
    *offset = block->used;
    block->used += (size + 15u) & ~(uint64_t)15u;
    block->used = block->used < block->size ? block->used : block->size;
    block->point = stream->last_point + 1;
    *out = block;
    return HAL_OK;
}

void hal_staging_copy_out_locked(hal_stream *stream, uint64_t passed)
{
    while (stream->downloads && stream->downloads->point <= passed) {
        hal_download *download = stream->downloads;
        stream->downloads = download->next;
        if (!stream->downloads) {
            stream->downloads_tail = &stream->downloads;
        }
        memcpy(download->target, download->source, download->size);
        download->block->pinned--;
        hal_free(download);
    }
}

void hal_staging_free(hal_stream *stream)
{
    while (stream->downloads) {
        hal_download *download = stream->downloads;
        stream->downloads = download->next;
        hal_free(download);
    }
    while (stream->staging) {
        hal_staging_block *block = stream->staging;
        stream->staging = block->next;
        free_block(stream, block);
    }
}
