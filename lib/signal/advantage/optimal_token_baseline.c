/* signal/advantage/optimal_token_baseline.c - the return of a token minus a baseline of
 * its place, over the trajectories of the group that have a token there:
 *
 *     A_t = G_t - B_p,  B_p = sum_i G_i W_i / (sum_i W_i + eps)
 *
 * W: the sum of the score norms of a trajectory's tokens up to that one. A token's norm
 * is |d log p / d logits|^2 = 1 - 2 p + sum over the vocabulary of p^2. What the longest
 * trajectory alone has, behind the length of the second, has no baseline; nor has a group
 * of one. ("The Optimal Token Baseline", in the form of verl's code.) */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

/* Sums over a group by place. */
struct place_sums {
    const int32_t *places; /* [T] of tokens; NULL: their number in the trajectory */
    size_t n;              /* places */
    double *returns;       /* [n] sum of G W */
    double *weights;       /* [n] sum of W */
};

static size_t find_place(const struct place_sums *s, int64_t t, int64_t begin)
{
    return s->places != NULL ? (size_t)s->places[t] : (size_t)(t - begin);
}

/* Of all trajectories: one more than the last place. */
static size_t count_places(const struct sr1__advantage_call *a,
                           const struct place_sums *s)
{
    const int64_t *begin = a->b->token_begin;
    size_t most = 0, i;

    for (i = 0; i < a->n; i++) {
        size_t end;

        if (begin[i + 1] == begin[i])
            continue;
        end = find_place(s, begin[i + 1] - 1, begin[i]) + 1;
        most = end > most ? end : most;
    }
    return most;
}

static void add_trajectory(const struct sr1__advantage_call *a, struct place_sums *s,
                           size_t i)
{
    const int64_t *begin = a->b->token_begin;
    double weight = 0;
    int64_t t;

    for (t = begin[i]; t < begin[i + 1]; t++) {
        size_t place = find_place(s, t, begin[i]);

        weight += (double)a->b->score_norms[t];
        s->returns[place] += a->returns[t] * weight;
        s->weights[place] += weight;
    }
}

/* The trajectory of a group that is longer than all others, and the length from which on
 * it is alone. */
struct tail {
    size_t trajectory; /* SIZE_MAX: there is none */
    size_t begin;
};

static struct tail find_tail(const struct sr1__advantage_call *a, size_t at, size_t end)
{
    const int64_t *begin = a->b->token_begin;
    struct tail tail = {SIZE_MAX, 0};
    int64_t first = -1, second = -1;
    size_t k;

    for (k = at; k < end; k++) {
        size_t i = a->members[k].index;
        int64_t length = begin[i + 1] - begin[i];

        if (length > first) {
            second = first;
            first = length;
            tail.trajectory = i;
        } else if (length > second) {
            second = length;
        }
    }
    if (second < 0 || second == first)
        tail.trajectory = SIZE_MAX;
    tail.begin = second < 0 ? 0 : (size_t)second;
    return tail;
}

static void subtract_baselines(struct sr1__advantage_call *a, const struct place_sums *s,
                               const struct tail *tail, size_t i)
{
    const int64_t *begin = a->b->token_begin;
    int64_t t;

    for (t = begin[i]; t < begin[i + 1]; t++) {
        size_t place = find_place(s, t, begin[i]);
        int alone = i == tail->trajectory && place >= tail->begin;

        a->tokens[t] = a->returns[t];
        if (!alone)
            a->tokens[t] -= s->returns[place] / (s->weights[place] + a->o->eps);
    }
}

static void clear_places(struct sr1__advantage_call *a, struct place_sums *s, size_t i)
{
    const int64_t *begin = a->b->token_begin;

    for (int64_t t = begin[i]; t < begin[i + 1]; t++) {
        size_t place = find_place(s, t, begin[i]);

        s->returns[place] = s->weights[place] = 0;
    }
}

/* Of the group m[at..end): the sums are 0 before and after. */
static void estimate_baseline_group(struct sr1__advantage_call *a, struct place_sums *s,
                                    size_t at, size_t end)
{
    struct tail tail = find_tail(a, at, end);
    size_t k;

    for (k = at; end - at > 1 && k < end; k++)
        add_trajectory(a, s, a->members[k].index);
    for (k = at; k < end; k++)
        subtract_baselines(a, s, &tail, a->members[k].index);
    for (k = at; end - at > 1 && k < end; k++)
        clear_places(a, s, a->members[k].index);
}

/* Nothing over no weight is no baseline, whatever eps is. */
static sr1_status check_baseline_eps(const struct sr1__advantage_call *a)
{
    if (a->o->eps > 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "advantage %s divides by sums that may be 0; set eps above 0 "
                     "(advantage_eps)",
                     a->row->info.name);
}

static sr1_status estimate_by_place(struct sr1__advantage_call *a, const int32_t *places)
{
    struct place_sums s = {.places = places};
    size_t at, end;

    SR1__TRY(check_baseline_eps(a));
    sr1__token_rewards(a, a->returns);
    sr1__discount_tokens(a, 1.0, a->returns);
    s.n = count_places(a, &s);
    s.returns = sr1__calloc(s.n + 1, 2 * sizeof *s.returns);
    SR1__CHECK_ALLOC(s.returns, "baselines of tokens");
    s.weights = s.returns + s.n;
    for (at = 0; at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        estimate_baseline_group(a, &s, at, end);
    }
    sr1__free(s.returns);
    return SR1_OK;
}

/* By the place in the response, inserted text included. */
sr1_status sr1__advantage_optimal_token_baseline(struct sr1__advantage_call *a)
{
    return estimate_by_place(a, a->b->token_places);
}

/* By the number among the policy's tokens, of turns with tools between them too. */
sr1_status sr1__advantage_tir_optimal_token_baseline(struct sr1__advantage_call *a)
{
    return estimate_by_place(a, NULL);
}
