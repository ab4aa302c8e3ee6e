/* train/choose_tokens.c - choose the tokens of a mini-batch that the policy's loss treats
 * apart, by what is known of all its trajectories before the update, so that the choice
 * does not depend on the cut into micro-batches: those of a low entropy, which have no
 * loss (top_entropy_quantile), and those that the loss itself chooses (clip_cov, kl_cov).
 * In the first optimizer step on what these weights sampled, new - old is 0 but for
 * rounding, whose sign no slope may follow: kl_cov holds no token then, and the KL to the
 * old policy is that to itself. */
#include "train/objective.h"

#include "base/mem.h"
#include "base/rng.h"
#include "environment/trajectory/trajectory.h"
#include "signal/loss/loss.h"

#include <string.h>

/* Trajectories [begin, end) of a store, one after the other. */
struct token_survey {
    sr1_trainer *tr;
    struct sr1__trajectory_store *from;
    size_t begin, end;
    size_t n;                                  /* policy tokens */
    float *entropies, *advantages, *log_probs; /* [n] */
};

static void count_policy_tokens(struct token_survey *s)
{
    size_t packed, policy;

    for (size_t i = s->begin; i < s->end; i++) {
        sr1__trajectory_store_lengths(s->from, i, &packed, &policy);
        s->n += policy;
    }
}

/* As a micro-batch has them: none of a trajectory that is not trained on. */
static size_t read_tokens(struct token_survey *s, const sr1_trajectory *t, size_t at)
{
    size_t n = sr1__trajectory_trainable(t);
    const float *entropies = sr1_trajectory_column(t, SR1_COLUMN_ENTROPY);
    const float *advantages = sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE);
    const float *old = s->tr->set.policy_columns & 1u << SR1_COLUMN_OLD
                           ? sr1_trajectory_column(t, SR1_COLUMN_OLD)
                           : sr1_trajectory_policy_log_probs(t);

    for (size_t k = 0; k < n; k++) {
        s->entropies[at + k] = entropies ? entropies[k] : 0.0f;
        s->advantages[at + k] =
            advantages ? advantages[k] : (float)sr1_trajectory_advantage(t);
        s->log_probs[at + k] = old ? old[k] : 0.0f;
    }
    return n;
}

static sr1_status read_survey(struct token_survey *s)
{
    size_t at = 0;

    s->entropies = sr1__calloc(s->n + 1, 3 * sizeof(float));
    if (!s->entropies)
        return sr1__fail_nomem("tokens of a mini-batch");
    s->advantages = s->entropies + s->n;
    s->log_probs = s->advantages + s->n;
    for (size_t i = s->begin; i < s->end; i++) {
        sr1_trajectory *t = NULL;

        SR1__TRY(sr1__trajectory_store_get(s->from, i, &t));
        at += read_tokens(s, t, at);
        sr1_trajectory_free(t);
    }
    return SR1_OK;
}

/* ---- by entropy ---- */

static sr1_status choose_by_entropy(const struct token_survey *s)
{
    struct sr1__token_choice *choice = &s->tr->choice;

    if (s->tr->set.top_entropy_quantile >= 1.0)
        return SR1_OK;
    SR1__TRY(sr1_loss_entropy_threshold(
        s->entropies, s->n, s->tr->set.top_entropy_quantile, &choice->threshold));
    for (size_t i = 0; i < s->n; i++)
        choice->kept += s->entropies[i] >= choice->threshold;
    sr1__metrics_add(&s->tr->step_metrics, "entropy_threshold", choice->threshold,
                     SR1__LAST);
    return SR1_OK;
}

/* ---- by the loss ---- */

static sr1_status make_choice_room(const struct token_survey *s)
{
    struct sr1__token_choice *choice = &s->tr->choice;
    size_t packed, policy, at = 0;

    choice->begin = sr1__calloc(s->end - s->begin + 1, sizeof(*choice->begin));
    choice->chosen = sr1__calloc(s->n + 1, 1);
    if (!choice->begin || !choice->chosen)
        return sr1__fail_nomem("chosen tokens");
    choice->first = s->begin;
    for (size_t i = s->begin; i < s->end; i++) {
        sr1__trajectory_store_lengths(s->from, i, &packed, &policy);
        choice->begin[i - s->begin] = at;
        at += policy;
    }
    return SR1_OK;
}

