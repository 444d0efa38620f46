/* args.c - the command line. */
#include "bench.h"
#include "model.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { IN_DEVICES = 1 << BENCH_DEVICES, IN_GEMM = 1 << BENCH_GEMM, IN_ACTIVATION = 1 << BENCH_ACTIVATION };
enum { IN_TRANSPOSE = 1 << BENCH_TRANSPOSE, IN_QUANTIZE = 1 << BENCH_QUANTIZE };
enum { IN_SOFTMAX = 1 << BENCH_SOFTMAX, IN_RMSNORM = 1 << BENCH_RMSNORM, IN_ATTENTION = 1 << BENCH_ATTENTION };
enum { IN_MATRIX = IN_SOFTMAX | IN_RMSNORM | IN_ACTIVATION | IN_QUANTIZE }; /* operators on rows of a matrix */
enum { IN_OPERATORS = IN_GEMM | IN_MATRIX | IN_TRANSPOSE | IN_ATTENTION };
enum { IN_LAYERS = 1 << BENCH_FFN | 1 << BENCH_LAYER, IN_GRAPHS = IN_LAYERS | 1 << BENCH_FUSION };
enum { IN_TUNE = 1 << BENCH_TUNE, IN_ALL = (1 << BENCH_COMMANDS) - 1 };
enum { IN_MEASURING = IN_ALL & ~(IN_DEVICES | IN_TUNE), IN_CHOOSING = IN_MEASURING | IN_TUNE };

typedef struct option_help {
    const char *name, *argument, *text;
    int commands; /* that know it */
    char key;
} option_help;

static const option_help option_table[] = {
    {"m", "M", "rows of A and D (128 if only others are given)", IN_GEMM, 'm'},
    {"n", "N", "columns of B and D (12288)", IN_GEMM, 'n'},
    {"k", "K", "columns of A, rows of B (4096)", IN_GEMM, 'k'},
    {"op", "NAME", "one of them only; see below", IN_MATRIX | IN_GEMM, 'o'},
    {"rows", "N", "rows of the matrix, in place of the default cases' (each --op once); of a graph: its tokens",
     IN_MATRIX | IN_GRAPHS, 'R'},
    {"columns", "N", "columns of the matrix, likewise", IN_MATRIX, 'C'},
    {"batch", "N", "sequences (1 if only others of these are given)", IN_ATTENTION, 'B'},
    {"q-heads", "N", "heads of Q, a multiple of those of K (4 times as many)", IN_ATTENTION, 'Q'},
    {"kv-heads", "N", "heads of K and V (2)", IN_ATTENTION, 'K'},
    {"head-dim", "N", "their elements, 1 to 256 (128)", IN_ATTENTION, 'D'},
    {"q-len", "N", "queries of a sequence (as many as keys)", IN_ATTENTION, 'l'},
    {"kv-len", "N", "keys of a sequence (as many as queries, or 2048)", IN_ATTENTION, 'L'},
    {"causal", NULL, "a query sees the keys up to its own place, counted from the end", IN_ATTENTION, 'x'},
    {"page-size", "N", "keys and values in pages of so many tokens", IN_ATTENTION, 'P'},
    {"shape", "AxBxC", "1 to 8 dimensions of what is permuted, outermost first", IN_TRANSPOSE, 's'},
    {"perm", "I,J,K", "which of them become the result's; default: reversed", IN_TRANSPOSE, 'p'},
    {"hidden", "N", "columns of a token, a multiple of 64; within the feed-forward layer 3 times as many", IN_GRAPHS,
     'i'},
    {"layers", "N", "how many times the graph runs, each on the result of the last: 1 to 64 (3)", IN_LAYERS, 'y'},
    {"dtype", "TYPE",
     "f32, f16 or bf16; default: f32 if a size is given, else f32, bf16; graphs: f32 on CPUs, else bf16",
     IN_OPERATORS | IN_GRAPHS, 'd'},
    {"backend", "LIST", "e.g. opencl or vulkan:0,cuda; default: $HAL_BACKEND, else the best device of each", IN_ALL,
     'b'},
    {"workload", "FILE", "shapes and how often they come, as JSON; default: a feed-forward layer", IN_TUNE, 'w'},
    {"output", "FILE", "where tunings are kept; default: $HAL_TUNING, else tuning.json in the cache folder", IN_TUNE,
     'O'},
    {"seconds", "S", "of timing for each shape, 0.01 to 3600 (2)", IN_TUNE, 'S'},
    {"again", NULL, "measure shapes that are known, too", IN_TUNE, 'A'},
    {"all-devices", NULL, "every device of those backends, not only the best of each", IN_CHOOSING, 'a'},
    {"rounds", "N", "interleaved rounds of a measurement: 3 to 63 (default 21); fewer where one takes long",
     IN_MEASURING, 'r'},
    {"quick", NULL, "three rounds and small sizes: to see that it works, not how fast", IN_CHOOSING, 'q'},
    {"json", "FILE", "write the results as JSON; - is standard output (tables then go to standard error)", IN_ALL, 'j'},
    {"html", "FILE", "write one self-contained page with tables and charts; - as of --json", IN_MEASURING, 'H'},
    {"trace", "FILE", "write a Chrome/Perfetto trace of a short eager and replayed sequence", IN_MEASURING, 't'},
    {"counters", NULL, "what the stand-in CUDA driver counted of each kernel", IN_MEASURING, 'c'},
    {"verbose", NULL, "everything each device says of itself", IN_DEVICES, 'v'},
    {"help", NULL, "this text", IN_ALL, 'h'},
    {"version", NULL, "the version", IN_ALL, 'V'},
};
enum { OPTION_COUNT = sizeof option_table / sizeof option_table[0] };

