/* train/masked_copy.c - see masked_copy.h. */
#include "train/masked_copy.h"

#include "base/mem.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory.h"

#include <searchr1/ext/trajectory_details.h>

#include <string.h>

size_t sr1__piece_begin(const struct sr1__masking *a, size_t token)
{
    return token > a->n_prompt ? a->ends[token - a->n_prompt - 1] : 0;
}

size_t sr1__piece_end(const struct sr1__masking *a, size_t token)
{
    return a->ends[token - a->n_prompt];
}

sr1_status sr1__masking_open(struct sr1__masking *a, const sr1_trajectory *t)
{
    *a = (struct sr1__masking){.t = t,
                               .text = sr1_trajectory_generated_text(t, NULL),
                               .ends = sr1_trajectory_text_ends(t),
                               .n = sr1_trajectory_token_count(t),
                               .n_prompt = sr1_trajectory_prompt_count(t)};
    a->log_probs = sr1__calloc(a->n + 1, sizeof(float) + 1);
    if (!a->log_probs)
        return sr1__fail_nomem("loss mask");
    a->keep = (uint8_t *)(a->log_probs + a->n + 1);
    if (a->n > 0)
        memcpy(a->log_probs, sr1_trajectory_log_probs(t), a->n * sizeof(float));
    return SR1_OK;
}

void sr1__masking_close(struct sr1__masking *a)
{
    sr1__free(a->log_probs);
}

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

static sr1_status copy_tokens(const struct sr1__masking *a,
                              struct sr1__trajectory_builder *b)
{
    const int32_t *ids = sr1_trajectory_ids(a->t);
    const int32_t *turns = sr1_trajectory_turns(a->t);

    for (size_t i = a->n_prompt, end; i < a->n; i = end) {
        size_t from = sr1__piece_begin(a, i), len;

        for (end = i + 1;
             !a->keep[i] && end < a->n && !a->keep[end] && turns[end] == turns[i];)
            end++;
        len = sr1__piece_end(a, end - 1) - from;
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
static sr1_status copy_masked_column(const struct sr1__masking *a, int32_t column,
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

static sr1_status copy_credit(const struct sr1__masking *a, sr1_trajectory *to)
{
    SR1__TRY(sr1_trajectory_set_reward(to, sr1_trajectory_reward(a->t)));
    SR1__TRY(sr1_trajectory_set_advantage(to, sr1_trajectory_advantage(a->t)));
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        SR1__TRY(copy_masked_column(a, c, to));
    return SR1_OK;
}

sr1_status sr1__masked_copy(const struct sr1__masking *a, sr1_trajectory **out)
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