/* Other draws in each epoch of each step, of which the dropout's key is a function. */
static sr1_status choose_by_loss(const struct token_survey *s)
{
    const struct sr1__settings *set = &s->tr->set;
    uint64_t key[2] = {s->tr->dropout.key, s->begin};
    sr1_loss_batch b = {.struct_size = sizeof(b),
                        .n = s->n,
                        .new_log_probs = s->log_probs,
                        .old_log_probs = s->log_probs,
                        .advantages = s->advantages};

    if (!sr1__loss_chooses(set->loss, s->tr->choice.at_old))
        return SR1_OK;
    SR1__TRY(make_choice_room(s));
    return sr1__loss_choose(set->loss, &b, &set->loss_options,
                            sr1__hash64(key, sizeof(key), 0), s->tr->choice.chosen);
}

sr1_status sr1__chosen_of(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                          const int64_t *seq_begin, uint8_t **out)
{
    const struct sr1__token_choice *choice = &tr->choice;

    *out = NULL;
    if (!choice->chosen)
        return SR1_OK;
    SR1__CALLOC(*out, mb->n_targets + 1, "chosen tokens");
    for (size_t i = 0; i < mb->n_seqs; i++)
        memcpy(*out + seq_begin[i],
               choice->chosen + choice->begin[mb->sequence[i] - choice->first],
               (size_t)(seq_begin[i + 1] - seq_begin[i]));
    return SR1_OK;
}

/* ---- where new and old log-probs differ by rounding only ---- */

/* Has the loss a slope by the sign of new - old? */
static int has_jump_at_old(const struct sr1__settings *set)
{
    struct sr1__kl kl;

    return set->loss->form == sr1__form_kl_cov ||
           (set->loss_options.beta != 0.0 && !set->frozen_reference &&
            sr1__kl_find(set->kl_kind, &kl) == SR1_OK && kl.slopes_at_0);
}

/* Are the old log-probs those of the present weights? */
static sr1_status find_at_old(const struct sr1__step_batch *b, size_t begin, size_t end,
                              int32_t *out)
{
    sr1_trainer *tr = b->tr;

    *out = 1;
    if (tr->set.policy_columns & 1u << SR1_COLUMN_OLD)
        return SR1_OK;
    *out = b->on_policy;
    for (size_t i = begin; i < end && *out; i++) {
        sr1_trajectory *t = NULL;

        SR1__TRY(sr1__trajectory_store_get(b->selected, i, &t));
        *out = sr1_trajectory_weights_version(t) == tr->step;
        sr1_trajectory_free(t);
    }
    return SR1_OK;
}

/* ---- all ---- */

void sr1__token_choice_free(struct sr1__token_choice *c)
{
    sr1__free(c->begin);
    sr1__free(c->chosen);
    *c = (struct sr1__token_choice){0};
}

sr1_status sr1__choose_tokens(const struct sr1__step_batch *b, size_t begin, size_t end,
                              int32_t is_first)
{
    sr1_trainer *tr = b->tr;
    struct token_survey s = {.tr = tr, .from = b->selected, .begin = begin, .end = end};
    sr1_status st;

    sr1__token_choice_free(&tr->choice);
    if (tr->stage->loss)
        return SR1_OK;
    if (is_first && !sr1__update_dropout(tr) && has_jump_at_old(&tr->set))
        SR1__TRY(find_at_old(b, begin, end, &tr->choice.at_old));
    if (tr->set.top_entropy_quantile >= 1.0 &&
        !sr1__loss_chooses(tr->set.loss, tr->choice.at_old))
        return SR1_OK;
    count_policy_tokens(&s);
    st = read_survey(&s);
    if (st == SR1_OK)
        st = choose_by_entropy(&s);
    if (st == SR1_OK)
        st = choose_by_loss(&s);
    sr1__free(s.entropies);
    return st;
}