#define LIMITS                                                                                                         \
    "Each takes turns with what limits it: on CPU devices multiply-adds, non-temporal copies or reads of all\n"        \
    "cores; on GPUs the device's own copy, or its published peak. Seconds are device time on GPUs, host time on\n"     \
    "CPU devices; ratios are taken within a turn, and their median counts.\n"

#define GRAPHS                                                                                                         \
    "The same graph runs eager and replayed, one kernel an operator and fused as the cost model chooses, on one\n"     \
    "stream and on two, in turns; all must give the same bits, and a small one what the host computes in double.\n"    \
    "On CPU devices it is small, so that submissions show; on GPUs it has Qwen3-8B's sizes.\n"

static const struct {
    const char *name, *summary, *usage, *about, *examples;
    const char *ops; /* what --op takes */
} commands[BENCH_COMMANDS] = {
    [BENCH_SUITE] =
        {"", "compare all backends, about a minute", "hal-bench [OPTIONS]",
         "Measures every backend found and compares them: the host cost of commands told at once, and that of\n"
         "recorded lists, against the same work on each raw API; an example of each operator against what the\n"
         "device can do at best; the GEMMs of a Qwen3-8B feed-forward layer with as many tokens as fit in a\n"
         "moment. Every result is checked before it is timed.\n",
         "  hal-bench                                 compare what is here\n"
         "  hal-bench --json out.json --html out.html keep the figures\n"
         "  hal-bench --backend opencl                one backend only\n",
         NULL},
    [BENCH_DEVICES] = {"devices", "list devices, and why a backend is absent", "hal-bench devices [OPTIONS]",
                       "Lists every device of every backend, and for each absent backend the reason.\n",
                       "  hal-bench devices\n"
                       "  hal-bench devices --verbose               all capabilities\n",
                       NULL},
    [BENCH_OVERHEAD] =
        {"overhead", "host cost of a command told at once", "hal-bench overhead [OPTIONS]",
         "Times commands whose work is next to nothing: independent, dependent and rebound dispatches, uploads,\n"
         "events, unwaited submissions. The same work written against the raw API takes turns with libhal, so\n"
         "the ratio holds on a noisy machine. It passes every argument of every dispatch, as libhal is told.\n"
         "On lavapipe LP_NUM_THREADS=0 takes the hand-over between its threads out of the figures.\n",
         "  hal-bench overhead\n"
         "  hal-bench overhead --backend vulkan --rounds 31 --json -\n",
         NULL},
    [BENCH_REPLAY] =
        {"replay", "host cost of recorded lists and of rebinding them", "hal-bench replay [OPTIONS]",
         "Times recorded lists of 1 to 1000 dispatches against eager dispatches and against the raw API's own\n"
         "replay, and rebinding all buffers of a list against recording it again.\n",
         "  hal-bench replay\n"
         "  hal-bench replay --backend cuda --json replay.json\n",
         NULL},
    [BENCH_GEMM] =
        {"gemm", "matrix products, against the machine's peak and BLAS", "hal-bench gemm [OPTIONS]",
         "Times D = A B (row-major, FP32 accumulation) after comparing it with a double-precision reference: one\n"
         "product if a size is given, else few rows, full tiles, and sizes that fill no tile.\n" LIMITS
         "Peers: OpenBLAS on CPU devices and CLBlast on OpenCL devices, in FP32, where they are installed.\n",
         "  hal-bench gemm\n"
         "  hal-bench gemm --m 256 --n 3072 --k 1024\n"
         "  hal-bench gemm --m 1 --dtype bf16 --backend opencl,vulkan\n"
         "  hal-bench gemm --op quantize: one kernel with a queue of tiles against two kernels, E4M3 and strict\n",
         "gemm quantize"},
    [BENCH_SOFTMAX] =
        {"softmax", "softmax along rows, against a copy", "hal-bench softmax [OPTIONS]",
         "Times softmax on a 1024 x 4096 matrix and on rows of 128256, and log_softmax, after comparing rows with a\n"
         "double-precision reference.\n" LIMITS,
         "  hal-bench softmax\n"
         "  hal-bench softmax --op log_softmax --rows 8 --columns 32000 --dtype bf16\n",
         "softmax log_softmax"},
    [BENCH_ATTENTION] =
        {"attention", "a prompt, and a token after many", "hal-bench attention [OPTIONS]",
         "Times attention over 2048 queries, causal, and of one query over 512 to 65536 keys, with 8 query heads on\n"
         "2 key heads of 128, after comparing rows with a double-precision reference. A size makes it one "
         "case.\n" LIMITS
         "Peer: this device's own product of 1024 x 1024 matrices, where multiply-adds are the limit.\n",
         "  hal-bench attention\n"
         "  hal-bench attention --q-len 512 --causal --q-heads 32 --kv-heads 8 --dtype bf16\n"
         "  hal-bench attention --q-len 1 --kv-len 10000 --page-size 16\n",
         NULL},
    [BENCH_RMSNORM] =
        {"rmsnorm", "RMSNorm along rows, against a copy", "hal-bench rmsnorm [OPTIONS]",
         "Times rmsnorm on a 1024 x 4096 matrix and on 16 rows of 262144, and residual (with an addition before\n"
         "it), after comparing rows with a double-precision reference.\n" LIMITS,
         "  hal-bench rmsnorm\n"
         "  hal-bench rmsnorm --op residual --rows 1 --columns 4096\n",
         "rmsnorm residual"},
    [BENCH_ACTIVATION] =
        {"activation", "activations, add, multiply, SwiGLU, against a copy", "hal-bench activation [OPTIONS]",
         "Times silu, gelu (erf), gelu_tanh, sigmoid, relu, add, multiply and swiglu on a 1024 x 4096 matrix after\n"
         "comparing a sample with a double-precision reference.\n" LIMITS,
         "  hal-bench activation\n"
         "  hal-bench activation --op silu --rows 64 --columns 11008 --dtype bf16 --json -\n",
         "silu gelu gelu_tanh sigmoid relu add multiply swiglu"},
    [BENCH_TRANSPOSE] =
        {"transpose", "permutations of dimensions, against a copy", "hal-bench transpose [OPTIONS]",
         "Times a 4096 x 4096 transposition, and permutations of three dimensions, after comparing a sample with\n"
         "what should be there.\n" LIMITS,
         "  hal-bench transpose\n"
         "  hal-bench transpose --shape 4096x4096\n"
         "  hal-bench transpose --shape 8x128x64 --perm 0,2,1 --dtype bf16\n",
         NULL},
    [BENCH_QUANTIZE] =
        {"quantize", "to E4M3 and back, and casts, against a copy", "hal-bench quantize [OPTIONS]",
         "Times quantize (to E4M3, a scale a row), dequantize and cast (f32 to bf16, others to f32) on a\n"
         "1024 x 4096 matrix after comparing rows with a double-precision reference.\n" LIMITS,
         "  hal-bench quantize\n"
         "  hal-bench quantize --op cast --rows 4096 --columns 4096 --dtype f16\n",
         "quantize dequantize cast"},
    [BENCH_FUSION] =
        {"fusion", "small graphs, operators separate and fused", "hal-bench fusion [OPTIONS]",
         "Times graphs of three operators or so: an activation that is quantised, a sum that is normalised and\n"
         "quantised, a projection with bias, activation and residual.\n" GRAPHS,
         "  hal-bench fusion\n"
         "  hal-bench fusion --rows 1024 --hidden 1024 --backend opencl\n",
         NULL},
    [BENCH_FFN] =
        {"ffn", "a feed-forward layer as a graph, eager and replayed", "hal-bench ffn [OPTIONS]",
         "Times Qwen3's feed-forward layer (RMSNorm, gate, up, SwiGLU, down, residual), three times in a row.\n" GRAPHS,
         "  hal-bench ffn\n"
         "  hal-bench ffn --layers 36 --rows 1 --json ffn.json\n",
         NULL},
    [BENCH_LAYER] = {"layer", "a whole decoder layer as a graph", "hal-bench layer [OPTIONS]",
                     "Times a decoder layer (RMSNorm, Q, K and V, RoPE, causal attention, output, residual, then the\n"
                     "feed-forward layer), three times in a row.\n" GRAPHS,
                     "  hal-bench layer\n"
                     "  hal-bench layer --rows 64 --hidden 512 --dtype bf16\n",
                     NULL},
    [BENCH_TUNE] =
        {"tune", "choose kernels and tiles by measurement", "hal-bench tune [OPTIONS]",
         "Times for each shape of a workload the kernels and tiles that fit a product, and the splits of the keys of "
         "an\n"
         "attention, in turns with what the rules choose, after checking that all give the same result, and keeps the\n"
         "best where it is surely faster: hal_gemm and hal_attention take it from then on. What the cost model has at\n"
         "thrice the best prediction is left out. The file is saved after each shape: an interrupted run goes on "
         "where\n"
         "it was. A workload is\n"
         "  {\"shapes\": [{\"m\": 16, \"n\": 3072, \"k\": 1024, \"dtype\": \"bf16\", \"trans_b\": true, \"count\": "
         "36},\n"
         "   {\"op\": \"attention\", \"q_heads\": 32, \"kv_heads\": 8, \"head_dim\": 128, \"kv_length\": 4096}]}\n",
         "  hal-bench tune\n"
         "  hal-bench tune --backend opencl --workload shapes.json --seconds 5\n"
         "  hal-bench tune --output tuning.json --again\n",
         NULL},
    [BENCH_MODEL] = {"model", "what work costs, computed: tiles, pipelines, choices", NULL, NULL, NULL, NULL},
};

