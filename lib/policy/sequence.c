/* policy/sequence.c - the state of one trajectory between two tokens.
 *
 * The ids sampled are the ids recorded and, later, trained on: text is only derived from
 * them, to find the protocol's tags and to be shown. */
#include "policy/sequence.h"

#include "base/mem.h"
#include "base/num.h"
#include "policy/observation_tokens.h"
#include "retrieval/search/search_engine.h"
#include "text/tokenizer/tokenizer.h"
#include "environment/trajectory/row_text.h"

#include <searchr1/ext/episodes.h>

#include <stdio.h>
#include <string.h>

static int64_t context_used(const struct sr1__sequence *s)
{
    size_t n;

    (void)sr1__trajectory_builder_ids(s->builder, &n);
    return (int64_t)n;
}

static uint64_t seed_of_group(const struct sr1__sequence *s)
{
    char buf[SR1__QUERY_ID_MAX];

    return sr1__group_seed(s->g->seed, sr1__query_id(&s->query, buf), s->query.copy);
}

/* Each trajectory draws from a stream of its own: nothing else in the batch matters. */
static void seed_sequence(struct sr1__sequence *s, int32_t sample)
{
    sr1__rng_seed(&s->rng, seed_of_group(s), (uint64_t)sample);
}

static sr1_status record_context(struct sr1__sequence *s, size_t query)
{
    const sr1_query *q = &s->query;
    const struct sr1__sampling *sampling = &s->g->sampling;
    struct sr1__trajectory_context c = {
        .temperature = sampling->temperature,
        .top_p = sampling->top_p,
        .top_k = sampling->top_k,
        .weights_version = s->g->weights_version,
        .data_source = q->data_source,
        .begins_in_thought = sr1__chat_begins_in_thought(s->g->rollout->tokenizer,
                                                         !s->g->rollout->thinking),
        .ground_truths = q->answers,
        .n_ground_truths = q->n_answers,
    };

    SR1__TRY(sr1__trajectory_builder_context(s->builder, &c));
    sr1__trajectory_builder_row(s->builder, s->g->row_texts[query]);
    return sr1__trajectory_builder_history(s->builder, q->history_roles, q->history_texts,
                                           q->history_sizes, q->n_history);
}

/* The environment's own randomness: no seed's sampling stream is it. */
static uint64_t derive_episode_seed(const struct sr1__sequence *s, int32_t sample)
{
    static const char purpose[] = "episode";
    struct sr1__rng r;

    sr1__rng_seed(&r, sr1__hash64(purpose, sizeof(purpose), seed_of_group(s)),
                  (uint64_t)sample);
    return sr1__rng_u64(&r);
}

/* The environment learns of the trajectory. */
static sr1_status begin_episode(struct sr1__sequence *s, size_t query, int32_t sample)
{
    char buf[SR1__QUERY_ID_MAX];
    sr1_env_episode e = {.query_id = sr1__query_id(&s->query, buf),
                         .query = s->query.text,
                         .query_len = s->query.text_len,
                         .sample = sample,
                         .seed = derive_episode_seed(s, sample)};
    pthread_mutex_t *lock = &s->g->rollout->env_lock;
    sr1_status st;

    e.row = sr1__row_text_view(s->g->row_texts[query], &e.row_len);
    pthread_mutex_lock(lock);
    st = sr1__env_begin(s->g->env, &e, &s->episode);
    pthread_mutex_unlock(lock);
    return st;
}

static void end_episode(struct sr1__sequence *s)
{
    pthread_mutex_t *lock = &s->g->rollout->env_lock;

    if (s->episode == 0)
        return;
    pthread_mutex_lock(lock);
    sr1_env_finish(s->g->env, s->episode);
    pthread_mutex_unlock(lock);
    s->episode = 0;
}

