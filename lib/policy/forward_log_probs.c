/* policy/forward_log_probs.c - log-probs of given trajectories under given weights, and a
 * critic's values. */
#include "policy/rollout_internal.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/model/host_score.h"
#include "tensor/model/route_log.h"

#include <inttypes.h>
#include <math.h>

/* The keys of a micro-batch's tokens. NULL without memory; freed with sr1__free. */
static uint64_t *make_dropout_keys(const struct sr1__microbatch *mb,
                                   const struct sr1__token_dropout *dropout)
{
    uint64_t *keys = sr1__calloc(mb->n_tokens + 1, sizeof(*keys));

    for (size_t t = 0; keys && t < mb->n_tokens; t++) {
        uint64_t place[2] = {mb->owners[t], (uint64_t)mb->positions[t]};

        keys[t] = sr1__hash64(place, sizeof(place), dropout->key);
    }
    return keys;
}

/* The places of a micro-batch's tokens in the log, freed with sr1__free; NULL without
 * one. */
static sr1_status find_places(int64_t **out, const struct sr1__microbatch *mb,
                              struct sr1__route_log *log)
{
    int64_t *places;
    sr1_status st = SR1_OK;

    *out = NULL;
    if (!log)
        return SR1_OK;
    SR1__CALLOC(places, mb->n_tokens + 1, "router replay");
    for (size_t t = 0; st == SR1_OK && t < mb->n_tokens; t++) {
        uint64_t token[2] = {mb->owners[t], (uint64_t)mb->positions[t]};

        st = sr1__route_log_place(log, sr1__hash64(token, sizeof(token), 0), &places[t]);
    }
    *out = places;
    return st;
}

/* Does a span go on where another ends? Their number does not tell: an answer of one
 * token has no span behind its prompt. */
static int continues_any(const struct sr1__microbatch *mb)
{
    for (size_t i = 0; i < mb->n_spans; i++)
        if (mb->continues[i] >= 0)
            return 1;
    return 0;
}

/* cu_seqlens are freed with sr1__free. */
static sr1_status pack_microbatch(struct sr1__packed *out,
                                  const struct sr1__microbatch *mb, int64_t **cu_seqlens)
{
    int64_t *cu;

    SR1__CALLOC(cu, mb->n_spans + 1, "sequence bounds");
    for (size_t i = 0; i <= mb->n_spans; i++)
        cu[i] = mb->cu_seqlens[i];
    *out = (struct sr1__packed){.ids = mb->ids,
                                .cu_seqlens = cu,
                                .n_seqs = mb->n_spans,
                                .continues = continues_any(mb) ? mb->continues : NULL};
    *cu_seqlens = cu;
    return SR1_OK;
}

/* Of the tokens that predict a target. head: what log-probs multiply by; NULL: not asked
 * for. */
static sr1_tensor *run_packed_forward(sr1_scope *s, sr1_model *m,
                                      const struct sr1__microbatch *mb,
                                      const struct sr1__log_prob_options *how,
                                      sr1_tensor **head)
{
    const struct sr1__token_dropout *dropout = how->dropout;
    int64_t *cu = NULL;
    uint64_t *keys = dropout ? make_dropout_keys(mb, dropout) : NULL;
    struct sr1__lora_dropout drops = {dropout ? dropout->p : 0.0, keys};
    struct sr1__routes routes = {.log = how->routes, .recording = how->recording};
    struct sr1__packed in;
    struct sr1__forward_options o = {.checkpoint = how->checkpoint,
                                     .dropout = &drops,
                                     .router = how->router,
                                     .routes = how->routes ? &routes : NULL,
                                     .head = head,
                                     .rows = mb->target_rows,
                                     .n_rows = mb->n_targets};
    sr1_tensor *hidden = NULL;
    int64_t *places;
    sr1_status st = find_places(&places, mb, how->routes);

    routes.places = places;
    if (st == SR1_OK)
        st =
            dropout && !keys ? sr1__fail_nomem("dropout") : pack_microbatch(&in, mb, &cu);
    sr1__scope_check(s, st);
    if (st == SR1_OK)
        hidden = sr1__causal_lm_forward(s, m, &in, &o);
    sr1__free(cu);
    sr1__free(keys);
    sr1__free(places);
    return hidden;
}