void bench_options_help(bench_command command, FILE *out)
{
    if (command == BENCH_MODEL) {
        bench_model_help(out);
        return;
    }
    fprintf(out, "usage: %s\n\n%s", commands[command].usage, commands[command].about);
    if (command == BENCH_SUITE) {
        fputs("\ncommands:\n", out);
        for (int i = BENCH_DEVICES; i < BENCH_COMMANDS; i++)
            fprintf(out, "  %-20s %s\n", commands[i].name, commands[i].summary);
        fputs("  (none)               compare all backends\n"
              "hal-bench COMMAND --help tells the options of one.\n",
              out);
    }
    fputs("\noptions:\n", out);
    for (int i = 0; i < OPTION_COUNT; i++) {
        const option_help *option = &option_table[i];
        char left[40];
        if (!(option->commands & (1 << command)))
            continue;
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->argument ? " " : "",
                 option->argument ? option->argument : "");
        fprintf(out, "  %-20s %s\n", left, option->text);
    }
    if (commands[command].ops)
        fprintf(out, "\n--op: %s\n", commands[command].ops);
    fprintf(out, "\nexamples:\n%s", commands[command].examples);
    if (command == BENCH_SUITE)
        fputs(
            "\nexit status: 0 good; 1 a result was wrong or a device failed; 2 wrong usage; 130 interrupted (what was\n"
            "measured by then is reported). NO_COLOR turns colours off.\n",
            out);
}

