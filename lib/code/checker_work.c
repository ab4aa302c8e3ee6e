/* code/checker_work.c - what the threads of a checker do: take an answer, look whether it
 * is known, run it, keep what came of it.
 *
 * Of several equal answers under way one leads, the others wait for what comes of it. */
#include "code/checker.h"

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <string.h>

/* ---- keys ---- */

/* All that the outcome depends on, besides the answer. */
static sr1_status write_key(const struct sr1_checker *k, struct sr1_check *c)
{
    const sr1_problem *p = c->problem;

    sr1__buf_fmt(&c->key, "check 1\n%s\n%016" PRIx64 "%016" PRIx64 " %d %g %d\n",
                 sr1_sandbox_describe(k->box), p->digest[0], p->digest[1],
                 (int)k->limits.all_or_nothing, sr1__check_time(&k->limits, p),
                 (int)k->limits.memory_mib);
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

/* Wait until no equal one leads, then lead. */
static void begin_to_lead(struct sr1_checker *k, struct sr1_check *c)
{
    struct sr1_check *other;

    pthread_mutex_lock(&k->lock);
    do {
        for (other = k->taken; other != NULL && !(other->leads && same_key(other, c));)
            other = other->next;
        if (other != NULL)
            pthread_cond_wait(&k->ended, &k->lock);
    } while (other != NULL);
    c->leads = 1;
    pthread_mutex_unlock(&k->lock);
}

static void end_to_lead(struct sr1_checker *k, struct sr1_check *c)
{
    pthread_mutex_lock(&k->lock);
    c->leads = 0;
    pthread_cond_broadcast(&k->ended);
    pthread_mutex_unlock(&k->lock);
}

static int look_up(struct sr1_checker *k, struct sr1_check *c)
{
    struct sr1__buf value;
    int found;

    sr1__buf_init(&value, 0);
    found = sr1__results_get(k->results, &c->key, &value) && value.status == SR1_OK &&
            sr1__check_outcome_read(&c->outcome, &value);
    sr1__buf_free(&value);
    return found;
}

static void keep(struct sr1_checker *k, const struct sr1_check *c)
{
    struct sr1__buf value;

    sr1__buf_init(&value, 0);
    sr1__check_outcome_write(&c->outcome, &value);
    if (value.status == SR1_OK)
        sr1__results_put(k->results, &c->key, &value);
    sr1__buf_free(&value);
}

static sr1_status run_and_keep(struct sr1_checker *k, struct sr1_check *c,
                               int64_t *programs)
{
    double began = sr1__now();
    sr1_status status = sr1__check_tests(c, k->box, &k->limits, programs);

    c->seconds = sr1__now() - began;
    if (status == SR1_OK && k->keeps && sr1__check_outcome_lasts(&c->outcome))
        keep(k, c);
    return status;
}

static sr1_status find_or_run(struct sr1_checker *k, struct sr1_check *c,
                              int64_t *programs)
{
    sr1_status status = SR1_OK;

    if (is_cancelled(c))
        return sr1__fail(SR1_E_CANCELLED, "the check was cancelled");
    if (!k->keeps)
        return run_and_keep(k, c, programs);
    SR1__TRY(write_key(k, c));
    begin_to_lead(k, c);
    c->cached = look_up(k, c);
    if (!c->cached)
        status = run_and_keep(k, c, programs);
    end_to_lead(k, c);
    return status;
}

/* A failure of the library says nothing of the program, as one of the sandbox. */
static void set_failure(struct sr1_check *c, sr1_status status)
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

static void finish(struct sr1_checker *k, struct sr1_check *c, int64_t programs)
{
    struct sr1_check **at;

    pthread_mutex_lock(&k->lock);
    for (at = &k->taken; *at != c;)
        at = &(*at)->next;
    *at = c->next;
    k->stats.checks++;
    k->stats.cached += c->cached;
    k->stats.programs += programs;
    k->stats.infrastructure += c->outcome.verdict == SR1_RUN_INFRASTRUCTURE;
    k->stats.seconds += c->seconds;
    pthread_mutex_unlock(&k->lock);
    pthread_mutex_lock(&c->lock);
    c->done = 1;
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
    sr1__check_drop_ref(c);
}

static struct sr1_check *next_check(struct sr1_checker *k)
{
    struct sr1_check *c;

    pthread_mutex_lock(&k->lock);
    k->n_idle++;
    while (k->queue == NULL && !k->stop)
        pthread_cond_wait(&k->work, &k->lock);
    k->n_idle--;
    c = k->queue;
    if (c != NULL) {
        k->queue = c->next;
        k->queue_end = k->queue != NULL ? k->queue_end : &k->queue;
        k->n_queued--;
        c->next = k->taken;
        k->taken = c;
    }
    pthread_mutex_unlock(&k->lock);
    return c;
}

void *sr1__checker_work(void *arg)
{
    struct sr1_checker *k = arg;
    struct sr1_check *c;

    while ((c = next_check(k)) != NULL) {
        int64_t programs = 0;
        sr1_status status = find_or_run(k, c, &programs);

        if (status != SR1_OK)
            set_failure(c, status);
        finish(k, c, programs);
    }
    return NULL;
}
