/* policy/share_rollout.c - rollouts by all ranks. Question q is rank q mod N's, as it is
 * worker q mod N's in one process. What a trajectory becomes is a function of the seed,
 * the step, its question and its number, so the place does not matter. The ranks then
 * exchange their trajectories in binary form, and every rank has the whole batch. */
#include "policy/share_rollout.h"

#include "base/mem.h"
#include "environment/trajectory/trajectory.h"
#include "policy/rollout.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/trajectory_details.h>

#include <math.h>
#include <string.h>

sr1_status sr1__share_date(struct sr1__dist *d, sr1_rollout *rollout)
{
    sr1_tokenizer *t = sr1_rollout_tokenizer(rollout);
    int64_t time = sr1__chat_time(t);

    if (!d)
        return SR1_OK;
    SR1__TRY(sr1__dist_broadcast(d, "date", 0, &time, sizeof(time)));
    sr1__chat_set_time(t, time);
    return SR1_OK;
}

static size_t count_queries_of(const struct sr1__rollout_share *s, size_t rank)
{
    size_t size = (size_t)sr1__dist_size(s->dist);

    return s->n_queries > rank ? (s->n_queries - rank + size - 1) / size : 0;
}

/* Where trajectory i of a rank's share is in the whole. */
static size_t place_of(const struct sr1__rollout_share *s, size_t rank, size_t i)
{
    size_t query = i / s->group * (size_t)sr1__dist_size(s->dist) + rank;

    return query * s->group + i % s->group;
}

sr1_status sr1__rollout_share_begin(struct sr1__rollout_share *s, struct sr1__dist *d,
                                    const sr1_query *queries, size_t n, size_t group)
{
    size_t rank = (size_t)sr1__dist_rank(d), ranks = (size_t)sr1__dist_size(d);
    size_t size = n ? queries->struct_size : 1;

    *s = (struct sr1__rollout_share){.dist = d, .n_queries = n, .group = group};
    s->n = count_queries_of(s, rank);
    s->queries = sr1__calloc(s->n + 1, size);
    s->own = sr1__calloc(s->n * s->group + 1, sizeof(sr1_trajectory *));
    SR1__CHECK_ALLOC(s->queries && s->own, "a rank's questions");
    for (size_t i = 0; i < s->n; i++) {
        size_t q = i * ranks + rank;

        memcpy((char *)s->queries + i * size, (const char *)queries + q * size, size);
    }
    return SR1_OK;
}

void sr1__rollout_share_free(struct sr1__rollout_share *s)
{
    for (size_t i = 0; s->own && i < s->n * s->group; i++)
        sr1_trajectory_free(s->own[i]);
    sr1__free(s->own);
    sr1__free(s->queries);
    *s = (struct sr1__rollout_share){0};
}

/* ---- trajectories as bytes ---- */

sr1_status sr1__trajectories_encode(sr1_trajectory *const *t, size_t n,
                                    struct sr1__buf *out)
{
    for (size_t i = 0; i < n; i++) {
        void *bytes = NULL;
        size_t size = 0;

        SR1__TRY(sr1_trajectory_encode(t[i], &bytes, &size));
        sr1__buf_u64(out, size);
        sr1__buf_add(out, bytes, size);
        sr1_free(bytes);
    }
    return sr1__buf_status(out, "trajectories");
}

/* The next of them. */
static sr1_status decode_next(struct sr1__reader *r, sr1_trajectory **t)
{
    uint64_t n = sr1__read_u64(r);
    const void *bytes = sr1__read_bytes(r, (size_t)n);

    return r->failed ? sr1__fail(SR1_E_CORRUPT, "the trajectories are torn")
                     : sr1_trajectory_decode(t, bytes, (size_t)n);
}

sr1_status sr1__trajectories_decode(struct sr1__reader *r, sr1_trajectory **t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(decode_next(r, &t[i]));
    return SR1_OK;
}

sr1_status sr1__trajectory_read_column(struct sr1__reader *r, sr1_trajectory *t,
                                       int32_t column, size_t n)
{
    float *numbers;
    sr1_status st;

    if (r->failed || n > r->left / sizeof(*numbers))
        return sr1__fail(SR1_E_CORRUPT, "another rank's numbers are torn");
    numbers = sr1__calloc(n + 1, sizeof(*numbers)); /* aligned */
    SR1__CHECK_ALLOC(numbers, "numbers of another rank");
    memcpy(numbers, sr1__read_bytes(r, n * sizeof(*numbers)), n * sizeof(*numbers));
    st = sr1_trajectory_set_column(t, column, numbers, n);
    sr1__free(numbers);
    return st;
}

