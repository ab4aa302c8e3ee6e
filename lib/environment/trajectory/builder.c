/* environment/trajectory/builder.c - a trajectory grown in generation order.
 *
 * Every call checks its input, then reserves memory, then writes, so a failure changes
 * nothing. Neighbouring policy tokens of one turn form a segment, each inserted block
 * another. */
#include "environment/trajectory/builder.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "environment/trajectory/trajectory_layout.h"

#include <math.h>
#include <string.h>

#define MAX_TURNS (1 << 20)
#define MAX_SEARCH_STATUS 15 /* SR1_ACTION_* and what it may grow by */
#define MAX_EVENTS (1 << 20) /* searches, gold answers */

struct sr1__trajectory_builder {
    sr1_trajectory *t;
    struct sr1__buf text;
    size_t cap_tokens;
    size_t cap_segments;
    size_t cap_searches;
};

void sr1__trajectory_builder_free(struct sr1__trajectory_builder *b)
{
    if (!b)
        return;
    sr1_trajectory_free(b->t);
    sr1__buf_free(&b->text);
    sr1__free(b);
}

static sr1_status init_texts(sr1_trajectory *t, const char *query, size_t query_len,
                             const char *query_id)
{
    SR1__TRY(sr1__bytes_set(&t->query, query, query_len));
    SR1__TRY(sr1__bytes_set(&t->query_id, query_id, strlen(query_id)));
    return sr1__bytes_set(&t->data_source, "", 0);
}

sr1_status sr1__trajectory_builder_new(struct sr1__trajectory_builder **out,
                                       const char *query, size_t query_len,
                                       const char *query_id, int32_t sample)
{
    struct sr1__trajectory_builder *b;
    sr1_status status;

    if (query_len > SR1_TRAJECTORY_MAX_TEXT)
        return sr1__fail(SR1_E_LIMIT, "query: %zu bytes; at most %d", query_len,
                         SR1_TRAJECTORY_MAX_TEXT);
    if (sample < 0)
        return sr1__fail(SR1_E_INVALID, "sample index %d: is below 0", (int)sample);
    SR1__CALLOC(b, 1, "trajectory");
    sr1__buf_init(&b->text, SR1_TRAJECTORY_MAX_TEXT);
    b->t = sr1__calloc(1, sizeof *b->t);
    status = b->t ? SR1_OK : sr1__fail_nomem("trajectory");
    if (status == SR1_OK) {
        atomic_init(&b->t->refs, 1);
        b->t->sample = sample;
        b->t->temperature = 1.0;
        b->t->top_p = 1.0;
        b->t->weights_version = -1;
        status = init_texts(b->t, query, query_len, query_id ? query_id : "");
    }
    SR1__RETURN_NEW(out, b, status, sr1__trajectory_builder_free);
}

/* ---- room ---- */

static sr1_status room_for_tokens(struct sr1__trajectory_builder *b, size_t n)
{
    size_t need = b->t->n_tokens + n;
    size_t want = need > 2 * b->cap_tokens ? need : 2 * b->cap_tokens;

    if (need <= b->cap_tokens)
        return SR1_OK;
    for (size_t k = 0; k < SR1__N_COLUMNS; k++) {
        const struct sr1__column *c = &sr1__columns[k];
        void *p = sr1__realloc(sr1__column_get(b->t, c), want, c->size);

        SR1__CHECK_ALLOC(p, "trajectory tokens");
        sr1__column_set(b->t, c, p);
    }
    b->cap_tokens = want;
    return SR1_OK;
}

/* ---- checks ---- */

static sr1_status check_token_ids(const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0)
            return sr1__fail(SR1_E_INVALID, "token id %d: is below 0", (int)ids[i]);
    return SR1_OK;
}

static sr1_status check_token_count(const sr1_trajectory *t, size_t n)
{
    if (n > SR1_TRAJECTORY_MAX_TOKENS - t->n_tokens)
        return sr1__fail(SR1_E_LIMIT, "trajectory: more than %d tokens",
                         SR1_TRAJECTORY_MAX_TOKENS);
    return SR1_OK;
}

static sr1_status check_turn(int32_t turn)
{
    if (turn < 0 || turn >= MAX_TURNS)
        return sr1__fail(SR1_E_INVALID, "turn %d: is not in 0..%d", (int)turn,
                         MAX_TURNS - 1);
    return SR1_OK;
}

/* May n tokens of this turn follow? */
static sr1_status check_next(const struct sr1__trajectory_builder *b, size_t n,
                             int32_t turn)
{
    const sr1_trajectory *t = b->t;

    SR1__TRY(check_turn(turn));
    SR1__TRY(check_token_count(t, n));
    if (t->n_prompt == 0)
        return sr1__fail(SR1_E_STATE, "trajectory: tokens before there is a prompt");
    if (turn < t->turns[t->n_tokens - 1])
        return sr1__fail(SR1_E_INVALID, "turn %d: comes after turn %d", (int)turn,
                         (int)t->turns[t->n_tokens - 1]);
    return SR1_OK;
}

