/* hal/model.h - what work costs, computed beforehand: pure functions, no device, no state.
 *
 * Units: sizes in bytes, times in microseconds, rates per second, dimensions in elements. KiB and MiB are powers of
 * two. Functions that count give a hal_status: HAL_ERROR_INVALID_ARGUMENT for what makes no sense,
 * HAL_ERROR_OUT_OF_RANGE for what does not fit in 64 bits; hal_last_error() names the argument. Formulas that return a
 * double return NAN where an argument is NAN, infinite or negative, or a divisor is 0.
 *
 * The predictions are floors: what memory, arithmetic and launches cost at least. `hal-bench model` is all of this on
 * the command line; docs/model.md derives the formulas and names their sources.
 */
#ifndef HAL_MODEL_H
#define HAL_MODEL_H

#include <hal/base.h>
#include <hal/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Machines. Described by scheduler/devices/NAME.json, or by a file of the user's in the same form; 0 is "not known" or
 * "has none". A unit is an SM, a compute unit, an AI core, or a hardware thread of a CPU. */

enum { HAL_MODEL_DTYPES = HAL_F8E4M3 + 1, HAL_MODEL_BUFFERS = 8 };

typedef struct hal_model_machine {
    char name[64];
    char source[320]; /* where the figures are from */
    hal_device_type type;
    bool generic; /* figures of one unit of any such device, multiplied by hal_model_machine_find */
    double flops_per_s[HAL_MODEL_DTYPES];        /* by hal_dtype, dense; storage type, FP32 accumulation */
    double memory_bytes_per_s, link_bytes_per_s; /* device memory; host to device, one way */
    double latency_us;                           /* of a load from memory */
    double submit_us, launch_us, wait_us;        /* host: a submission; device: from one kernel to the next; host: until
                                                    it knows of the end */
    uint64_t memory_size, l2_size;
    uint32_t units, warp, threads_per_unit, blocks_per_unit, threads_per_block;
    uint32_t registers_per_unit, registers_per_thread;
    uint32_t register_granule, warp_granule; /* registers are given to warps in such portions, in multiples of such
                                                numbers of warps */
    uint32_t shared_per_unit, shared_per_block;
    uint32_t shared_reserved, shared_granule; /* what a block takes beside its own, and the portions it is given in */
    struct {
        char name[8];
        uint64_t size;
    } buffers[HAL_MODEL_BUFFERS]; /* memories of a unit by name: L0A, L0B, L0C, L1, UB; "" ends them */
} hal_model_machine;

/* The machine that fits a device: the one with the longest of its words in the device's name; else the generic one of
 * its type with as many units as the device has. Never fails for a valid info. */
HAL_API hal_status hal_model_machine_find(const hal_device_info *info, hal_model_machine *machine);
/* By its name ("H100", "rtx pro 6000") or by a device's full name. HAL_ERROR_NOT_FOUND lists the names there are. */
HAL_API hal_status hal_model_machine_named(const char *name, hal_model_machine *machine);
HAL_API uint32_t hal_model_machine_count(void);
HAL_API hal_status hal_model_machine_get(uint32_t index, hal_model_machine *machine);
/* From JSON text or a file of it (at most 1 MiB), fields as in scheduler/devices/. */
HAL_API hal_status hal_model_machine_parse(const char *json, size_t size, hal_model_machine *machine);
HAL_API hal_status hal_model_machine_load(const char *path, hal_model_machine *machine);

/* FLOP/s of a storage type; of the next wider one that is known if its own is not; 0 if none is. */
HAL_API double hal_model_peak(const hal_model_machine *machine, hal_dtype dtype);
/* FLOP per byte above which arithmetic is the limit. */
HAL_API double hal_model_ridge(const hal_model_machine *machine, hal_dtype dtype);
/* The longer of arithmetic and memory (roofline: Williams, Waterman, Patterson 2009). */
HAL_API double hal_model_floor_us(const hal_model_machine *machine, hal_dtype dtype, double flops, double bytes);
/* The same with the gap before a kernel; `kernels` of them one after the other. */
HAL_API double hal_model_kernels_us(const hal_model_machine *machine, hal_dtype dtype, double flops, double bytes,
                                    uint64_t kernels);
