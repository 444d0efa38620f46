/* model.h - what the files of `hal-bench model` share: topics, their options, and the object a topic answers with. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <cjson/cJSON.h>
#include <hal/model.h>
#include <stdio.h>

enum { MODEL_OPTIONS = 12, MODEL_LIST = 16 };

typedef enum model_kind {
    MODEL_NONE,  /* ends a list of options */
    MODEL_COUNT, /* digits */
    MODEL_REAL,
    MODEL_REALS, /* with commas between them */
    MODEL_TEXT,
    MODEL_FLAG /* no value */
} model_kind;

typedef struct model_option {
    const char *name, *argument;
    model_kind kind;
    bool optional;
    double low, high; /* of every number */
    uint32_t reals;   /* MODEL_REALS: how many; 0: any number up to MODEL_LIST */
    const char *text; /* for --help */
} model_option;

typedef struct model_value {
    bool given;
    uint64_t count;
    double real, reals[MODEL_LIST];
    uint32_t real_count;
    const char *text;
} model_value;

typedef struct model_call model_call;

typedef struct model_topic {
    const char *name, *summary;
    const char *about;             /* lines: what is computed, and the fields of the answer */
    const char *example;           /* arguments */
    bool (*run)(model_call *call); /* false: call->error holds one line that names the argument */
    model_option options[MODEL_OPTIONS];
} model_topic;

struct model_call {
    const model_topic *topic;
    model_value values[MODEL_OPTIONS]; /* of topic->options */
    cJSON *answer;
    char error[400];
};

/* The topics of each file, up to one without a name. */
extern const model_topic model_tile_topics[], model_time_topics[], model_shape_topics[], model_file_topics[];

/* Options: all are read and checked before a topic runs. */
bool model_options_parse(model_call *call, int argc, char **argv, const char **json);
bool model_given(const model_call *call, const char *name);
uint64_t model_count(const model_call *call, const char *name); /* 0 if not given */
double model_real(const model_call *call, const char *name);
const double *model_reals(const model_call *call, const char *name, uint32_t *count);
const char *model_text(const model_call *call, const char *name);
/* Describe what is wrong with an argument. Always false. */
bool model_refuse(model_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failed call of the model as a refusal of `name`. */
bool model_check(model_call *call, const char *name, hal_status status);
/* --device: a name, or a file that ends in .json. */
bool model_machine(model_call *call, hal_model_machine *machine);

/* Answers. Counts are written digit by digit; numbers that are whole, too; what is not finite becomes null. */
void model_put_count(cJSON *object, const char *name, uint64_t value);
void model_put_real(cJSON *object, const char *name, double value);
void model_put_reals(cJSON *object, const char *name, const double *values, uint32_t count);
/* For people: a line a field, with sizes and times in fitting units beside. */
void model_print(const cJSON *answer, FILE *out);

/* The whole of `hal-bench model`: argv[1] is the topic. The exit code. */
int bench_model(int argc, char **argv);
void bench_model_help(FILE *out);

#endif
