/* vulkan_backend.h - the objects of the Vulkan backend and what its files offer each other.
 *
 *  device.c  enumerate, open, queues, pipeline cache     caps.c    what a physical device is and can do
 *  memory.c  buffers, texel views                        module.c  pipelines;  spirv.c, glsl.c: the programs' text
 *  record.c  one hal_command into a command buffer       stream.c  batches of commands, submission, waits, events
 *  list.c    recorded lists                              alloc.c   host memory of command pools
 */
#ifndef HAL_VULKAN_BACKEND_H
#define HAL_VULKAN_BACKEND_H

#include "backend.h"
#include "driver.h"

#include <pthread.h>

#define VK_QUEUES_MAX     8   /* of one device */
#define VK_BATCHES_MAX    64  /* submissions of one stream in flight */
#define VK_BATCH_WAITS    8   /* other streams one submission waits for */
#define VK_BATCH_LISTS    16  /* recorded lists in one submission */
#define VK_INSTANCES_MAX  8   /* recordings of one list, for submissions with different bindings in flight */
#define VK_VIEWS_MAX      64  /* texel views kept for one memory, beyond those in use */
#define VK_PARAMETER_STEP 16u /* parameter blocks start at multiples of this */

/* ---- caps.c */

typedef struct vk_caps {
    hal_device_info info;
    bool usable;
    char reason[256]; /* why not */

    uint32_t vendor, device_id, driver_version;
    uint8_t pipeline_cache_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE], driver_uuid[VK_UUID_SIZE];
    uint64_t max_storage_range, max_allocation, atom, import_alignment;
    uint32_t max_spirv; /* version word */
    uint32_t max_push;
    VkSubgroupFeatureFlags subgroup_operations;
    uint32_t family, family_queues, timestamp_bits;
    VkPhysicalDeviceMemoryProperties memory;

    /* What vkCreateDevice is to switch on; `features` heads the chain. */
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceVulkan11Features features11;
    VkPhysicalDeviceVulkan12Features features12;
    const char *extensions[8];
    uint32_t extension_count;
    bool cooperative_matrix, bfloat16, robustness, host_import;
} vk_caps;

/* Describe a physical device. Some members of *caps point to others: it must not move. */
hal_status hal_vk_caps(const vk_driver *vk, VkPhysicalDevice physical, uint32_t index, vk_caps *caps);
/* The features chain for vkCreateDevice, in `chain`, which must outlive it. */
typedef struct vk_feature_chain {
    struct {
        VkStructureType type;
        void *next;
        VkBool32 bits[3];
    } cooperative_matrix, bfloat16, robustness;
} vk_feature_chain;
const void *hal_vk_caps_features(vk_caps *caps, vk_feature_chain *chain);

/* ---- device.c */

typedef struct vk_queue {
    VkQueue handle;
    pthread_mutex_t lock; /* vkQueueSubmit is externally synchronised */
} vk_queue;

struct hal_native_device {
    hal_core *core;
    vk_driver vk;
    VkDevice handle;
    vk_caps caps;
    vk_queue queues[VK_QUEUES_MAX];
    uint32_t queue_count;
    atomic_uint next_queue;
    atomic_bool settled; /* the device is lost and has stopped */
    VkPipelineCache pipeline_cache;
    size_t pipeline_cache_loaded; /* bytes that came from the disk */
    atomic_uint_fast64_t next_memory;
    pthread_mutex_t view_lock; /* all views of all memory */
    pthread_mutex_t glsl_lock; /* guards glsl */
    struct vk_glsl *glsl;      /* the GLSL compiler, loaded at first use */
};

/* hal_vk_fail, for calls that a lost device may fail: objects are destroyed once it is known to be lost, so it has
 * stopped for good when this returns. */
hal_status hal_vk_device_fail(hal_native_device *device, VkResult result, const char *call);

/* ---- memory.c */

typedef struct vk_view {
    VkBufferView handle; /* VK_NULL_HANDLE once its memory is gone */
    VkFormat format;
    uint64_t offset, range;
    uint32_t uses; /* recordings that refer to it */
    hal_native_memory *memory;
    struct vk_view *next;
} vk_view;

