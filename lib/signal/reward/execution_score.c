/* signal/reward/execution_score.c - rewards by running code: whether the answer passes
 * its tests, and whether a critique judges an answer as its tests do.
 *
 * A program starts when its trajectory is finished (begin), and scoring waits for it.
 * Programs that were not started by then are started by the scoring call, all of them
 * before it waits for the first. */
#include "signal/reward/execution_score.h"

#include <searchr1/ext/trajectory_details.h>

#include "base/log.h"
#include "base/mem.h"
#include "environment/code/problems.h"
#include "signal/reward/format.h"
#include "signal/reward/reward_context.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- what is under way ---- */

struct pending_check {
    sr1_trajectory *t; /* a reference, so that no other one takes its address */
    sr1_check *check;  /* NULL: nothing has to run, no test is passed */
    int32_t judged;    /* SR1_JUDGEMENT_* of the critique */
};

struct sr1__pending_checks {
    pthread_mutex_t lock;
    struct pending_check *items;
    size_t n;
    size_t cap;
};

/* Begin what one trajectory needs. */
typedef sr1_status (*start_fn)(const struct sr1__execution *x, const sr1_trajectory *t,
                               struct pending_check *item);

static sr1_status make_pending_checks(struct sr1__pending_checks **checks)
{
    if (*checks != NULL)
        return SR1_OK;
    *checks = sr1__calloc(1, sizeof(**checks));
    if (*checks == NULL)
        return sr1__fail_nomem("programs of a reward");
    pthread_mutex_init(&(*checks)->lock, NULL);
    return SR1_OK;
}

static void release_pending_check(struct pending_check *item)
{
    sr1_check_free(item->check);
    sr1_trajectory_free(item->t);
}

static void drop_pending_checks(struct sr1__pending_checks *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n; i++)
        release_pending_check(&c->items[i]);
    c->n = 0;
    pthread_mutex_unlock(&c->lock);
}

static void free_pending_checks(struct sr1__pending_checks *c)
{
    if (c == NULL)
        return;
    drop_pending_checks(c);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c->items);
    sr1__free(c);
}

static sr1_status add_pending_check(struct sr1__pending_checks *c,
                                    const struct pending_check *item)
{
    SR1__RESERVE(c->items, c->cap, c->n + 1, "programs of a reward");
    c->items[c->n++] = *item;
    return SR1_OK;
}

static struct pending_check *find_pending_check(struct sr1__pending_checks *c,
                                                const sr1_trajectory *t)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].t == t)
            return &c->items[i];
    return NULL;
}

