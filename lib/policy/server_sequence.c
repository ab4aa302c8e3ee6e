/* policy/server_sequence.c - what a sequence asks of the server, and what of an answer it
 * gives.
 *
 * /completions continues the sequence's ids: prompt, and all that was said and inserted
 * so far. /chat/completions is given the conversation as messages: then the prompt that
 * the server renders need not be those ids, and what differs is counted.
 *
 * Closing tags of the protocol end an answer on the server's side; what ends a turn is
 * still decided token by token, as for a model of our own. A server may have taken the
 * closing tag off (OpenAI's own does): it is put back. */
#include "policy/server_engine.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

#include <string.h>

#define N_STOPS 2

static const struct sr1__protocol *protocol_of(const struct sr1__server_sequence *s)
{
    return sr1__env_protocol(s->engine->task->env);
}

static int has_actions(const struct sr1__server_sequence *s)
{
    return sr1__env_acts(s->engine->task->env);
}

/* ---- the conversation ---- */

static void forget_answer(struct sr1__server_sequence *s)
{
    sr1__server_tokens_free(&s->tokens);
    sr1_openai_results_free(s->results);
    sr1__ids_free(&s->missing);
    s->results = NULL;
}

void sr1__server_sequence_clear(struct sr1__server_sequence *s)
{
    forget_answer(s);
    sr1__ids_free(&s->ids);
    sr1__buf_free(&s->said);
    sr1__messages_free(&s->messages);
    *s = (struct sr1__server_sequence){.engine = s->engine};
}

sr1_status sr1__server_sequence_open(struct sr1__server_sequence *s, const sr1_query *q)
{
    sr1__buf_init(&s->said, 0);
    s->question = sr1__hash64(q->text, q->text_len, 0);
    return s->engine->chat ? sr1__rollout_messages(s->engine->rollout, q, &s->messages)
                           : SR1_OK;
}

/* Who says an observation to the policy, as in the prompts that are rendered here. */
static const char *observation_role(const struct sr1__server_sequence *s,
                                    const struct sr1__observation *o)
{
    int result = !(o->flags & SR1__ANSWER_NOTICE);

    return sr1__role_names[result && s->engine->rollout->ipython.close ? SR1__ROLE_TOOL
                                                                       : SR1__ROLE_USER];
}

static sr1_status append_observation(struct sr1__server_sequence *s,
                                     const struct sr1__observation *o)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__buf_add(&text, sr1__buf_cstr(&o->head), o->head.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->body), o->body.len);
    sr1__buf_add(&text, sr1__buf_cstr(&o->tail), o->tail.len);
    st = sr1__buf_status(&text, "messages");
    if (st == SR1_OK)
        st = sr1__messages_add_copy(&s->messages, observation_role(s, o),
                                    sr1__buf_cstr(&text), text.len, NULL);
    sr1__buf_free(&text);
    return st;
}

sr1_status sr1__server_sequence_next_turn(struct sr1__server_sequence *s,
                                          const struct sr1__observation *o)
{
    sr1_status st = SR1_OK;

    if (s->engine->chat)
        st = sr1__messages_add_copy(&s->messages, "assistant", sr1__buf_cstr(&s->said),
                                    s->said.len, NULL);
    sr1__buf_clear(&s->said);
    return st == SR1_OK && s->engine->chat ? append_observation(s, o) : st;
}

/* ---- asking ---- */

/* Does the closing tag of an action end the turn? */
static int ends_at_action(const struct sr1__server_sequence *s)
{
    return has_actions(s) && sr1__env_max_calls(s->engine->task->env) == 1 &&
           protocol_of(s)->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)][0];
}

/* Tags that may end a turn; those of actions only where something answers them, and a
 * message has one. None where a turn is a whole message. */
static size_t stop_texts(const struct sr1__server_sequence *s, const char *stops[N_STOPS])
{
    const struct sr1__protocol *p = protocol_of(s);
    size_t n = 0;

    if (p->message)
        return 0;
    stops[n++] = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)];
    if (ends_at_action(s))
        stops[n++] = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)];
    return n;
}

static sr1_status request_turn(struct sr1__server_sequence *s)
{
    const struct sr1__sampling *sampling = s->engine->task->sampling;
    const char *stops[N_STOPS];
    sr1_openai_request q = {
        .struct_size = sizeof(q),
        .max_tokens = s->max_tokens,
        .temperature = sampling->temperature,
        .top_p = sampling->top_p,
        .top_k = sampling->top_k,
        .log_probs = 1,
        .stop = stops,
        .n_stop = stop_texts(s, stops),
        .seed = s->seed,
        .no_thinking = !s->engine->rollout->thinking,
    };
    sr1_status st;

    if (s->engine->chat) {
        q.roles = s->messages.roles;
        q.contents = s->messages.texts;
        q.n_messages = s->messages.n;
    } else {
        q.prompt_ids = s->ids.v;
        q.n_prompt_ids = s->ids.n;
    }
    st = sr1__server_pool_run(s->engine->servers, s->question, &q, &s->results,
                              s->engine->counts);
    s->failed = st == SR1_E_NETWORK; /* none is left */
    SR1__TRY(st);
    s->answer = (sr1_openai_result){.struct_size = sizeof(s->answer)};
    return sr1_openai_results_get(s->results, 0, &s->answer);
}

