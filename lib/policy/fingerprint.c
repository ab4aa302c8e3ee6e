/* policy/fingerprint.c - what tells one policy and one set of questions from another, so
 * that work which was stopped is gone on with by the same ones only. */
#include "policy/fingerprint.h"

#include "policy/launched_job.h"
#include "policy/rollout_internal.h"

#include <searchr1/ext/episodes.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/ops/ops.h"
#include "text/data/dataset.h"

#include <inttypes.h>
#include <stdio.h>

/* The questions by their number, what is in them, and what of it is read. */
static sr1_status describe_questions(json_t **out, const sr1_dataset *data)
{
    char text[17];
    uint64_t h = 0;

    SR1__TRY(sr1__dataset_hash(data, &h));
    snprintf(text, sizeof(text), "%016" PRIx64, sr1__dataset_fields(data, h));
    *out = json_pack("[I, s]", (json_int_t)sr1_dataset_count(data), text);
    return *out ? SR1_OK : sr1__fail_nomem("fingerprint");
}

#define SPAN 1024 /* weights looked at in one place */
#define SPANS 64  /* places in a leaf, evenly apart; a small one is looked at whole */

static void hash_leaf(sr1_scope *s, sr1_tensor *leaf, uint64_t *h)
{
    float v[SPAN];
    int64_t all = t_numel(leaf);
    int64_t step = all / SPANS > SPAN ? all / SPANS : SPAN;
    sr1_tensor *flat = t_reshape(s, leaf, 1, &all);

    for (int64_t at = 0; at < all && sr1__scope_status(s) == SR1_OK; at += step) {
        size_t n = all - at < SPAN ? (size_t)(all - at) : SPAN;

        t_to_host_f32(s, t_narrow(s, flat, 0, at, (int64_t)n), v, n);
        *h = sr1__hash64(v, n * sizeof(*v), *h);
    }
}

/* Another model differs there, and the same one after training. */
sr1_status sr1__weights_fingerprint(const sr1_model *m, uint64_t *h)
{
    sr1_scope *s = sr1__scope_open(m->device, "fingerprint of the weights");

    *h = 1;
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->n_leaves; i++)
        hash_leaf(s, m->leaves[i].tensor, h);
    for (size_t i = 0; m->adapter && i < m->n_params; i++)
        hash_leaf(s, m->params[i].tensor, h);
    return sr1__scope_close(s);
}

/* The first question that is asked as the policy reads it: with templates, tools and
 * tokenizer; "" where none is. */
static sr1_status describe_prompt(const sr1_rollout *r, const sr1_dataset *data,
                                  char out[17])
{
    int64_t rows = data ? sr1_dataset_count(data) : 0;
    int32_t *ids = NULL;
    size_t n = 0;

    for (int64_t i = 0; i < rows && !ids; i++)
        SR1__TRY(sr1__rollout_row_prompt(r, data, i, &ids, &n));
    if (ids)
        snprintf(out, 17, "%016" PRIx64, sr1__hash64(ids, n * sizeof(*ids), 1));
    sr1_free(ids);
    return SR1_OK;
}

/* Which questions are asked, and how far an answer may go. */
static json_t *limits_json(const struct sr1__rollout_limits *l)
{
    return json_pack(
        "{s:I, s:b, s:I, s:I, s:I, s:I, s:i, s:i, s:b, s:b}", "max_prompt_tokens",
        (json_int_t)l->max_prompt, "filter_overlong_prompts", l->filter, "max_context",
        (json_int_t)l->max_context, "max_tokens", (json_int_t)l->max_tokens,
        "max_tokens_per_turn", (json_int_t)l->max_turn_tokens, "max_observation_tokens",
        (json_int_t)l->max_observation, "max_turns", (int)l->max_turns, "max_env_steps",
        (int)l->max_calls, "count_unexecuted", l->count_unexecuted,
        "search_failure_continues", l->go_on);
}

sr1_status sr1__policy_fingerprint(json_t **out, sr1_rollout *r, const sr1_dataset *data)
{
    int served = r->server.ops && !r->local;
    char weights[17] = "", prompt[17] = "", search[17];
    uint64_t h = 0;

    if (!served) {
        SR1__TRY(sr1__weights_fingerprint(r->model, &h));
        snprintf(weights, sizeof(weights), "%016" PRIx64, h);
    }
    SR1__TRY(describe_prompt(r, data, prompt));
    snprintf(search, sizeof(search), "%016" PRIx64, r->answer_keys);
    *out = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:i, s:o}", "server",
                     served ? r->server.model : "", "weights", weights, "prompt", prompt,
                     "search", r->search ? sr1_search_name(r->search) : "", "search_keys",
                     search, "protocol", sr1__env_protocol(r->env)->name, "environment",
                     sr1_env_name(r->env), "temperature", r->sampling.temperature,
                     "top_p", r->sampling.top_p, "top_k", (int)r->sampling.top_k,
                     "limits", limits_json(&r->limits));
    return *out ? SR1_OK : sr1__fail_nomem("fingerprint");
}

static sr1_status describe_work(json_t **out, sr1_rollout *r, const sr1_dataset *data,
                                json_t *more)
{
    json_t *questions = NULL, *policy = NULL;
    sr1_status st = describe_questions(&questions, data);

    if (st == SR1_OK)
        st = sr1__policy_fingerprint(&policy, r, data);
    if (st != SR1_OK) {
        json_decref(questions);
        return st;
    }
    *out = json_pack("{s:o, s:o}", "questions", questions, "policy", policy);
    return *out && json_object_update(*out, more) == 0 ? SR1_OK
                                                       : sr1__fail_nomem("fingerprint");
}

sr1_status sr1__work_fingerprint(json_t **out, sr1_rollout *r, const sr1_dataset *data,
                                 json_t *more)
{
    json_t *work = NULL;
    sr1_status st =
        more ? describe_work(&work, r, data, more) : sr1__fail_nomem("fingerprint");

    json_decref(more);
    SR1__RETURN_NEW(out, work, st, json_decref);
}

sr1_status sr1__fingerprint_same(struct sr1__dist *d, const char *what, sr1_status st,
                                 const json_t *own)
{
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    if (st == SR1_OK)
        st = sr1__json_dump(own, 0, &text);
    st = sr1__job_compare(d, what, st, sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    return st;
}

sr1_status sr1__work_same(struct sr1__dist *d, sr1_status st, const json_t *work,
                          size_t at_once)
{
    SR1__TRY(
        sr1__fingerprint_same(d, "the questions, an option or the policy", st, work));
    return sr1__dist_same(d, "how many rows go at once (give key max_rows a number)",
                          (uint64_t)at_once);
}