/* ---- the exchange ---- */

static sr1_status encode_share(const struct sr1__rollout_share *s,
                               const sr1_rollout *rollout, struct sr1__buf *b)
{
    struct sr1__rollout_stats stats;

    sr1__rollout_stats(rollout, &stats);
    sr1__buf_add(b, &stats, sizeof(stats));
    return sr1__trajectories_encode(s->own, s->n * s->group, b);
}

/* Those of one rank into their places. */
static sr1_status decode_share(const struct sr1__rollout_share *s, size_t rank,
                               struct sr1__reader *r, sr1_trajectory **out)
{
    for (size_t i = 0; i < count_queries_of(s, rank) * s->group; i++)
        SR1__TRY(
            sr1__context(decode_next(r, &out[place_of(s, rank, i)]), "rank %zu", rank));
    return SR1_OK;
}

static void add_stats(struct sr1__rollout_stats *sum, const struct sr1__rollout_stats *s)
{
    sum->entropy += s->entropy;
    sum->search_seconds += s->search_seconds;
    sum->policy_tokens += s->policy_tokens;
    sum->decode_steps += s->decode_steps;
    sum->searches += s->searches;
    sum->failed_searches += s->failed_searches;
    sum->refused_actions += s->refused_actions;
    sum->engine_queries += s->engine_queries;
    sum->engine_calls += s->engine_calls;
    sr1__remote_stats_add(&sum->remote, &s->remote);
    if (s->failure[0])
        memcpy(sum->failure, s->failure, sizeof(sum->failure));
}

static void take_own(const struct sr1__rollout_share *s, sr1_trajectory **out)
{
    size_t rank = (size_t)sr1__dist_rank(s->dist);

    for (size_t i = 0; i < s->n * s->group; i++) {
        out[place_of(s, rank, i)] = s->own[i];
        s->own[i] = NULL;
    }
}

/* What rank `rank` gave; this rank's own trajectories are there. */
static sr1_status take_gathered(const struct sr1__rollout_share *s, size_t rank,
                                const struct sr1__gathered *g,
                                struct sr1__rollout_stats *sum, sr1_trajectory **out)
{
    struct sr1__rollout_stats stats;
    struct sr1__reader r;
    size_t n;
    const void *bytes = sr1__gathered_of(g, (int32_t)rank, &n);

    if (n < sizeof(stats))
        return sr1__fail(SR1_E_CORRUPT, "the trajectories of rank %zu are torn", rank);
    memcpy(&stats, bytes, sizeof(stats));
    stats.failure[sizeof(stats.failure) - 1] = '\0';
    add_stats(sum, &stats);
    sr1__reader_init(&r, (const char *)bytes + sizeof(stats), n - sizeof(stats));
    if (rank != (size_t)sr1__dist_rank(s->dist))
        return decode_share(s, rank, &r, out);
    take_own(s, out);
    return SR1_OK;
}

sr1_status sr1__rollout_share_exchange(struct sr1__rollout_share *s, sr1_rollout *rollout,
                                       sr1_status st, sr1_trajectory **out)
{
    struct sr1__rollout_stats sum = {0};
    struct sr1__gathered g = {0};
    struct sr1__buf b;

    if (!s->dist) {
        if (st == SR1_OK)
            take_own(s, out);
        return st;
    }
    sr1__buf_init(&b, SIZE_MAX / 2);
    if (st == SR1_OK)
        st = encode_share(s, rollout, &b);
    st = sr1__dist_await(s->dist, "rollouts", st);
    if (st == SR1_OK)
        st = sr1__dist_gather(s->dist, "trajectories", st, b.data, b.len, &g);
    sr1__buf_free(&b);
    for (size_t rank = 0; st == SR1_OK && rank < (size_t)sr1__dist_size(s->dist); rank++)
        st = take_gathered(s, rank, &g, &sum, out);
    sr1__gathered_free(&g);
    if (st == SR1_OK)
        sr1__rollout_set_stats(rollout, &sum);
    return st;
}

/* Those of t[n] that were dropped already have no reward. */
static sr1_status apply_to_counted(sr1_reward_set *rewards, sr1_trajectory *const *t,
                                   size_t n)
{
    sr1_trajectory **counted = sr1__calloc(n + 1, sizeof(*counted));
    size_t n_counted = 0;
    sr1_status st;

    SR1__CHECK_ALLOC(counted, "trajectories to score");
    for (size_t i = 0; i < n; i++)
        if (!sr1__trajectory_excluded(t[i]))
            counted[n_counted++] = t[i];
    st = sr1_reward_set_apply(rewards, counted, n_counted);
    sr1__free(counted);
    return st;
}