const char *bench_command_name(bench_command command)
{
    return command < BENCH_COMMANDS ? commands[command].name : "";
}

static bool parse_number(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *value, char *error,
                         size_t error_size)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number < low || number > high) {
        snprintf(error, error_size, "--%s takes a number from %llu to %llu, not \"%s\"", name, (unsigned long long)low,
                 (unsigned long long)high, text);
        return false;
    }
    *value = number;
    return true;
}

/* "8x128x64" with 'x', "0,2,1" with ','. Returns how many numbers; 0: something else, or one beyond `most`. */
static uint32_t parse_list(const char *text, char separator, uint64_t most, uint64_t values[BENCH_MAX_DIMS])
{
    for (uint32_t count = 0; count < BENCH_MAX_DIMS; text++) {
        char *end;
        if (*text < '0' || *text > '9')
            return 0;
        errno = 0;
        values[count] = strtoull(text, &end, 10);
        if (errno || values[count++] > most)
            return 0;
        if (!*end)
            return count;
        if (*end != separator)
            return 0;
        text = end;
    }
    return 0;
}

static bool parse_number32(const char *name, const char *text, uint32_t high, uint32_t *value, char *error,
                           size_t error_size)
{
    uint64_t number = 0;
    bool good = parse_number(name, text, 1, high, &number, error, error_size);
    *value = (uint32_t)number;
    return good;
}