/* ---- writing ---- */

static sr1_status append_generated_text(struct sr1__trajectory_builder *b,
                                        const char *text, size_t len)
{
    sr1_status status;

    sr1__buf_add(&b->text, text, len);
    status = sr1__buf_status(&b->text, "generated text");
    b->text.status = SR1_OK; /* a failed append changed nothing */
    return status;
}

/* Room was made. text_end: where the token's piece of the text ends. */
static void push_token(sr1_trajectory *t, int32_t id, uint8_t source, int32_t turn,
                       float log_prob, uint32_t text_end)
{
    size_t i = t->n_tokens++;

    t->ids[i] = id;
    t->sources[i] = source;
    t->policy_mask[i] = source == SR1_SOURCE_POLICY;
    t->turns[i] = turn;
    t->log_probs[i] = log_prob;
    if (source == SR1_SOURCE_PROMPT)
        t->n_prompt++;
    else
        t->text_ends[i - t->n_prompt] = text_end;
    if (source == SR1_SOURCE_POLICY) {
        t->policy_positions[t->n_policy] = (int32_t)i;
        t->policy_log_probs[t->n_policy] = log_prob;
        t->n_policy++;
    }
}

/* Room was made. A new segment at the end of tokens and text. */
static sr1_text_segment *open_segment(sr1_trajectory *t, int32_t source, int32_t turn,
                                      size_t text_begin)
{
    sr1_text_segment *s = &t->segments[t->n_segments++];

    memset(s, 0, sizeof *s);
    s->source = source;
    s->turn = turn;
    s->token_begin = t->n_tokens;
    s->text_begin = text_begin;
    s->body_begin = text_begin;
    return s;
}

/* The policy's running segment of this turn, or a new one. */
static sr1_text_segment *policy_segment(sr1_trajectory *t, int32_t turn,
                                        size_t text_begin)
{
    sr1_text_segment *last = t->n_segments ? &t->segments[t->n_segments - 1] : NULL;

    if (last && last->source == SR1_SOURCE_POLICY && last->turn == turn)
        return last;
    return open_segment(t, SR1_SOURCE_POLICY, turn, text_begin);
}

