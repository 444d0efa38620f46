/* The counter of hal-bench's overhead and replay: sink += source + add, by one work-item. */
typedef struct step_args {
    uint add;
} step_args;

kernel void bench_step(const global uint *source, global uint *sink, const step_args args)
{
    sink[0] += source[0] + args.add;
}

/* The same with a byte offset after each pointer (HAL_ABI_OFFSET). */
kernel void bench_step_offset(const global uint *source, const ulong source_offset, global uint *sink,
                              const ulong sink_offset, const step_args args)
{
    const global uint *from = (const global uint *)((const global uchar *)source + source_offset);
    global uint *to = (global uint *)((global uchar *)sink + sink_offset);
    to[0] += from[0] + args.add;
}