/* Both as given or as they follow from each other. */
static bool check_heads(const bench_heads *heads, char *error, size_t error_size)
{
    bool good = !heads->q_heads || !heads->kv_heads || heads->q_heads % heads->kv_heads == 0;
    if (!good)
        snprintf(error, error_size, "--q-heads %u is no multiple of --kv-heads %u", heads->q_heads, heads->kv_heads);
    return good;
}

static bool parse_shape(bench_permutation *permutation, const char *text, char *error, size_t error_size)
{
    permutation->rank = parse_list(text, 'x', 1 << 24, permutation->dims);
    bool good = permutation->rank > 0;
    for (uint32_t i = 0; i < permutation->rank; i++)
        good = good && permutation->dims[i] > 0;
    if (!good)
        snprintf(error, error_size, "--shape takes 1 to 8 dimensions as in 8x128x64, not \"%s\"", text);
    return good;
}

/* Both options may come in any order: --perm is read once the shape is known. */
static bool finish_permutation(bench_permutation *permutation, const char *text, char *error, size_t error_size)
{
    uint64_t perm[BENCH_MAX_DIMS];
    uint32_t seen = 0, rank = permutation->rank;
    for (uint32_t i = 0; i < rank; i++)
        permutation->perm[i] = rank - 1 - i;
    if (!text)
        return true;
    bool good = parse_list(text, ',', BENCH_MAX_DIMS, perm) == rank && rank > 0;
    for (uint32_t i = 0; good && i < rank; i++) {
        seen |= 1U << perm[i];
        permutation->perm[i] = (uint32_t)perm[i];
    }
    if (!good || seen != (1U << rank) - 1)
        snprintf(error, error_size, "--perm takes each dimension of --shape once, as in 0,2,1, not \"%s\"", text);
    return good && seen == (1U << rank) - 1;
}