/* The forward pass validates its input ids; the last token of a sequence is only a
 * target, so targets are validated here (an index out of range would crash a device). */
static sr1_status check_targets(const sr1_model *m, const struct sr1__microbatch *mb)
{
    for (size_t i = 0; i < mb->n_targets; i++)
        if (mb->target_ids[i] < 0 || mb->target_ids[i] >= m->config.vocab_size)
            return sr1__fail(SR1_E_INVALID, "trajectory %zu: id %d is not in [0, %lld)",
                             mb->sequence[mb->target_seqs[i]], (int)mb->target_ids[i],
                             (long long)m->config.vocab_size);
    return SR1_OK;
}

sr1_tensor *sr1__forward_log_probs(sr1_scope *s, sr1_model *m,
                                   const struct sr1__microbatch *mb,
                                   const struct sr1__log_prob_options *o)
{
    sr1_tensor *head = NULL;
    sr1_tensor *hidden = run_packed_forward(s, m, mb, o, &head);
    sr1_tensor *targets = t_from_i32(s, mb->target_ids, mb->n_targets);

    sr1__scope_check(s, check_targets(m, mb));
    return sr1__nn_token_log_probs(s, hidden, head, targets, o->temperature,
                                   o->logit_chunk, o->entropy);
}

sr1_tensor *sr1__forward_values(sr1_scope *s, sr1_model *critic,
                                const struct sr1__microbatch *mb, int checkpoint,
                                const struct sr1__token_dropout *dropout)
{
    struct sr1__log_prob_options o = {.checkpoint = checkpoint, .dropout = dropout};
    sr1_tensor *hidden = run_packed_forward(s, critic, mb, &o, NULL);

    return t_to(s, sr1__causal_lm_values(s, critic, hidden), SR1__F32);
}

sr1_status sr1__record_routes(sr1_model *m, const struct sr1__microbatch *mb,
                              size_t number, struct sr1__route_log *log)
{
    sr1_scope *s = sr1__scope_open(m->device, "router replay");
    struct sr1__log_prob_options o = {.routes = log, .recording = (uint32_t)number + 1};

    sr1__scope_no_grad(s);
    (void)run_packed_forward(s, m, mb, &o, NULL);
    return sr1__scope_close(s);
}

/* ---- log-probs without gradients ---- */

/* Where top-p or top-k cut the distribution, its mass has to be found row by row. */
static void truncated_log_probs(sr1_scope *s, sr1_model *m,
                                const struct sr1__microbatch *mb,
                                const struct sr1__sampling *how, float *out)
{
    size_t vocab = (size_t)m->config.vocab_size;
    float *row = sr1__malloc(vocab * sizeof(*row));
    struct sr1__log_prob_options o = {.checkpoint = 0};
    sr1_tensor *hidden = run_packed_forward(s, m, mb, &o, NULL);

    if (!row)
        sr1__scope_fail(s, SR1_E_NOMEM, "out of memory for a row of logits");
    for (size_t i = 0; row && i < mb->n_targets; i++) {
        sr1_scope *one = sr1__scope_nest(s, "token %zu", i);
        sr1_tensor *h = t_narrow(one, hidden, 0, (int64_t)i, 1);

        t_to_host_f32(one, sr1__causal_lm_logits(one, m, h), row, vocab);
        if (sr1__scope_status(one) == SR1_OK)
            sr1__scope_check(
                one, sr1__sample_log_prob(row, vocab, how, mb->target_ids[i], &out[i]));
        (void)sr1__scope_close(one);
    }
    sr1__free(row);
}

