/* rollout/remote_turn.c - what a row asks of the server, and what of an answer it takes.
 *
 * /completions continues the row's ids: prompt, and all that was said and inserted so
 * far. /chat/completions is given the conversation as messages: then the prompt that the
 * server renders need not be the row's ids, and what differs is counted.
 *
 * Closing tags of the protocol end an answer on the server's side; what ends a turn is
 * still decided here, token by token, as for a model of our own. A server may have taken
 * the closing tag off (OpenAI's own does): it is put back. */
#include "rollout/remote.h"

#include "base/mem.h"

#include <string.h>

#define N_STOPS 2

/* ---- the conversation ---- */

void sr1__talk_free(struct sr1__talk *k)
{
    sr1__buf_free(&k->said);
    for (size_t i = 0; i < k->n_messages; i++) {
        sr1__free(k->roles[i]);
        sr1__free(k->contents[i]);
    }
    sr1__free(k->roles);
    sr1__free(k->contents);
    k->roles = k->contents = NULL;
    k->n_messages = k->cap_messages = 0;
    sr1__row_free(&k->row);
}

static sr1_status more_messages(struct sr1__talk *k)
{
    size_t cap = 2 * k->cap_messages + 4;
    char **p;

    if (k->n_messages < k->cap_messages)
        return SR1_OK;
    p = sr1__realloc(k->roles, cap, sizeof(*p));
    if (!p)
        return sr1__fail_nomem("messages");
    k->roles = p;
    p = sr1__realloc(k->contents, cap, sizeof(*p));
    if (!p)
        return sr1__fail_nomem("messages");
    k->contents = p;
    k->cap_messages = cap;
    return SR1_OK;
}

/* Texts with NUL bytes end there: JSON carries them, chat templates do not. */
static sr1_status add_message(struct sr1__talk *k, const char *role, const char *text,
                              size_t n)
{
    size_t i = k->n_messages;

    SR1__TRY(more_messages(k));
    k->roles[i] = sr1__strdup(role);
    k->contents[i] = sr1__strndup(text, n);
    if (!k->roles[i] || !k->contents[i]) {
        sr1__free(k->roles[i]);
        sr1__free(k->contents[i]);
        return sr1__fail_nomem("messages");
    }
    k->n_messages++;
    return SR1_OK;
}

static sr1_status add_prompt(void *to, const char *role, const char *text, size_t n)
{
    return add_message(to, role, text, n);
}

sr1_status sr1__talk_begin(struct sr1__talk *k)
{
    return k->remote->chat
               ? sr1__rollout_messages(k->g->rollout, &k->row.query, add_prompt, k)
               : SR1_OK;
}

static sr1_status add_observation(struct sr1__talk *k, const struct sr1__observation *o)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__buf_add(&text, sr1__buf_cstr(&o->head), o->head.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->body), o->body.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->tail), o->tail.len);
    st = sr1__buf_status(&text, "messages");
    if (st == SR1_OK)
        st = add_message(k, "user", sr1__buf_cstr(&text), text.len);
    sr1__buf_free(&text);
    return st;
}

sr1_status sr1__talk_turn(struct sr1__talk *k, const struct sr1__observation *o)
{
    struct sr1__observation notice;
    sr1_status st = SR1_OK;

    if (k->remote->chat)
        st = add_message(k, "assistant", sr1__buf_cstr(&k->said), k->said.len);
    sr1__buf_clear(&k->said);
    if (st != SR1_OK || !k->remote->chat)
        return st;
    if (o)
        return add_observation(k, o);
    SR1__TRY(sr1__env_notice(k->g->env, &notice));
    st = add_observation(k, &notice);
    sr1__observation_free(&notice);
    return st;
}

/* ---- asking ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tokens the row may still take: as decided after each of them. */
static int64_t tokens_left(const struct sr1__talk *k)
{
    const struct sr1__limits *limits = &k->g->rollout->limits;
    int64_t most = k->g->max_tokens - k->row.tokens;
    size_t used;

    (void)sr1__trajectory_builder_ids(k->row.builder, &used);
    if (limits->max_turn_tokens > 0)
        most = least(most, limits->max_turn_tokens - k->row.turn_tokens);
    most = least(most, limits->max_context - (int64_t)used);
    return most > 0 ? most : 1;
}

