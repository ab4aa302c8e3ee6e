/* retrieval/search/query_result.c - answers to queries and the sink that engines write
 * them through. A hit holds the document that its engine keeps, or its strings lie in the
 * answer's one buffer; hits keep offsets into that while it grows. */
#include "retrieval/search/query_result.h"

#include "base/mem.h"

#include <searchr1/ext/engines.h>

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ANSWER_MAX_BYTES ((size_t)64 << 20)
#define NO_TEXT SIZE_MAX

struct stored_hit {
    struct sr1__doc *doc; /* counted; NULL: the texts are in the buffer */
    size_t id;
    size_t contents;
    size_t row; /* NO_TEXT: none */
    double score;
    int32_t unnamed; /* the id is "", or only the rank */
};

struct sr1__query_result {
    atomic_int references;
    int32_t status; /* -1 until an engine or closing sets it */
    size_t message; /* NO_TEXT: none */
    struct stored_hit *hits;
    int32_t n_hits;
    int32_t capacity;
    int dropped; /* the latest hit was beyond top_k, and so is its row */
    size_t held; /* bytes of the documents of hits */
    struct sr1__buf text;
};

sr1_status sr1__query_result_new(struct sr1__query_result **out)
{
    struct sr1__query_result *a = sr1__calloc(1, sizeof(*a));

    if (a == NULL)
        return sr1__fail_nomem("search answer");
    atomic_init(&a->references, 1);
    a->status = -1;
    a->message = NO_TEXT;
    sr1__buf_init(&a->text, ANSWER_MAX_BYTES);
    *out = a;
    return SR1_OK;
}

struct sr1__query_result *sr1__query_result_retain(struct sr1__query_result *a)
{
    atomic_fetch_add(&a->references, 1);
    return a;
}

static void drop_documents(struct sr1__query_result *a)
{
    for (int32_t k = 0; k < a->n_hits; k++)
        sr1__doc_release(a->hits[k].doc);
    a->n_hits = 0;
    a->held = 0;
}

void sr1__query_result_free(struct sr1__query_result *a)
{
    if (a == NULL || atomic_fetch_sub(&a->references, 1) != 1)
        return;
    drop_documents(a);
    sr1__buf_free(&a->text);
    sr1__free(a->hits);
    sr1__free(a);
}

/* Check the buffer. When the text since `begin` exceeds the limit, remove all of it
 * and restore the buffer. */
static sr1_status whole_or_none(struct sr1__query_result *a, size_t begin)
{
    sr1_status status = sr1__buf_status(&a->text, "text of one query's hits");

    if (status == SR1_E_LIMIT) {
        a->text.len = begin;
        a->text.status = SR1_OK;
    }
    return status;
}

/* Append s as valid UTF-8 with its NUL; *at is where it begins. */
static sr1_status append_hit_text(struct sr1__query_result *a, const char *s, size_t *at)
{
    size_t begin = a->text.len;

    sr1__buf_utf8(&a->text, s, strlen(s));
    sr1__buf_char(&a->text, '\0');
    SR1__TRY(whole_or_none(a, begin));
    *at = begin;
    return SR1_OK;
}

static sr1_status set_message(struct sr1__query_result *a, const char *message)
{
    return message == NULL ? SR1_OK : append_hit_text(a, message, &a->message);
}

#define HITS_FIRST 16 /* room for so many hits at once, or for top_k of them */

/* Room for one more of at most top_k hits. */
static sr1_status grow_hits(struct sr1__query_result *a, int32_t top_k)
{
    int32_t first = top_k < HITS_FIRST ? top_k : HITS_FIRST;
    int32_t capacity = a->capacity == 0 ? first : a->capacity * 2;
    struct stored_hit *hits;

    if (a->n_hits < a->capacity)
        return SR1_OK;
    hits = sr1__realloc(a->hits, (size_t)capacity, sizeof(*hits));
    if (hits == NULL)
        return sr1__fail_nomem("search hits");
    a->hits = hits;
    a->capacity = capacity;
    return SR1_OK;
}

static sr1_status not_found(struct sr1__query_result *a, const char *query)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "No information found for: ");
    sr1__buf_str(&b, query);
    status = sr1__buf_status(&b, "search message");
    if (status == SR1_OK)
        status = set_message(a, sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return status;
}