/* One unit's share of memory and of arithmetic when all are at work. */
HAL_API double hal_model_unit_load_us(const hal_model_machine *machine, double bytes);
HAL_API double hal_model_unit_math_us(const hal_model_machine *machine, hal_dtype dtype, double flops);
/* Little's law: what must be under way for the rate to be reached. */
HAL_API double hal_model_bytes_in_flight(double bytes_per_s, double latency_us);

/* Tiles of D[m,n] = A[m,k] B[k,n]. Element sizes of 0 take the defaults: a, b and d 2 (BF16), accumulators 4. */

typedef struct hal_model_gemm {
    uint64_t m, k, n;
    uint64_t tile_m, tile_k, tile_n;
    uint32_t a_size, b_size, d_size, acc_size;
} hal_model_gemm;

typedef struct hal_model_gemm_cost {
    uint64_t flops;       /* 2 m k n */
    uint64_t minimum;     /* A, B and D once */
    uint64_t a_bytes;     /* A once a column of tiles: m k ceil(n / tile_n) */
    uint64_t b_bytes;     /* B once a row of tiles: k n ceil(m / tile_m) */
    uint64_t d_bytes;     /* D once */
    uint64_t traffic;     /* their sum */
    uint64_t working_set; /* of a tile: tile_m tile_k of A, tile_k tile_n of B, tile_m tile_n accumulators */
    uint64_t tiles;       /* of D */
} hal_model_gemm_cost;
HAL_API hal_status hal_model_gemm_costs(const hal_model_gemm *gemm, hal_model_gemm_cost *cost);

/* Does a tile fit, with `slots` copies of its parts of A and B? *limit (may be NULL) is the memory that is too small
 * ("shared", "L0A"...) or NULL. On machines with shared memory everything lies there, with named buffers A in L0A, B in
 * L0B, accumulators in L0C. */
HAL_API bool hal_model_tile_fits(const hal_model_machine *machine, const hal_model_gemm *gemm, uint32_t slots,
                                 const char **limit);
/* Matrix instructions of mma_m x mma_n x mma_k in a tile of m x n x k. 0: a dimension is 0 or the count overflows. */
HAL_API uint64_t hal_model_mma_count(uint64_t m, uint64_t n, uint64_t k, uint64_t mma_m, uint64_t mma_n,
                                     uint64_t mma_k);
/* Time of one tiling over another's: (traffic / other_traffic) * (other_rate / rate). Above 1 the other wins. */
HAL_API double hal_model_time_ratio(double traffic, double other_traffic, double rate, double other_rate);

/* GEMM on E4M3 of an A that is quantised first: by a kernel of its own, or inside GEMM, which then reads the wide A
 * once a column of tiles (after a pass for the largest magnitude of each row). gemm->a_size is the wide element. */
typedef struct hal_model_quantize_gemm {
    uint64_t quantize_read, quantize_write, separate_a, fused_scan, fused_a, b_bytes, d_bytes;
    uint64_t separate, fused; /* the sums */
} hal_model_quantize_gemm;
HAL_API hal_status hal_model_quantize_gemm_costs(const hal_model_gemm *gemm, hal_model_quantize_gemm *cost);

/* Occupancy: blocks of `threads` threads with `registers` a thread and `shared` bytes each that are resident on a unit.
 * Registers and shared memory are rounded as drivers do (CUDA C++ Programming Guide, "Compute Capabilities"). 0 blocks:
 * one alone is too large, and `limit` says for what. */