static bool parse_dtype(const char *text, hal_dtype *dtype, char *error, size_t error_size)
{
    static const struct {
        const char *name;
        hal_dtype dtype;
    } known[] = {{"f32", HAL_F32}, {"f16", HAL_F16}, {"bf16", HAL_BF16}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!strcasecmp(text, known[i].name)) {
            *dtype = known[i].dtype;
            return true;
        }
    snprintf(error, error_size, "--dtype takes f32, f16 or bf16, not \"%s\"", text);
    return false;
}

/* Is it a word of what this command's --op takes? */
static bool parse_op(bench_options *options, const char *value, char *error, size_t error_size)
{
    const char *ops = commands[options->command].ops;
    size_t length = strlen(value);
    options->op = value;
    for (const char *at = ops; length && *at; at += strcspn(at, " "), at += *at == ' ')
        if (strcspn(at, " ") == length && !strncmp(at, value, length))
            return true;
    snprintf(error, error_size, "--op takes one of %s, not \"%s\"", ops, value);
    return false;
}

static bool parse_seconds(const char *text, double *seconds, char *error, size_t error_size)
{
    char *end;
    *seconds = strtod(text, &end);
    if (end != text && !*end && *seconds >= 0.01 && *seconds <= 3600)
        return true;
    snprintf(error, error_size, "--seconds takes a number from 0.01 to 3600, not \"%s\"", text);
    return false;
}

static bool apply(bench_options *options, const option_help *option, const char *value, char *error, size_t error_size)
{
    const uint64_t most = (uint64_t)1 << 24;
    uint64_t rounds;
    switch (option->key) {
    case 'm':
        return parse_number("m", value, 1, most, &options->m, error, error_size);
    case 'n':
        return parse_number("n", value, 1, most, &options->n, error, error_size);
    case 'k':
        return parse_number("k", value, 1, most, &options->k, error, error_size);
    case 'R':
        return parse_number("rows", value, 1, most, &options->rows, error, error_size);
    case 'C':
        return parse_number("columns", value, 1, most, &options->columns, error, error_size);
    case 'B':
        return parse_number("batch", value, 1, most, &options->heads.batch, error, error_size);
    case 'Q':
        return parse_number32("q-heads", value, 1 << 16, &options->heads.q_heads, error, error_size);
    case 'K':
        return parse_number32("kv-heads", value, 1 << 16, &options->heads.kv_heads, error, error_size);
    case 'D':
        return parse_number32("head-dim", value, 256, &options->heads.head_dim, error, error_size);
    case 'l':
        return parse_number("q-len", value, 1, most, &options->heads.q_len, error, error_size);
    case 'i':
        return parse_number("hidden", value, 64, 1 << 16, &options->hidden, error, error_size) &&
               (options->hidden % 64 == 0 ||
                (snprintf(error, error_size, "--hidden takes a multiple of 64, not %s", value), false));
    case 'y':
        return parse_number32("layers", value, 64, &options->layers, error, error_size);
    case 'w':
        options->workload = value;
        return true;
    case 'O':
        options->output = value;
        return true;
    case 'A':
        options->again = true;
        return true;
    case 'S':
        return parse_seconds(value, &options->seconds, error, error_size);
    case 'L':
        return parse_number("kv-len", value, 1, most, &options->heads.kv_len, error, error_size);
    case 'P':
        return parse_number32("page-size", value, 1 << 20, &options->heads.page_size, error, error_size);
    case 'x':
        options->heads.causal = true;
        return true;
    case 's':
        return parse_shape(&options->permutation, value, error, error_size);
    case 'p':
        options->perm = value;
        return true;
    case 'o':
        return parse_op(options, value, error, error_size);
    case 'd':
        options->has_dtype = true;
        return parse_dtype(value, &options->dtype, error, error_size);
    case 'r':
        if (!parse_number("rounds", value, 3, 63, &rounds, error, error_size))
            return false;
        options->rounds = (uint32_t)rounds;
        return true;
    case 'b':
        options->backends = value;
        return *value || (snprintf(error, error_size, "--backend takes a list, e.g. opencl,vulkan:0"), false);
    case 'a':
        options->all_devices = true;
        return true;
    case 'q':
        options->quick = true;
        return true;
    case 'j':
        options->json = value;
        return true;
    case 'H':
        options->html = value;
        return true;
    case 't':
        options->trace = value;
        return true;
    case 'c':
        options->counters = true;
        return true;
    case 'v':
        options->verbose = true;
        return true;
    case 'h':
        options->help_for = options->command;
        options->command = BENCH_HELP;
        return true;
    default:
        options->command = BENCH_VERSION;
        return true;
    }
}