sr1_status sr1__query_result_close(struct sr1__query_result *a, const char *query)
{
    if (a->status < 0 || a->status == SR1_ACTION_OK || a->status == SR1_ACTION_EMPTY)
        a->status = a->n_hits > 0 ? SR1_ACTION_OK : SR1_ACTION_EMPTY;
    else
        drop_documents(a);
    if (a->status == SR1_ACTION_OK)
        a->message = NO_TEXT;
    if (a->message != NO_TEXT || a->status == SR1_ACTION_OK)
        return SR1_OK;
    if (a->status == SR1_ACTION_EMPTY)
        return not_found(a, query);
    return set_message(a, a->status == SR1_ACTION_TIMEOUT ? "the search took too long"
                                                          : "the search failed");
}

sr1_status sr1__query_result_close_blank(struct sr1__query_result *a)
{
    a->status = SR1_ACTION_EMPTY;
    return set_message(a, "No information found");
}

int32_t sr1__query_result_status(const struct sr1__query_result *a)
{
    return a->status;
}

const char *sr1__query_result_message(const struct sr1__query_result *a)
{
    return a->message == NO_TEXT ? "" : a->text.data + a->message;
}

int32_t sr1__query_result_hit_count(const struct sr1__query_result *a)
{
    return a->n_hits;
}

void sr1__query_result_hit(const struct sr1__query_result *a, int32_t k,
                           sr1_search_hit *hit)
{
    const struct stored_hit *h = &a->hits[k];

    hit->score = h->score;
    if (h->doc != NULL) {
        hit->id = sr1__doc_id(h->doc);
        hit->contents = sr1__doc_contents(h->doc);
        hit->row = sr1__doc_row(h->doc);
        return;
    }
    hit->id = a->text.data + h->id;
    hit->contents = a->text.data + h->contents;
    hit->row = h->row == NO_TEXT ? NULL : a->text.data + h->row;
}

int32_t sr1__query_result_hit_unnamed(const struct sr1__query_result *a, int32_t k)
{
    return a->hits[k].unnamed;
}

size_t sr1__query_result_bytes(const struct sr1__query_result *a)
{
    return sizeof(*a) + a->text.cap + a->held + (size_t)a->capacity * sizeof(*a->hits);
}

static sr1_status sink_answer(const sr1_search_sink *sink, size_t query,
                              struct sr1__query_result **out)
{
    if (sink == NULL)
        return sr1__fail(SR1_E_INVALID, "search sink: NULL");
    if (query >= sink->n)
        return sr1__fail(SR1_E_INVALID, "search sink: query %zu of %zu", query, sink->n);
    *out = sink->answers[query];
    return SR1_OK;
}

sr1_status sr1_search_sink_hit(sr1_search_sink *sink, size_t query, const char *id,
                               const char *contents, double score)
{
    struct sr1__query_result *a = NULL;
    struct stored_hit hit = {.row = NO_TEXT, .score = score};

    SR1__TRY(sink_answer(sink, query, &a));
    if (id == NULL || contents == NULL)
        return sr1__fail(SR1_E_INVALID, "search sink: a hit without %s",
                         id == NULL ? "id" : "contents");
    if (!isfinite(score))
        return sr1__fail(SR1_E_INVALID,
                         "search sink: the score of hit '%.100s' is not finite", id);
    a->dropped = a->n_hits >= sink->top_k;
    if (a->dropped)
        return SR1_OK;
    SR1__TRY(grow_hits(a, sink->top_k));
    hit.unnamed = id[0] == '\0';
    SR1__TRY(append_hit_text(a, id, &hit.id));
    SR1__TRY(append_hit_text(a, contents, &hit.contents));
    a->hits[a->n_hits++] = hit;
    return SR1_OK;
}

/* Append s, which is valid, with its NUL; returns where it begins. */
static size_t add_valid(struct sr1__query_result *a, const char *s)
{
    size_t begin = a->text.len;

    sr1__buf_add(&a->text, s, strlen(s) + 1);
    return begin;
}