sr1_status sr1__sequence_begin(struct sr1__sequence *s, struct sr1__generation *g,
                               size_t query, int32_t sample, const int32_t *prompt,
                               size_t n)
{
    const sr1_query *q = &s->query;
    char buf[SR1__QUERY_ID_MAX];
    sr1_status st;

    s->g = g;
    s->query = sr1__query_at(g->queries, query);
    s->index = query * (size_t)g->group_size + (size_t)sample;
    s->active = 1;
    s->waiting = s->cut = 0;
    s->stop = SR1_STOP_ERROR;
    s->turn = s->searches = s->executed = s->owed = 0;
    s->tokens = s->turn_tokens = 0;
    s->n_held = 0;
    s->episode = 0;
    seed_sequence(s, sample);
    sr1__scanner_init(&s->scanner, sr1__env_protocol(g->env), 0);
    s->scanner.max_calls = sr1__env_max_calls(g->env);
    st = sr1__trajectory_builder_new(&s->builder, q->text, q->text_len,
                                     sr1__query_id(q, buf), sample);
    if (st == SR1_OK)
        st = record_context(s, query);
    if (st == SR1_OK && n)
        st = sr1__trajectory_builder_prompt(s->builder, prompt, n);
    if (st == SR1_OK)
        st = sr1_token_stream_new(&s->stream, g->rollout->speech, 1);
    if (st == SR1_OK && n)
        st = begin_episode(s, query, sample);
    if (st != SR1_OK)
        sr1__sequence_abandon(s);
    return st;
}

void sr1__sequence_abandon(struct sr1__sequence *s)
{
    end_episode(s);
    sr1__trajectory_builder_free(s->builder);
    sr1_token_stream_free(s->stream);
    sr1__scanner_free(&s->scanner);
    sr1__free(s->versions);
    s->builder = NULL;
    s->stream = NULL;
    s->versions = NULL;
    s->n_versions = 0;
    s->active = 0;
}

const int32_t *sr1__sequence_ids(const struct sr1__sequence *s, size_t *n)
{
    return sr1__trajectory_builder_ids(s->builder, n);
}

static sr1_status emit_text(struct sr1__sequence *s, int32_t source, const char *text,
                            size_t n)
{
    struct sr1__generation *g = s->g;
    sr1_status st;

    if (!g->options->text || n == 0)
        return SR1_OK;
    pthread_mutex_lock(&g->lock);
    st = g->options->text(g->options->user, s->index, source, text, n);
    pthread_mutex_unlock(&g->lock);
    return st;
}

static enum sr1__sequence_need stop_sequence(struct sr1__sequence *s, int32_t reason)
{
    s->stop = reason;
    return SR1__SEQUENCE_DONE;
}

/* How many more actions may be carried out? With count_unexecuted (as in the reference
 * code) every call counts, and the last call allowed ends the trajectory without being
 * executed. */
static int32_t count_allowed_actions(const struct sr1__sequence *s)
{
    const struct sr1__rollout_limits *limits = &s->g->rollout->limits;

    if (s->turn >= limits->max_turns)
        return 0;
    return limits->count_unexecuted ? limits->max_calls - s->searches - 1
                                    : limits->max_calls - s->executed;
}

static int may_execute_action(const struct sr1__sequence *s)
{
    return count_allowed_actions(s) > 0;
}

int32_t sr1__sequence_actions(const struct sr1__sequence *s)
{
    return s->scanner.n_calls > 0 ? s->scanner.n_calls : 1;
}

const char *sr1__sequence_refusal(const struct sr1__sequence *s, int32_t i)
{
    if (i >= count_allowed_actions(s))
        return "Error: this call was not made: no more are allowed";
    if (sr1__scanner_too_long(&s->scanner, i))
        return "Error: this call was not made: it is too long; write a shorter one";
    return NULL;
}

/* Has the turn used up its own budget of tokens? */
static int turn_is_full(const struct sr1__sequence *s)
{
    int64_t most = s->g->rollout->limits.max_turn_tokens;

    return most > 0 && s->turn_tokens >= most;
}

