/* model_tile.c - topics on tiles and memory: tile, occupancy, banks, kvblock, attention, chain, quantize-gemm. */
#include "model.h"

/* Larger dimensions overflow anyhow once they are multiplied. */
#define MOST_DIMENSION 1099511627776.0

#define DIMENSION(name, text)                                                                                          \
    {                                                                                                                  \
        name, "N", MODEL_COUNT, false, 1, MOST_DIMENSION, 0, text                                                      \
    }

static hal_model_gemm gemm_of(const model_call *call)
{
    return (hal_model_gemm){.m = model_count(call, "M"),
                            .k = model_count(call, "K"),
                            .n = model_count(call, "N"),
                            .tile_m = model_count(call, "m"),
                            .tile_k = model_count(call, "k"),
                            .tile_n = model_count(call, "n")};
}

/* Does the tile fit on a machine, and what is too small? */
static bool put_fit(model_call *call, const hal_model_gemm *gemm)
{
    hal_model_machine machine;
    const char *limit;
    if (!model_machine(call, &machine))
        return false;
    const uint32_t slots = model_given(call, "slots") ? (uint32_t)model_count(call, "slots") : 1;
    cJSON_AddBoolToObject(call->answer, "fits", hal_model_tile_fits(&machine, gemm, slots, &limit));
    if (limit)
        cJSON_AddStringToObject(call->answer, "limit", limit);
    else
        cJSON_AddNullToObject(call->answer, "limit");
    return true;
}

static bool run_tile(model_call *call)
{
    hal_model_gemm gemm = gemm_of(call);
    hal_model_gemm_cost cost;
    if (model_given(call, "slots") && !model_given(call, "device"))
        return model_refuse(call, "--slots needs --device; see hal-bench model tile --help");
    if (model_given(call, "elem"))
        gemm.a_size = gemm.b_size = gemm.d_size = (uint32_t)model_count(call, "elem");
    if (!model_check(call, "--M, --K, --N, --m, --n, --k", hal_model_gemm_costs(&gemm, &cost)))
        return false;
    model_put_count(call->answer, "working_set_bytes", cost.working_set);
    model_put_count(call->answer, "traffic_bytes", cost.traffic);
    model_put_count(call->answer, "min_bytes", cost.minimum);
    model_put_count(call->answer, "flops", cost.flops);
    return !model_given(call, "device") || put_fit(call, &gemm);
}

static bool run_occupancy(model_call *call)
{
    hal_model_machine machine;
    hal_model_occupancy occupancy;
    if (!model_machine(call, &machine) ||
        !model_check(call, "--device",
                     hal_model_occupancy_of(&machine, (uint32_t)model_count(call, "threads"),
                                            (uint32_t)model_count(call, "regs"), model_count(call, "shared"),
                                            &occupancy)))
        return false;
    model_put_count(call->answer, "blocks", occupancy.blocks);
    model_put_count(call->answer, "warps", occupancy.warps);
    model_put_real(call->answer, "occupancy", occupancy.occupancy);
    cJSON_AddStringToObject(call->answer, "limit", hal_model_limit_name(occupancy.limit));
    return true;
}

static bool run_banks(model_call *call)
{
    uint64_t rounds;
    if (!model_check(call, "--cols",
                     hal_model_bank_rounds(model_count(call, "rows"), model_count(call, "cols"),
                                           model_count(call, "stride"), model_given(call, "swizzle"), &rounds)))
        return false;
    model_put_count(call->answer, "rounds", rounds);
    return true;
}

/* The block that --b says, or the one that costs least. */
static bool find_block(model_call *call, uint64_t *b, hal_model_kv *kv)
{
    const uint64_t length = model_count(call, "L"), d = model_count(call, "d"), shared = model_count(call, "shared");
    const bool prefetch = model_given(call, "prefetch");
    *b = model_count(call, "b");
    if (model_given(call, "b"))
        return model_check(call, "--L, --d", hal_model_kv_block(length, d, shared, *b, prefetch, kv));
    if (!model_given(call, "bw") || !model_given(call, "update"))
        return model_refuse(call,
                            "--b is missing, or --bw and --update to choose it; see hal-bench model kvblock --help");
    return model_check(
        call, "--L, --d",
        hal_model_kv_best(length, d, shared, prefetch, model_real(call, "bw"), model_real(call, "update"), b, kv));
}