/* rewards NULL: nothing is scored. */
static sr1_status generate_own(sr1_rollout *rollout, sr1_reward_set *rewards,
                               const sr1_query *queries, size_t n,
                               const sr1_rollout_options *o, sr1_trajectory **out)
{
    SR1__TRY(sr1_rollout_generate(rollout, queries, n, o, out));
    return rewards ? apply_to_counted(rewards, out, n * (size_t)o->group_size) : SR1_OK;
}

sr1_status sr1__generate_scored(struct sr1__dist *d, sr1_rollout *rollout,
                                sr1_reward_set *rewards, const sr1_query *queries,
                                size_t n, const sr1_rollout_options *o,
                                sr1_trajectory **out)
{
    struct sr1__rollout_share s;
    sr1_status st;

    if (!d)
        return generate_own(rollout, rewards, queries, n, o, out);
    st = sr1__rollout_share_begin(&s, d, queries, n, (size_t)o->group_size);
    if (st == SR1_OK)
        st = generate_own(rollout, rewards, s.queries, s.n, o, s.own);
    st = sr1__rollout_share_exchange(&s, rollout, st, out);
    sr1__rollout_share_free(&s);
    return st;
}

sr1_status sr1__generate_shared(struct sr1__dist *d, sr1_rollout *rollout,
                                const sr1_query *queries, size_t n,
                                const sr1_rollout_options *o, sr1_trajectory **out)
{
    return sr1__generate_scored(d, rollout, NULL, queries, n, o, out);
}

/* ---- rewards ---- */

/* Scores of this rank's of t[n], side by side. */
static sr1_status score_own(const struct sr1__dist *d, sr1_reward_set *rewards,
                            sr1_trajectory *const *t, size_t n, size_t group,
                            double *scores, size_t *n_own)
{
    const sr1_trajectory **own = sr1__calloc(n + 1, sizeof(const sr1_trajectory *));
    int32_t self = sr1__dist_rank(d);
    sr1_status st;

    *n_own = 0;
    SR1__CHECK_ALLOC(own, "trajectories to score");
    for (size_t i = 0; i < n; i++)
        if (sr1__rank_of_question(d, i / group) == self &&
            !sr1__trajectory_excluded(t[i]))
            own[(*n_own)++] = t[i];
    st = sr1_reward_set_score(rewards, own, *n_own, NULL, scores);
    sr1__free(own);
    return st;
}

static sr1_status spread_scores(const struct sr1__gathered *g, const struct sr1__dist *d,
                                int32_t rank, sr1_trajectory *const *t, size_t n,
                                size_t group, double *totals)
{
    struct sr1__reader r;
    size_t bytes;
    const void *given = sr1__gathered_of(g, rank, &bytes);

    sr1__reader_init(&r, given, bytes);
    for (size_t i = 0; i < n; i++) {
        const void *own;

        if (sr1__rank_of_question(d, i / group) != rank)
            continue;
        totals[i] = NAN;
        if (sr1__trajectory_excluded(t[i]))
            continue;
        own = sr1__read_bytes(&r, sizeof(*totals));
        if (!r.failed)
            memcpy(&totals[i], own, sizeof(*totals));
    }
    return r.failed ? sr1__fail(SR1_E_CORRUPT, "the rewards of rank %d are torn", rank)
                    : SR1_OK;
}

sr1_status sr1__score_shared(struct sr1__dist *d, sr1_reward_set *rewards,
                             sr1_trajectory *const *t, size_t n, size_t group,
                             double *totals)
{
    struct sr1__gathered g = {0};
    double *own = sr1__calloc(n + 1, sizeof(*own));
    size_t n_own = 0;
    sr1_status st = own ? score_own(d, rewards, t, n, group, own, &n_own)
                        : sr1__fail_nomem("rewards of trajectories");

    st = sr1__dist_await(d, "rewards", st);
    if (st == SR1_OK)
        st = sr1__dist_gather(d, "rewards", st, own, n_own * sizeof(*own), &g);
    for (int32_t rank = 0; st == SR1_OK && rank < sr1__dist_size(d); rank++)
        st = spread_scores(&g, d, rank, t, n, group, totals);
    sr1__gathered_free(&g);
    sr1__free(own);
    return st;
}
