/* environment/trajectory/trajectory_equal.c - compare two trajectories bit for bit.
 * Numbers are compared as stored, so that -0.0 and 0.0 differ. */
#include "environment/trajectory/trajectory_layout.h"

#include <string.h>

static int same_bytes(const struct sr1__owned_bytes *a, const struct sr1__owned_bytes *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static int same_row(const struct sr1__row_text *a, const struct sr1__row_text *b)
{
    size_t n, m;
    const char *x = sr1__row_text_view(a, &n), *y = sr1__row_text_view(b, &m);

    return x == y || (n == m && memcmp(x, y, n) == 0);
}

static int same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static int same_versions(const sr1_trajectory *a, const sr1_trajectory *b)
{
    if (a->n_versions != b->n_versions)
        return 0;
    for (size_t i = 0; i < a->n_versions; i++)
        if (a->versions[i].begin != b->versions[i].begin ||
            a->versions[i].version != b->versions[i].version)
            return 0;
    return 1;
}

static int same_scalars(const sr1_trajectory *a, const sr1_trajectory *b)
{
    return a->group_key == b->group_key && a->weights_version == b->weights_version &&
           same_versions(a, b) && same_double(a->temperature, b->temperature) &&
           same_double(a->top_p, b->top_p) && a->top_k == b->top_k &&
           a->sample == b->sample && a->copy == b->copy &&
           a->stop_reason == b->stop_reason &&
           a->begins_in_thought == b->begins_in_thought && a->n_tokens == b->n_tokens &&
           a->n_prompt == b->n_prompt && a->n_policy == b->n_policy &&
           a->n_segments == b->n_segments && a->n_searches == b->n_searches &&
           a->n_ground_truths == b->n_ground_truths && a->n_history == b->n_history &&
           a->has_reward == b->has_reward && a->has_advantage == b->has_advantage &&
           same_double(a->reward, b->reward) && same_double(a->advantage, b->advantage) &&
           a->n_parts == b->n_parts;
}

/* Counts are equal by now. */
static int same_columns(const sr1_trajectory *a, const sr1_trajectory *b)
{
    for (size_t k = 0; k < SR1__N_COLUMNS; k++) {
        const struct sr1__column *c = &sr1__columns[k];
        size_t bytes = c->size * sr1__column_count(a, c);

        if (bytes && memcmp(sr1__column_get(a, c), sr1__column_get(b, c), bytes) != 0)
            return 0;
    }
    for (size_t k = 0; k < SR1__N_TEXTS; k++)
        if (!same_bytes(sr1__text_at(a, k), sr1__text_at(b, k)))
            return 0;
    return 1;
}

static int same_segment(const sr1_text_segment *a, const sr1_text_segment *b)
{
    return a->source == b->source && a->turn == b->turn &&
           a->token_begin == b->token_begin && a->token_count == b->token_count &&
           a->text_begin == b->text_begin && a->text_len == b->text_len &&
           a->body_begin == b->body_begin && a->body_len == b->body_len;
}

static int same_search(const struct sr1__action_record *a,
                       const struct sr1__action_record *b)
{
    if (a->turn != b->turn || a->status != b->status || a->n_hits != b->n_hits ||
        a->n_hit_ids != b->n_hit_ids || !same_bytes(&a->query, &b->query) ||
        !same_double(a->reward, b->reward) || a->success != b->success)
        return 0;
    for (int32_t k = 0; k < a->n_hit_ids; k++)
        if (strcmp(a->hit_ids[k], b->hit_ids[k]) != 0)
            return 0;
    return 1;
}

static int same_lists(const sr1_trajectory *a, const sr1_trajectory *b)
{
    for (size_t i = 0; i < a->n_segments; i++)
        if (!same_segment(&a->segments[i], &b->segments[i]))
            return 0;
    for (size_t i = 0; i < a->n_searches; i++)
        if (!same_search(&a->searches[i], &b->searches[i]))
            return 0;
    for (size_t i = 0; i < a->n_ground_truths; i++)
        if (!same_bytes(&a->ground_truths[i], &b->ground_truths[i]))
            return 0;
    for (size_t i = 0; i < 2 * a->n_history; i++)
        if (!same_bytes(&a->history[i], &b->history[i]))
            return 0;
    return 1;
}

static int same_credit(const sr1_trajectory *a, const sr1_trajectory *b)
{
    for (size_t i = 0; i < a->n_parts; i++)
        if (strcmp(a->parts[i].name, b->parts[i].name) != 0 ||
            !same_double(a->parts[i].value, b->parts[i].value) ||
            !same_double(a->parts[i].weight, b->parts[i].weight))
            return 0;
    for (size_t c = 0; c < SR1_COLUMN_COUNT; c++) {
        const float *x = a->credit[c], *y = b->credit[c];

        if (!x != !y || (x && memcmp(x, y, a->n_policy * sizeof *x) != 0))
            return 0;
    }
    return 1;
}

int32_t sr1_trajectory_equal(const sr1_trajectory *a, const sr1_trajectory *b)
{
    if (!a || !b)
        return a == b;
    return same_scalars(a, b) && same_columns(a, b) && same_lists(a, b) &&
           same_row(a->row, b->row) && same_credit(a, b);
}