static bool run_kvblock(model_call *call)
{
    hal_model_kv kv = {0};
    uint64_t b;
    if (!find_block(call, &b, &kv))
        return false;
    if (!kv.q_rows)
        return model_refuse(call, "--shared %llu is too small: no query row fits beside a block of %llu keys",
                            (unsigned long long)model_count(call, "shared"), (unsigned long long)(b ? b : 1));
    if (!model_given(call, "b"))
        model_put_count(call->answer, "b", b);
    model_put_count(call->answer, "q_rows", kv.q_rows);
    model_put_count(call->answer, "scans", kv.scans);
    model_put_count(call->answer, "kv_bytes", kv.kv_bytes);
    model_put_count(call->answer, "updates", kv.updates);
    return true;
}

static bool run_attention(model_call *call)
{
    hal_model_attention cost;
    if (!model_check(call, "--L, --d",
                     hal_model_attention_costs(model_count(call, "L"), model_count(call, "d"), &cost)))
        return false;
    model_put_count(call->answer, "operand_bytes", cost.operand);
    model_put_count(call->answer, "score_bytes", cost.score);
    model_put_count(call->answer, "unfused_bytes", cost.scores);
    model_put_count(call->answer, "min_bytes", cost.minimum);
    return true;
}

static bool run_chain(model_call *call)
{
    hal_model_chain chain;
    if (!model_check(call, "--rows, --cols",
                     hal_model_chain_costs(model_count(call, "rows"), model_count(call, "cols"), &chain)))
        return false;
    model_put_count(call->answer, "bytes_separate", chain.bytes_separate);
    model_put_count(call->answer, "bytes_partial", chain.bytes_partial);
    model_put_count(call->answer, "bytes_fused", chain.bytes_fused);
    model_put_count(call->answer, "peak_separate", chain.peak_separate);
    model_put_count(call->answer, "peak_partial", chain.peak_partial);
    model_put_count(call->answer, "peak_fused", chain.peak_fused);
    return true;
}

static bool run_quantize_gemm(model_call *call)
{
    hal_model_gemm gemm = gemm_of(call);
    hal_model_quantize_gemm cost;
    gemm.b_size = 1;
    if (!model_check(call, "--M, --K, --N, --m, --n, --k", hal_model_quantize_gemm_costs(&gemm, &cost)))
        return false;
    model_put_count(call->answer, "separate_bytes", cost.separate);
    model_put_count(call->answer, "fused_bytes", cost.fused);
    model_put_real(call->answer, "fused_over_separate", (double)cost.fused / (double)cost.separate);
    return true;
}

