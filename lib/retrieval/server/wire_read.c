/* retrieval/server/wire_read.c - request bodies of the paths of dialects.c, and of
 * /rerank.
 *
 *     /retrieve  {"queries": [text, ...], "topk": 3, "return_scores": false}
 *     /rerank    {"queries": [text, ...], "documents": [[document, ...], ...],
 *                 "rerank_topk": 3, "return_scores": false}
 *                document: {"contents": text} or {"document": {"contents": text}}
 *
 * As in FastAPI, the whole body is first checked to be JSON; then known members are read
 * and others ignored; numbers may be written as text, and the error names the first wrong
 * member. null, and 0 for topk, mean the default. */
#include "retrieval/server/wire.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

struct body_member {
    const char *name;
    struct sr1__pull_span value; /* p NULL: not there, or null */
};

struct body_reading {
    struct sr1__buf *error;
    int status;
};

static const struct sr1__wire_problem nothing = {.index = -1, .inner = -1};

static int reject_value(struct body_reading *r, const struct sr1__wire_problem *p)
{
    sr1__buf_clear(r->error);
    sr1__wire_problem(r->error, p);
    return r->status = SR1__HTTP_INVALID;
}

static int refuse_body(struct body_reading *r, int status, const char *text)
{
    sr1__buf_clear(r->error);
    sr1__wire_detail(r->error, text);
    return r->status = status;
}

/* The value of a member, or a part of it, has the wrong type. */
static int reject_type(struct body_reading *r, const char *type, const char *text,
                       const struct body_member *m, int64_t index,
                       const struct sr1__pull_span *input)
{
    struct sr1__wire_problem p = nothing;

    p.type = type;
    p.text = text;
    p.field = m->name;
    p.index = index;
    p.input = input->p;
    p.input_size = input->n;
    return reject_value(r, &p);
}

static int not_json(struct body_reading *r, const struct sr1__pull *s)
{
    struct sr1__wire_problem p = nothing;
    char context[96];

    snprintf(context, sizeof(context), "{\"error\":\"%s\"}",
             strchr(s->error, '\\') != NULL ? "Invalid escape" : s->error);
    p.type = "json_invalid";
    p.text = "JSON decode error";
    p.index = s->at - s->begin;
    p.input = "{}";
    p.input_size = 2;
    p.context = context;
    return reject_value(r, &p);
}

static int reject_missing(struct body_reading *r, const char *name, const char *body,
                          size_t n)
{
    struct sr1__wire_problem p = nothing;

    p.type = "missing";
    p.text = "Field required";
    p.field = name;
    p.input = body;
    p.input_size = n;
    return reject_value(r, &p);
}

/* Past a byte order mark; no body is NULL. */
static void skip_mark(char **body, size_t *n)
{
    size_t mark = sr1__utf8_mark(*body, *n);

    if (mark == 0)
        return;
    *body += mark;
    *n -= mark;
}

static int check_body_json(struct body_reading *r, char *body, size_t n)
{
    struct sr1__wire_problem p = nothing;
    struct sr1__pull s;
    struct sr1__pull_span all = {NULL, 0};

    if (n == 0)
        return reject_missing(r, NULL, NULL, 0);
    if (!sr1__utf8_valid(body, n))
        return refuse_body(r, SR1__HTTP_BAD_REQUEST,
                           "There was an error parsing the body: it is not UTF-8");
    sr1__pull_init(&s, body);
    sr1__pull_skip(&s, &all);
    sr1__pull_end(&s, body + n);
    if (s.error != NULL)
        return not_json(r, &s);
    if (all.p[0] == '{')
        return SR1__HTTP_OK;
    p.type = "model_attributes_type";
    p.text = "Input should be a valid dictionary or object to extract fields from";
    p.input = all.p;
    p.input_size = all.n;
    return reject_value(r, &p);
}