typedef enum hal_model_limit {
    HAL_MODEL_LIMIT_THREADS,
    HAL_MODEL_LIMIT_REGISTERS,
    HAL_MODEL_LIMIT_SHARED,
    HAL_MODEL_LIMIT_BLOCKS
} hal_model_limit;

typedef struct hal_model_occupancy {
    uint32_t blocks, warps;
    double occupancy;      /* resident warps / those the unit can hold */
    hal_model_limit limit; /* the scarcest; the first of them where several are */
} hal_model_occupancy;
HAL_API hal_status hal_model_occupancy_of(const hal_model_machine *machine, uint32_t threads, uint32_t registers,
                                          uint64_t shared, hal_model_occupancy *occupancy);
HAL_API const char *hal_model_limit_name(hal_model_limit limit); /* "threads", "registers", "shared", "blocks" */

/* Rounds of shared memory (32 banks of 4 bytes; a bank gives one word a round, to all who ask for it) in which warps
 * of 32 read a column of a tile of 4-byte elements, rows `stride` words apart. swizzle: the element of column c lies at
 * c XOR (row mod cols), cols must be a power of two, and the worst column counts. */
HAL_API hal_status hal_model_bank_rounds(uint64_t rows, uint64_t cols, uint64_t stride, bool swizzle, uint64_t *rounds);

/* Pipelines. */

/* n items through a stage of tm and one of tc, with `slots` places that an item holds from the start of the first to
 * the end of the second. One slot: n (tm + tc); more: tm + (n - 1) max(tm, tc) + tc. */
HAL_API double hal_model_pipeline_us(uint64_t n, double tm, double tc, uint64_t slots);
/* A transfer in `chunks` parts, each computed on while the next is copied; every part costs `overhead_us` more. */
HAL_API double hal_model_chunked_us(double bytes, double bytes_per_s, double compute_us, double overhead_us,
                                    uint64_t chunks);
/* The number of parts, 1 to `most`, for which that is least. 0 for arguments that make no sense. */
HAL_API uint64_t hal_model_chunks_best(double bytes, double bytes_per_s, double compute_us, double overhead_us,
                                       uint64_t most);
/* Queue places that are left of `limit` bytes beside what is `reserved`. */
HAL_API uint64_t hal_model_queue_slots(uint64_t limit, uint64_t reserved, uint64_t slot_size);

/* Discrete-event simulation of stages in a row. Between stage i and i + 1 there are slots[i] places; an item holds one
 * from when stage i begins to fill it until stage i + 1 is done with it: with none free stage i stalls. */
enum { HAL_MODEL_STAGES = 16 };

typedef struct hal_model_line {
    uint32_t stages;       /* 1 to HAL_MODEL_STAGES */
    uint64_t items;        /* up to 10 million */
    const double *time_us; /* [stages]: of an item */
    const double *each_us; /* [stages * items], a stage's items together; NULL: all take time_us */
    const uint32_t *slots; /* [stages - 1] */
} hal_model_line;

typedef struct hal_model_stage {
    double busy_us, starved_us, blocked_us; /* at work; waiting for an item; waiting for a place */
    double busy_fraction;                   /* of the whole time */
    uint64_t done;
    uint32_t queue_peak; /* the most places taken behind it */
} hal_model_stage;
HAL_API hal_status hal_model_line_run(const hal_model_line *line, double *total_us,
                                      hal_model_stage stages[HAL_MODEL_STAGES]);

/* Attention of one head, queries and keys of `length`, head dimension d, BF16 operands. */

typedef struct hal_model_attention {
    uint64_t operand; /* each of Q, K, V, O: 2 L d */
    uint64_t score;   /* each of S and P in FP32: 4 L L */
    uint64_t scores;  /* S and P written and read once */
    uint64_t minimum; /* Q, K, V, O once: all that the online form moves if K and V are read once */
} hal_model_attention;
HAL_API hal_status hal_model_attention_costs(uint64_t length, uint64_t d, hal_model_attention *cost);

