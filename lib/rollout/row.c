/* rollout/row.c - the state of one trajectory between two tokens.
 *
 * The ids sampled are the ids recorded and, later, trained on: text is only derived from
 * them, to find the protocol's tags and to be shown. */
#include "rollout/row.h"

#include "base/mem.h"
#include "search/engine.h"

#include <string.h>

static int64_t context_used(const struct sr1__row *row)
{
    size_t n;

    (void)sr1__trajectory_builder_ids(row->builder, &n);
    return (int64_t)n;
}

/* Each trajectory draws from a stream of its own: nothing else in the batch matters. */
static void seed_row(struct sr1__row *row, int32_t sample)
{
    char buf[SR1__QUERY_ID_MAX];
    const char *id = sr1__query_id(&row->query, buf);

    sr1__rng_seed(&row->rng, sr1__hash64(id, strlen(id), row->g->seed), (uint64_t)sample);
}

static sr1_status record_context(struct sr1__row *row)
{
    const sr1_query *q = &row->query;
    const struct sr1__sampling *s = &row->g->sampling;
    struct sr1__trajectory_context c = {
        .temperature = s->temperature,
        .top_p = s->top_p,
        .top_k = s->top_k,
        .weights_version = row->g->rollout->weights_version,
        .data_source = q->data_source,
        .ground_truths = q->answers,
        .n_ground_truths = q->n_answers,
    };

    return sr1__trajectory_builder_context(row->builder, &c);
}

sr1_status sr1__row_begin(struct sr1__row *row, struct sr1__generation *g, size_t query,
                          int32_t sample, const int32_t *prompt, size_t n)
{
    const sr1_query *q = &row->query;
    char buf[SR1__QUERY_ID_MAX];
    sr1_status st;

    row->g = g;
    row->query = sr1__query_at(g->queries, query);
    row->index = query * (size_t)g->group_size + (size_t)sample;
    row->active = 1;
    row->waiting = 0;
    row->stop = SR1_STOP_ERROR;
    row->turn = row->searches = 0;
    row->tokens = row->turn_tokens = 0;
    row->n_pending = 0;
    seed_row(row, sample);
    sr1__scanner_init(&row->scanner, sr1__env_protocol(g->env), 0);
    st = sr1__trajectory_builder_new(&row->builder, q->text, q->text_len,
                                     sr1__query_id(q, buf), sample);
    if (st == SR1_OK)
        st = record_context(row);
    if (st == SR1_OK && n)
        st = sr1__trajectory_builder_prompt(row->builder, prompt, n);
    if (st == SR1_OK)
        st = sr1_token_stream_new(&row->stream, g->rollout->tokenizer, 1);
    if (st != SR1_OK)
        sr1__row_abandon(row);
    return st;
}

void sr1__row_abandon(struct sr1__row *row)
{
    sr1__trajectory_builder_free(row->builder);
    sr1_token_stream_free(row->stream);
    sr1__scanner_free(&row->scanner);
    row->builder = NULL;
    row->stream = NULL;
    row->active = 0;
}

void sr1__row_free(struct sr1__row *row)
{
    if (row->active)
        sr1__row_abandon(row);
    sr1__free(row->pending);
    row->pending = NULL;
    row->cap_pending = 0;
}

sr1_status sr1__row_queue(struct sr1__row *row, const int32_t *ids, size_t n)
{
    if (row->n_pending + n > row->cap_pending) {
        size_t cap = (row->n_pending + n) * 2;
        int32_t *p = sr1__realloc(row->pending, cap, sizeof(*p));

        if (!p)
            return sr1__fail_nomem("tokens of a row");
        row->pending = p;
        row->cap_pending = cap;
    }
    if (n)
        memcpy(row->pending + row->n_pending, ids, n * sizeof(*ids));
    row->n_pending += n;
    return SR1_OK;
}