/* The members of a body that check_json has passed; of repeated ones the last. */
static void find_members(char *body, struct body_member *m, size_t n)
{
    struct sr1__pull s;
    struct sr1__pull_span name;
    struct sr1__pull_span value;

    sr1__pull_init(&s, body);
    sr1__pull_open(&s);
    while (sr1__pull_more(&s)) {
        sr1__pull_name(&s, &name);
        sr1__pull_skip(&s, &value);
        for (size_t i = 0; i < n; i++) {
            if (sr1__pull_name_is(&name, m[i].name))
                m[i].value = value;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (m[i].value.p != NULL && m[i].value.p[0] == 'n')
            m[i].value.p = NULL;
    }
}

/* ---- numbers and truth ---- */

/* What lies between the quotes where the value is a string, else the value. */
static struct sr1__pull_span strip_quotes(const struct sr1__pull_span *value)
{
    struct sr1__pull_span v = *value;

    if (v.p[0] == '"') {
        v.p++;
        v.n -= 2;
    }
    return v;
}

static int out_of_bounds(struct body_reading *r, const struct body_member *m, int32_t max)
{
    struct sr1__wire_problem p = nothing;
    char text[80];
    char context[32];

    snprintf(text, sizeof(text), "Input should be between 0 and %d", (int)max);
    snprintf(context, sizeof(context), "{\"ge\":0,\"le\":%d}", (int)max);
    p.type = "out_of_range";
    p.text = text;
    p.field = m->name;
    p.input = m->value.p;
    p.input_size = m->value.n;
    p.context = context;
    return reject_value(r, &p);
}

static int read_top_k(struct body_reading *r, const struct body_member *m,
                      const struct sr1__wire_limits *limits, int32_t *out)
{
    struct sr1__pull_span v;
    double number;

    *out = limits->top_k;
    if (m->value.p == NULL)
        return SR1__HTTP_OK;
    if (strchr("[{tf", m->value.p[0]) != NULL)
        return reject_type(r, "int_type", "Input should be a valid integer", m, -1,
                           &m->value);
    v = strip_quotes(&m->value);
    if (!sr1__parse_real(v.p, v.n, &number)) {
        if (m->value.p[0] != '"')
            return out_of_bounds(r, m, limits->max_top_k);
        return reject_type(
            r, "int_parsing",
            "Input should be a valid integer, unable to parse string as an "
            "integer",
            m, -1, &m->value);
    }
    if (number != floor(number))
        return reject_type(r, "int_from_float",
                           "Input should be a valid integer, got a number with a "
                           "fractional part",
                           m, -1, &m->value);
    if (number < 0 || number > limits->max_top_k)
        return out_of_bounds(r, m, limits->max_top_k);
    if (number > 0)
        *out = (int32_t)number;
    return SR1__HTTP_OK;
}

/* What pydantic takes for truth, in any case. */
static const struct {
    const char *text;
    int32_t value;
} truths[] = {{"true", 1}, {"false", 0}, {"1", 1},  {"0", 0},  {"1.0", 1},
              {"0.0", 0},  {"yes", 1},   {"no", 0}, {"on", 1}, {"off", 0},
              {"y", 1},    {"n", 0},     {"t", 1},  {"f", 0}};

static int read_truth(struct body_reading *r, const struct body_member *m,
                      int32_t otherwise, int32_t *out)
{
    struct sr1__pull_span v;

    *out = otherwise;
    if (m->value.p == NULL)
        return SR1__HTTP_OK;
    v = strip_quotes(&m->value);
    for (size_t i = 0; i < sizeof(truths) / sizeof(truths[0]); i++) {
        if (strlen(truths[i].text) == v.n && strncasecmp(truths[i].text, v.p, v.n) == 0) {
            *out = truths[i].value;
            return SR1__HTTP_OK;
        }
    }
    return reject_type(r, "bool_type", "Input should be a valid boolean", m, -1,
                       &m->value);
}

/* ---- lists of texts ---- */

/* Texts that are gathered, and how many at most. */
struct text_list {
    const char **p;
    size_t n;
    size_t capacity;
    size_t max;
};

static int add_member_text(struct body_reading *r, struct text_list *t,
                           const struct body_member *m, const char *text)
{
    const char **p;
    char message[96];

    if (t->n == t->max) {
        snprintf(message, sizeof(message),
                 "'%s' has more than %zu texts: send several requests", m->name, t->max);
        return refuse_body(r, SR1__HTTP_TOO_LARGE, message);
    }
    if (t->n == t->capacity) {
        size_t capacity = t->capacity == 0 ? 8 : 2 * t->capacity;

        p = sr1__realloc((void *)t->p, capacity, sizeof(*p));
        if (p == NULL)
            return refuse_body(r, SR1__HTTP_UNAVAILABLE, "out of memory");
        t->p = p;
        t->capacity = capacity;
    }
    t->p[t->n++] = text;
    return SR1__HTTP_OK;
}

static int read_member_text(struct body_reading *r, struct sr1__pull *s,
                            const struct body_member *m, int64_t index,
                            struct text_list *t)
{
    struct sr1__pull_span text = {NULL, 0};

    if (sr1__pull_peek(s) != SR1__PULL_STRING) {
        sr1__pull_skip(s, &text);
        return reject_type(r, "string_type", "Input should be a valid string", m, index,
                           &text);
    }
    sr1__pull_string(s, &text);
    return add_member_text(r, t, m, text.p);
}

static int read_text_list(struct body_reading *r, const struct body_member *m,
                          struct text_list *t)
{
    struct sr1__pull s;

    if (m->value.p[0] != '[')
        return reject_type(r, "list_type", "Input should be a valid list", m, -1,
                           &m->value);
    sr1__pull_init(&s, m->value.p);
    sr1__pull_open(&s);
    for (int64_t i = 0; sr1__pull_more(&s); i++) {
        if (read_member_text(r, &s, m, i, t) != SR1__HTTP_OK)
            return r->status;
    }
    return SR1__HTTP_OK;
}

/* ---- /retrieve and its like ---- */

static struct sr1__pull_span value_of(char *body, const char *name)
{
    struct body_member m = {.name = name};

    find_members(body, &m, 1);
    return m.value;
}

/* NULL: no member of the path's dialects has queries. *first: the path's first one. */
static const struct sr1__dialect *find_dialect(const char *path, char *body,
                                               const struct sr1__dialect **first)
{
    const struct sr1__dialect *found = NULL;

    *first = NULL;
    for (const struct sr1__dialect *d = sr1__dialects; d->path != NULL; d++) {
        if (strcmp(d->path, path) != 0)
            continue;
        *first = *first != NULL ? *first : d;
        if (found != NULL && strcmp(found->queries, d->queries) != 0)
            continue;
        if (value_of(body, d->queries).p == NULL)
            continue;
        found = d;
        if (value_of(body, d->top_k).p != NULL)
            return d;
    }
    return found;
}

static int read_queries(struct body_reading *r, const struct body_member *m,
                        const struct sr1__dialect *d, struct text_list *t)
{
    struct sr1__pull s;

    if (d->many)
        return read_text_list(r, m, t);
    sr1__pull_init(&s, m->value.p);
    return read_member_text(r, &s, m, -1, t);
}

int sr1__wire_retrieve(struct sr1__retrieve_request *out, const char *path, char *body,
                       size_t n, const struct sr1__wire_limits *limits,
                       struct sr1__buf *error)
{
    struct body_reading r = {error, SR1__HTTP_OK};
    struct text_list t = {NULL, 0, 0, (size_t)limits->max_queries};
    const struct sr1__dialect *d;
    const struct sr1__dialect *first;
    struct body_member m[3] = {{0}};

    memset(out, 0, sizeof(*out));
    skip_mark(&body, &n);
    if (check_body_json(&r, body, n) != SR1__HTTP_OK)
        return r.status;
    d = find_dialect(path, body, &first);
    if (d == NULL)
        return reject_missing(&r, first->queries, body, n);
    m[0].name = d->queries;
    m[1].name = d->top_k;
    m[2].name = d->scores;
    find_members(body, m, 3);
    if (read_top_k(&r, &m[1], limits, &out->top_k) != SR1__HTTP_OK ||
        read_truth(&r, &m[2], d->scores_default, &out->scores) != SR1__HTTP_OK)
        return r.status;
    read_queries(&r, &m[0], d, &t);
    out->dialect = d;
    out->queries = t.p;
    out->n = t.n;
    return r.status;
}

void sr1__retrieve_request_free(struct sr1__retrieve_request *r)
{
    sr1__free((void *)r->queries);
    memset(r, 0, sizeof(*r));
}

/* ---- /rerank ---- */

/* {"contents": text} or {"document": {"contents": text}}, given as what it holds. */
static int read_rerank_document(struct body_reading *r, struct sr1__pull *s,
                                const struct body_member *m, int64_t i, int64_t k,
                                struct text_list *t)
{
    struct body_member in[] = {{.name = "contents"}, {.name = "document"}};
    struct sr1__wire_problem p = nothing;
    struct sr1__pull_span whole = {NULL, 0};
    struct sr1__pull_span text = {NULL, 0};
    struct sr1__pull inner;

    sr1__pull_skip(s, &whole);
    p.field = m->name;
    p.index = i;
    p.inner = k;
    p.input = whole.p;
    p.input_size = whole.n;
    p.type = "dict_type";
    p.text = "Input should be a valid dictionary";
    if (whole.p[0] != '{')
        return reject_value(r, &p);
    find_members(whole.p, in, 2);
    if (in[1].value.p != NULL && in[1].value.p[0] == '{') {
        in[0].value.p = NULL;
        find_members(in[1].value.p, in, 1);
    }
    p.type = "missing";
    p.text = "Field required";
    p.member = "contents";
    if (in[0].value.p == NULL || in[0].value.p[0] != '"')
        return reject_value(r, &p);
    sr1__pull_init(&inner, in[0].value.p);
    sr1__pull_string(&inner, &text);
    return add_member_text(r, t, m, text.p);
}

static int read_documents(struct body_reading *r, const struct body_member *m,
                          struct sr1__rerank_request *out, struct text_list *t)
{
    struct sr1__pull s;
    struct sr1__pull_span list = {NULL, 0};
    size_t i = 0;

    if (m->value.p[0] != '[')
        return reject_type(r, "list_type", "Input should be a valid list", m, -1,
                           &m->value);
    sr1__pull_init(&s, m->value.p);
    sr1__pull_open(&s);
    for (; sr1__pull_more(&s); i++) {
        if (sr1__pull_peek(&s) != SR1__PULL_LIST) {
            sr1__pull_skip(&s, &list);
            return reject_type(r, "list_type", "Input should be a valid list", m,
                               (int64_t)i, &list);
        }
        sr1__pull_open(&s);
        for (int64_t k = 0; sr1__pull_more(&s); k++) {
            if (read_rerank_document(r, &s, m, (int64_t)i, k, t) != SR1__HTTP_OK)
                return r->status;
        }
        if (i < out->n)
            out->ends[i] = t->n;
    }
    if (i != out->n)
        return refuse_body(r, SR1__HTTP_INVALID,
                           "'documents' has to have one list for each of 'queries'");
    return SR1__HTTP_OK;
}

int sr1__wire_rerank(struct sr1__rerank_request *out, char *body, size_t n,
                     const struct sr1__wire_limits *limits, struct sr1__buf *error)
{
    struct body_member m[] = {{.name = "queries"},
                              {.name = "documents"},
                              {.name = "rerank_topk"},
                              {.name = "return_scores"}};
    struct body_reading r = {error, SR1__HTTP_OK};
    struct text_list queries = {NULL, 0, 0, (size_t)limits->max_queries};
    struct text_list documents = {
        NULL, 0, 0, (size_t)limits->max_queries * (size_t)limits->max_top_k};

    memset(out, 0, sizeof(*out));
    skip_mark(&body, &n);
    if (check_body_json(&r, body, n) != SR1__HTTP_OK)
        return r.status;
    find_members(body, m, 4);
    if (m[0].value.p == NULL || m[1].value.p == NULL)
        return reject_missing(&r, m[0].value.p == NULL ? "queries" : "documents", body,
                              n);
    if (read_top_k(&r, &m[2], limits, &out->top_k) != SR1__HTTP_OK ||
        read_truth(&r, &m[3], 0, &out->scores) != SR1__HTTP_OK)
        return r.status;
    read_text_list(&r, &m[0], &queries);
    out->queries = queries.p;
    out->n = queries.n;
    if (r.status != SR1__HTTP_OK)
        return r.status;
    out->ends = sr1__calloc(out->n + 1, sizeof(*out->ends));
    if (out->ends == NULL)
        return refuse_body(&r, SR1__HTTP_UNAVAILABLE, "out of memory");
    read_documents(&r, &m[1], out, &documents);
    out->documents = documents.p;
    out->n_documents = documents.n;
    return r.status;
}

void sr1__rerank_request_free(struct sr1__rerank_request *r)
{
    sr1__free((void *)r->queries);
    sr1__free(r->ends);
    sr1__free((void *)r->documents);
    memset(r, 0, sizeof(*r));
}
