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
 * A copy is made in which tokens have other sources; their order and ids stay. */
#include "train/step_batch.h"

#include "base/mem.h"
#include "environment/env/protocol.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory.h"

#include <string.h>

/* One trajectory and the loss mask of its copy. */
struct mask_job {
    const sr1_trajectory *t;
    const char *text;
    const uint32_t *ends; /* of each generated token's piece of the text */
    size_t n, n_prompt;
    uint8_t *keep;    /* [n] trained on */
    float *log_probs; /* [n] */
};

static size_t piece_begin(const struct mask_job *a, size_t token)
{
    return token > a->n_prompt ? a->ends[token - a->n_prompt - 1] : 0;
}

static size_t piece_end(const struct mask_job *a, size_t token)
{
    return a->ends[token - a->n_prompt];
}

/* ---- what is trained on ---- */

static void mask_piece(struct mask_job *a, const sr1_text_segment *s, size_t begin,
                       size_t end)
{
    for (size_t i = s->token_begin; i < s->token_begin + s->token_count; i++)
        if (piece_begin(a, i) < end && piece_end(a, i) > begin)
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
static void mask_thoughts(struct mask_job *a, const sr1_text_segment *s,
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

static sr1_status mark_trained(const sr1_trainer *tr, struct mask_job *a)
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

/* ---- the copy ---- */

static sr1_status copy_context(const sr1_trajectory *t, struct sr1__trajectory_builder *b)
{
    struct sr1__trajectory_context c = {
        .temperature = sr1_trajectory_temperature(t),
        .top_p = sr1_trajectory_top_p(t),
        .top_k = sr1_trajectory_top_k(t),
        .weights_version = sr1_trajectory_weights_version(t),
        .data_source = sr1_trajectory_data_source(t),
        .begins_in_thought = sr1_trajectory_begins_in_thought(t),
    };

    return sr1__trajectory_builder_context(b, &c);
}

static sr1_status copy_tokens(const struct mask_job *a, struct sr1__trajectory_builder *b)
{
    const int32_t *ids = sr1_trajectory_ids(a->t);
    const int32_t *turns = sr1_trajectory_turns(a->t);

    for (size_t i = a->n_prompt, end; i < a->n; i = end) {
        size_t from = piece_begin(a, i), len;

        for (end = i + 1;
             !a->keep[i] && end < a->n && !a->keep[end] && turns[end] == turns[i];)
            end++;
        len = piece_end(a, end - 1) - from;
        if (a->keep[i])
            SR1__TRY(sr1__trajectory_builder_policy(b, ids[i], a->log_probs[i], turns[i],
                                                    a->text + from, len));
        else
            SR1__TRY(sr1__trajectory_builder_environment(b, ids + i, end - i, turns[i],
                                                         a->text + from, len, 0, len));
    }
    return SR1_OK;
}

/* A column of the original, by the copy's tokens. */
static sr1_status copy_column(const struct mask_job *a, int32_t column,
                              sr1_trajectory *to)
{
    const float *from = sr1_trajectory_column(a->t, column);
    const uint8_t *own = sr1_trajectory_policy_mask(a->t);
    size_t n = 0, k = 0;
    float *v, last = 0.0f;
    sr1_status st;

    if (!from || sr1_trajectory_policy_count(to) == 0)
        return SR1_OK;
    v = sr1__calloc(a->n, sizeof(*v));
    if (!v)
        return sr1__fail_nomem("columns of a trajectory");
    for (size_t i = a->n_prompt; i < a->n; i++) {
        last = own[i] ? from[k++] : last;
        if (a->keep[i])
            v[n++] = last;
    }
    st = sr1_trajectory_set_column(to, column, v, n);
    sr1__free(v);
    return st;
}

static sr1_status copy_credit(const struct mask_job *a, sr1_trajectory *to)
{
    SR1__TRY(sr1_trajectory_set_reward(to, sr1_trajectory_reward(a->t)));
    SR1__TRY(sr1_trajectory_set_advantage(to, sr1_trajectory_advantage(a->t)));
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        SR1__TRY(copy_column(a, c, to));
    return SR1_OK;
}

static sr1_status copy_masked(const struct mask_job *a, sr1_trajectory **out)
{
    const sr1_trajectory *t = a->t;
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *made = NULL;
    size_t len;
    const char *query = sr1_trajectory_query(t, &len);
    sr1_status st = sr1__trajectory_builder_new(
        &b, query, len, sr1_trajectory_query_id(t), sr1_trajectory_sample(t));

    if (st == SR1_OK)
        st = copy_context(t, b);
    if (st == SR1_OK)
        st = sr1__trajectory_builder_prompt(b, sr1_trajectory_ids(t), a->n_prompt);
    if (st == SR1_OK)
        st = copy_tokens(a, b);
    if (st == SR1_OK) {
        st = sr1__trajectory_builder_finish(b, sr1_trajectory_stop_reason(t), NULL, 0,
                                            &made);
        b = NULL;
    }
    if (st == SR1_OK)
        st = sr1__trajectory_set_copy(made, sr1_trajectory_copy(t));
    if (st == SR1_OK)
        st = copy_credit(a, made);
    sr1__trajectory_builder_free(b);
    if (st == SR1_OK)
        *out = made;
    else
        sr1_trajectory_free(made);
    return st;
}

/* guess: an earlier copy with the column SR1_COLUMN_OLD, or NULL: no log-probs yet for
 * what was inserted. */
static sr1_status mask_one(const sr1_trainer *tr, const sr1_trajectory *t,
                           const sr1_trajectory *guess, sr1_trajectory **out)
{
    const float *old = guess ? sr1_trajectory_column(guess, SR1_COLUMN_OLD) : NULL;
    const uint8_t *own = sr1_trajectory_policy_mask(t);
    struct mask_job a = {.t = t,
                         .text = sr1_trajectory_generated_text(t, NULL),
                         .ends = sr1_trajectory_text_ends(t),
                         .n = sr1_trajectory_token_count(t),
                         .n_prompt = sr1_trajectory_prompt_count(t)};
    size_t k = 0;
    sr1_status st;

    a.keep = sr1__calloc(a.n + 1, 1);
    a.log_probs = sr1__calloc(a.n + 1, sizeof(float));
    st = a.keep && a.log_probs ? mark_trained(tr, &a) : sr1__fail_nomem("loss mask");
    for (size_t i = a.n_prompt; st == SR1_OK && i < a.n; i++) {
        float now = old && a.keep[i] ? old[k] : 0.0f;

        k += a.keep[i];
        a.log_probs[i] = own[i] ? sr1_trajectory_log_probs(t)[i] : now;
    }
    if (st == SR1_OK)
        st = copy_masked(&a, out);
    sr1__free(a.keep);
    sr1__free(a.log_probs);
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
