/* signal/measure/qrels.c - read judgements; see searchr1/ext/search_measures.h. The
 * file's text stays in memory, cut into words in place, and an array sorted by query and
 * document points into it. */
#include "signal/measure/qrels.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/source.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define QRELS_MAX ((size_t)1 << 30)
#define CHUNK ((size_t)1 << 20)
#define BEIR_HEADER "query-id\tcorpus-id\tscore"

struct sr1_qrels {
    char *path;
    struct sr1__buf text;
    struct sr1__judgement *of; /* [n] */
    size_t n, capacity;
    size_t queries;
};

/* ---- one line ---- */

/* A form of lines: so many words, of which these are query, document and grade. */
struct qrels_form {
    const char *separators;
    size_t words, query, document, grade;
    const char *line; /* as in an error */
};

static const struct qrels_form trec_form = {" \t", 4, 0, 2, 3, "QUERY 0 DOCUMENT GRADE"};
static const struct qrels_form beir_form = {
    "\t", 3, 0, 1, 2, "QUERY, DOCUMENT and GRADE with tabs between"};

#define WORDS_MAX 5 /* one more than a form has */

/* Cut a line into words, in place. Returns how many there are, at most WORDS_MAX. */
static size_t cut_words(char *line, const char *separators, char *words[WORDS_MAX])
{
    char *rest = NULL;
    size_t n = 0;

    for (char *word = strtok_r(line, separators, &rest); word && n < WORDS_MAX;
         word = strtok_r(NULL, separators, &rest))
        words[n++] = word;
    return n;
}

static sr1_status read_qrels_grade(const char *word, int32_t *out)
{
    int64_t grade;

    if (!sr1__parse_int(word, strlen(word), &grade))
        return sr1__fail(SR1_E_PARSE, "grade '%.40s' is no whole number", word);
    if (grade < 0 || grade > SR1_QRELS_GRADE_MAX)
        return sr1__fail(SR1_E_PARSE,
                         "grade %.40s: grades are from 0 to %d; write 0 for what is not "
                         "relevant",
                         word, SR1_QRELS_GRADE_MAX);
    *out = (int32_t)grade;
    return SR1_OK;
}

/* A blank line is none. */
static sr1_status add_judgement(sr1_qrels *q, const struct qrels_form *form, char *line,
                                size_t number)
{
    char *words[WORDS_MAX];
    size_t n = cut_words(line, form->separators, words);
    int32_t grade = 0;

    if (n == 0)
        return SR1_OK;
    if (n != form->words)
        return sr1__fail(
            SR1_E_PARSE,
            "%zu words; a judgement is %s (TREC), or below a first line "
            "query-id, corpus-id, score three words with tabs between (BEIR)",
            n, form->line);
    SR1__TRY(read_qrels_grade(words[form->grade], &grade));
    SR1__RESERVE(q->of, q->capacity, q->n + 1, "judgements");
    q->of[q->n++] = (struct sr1__judgement){words[form->query], words[form->document],
                                            grade, (uint32_t)number};
    return SR1_OK;
}

/* ---- the file ---- */

static sr1_status read_qrels_text(const char *path, struct sr1__buf *out)
{
    struct sr1__source *source = NULL;
    size_t got = 1;
    sr1_status status = sr1__source_open(&source, path);

    while (status == SR1_OK && got > 0) {
        sr1__buf_room(out, CHUNK);
        status = sr1__buf_status(out, "judgements");
        if (status == SR1_OK)
            status = sr1__source_read(source, out->data + out->len, CHUNK, &got);
        if (status == SR1_OK)
            out->len += got;
    }
    sr1__source_close(source);
    if (status == SR1_OK)
        sr1__buf_char(out, '\n'); /* behind a last line that has none */
    return status == SR1_OK ? sr1__buf_status(out, "judgements") : status;
}

static sr1_status check_qrels_text(const sr1_qrels *q)
{
    const struct sr1__buf *text = &q->text;

    if (memchr(text->data, '\0', text->len) || !sr1__utf8_valid(text->data, text->len))
        return sr1__fail(SR1_E_PARSE, "%s is no text in UTF-8", q->path);
    return SR1_OK;
}