int64_t sr1__sequence_tokens_left(const struct sr1__sequence *s)
{
    const struct sr1__rollout_limits *limits = &s->g->rollout->limits;
    int64_t most = s->g->max_tokens - s->tokens;

    if (limits->max_turn_tokens > 0)
        most = sr1__min_i64(most, limits->max_turn_tokens - s->turn_tokens);
    most = sr1__min_i64(most, limits->max_context - context_used(s));
    return most > 0 ? most : 1;
}

/* A turn ends without action or answer: with its message, in a protocol of messages;
 * search_r1_compat, with the policy's end, a void </search> or its last token. */
static int ends_turn_without_action(const struct sr1__sequence *s, int32_t id,
                                    int32_t event)
{
    const sr1_tokenizer *t = s->g->rollout->tokenizer;

    if (!sr1__env_protocol(s->g->env)->search_r1_compat)
        return event == SR1__EVENT_NONE && id == sr1__chat_end_id(t);
    return event == SR1__EVENT_VOID ||
           (event == SR1__EVENT_NONE && (sr1__tokenizer_stops(t, id) || turn_is_full(s)));
}

/* Does this token end a turn for which the protocol inserts its notice? */
static int ends_with_notice(const struct sr1__sequence *s, int32_t id, int32_t event)
{
    const struct sr1__protocol *p = sr1__env_protocol(s->g->env);

    return p->notice && s->turn < s->g->rollout->limits.max_turns &&
           sr1__env_acts(s->g->env) && ends_turn_without_action(s, id, event);
}

/* What follows a token, first reason first. */
static enum sr1__sequence_need choose_next_need(struct sr1__sequence *s, int32_t id,
                                                int32_t event)
{
    const struct sr1__rollout_limits *limits = &s->g->rollout->limits;
    const struct sr1__protocol *p = sr1__env_protocol(s->g->env);
    int out_of_tokens = s->tokens >= s->g->max_tokens;
    int told = ends_with_notice(s, id, event);

    if (event == SR1__EVENT_ANSWER)
        return stop_sequence(s, SR1_STOP_ANSWER);
    if (event == SR1__EVENT_ACTION && p->message)
        return may_execute_action(s) ? SR1__SEQUENCE_NEEDS_ACTION
                                     : stop_sequence(s, SR1_STOP_SEARCH_LIMIT);
    if (!told && (event == SR1__EVENT_VOID ||
                  (!(event == SR1__EVENT_ACTION && p->several) &&
                   sr1__tokenizer_stops(s->g->rollout->tokenizer, id))))
        return stop_sequence(s, SR1_STOP_EOS);
    if (event == SR1__EVENT_ACTION && !may_execute_action(s))
        return stop_sequence(s, SR1_STOP_SEARCH_LIMIT);
    if (out_of_tokens || (turn_is_full(s) && event == SR1__EVENT_NONE && !told))
        return stop_sequence(s, SR1_STOP_TOKEN_LIMIT);
    if (context_used(s) >= limits->max_context)
        return stop_sequence(s, SR1_STOP_CONTEXT_LIMIT);
    return event == SR1__EVENT_ACTION ? SR1__SEQUENCE_NEEDS_ACTION
                                      : SR1__SEQUENCE_NEEDS_TOKEN;
}

struct sr1__action sr1__sequence_action(const struct sr1__sequence *s, int32_t i)
{
    struct sr1__action a = {.row = s->index, .turn = s->turn, .episode = s->episode};

    a.text = sr1__scanner_call(&s->scanner, i, &a.len);
    return a;
}

/* ---- inserting what the environment answered ---- */

static sr1_status record_block(struct sr1__sequence *s,
                               const struct sr1__observation_tokens *b)
{
    SR1__TRY(sr1__trajectory_builder_environment(s->builder, b->ids.v, b->ids.n, s->turn,
                                                 sr1__buf_cstr(&b->text), b->text.len,
                                                 b->body_begin, b->body_len));
    return emit_text(s, SR1_SOURCE_ENVIRONMENT, sr1__buf_cstr(&b->text), b->text.len);
}