/* sr1_search_sink_hit and _row in one, for texts that are valid UTF-8 already. */
static sr1_status add_valid_hit(sr1_search_sink *sink, size_t query,
                                const sr1_search_hit *given, double score)
{
    struct sr1__query_result *a = NULL;
    struct stored_hit hit = {.row = NO_TEXT, .score = score};
    size_t begin;

    SR1__TRY(sink_answer(sink, query, &a));
    a->dropped = a->n_hits >= sink->top_k;
    if (a->dropped)
        return SR1_OK;
    SR1__TRY(grow_hits(a, sink->top_k));
    begin = a->text.len;
    hit.unnamed = given->id[0] == '\0';
    hit.id = add_valid(a, given->id);
    hit.contents = add_valid(a, given->contents);
    if (given->row != NULL)
        hit.row = add_valid(a, given->row);
    SR1__TRY(whole_or_none(a, begin));
    a->hits[a->n_hits++] = hit;
    return SR1_OK;
}

sr1_status sr1__sink_doc(sr1_search_sink *sink, size_t query, struct sr1__doc *doc,
                         double score)
{
    struct sr1__query_result *a = NULL;
    struct stored_hit hit = {.doc = doc, .row = NO_TEXT, .score = score};

    SR1__TRY(sink_answer(sink, query, &a));
    a->dropped = a->n_hits >= sink->top_k;
    if (a->dropped)
        return SR1_OK;
    if (sr1__doc_bytes(doc) > ANSWER_MAX_BYTES - a->held)
        return sr1__fail(SR1_E_LIMIT, "text of one query's hits: more than %zu bytes",
                         ANSWER_MAX_BYTES);
    SR1__TRY(grow_hits(a, sink->top_k));
    a->held += sr1__doc_bytes(doc);
    hit.unnamed = sr1__doc_id(doc)[0] == '\0';
    sr1__doc_retain(doc);
    a->hits[a->n_hits++] = hit;
    return SR1_OK;
}

sr1_status sr1__sink_copy(sr1_search_sink *sink, size_t query,
                          const struct sr1__query_result *from, int32_t k, double score)
{
    const struct stored_hit *h = &from->hits[k];
    sr1_search_hit hit = {sizeof(hit)};

    if (h->doc != NULL)
        return sr1__sink_doc(sink, query, h->doc, score);
    sr1__query_result_hit(from, k, &hit);
    SR1__TRY(add_valid_hit(sink, query, &hit, score));
    if (h->unnamed)
        sr1__search_sink_unnamed(sink, query);
    return SR1_OK;
}

const struct sr1__doc *sr1__answer_doc(const struct sr1__query_result *a, int32_t k)
{
    return a->hits[k].doc;
}

void sr1__search_sink_unnamed(sr1_search_sink *sink, size_t query)
{
    struct sr1__query_result *a = sink->answers[query];

    if (!a->dropped && a->n_hits > 0)
        a->hits[a->n_hits - 1].unnamed = 1;
}

sr1_status sr1_search_sink_row(sr1_search_sink *sink, size_t query, const char *row)
{
    struct sr1__query_result *a = NULL;

    SR1__TRY(sink_answer(sink, query, &a));
    if (row == NULL)
        return sr1__fail(SR1_E_INVALID, "search sink: row is NULL");
    if (a->n_hits == 0)
        return sr1__fail(SR1_E_STATE, "search sink: a row before the first hit");
    return a->dropped ? SR1_OK : append_hit_text(a, row, &a->hits[a->n_hits - 1].row);
}

/* Their text too: it may have left no room for a message. */
static void drop_hits(struct sr1__query_result *a)
{
    drop_documents(a);
    a->message = NO_TEXT;
    sr1__buf_free(&a->text);
}

sr1_status sr1_search_sink_status(sr1_search_sink *sink, size_t query, int32_t status,
                                  const char *message)
{
    struct sr1__query_result *a = NULL;

    SR1__TRY(sink_answer(sink, query, &a));
    if (status < SR1_ACTION_OK || status > SR1_ACTION_ERROR)
        return sr1__fail(SR1_E_INVALID, "search sink: status %d is none of SR1_ACTION_*",
                         (int)status);
    a->status = status;
    if (status == SR1_ACTION_TIMEOUT || status == SR1_ACTION_ERROR)
        drop_hits(a);
    return set_message(a, message);
}