/* ---- checking an answer ---- */

/* Has the server read another prompt than the ids that the sequence had when it asked? */
static int is_prompt_different(const struct sr1__server_sequence *s)
{
    const sr1_openai_result *a = &s->answer;
    int64_t n = a->prompt_ids ? a->n_prompt_ids : a->prompt_tokens;

    return (n >= 0 && n != (int64_t)s->ids.n) ||
           (a->prompt_ids &&
            memcmp(a->prompt_ids, s->ids.v, s->ids.n * sizeof(*s->ids.v)) != 0);
}

/* Answers that no other sequence would get either. */
static int is_hopeless(int32_t http_code)
{
    return http_code == 401 || http_code == 403 || http_code == 404;
}

static sr1_status handle_server_failure(struct sr1__server_sequence *s)
{
    const sr1_openai_result *a = &s->answer;

    s->failed = a->status != SR1_E_CANCELLED && !is_hopeless(a->http_code);
    return sr1__fail(a->status, "%s", a->message);
}

static sr1_status fail_empty_answer(struct sr1__server_sequence *s)
{
    s->failed = 1;
    return sr1__fail(SR1_E_NETWORK,
                     "the server gave no token, though %lld were asked for",
                     (long long)s->max_tokens);
}

/* Are these ids of the model that learns from them? */
static sr1_status check_vocabulary_ids(const sr1_model *model, const struct sr1__ids *ids)
{
    for (size_t i = 0; model && i < ids->n; i++)
        if (ids->v[i] >= model->config.vocab_size)
            return sr1__fail(SR1_E_INVALID,
                             "the server gives the token id %d, the model has %lld; they "
                             "do not belong together",
                             (int)ids->v[i], (long long)model->config.vocab_size);
    return SR1_OK;
}

static sr1_status check_trainable_answer(const struct sr1__server_sequence *s)
{
    const struct sr1__server_tokens *t = &s->tokens;

    SR1__TRY(check_vocabulary_ids(s->engine->rollout->model, &t->ids));
    if (!s->engine->exact)
        return SR1_OK;
    if (s->prompt_differs)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server read another prompt than the %zu ids it was given, "
                         "so its log-probs are of that; training needs one that neither "
                         "cuts prompts nor adds to them",
                         s->ids.n);
    if (t->source == SR1__SERVER_IDS && (t->log_probs || !t->ids.n))
        return SR1_OK;
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "the server gives no %s of what it generates; training needs them "
                     "(vLLM or SGLang, openai_dialect vllm)",
                     s->answer.ids ? "log-probs" : "token ids");
}

/* The answer as tokens. With a failure that is the server's alone, failed is set. */
static sr1_status ask_server(struct sr1__server_sequence *s)
{
    const sr1_openai_result *a = &s->answer;

    SR1__TRY(request_turn(s));
    if (a->status != SR1_OK)
        return handle_server_failure(s);
    SR1__TRY(sr1__server_tokens_make(&s->tokens, s->engine->rollout->tokenizer, a,
                                     !s->engine->chat));
    s->prompt_differs = is_prompt_different(s);
    SR1__TRY(check_trainable_answer(s));
    return s->tokens.ids.n == 0 && a->finish == SR1_OPENAI_FINISH_LENGTH
               ? fail_empty_answer(s)
               : SR1_OK;
}

void sr1__server_sequence_ask(struct sr1__server_sequence *s)
{
    sr1_status st;

    forget_answer(s);
    s->failed = 0;
    s->version = atomic_load(&s->engine->rollout->server_version);
    st = ask_server(s);
    if (st != SR1_OK)
        sr1__error_save(&s->error, st);
    else
        s->error.code = SR1_OK;
}

void sr1__server_sequence_output(const struct sr1__server_sequence *s,
                                 struct sr1__engine_output *o)
{
    o->ids = s->tokens.ids.v;
    o->log_probs = s->tokens.log_probs;
    o->entropies = NULL;
    o->n = s->tokens.ids.n;
    o->versioned = s->version >= 0;
    o->version = s->version;
    o->finish = s->failed ? SR1__ENGINE_FAILED : SR1__ENGINE_GOES_ON;
    o->error = &s->error;
}

/* ---- what is left out of an answer ---- */

