/* environment/code/checker.c - checkers: options, and answers that are handed to the
 * threads of an executor (checker_work.c has their work). */
#include "environment/code/checker.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "environment/code/tester.h"
#include "environment/sandbox/sandbox_engine.h"

#include <inttypes.h>
#include <string.h>

#define THREADS_DEFAULT 64
#define THREADS_MAX 1024
#define CONCURRENCY_DEFAULT 4
#define ENTRIES_DEFAULT 65536
#define ENTRIES_MAX ((int64_t)1 << 24)
#define MAX_TIME_DEFAULT 60.0
#define CODE_MAX ((size_t)1 << 20)
#define MEMORY_LEAST ((int64_t)16 << 20)

/* ---- submitting ---- */

static sr1_status take_code(struct sr1_check *c, int32_t form, const char *text,
                            size_t len)
{
    struct sr1__buf b;

    if (form == SR1_CHECK_TEXT)
        return sr1_code_extract(text, len, &c->code, &c->code_len, NULL);
    if (form != SR1_CHECK_PROGRAM)
        return sr1__fail(SR1_E_INVALID, "check: form %d is no SR1_CHECK_*", (int)form);
    sr1__buf_init(&b, CODE_MAX);
    sr1__buf_utf8(&b, text, len);
    c->code_len = b.len;
    return sr1__buf_finish(&b, "program", &c->code);
}

static sr1_status make_check(struct sr1_check *c, struct sr1_checker *k,
                             const sr1_problem *p, int32_t form, const char *text,
                             size_t len)
{
    sr1__cond_init(&c->ended);
    pthread_mutex_init(&c->lock, NULL);
    atomic_init(&c->references, 1);
    sr1__buf_init(&c->key, 0);
    c->checker = k;
    c->all_or_nothing = k->limits.all_or_nothing;
    c->task = (struct sr1__task){.run = sr1__check_work, .arg = c};
    c->problem = p;
    c->problems = sr1_problems_retain(p->set);
    c->n_runs = p->style == SR1_CODE_STDIO ? k->limits.concurrency : 1;
    SR1__CALLOC(c->runs, c->n_runs, "check");
    SR1__TRY(sr1__check_outcome_init(&c->outcome, p->n_tests));
    SR1__TRY(take_code(c, form, text, len));
    c->outcome.text = sr1__hash64(c->code, c->code_len, 0);
    return SR1_OK;
}

static sr1_status queue_check(struct sr1_checker *k, struct sr1_check *c)
{
    sr1_status status;

    pthread_mutex_lock(&k->lock);
    status = sr1__executor_post(k->executor, &c->task);
    if (status == SR1_OK) {
        atomic_fetch_add(&c->references, 1);
        c->next = k->checks;
        k->checks = c;
    }
    pthread_mutex_unlock(&k->lock);
    return status;
}

static sr1_status refuse_inside(const struct sr1_checker *k, const sr1_problem *p)
{
    if (p->style == SR1_CODE_STDIO || k->limits.inside_allowed ||
        sr1__sandbox_takes_sockets(k->box))
        return SR1_OK;
    return sr1__fail(
        SR1_E_UNSUPPORTED,
        "check: the tests of problem '%.64s' are statements or calls, which "
        "a service can judge only inside the answer's own process, where the "
        "answer can say anything: take a local sandbox, or allow it with "
        "code_judge: any",
        p->id);
}

sr1_status sr1_checker_submit(sr1_checker *checker, const sr1_problem *problem,
                              int32_t form, const char *text, size_t len, sr1_check **out)
{
    struct sr1_check *c;
    sr1_status status;

    if (checker == NULL || problem == NULL || text == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "check: checker, problem, text and out are needed");
    SR1__TRY(refuse_inside(checker, problem));
    SR1__CALLOC(c, 1, "check");
    status = make_check(c, checker, problem, form, text, len);
    if (status == SR1_OK)
        status = queue_check(checker, c);
    SR1__RETURN_NEW(out, c, status, sr1__check_drop_ref);
}

sr1_status sr1_checker_run(sr1_checker *checker, const sr1_problem *problem, int32_t form,
                           const char *text, size_t len, sr1_check **out)
{
    SR1__TRY(sr1_checker_submit(checker, problem, form, text, len, out));
    return sr1_check_wait(*out, -1);
}

void sr1_check_free(sr1_check *check)
{
    if (check == NULL)
        return;
    sr1_check_cancel(check);
    sr1__check_drop_ref(check);
}

/* ---- a checker ---- */

