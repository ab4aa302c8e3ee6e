/* retrieval/server/wire.h - the bodies of /retrieve and /rerank: requests read as
 * Search-R1's servers (FastAPI) read them, answers and errors written in the same
 * formats. */
#ifndef SR1__SERVER_WIRE_H
#define SR1__SERVER_WIRE_H

#include <searchr1/search.h>

#include "base/buf.h"
#include "base/pull.h"

/* HTTP statuses that this server gives. */
enum {
    SR1__HTTP_OK = 200,
    SR1__HTTP_BAD_REQUEST = 400,
    SR1__HTTP_UNAUTHORIZED = 401,
    SR1__HTTP_NOT_FOUND = 404,
    SR1__HTTP_METHOD = 405,
    SR1__HTTP_TOO_LARGE = 413,
    SR1__HTTP_INVALID = 422,
    SR1__HTTP_FAILED = 500,
    SR1__HTTP_UNAVAILABLE = 503,
    SR1__HTTP_TIMEOUT = 504
};

struct sr1__wire_limits {
    int32_t top_k; /* where a request names none */
    int32_t max_top_k;
    int32_t max_queries; /* of one request; of /rerank also documents */
};

/* The request format of a client, and the answer format that it reads. */
struct sr1__dialect {
    const char *path;
    const char *queries; /* member: a list where `many`, else one text */
    int32_t many;
    const char *top_k;      /* member */
    const char *scores;     /* member */
    int32_t scores_default; /* where it is not there */
    const char *begin;      /* before the lists of hits, which have commas between */
    const char *apart; /* not NULL: scores come in lists of their own, and this before
                          them; the whole is a list then */
    const char *end;
};
extern const struct sr1__dialect sr1__dialects[]; /* ends with path NULL */

/* Texts lie in the body that was read. */
struct sr1__retrieve_request {
    const struct sr1__dialect *dialect;
    const char **queries; /* [n] */
    size_t n;
    int32_t top_k;
    int32_t scores;
};

struct sr1__rerank_request {
    const char **queries; /* [n] */
    size_t n;
    size_t *ends;           /* [n] documents of query i end there */
    const char **documents; /* contents, those of query 0 first */
    size_t n_documents;
    int32_t top_k;
    int32_t scores;
};

/* Read body[0..n) that was sent to a path of dialects (body[n] is '\0'; texts are decoded
 * in place). Returns an HTTP status: SR1__HTTP_OK, or another with the JSON of the error
 * in `error`. Free in both cases. */
int sr1__wire_retrieve(struct sr1__retrieve_request *out, const char *path, char *body,
                       size_t n, const struct sr1__wire_limits *limits,
                       struct sr1__buf *error);
void sr1__retrieve_request_free(struct sr1__retrieve_request *r);
int sr1__wire_rerank(struct sr1__rerank_request *out, char *body, size_t n,
                     const struct sr1__wire_limits *limits, struct sr1__buf *error);
void sr1__rerank_request_free(struct sr1__rerank_request *r);

/* The answer to no queries. */
void sr1__wire_nothing(const struct sr1__retrieve_request *r, struct sr1__buf *answer);

/* The error of a request, in FastAPI's form. */
struct sr1__wire_problem {
    const char *type; /* "int_type" */
    const char *text; /* "Input should be a valid integer" */
    const char *field;
    int64_t index;      /* in the field; -1: none */
    int64_t inner;      /* in that; -1: none */
    const char *member; /* in that; NULL: none */
    const char *input;  /* JSON text that is wrong; NULL: null */
    size_t input_size;
    const char *context; /* JSON text; NULL: none */
};

/* {"detail": [{"type", "loc", "msg", "input"}]} */
void sr1__wire_problem(struct sr1__buf *b, const struct sr1__wire_problem *p);
/* {"detail": "text"}; bytes that are not UTF-8 become U+FFFD. */
void sr1__wire_detail(struct sr1__buf *b, const char *text);

/* A JSON string of valid UTF-8. */
void sr1__wire_text(struct sr1__buf *b, const char *text, size_t n);
/* A finite number; it reads back as the same bits. */
void sr1__wire_number(struct sr1__buf *b, double v);

/* The hits of one query: [row, ...], or [{"document": row, "score": s}, ...]. Returns
 * SR1_E_CALLBACK for a row that is no JSON object: it would spoil the answer. */
sr1_status sr1__wire_hits(struct sr1__buf *b, const sr1_search_results *found,
                          size_t query, int scores);
/* Their scores alone: [s, ...]. */
void sr1__wire_scores(struct sr1__buf *b, const sr1_search_results *found, size_t query);

#endif