/* Tags that may end a turn; those of actions only where something answers them. None
 * where a turn is a whole message. */
static size_t stop_texts(const struct sr1__talk *k, const char *stops[N_STOPS])
{
    const struct sr1__protocol *p = sr1__env_protocol(k->g->env);
    size_t n = 0;

    if (p->message)
        return 0;
    stops[n++] = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)];
    if (sr1__env_acts(k->g->env))
        stops[n++] = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)];
    return n;
}

static sr1_status ask(struct sr1__talk *k, sr1_openai_results **out)
{
    const struct sr1__sampling *s = &k->g->sampling;
    const char *stops[N_STOPS];
    sr1_openai_request q = {
        .struct_size = sizeof(q),
        .max_tokens = tokens_left(k),
        .temperature = s->temperature,
        .top_p = s->top_p,
        .top_k = s->top_k,
        .log_probs = 1,
        .stop = stops,
        .n_stop = stop_texts(k, stops),
        .seed = (int64_t)(sr1__rng_u64(&k->row.rng) % INT32_MAX) + 1,
        .no_thinking = !k->g->rollout->thinking,
    };

    if (k->remote->chat) {
        q.roles = (const char *const *)k->roles;
        q.contents = (const char *const *)k->contents;
        q.n_messages = k->n_messages;
    } else {
        q.prompt_ids = sr1__trajectory_builder_ids(k->row.builder, &q.n_prompt_ids);
    }
    return sr1_openai_run(k->remote->client, &q, 1, out);
}

/* ---- taking ---- */

/* Has the server read another prompt than the `sent` ids that the row had when it asked?
 */
static int read_other(const struct sr1__talk *k, const sr1_openai_result *a, size_t sent)
{
    int64_t n = a->prompt_ids ? a->n_prompt_ids : a->prompt_tokens;
    size_t have;
    const int32_t *ids = sr1__trajectory_builder_ids(k->row.builder, &have);

    return (n >= 0 && n != (int64_t)sent) ||
           (a->prompt_ids && memcmp(a->prompt_ids, ids, sent * sizeof(*ids)) != 0);
}

static void count_answer(struct sr1__talk *k, const sr1_openai_result *a,
                         const struct sr1__remote_tokens *t, size_t sent, size_t taken)
{
    struct sr1__remote_stats *s = &k->g->stats.remote;
    int other = read_other(k, a, sent);

    pthread_mutex_lock(&k->g->lock);
    s->answers++;
    s->sources[t->source]++;
    s->drifted += t->drifted;
    s->prompts_differ += other;
    s->dropped_tokens += (int64_t)(t->ids.n - taken);
    s->server_tokens += a->completion_tokens > 0 ? a->completion_tokens : 0;
    pthread_mutex_unlock(&k->g->lock);
}

/* Token by token, until the row wants something else or a new turn has begun. -log p of
 * what was drawn is an unbiased guess at the entropy. */
static sr1_status take_tokens(struct sr1__talk *k, const struct sr1__remote_tokens *t,
                              size_t *taken, enum sr1__row_want *want)
{
    int32_t turn = k->row.turn;

    for (*taken = 0; *taken < t->ids.n && *want == SR1__ROW_TOKEN && k->row.turn == turn;
         (*taken)++) {
        float log_prob = t->log_probs ? t->log_probs[*taken] : 0.0f;

        SR1__TRY(sr1__row_take(&k->row, t->ids.v[*taken], log_prob, want));
        k->g->entropy[k->row.index] -= (double)log_prob;
    }
    return SR1_OK;
}

