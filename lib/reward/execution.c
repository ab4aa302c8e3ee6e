/* reward/execution.c - rewards by running code: does the answer pass its tests, does a
 * critique say of an answer what its tests say?
 *
 * Programs begin to run when a trajectory is finished (begin) and are waited for when it
 * is scored; trajectories nobody began are begun then, all of a call before the first is
 * waited for. */
#include "reward/execution.h"

#include "base/log.h"
#include "base/mem.h"
#include "reward/context.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- what is under way ---- */

struct item {
    sr1_trajectory *t; /* a reference, so that no other one takes its address */
    sr1_check *check;  /* NULL: nothing has to run, no test is passed */
    int32_t judged;    /* SR1_JUDGEMENT_* of the critique */
};

struct sr1__checks {
    pthread_mutex_t lock;
    struct item *items;
    size_t n;
    size_t cap;
};

/* Begin what one trajectory needs. */
typedef sr1_status (*start_fn)(const struct sr1__execution *x, const sr1_trajectory *t,
                               struct item *item);

static sr1_status make_checks(struct sr1__checks **checks)
{
    if (*checks != NULL)
        return SR1_OK;
    *checks = sr1__calloc(1, sizeof(**checks));
    if (*checks == NULL)
        return sr1__fail_nomem("programs of a reward");
    pthread_mutex_init(&(*checks)->lock, NULL);
    return SR1_OK;
}

static void drop(struct item *item)
{
    sr1_check_free(item->check);
    sr1_trajectory_free(item->t);
}

static void forget(struct sr1__checks *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->n; i++)
        drop(&c->items[i]);
    c->n = 0;
    pthread_mutex_unlock(&c->lock);
}

static void free_checks(struct sr1__checks *c)
{
    if (c == NULL)
        return;
    forget(c);
    pthread_mutex_destroy(&c->lock);
    sr1__free(c->items);
    sr1__free(c);
}

static sr1_status add(struct sr1__checks *c, const struct item *item)
{
    if (c->n == c->cap) {
        size_t cap = c->cap > 0 ? 2 * c->cap : 64;
        struct item *items = sr1__realloc(c->items, cap, sizeof(*items));

        if (items == NULL)
            return sr1__fail_nomem("programs of a reward");
        c->items = items;
        c->cap = cap;
    }
    c->items[c->n++] = *item;
    return SR1_OK;
}

static struct item *find(struct sr1__checks *c, const sr1_trajectory *t)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->items[i].t == t)
            return &c->items[i];
    return NULL;
}

