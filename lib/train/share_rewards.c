/* train/share_rewards.c - rewards by all ranks. The rank that rolled out a question
 * scores its trajectories, whose rewards may have begun there, and the ranks exchange the
 * parts: what a program or a judge says once holds for all. A reward sees the
 * trajectories of its own process side by side, whole groups of them. */
#include "train/ranks.h"
#include "train/step_batch.h"

#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/trajectory_details.h>

#include "base/mem.h"
#include "base/rng.h"
#include "environment/trajectory/trajectory.h"

#include <string.h>

/* Parts of one reward that another rank may send; a set has a few. */
#define MAX_PARTS 4096

static int is_own(const struct sr1__step_batch *b, size_t i, int32_t rank)
{
    size_t question = (i - b->n_scored) / (size_t)b->group_size;

    return sr1__rank_of_question(b->tr->dist, question) == rank;
}

static int counts_at_rank(const struct sr1__step_batch *b, size_t i, int32_t rank)
{
    return sr1__counts_in_group(b, i) && is_own(b, i, rank);
}

/* ---- the exchange ---- */

static void encode_reward(struct sr1__buf *out, const sr1_trajectory *t)
{
    size_t n = sr1_trajectory_reward_component_count(t);

    sr1__buf_u8(out, (uint8_t)sr1__trajectory_excluded(t));
    if (sr1__trajectory_excluded(t))
        return;
    sr1__buf_f64(out, sr1_trajectory_reward(t));
    sr1__buf_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const char *name = "";
        double value = 0, weight = 0;

        (void)sr1_trajectory_reward_component(t, i, &name, &value, &weight);
        sr1__buf_u32(out, (uint32_t)strlen(name) + 1);
        sr1__buf_add(out, name, strlen(name) + 1);
        sr1__buf_f64(out, value);
        sr1__buf_f64(out, weight);
    }
}

static int read_part(struct sr1__reader *r, struct sr1__reward_value *part)
{
    uint32_t size = sr1__read_u32(r);
    const char *name = sr1__read_bytes(r, size);

    part->name = name;
    part->value = sr1__read_f64(r);
    part->weight = sr1__read_f64(r);
    return !r->failed && size > 0 && memchr(name, '\0', size) == name + size - 1;
}

static sr1_status decode_parts(struct sr1__reader *r, sr1_trajectory *t)
{
    double total = sr1__read_f64(r);
    size_t n = sr1__read_u32(r);
    struct sr1__reward_value *parts;
    int whole = !r->failed && n <= MAX_PARTS;
    sr1_status st;

    parts = whole ? sr1__calloc(n + 1, sizeof(*parts)) : NULL;
    if (whole && !parts)
        return sr1__fail_nomem("rewards of another rank");
    for (size_t i = 0; whole && i < n; i++)
        whole = read_part(r, &parts[i]);
    st = whole ? sr1__trajectory_set_reward(t, parts, n, total)
               : sr1__fail(SR1_E_CORRUPT, "the rewards are torn");
    sr1__free(parts);
    return st;
}

static sr1_status take_rewards(const struct sr1__step_batch *b,
                               const struct sr1__gathered *g, int32_t rank)
{
    struct sr1__batch_view v;
    struct sr1__reader r;
    size_t size;
    const void *bytes = sr1__gathered_of(g, rank, &size);
    sr1_status st = sr1__batch_view_of(b, b->n_scored, counts_at_rank, rank, &v);

    sr1__reader_init(&r, bytes, size);
    for (size_t i = 0; st == SR1_OK && i < v.n; i++) {
        if (sr1__read_u8(&r) && !r.failed)
            sr1__trajectory_mark_unscored(v.t[i]);
        else
            st = sr1__context(decode_parts(&r, v.t[i]), "rank %d", rank);
    }
    sr1__batch_view_free(&v);
    return st;
}

static sr1_status exchange_rewards(const struct sr1__step_batch *b,
                                   const struct sr1__batch_view *own, sr1_status st)
{
    struct sr1__dist *d = b->tr->dist;
    struct sr1__gathered g = {0};
    struct sr1__buf out;

    sr1__buf_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; st == SR1_OK && i < own->n; i++)
        encode_reward(&out, own->t[i]);
    if (st == SR1_OK)
        st = sr1__buf_status(&out, "rewards of a rank");
    st = sr1__dist_await(d, "rewards", st);
    if (st == SR1_OK)
        st = sr1__dist_gather(d, "rewards", st, out.data, out.len, &g);
    sr1__buf_free(&out);
    for (int32_t rank = 0; st == SR1_OK && rank < sr1__dist_size(d); rank++)
        if (rank != sr1__dist_rank(d))
            st = take_rewards(b, &g, rank);
    sr1__gathered_free(&g);
    return st;
}

sr1_status sr1__apply_shared(struct sr1__step_batch *b)
{
    struct sr1__batch_view own = {0};
    sr1_status st = sr1__batch_view_of(b, b->n_scored, counts_at_rank,
                                       sr1__dist_rank(b->tr->dist), &own);

    if (st == SR1_OK)
        st = sr1_reward_set_apply(b->tr->rewards, own.t, own.n);
    if (b->tr->dist)
        st = exchange_rewards(b, &own, st);
    sr1__batch_view_free(&own);
    return st;
}

/* ---- the same on all ranks ---- */

/* Whatever the update reads of a trajectory is in its binary form. */
static sr1_status hash_trajectories(sr1_trajectory *const *t, size_t n, uint64_t *hash)
{
    for (size_t i = 0; i < n; i++) {
        void *bytes = NULL;
        size_t size = 0;

        SR1__TRY(sr1_trajectory_encode(t[i], &bytes, &size));
        *hash = sr1__hash64(bytes, size, *hash);
        sr1_free(bytes);
    }
    return SR1_OK;
}

sr1_status sr1__check_shared(sr1_trainer *tr, sr1_trajectory *const *t, size_t n)
{
    uint64_t hash = n;
    sr1_status st;

    if (!tr->dist)
        return SR1_OK;
    st = hash_trajectories(t, n, &hash);
    SR1__TRY(sr1__dist_agree(tr->dist, "batch", st));
    return sr1__dist_same(tr->dist,
                          "the batch, with rewards and advantages, which must not depend "
                          "on the process,",
                          hash);
}
