/* What the tests of this folder share: three problems, and a writer that plays back. */
#ifndef SR1_TESTS_CRITIQUE_H
#define SR1_TESTS_CRITIQUE_H

#include "support/torture.h"

#include "base/buf.h"

#include <searchr1/ext/critique.h>

#include <stdio.h>
#include <string.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

#define REFUSED(expr, want, text)                                                        \
    do {                                                                                 \
        assert_int_equal(expr, want);                                                    \
        if (!strstr(sr1_last_error(), text))                                             \
            fail_msg("'%s' is not in: %s", text, sr1_last_error());                      \
    } while (0)

static const char rows[] =
    "{\"id\": \"add\", \"problem\": \"Add two numbers with add(a, b).\", "
    "\"solution\": \"Here:\\n```\\ndef add(a, b):\\n    return a - b\\n```\", "
    "\"tests\": [\"assert add(1, 2) == 3\"]}\n"
    "{\"id\": \"neg\", \"problem\": \"Negate a number with neg(a).\", "
    "\"solution\": \"def neg(a):\\n    return -a\", "
    "\"tests\": [\"assert neg(1) == -1\"]}\n"
    "{\"id\": \"bare\", \"problem\": \"Do nothing.\", \"tests\": [\"pass\"]}\n";

static inline sr1_problems *three_problems(void)
{
    sr1_problems *p = NULL;

    OK(sr1_problems_parse(&p, rows, strlen(rows), "rows", NULL));
    return p;
}

/* ---- a writer that says what a function makes of the last message ---- */

typedef const char *(*script_fn)(const sr1_conversation *c, char *room, size_t size);

struct script {
    script_fn say; /* NULL of a text: the writer fails for it */
    int32_t calls, asked, most, destroyed;
};

static sr1_status script_write(void *self, const sr1_conversation *const *c, size_t n,
                               sr1_generator_sink *sink)
{
    struct script *s = self;

    s->calls++;
    s->asked += (int32_t)n;
    s->most = (int32_t)n > s->most ? (int32_t)n : s->most;
    for (size_t i = 0; i < n; i++) {
        char room[1024];
        const char *text = s->say(c[i], room, sizeof room);

        if (text)
            SR1__TRY(sr1_generator_sink_text(sink, i, text, strlen(text)));
    }
    return SR1_OK;
}

static void script_destroy(void *self)
{
    struct script *s = self;

    s->destroyed++;
}

static inline sr1_status script_open(sr1_generator **out, struct script *s)
{
    sr1_generator_ops ops = {.struct_size = sizeof ops,
                             .name = "script",
                             .write = script_write,
                             .destroy = script_destroy};

    return sr1_generator_new(out, &ops, s);
}

#endif
