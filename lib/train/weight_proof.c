/* train/weight_proof.c - see weight_proof.h.
 *
 * The server samples a short completion of a fixed prompt at temperature 1, where raw and
 * processed log-probs are the same, and says the log-prob of each of its tokens. The
 * policy computes those of the same tokens:
 *
 *     diff = mean over tokens of |log p_server - log p_policy| */
#include "train/weight_proof.h"

#include "base/mem.h"
#include "policy/rollout_internal.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/ext/model_details.h>
#include <searchr1/ext/openai.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PROOF_PROMPT "The capital of France is"
#define PROOF_TOKENS 16

static sr1_status encode_proof_prompt(const sr1_trainer *tr, struct sr1__ids *ids)
{
    return sr1__tokenizer_encode(sr1_rollout_tokenizer(tr->rollout), PROOF_PROMPT,
                                 strlen(PROOF_PROMPT), 0, ids);
}

/* log p of ids[at] behind those before it, from the logits [vocab] there. */
static double compute_log_prob(const float *logits, int64_t vocab, int32_t id)
{
    double most = -INFINITY, sum = 0;

    for (int64_t v = 0; v < vocab; v++)
        most = fmax(most, (double)logits[v]);
    for (int64_t v = 0; v < vocab; v++)
        sum += exp((double)logits[v] - most);
    return (double)logits[id] - most - log(sum);
}

/* Of the tokens behind the first n_prompt. */
static sr1_status measure_difference(sr1_trainer *tr, const struct sr1__ids *all,
                                     size_t n_prompt, const float *said, double *diff)
{
    int64_t vocab = tr->model->config.vocab_size;
    float *logits = sr1__calloc(all->n * (size_t)vocab, sizeof(*logits));
    sr1_status st;

    SR1__CHECK_ALLOC(logits, "logits");
    st = sr1_model_logits(tr->model, all->v, all->n, logits);
    *diff = 0;
    for (size_t i = n_prompt; st == SR1_OK && i < all->n; i++)
        *diff +=
            fabs(compute_log_prob(logits + (i - 1) * (size_t)vocab, vocab, all->v[i]) -
                 (double)said[i - n_prompt]) /
            (double)(all->n - n_prompt);
    sr1__free(logits);
    return st;
}

static sr1_status check_proof_answer(const sr1_trainer *tr, const sr1_openai_result *r)
{
    if (r->status != SR1_OK)
        return sr1__fail(r->status, "%s", r->message);
    if (!r->ids || !r->log_probs || r->n_tokens == 0)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the server gives no token ids or log-probs, by which its "
                         "weights are proved; set weight_sync_max_log_prob_diff to 0");
    for (size_t i = 0; i < r->n_tokens; i++)
        if (r->ids[i] < 0 || r->ids[i] >= tr->model->config.vocab_size)
            return sr1__fail(SR1_E_INVALID, "the server gives the token id %d",
                             (int)r->ids[i]);
    return SR1_OK;
}

static sr1_status compare_answer(sr1_trainer *tr, struct sr1__ids *prompt,
                                 const sr1_openai_results *results, double *diff)
{
    sr1_openai_result r = {.struct_size = sizeof(r)};
    size_t n_prompt = prompt->n;
    sr1_status st = sr1_openai_results_get(results, 0, &r);

    if (st == SR1_OK)
        st = check_proof_answer(tr, &r);
    if (st == SR1_OK)
        st = sr1__ids_append(prompt, r.ids, r.n_tokens);
    if (st == SR1_OK)
        st = measure_difference(tr, prompt, n_prompt, r.log_probs, diff);
    prompt->n = n_prompt;
    return st;
}

static sr1_status ask_server_for_proof(sr1_trainer *tr, sr1_openai *client,
                                       struct sr1__ids *prompt, double *diff)
{
    sr1_openai_request q = {.struct_size = sizeof(q),
                            .prompt_ids = prompt->v,
                            .n_prompt_ids = prompt->n,
                            .max_tokens = PROOF_TOKENS,
                            .temperature = 1.0,
                            .top_p = 1.0,
                            .log_probs = 1,
                            .seed = 1};
    sr1_openai_results *results = NULL;
    sr1_status st = sr1_openai_run(client, &q, 1, &results);

    if (st == SR1_OK)
        st = compare_answer(tr, prompt, results, diff);
    sr1_openai_results_free(results);
    return st;
}

static int is_server_outage(sr1_status st)
{
    return st == SR1_E_NETWORK || st == SR1_E_TIMEOUT || st == SR1_E_PARSE;
}

static sr1_status prove_server(sr1_trainer *tr, size_t i, struct sr1__ids *prompt)
{
    struct sr1__server_pool *pool = sr1__rollout_servers(tr->rollout);
    double bound = sr1__config_real(tr->config, "weight_sync_max_log_prob_diff");
    double diff = 0;
    sr1_status st =
        ask_server_for_proof(tr, sr1__server_pool_client(pool, i), prompt, &diff);

    if (is_server_outage(st) && sr1__server_pool_live(pool) > 1) {
        sr1__server_pool_exclude(pool, i, sr1_last_error());
        return SR1_OK;
    }
    SR1__TRY(sr1__context(st, "%.200s", sr1__server_pool_origin(pool, i)));
    sr1__metrics_add(&tr->step_metrics, "weight_sync/log_prob_diff", diff, SR1__MAX);
    if (diff <= bound)
        return SR1_OK;
    sr1__server_pool_exclude(pool, i, "its log-probs are not those of the weights");
    return sr1__fail(SR1_E_STATE,
                     "%.200s took the policy's weights, but its log-probs differ by %.3g "
                     "nats a token from the policy's (weight_sync_max_log_prob_diff "
                     "%g): it serves other weights, another model or precision, or "
                     "changes logits; see the server's log, or raise the bound",
                     sr1__server_pool_origin(pool, i), diff, bound);
}

sr1_status sr1__weight_proof(sr1_trainer *tr, const uint8_t *taken)
{
    size_t n = sr1__server_pool_size(sr1__rollout_servers(tr->rollout));
    struct sr1__ids prompt = {0};
    sr1_status st;

    if (sr1__config_real(tr->config, "weight_sync_max_log_prob_diff") == 0.0)
        return SR1_OK;
    st = encode_proof_prompt(tr, &prompt);
    for (size_t i = 0; st == SR1_OK && i < n; i++)
        if (taken[i])
            st = prove_server(tr, i, &prompt);
    sr1__ids_free(&prompt);
    return st;
}
