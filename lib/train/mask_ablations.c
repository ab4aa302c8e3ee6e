/* train/mask_ablations.c - loss masks other than "what the policy sampled", for two
 * ablations, the first of them Search-R1's. Without them, this file does nothing: search
 * results are no targets of the loss because only sampled tokens become targets
 * (fill_targets in environment/trajectory/microbatch.c).
 *
 *     mask_environment: false   inserted tokens are trained on like the policy's. They
 *                               were not sampled: what stands for their log-prob at
 *                               sampling is that under the weights before the update, and
 *                               for their advantage that of the token before
 *     no_think_rl: true         the thoughts, tags included, are context
 *
 * Copies take the trajectories' place (masked_copy.h). */
#include "train/masked_copy.h"
#include "train/step_batch.h"

#include "base/mem.h"
#include "environment/env/protocol.h"
#include "environment/trajectory/trajectory.h"

#include <string.h>

/* ---- what is trained on ---- */

static void mask_piece(struct sr1__masking *a, const sr1_text_segment *s, size_t begin,
                       size_t end)
{
    for (size_t i = s->token_begin; i < s->token_begin + s->token_count; i++)
        if (sr1__piece_begin(a, i) < end && sr1__piece_end(a, i) > begin)
            a->keep[i] = 0;
}

/* Where the thought that is open at `at` ends; one that is not closed goes on to the end.
 */
static size_t find_thought_end(const struct sr1__protocol *p, const char *text,
                               size_t len, size_t at)
{
    struct sr1__tag tag;

    for (; sr1__protocol_next_tag(p, text, len, at, &tag); at = tag.end)
        if (tag.tag == SR1__TAG_CLOSE(SR1__ROLE_THINK))
            return tag.end;
    return len;
}

/* The thoughts of a segment. opened: it begins within one. */
static void mask_thoughts(struct sr1__masking *a, const sr1_text_segment *s,
                          const struct sr1__protocol *p, int opened)
{
    const char *text = a->text + s->text_begin;
    struct sr1__tag tag;
    size_t at = opened ? find_thought_end(p, text, s->text_len, 0) : 0;

    mask_piece(a, s, s->text_begin, s->text_begin + at);
    while (sr1__protocol_next_tag(p, text, s->text_len, at, &tag)) {
        at = tag.end;
        if (tag.tag != SR1__TAG_OPEN(SR1__ROLE_THINK))
            continue;
        at = find_thought_end(p, text, s->text_len, at);
        mask_piece(a, s, s->text_begin + tag.begin, s->text_begin + at);
    }
}

static sr1_status mark_trained(const sr1_trainer *tr, struct sr1__masking *a)
{
    const struct sr1__protocol *p = sr1__protocol_find(sr1__config_protocol(tr->config));

    for (size_t i = 0; i < sr1_trajectory_segment_count(a->t); i++) {
        sr1_text_segment s = {.struct_size = sizeof(s)};
        int own;

        SR1__TRY(sr1_trajectory_segment(a->t, i, &s));
        own = s.source == SR1_SOURCE_POLICY;
        memset(a->keep + s.token_begin, own || tr->set.train_environment, s.token_count);
        if (own && tr->set.no_think)
            mask_thoughts(a, &s, p,
                          s.text_begin == 0 && sr1_trajectory_begins_in_thought(a->t));
    }
    return SR1_OK;
}

/* guess: an earlier copy with the column SR1_COLUMN_OLD, or NULL: no log-probs yet for
 * what was inserted. */
static sr1_status mask_one(const sr1_trainer *tr, const sr1_trajectory *t,
                           const sr1_trajectory *guess, sr1_trajectory **out)
{
    const float *old = guess ? sr1_trajectory_column(guess, SR1_COLUMN_OLD) : NULL;
    const uint8_t *own = sr1_trajectory_policy_mask(t);
    struct sr1__masking a;
    size_t k = 0;
    sr1_status st = sr1__masking_open(&a, t);

    if (st == SR1_OK)
        st = mark_trained(tr, &a);
    for (size_t i = a.n_prompt; st == SR1_OK && i < a.n; i++) {
        if (!own[i])
            a.log_probs[i] = old && a.keep[i] ? old[k] : 0.0f;
        k += a.keep[i];
    }
    if (st == SR1_OK)
        st = sr1__masked_copy(&a, out);
    sr1__masking_close(&a);
    return st;
}

/* ---- all that are selected ---- */

/* Once more, with log-probs of the inserted tokens. */
static sr1_status add_log_probs(struct sr1__step_batch *copies,
                                const struct sr1__step_batch *b)
{
    const sr1_trainer *tr = b->tr;

    SR1__TRY(sr1__forward_column(tr, SR1_COLUMN_OLD, copies->t, copies->n));
    for (size_t i = 0, k = 0; i < b->n; i++) {
        sr1_trajectory *again = NULL;

        if (b->drop[i] != SR1__DROP_NONE)
            continue;
        if (sr1_trajectory_policy_count(copies->t[k]) > 0) {
            SR1__TRY(mask_one(tr, b->t[i], copies->t[k], &again));
            sr1_trajectory_free(copies->t[k]);
            copies->t[k] = again;
        }
        k++;
    }
    return SR1_OK;
}

/* Columns that advantages are made from are copied, but say nothing of inserted tokens.
 */
static sr1_status fill_copies(struct sr1__step_batch *copies,
                              const struct sr1__step_batch *b)
{
    const struct sr1__settings *set = &b->tr->set;

    for (size_t i = 0; i < b->n; i++) {
        if (b->drop[i] != SR1__DROP_NONE)
            continue;
        SR1__TRY(sr1__step_batch_extend(copies, 1));
        SR1__TRY(mask_one(b->tr, b->t[i], NULL, &copies->t[copies->n - 1]));
        if (!set->train_environment)
            copies->filled[copies->n - 1] = b->filled[i] & set->advantage_columns;
    }
    if (set->train_environment)
        SR1__TRY(add_log_probs(copies, b));
    return sr1__fill_log_probs(copies);
}

sr1_status sr1__mask_loss(struct sr1__step_batch *b)
{
    if (!sr1__masks_loss(&b->tr->set))
        return SR1_OK;
    b->masked = sr1__calloc(1, sizeof(*b->masked));
    if (!b->masked)
        return sr1__fail_nomem("loss masks");
    *b->masked =
        (struct sr1__step_batch){.tr = b->tr, .metrics = b->metrics, .is_masked = 1};
    return fill_copies(b->masked, b);
}
