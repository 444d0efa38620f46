/* model_file.h - reading --file: JSON of the user's, of limited size, every member checked. */
#ifndef BENCH_MODEL_FILE_H
#define BENCH_MODEL_FILE_H

#include "model.h"

enum { MODEL_MEMBERS = 20000, MODEL_NAME = 100 }; /* of an array; bytes of a name */
#define MODEL_TIME  1e15                          /* the most, in the file's unit */
#define MODEL_WHOLE 9007199254740992.0            /* 2^53: whole numbers up to here are exact */
#define MODEL_FILE_OPTION                                                                                              \
    {                                                                                                                  \
        "file", "FILE", MODEL_TEXT, false, 0, 0, 0, "JSON, at most 4 MiB"                                              \
    }

/* The file's object or array, or NULL and call->error. cJSON_Delete it. */
cJSON *model_file_load(model_call *call);
/* The array `name` of the object, or the file as a whole if it is an array; not empty. NULL and call->error. */
const cJSON *model_file_array(model_call *call, const cJSON *root, const char *name);
/* An object of an array, only with these members ("a b c"). `where` is for messages: "tasks[3]". */
bool model_file_members(model_call *call, const cJSON *object, const char *where, const char *allowed);
/* A member that is a number from low to high. Without it: *number stays, if that is allowed. */
bool model_file_number(model_call *call, const cJSON *object, const char *where, const char *name, bool optional,
                       double low, double high, double *number);
/* NULL and call->error without one. */
const char *model_file_name(model_call *call, const cJSON *object, const char *where);

#endif