struct hal_native_memory {
    hal_native_device *device;
    uint64_t id; /* never reused, unlike the pointer */
    VkBuffer buffer;
    VkDeviceMemory memory;
    VkDeviceAddress address;
    uint64_t size; /* of the buffer; at least what was asked for */
    void *host;    /* persistent mapping, or NULL */
    bool coherent, imported;
    vk_view *views; /* the latest used first */
    uint32_t view_count;
};

/* Host-visible memory that kernels read parameters from, written by the host only. */
hal_status hal_vk_parameters_create(hal_native_device *device, uint64_t size, hal_native_memory **memory);
hal_status hal_vk_memory_create(hal_native_device *device, hal_native_memory_kind kind, uint64_t size, void **host,
                                hal_native_memory **memory);
void hal_vk_memory_destroy(hal_native_memory *memory);
hal_status hal_vk_memory_map(hal_native_memory *memory, uint64_t offset, uint64_t size, hal_access access,
                             void **pointer);
hal_status hal_vk_memory_unmap(hal_native_memory *memory, void *pointer);
/* A texel view, cached; release it when the recording that uses it is reset. */
hal_status hal_vk_view_acquire(hal_native_memory *memory, hal_view view, uint64_t offset, uint64_t size, vk_view **out);
void hal_vk_view_release(hal_native_device *device, vk_view *view);

/* ---- spirv.c, glsl.c, module.c */

/* Refuse SPIR-V that is cut off, malformed, too new, or needs a capability the device lacks. */
hal_status hal_vk_spirv_check(const vk_caps *caps, const uint32_t *words, size_t size, const char *label);
/* The entry point to use for `wanted`: itself, or "main" if that is the only one. `words` has passed the check. */
typedef struct vk_entry {
    const char *name;  /* points into the words */
    uint32_t group[3]; /* 0: set by specialisation constants */
} vk_entry;
hal_status hal_vk_spirv_entry(const uint32_t *words, size_t size, const char *wanted, vk_entry *entry);
/* HAL_ERROR_LIMIT if the module, so specialised, declares more shared memory than a group has. */
hal_status hal_vk_spirv_check_shared(const hal_native_device *device, const uint32_t *words, size_t size,
                                     const VkSpecializationInfo *constants, const char *label);
/* Compile GLSL. *words is to be freed with hal_free. */
hal_status hal_vk_glsl_compile(hal_native_device *device, const char *source, const char *label, const char *options,
                               const hal_constant *constants, uint32_t constant_count, uint32_t **words, size_t *size);
void hal_vk_glsl_close(hal_native_device *device);

struct hal_native_kernel {
    hal_native_device *device;
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSetLayout set_layout; /* VK_NULL_HANDLE: no descriptors */
    hal_abi abi;
    uint32_t binding_count, args_size;
    uint32_t storage_count, texel_count; /* descriptors of one set */
    hal_view views[HAL_MAX_BINDINGS];
    bool has_descriptor[HAL_MAX_BINDINGS];
};

hal_status hal_vk_module_create(hal_native_device *device, const hal_module_desc *desc, hal_native_module **module);
void hal_vk_module_destroy(hal_native_module *module);
hal_status hal_vk_kernel_create(hal_native_module *module, const char *entry, const hal_kernel_desc *desc,
                                hal_native_kernel **kernel, hal_kernel_limits *limits);
void hal_vk_kernel_destroy(hal_native_kernel *kernel);

/* ---- alloc.c */

#define VK_ALLOCATOR_CLASSES 33 /* of 32 bytes; what is larger comes from malloc */

/* Host memory for one command pool, used by one thread at a time. */
typedef struct vk_allocator {
    VkAllocationCallbacks callbacks;
    hal_core *core;
    void *lists[VK_ALLOCATOR_CLASSES];
    struct vk_chunk *chunks;
    char *bump; /* the unused part of the newest chunk */
    size_t left;
} vk_allocator;

hal_status hal_vk_allocator_create(hal_core *core, vk_allocator **allocator);
/* The command pool is destroyed. */
void hal_vk_allocator_destroy(vk_allocator *allocator);

/* ---- record.c */

/* A chain of descriptor pools. Sets and descriptors are counted here: what a pool's sizes mean when it runs out differs
 * between drivers. */
typedef struct vk_descriptor_pool {
    VkDescriptorPool handle;
    uint32_t sets, storage, texel; /* capacity */
} vk_descriptor_pool;