void sr1_checker_options_init(sr1_checker_options *options)
{
    static const sr1_checker_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_checker_options(sr1_checker_options *o,
                                       const sr1_checker_options *given)
{
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_checker_options, struct_size),
                              "checker options"));
    if (!(o->time_limit >= 0 && o->max_time_limit >= 0 && o->time_limit <= 3600 &&
          o->max_time_limit <= 3600))
        return sr1__fail(SR1_E_INVALID, "checker: a time limit is not within 0 and 3600");
    if ((o->memory_limit != 0 && o->memory_limit < MEMORY_LEAST) ||
        o->memory_limit > ((int64_t)1 << 40) || o->concurrency < 0 ||
        o->concurrency > 1024 || o->threads < 0 || o->threads > THREADS_MAX ||
        o->cache_entries < -1 || o->cache_entries > ENTRIES_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "checker: memory_limit (from 16 MiB), concurrency (to 1024), "
                         "threads (to %d) or cache_entries (to %" PRId64
                         ") is out of range",
                         THREADS_MAX, ENTRIES_MAX);
    if (o->judge != NULL && strcmp(o->judge, "outside") != 0 &&
        strcmp(o->judge, "any") != 0)
        return sr1__fail(SR1_E_INVALID, "checker: judge is '%.40s', not outside or any",
                         o->judge);
    return SR1_OK;
}

/* The interpreter that runs programs must also compute their normal form, because other
 * versions may give equal forms to other texts. If the interpreter is not known, the
 * exact text is the key. */
static sr1_status open_normaliser(struct sr1_checker *k, const char *interpreter)
{
    if (interpreter == NULL)
        interpreter = sr1__sandbox_interpreter(k->box);
    return sr1__code_normaliser_new(&k->normaliser,
                                    interpreter != NULL ? interpreter : "");
}

static sr1_status configure_checker(struct sr1_checker *k, sr1_sandbox *box,
                                    const sr1_checker_options *o)
{
    k->limits.all_or_nothing = o->all_or_nothing != 0;
    k->limits.time_limit = o->time_limit;
    k->limits.max_time_limit =
        o->max_time_limit > 0 ? o->max_time_limit : MAX_TIME_DEFAULT;
    k->limits.memory_mib = (int32_t)((o->memory_limit + (1 << 20) - 1) >> 20);
    k->limits.value_bytes =
        o->memory_limit > 0 ? o->memory_limit : sr1__sandbox_memory(box);
    k->limits.concurrency =
        (size_t)(o->concurrency > 0 ? o->concurrency : CONCURRENCY_DEFAULT);
    k->keeps = o->cache_entries >= 0;
    k->limits.inside_allowed = o->judge != NULL && strcmp(o->judge, "any") == 0;
    k->box = sr1_sandbox_retain(box);
    SR1__TRY(sr1__tester_new(&k->limits.tester, box));
    SR1__TRY(sr1__executor_new(&k->executor, "checker",
                               (size_t)(o->threads > 0 ? o->threads : THREADS_DEFAULT),
                               0));
    if (!k->keeps)
        return SR1_OK;
    SR1__TRY(open_normaliser(k, o->python));
    return sr1__check_cache_new(&k->results, o->cache_folder,
                                o->cache_entries > 0 ? o->cache_entries
                                                     : ENTRIES_DEFAULT);
}

sr1_status sr1_checker_new(sr1_checker **out, sr1_sandbox *sandbox,
                           const sr1_checker_options *options)
{
    sr1_checker_options o = {.struct_size = sizeof(o)};
    struct sr1_checker *k;

    if (out == NULL || sandbox == NULL)
        return sr1__fail(SR1_E_INVALID, "checker: out and a sandbox are needed");
    SR1__TRY(read_checker_options(&o, options));
    SR1__CALLOC(k, 1, "checker");
    atomic_init(&k->references, 1);
    pthread_mutex_init(&k->lock, NULL);
    sr1__cond_init(&k->ended);
    SR1__RETURN_NEW(out, k, configure_checker(k, sandbox, &o), sr1_checker_free);
}

sr1_checker *sr1_checker_retain(sr1_checker *checker)
{
    if (checker != NULL)
        atomic_fetch_add(&checker->references, 1);
    return checker;
}

/* What is cancelled goes through the queue quickly. */
static void cancel_all_checks(struct sr1_checker *k)
{
    pthread_mutex_lock(&k->lock);
    for (struct sr1_check *c = k->checks; c != NULL; c = c->next)
        sr1_check_cancel(c);
    pthread_mutex_unlock(&k->lock);
}

void sr1_checker_free(sr1_checker *checker)
{
    if (checker == NULL || atomic_fetch_sub(&checker->references, 1) > 1)
        return;
    cancel_all_checks(checker);
    sr1__executor_free(checker->executor);
    sr1__check_cache_free(checker->results);
    sr1__code_normaliser_free(checker->normaliser);
    sr1__tester_free(checker->limits.tester);
    sr1_sandbox_free(checker->box);
    pthread_cond_destroy(&checker->ended);
    pthread_mutex_destroy(&checker->lock);
    sr1__free(checker);
}

sr1_status sr1_checker_stats_get(const sr1_checker *checker, sr1_checker_stats *out)
{
    struct sr1_checker *k = (struct sr1_checker *)(uintptr_t)checker; /* for its lock */
    sr1_checker_stats s;

    SR1__REQUIRE(checker != NULL, "checker stats: checker");
    pthread_mutex_lock(&k->lock);
    s = k->stats;
    pthread_mutex_unlock(&k->lock);
    s.struct_size = sizeof(s);
    return sr1__struct_give(out, &s, sizeof(s), "checker stats");
}