/* The closing tag of what the policy has opened last and not closed; NULL: nothing. */
static const char *open_tag(const struct sr1__talk *k)
{
    static const int roles[] = {SR1__ROLE_ACTION, SR1__ROLE_ANSWER};
    const struct sr1__protocol *p = sr1__env_protocol(k->g->env);
    const char *text = sr1__buf_cstr(&k->said), *open = NULL;
    struct sr1__tag tag;

    for (size_t at = 0; sr1__protocol_next_tag(p, text, k->said.len, at, &tag);
         at = tag.end)
        for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
            if (tag.tag == SR1__TAG_OPEN(roles[i]))
                open = p->tags[SR1__TAG_CLOSE(roles[i])];
            else if (tag.tag == SR1__TAG_CLOSE(roles[i]) && open == p->tags[tag.tag])
                open = NULL;
        }
    return open;
}

static int said_ends_with(const struct sr1__talk *k, const char *end)
{
    size_t n = strlen(end);

    return n <= k->said.len && memcmp(k->said.data + k->said.len - n, end, n) == 0;
}

static int32_t end_id(const sr1_tokenizer *t)
{
    int32_t id = sr1_tokenizer_special_id(t, SR1_TOKEN_IM_END);

    return id >= 0 ? id : sr1_tokenizer_special_id(t, SR1_TOKEN_EOS);
}

/* Tokens the server has drawn and not given: no log-prob is known. */
static sr1_status put_back(struct sr1__talk *k, const char *text,
                           enum sr1__row_want *want)
{
    const sr1_tokenizer *t = k->g->rollout->tokenizer;
    struct sr1__remote_tokens lost = {0};
    size_t taken;
    int32_t end = end_id(t);
    sr1_status st;

    if (text) {
        sr1__buf_str(&k->said, text);
        st =
            sr1__tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, &lost.ids);
    } else {
        st = end >= 0 ? sr1__ids_add(&lost.ids, end) : SR1_OK;
    }
    if (st == SR1_OK)
        st = take_tokens(k, &lost, &taken, want);
    sr1__remote_tokens_free(&lost);
    return st;
}

/* What is learned from has log-probs: nothing is put back. Without an end a trajectory
 * can be over, but not its message where another follows. */
static sr1_status refuse_lost(const struct sr1__talk *k, const sr1_openai_result *a,
                              const char *tag)
{
    const struct sr1__protocol *p = sr1__env_protocol(k->g->env);

    if (tag)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server cuts %s off its answer, so its log-prob is not "
                         "known; training needs a server that keeps it (vLLM's "
                         "include_stop_str_in_output)",
                         tag);
    if (a->finish == SR1_OPENAI_FINISH_STOP && (p->notice || p->message) &&
        sr1__env_acts(k->g->env))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server does not give the token that ended its message, so "
                         "its log-prob is not known; training by the protocol %s needs "
                         "a server that does (vLLM)",
                         p->name);
    return SR1_OK;
}

/* The answer is over and the row wants more: what ended it is missing, or a closing tag
 * closed nothing and the policy goes on. */
static sr1_status end_turn(struct sr1__talk *k, const sr1_openai_result *a,
                           const struct sr1__remote_tokens *t, enum sr1__row_want *want)
{
    const struct sr1__protocol *p = sr1__env_protocol(k->g->env);
    const char *tag = a->stop_text;
    int32_t turn = k->row.turn;

    if (!tag && t->source != SR1__REMOTE_IDS && !p->message)
        tag = open_tag(k);
    if (tag && t->ids.n > 0 && said_ends_with(k, tag))
        return SR1_OK;
    SR1__TRY(k->remote->exact ? refuse_lost(k, a, tag) : put_back(k, tag, want));
    if (!tag && *want == SR1__ROW_TOKEN && k->row.turn == turn) {
        k->row.stop = SR1_STOP_EOS;
        *want = SR1__ROW_DONE;
    }
    return SR1_OK;
}

/* ---- failures ---- */

/* Answers that no other row would get either. */
static int is_hopeless(int32_t http_code)
{
    return http_code == 401 || http_code == 403 || http_code == 404;
}

static sr1_status give_up(struct sr1__talk *k, const sr1_openai_result *a)
{
    sr1_status st = sr1__fail(a->status, "%s", a->message);

    if (a->status == SR1_E_CANCELLED || is_hopeless(a->http_code))
        return st;
    k->failed = 1;
    sr1__error_save(&k->error, st);
    return SR1_OK;
}