static void count_answer(struct sr1__server_sequence *s, size_t taken)
{
    const struct sr1__engine_task *task = s->engine->task;
    struct sr1__remote_stats *stats = &task->stats->remote;
    const sr1_openai_result *a = &s->answer;

    pthread_mutex_lock(task->lock);
    stats->answers++;
    stats->sources[s->tokens.source]++;
    stats->drifted += s->tokens.drifted;
    stats->prompts_differ += s->prompt_differs;
    stats->dropped_tokens += (int64_t)(s->tokens.ids.n - taken);
    stats->server_tokens += a->completion_tokens > 0 ? a->completion_tokens : 0;
    pthread_mutex_unlock(task->lock);
}

/* The closing tag of what the policy has opened last and not closed; NULL: nothing. */
static const char *find_unclosed_tag(const struct sr1__server_sequence *s)
{
    static const int roles[] = {SR1__ROLE_ANSWER, SR1__ROLE_ACTION};
    size_t n_roles = has_actions(s) && !ends_at_action(s) ? 1 : 2;
    const struct sr1__protocol *p = protocol_of(s);
    const char *text = sr1__buf_cstr(&s->said), *open = NULL;
    struct sr1__tag tag;

    for (size_t at = 0; sr1__protocol_next_tag(p, text, s->said.len, at, &tag);
         at = tag.end)
        for (size_t i = 0; i < n_roles; i++) {
            if (tag.tag == SR1__TAG_OPEN(roles[i]))
                open = p->tags[SR1__TAG_CLOSE(roles[i])];
            else if (tag.tag == SR1__TAG_CLOSE(roles[i]) && open == p->tags[tag.tag])
                open = NULL;
        }
    return open;
}

static int32_t end_id(const sr1_tokenizer *t)
{
    int32_t id = sr1__chat_end_id(t);

    return id >= 0 ? id : sr1_tokenizer_special_id(t, SR1_TOKEN_EOS);
}

/* Tokens the server has sampled and not given: no log-prob is known. */
static sr1_status find_missing_tokens(struct sr1__server_sequence *s, const char *text)
{
    const sr1_tokenizer *t = s->engine->rollout->tokenizer;
    int32_t end = end_id(t);

    if (!text)
        return end >= 0 ? sr1__ids_add(&s->missing, end) : SR1_OK;
    sr1__buf_str(&s->said, text);
    return sr1__tokenizer_encode(
        t, text, strlen(text), SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED, &s->missing);
}

/* What is learned from has log-probs: nothing is put back. Without an end a trajectory
 * can be over, but not its message where another follows. */
static sr1_status reject_missing_tokens(const struct sr1__server_sequence *s,
                                        const char *tag)
{
    const struct sr1__protocol *p = protocol_of(s);

    if (tag)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server cuts %s off its answer, so its log-prob is not "
                         "known; training needs a server that keeps it (vLLM's "
                         "include_stop_str_in_output)",
                         tag);
    if (s->answer.finish == SR1_OPENAI_FINISH_STOP && (p->notice || p->message) &&
        has_actions(s))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server does not give the token that ended its message, so "
                         "its log-prob is not known; training by the protocol %s needs "
                         "a server that does (vLLM)",
                         p->name);
    return SR1_OK;
}

/* The answer is over and the sequence wants more: what ended it is missing, or a closing
 * tag closed nothing and the policy goes on. */
static sr1_status close_answer(struct sr1__server_sequence *s,
                               struct sr1__engine_output *o)
{
    const char *tag = s->answer.stop_text;

    if (!tag && s->tokens.source != SR1__SERVER_IDS && !protocol_of(s)->message)
        tag = find_unclosed_tag(s);
    if (tag && s->tokens.ids.n > 0 &&
        sr1__str_ends_with((struct sr1__str){sr1__buf_cstr(&s->said), s->said.len}, tag))
        return SR1_OK;
    SR1__TRY(s->engine->exact ? reject_missing_tokens(s, tag)
                              : find_missing_tokens(s, tag));
    o->ids = s->missing.v;
    o->n = s->missing.n;
    o->finish = tag ? SR1__ENGINE_GOES_ON : SR1__ENGINE_ENDED;
    return SR1_OK;
}

sr1_status sr1__server_sequence_accept(struct sr1__server_sequence *s, size_t n, int open,
                                       struct sr1__engine_output *o)
{
    SR1__TRY(sr1__tokenizer_spell(s->engine->rollout->speech, s->tokens.ids.v, n, 1,
                                  &s->said));
    count_answer(s, n);
    if (!open)
        return SR1_OK;
    *o = (struct sr1__engine_output){
        .slot = o->slot, .versioned = o->versioned, .version = o->version};
    if (s->answer.finish != SR1_OPENAI_FINISH_LENGTH)
        return close_answer(s, o);
    if (s->engine->chat) /* a message that was cut cannot be gone on with */
        o->finish = SR1__ENGINE_TRUNCATED;
    return SR1_OK;
}