/* Blocks of b keys: as many query rows a as fit in shared memory beside them,
 * 2ad + 2bd + 4ab + 4ad + 12a <= shared (Q, one of K and V, scores, outputs in FP32, three statistics a row).
 * prefetch: the next block's 2bd, too. */
typedef struct hal_model_kv {
    uint64_t q_rows;   /* a; 0: nothing fits */
    uint64_t scans;    /* of all keys: ceil(L / a) */
    uint64_t kv_bytes; /* scans * 4 L d */
    uint64_t updates;  /* of a block of rows' statistics: scans * ceil(L / b) */
} hal_model_kv;
HAL_API hal_status hal_model_kv_block(uint64_t length, uint64_t d, uint64_t shared, uint64_t b, bool prefetch,
                                      hal_model_kv *kv);
/* The b whose kv_bytes / bytes_per_s + updates * update_us is least (the smallest such b), of 1 to `length` and at most
 * 2^20: all are tried. *b = 0: nothing fits. */
HAL_API hal_status hal_model_kv_best(uint64_t length, uint64_t d, uint64_t shared, bool prefetch, double bytes_per_s,
                                     double update_us, uint64_t *b, hal_model_kv *kv);

/* The chain SiLU(gate) * up, quantised to E4M3, on BF16 matrices: three kernels, two (SiLU with the product) or one.
 * Peak: the most bytes alive at once. */
typedef struct hal_model_chain {
    uint64_t silu, multiply, silu_multiply, quantize; /* bytes of each kernel */
    uint64_t bytes_separate, bytes_partial, bytes_fused;
    uint64_t peak_separate, peak_partial, peak_fused;
} hal_model_chain;
HAL_API hal_status hal_model_chain_costs(uint64_t rows, uint64_t columns, hal_model_chain *cost);

/* Submissions. */

/* Programs of `kernels` kernels each: one submission a kernel, or one a program when replayed. */
HAL_API uint64_t hal_model_submissions(uint64_t programs, uint64_t kernels, bool replayed);
/* Uploads of metadata for `layers` layers with `arrays` each: for every layer, or once when planned. */
HAL_API uint64_t hal_model_metadata_copies(uint64_t arrays, uint64_t layers, bool planned);
/* A replayed graph that needs its input copied (read and written) against an eager call that does not. */
typedef struct hal_model_replay {
    double eager_us;         /* submit + compute */
    double replay_us;        /* prepare + 2 bytes / rate + compute */
    double break_even_bytes; /* below it replay wins; 0: never */
} hal_model_replay;
HAL_API hal_status hal_model_replay_costs(double bytes, double bytes_per_s, double submit_us, double prepare_us,
                                          double compute_us, hal_model_replay *cost);
/* Two kernels over `tiles` tiles of tp and ta, one after the other, against one that hands each tile over: one launch,
 * the second stage hidden behind the first, task_us for each task on the way (tiles + 1). */
typedef struct hal_model_persistent {
    double coarse_us, tiled_us;
} hal_model_persistent;
HAL_API hal_status hal_model_persistent_costs(uint64_t tiles, double tp_us, double ta_us, double launch_us,
                                              double task_us, hal_model_persistent *cost);

/* Choosing. */

/* total(n) = prepare + n * run. */
typedef struct hal_model_strategy {
    double prepare, run;
} hal_model_strategy;
HAL_API double hal_model_strategy_total(hal_model_strategy strategy, double n);
/* (prepare + n run) / n */
HAL_API double hal_model_amortised(hal_model_strategy strategy, double n);
/* The n from which b is not worse than a; 0: always; INFINITY: never; NAN: makes no sense. */
HAL_API double hal_model_break_even(hal_model_strategy a, hal_model_strategy b);
/* Which is best at n (the first of equals); count for arguments that make no sense. */
HAL_API uint32_t hal_model_best(const hal_model_strategy *strategies, uint32_t count, double n);
/* Where each is best, from n = 0 on. `ranges` has room for `count`; a strategy that is nowhere best has none. */
typedef struct hal_model_range {
    uint32_t strategy;
    double from, to; /* to: INFINITY for the last */
} hal_model_range;
HAL_API hal_status hal_model_ranges(const hal_model_strategy *strategies, uint32_t count, hal_model_range *ranges,
                                    uint32_t *range_count);