static sr1_status begin_check(const struct sr1__execution *x,
                              struct sr1__pending_checks *c, start_fn start,
                              sr1_trajectory *t)
{
    struct pending_check item = {0};
    sr1_status status = SR1_OK;

    pthread_mutex_lock(&c->lock);
    if (find_pending_check(c, t) == NULL) {
        status = start(x, t, &item);
        item.t = sr1_trajectory_retain(t);
        if (status == SR1_OK)
            status = add_pending_check(c, &item);
        if (status != SR1_OK)
            release_pending_check(&item);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- the texts of a trajectory ---- */

/* The last revision; "" where it found no room. 0: no critique was answered. */
static int find_revision(const sr1_trajectory *t, struct sr1__str *text)
{
    struct sr1__str inserted = sr1__last_segment(t, SR1_SOURCE_ENVIRONMENT);

    *text = inserted.s != NULL ? inserted : sr1__str_of("");
    return inserted.s != NULL || sr1_trajectory_search_count(t) > 0;
}

static struct sr1__str find_program_text(const struct sr1__execution *x,
                                         const sr1_trajectory *t)
{
    struct sr1__str revision;

    return x->revised && find_revision(t, &revision) ? revision
                                                     : sr1__answer_or_message(t);
}

static int32_t judgement_of(const sr1_trajectory *t)
{
    struct sr1__str said = sr1__last_segment(t, SR1_SOURCE_POLICY);

    return sr1_critique_judgement(said.s ? said.s : "", said.n);
}

/* Does a text hold a program that is too long? */
static int is_too_long(const char *text, size_t n)
{
    char *code = NULL;
    size_t len;
    sr1_status status = sr1_code_extract(text, n, &code, &len, NULL);

    sr1_free(code);
    return status == SR1_E_LIMIT;
}

/* A program that is too long passes nothing, and is not run. */
static sr1_status submit_program(const struct sr1__execution *x,
                                 const sr1_problem *problem, const char *text, size_t n,
                                 sr1_check **out)
{
    sr1_status status =
        sr1_checker_submit(x->checker, problem, SR1_CHECK_TEXT, text, n, out);

    return status == SR1_E_LIMIT && is_too_long(text, n) ? SR1_OK : status;
}

static sr1_status start_execution(const struct sr1__execution *x, const sr1_trajectory *t,
                                  struct pending_check *item)
{
    const sr1_problem *problem;
    struct sr1__str text;

    SR1__TRY(sr1__problem_of_question(&problem, x->problems, sr1_trajectory_query_id(t)));
    if (x->judgement_required && (judgement_of(t) == SR1_JUDGEMENT_NONE ||
                                  !sr1__last_segment(t, SR1_SOURCE_ENVIRONMENT).s))
        return SR1_OK;
    text = find_program_text(x, t);
    return submit_program(x, problem, text.s, text.n, &item->check);
}

static sr1_status start_judgement(const struct sr1__execution *x, const sr1_trajectory *t,
                                  struct pending_check *item)
{
    const sr1_problem *problem;
    const char *solution;

    SR1__TRY(sr1__problem_of_question(&problem, x->problems, sr1_trajectory_query_id(t)));
    solution = sr1_problem_solution(problem);
    if (solution == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "reward 'judgement': problem '%.64s' has no \"solution\" that "
                         "could be judged",
                         sr1_problem_id(problem));
    item->judged = judgement_of(t);
    if (item->judged == SR1_JUDGEMENT_NONE)
        return SR1_OK;
    return submit_program(x, problem, solution, strlen(solution), &item->check);
}

/* ---- scoring ---- */

/* The score of its check; NaN: the result is unknown. */
static sr1_status score_pending_check(const struct pending_check *item, int judges,
                                      double *out)
{
    sr1_check_report r = {.struct_size = sizeof(r)};
    int correct;

    *out = judges && item->judged == SR1_JUDGEMENT_INCORRECT;
    if (item->check == NULL)
        return SR1_OK;
    SR1__TRY(sr1_check_wait(item->check, -1));
    SR1__TRY(sr1_check_report_get(item->check, &r));
    correct = r.verdict == SR1_RUN_PASSED;
    if (r.verdict == SR1_RUN_INFRASTRUCTURE || r.verdict == SR1_RUN_CANCELLED) {
        sr1__log(SR1_LOG_WARN, "a program could not be run: %s", r.error);
        *out = NAN;
    } else if (judges) {
        *out = (item->judged == SR1_JUDGEMENT_CORRECT) == correct;
    } else {
        *out = r.pass_rate;
    }
    return SR1_OK;
}

static void remove_pending_check(struct sr1__pending_checks *c,
                                 struct pending_check *item)
{
    struct pending_check gone = *item;

    *item = c->items[--c->n];
    release_pending_check(&gone);
}

/* No other thread may begin or forget checks while a set is scored, so items keep their
 * addresses. */
static sr1_status score_by_checks(const struct sr1__execution *x,
                                  struct sr1__pending_checks *c, start_fn start,
                                  const sr1_trajectory *const *t, size_t n, double *out)
{
    /* a reference to it changes nothing that is read of it */
    for (size_t i = 0; i < n; i++)
        SR1__TRY(begin_check(x, c, start, (sr1_trajectory *)(uintptr_t)t[i]));
    for (size_t i = 0; i < n; i++) {
        struct pending_check *item = find_pending_check(c, t[i]);

        if (item == NULL) { /* one that is given twice */
            SR1__TRY(begin_check(x, c, start, (sr1_trajectory *)(uintptr_t)t[i]));
            item = find_pending_check(c, t[i]);
        }
        SR1__TRY(score_pending_check(item, start == start_judgement, &out[i]));
        remove_pending_check(c, item);
    }
    return SR1_OK;
}

/* ---- for the table of rewards ---- */

static struct sr1__execution *execution_of(void *self)
{
    return &((struct sr1__reward_context *)self)->execution;
}

sr1_status sr1__execution_begin(void *self, sr1_trajectory *t)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_pending_checks(&x->execution));
    return begin_check(x, x->execution, start_execution, t);
}

sr1_status sr1__judgement_begin(void *self, sr1_trajectory *t)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_pending_checks(&x->judgement));
    return begin_check(x, x->judgement, start_judgement, t);
}

sr1_status sr1__score_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_pending_checks(&x->execution));
    return score_by_checks(x, x->execution, start_execution, t, n, out);
}

sr1_status sr1__score_judgement(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_pending_checks(&x->judgement));
    return score_by_checks(x, x->judgement, start_judgement, t, n, out);
}

void sr1__execution_forget(void *self)
{
    drop_pending_checks(execution_of(self)->execution);
}

void sr1__judgement_forget(void *self)
{
    drop_pending_checks(execution_of(self)->judgement);
}

void sr1__execution_close(struct sr1__execution *x)
{
    free_pending_checks(x->execution);
    free_pending_checks(x->judgement);
    sr1_checker_free(x->checker);
    sr1_problems_free(x->problems);
}