sr1_status sr1__trajectory_builder_prompt(struct sr1__trajectory_builder *b,
                                          const int32_t *ids, size_t n)
{
    if (b->t->n_tokens > 0)
        return sr1__fail(SR1_E_STATE, "trajectory: the prompt comes first, and once");
    SR1__TRY(check_token_count(b->t, n));
    SR1__TRY(check_token_ids(ids, n));
    SR1__TRY(room_for_tokens(b, n));
    for (size_t i = 0; i < n; i++)
        push_token(b->t, ids[i], SR1_SOURCE_PROMPT, 0, 0.0f, 0);
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_policy(struct sr1__trajectory_builder *b, int32_t id,
                                          float log_prob, int32_t turn, const char *text,
                                          size_t len)
{
    size_t begin = b->text.len;
    sr1_text_segment *s;

    SR1__TRY(check_next(b, 1, turn));
    SR1__TRY(check_token_ids(&id, 1));
    if (!isfinite(log_prob))
        return sr1__fail(SR1_E_NUMERIC, "token %zu: its log-prob is not a finite number",
                         b->t->n_tokens);
    SR1__TRY(room_for_tokens(b, 1));
    SR1__RESERVE(b->t->segments, b->cap_segments, b->t->n_segments + 1, "trajectory");
    SR1__TRY(append_generated_text(b, text, len));
    s = policy_segment(b->t, turn, begin);
    s->token_count++;
    s->text_len += len;
    s->body_len += len;
    push_token(b->t, id, SR1_SOURCE_POLICY, turn, log_prob, (uint32_t)b->text.len);
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_environment(struct sr1__trajectory_builder *b,
                                               const int32_t *ids, size_t n, int32_t turn,
                                               const char *text, size_t len,
                                               size_t body_begin, size_t body_len)
{
    size_t begin = b->text.len;
    sr1_text_segment *s;

    if (n == 0 && len == 0)
        return SR1_OK;
    if (n == 0)
        return sr1__fail(SR1_E_INVALID, "inserted block: has text but no tokens");
    if (body_begin > len || body_len > len - body_begin)
        return sr1__fail(SR1_E_INVALID,
                         "inserted block: its body is not within its text");
    SR1__TRY(check_next(b, n, turn));
    SR1__TRY(check_token_ids(ids, n));
    SR1__TRY(room_for_tokens(b, n));
    SR1__RESERVE(b->t->segments, b->cap_segments, b->t->n_segments + 1, "trajectory");
    SR1__TRY(append_generated_text(b, text, len));
    s = open_segment(b->t, SR1_SOURCE_ENVIRONMENT, turn, begin);
    s->token_count = n;
    s->text_len = len;
    s->body_begin = begin + body_begin;
    s->body_len = body_len;
    for (size_t i = 0; i < n; i++)
        push_token(b->t, ids[i], SR1_SOURCE_ENVIRONMENT, turn, 0.0f,
                   (uint32_t)(i + 1 < n ? begin : begin + len));
    return SR1_OK;
}

sr1_status sr1__trajectory_flush_text(struct sr1__trajectory_builder *b, const char *text,
                                      size_t len)
{
    sr1_trajectory *t = b->t;

    if (len == 0)
        return SR1_OK;
    if (t->n_tokens == 0 || t->sources[t->n_tokens - 1] != SR1_SOURCE_POLICY)
        return sr1__fail(SR1_E_STATE,
                         "trajectory: rest of a text without a policy token before it");
    SR1__TRY(append_generated_text(b, text, len));
    t->text_ends[t->n_tokens - t->n_prompt - 1] = (uint32_t)b->text.len;
    t->segments[t->n_segments - 1].text_len += len;
    t->segments[t->n_segments - 1].body_len += len;
    return SR1_OK;
}

static sr1_status copy_hit_ids(struct sr1__action_record *s, const char *const *hit_ids,
                               int32_t n)
{
    if (n == 0)
        return SR1_OK;
    SR1__CALLOC(s->hit_ids, (size_t)n, "search hits");
    for (int32_t k = 0; k < n; k++) {
        s->hit_ids[k] = sr1__strdup(hit_ids[k] ? hit_ids[k] : "");
        SR1__CHECK_ALLOC(s->hit_ids[k], "search hits");
        s->n_hit_ids++;
    }
    return SR1_OK;
}

static sr1_status check_search(const sr1_trajectory *t, int32_t turn, size_t len,
                               int32_t status, int32_t n_hits)
{
    SR1__TRY(check_turn(turn));
    if (len > SR1_TRAJECTORY_MAX_TEXT || t->n_searches >= MAX_EVENTS)
        return sr1__fail(SR1_E_LIMIT, "search: too long a query or too many searches");
    if (status < 0 || status > MAX_SEARCH_STATUS || n_hits < 0)
        return sr1__fail(SR1_E_INVALID, "search: status %d with %d hits cannot be",
                         (int)status, (int)n_hits);
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_action(struct sr1__trajectory_builder *b, int32_t turn,
                                          const char *query, size_t len, int32_t status,
                                          int32_t n_hits, const char *const *hit_ids)
{
    struct sr1__action_record s = {.turn = turn, .status = status, .n_hits = n_hits};
    int32_t n_ids =
        n_hits < SR1_TRAJECTORY_MAX_HIT_IDS ? n_hits : SR1_TRAJECTORY_MAX_HIT_IDS;
    sr1_status st;

    SR1__TRY(check_search(b->t, turn, len, status, n_hits));
    SR1__RESERVE(b->t->searches, b->cap_searches, b->t->n_searches + 1, "trajectory");
    st = sr1__bytes_set(&s.query, query, len);
    if (st == SR1_OK)
        st = copy_hit_ids(&s, hit_ids, hit_ids ? n_ids : 0);
    if (st != SR1_OK) {
        sr1__action_record_free(&s);
        return st;
    }
    b->t->searches[b->t->n_searches++] = s;
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_action_reward(struct sr1__trajectory_builder *b,
                                                 double reward, int32_t success)
{
    struct sr1__action_record *last;

    if (b->t->n_searches == 0 || success < 0 || success > 1)
        return sr1__fail(SR1_E_INVALID, "reward of an action: success %d, %zu actions",
                         (int)success, b->t->n_searches);
    if (!isfinite(reward))
        return sr1__fail(SR1_E_NUMERIC, "reward of an action: %g is not finite", reward);
    last = &b->t->searches[b->t->n_searches - 1];
    last->reward = reward;
    last->success = success;
    return SR1_OK;
}

static sr1_status check_context(const struct sr1__trajectory_context *c)
{
    if (!isfinite(c->temperature) || c->temperature < 0 ||
        !(c->top_p > 0 && c->top_p <= 1) || c->top_k < 0)
        return sr1__fail(SR1_E_INVALID,
                         "sampling: temperature %g, top_p %g, top_k %d cannot be",
                         c->temperature, c->top_p, (int)c->top_k);
    if (c->weights_version < -1)
        return sr1__fail(SR1_E_INVALID, "weights version %lld: is below -1",
                         (long long)c->weights_version);
    if (c->n_ground_truths > MAX_EVENTS)
        return sr1__fail(SR1_E_LIMIT, "gold answers: more than %d", MAX_EVENTS);
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_context(struct sr1__trajectory_builder *b,
                                           const struct sr1__trajectory_context *c)
{
    const char *source = c->data_source ? c->data_source : "";
    struct sr1__owned_bytes *truths = NULL;
    sr1_status status;

    SR1__TRY(check_context(c));
    if (c->n_ground_truths)
        SR1__TRY(sr1__bytes_array_new(&truths, c->ground_truths, c->ground_truth_lens,
                                      c->n_ground_truths));
    status = sr1__bytes_set(&b->t->data_source, source, strlen(source));
    if (status != SR1_OK) {
        sr1__bytes_array_free(truths, c->n_ground_truths);
        return status;
    }
    sr1__bytes_array_free(b->t->ground_truths, b->t->n_ground_truths);
    b->t->ground_truths = truths;
    b->t->n_ground_truths = c->n_ground_truths;
    b->t->temperature = c->temperature;
    b->t->top_p = c->top_p;
    b->t->top_k = c->top_k;
    b->t->weights_version = c->weights_version;
    b->t->begins_in_thought = c->begins_in_thought != 0;
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_history(struct sr1__trajectory_builder *b,
                                           const char *const *roles,
                                           const char *const *texts, const size_t *sizes,
                                           size_t n)
{
    return sr1__trajectory_set_history(b->t, roles, texts, sizes, n);
}

void sr1__trajectory_builder_row(struct sr1__trajectory_builder *b,
                                 struct sr1__row_text *row)
{
    struct sr1__row_text *old = b->t->row;

    b->t->row = sr1__row_text_retain(row);
    sr1__row_text_free(old);
}

/* ---- looking and finishing ---- */

const int32_t *sr1__trajectory_builder_ids(const struct sr1__trajectory_builder *b,
                                           size_t *n)
{
    *n = b->t->n_tokens;
    return b->t->ids;
}

/* Give back what doubling reserved too much; without memory for a smaller block the
 * bigger one stays. */
static void trim_columns(sr1_trajectory *t)
{
    for (size_t k = 0; k < SR1__N_COLUMNS; k++) {
        const struct sr1__column *c = &sr1__columns[k];
        size_t n = sr1__column_count(t, c);
        void *p = sr1__column_get(t, c);
        void *q = n ? sr1__realloc(p, n, c->size) : NULL;

        if (n == 0)
            sr1__free(p);
        if (n == 0 || q)
            sr1__column_set(t, c, q);
    }
}

/* Samples of one query and prompt; without an id the prompt decides. */
static uint64_t make_group_key(const sr1_trajectory *t)
{
    uint64_t key = sr1__hash64(t->ids, t->n_prompt * sizeof *t->ids, 0);

    if (t->query_id.len)
        key = sr1__hash64(t->query_id.data, t->query_id.len, key);
    return t->copy ? sr1__hash64(&t->copy, sizeof t->copy, key) : key;
}

sr1_status sr1__trajectory_set_copy(sr1_trajectory *t, int64_t copy)
{
    if (copy < 0)
        return sr1__fail(SR1_E_INVALID, "copy %lld: is below 0", (long long)copy);
    if (copy == t->copy)
        return SR1_OK; /* its key is that of the copy already */
    t->copy = copy;
    t->group_key = make_group_key(t);
    return SR1_OK;
}

static sr1_status finish_trajectory(struct sr1__trajectory_builder *b,
                                    int32_t stop_reason, const char *answer,
                                    size_t answer_len)
{
    sr1_trajectory *t = b->t;
    size_t text_len = b->text.len;

    if (strcmp(sr1_stop_reason_name(stop_reason), "?") == 0)
        return sr1__fail(SR1_E_INVALID, "stop reason %d: is unknown", (int)stop_reason);
    if (answer_len > SR1_TRAJECTORY_MAX_TEXT)
        return sr1__fail(SR1_E_LIMIT, "answer: %zu bytes; at most %d", answer_len,
                         SR1_TRAJECTORY_MAX_TEXT);
    SR1__TRY(sr1__bytes_set(&t->answer, answer, answer_len));
    t->text.data = sr1__buf_take(&b->text);
    SR1__CHECK_ALLOC(t->text.data, "generated text");
    t->text.len = text_len;
    t->stop_reason = stop_reason;
    trim_columns(t);
    t->group_key = make_group_key(t);
    return SR1_OK;
}

sr1_status sr1__trajectory_builder_finish(struct sr1__trajectory_builder *b,
                                          int32_t stop_reason, const char *answer,
                                          size_t answer_len, sr1_trajectory **out)
{
    sr1_status status =
        finish_trajectory(b, stop_reason, answer ? answer : "", answer_len);

    if (status == SR1_OK) {
        *out = b->t;
        b->t = NULL;
    }
    sr1__trajectory_builder_free(b);
    return status;
}