static sr1_status show(struct sr1__row *row, int32_t source, const char *text, size_t n)
{
    struct sr1__generation *g = row->g;
    sr1_status st;

    if (!g->options->text || n == 0)
        return SR1_OK;
    pthread_mutex_lock(&g->lock);
    st = g->options->text(g->options->user, row->index, source, text, n);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static int is_stop_id(const sr1_tokenizer *t, int32_t id)
{
    size_t n;
    const int32_t *ids = sr1_tokenizer_stop_ids(t, &n);

    for (size_t i = 0; i < n; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

static enum sr1__row_want stop_with(struct sr1__row *row, int32_t reason)
{
    row->stop = reason;
    return SR1__ROW_DONE;
}

/* What follows a token, first reason first. */
static enum sr1__row_want decide(struct sr1__row *row, int32_t id, int32_t event)
{
    const struct sr1__limits *limits = &row->g->rollout->limits;
    int out_of_tokens = row->tokens >= row->g->max_tokens;

    if (event == SR1__EVENT_ANSWER)
        return stop_with(row, SR1_STOP_ANSWER);
    if (is_stop_id(row->g->rollout->tokenizer, id))
        return stop_with(row, SR1_STOP_EOS);
    if (event == SR1__EVENT_ACTION && row->searches >= limits->max_turns)
        return stop_with(row, SR1_STOP_SEARCH_LIMIT);
    if (out_of_tokens ||
        (limits->max_turn_tokens > 0 && row->turn_tokens >= limits->max_turn_tokens &&
         event == SR1__EVENT_NONE))
        return stop_with(row, SR1_STOP_TOKEN_LIMIT);
    if (context_used(row) >= limits->max_context)
        return stop_with(row, SR1_STOP_CONTEXT_LIMIT);
    return event == SR1__EVENT_ACTION ? SR1__ROW_ACTION : SR1__ROW_TOKEN;
}

sr1_status sr1__row_take(struct sr1__row *row, int32_t id, float log_prob,
                         enum sr1__row_want *want)
{
    const char *text;
    size_t n, used;
    int32_t event = SR1__EVENT_NONE;

    SR1__TRY(sr1_token_stream_push(row->stream, id, &text, &n));
    SR1__TRY(
        sr1__trajectory_builder_policy(row->builder, id, log_prob, row->turn, text, n));
    SR1__TRY(show(row, SR1_SOURCE_POLICY, text, n));
    SR1__TRY(sr1__scanner_feed(&row->scanner, text, n, &used, &event));
    if (event == SR1__EVENT_ACTION && !sr1__env_acts(row->g->env)) {
        sr1__scanner_reset(&row->scanner);
        event = SR1__EVENT_NONE;
    }
    SR1__TRY(sr1__row_queue(row, &id, 1));
    row->tokens++;
    row->turn_tokens++;
    *want = decide(row, id, event);
    return SR1_OK;
}

struct sr1__action sr1__row_action(const struct sr1__row *row)
{
    struct sr1__action a = {.row = row->index, .turn = row->turn};

    a.text = sr1__scanner_text(&row->scanner, &a.len);
    return a;
}

/* ---- inserting what the environment answered ---- */

struct block {
    int32_t *head, *body, *tail;
    size_t n_head, n_body, n_tail;
    char *cut_text; /* the body's text when it was cut, else NULL */
    size_t cut_len;
};

static void block_free(struct block *b)
{
    sr1_free(b->head);
    sr1_free(b->body);
    sr1_free(b->tail);
    sr1_free(b->cut_text);
}

/* The tags are ours; the body is outside text, in which no added token is recognised. */
static sr1_status encode_block(const sr1_tokenizer *t, const struct sr1__observation *o,
                               struct block *b)
{
    SR1__TRY(sr1_tokenizer_encode(t, sr1__buf_cstr(&o->head), o->head.len,
                                  SR1_ENCODE_ALL_ADDED, &b->head, &b->n_head));
    SR1__TRY(sr1_tokenizer_encode(t, sr1__buf_cstr(&o->body), o->body.len,
                                  SR1_ENCODE_ADDED_AS_TEXT, &b->body, &b->n_body));
    return sr1_tokenizer_encode(t, sr1__buf_cstr(&o->tail), o->tail.len,
                                SR1_ENCODE_ALL_ADDED, &b->tail, &b->n_tail);
}

/* Shorten the body to at most `room` tokens, ending on a whole character. */
static sr1_status cut_body(const sr1_tokenizer *t, struct block *b, size_t room)
{
    static const char incomplete[] = "\xEF\xBF\xBD";
    size_t n = room, len;
    char *text = NULL;

    for (;;) {
        SR1__TRY(sr1_tokenizer_decode(t, b->body, n, 0, &text, &len));
        if (n == 0 || room - n >= 4 || len < 3 ||
            memcmp(text + len - 3, incomplete, 3) != 0)
            break;
        sr1_free(text);
        n--;
    }
    b->n_body = n;
    b->cut_text = text;
    b->cut_len = len;
    return SR1_OK;
}

static sr1_status record_block(struct sr1__row *row, const struct sr1__observation *o,
                               const struct block *b)
{
    const char *body = b->cut_text ? b->cut_text : sr1__buf_cstr(&o->body);
    size_t body_len = b->cut_text ? b->cut_len : o->body.len;
    size_t n = row->n_pending;
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__buf_add(&text, sr1__buf_cstr(&o->head), o->head.len);
    sr1__buf_add(&text, body, body_len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->tail), o->tail.len);
    st = sr1__buf_status(&text, "inserted text");
    if (st == SR1_OK)
        st = sr1__row_queue(row, b->head, b->n_head);
    if (st == SR1_OK)
        st = sr1__row_queue(row, b->body, b->n_body);
    if (st == SR1_OK)
        st = sr1__row_queue(row, b->tail, b->n_tail);
    if (st == SR1_OK)
        st = sr1__trajectory_builder_environment(
            row->builder, row->pending + n, row->n_pending - n, row->turn,
            sr1__buf_cstr(&text), text.len, o->head.len, body_len);
    if (st == SR1_OK)
        st = show(row, SR1_SOURCE_ENVIRONMENT, sr1__buf_cstr(&text), text.len);
    sr1__buf_free(&text);
    return st;
}

/* Tokens an inserted block may take: the configured budget, less when the context ends.
 * One place must remain for the token after it. */
static int64_t block_room(const struct sr1__row *row)
{
    const struct sr1__limits *limits = &row->g->rollout->limits;
    int64_t left = limits->max_context - context_used(row) - 1;

    return left < limits->max_observation ? left : limits->max_observation;
}

static sr1_status record_search(struct sr1__row *row, const struct sr1__observation *o)
{
    int whole = o->n_hit_ids == o->n_hits || o->n_hit_ids >= SR1_TRAJECTORY_MAX_HIT_IDS;
    size_t n;
    const char *query = sr1__scanner_text(&row->scanner, &n);

    row->searches++;
    pthread_mutex_lock(&row->g->lock);
    row->g->stats.searches++;
    row->g->stats.failed_searches += sr1__search_is_failure(o->status);
    pthread_mutex_unlock(&row->g->lock);
    return sr1__trajectory_builder_search(row->builder, row->turn, query, n, o->status,
                                          o->n_hits,
                                          whole ? (const char *const *)o->hit_ids : NULL);
}

static sr1_status flush_stream(struct sr1__row *row)
{
    const char *text;
    size_t n;

    SR1__TRY(sr1_token_stream_finish(row->stream, &text, &n));
    SR1__TRY(sr1__trajectory_flush_text(row->builder, text, n));
    return show(row, SR1_SOURCE_POLICY, text, n);
}

sr1_status sr1__row_observe(struct sr1__row *row, struct sr1__observation *o,
                            enum sr1__row_want *want)
{
    struct block b = {0};
    int64_t room = block_room(row);
    sr1_status st = encode_block(row->g->rollout->tokenizer, o, &b);
    int64_t tags = (int64_t)(b.n_head + b.n_tail);

    if (st == SR1_OK)
        st = flush_stream(row);
    if (st == SR1_OK)
        st = record_search(row, o);
    if (st == SR1_OK && sr1__search_is_failure(o->status) &&
        !row->g->rollout->limits.go_on) {
        *want = stop_with(row, SR1_STOP_SEARCH_FAILED);
        block_free(&b);
        return SR1_OK;
    }
    if (st == SR1_OK && tags > room) {
        *want = stop_with(row, SR1_STOP_CONTEXT_LIMIT);
        block_free(&b);
        return SR1_OK;
    }
    if (st == SR1_OK && tags + (int64_t)b.n_body > room)
        st = cut_body(row->g->rollout->tokenizer, &b, (size_t)(room - tags));
    if (st == SR1_OK)
        st = record_block(row, o, &b);
    block_free(&b);
    if (st != SR1_OK)
        return st;
    row->waiting = 0;
    row->turn++;
    row->turn_tokens = 0;
    sr1__scanner_reset(&row->scanner);
    *want = o->done ? stop_with(row, SR1_STOP_EOS) : SR1__ROW_TOKEN;
    return SR1_OK;
}

sr1_status sr1__row_finish(struct sr1__row *row, sr1_trajectory **out)
{
    size_t n = 0;
    const char *answer = row->scanner.event == SR1__EVENT_ANSWER
                             ? sr1__scanner_text(&row->scanner, &n)
                             : sr1__scanner_partial_answer(&row->scanner, &n);
    sr1_status st = row->tokens ? flush_stream(row) : SR1_OK;

    if (st == SR1_OK) {
        st = sr1__trajectory_builder_finish(row->builder, row->stop, answer, n, out);
        row->builder = NULL;
    }
    sr1__row_abandon(row);
    return st;
}