/* Must an answer go in as a whole? */
static int needs_whole_block(const struct sr1__sequence *s)
{
    return (sr1__env_flags(s->g->env) & SR1_ENV_WHOLE) != 0;
}

/* Tokens an inserted block may take: the configured budget, less when the context ends.
 * One place must remain for the token after it. */
static int64_t block_room(const struct sr1__sequence *s)
{
    const struct sr1__rollout_limits *limits = &s->g->rollout->limits;
    int64_t left = limits->max_context - context_used(s) - 1;

    return needs_whole_block(s) || left < limits->max_observation
               ? left
               : limits->max_observation;
}

static sr1_status record_action(struct sr1__sequence *s, int32_t i,
                                const struct sr1__observation *o)
{
    int whole = o->n_hit_ids == o->n_hits || o->n_hit_ids >= SR1_TRAJECTORY_MAX_HIT_IDS;
    int failed = sr1__search_is_failure(o->status);
    size_t n;
    const char *query = sr1__scanner_call(&s->scanner, i, &n);

    s->searches++;
    s->executed += !(o->flags & SR1_ANSWER_UNEXECUTED);
    pthread_mutex_lock(&s->g->lock);
    s->g->stats.searches++;
    s->g->stats.failed_searches += failed;
    s->g->stats.refused_actions += !failed && (o->flags & SR1_ANSWER_UNEXECUTED);
    if (o->failure)
        snprintf(s->g->stats.failure, sizeof(s->g->stats.failure), "%s", o->failure);
    pthread_mutex_unlock(&s->g->lock);
    SR1__TRY(sr1__trajectory_builder_action(
        s->builder, s->turn, query, n, o->status, o->n_hits,
        whole ? (const char *const *)o->hit_ids : NULL));
    return sr1__trajectory_builder_action_reward(s->builder, o->reward, o->success);
}

static sr1_status flush_stream(struct sr1__sequence *s)
{
    const char *text;
    size_t n;

    SR1__TRY(sr1_token_stream_finish(s->stream, &text, &n));
    SR1__TRY(sr1__trajectory_flush_text(s->builder, text, n));
    return emit_text(s, SR1_SOURCE_POLICY, text, n);
}

/* Has the policy ended its message itself? */
static int has_ended_message(const struct sr1__sequence *s)
{
    size_t n;
    const int32_t *ids = sr1__trajectory_builder_ids(s->builder, &n);

    return n > 0 && sr1__tokenizer_stops(s->g->rollout->tokenizer, ids[n - 1]);
}

/* Truncate the observation to what the block holds, of several the first from its head to
 * the tail of the last; in a search_r1_compat protocol the closing tag is dropped too. */
static sr1_status truncate_observation(struct sr1__observation *o, size_t n,
                                       const struct sr1__observation_tokens *b,
                                       int search_r1_compat)
{
    size_t whole = o->head.len + o->body.len + o->tail.len;
    struct sr1__buf tail = o->tail;

    if (n == 1 && (search_r1_compat ? b->text.len == whole : b->body_len == o->body.len))
        return SR1_OK;
    sr1__buf_clear(&o->body);
    sr1__buf_add(&o->body, sr1__buf_cstr(&b->text) + b->body_begin, b->body_len);
    o->tail = o[n - 1].tail;
    o[n - 1].tail = tail;
    if (search_r1_compat)
        sr1__buf_clear(&o->tail);
    return sr1__buf_status(&o->body, "inserted text");
}

static size_t count_body_bytes(const struct sr1__observation *o, size_t n)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += o[i].body.len;
    return bytes;
}

