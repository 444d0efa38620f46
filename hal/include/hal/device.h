/* hal/device.h - finding, opening and asking devices.
 *
 * A device is one device of one backend: a CUDA primary context, an OpenCL context, a VkDevice. Several may be open at
 * once, the same one too; they share nothing. Drivers are loaded by dlopen when a device of theirs is listed or opened,
 * and a missing or broken driver is a line in the list, never a failure of the others.
 *
 * Selection (HAL_BACKEND, or hal_device_desc.select): a comma list in order of preference of BACKEND[:WHICH], where
 * BACKEND is cuda, opencl or vulkan and WHICH is an index or a case-insensitive part of the device's name, UUID or PCI
 * address. The first entry that is there is opened; if none is, or an entry names no backend, the error lists what
 * exists. Nothing is substituted. Unset or empty: the best device there is (CUDA, then Vulkan, then OpenCL; a CPU
 * device only if there is no other, OpenCL's before Vulkan's).
 */
#ifndef HAL_DEVICE_H
#define HAL_DEVICE_H

#include <hal/base.h>
#include <hal/debug.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hal_device_type {
    HAL_DEVICE_OTHER,
    HAL_DEVICE_CPU,
    HAL_DEVICE_INTEGRATED,
    HAL_DEVICE_DISCRETE
} hal_device_type;

/* What a device is and can do. Sizes in bytes. Fields are only ever added at the end. */
typedef struct hal_device_info {
    char backend[16]; /* "cuda", "opencl", "vulkan" */
    char name[128];
    char driver[128]; /* driver name and version */
    char uuid[40];    /* hex, "" if the API has none */
    char pci[24];     /* "0000:65:00.0", "" if unknown */
    uint32_t index;   /* HAL_BACKEND=backend:index */
    hal_device_type type;
    uint32_t api_major, api_minor; /* CUDA driver, OpenCL device or Vulkan version */
    uint32_t compute_capability;   /* CUDA: 90 for 9.0; else 0 */

    uint32_t compute_units; /* SMs, CUs, or hardware threads of a CPU device */
    uint32_t subgroup_size; /* warp or subgroup width; 1 where there are none */
    uint32_t subgroup_size_min, subgroup_size_max;
    uint32_t max_group_size; /* work-items of a group, in all */
    uint32_t max_group_dim[3];
    uint64_t max_group_count[3]; /* per dispatch; larger grids are split for kernels that allow it */
    uint32_t max_shared_memory;  /* per group */
    uint32_t max_args;           /* bytes of a HAL_ABI_PLAIN kernel's argument struct; HAL_ABI_OFFSET: HAL_MAX_ARGS */
    uint32_t span_alignment;     /* offsets of spans bound to HAL_ABI_PLAIN kernels: multiples of this */
    uint64_t memory_size;        /* of the device */
    uint64_t max_buffer_size;
    uint64_t max_view_elements; /* texels of a texel view; 0 without them */
    uint32_t view_alignment;    /* offset alignment of texel views */

    bool fp16, bf16, fp8; /* arithmetic (not storage: every backend stores all of them) */
    bool fp64, int64;
    bool subgroups, subgroup_shuffle;
    bool matrix_units;   /* tensor cores, cooperative matrices */
    bool unified_memory; /* host and device share memory */
    bool import_host_memory;
    bool timestamps;
    double timestamp_period_ns;
    bool subnormals_f32, subnormals_f16; /* kept in arithmetic; false: flushed to zero */
    bool priorities;                     /* stream priorities have an effect */
    bool native_replay;                  /* recorded lists become an object of the API (graph, command buffer) */
    uint32_t max_loop_iterations; /* of one work-item, all its loops together; 0: not limited. Mesa's lavapipe leaves
                                     loops after 65,535 turns without a word, in your kernels, too: results are wrong
                                     then. Operators choose a kernel that stays below, or say HAL_ERROR_LIMIT */
    uint64_t bounded_span;        /* HAL_ABI_PLAIN: what is stored beyond the end of a span of up to so many bytes is
                                     dropped; 0: such stores are errors, as in other forms */
    bool async_matrix;            /* matrix units that read shared memory by themselves while a kernel goes on (CUDA:
                                     compute capability 9.0 alone); never without matrix_units */
} hal_device_info;

