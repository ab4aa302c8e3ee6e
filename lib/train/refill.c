/* train/refill.c - dynamic sampling (DAPO, Yu et al. 2025, eq. 11): groups whose rewards
 * are all equal teach nothing, so further questions are asked until as many groups teach
 * as the step began with, the data's epoch ends, or dynamic_sampling rounds are over. */
#include "train/step.h"

#include "base/mem.h"
#include "rollout/asked.h"

#include <string.h>

/* Groups of s->kept whose rewards differ; marks the others in s->dead. */
static sr1_status count_live(struct sr1__step *s, size_t *live)
{
    double *rewards = sr1__calloc(s->n_kept + 1, sizeof(*rewards));
    uint64_t *groups = sr1__calloc(s->n_kept + 1, sizeof(*groups));
    size_t n = 0, dead = 0;
    sr1_status st = rewards && groups ? SR1_OK : sr1__fail_nomem("groups of a step");

    for (size_t i = 0; st == SR1_OK && i < s->n_kept; i++) {
        rewards[i] = sr1_trajectory_reward(s->kept[i]);
        groups[i] = sr1_trajectory_group_key(s->kept[i]);
    }
    if (st == SR1_OK)
        st = sr1_advantage_dead_groups(rewards, groups, s->n_kept, s->dead, &n, &dead);
    *live = n - dead;
    sr1__free(rewards);
    sr1__free(groups);
    return st;
}

/* Room for `more` trajectories in every array of a step. */
static sr1_status grow(struct sr1__step *s, size_t more)
{
    size_t n = s->n + more + 1;
    void *p;

    if (!(p = sr1__realloc(s->made, n, sizeof(*s->made))))
        return sr1__fail_nomem("trajectories of a step");
    s->made = p;
    if (!(p = sr1__realloc(s->kept, n, sizeof(*s->kept))))
        return sr1__fail_nomem("trajectories of a step");
    s->kept = p;
    if (!(p = sr1__realloc(s->dead, n, 1)))
        return sr1__fail_nomem("trajectories of a step");
    s->dead = p;
    if (!s->baselines)
        return SR1_OK;
    if (!(p = sr1__realloc(s->baselines, n, sizeof(*s->baselines))))
        return sr1__fail_nomem("trajectories of a step");
    s->baselines = p;
    return SR1_OK;
}

static void add_report(sr1_step_report *to, const sr1_step_report *from)
{
    double tokens = (double)(to->policy_tokens + from->policy_tokens);

    if (tokens > 0)
        to->entropy = (to->entropy * (double)to->policy_tokens +
                       from->entropy * (double)from->policy_tokens) /
                      tokens;
    to->policy_tokens += from->policy_tokens;
    to->searches += from->searches;
    to->failed_searches += from->failed_searches;
    to->excluded_groups += from->excluded_groups;
    to->seconds_rollout += from->seconds_rollout;
    to->seconds_search += from->seconds_search;
    to->seconds_reference += from->seconds_reference;
    to->seconds_reward += from->seconds_reward;
}

/* The trajectories of `sub` become s's. */
static sr1_status append(struct sr1__step *s, struct sr1__step *sub)
{
    SR1__TRY(grow(s, sub->n));
    memcpy(s->made + s->n, sub->made, sub->n * sizeof(*s->made));
    memcpy(s->kept + s->n_kept, sub->kept, sub->n_kept * sizeof(*s->kept));
    if (s->baselines)
        memcpy(s->baselines + s->n_kept, sub->baselines,
               sub->n_kept * sizeof(*s->baselines));
    s->n += sub->n;
    s->n_kept += sub->n_kept;
    sub->n = 0;
    s->answers += sub->answers;
    s->drifted += sub->drifted;
    add_report(s->report, sub->report);
    s->report->text_drift = sr1__step_drift(s);
    return SR1_OK;
}

/* Ask rows[n] in a round of their own; *live: how many of them teach. */
static sr1_status ask(struct sr1__step *s, const int64_t *rows, size_t n, uint64_t round,
                      size_t *live)
{
    sr1_step_report r = {.struct_size = sizeof(r)};
    struct sr1__asked asked;
    struct sr1__step sub = {.tr = s->tr,
                            .rows = rows,
                            .n_queries = n,
                            .group_size = s->group_size,
                            .round = round,
                            .report = &r};
    sr1_status st = sr1__asked_read(&asked, s->tr->train, rows, 0, n);

    sub.queries = asked.queries;
    if (st == SR1_OK)
        st = sr1__step_room(&sub);
    if (st == SR1_OK)
        st = sr1__step_attempt(&sub);
    if (st == SR1_OK)
        st = count_live(&sub, live);
    if (st == SR1_OK)
        st = append(s, &sub);
    sr1__step_free(&sub);
    sr1__asked_free(&asked);
    return st;
}

/* used: rows of the step so far, with room for those of all rounds. */
static sr1_status refill(struct sr1__step *s, int64_t *used)
{
    size_t n_used = s->n_queries, live = 0, n = 0;
    uint64_t rounds = (uint64_t)s->tr->set.dynamic_sampling;

    memcpy(used, s->rows, n_used * sizeof(*used));
    SR1__TRY(count_live(s, &live));
    for (uint64_t round = 1; round <= rounds && live < s->n_queries; round++) {
        size_t found = 0;

        SR1__TRY(sr1__questions_more(s->tr, used, n_used, s->n_queries - live, round,
                                     used + n_used, &n));
        if (n == 0)
            break;
        SR1__TRY(ask(s, used + n_used, n, round, &found));
        n_used += n;
        live += found;
        s->report->sampling_rounds++;
    }
    return SR1_OK;
}

sr1_status sr1__step_refill(struct sr1__step *s)
{
    size_t rounds = (size_t)s->tr->set.dynamic_sampling;
    int64_t *used;
    sr1_status st;

    if (rounds == 0 || !s->rows)
        return SR1_OK;
    used = sr1__calloc(s->n_queries * (rounds + 1) + 1, sizeof(*used));
    if (!used)
        return sr1__fail_nomem("rows of a step");
    st = refill(s, used);
    sr1__free(used);
    return st;
}
