/* fuzz_report_line.c - the quick look into a line agrees with a real parser about what is
 * JSON, and what is made of any object is JSON without a character that HTML reads. */
#include "fuzz.h"

#include "sr1_report/report.h"
#include "sr1_report/scan.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

static void write_it(const json_t *line)
{
    struct text t = {0};
    json_t *back;

    FUZZ_CHECK(trajectory_write(&t, line, 0) == 0);
    FUZZ_CHECK(memchr(t.data, '<', t.len) == NULL);
    back = json_loadb(t.data, t.len, JSON_ALLOW_NUL, NULL);
    FUZZ_CHECK(json_is_object(back));
    json_decref(back);
    text_free(&t);
}

static void note(const json_t *line)
{
    struct series *s = calloc(1, sizeof(*s));

    FUZZ_CHECK(s != NULL);
    for (int step = 1; step < 4; step++)
        FUZZ_CHECK(series_add(s, step, line) == 0);
    FUZZ_CHECK(s->n == 3 && s->n_columns <= SERIES_COLUMNS);
    series_free(s);
    free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scan_number found[] = {{"step", 0}, {"reward", 0}};
    const char *s = (const char *)data;
    int scanned = scan_object(s, size, found, 2);
    json_t *line = json_loadb(s, size, JSON_ALLOW_NUL, NULL);

    if (json_is_object(line)) {
        json_t *step = json_object_get(line, "step");

        /* deeper than the scanner goes, or a name written with escapes, may differ */
        if (scanned == 0 && isfinite(found[0].value) && memchr(s, '\\', size) == NULL)
            FUZZ_CHECK(json_is_number(step) && json_number_value(step) == found[0].value);
        write_it(line);
        note(line);
    }
    json_decref(line);
    return 0;
}