static sr1_status begin(const struct sr1__execution *x, struct sr1__checks *c,
                        start_fn start, sr1_trajectory *t)
{
    struct item item = {0};
    sr1_status status = SR1_OK;

    pthread_mutex_lock(&c->lock);
    if (find(c, t) == NULL) {
        status = start(x, t, &item);
        item.t = sr1_trajectory_retain(t);
        if (status == SR1_OK)
            status = add(c, &item);
        if (status != SR1_OK)
            drop(&item);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- what a trajectory says ---- */

/* The last segment of a source; 0 when there is none. */
static int last_segment(const sr1_trajectory *t, int32_t source, const char **text,
                        size_t *n)
{
    sr1_text_segment s = {.struct_size = sizeof(s)};

    for (size_t i = sr1_trajectory_segment_count(t); i-- > 0;) {
        if (sr1_trajectory_segment(t, i, &s) == SR1_OK && s.source == source) {
            *text = sr1_trajectory_generated_text(t, NULL) + s.body_begin;
            *n = s.body_len;
            return 1;
        }
    }
    return 0;
}

static void find_answer(const sr1_trajectory *t, const char **text, size_t *n)
{
    *text = "";
    *n = 0;
    if (last_segment(t, SR1_SOURCE_ENVIRONMENT, text, n))
        return;
    if (sr1_trajectory_search_count(t) > 0) /* what came back found no room */
        return;
    *text = sr1_trajectory_final_answer(t, n);
    if (*n == 0)
        last_segment(t, SR1_SOURCE_POLICY, text, n);
}

static int32_t judgement_of(const sr1_trajectory *t)
{
    const char *text = "";
    size_t n = 0;

    last_segment(t, SR1_SOURCE_POLICY, &text, &n);
    return sr1_critique_judgement(text, n);
}

static sr1_status problem_of(const struct sr1__execution *x, const sr1_trajectory *t,
                             const sr1_problem **out)
{
    const char *id = sr1_trajectory_query_id(t);

    *out = sr1_problems_find(x->problems, id);
    if (*out != NULL)
        return SR1_OK;
    return sr1__fail(SR1_E_NOT_FOUND,
                     "question '%.64s' is none of the problems; its id must be one of "
                     "code_problems",
                     id);
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
static sr1_status submit(const struct sr1__execution *x, const sr1_problem *problem,
                         const char *text, size_t n, sr1_check **out)
{
    sr1_status status =
        sr1_checker_submit(x->checker, problem, SR1_CHECK_TEXT, text, n, out);

    return status == SR1_E_LIMIT && is_too_long(text, n) ? SR1_OK : status;
}

static sr1_status start_execution(const struct sr1__execution *x, const sr1_trajectory *t,
                                  struct item *item)
{
    const sr1_problem *problem;
    const char *text;
    size_t n;

    SR1__TRY(problem_of(x, t, &problem));
    if (x->judgement_required && (judgement_of(t) == SR1_JUDGEMENT_NONE ||
                                  !last_segment(t, SR1_SOURCE_ENVIRONMENT, &text, &n)))
        return SR1_OK;
    find_answer(t, &text, &n);
    return submit(x, problem, text, n, &item->check);
}

static sr1_status start_judgement(const struct sr1__execution *x, const sr1_trajectory *t,
                                  struct item *item)
{
    const sr1_problem *problem;
    const char *solution;

    SR1__TRY(problem_of(x, t, &problem));
    solution = sr1_problem_solution(problem);
    if (solution == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "reward 'judgement': problem '%.64s' has no \"solution\" that "
                         "could be judged",
                         sr1_problem_id(problem));
    item->judged = judgement_of(t);
    if (item->judged == SR1_JUDGEMENT_NONE)
        return SR1_OK;
    return submit(x, problem, solution, strlen(solution), &item->check);
}

/* ---- scoring ---- */

/* What its check says; NaN: nothing is known. */
static sr1_status collect(const struct item *item, int judges, double *out)
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

static void remove_item(struct sr1__checks *c, struct item *item)
{
    struct item gone = *item;

    *item = c->items[--c->n];
    drop(&gone);
}

/* Nobody begins or forgets while a set is scored: items stay where they are. */
static sr1_status score(const struct sr1__execution *x, struct sr1__checks *c,
                        start_fn start, const sr1_trajectory *const *t, size_t n,
                        double *out)
{
    /* a reference to it changes nothing that is read of it */
    for (size_t i = 0; i < n; i++)
        SR1__TRY(begin(x, c, start, (sr1_trajectory *)(uintptr_t)t[i]));
    for (size_t i = 0; i < n; i++) {
        struct item *item = find(c, t[i]);

        if (item == NULL) { /* one that is given twice */
            SR1__TRY(begin(x, c, start, (sr1_trajectory *)(uintptr_t)t[i]));
            item = find(c, t[i]);
        }
        SR1__TRY(collect(item, start == start_judgement, &out[i]));
        remove_item(c, item);
    }
    return SR1_OK;
}

/* ---- for the table of rewards ---- */

static struct sr1__execution *execution_of(void *self)
{
    return &((struct sr1__reward_context *)self)->execution;
}

sr1_status sr1__begin_execution(void *self, sr1_trajectory *t)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_checks(&x->execution));
    return begin(x, x->execution, start_execution, t);
}

sr1_status sr1__begin_judgement(void *self, sr1_trajectory *t)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_checks(&x->judgement));
    return begin(x, x->judgement, start_judgement, t);
}

sr1_status sr1__score_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_checks(&x->execution));
    return score(x, x->execution, start_execution, t, n, out);
}

sr1_status sr1__score_judgement(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    struct sr1__execution *x = execution_of(self);

    SR1__TRY(make_checks(&x->judgement));
    return score(x, x->judgement, start_judgement, t, n, out);
}

void sr1__forget_execution(void *self)
{
    forget(execution_of(self)->execution);
}

void sr1__forget_judgement(void *self)
{
    forget(execution_of(self)->judgement);
}

void sr1__execution_close(struct sr1__execution *x)
{
    free_checks(x->execution);
    free_checks(x->judgement);
    sr1_checker_free(x->checker);
    sr1_problems_free(x->problems);
}