/* The block of n answers goes in, if there is room for it. */
static sr1_status insert_block(struct sr1__sequence *s, struct sr1__observation *o,
                               size_t n, int *fits)
{
    const sr1_rollout *r = s->g->rollout;
    const struct sr1__protocol *p = sr1__env_protocol(s->g->env);
    int told = (o[0].flags & SR1__ANSWER_NOTICE) != 0;
    const struct sr1__turn_delimiters *border = !p->chat ? NULL
                                                : told   ? &r->border
                                                         : sr1__result_border(r);
    struct sr1__observation_tokens b;
    sr1_status st;

    SR1__TRY(sr1__observation_tokens_make(&b, r->tokenizer, border, p, o, n,
                                          has_ended_message(s), block_room(s), fits));
    *fits = *fits && !(needs_whole_block(s) && b.body_len < count_body_bytes(o, n));
    st = *fits ? record_block(s, &b) : SR1_OK;
    if (st == SR1_OK && *fits)
        st = truncate_observation(o, n, &b, p->search_r1_compat);
    sr1__observation_tokens_free(&b);
    return st;
}

/* The answers are recorded in the order of their actions. */
static sr1_status record_actions(struct sr1__sequence *s,
                                 const struct sr1__observation *o, size_t n, int *failed,
                                 int *done)
{
    for (size_t i = 0; i < n; i++) {
        if (!(o[i].flags & SR1__ANSWER_NOTICE))
            SR1__TRY(record_action(s, (int32_t)i, &o[i]));
        *failed |= sr1__search_is_failure(o[i].status);
        *done |= o[i].done;
    }
    return SR1_OK;
}

sr1_status sr1__sequence_observe(struct sr1__sequence *s, struct sr1__observation *o,
                                 enum sr1__sequence_need *need)
{
    size_t n = (size_t)sr1__sequence_actions(s);
    int fits = 1, failed = 0, done = 0;

    SR1__TRY(flush_stream(s));
    SR1__TRY(record_actions(s, o, n, &failed, &done));
    if (failed && !s->g->rollout->limits.go_on) {
        *need = stop_sequence(s, SR1_STOP_SEARCH_FAILED);
        return SR1_OK;
    }
    SR1__TRY(insert_block(s, o, n, &fits));
    if (!fits) {
        *need = stop_sequence(s, SR1_STOP_CONTEXT_LIMIT);
        return SR1_OK;
    }
    s->waiting = 0;
    s->turn++;
    s->turn_tokens = 0;
    sr1__scanner_reset(&s->scanner);
    *need = !done    ? SR1__SEQUENCE_NEEDS_TOKEN
            : s->cut ? stop_sequence(s, SR1_STOP_TOKEN_LIMIT)
                     : stop_sequence(s, SR1_STOP_EOS);
    s->cut = 0;
    return SR1_OK;
}

/* The message was neither an action nor an answer. */
static sr1_status insert_notice(struct sr1__sequence *s, enum sr1__sequence_need *need)
{
    struct sr1__observation o;
    sr1_status st;

    SR1__TRY(sr1__env_notice(s->g->env, &o));
    st = sr1__sequence_observe(s, &o, need);
    sr1__observation_free(&o);
    return st;
}

/* Where a whole message is the action, or holds several, it is complete when it ends, or
 * may be no longer; an answer that may be no longer is none. */
static int32_t end_message(struct sr1__sequence *s, int32_t id)
{
    int ended = sr1__tokenizer_stops(s->g->rollout->tokenizer, id);

    if (!ended && (sr1__env_protocol(s->g->env)->answers ||
                   (s->tokens < s->g->max_tokens && !turn_is_full(s))))
        return SR1__EVENT_NONE;
    s->cut = !ended;
    return sr1__scanner_end(&s->scanner);
}

/* Do actions wait for the end of the message? */
static int holds_actions(const struct sr1__sequence *s)
{
    const struct sr1__protocol *p = sr1__env_protocol(s->g->env);

    return sr1__env_acts(s->g->env) && !p->answers &&
           (p->message || s->scanner.n_calls > 0 ||
            sr1__scanner_reaches_end(&s->scanner));
}

