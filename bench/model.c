/* model.c - `hal-bench model TOPIC`: the cost model on the command line. */
#include "model.h"

#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { GOOD = 0, FAILED = 1, USAGE = 2 };

static const model_topic *const groups[] = {model_tile_topics, model_time_topics, model_shape_topics,
                                            model_file_topics};
enum { GROUPS = sizeof groups / sizeof groups[0] };

static const model_topic *find_topic(const char *name)
{
    for (int i = 0; i < GROUPS; i++)
        for (const model_topic *topic = groups[i]; topic->name; topic++)
            if (!strcmp(topic->name, name))
                return topic;
    return NULL;
}

void bench_model_help(FILE *out)
{
    fputs("usage: hal-bench model TOPIC [OPTIONS]\n\n"
          "Computes what work costs, from formulas and descriptions of machines: nothing is measured, no device is\n"
          "touched. Sizes are in bytes, times in microseconds, rates per second.\n\ntopics:\n",
          out);
    for (int i = 0; i < GROUPS; i++)
        for (const model_topic *topic = groups[i]; topic->name; topic++)
            fprintf(out, "  %-14s %s\n", topic->name, topic->summary);
    fputs("\noptions:\n"
          "  --json [FILE]  the answer as one JSON object; without a file on standard output\n"
          "  --help         after a topic: its options and fields\n"
          "\nexamples:\n",
          out);
    for (int i = 0; i < GROUPS; i++)
        fprintf(out, "  hal-bench model %s %s\n", groups[i]->name, groups[i]->example);
    fputs("\nexit status: 0 good; 1 the answer could not be written; 2 wrong arguments, named in one line.\n", out);
}

static void topic_help(const model_topic *topic, FILE *out)
{
    fprintf(out, "usage: hal-bench model %s [OPTIONS]\n\n%s\noptions:\n", topic->name, topic->about);
    for (const model_option *option = topic->options; option->kind != MODEL_NONE; option++) {
        char left[40];
        snprintf(left, sizeof left, "--%s%s%s", option->name, option->argument ? " " : "",
                 option->argument ? option->argument : "");
        fprintf(out, "  %-18s %s%s\n", left, option->text,
                option->optional || option->kind == MODEL_FLAG ? "" : "; needed");
    }
    fprintf(out, "  %-18s %s\n\nexample:\n  hal-bench model %s %s\n", "--json [FILE]",
            "the answer as one JSON object; without a file on standard output", topic->name, topic->example);
}

static int usage_error(const char *text)
{
    fprintf(stderr, "hal-bench: %s\n", text);
    return USAGE;
}

static int unknown_topic(const char *name)
{
    model_call call = {0};
    char topics[300] = "";
    for (int i = 0; i < GROUPS; i++)
        for (const model_topic *topic = groups[i]; topic->name; topic++) {
            const size_t used = strlen(topics);
            snprintf(topics + used, sizeof topics - used, "%s%s", used ? ", " : "", topic->name);
        }
    if (name)
        model_refuse(&call, "there is no topic \"%.60s\"; topics: %s", name, topics);
    else
        model_refuse(&call, "TOPIC is missing; topics: %s", topics);
    return usage_error(call.error);
}

static bool is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int answer(model_call *call, const char *json)
{
    char error[400] = "out of memory";
    if (!json) {
        model_print(call->answer, stdout);
        return GOOD;
    }
    char *text = cJSON_PrintUnformatted(call->answer), *line = NULL;
    const size_t size = text ? strlen(text) : 0;
    bool good = text && (line = malloc(size + 2));
    if (good) {
        snprintf(line, size + 2, "%s\n", text);
        good = bench_file_write(json, line, error, sizeof error);
    }
    if (!good)
        fprintf(stderr, "hal-bench: %s\n", error);
    free(line);
    cJSON_free(text);
    return good ? GOOD : FAILED;
}

int bench_model(int argc, char **argv)
{
    const char *json = NULL;
    if (argc > 1 && is_help(argv[1])) {
        bench_model_help(stdout);
        return GOOD;
    }
    model_call call = {.topic = argc > 1 ? find_topic(argv[1]) : NULL};
    if (!call.topic)
        return unknown_topic(argc > 1 ? argv[1] : NULL);
    for (int i = 2; i < argc; i++)
        if (is_help(argv[i])) {
            topic_help(call.topic, stdout);
            return GOOD;
        }
    if (!model_options_parse(&call, argc - 2, argv + 2, &json))
        return usage_error(call.error);
    call.answer = cJSON_CreateObject();
    const int code = call.topic->run(&call) ? answer(&call, json) : usage_error(call.error);
    cJSON_Delete(call.answer);
    return code;
}
