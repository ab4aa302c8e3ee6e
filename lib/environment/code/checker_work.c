/* environment/code/checker_work.c - the work of a checker's threads: look an answer up in
 * the cache, or run it and store the outcome.
 *
 * Of several equal answers that are checked at the same time one runs; the others wait
 * for its outcome. */
#include "environment/code/checker.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "environment/sandbox/sandbox_engine.h"

#include <inttypes.h>
#include <string.h>

#define TICK_S 0.05 /* one that waits for another looks so often if it is cancelled */

/* ---- keys ---- */

/* All that the outcome depends on, besides the answer. */
static sr1_status write_check_key(const struct sr1_checker *k, struct sr1_check *c)
{
    const sr1_problem *p = c->problem;
    char limit[32];

    sr1__buf_fmt(&c->key, "check 5\n%s\n", sr1_sandbox_describe(k->box));
    sr1__sandbox_limits(k->box, &c->key);
    sr1__format_real(sr1__check_time(&k->limits, p), limit);
    sr1__buf_fmt(&c->key, "%016" PRIx64 "%016" PRIx64 " %d %s %d %d\n", p->digest[0],
                 p->digest[1], (int)k->limits.all_or_nothing, limit,
                 (int)k->limits.memory_mib, (int)k->limits.inside_allowed);
    if (p->observing) {
        sr1__buf_char(&c->key, 'x');
        sr1__buf_add(&c->key, c->code, c->code_len);
    } else {
        sr1__code_normalise(k->normaliser, c->code, c->code_len, &c->key);
    }
    return sr1__buf_status(&c->key, "key of a program");
}

static int same_key(const struct sr1_check *a, const struct sr1_check *b)
{
    return a->key.len == b->key.len && memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

/* ---- one check, on its thread ---- */

void sr1__check_drop_ref(struct sr1_check *c)
{
    if (atomic_fetch_sub(&c->references, 1) > 1)
        return;
    sr1_problems_free(c->problems);
    sr1__check_outcome_free(&c->outcome);
    sr1__buf_free(&c->key);
    sr1__free(c->code);
    sr1__free(c->runs);
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c);
}

static int is_cancelled(struct sr1_check *c)
{
    int cancelled;

    pthread_mutex_lock(&c->lock);
    cancelled = c->cancelled;
    pthread_mutex_unlock(&c->lock);
    return cancelled;
}

/* An equal one that is run; NULL: none. Locked. */
static struct sr1_check *leader_of(const struct sr1_checker *k, const struct sr1_check *c)
{
    struct sr1_check *other = k->checks;

    while (other != NULL && !(other->leads && same_key(other, c)))
        other = other->next;
    return other;
}

/* Wait until no equal one leads, then lead. */
static sr1_status begin_to_lead(struct sr1_checker *k, struct sr1_check *c)
{
    int cancelled = 0;

    pthread_mutex_lock(&k->lock);
    while (leader_of(k, c) != NULL && !cancelled) {
        struct timespec t = sr1__clock_time(sr1__now() + TICK_S);

        pthread_cond_timedwait(&k->ended, &k->lock, &t);
        cancelled = is_cancelled(c);
    }
    c->leads = !cancelled;
    pthread_mutex_unlock(&k->lock);
    return cancelled ? sr1__check_fail_cancelled() : SR1_OK;
}

static void end_to_lead(struct sr1_checker *k, struct sr1_check *c)
{
    pthread_mutex_lock(&k->lock);
    c->leads = 0;
    pthread_cond_broadcast(&k->ended);
    pthread_mutex_unlock(&k->lock);
}

static int find_cached_outcome(struct sr1_checker *k, struct sr1_check *c)
{
    struct sr1__buf value;
    int found;

    sr1__buf_init(&value, 0);
    found = sr1__check_cache_get(k->results, &c->key, &value) && value.status == SR1_OK &&
            sr1__check_outcome_read(&c->outcome, &value);
    sr1__buf_free(&value);
    return found;
}

static void store_outcome(struct sr1_checker *k, const struct sr1_check *c)
{
    struct sr1__buf value;

    sr1__buf_init(&value, 0);
    sr1__check_outcome_write(&c->outcome, &value);
    if (value.status == SR1_OK)
        sr1__check_cache_put(k->results, &c->key, &value);
    sr1__buf_free(&value);
}

static sr1_status run_and_keep(struct sr1_checker *k, struct sr1_check *c,
                               int64_t *programs)
{
    double began = sr1__now();
    sr1_status status = sr1__check_tests(c, k->box, &k->limits, programs);

    c->seconds = sr1__now() - began;
    if (status == SR1_OK && k->keeps && sr1__check_outcome_lasts(&c->outcome))
        store_outcome(k, c);
    return status;
}

static sr1_status find_or_run(struct sr1_checker *k, struct sr1_check *c,
                              int64_t *programs)
{
    sr1_status status = SR1_OK;

    if (is_cancelled(c))
        return sr1__check_fail_cancelled();
    if (!k->keeps)
        return run_and_keep(k, c, programs);
    SR1__TRY(write_check_key(k, c));
    SR1__TRY(begin_to_lead(k, c));
    c->cached = find_cached_outcome(k, c);
    if (!c->cached)
        status = run_and_keep(k, c, programs);
    end_to_lead(k, c);
    return status;
}

/* Like a failure of the sandbox, a failure of the library gives no information about the
 * program. */
static void set_check_failure(struct sr1_check *c, sr1_status status)
{
    struct sr1__check_outcome *o = &c->outcome;
    int32_t verdict = status == SR1_E_CANCELLED || is_cancelled(c)
                          ? SR1_RUN_CANCELLED
                          : SR1_RUN_INFRASTRUCTURE;

    sr1__check_outcome_rest(o, 0, verdict);
    sr1__check_outcome_sum_up(o);
    sr1__buf_clear(&o->got);
    sr1__buf_clear(&o->error);
    sr1__buf_str(&o->error, sr1_last_error());
}

static void finish_check(struct sr1_checker *k, struct sr1_check *c, int64_t programs)
{
    struct sr1_check **at;

    pthread_mutex_lock(&k->lock);
    for (at = &k->checks; *at != c;)
        at = &(*at)->next;
    *at = c->next;
    k->stats.checks++;
    k->stats.cached += c->cached;
    k->stats.programs += programs;
    k->stats.infrastructure += c->outcome.verdict == SR1_RUN_INFRASTRUCTURE;
    k->stats.seconds += c->seconds;
    k->stats.judged_inside += c->outcome.inside;
    pthread_mutex_unlock(&k->lock);
    pthread_mutex_lock(&c->lock);
    c->done = 1;
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
    sr1__check_drop_ref(c);
}

void sr1__check_work(void *arg)
{
    struct sr1_check *c = arg;
    int64_t programs = 0;
    sr1_status status = find_or_run(c->checker, c, &programs);

    if (status != SR1_OK)
        set_check_failure(c, status);
    finish_check(c->checker, c, programs);
}