static sr1_status score_by_tensors(sr1_model *m, const struct sr1__microbatch *mb,
                                   const struct sr1__sampling *how, int64_t logit_chunk,
                                   float *out)
{
    sr1_scope *s = sr1__scope_open(m->device, "log-probs");
    struct sr1__log_prob_options o = {.temperature =
                                          how->temperature > 0 ? how->temperature : 1.0,
                                      .logit_chunk = logit_chunk};

    sr1__scope_no_grad(s);
    if (how->temperature > 0 && (how->top_k > 0 || how->top_p < 1.0))
        truncated_log_probs(s, m, mb, how, out);
    else
        t_to_host_f32(s, sr1__forward_log_probs(s, m, mb, &o), out, mb->n_targets);
    return sr1__scope_close(s);
}

static sr1_status score_on_host(sr1_model *m, const struct sr1__microbatch *mb,
                                const struct sr1__sampling *how, int64_t logit_chunk,
                                float *out)
{
    const struct sr1__score_targets targets = {mb->target_rows, mb->target_ids,
                                               mb->n_targets};
    struct sr1__packed in;
    int64_t *cu;
    sr1_status st;

    SR1__TRY(pack_microbatch(&in, mb, &cu));
    st = sr1__host_score(m, &in, &targets, how, logit_chunk, out);
    sr1__free(cu);
    return st;
}

sr1_status sr1__score_log_probs(sr1_model *m, const struct sr1__microbatch *mb,
                                const struct sr1__sampling *how, int64_t logit_chunk,
                                float *out)
{
    SR1__TRY(check_targets(m, mb));
    return (sr1__host_scores(m) ? score_on_host : score_by_tensors)(m, mb, how,
                                                                    logit_chunk, out);
}

sr1_status sr1__score_entropies(sr1_model *m, const struct sr1__microbatch *mb,
                                double temperature, int64_t logit_chunk, float *out)
{
    sr1_scope *s = sr1__scope_open(m->device, "entropies");
    sr1_tensor *entropy = NULL;
    struct sr1__log_prob_options o = {
        .temperature = temperature, .logit_chunk = logit_chunk, .entropy = &entropy};

    sr1__scope_no_grad(s);
    (void)sr1__forward_log_probs(s, m, mb, &o);
    t_to_host_f32(s, entropy, out, mb->n_targets);
    return sr1__scope_close(s);
}

/* With log-probs a at temperature T and b at T / 2 the sum of squared probabilities is
 * exp(2 a - b), of any token: of lse(2 z) - 2 lse(z) its logit is taken off and added. */
sr1_status sr1__score_norms(sr1_model *m, const struct sr1__microbatch *mb,
                            double temperature, int64_t logit_chunk, float *out)
{
    sr1_scope *s = sr1__scope_open(m->device, "score norms");
    struct sr1__log_prob_options o = {.temperature = temperature};
    size_t n = mb->n_targets;
    float *sharp = sr1__calloc(n + 1, sizeof(*sharp));
    sr1_tensor *head = NULL, *hidden, *targets;

    sr1__scope_no_grad(s);
    sr1__scope_check(s, sharp ? check_targets(m, mb) : sr1__fail_nomem("score norms"));
    hidden = run_packed_forward(s, m, mb, &o, &head);
    targets = t_from_i32(s, mb->target_ids, n);
    t_to_host_f32(
        s,
        sr1__nn_token_log_probs(s, hidden, head, targets, temperature, logit_chunk, NULL),
        out, n);
    t_to_host_f32(s,
                  sr1__nn_token_log_probs(s, hidden, head, targets, temperature / 2.0,
                                          logit_chunk, NULL),
                  sharp, n);
    for (size_t i = 0; i < n && sr1__scope_status(s) == SR1_OK; i++) {
        double a = out[i], squares = exp(2.0 * a - sharp[i]);
        double norm = 1.0 - 2.0 * exp(a) + squares;

        out[i] = (float)(norm < 0.0 ? 0.0 : norm); /* NaN stays NaN */
    }
    sr1__free(sharp);
    return sr1__scope_close(s);
}

/* ---- public recomputation, by each trajectory's own sampling distribution ---- */