/* The command is the first word that is not an option; it is taken out of argv. */
static bool take_command(bench_options *options, int *argc, char **argv, char *error, size_t error_size)
{
    if (*argc < 2 || argv[1][0] == '-')
        return true;
    bool help = !strcmp(argv[1], "help");
    const char *name = !help ? argv[1] : *argc > 2 ? argv[2] : "";
    int command = BENCH_SUITE;
    while (command < BENCH_COMMANDS && strcmp(commands[command].name, name) != 0)
        command++;
    if (command == BENCH_COMMANDS) {
        int used = snprintf(error, error_size, "there is no command \"%s\"; commands:", name);
        for (int i = BENCH_DEVICES; i < BENCH_COMMANDS && used > 0 && (size_t)used < error_size; i++)
            used += snprintf(error + used, error_size - (size_t)used, "%s %s", i == BENCH_DEVICES ? "" : ",",
                             commands[i].name);
        return false;
    }
    int taken = help && *argc > 2 ? 2 : 1;
    memmove(argv + 1, argv + 1 + taken, (size_t)(*argc - taken) * sizeof *argv);
    *argc -= taken;
    options->command = (bench_command)command;
    if (help) {
        options->help_for = options->command;
        options->command = BENCH_HELP;
    }
    return true;
}

bool bench_options_parse(bench_options *options, int argc, char **argv, char *error, size_t error_size)
{
    struct option long_options[OPTION_COUNT + 1];
    *options = (bench_options){.dtype = HAL_F32};
    memset(long_options, 0, sizeof long_options);
    for (int i = 0; i < OPTION_COUNT; i++)
        long_options[i] =
            (struct option){option_table[i].name, option_table[i].argument ? required_argument : no_argument, NULL, 0};
    if (!take_command(options, &argc, argv, error, error_size))
        return false;
    if (options->command == BENCH_HELP || options->command == BENCH_MODEL)
        return true;
    /* "--json" without a file means standard output. */
    static char json_to_stdout[] = "--json=-";
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json") && (i + 1 == argc || !strncmp(argv[i + 1], "--", 2)))
            argv[i] = json_to_stdout;
    optind = 0; /* start over, also when called again */
    opterr = 0;
    for (;;) {
        int index = -1, at = optind ? optind : 1;
        int found = getopt_long(argc, argv, ":hVvq", long_options, &index);
        if (found == -1)
            break;
        if (found == ':' || (found == '?' && at < argc)) {
            snprintf(error, error_size, found == ':' ? "%s needs a value" : "there is no option \"%s\"", argv[at]);
            return false;
        }
        for (int i = 0; index < 0 && i < OPTION_COUNT; i++)
            if (option_table[i].key == found)
                index = i;
        const option_help *option = &option_table[index];
        if (!(option->commands & (1 << options->command))) {
            snprintf(error, error_size, "--%s has no meaning here", option->name);
            return false;
        }
        if (!apply(options, option, optarg, error, error_size))
            return false;
        if (options->command == BENCH_HELP || options->command == BENCH_VERSION)
            return true;
    }
    if (optind < argc) {
        snprintf(error, error_size, "\"%s\" is one word too many", argv[optind]);
        return false;
    }
    if (!check_heads(&options->heads, error, error_size) ||
        !finish_permutation(&options->permutation, options->perm, error, error_size))
        return false;
    if (options->json && options->html && !strcmp(options->json, "-") && !strcmp(options->html, "-")) {
        snprintf(error, error_size, "--html: standard output takes the JSON already");
        return false;
    }
    if (options->rounds == 0)
        options->rounds = options->quick ? 3 : 21;
    return true;
}
