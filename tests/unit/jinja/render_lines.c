/* render_lines.c - renders each line {"template", "vars"} of the standard input and
 * prints
 * {"text"} or {"error"}: what tests/golden/fuzz_jinja.py and tests/python compare with
 * Jinja2. */
#include "text/jinja/jinja.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

static sr1_status render_line(const json_t *line, struct sr1__buf *text)
{
    const json_t *source = json_object_get(line, "template");
    struct sr1__jinja *t = NULL;
    struct sr1__jrun *r = NULL;
    sr1_status status =
        sr1__jinja_parse(&t, json_string_value(source), json_string_length(source));
    const char *name;
    json_t *value;

    if (status == SR1_OK)
        status = sr1__jrun_new(&r, t, 1700000000);
    json_object_foreach(json_object_get(line, "vars"), name, value) if (status == SR1_OK)
        status = sr1__jrun_bind_json(r, name, value, NULL);
    if (status == SR1_OK)
        status = sr1__jrun_render(r, text, NULL);
    sr1__jrun_free(r);
    sr1__jinja_free(t);
    return status;
}

static void print_answer(const json_t *line)
{
    struct sr1__buf text, out;
    sr1_status status;
    json_t *answer;

    sr1__buf_init(&text, 0);
    sr1__buf_init(&out, 0);
    status = render_line(line, &text);
    if (status == SR1_OK)
        answer = json_pack("{s:s%}", "text", sr1__buf_cstr(&text), text.len);
    else
        answer = json_pack("{s:s}", "error", sr1_last_error());
    if (!answer)
        answer = json_pack("{s:s}", "error", "the text is not UTF-8");
    (void)sr1__json_dump(answer, 0, &out);
    puts(sr1__buf_cstr(&out));
    fflush(stdout);
    json_decref(answer);
    sr1__buf_free(&text);
    sr1__buf_free(&out);
}

int main(void)
{
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;

    while ((n = getline(&text, &cap, stdin)) > 0) {
        json_t *line = NULL;

        if (sr1__json_parse(&line, text, (size_t)n, "line") != SR1_OK)
            return 1;
        print_answer(line);
        json_decref(line);
    }
    free(text);
    return 0;
}