static sr1_status read_qrels_lines(sr1_qrels *q)
{
    const struct qrels_form *form = &trec_form;
    char *at = q->text.data + sr1__utf8_mark(q->text.data, q->text.len);
    char *end = q->text.data + q->text.len, *newline;

    for (size_t number = 1; at < end; number++, at = newline + 1) {
        newline = memchr(at, '\n', (size_t)(end - at));
        *newline = '\0';
        if (newline > at && newline[-1] == '\r')
            newline[-1] = '\0';
        if (number == 1 && strcmp(at, BEIR_HEADER) == 0)
            form = &beir_form;
        else
            SR1__TRY(sr1__context(add_judgement(q, form, at, number), "%s:%zu", q->path,
                                  number));
    }
    return SR1_OK;
}

static int compare_judgements(const void *a, const void *b)
{
    const struct sr1__judgement *x = a, *y = b;
    int order = strcmp(x->query, y->query);

    if (order == 0)
        order = strcmp(x->document, y->document);
    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

static sr1_status sort_judgements(sr1_qrels *q)
{
    int relevant = 0;

    if (q->n > 0)
        qsort(q->of, q->n, sizeof(*q->of), compare_judgements);
    for (size_t i = 0; i < q->n; i++) {
        const struct sr1__judgement *j = &q->of[i], *before = i > 0 ? j - 1 : NULL;
        int same = before && strcmp(j->query, before->query) == 0;

        if (same && strcmp(j->document, before->document) == 0)
            return sr1__fail(SR1_E_PARSE,
                             "%s:%u: document '%.80s' of query '%.80s' was judged on "
                             "line %u already; keep one of the lines",
                             q->path, (unsigned)j->line, j->document, j->query,
                             (unsigned)before->line);
        q->queries += !same;
        relevant |= j->grade > 0;
    }
    if (!relevant)
        return sr1__fail(
            SR1_E_PARSE,
            "%s: %s; a judgement is a line %s, and a grade above 0 says that "
            "the document is relevant",
            q->path, q->n > 0 ? "no grade is above 0" : "it has no judgement",
            trec_form.line);
    return SR1_OK;
}

static sr1_status read_qrels(sr1_qrels *q, const char *path)
{
    sr1__buf_init(&q->text, QRELS_MAX);
    q->path = sr1__strdup(path);
    SR1__CHECK_ALLOC(q->path, "judgements");
    SR1__TRY(read_qrels_text(path, &q->text));
    SR1__TRY(check_qrels_text(q));
    SR1__TRY(read_qrels_lines(q));
    return sort_judgements(q);
}

sr1_status sr1_qrels_open(sr1_qrels **out, const char *path)
{
    sr1_qrels *q;
    sr1_status status;

    SR1__REQUIRE(out && path, "judgements: out and path");
    SR1__CALLOC(q, 1, "judgements");
    status = read_qrels(q, path);
    SR1__RETURN_NEW(out, q, status, sr1_qrels_free);
}

void sr1_qrels_free(sr1_qrels *q)
{
    if (!q)
        return;
    sr1__buf_free(&q->text);
    sr1__free(q->of);
    sr1__free(q->path);
    sr1__free(q);
}

/* ---- what they say ---- */

size_t sr1_qrels_count(const sr1_qrels *q)
{
    return q ? q->n : 0;
}

size_t sr1_qrels_query_count(const sr1_qrels *q)
{
    return q ? q->queries : 0;
}

const struct sr1__judgement *sr1__qrels_all(const sr1_qrels *q, size_t *n)
{
    *n = q->n;
    return q->of;
}

const char *sr1__qrels_path(const sr1_qrels *q)
{
    return q->path;
}

/* The first judgement of a query not before `query`, or with `after` of one behind it. */
static size_t find_query(const sr1_qrels *q, const char *query, int after)
{
    size_t low = 0, high = q->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = strcmp(q->of[mid].query, query);

        if (order < 0 || (after && order == 0))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct sr1__judgement *sr1__qrels_of(const sr1_qrels *q, const char *query,
                                           size_t *n)
{
    size_t first = find_query(q, query, 0);

    *n = find_query(q, query, 1) - first;
    return q->of + first;
}

int32_t sr1_qrels_grade(const sr1_qrels *q, const char *query, const char *document)
{
    const struct sr1__judgement *of;
    size_t n = 0;

    if (!q || !query || !document)
        return 0;
    of = sr1__qrels_of(q, query, &n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(of[i].document, document) == 0)
            return of[i].grade;
    return 0;
}