static sr1_status gave_nothing(struct sr1__talk *k)
{
    k->failed = 1;
    sr1__error_save(&k->error, sr1__fail(SR1_E_NETWORK,
                                         "the server gave no token, though "
                                         "%lld were asked for",
                                         (long long)tokens_left(k)));
    return SR1_OK;
}

/* ---- a whole answer ---- */

/* Are these ids of the model that learns from them? */
static sr1_status check_ids(const sr1_model *model, const struct sr1__ids *ids)
{
    for (size_t i = 0; model && i < ids->n; i++)
        if (ids->v[i] >= model->config.vocab_size)
            return sr1__fail(SR1_E_INVALID,
                             "the server gives the token id %d, the model has %lld; they "
                             "do not belong together",
                             (int)ids->v[i], (long long)model->config.vocab_size);
    return SR1_OK;
}

static sr1_status check_exact(const struct sr1__talk *k, const sr1_openai_result *a,
                              const struct sr1__remote_tokens *t, size_t sent)
{
    SR1__TRY(check_ids(k->g->rollout->model, &t->ids));
    if (!k->remote->exact)
        return SR1_OK;
    if (read_other(k, a, sent))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server read another prompt than the %zu ids it was given, "
                         "so its log-probs are of that; training needs one that neither "
                         "cuts prompts nor adds to them",
                         sent);
    if (t->source == SR1__REMOTE_IDS && (t->log_probs || !t->ids.n))
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "the server gives no %s of what it generates; training needs them "
                     "(vLLM or SGLang, openai_dialect vllm)",
                     a->ids ? "log-probs" : "token ids");
}

static sr1_status take(struct sr1__talk *k, const sr1_openai_result *a,
                       const struct sr1__remote_tokens *t, enum sr1__row_want *want)
{
    int32_t turn = k->row.turn;
    size_t sent, taken = 0;

    (void)sr1__trajectory_builder_ids(k->row.builder, &sent);
    SR1__TRY(check_exact(k, a, t, sent));
    if (t->ids.n == 0 && a->finish == SR1_OPENAI_FINISH_LENGTH)
        return gave_nothing(k);
    SR1__TRY(take_tokens(k, t, &taken, want));
    SR1__TRY(
        sr1__tokenizer_decode(k->g->rollout->tokenizer, t->ids.v, taken, 1, &k->said));
    count_answer(k, a, t, sent, taken);
    if (*want != SR1__ROW_TOKEN || k->row.turn != turn)
        return SR1_OK;
    if (a->finish != SR1_OPENAI_FINISH_LENGTH)
        return end_turn(k, a, t, want);
    if (k->remote->chat) /* a message that was cut cannot be gone on with */
        sr1__row_cut(&k->row, want);
    return SR1_OK;
}

static sr1_status take_answer(struct sr1__talk *k, const sr1_openai_result *a,
                              enum sr1__row_want *want)
{
    int32_t turn = k->row.turn;
    struct sr1__remote_tokens t;
    sr1_status st;

    if (a->status != SR1_OK)
        return give_up(k, a);
    SR1__TRY(sr1__remote_tokens_make(&t, k->g->rollout->tokenizer, a, !k->remote->chat));
    st = take(k, a, &t, want);
    sr1__remote_tokens_free(&t);
    if (st == SR1_OK && k->row.turn != turn) /* told by the protocol */
        st = sr1__talk_turn(k, NULL);
    return st;
}

sr1_status sr1__talk_ask(struct sr1__talk *k, enum sr1__row_want *want)
{
    sr1_openai_results *answers = NULL;
    sr1_openai_result a = {.struct_size = sizeof(a)};
    sr1_status st;

    SR1__TRY(ask(k, &answers));
    st = sr1_openai_results_get(answers, 0, &a);
    if (st == SR1_OK)
        st = take_answer(k, &a, want);
    sr1_openai_results_free(answers);
    return st;
}
