/* environment/code/outcome.c - the outcome of tests: its summary, and its stored form. */
#include "environment/code/code_check.h"

#include "base/mem.h"

#include <string.h>

#define TEXT_MAX ((size_t)16384)

sr1_status sr1__check_outcome_init(struct sr1__check_outcome *o, size_t n)
{
    o->verdicts = sr1__malloc(n + 1);
    SR1__CHECK_ALLOC(o->verdicts, "results of tests");
    o->n = n;
    o->first_failed = -1;
    o->text = 0;
    o->inside = 0;
    o->unsure = 0;
    sr1__buf_init(&o->got, TEXT_MAX);
    sr1__buf_init(&o->error, TEXT_MAX);
    sr1__check_outcome_rest(o, 0, SR1_CHECK_SKIPPED);
    return SR1_OK;
}

void sr1__check_outcome_free(struct sr1__check_outcome *o)
{
    sr1__free(o->verdicts);
    sr1__buf_free(&o->got);
    sr1__buf_free(&o->error);
}

void sr1__check_outcome_rest(struct sr1__check_outcome *o, size_t from, int32_t verdict)
{
    if (from < o->n)
        memset(o->verdicts + from, verdict, o->n - from);
}

static int is_unknown_verdict(int32_t verdict)
{
    return verdict == SR1_RUN_INFRASTRUCTURE || verdict == SR1_RUN_CANCELLED;
}

void sr1__check_outcome_sum_up(struct sr1__check_outcome *o)
{
    o->verdict = SR1_RUN_PASSED;
    o->first_failed = -1;
    for (size_t i = 0; i < o->n; i++) {
        int32_t v = o->verdicts[i];

        if (v == SR1_RUN_PASSED)
            continue;
        if (o->first_failed < 0) {
            o->first_failed = (int64_t)i;
            o->verdict = v;
        }
        if (is_unknown_verdict(v)) {
            o->verdict = v;
            return;
        }
    }
}

/* Is a verdict known for good? */
static int may_be_kept(unsigned char verdict)
{
    return verdict == SR1_CHECK_SKIPPED ||
           (verdict < SR1_RUN_INFRASTRUCTURE && verdict != SR1_RUN_TIMEOUT);
}

static int may_all_be_kept(const char *verdicts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!may_be_kept((unsigned char)verdicts[i]))
            return 0;
    return 1;
}

int sr1__check_outcome_lasts(const struct sr1__check_outcome *o)
{
    return !o->unsure && may_all_be_kept((const char *)o->verdicts, o->n);
}

static void write_outcome_text(struct sr1__buf *b, const struct sr1__buf *text)
{
    sr1__buf_u32(b, (uint32_t)text->len);
    sr1__buf_add(b, sr1__buf_cstr(text), text->len);
}

void sr1__check_outcome_write(const struct sr1__check_outcome *o, struct sr1__buf *b)
{
    sr1__buf_u64(b, o->text);
    sr1__buf_u32(b, (uint32_t)o->inside);
    sr1__buf_u32(b, (uint32_t)o->n);
    sr1__buf_add(b, o->verdicts, o->n);
    write_outcome_text(b, &o->got);
    write_outcome_text(b, &o->error);
}

static const char *read_outcome_text(struct sr1__reader *r, uint32_t *n)
{
    *n = sr1__read_u32(r);
    r->failed |= *n > TEXT_MAX;
    return sr1__read_bytes(r, *n);
}

/* Is the error of the first failure one that quotes lines of the program and names of its
 * variables? Those of an equal program with another text are not this one's. */
static int quotes_program(const char *verdicts, size_t n)
{
    size_t i = 0;

    while (i < n && verdicts[i] == SR1_RUN_PASSED)
        i++;
    return i < n &&
           (verdicts[i] == SR1_RUN_RUNTIME_ERROR || verdicts[i] == SR1_RUN_MEMORY);
}

int sr1__check_outcome_read(struct sr1__check_outcome *o, const struct sr1__buf *b)
{
    struct sr1__reader r;
    const char *verdicts, *got, *error;
    uint64_t text;
    uint32_t n_got, n_error, inside;

    sr1__reader_init(&r, b->data, b->len);
    text = sr1__read_u64(&r);
    inside = sr1__read_u32(&r);
    if (sr1__read_u32(&r) != o->n)
        return 0;
    verdicts = sr1__read_bytes(&r, o->n);
    got = read_outcome_text(&r, &n_got);
    error = read_outcome_text(&r, &n_error);
    if (r.failed || r.left > 0 || inside > 1 || !may_all_be_kept(verdicts, o->n) ||
        (text != o->text && quotes_program(verdicts, o->n)))
        return 0;
    memcpy(o->verdicts, verdicts, o->n);
    o->inside = (int32_t)inside;
    sr1__buf_utf8(&o->got, got, n_got);
    sr1__buf_utf8(&o->error, error, n_error);
    sr1__check_outcome_sum_up(o);
    return 1;
}