const model_topic model_tile_topics[] = {
    {"tile",
     "GEMM in tiles: working set and traffic",
     "A GEMM of M x K by K x N in tiles of m x n, k at a time.\n"
     "  working_set_bytes  of a tile: m k of A, k n of W, m n sums in FP32\n"
     "  traffic_bytes      A once a column of tiles, W once a row of them, the result once\n"
     "  min_bytes          all three once\n"
     "  flops              2 M K N\n",
     "--M 1024 --K 4096 --N 12288 --m 128 --n 128 --k 64 --json",
     run_tile,
     {DIMENSION("M", "rows of A"),
      DIMENSION("K", "columns of A"),
      DIMENSION("N", "columns of W"),
      DIMENSION("m", "rows of a tile"),
      DIMENSION("n", "columns of a tile"),
      DIMENSION("k", "depth of a step"),
      {"elem", "BYTES", MODEL_COUNT, true, 1, 16, 0, "size of an element (2)"},
      {"device", "NAME", MODEL_TEXT, true, 0, 0, 0,
       "does the tile fit there? Fields: fits, and limit, what is too small"},
      {"slots", "N", MODEL_COUNT, true, 1, 64, 0, "with --device: copies of its parts of A and W (1)"}}},
    {"occupancy",
     "blocks resident on an SM, and what limits them",
     "Blocks of a kernel that are resident on a unit of the machine at once. Registers and shared memory are rounded "
     "up\n"
     "as drivers do; a block also takes 1 KiB for the system on NVIDIA machines since 8.0.\n"
     "  blocks     0: one alone is too large\n"
     "  warps      of those blocks\n"
     "  occupancy  warps / the most that the unit holds\n"
     "  limit      threads, registers, shared or blocks: the first of the scarcest\n",
     "--device H100 --threads 256 --regs 96 --shared 49152 --json",
     run_occupancy,
     {{"device", "NAME", MODEL_TEXT, false, 0, 0, 0,
       "a machine (see hal-bench model machine), or a .json file of your own"},
      {"threads", "N", MODEL_COUNT, false, 1, 65536, 0, "threads of a block"},
      {"regs", "N", MODEL_COUNT, false, 0, 65536, 0, "registers of a thread; 0: not counted"},
      {"shared", "BYTES", MODEL_COUNT, false, 0, 4294967295.0, 0, "shared memory of a block"}}},
    {"banks",
     "rounds of shared memory for a column of a tile",
     "Warps of 32 read a column of a tile of FP32, whose rows are `stride` words apart. 32 banks of 4 bytes; a bank "
     "gives\n"
     "one word a round.\n"
     "  rounds  for the whole column; the worst one with a swizzle\n",
     "--rows 32 --cols 32 --stride 33 --json",
     run_banks,
     {{"rows", "N", MODEL_COUNT, false, 1, 1048576, 0, "rows of the tile"},
      {"cols", "N", MODEL_COUNT, false, 1, 1048576, 0, "columns of the tile"},
      {"stride", "WORDS", MODEL_COUNT, false, 1, 4294967295.0, 0, "from a row to the next"},
      {"swizzle", NULL, MODEL_FLAG, true, 0, 0, 0,
       "column c of a row lies at c XOR row; cols must be a power of two"}}},
    {"kvblock",
     "attention: query rows beside a block of keys",
     "Query rows a that fit in shared memory beside a block of b keys or values, one head of BF16:\n"
     "2ad + 2bd + 4ab + 4ad + 12a <= shared.\n"
     "  q_rows    the largest such a\n"
     "  scans     of all keys and values: L / a, rounded up\n"
     "  kv_bytes  read by them: 4 L d each\n"
     "  updates   of the running softmax: scans * (L / b, rounded up)\n"
     "Without --b, the b for which kv_bytes / bw + updates * update is least; field b.\n",
     "--L 8192 --d 128 --shared 101376 --b 64 --json",
     run_kvblock,
     {{"L", "N", MODEL_COUNT, false, 1, MOST_DIMENSION, 0, "queries, and keys"},
      {"d", "N", MODEL_COUNT, false, 1, 1048576, 0, "elements of a head"},
      {"shared", "BYTES", MODEL_COUNT, false, 1, MOST_DIMENSION, 0, "shared memory of a block"},
      {"b", "N", MODEL_COUNT, true, 1, MOST_DIMENSION, 0, "keys of a block; needed without --bw and --update"},
      {"prefetch", NULL, MODEL_FLAG, true, 0, 0, 0, "room for the next block, too: another 2bd"},
      {"bw", "RATE", MODEL_REAL, true, 1, 1e18, 0, "bytes per second: b is chosen for the least time"},
      {"update", "US", MODEL_REAL, true, 0, 1e15, 0, "time of an update; with --bw"}}},
    {"attention",
     "what unfused attention moves",
     "One head of BF16, scores S and their softmax P in FP32, each written and read once.\n"
     "  operand_bytes  of each of Q, K, V and O\n"
     "  score_bytes    of each of S and P\n"
     "  unfused_bytes  moved for S and P\n"
     "  min_bytes      Q, K, V and O once\n",
     "--L 8192 --d 128 --json",
     run_attention,
     {DIMENSION("L", "queries, and keys"), DIMENSION("d", "elements of a head")}},
    {"chain",
     "SiLU, product, quantisation: bytes and peak, fused and not",
     "SiLU(gate) * up in BF16, then quantised to one byte: as three kernels (separate), two (partial: SiLU with the\n"
     "product) or one (fused).\n"
     "  bytes_separate, bytes_partial, bytes_fused  moved\n"
     "  peak_separate, peak_partial, peak_fused     the most alive at once\n",
     "--rows 1024 --cols 12288 --json",
     run_chain,
     {DIMENSION("rows", "rows of the matrices"), DIMENSION("cols", "columns of the matrices")}},
    {"quantize-gemm",
     "quantising inside GEMM: what it costs",
     "A of 2 bytes an element becomes 1 byte, W has 1, the result 2: quantised by a kernel before the GEMM, or inside "
     "it,\n"
     "which reads the wide A once a column of tiles, after a scan for the scales of its rows.\n"
     "  separate_bytes, fused_bytes, fused_over_separate\n",
     "--M 4096 --K 4096 --N 1536 --m 128 --n 128 --k 64 --json",
     run_quantize_gemm,
     {DIMENSION("M", "rows of A"), DIMENSION("K", "columns of A"), DIMENSION("N", "columns of W"),
      DIMENSION("m", "rows of a tile"), DIMENSION("n", "columns of a tile"), DIMENSION("k", "depth of a step")}},
    {0}};
