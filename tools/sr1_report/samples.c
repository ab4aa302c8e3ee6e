/* samples.c - one question at every stage: the file that --samples names. */
#include "sr1_report/report.h"

#include "common/args.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLES_MAX 8
#define SAMPLES_BYTES ((off_t)1 << 20)

static int has_text(const json_t *o, const char *name)
{
    return json_is_string(json_object_get(o, name));
}

/* NULL if the file is valid; else the error. */
static const char *find_fault(const json_t *o)
{
    const json_t *list = json_object_get(o, "samples"), *sample;
    size_t i;

    if (!has_text(o, "question"))
        return "'question' is missing";
    if (json_array_size(list) == 0 || json_array_size(list) > SAMPLES_MAX)
        return "'samples' is not a list of 1 to 8 objects";
    json_array_foreach(
        list, i,
        sample) if (!has_text(sample, "name") ||
                    !has_text(sample,
                              "text")) return "a sample has no 'name' or no 'text'";
    return NULL;
}

int samples_read(json_t **out, const char *path)
{
    json_error_t error = {.text = "is larger than 1 MiB, or no file"};
    struct stat st;
    json_t *o = NULL;
    const char *fault;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= SAMPLES_BYTES)
        o = json_load_file(path, JSON_ALLOW_NUL, &error);
    fault = o == NULL ? error.text : find_fault(o);
    if (fault == NULL) {
        *out = o;
        return TOOL_OK;
    }
    fprintf(stderr, "sr1-report: --samples %s: %s\n", path, fault);
    json_decref(o);
    return TOOL_USAGE;
}