/* Is the message an answer, or one with actions? */
static int reads_message_end(const struct sr1__sequence *s)
{
    return sr1__env_protocol(s->g->env)->answers || holds_actions(s);
}

sr1_status sr1__sequence_append(struct sr1__sequence *s, int32_t id, float log_prob,
                                enum sr1__sequence_need *need)
{
    const char *text;
    size_t n, used;
    int32_t event = SR1__EVENT_NONE;

    SR1__TRY(sr1_token_stream_push(s->stream, id, &text, &n));
    SR1__TRY(sr1__trajectory_builder_policy(s->builder, id, log_prob, s->turn, text, n));
    SR1__TRY(emit_text(s, SR1_SOURCE_POLICY, text, n));
    SR1__TRY(sr1__scanner_feed(&s->scanner, text, n, &used, &event));
    if ((event == SR1__EVENT_ACTION || event == SR1__EVENT_VOID) &&
        !sr1__env_acts(s->g->env)) {
        sr1__scanner_reset(&s->scanner);
        event = SR1__EVENT_NONE;
    }
    s->tokens++;
    s->turn_tokens++;
    if (event == SR1__EVENT_NONE && reads_message_end(s))
        event = end_message(s, id);
    *need = choose_next_need(s, id, event);
    return *need == SR1__SEQUENCE_NEEDS_TOKEN && ends_with_notice(s, id, event)
               ? insert_notice(s, need)
               : SR1_OK;
}

sr1_status sr1__sequence_version(struct sr1__sequence *s, int64_t version)
{
    struct sr1__version_run *last = s->versions + s->n_versions - 1, *grown;

    if (s->n_versions && last->version == version)
        return SR1_OK;
    if (s->n_versions && last->begin == (size_t)s->tokens) { /* of no token */
        last->version = version;
        return SR1_OK;
    }
    grown = sr1__realloc(s->versions, s->n_versions + 1, sizeof(*grown));
    SR1__CHECK_ALLOC(grown, "weights versions");
    s->versions = grown;
    grown[s->n_versions++] = (struct sr1__version_run){(size_t)s->tokens, version};
    return SR1_OK;
}

/* Without a last run that no token followed. */
static sr1_status record_versions(const struct sr1__sequence *s, sr1_trajectory *t)
{
    size_t n = s->n_versions;

    if (n && s->versions[n - 1].begin >= (size_t)s->tokens)
        n--;
    return sr1__trajectory_set_versions(t, s->versions, n);
}

void sr1__sequence_truncate(struct sr1__sequence *s, enum sr1__sequence_need *need)
{
    *need = stop_sequence(s, SR1_STOP_TOKEN_LIMIT);
    if (!holds_actions(s))
        return;
    s->cut = 1;
    (void)sr1__scanner_end(&s->scanner);
    *need = may_execute_action(s) ? SR1__SEQUENCE_NEEDS_ACTION
                                  : stop_sequence(s, SR1_STOP_SEARCH_LIMIT);
}

sr1_status sr1__sequence_finish(struct sr1__sequence *s, sr1_trajectory **out)
{
    size_t n = 0;
    const char *answer = s->scanner.event == SR1__EVENT_ANSWER
                             ? sr1__scanner_text(&s->scanner, &n)
                             : sr1__scanner_partial_answer(&s->scanner, &n);
    sr1_status st = s->tokens ? flush_stream(s) : SR1_OK;

    if (st == SR1_OK) {
        st = sr1__trajectory_builder_finish(s->builder, s->stop, answer, n, out);
        s->builder = NULL;
    }
    if (st == SR1_OK) {
        sr1__trajectory_set_episode(*out, s->episode);
        st = sr1__trajectory_set_copy(*out, s->query.copy);
    }
    if (st == SR1_OK)
        st = record_versions(s, *out);
    sr1__sequence_abandon(s);
    return st;
}