/* One line of a device list: a device, or a backend that is absent and why. */
typedef struct hal_device_entry {
    const char *backend;
    bool available;
    const char *reason;          /* why not; "" if available */
    const hal_device_info *info; /* NULL if not available */
} hal_device_entry;

typedef struct hal_device_list hal_device_list;

/* List the devices of every backend, or only of the backends named in `select` (a selection as above; NULL: all): the
 * drivers of the others are not touched. Absent backends are entries too. Never fails because a driver does; a name
 * that is no backend is HAL_ERROR_NOT_FOUND. */
HAL_API hal_status hal_device_list_create(const char *select, hal_device_list **list);
HAL_API uint32_t hal_device_list_count(const hal_device_list *list);
/* NULL beyond the end. The entry lives as long as the list. */
HAL_API const hal_device_entry *hal_device_list_get(const hal_device_list *list, uint32_t index);
HAL_API void hal_device_list_destroy(hal_device_list *list);

typedef struct hal_device_desc {
    size_t struct_size;
    const char *select; /* NULL: $HAL_BACKEND, else the best device */
    const char *label;
    const char *cache_dir;   /* NULL: $HAL_CACHE_DIR, else the XDG cache folder; "" for no cache */
    uint64_t submit_timeout; /* ns a submission may wait for room in a full queue; 0: 10 s */
    hal_log_fn log;          /* NULL: none but $HAL_LOG */
    void *log_user;
    const char *limits; /* for tests: lowered limits, e.g. "shared=16384,group_size=128,fp16=0"; see hal/debug.h.
                           NULL: $HAL_LIMITS */
} hal_device_desc;
#define HAL_DEVICE(...) HAL_DESC(hal_device_desc, __VA_ARGS__)

/* Open a device; desc may be NULL. */
HAL_API hal_status hal_device_open(const hal_device_desc *desc, hal_device **device);
/* Give the device up. Objects made from it keep it alive and go on working; it closes when the last of them and all
 * work is gone. NULL is a no-op. */
HAL_API void hal_device_destroy(hal_device *device);
/* Lives as long as the device. NULL for NULL. */
HAL_API const hal_device_info *hal_device_get_info(const hal_device *device);
/* HAL_OK, or HAL_ERROR_DEVICE_LOST once the device is lost. */
HAL_API hal_status hal_device_status(const hal_device *device);
/* Per-device state of a layer above (its kernel cache, say). The first call with `key` runs create, once however many
 * threads call; all get the same state. hal_device_destroy runs destroy; after it, attaching is
 * HAL_ERROR_INVALID_STATE. `key` is the address of any constant of that layer. */
typedef hal_status (*hal_attach_fn)(hal_device *device, void **state);
typedef void (*hal_detach_fn)(void *state);
HAL_API hal_status hal_device_attach(hal_device *device, const void *key, hal_attach_fn create, hal_detach_fn destroy,
                                     void **state);
/* Wait until everything submitted so far on every stream is done. */
HAL_API hal_status hal_device_wait(hal_device *device, uint64_t timeout);

typedef struct hal_memory_stats {
    uint64_t current;          /* bytes of live buffers */
    uint64_t peak;             /* the most `current` has been */
    uint64_t count;            /* live buffers */
    uint64_t reserved;         /* bytes taken from the driver, pools included */
    uint64_t host_allocations; /* host allocations that libhal has made for this device so far */
} hal_memory_stats;
HAL_API hal_status hal_device_memory_stats(hal_device *device, hal_memory_stats *stats);

typedef struct hal_stall {
    bool stuck;          /* something waits for an event that nobody has signalled */
    uint32_t unfinished; /* submissions not done, over all streams */
    uint64_t oldest_age_ns;
} hal_stall;

/* What is unfinished and why: per stream the pending commands by name and age, what each waits for, and the gate that
 * nobody opened if there is one. `text` (may be NULL) receives at most `capacity` bytes, terminated. "Slow" (the device
 * is at work) is told from "stuck" (waits for the host). Circular waits cannot be built: only recorded events and
 * gates can be waited for. */
HAL_API hal_status hal_device_stall_report(hal_device *device, hal_stall *stall, char *text, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