typedef struct vk_descriptors {
    vk_descriptor_pool *pools;
    uint32_t pool_count, current;
    uint32_t sets, storage, texel; /* left in the current pool */
} vk_descriptors;

/* A command buffer and all that its commands refer to. */
typedef struct vk_recorder {
    hal_native_device *device;
    vk_allocator *allocator;
    VkCommandPool pool;
    VkCommandBuffer commands;
    hal_native_memory *parameters;
    uint64_t used;                   /* bytes of it */
    const hal_native_span *bindings; /* of the slots; NULL while they are unknown */
    vk_descriptors descriptors;
    struct vk_view_use {
        vk_view *view;
    } * views; /* to be released */
    uint32_t view_count, view_capacity;
    const hal_native_kernel *kernel; /* bound last */
    bool set_bound;                  /* ... with the descriptors of: */
    hal_native_span set_spans[HAL_MAX_BINDINGS];
    bool fresh; /* nothing recorded since the opening barrier */
} vk_recorder;

hal_status hal_vk_recorder_create(vk_recorder *recorder, hal_native_device *device, uint64_t parameter_size);
void hal_vk_recorder_destroy(vk_recorder *recorder);
hal_status hal_vk_recorder_begin(vk_recorder *recorder, VkCommandBufferUsageFlags usage);
hal_status hal_vk_recorder_end(vk_recorder *recorder);
/* Let go of views; the commands must be done, or never be submitted again. */
void hal_vk_recorder_release(vk_recorder *recorder);
/* Bytes of parameters that a command takes; the recorder must have that much left. */
uint32_t hal_vk_parameter_size(const hal_command *command);
hal_status hal_vk_record(vk_recorder *recorder, const hal_command *command);

/* ---- stream.c */

/* A timeline semaphore, alive as long as a submission refers to it. */
typedef struct vk_timeline {
    VkSemaphore semaphore;
    hal_native_device *device;
    atomic_uint references;
} vk_timeline;

vk_timeline *hal_vk_timeline_hold(vk_timeline *timeline);
void hal_vk_timeline_release(vk_timeline *timeline);
/* HAL_OK once `timeline` has reached `value`, HAL_TIMEOUT after `timeout` ns. */
hal_status hal_vk_timeline_wait(vk_timeline *timeline, uint64_t value, uint64_t timeout);

hal_status hal_vk_stream_create(hal_native_device *device, int priority, const char *label, hal_native_stream **stream);
void hal_vk_stream_destroy(hal_native_stream *stream);
hal_status hal_vk_stream_execute(hal_native_stream *stream, const hal_command *command);
hal_status hal_vk_stream_mark(hal_native_stream *stream, uint64_t point);
hal_status hal_vk_stream_completed(hal_native_stream *stream, uint64_t *point);
hal_status hal_vk_stream_wait(hal_native_stream *stream, uint64_t point, uint64_t timeout);
hal_status hal_vk_stream_wait_point(hal_native_stream *stream, hal_native_stream *other, uint64_t point);
hal_status hal_vk_event_create(hal_native_device *device, hal_native_event **event);
void hal_vk_event_destroy(hal_native_event *event);
hal_status hal_vk_event_record(hal_native_event *event, hal_native_stream *stream);
hal_status hal_vk_event_elapsed(hal_native_event *start, hal_native_event *end, uint64_t *nanoseconds);

/* ---- list.c */

typedef struct vk_instance vk_instance;

/* Hand what the stream holds to the device now, without naming a point. */
hal_status hal_vk_stream_submit_early(hal_native_stream *stream);
/* Add a recorded command buffer to what the stream submits next; hal_vk_instance_submitted is called then. */
hal_status hal_vk_stream_append(hal_native_stream *stream, VkCommandBuffer commands, vk_instance *instance);
/* `timeline` reaches `value` when the submission is done; NULL: it was not submitted. instance may be NULL. */
void hal_vk_instance_submitted(vk_instance *instance, vk_timeline *timeline, uint64_t value);

hal_status hal_vk_list_create(hal_native_device *device, const hal_list_program *program, hal_native_list **list);
void hal_vk_list_destroy(hal_native_list *list);
hal_status hal_vk_list_submit(hal_native_list *list, hal_native_stream *stream, const hal_list_values *values);
uint64_t hal_vk_list_builds(const hal_native_list *list);

#endif