/* Rows of calls padded each to the smallest bucket that holds it; HAL_ERROR_OUT_OF_RANGE if one is above all. buckets
 * ascend; with bucket_count 0 nothing is padded. */
HAL_API hal_status hal_model_padded_rows(const uint64_t *rows, uint32_t row_count, const uint64_t *buckets,
                                         uint32_t bucket_count, uint64_t *padded);
/* Time at a share (mfu) of peak FLOP/s. */
HAL_API double hal_model_mfu_us(double flops, double peak_flops_per_s, double mfu);

/* Two shapes in shares p and 1 - p. choose: the better way for each, plus `dispatch` a call. */
typedef struct hal_model_mix {
    double old_us, new_us, choose_us;
    double break_even; /* the p where new (with a dispatch cost: choosing) and old are equal; 0: better everywhere; NAN:
                          nowhere */
    bool better_below; /* below break_even, not above */
} hal_model_mix;
HAL_API hal_status hal_model_mix_costs(double p, const double old_us[2], const double new_us[2], bool choose,
                                       double dispatch_us, hal_model_mix *cost);

/* Whole programs. */

/* A part f made s times faster (Amdahl 1967): 1 / (1 - f + f / s). */
HAL_API double hal_model_amdahl(double f, double s);
/* One call: the host submits, the device works, the host learns of it. */
HAL_API double hal_model_call_us(double submit_us, double device_us, double wait_us);
/* The gain when a device that was at work for a share of the time never waits any more. */
HAL_API double hal_model_busy_gain(double device_share);

/* The longest way through tasks that wait for others. `path` has room for count; the first listed wins a tie.
 * HAL_ERROR_INVALID_ARGUMENT for a cycle or a task that is not there. */
typedef struct hal_model_task {
    double time_us;
    const uint32_t *after; /* indices of what it waits for */
    uint32_t after_count;
} hal_model_task;
HAL_API hal_status hal_model_critical_path(const hal_model_task *tasks, uint32_t count, double *length_us,
                                           uint32_t *path, uint32_t *path_count);

/* Calls of a request, by shape. What runs beside a call hides it up to beside_us: only what sticks out counts. */
typedef struct hal_model_calls {
    uint64_t calls;
    double old_us, new_us; /* of a call */
    double beside_us;      /* of other work at the same time; 0: none */
} hal_model_calls;
typedef struct hal_model_request {
    uint64_t calls;
    double old_us, new_us; /* of all calls, as far as they stick out */
    double saved_us;
    double share;       /* of the request: old_us / request_us */
    double saved_share; /* saved_us / request_us */
} hal_model_request;
HAL_API hal_status hal_model_request_costs(const hal_model_calls *shapes, uint32_t count, double request_us,
                                           hal_model_request *cost);

/* Rows shared out: rows * splits tasks, and a second phase that combines them in a fixed order where splits > 1. */
typedef struct hal_model_row_split {
    uint64_t tasks, combines, phases;
} hal_model_row_split;
HAL_API hal_status hal_model_row_split_of(uint64_t rows, uint64_t splits, hal_model_row_split *split);
/* The FP32 sum of values in `segments` contiguous parts, each summed in order, then the parts in order. */
HAL_API float hal_model_segmented_sum(const float *values, uint64_t count, uint64_t segments);
/* (got - want) in units of the last place of want as an FP32 number. */
HAL_API double hal_model_ulps(double got, double want);

#ifdef __cplusplus
}
#endif
#endif