static struct sr1__sampling sampling_of(const sr1_trajectory *t)
{
    struct sr1__sampling s = {.temperature = sr1_trajectory_temperature(t),
                              .top_p = sr1_trajectory_top_p(t),
                              .top_k = sr1_trajectory_top_k(t)};

    return s;
}

static int same_sampling(struct sr1__sampling a, struct sr1__sampling b)
{
    return a.temperature == b.temperature && a.top_p == b.top_p && a.top_k == b.top_k;
}

/* Recompute the log-probs of t[n], which share their sampling parameters, into out,
 * trajectory by trajectory. */
static sr1_status recompute_log_probs(sr1_rollout *r, const sr1_trajectory *const *t,
                                      size_t n, float *out)
{
    struct sr1__sampling how = sampling_of(t[0]);
    struct sr1__batch_plan plan = {0};
    struct sr1__batch_part all = {
        .end = n, .share_prompts = r->share_prompts && r->model->device == SR1__CPU};
    float *part = NULL;
    size_t *begin = sr1__calloc(n + 1, sizeof(*begin));
    sr1_status st;

    SR1__CHECK_ALLOC(begin, "log-prob offsets");
    for (size_t i = 0; i < n; i++)
        begin[i + 1] = begin[i] + sr1_trajectory_policy_count(t[i]);
    st = sr1__batch_plan_sampled(&plan, t, all, r->score_tokens);
    if (st == SR1_OK && !(part = sr1__calloc(begin[n] + 1, sizeof(*part))))
        st = sr1__fail_nomem("log-probs");
    for (size_t k = 0; k < plan.n_batches && st == SR1_OK; k++) {
        struct sr1__microbatch mb;
        size_t seq = 0;

        st = sr1__microbatch_array(&mb, &plan, k, t, 0);
        if (st != SR1_OK)
            break;
        st = sr1__score_log_probs(r->model, &mb, &how, r->logit_chunk, part);
        for (size_t i = 0, at = 0; st == SR1_OK && i < mb.n_targets; i++) {
            at = i && mb.target_seqs[i] == mb.target_seqs[i - 1] ? at + 1 : 0;
            seq = mb.sequence[mb.target_seqs[i]];
            out[begin[seq] + at] = part[i];
        }
        sr1__microbatch_free(&mb);
    }
    sr1__batch_plan_free(&plan);
    sr1__free(part);
    sr1__free(begin);
    return st;
}

/* Those that were sampled alike go together. */
static sr1_status recompute_all(sr1_rollout *r, const sr1_trajectory *const *t, size_t n,
                                float *out)
{
    size_t done = 0;

    for (size_t i = 0, end; i < n; i = end) {
        size_t tokens = 0;

        for (end = i; end < n && same_sampling(sampling_of(t[i]), sampling_of(t[end]));
             end++)
            tokens += sr1_trajectory_policy_count(t[end]);
        if (tokens)
            SR1__TRY(recompute_log_probs(r, t + i, end - i, out + done));
        done += tokens;
    }
    return SR1_OK;
}

sr1_status sr1_rollout_log_probs(sr1_rollout *r, const sr1_trajectory *const *t, size_t n,
                                 float *out, size_t out_len)
{
    size_t total = 0;
    int32_t threads;
    sr1_status st;

    if (!r || (n && (!t || !out)))
        return sr1__fail(SR1_E_INVALID, "rollout, trajectories and out are required");
    if (!r->model)
        return sr1__fail(SR1_E_STATE, "log-probs: the rollout has no model of its own");
    for (size_t i = 0; i < n; i++) {
        if (!t[i])
            return sr1__fail(SR1_E_INVALID, "trajectory %zu of %zu is NULL", i, n);
        total += sr1_trajectory_policy_count(t[i]);
    }
    if (total != out_len)
        return sr1__fail(SR1_E_INVALID,
                         "out holds %zu log-probs, the trajectories have %zu", out_len,
                         total);
    threads = sr1__torch_threads_swap(r->threads);
    st = recompute_all(r, t, n, out);
    (void)sr1__torch_threads_swap(threads);
    return st;
}
