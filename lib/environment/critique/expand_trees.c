/* environment/critique/expand_trees.c - expand revision trees: first answers by a solver,
 * then layer by layer a critique of each answer (of several, one that agrees with the
 * majority) and its revision. Work is done in chunks of WHOLE jobs, so finished nodes
 * stay when a call is stopped. */
#include "environment/critique/critique_conversations.h"
#include "environment/critique/revision_trees.h"
#include "environment/critique/execution_feedback.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

#define CHUNK 64 /* nodes made at once */

/* A node to be made. */
struct node_job {
    size_t parent;
    int32_t sample; /* which child */
    char *solution; /* NULL: not to be had */
    char *critique;
    int32_t judgement, verdict;
    double pass_rate;
    sr1_check *check;
};

struct expansion {
    struct sr1_revision_trees *f;
    struct node_job jobs[CHUNK];
    size_t n;
    int64_t missing, done, total;
    char phase[32];
};

static void clear_jobs(struct expansion *w)
{
    for (size_t i = 0; i < w->n; i++) {
        sr1_free(w->jobs[i].solution);
        sr1_free(w->jobs[i].critique);
        sr1_check_free(w->jobs[i].check);
    }
    w->n = 0;
}

static sr1_status report_expansion(const struct expansion *w)
{
    const sr1_revision_tree_options *o = &w->f->o;

    return o->progress ? o->progress(o->user, w->phase, w->done, w->total) : SR1_OK;
}

static const struct sr1__revision_node *job_parent(const struct expansion *w,
                                                   const struct node_job *j)
{
    return &w->f->nodes[j->parent];
}

/* ---- asking generators ---- */

/* One text for each of count conversations; NULL where the generator failed. */
static sr1_status generate_texts(sr1_generator *generator,
                                 const struct sr1__conversations *a, char **texts)
{
    return sr1_generator_generate(generator, a->c, a->n, texts, NULL);
}

/* ---- first answers ---- */

static sr1_status copy_problem_solutions(struct expansion *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const sr1_problem *p = job_parent(w, &w->jobs[i])->problem;
        const char *text = sr1_problem_solution(p);

        if (!text)
            return sr1__fail(SR1_E_INVALID,
                             "problem '%.64s' has no \"solution\"; name a solver that "
                             "writes one (sr1-eval --solver FOLDER)",
                             sr1_problem_id(p));
        w->jobs[i].solution = sr1__strdup(text);
        SR1__CHECK_ALLOC(w->jobs[i].solution, "answers");
    }
    return SR1_OK;
}

static sr1_status build_solve_conversations(struct expansion *w,
                                            struct sr1__conversations *a)
{
    for (size_t i = 0; i < w->n; i++) {
        const sr1_problem *p = job_parent(w, &w->jobs[i])->problem;
        char *prompt = NULL;

        SR1__TRY(sr1_critique_solve_prompt(w->f->o.style, p, &prompt));
        sr1__conversations_set_prompt(a, i, prompt, sr1_problem_id(p), w->jobs[i].sample);
    }
    return SR1_OK;
}

static sr1_status generate_first_answers(struct expansion *w)
{
    char *texts[CHUNK] = {NULL};
    struct sr1__conversations a;
    sr1_status st;

    if (!w->f->o.solver)
        return copy_problem_solutions(w);
    st = sr1__conversations_init(&a, w->n);
    if (st == SR1_OK)
        st = build_solve_conversations(w, &a);
    if (st == SR1_OK)
        st = generate_texts(w->f->o.solver, &a, texts);
    for (size_t i = 0; i < w->n; i++)
        w->jobs[i].solution = texts[i];
    sr1__conversations_free(&a);
    return st;
}

/* ---- critiques ---- */

/* The hint for an answer that was run without a checker. */
static sr1_status build_feedback_from_verdict(const struct sr1__revision_node *n,
                                              char **out)
{
    int64_t tests = (int64_t)sr1_problem_test_count(n->problem);
    struct sr1__execution_facts f = {.verdict = n->verdict,
                                     .tests = tests,
                                     .passed =
                                         (int64_t)(n->pass_rate * (double)tests + 0.5),
                                     .input = {"", 0},
                                     .expected = {"", 0},
                                     .got = {"", 0},
                                     .error = "",
                                     .code = ""};
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 0);
    sr1__execution_feedback_append(&b, &f);
    st = sr1__buf_status(&b, "hint");
    if (st == SR1_OK && !(*out = sr1__buf_take(&b)))
        st = sr1__fail_nomem("hint");
    sr1__buf_free(&b);
    return st;
}

/* 1 if there is more information than the verdict. */
static int has_details(const struct sr1__revision_node *n)
{
    return n->verdict == SR1_RUN_WRONG || n->verdict == SR1_RUN_RUNTIME_ERROR;
}

/* Run the answer again to describe its failure (the checker caches the earlier result);
 * if that fails, use feedback built from the stored verdict. */
static sr1_status build_execution_feedback(const struct expansion *w,
                                           const struct sr1__revision_node *n, char **out)
{
    sr1_check *c = NULL;
    sr1_check_report r = {.struct_size = sizeof(r)};
    size_t len = strlen(n->solution);
    sr1_status st;

    if (!w->f->o.checker || !has_details(n))
        return build_feedback_from_verdict(n, out);
    SR1__TRY(sr1_checker_run(w->f->o.checker, n->problem, SR1_CHECK_TEXT, n->solution,
                             len, &c));
    st = sr1_check_report_get(c, &r);
    if (st == SR1_OK && r.verdict == n->verdict)
        st = sr1_critique_execution_feedback(n->problem, n->solution, len, c, out);
    else if (st == SR1_OK)
        st = build_feedback_from_verdict(n, out);
    sr1_check_free(c);
    return st;
}

/* The critic's prompt for an answer. */
static sr1_status build_hinted_critique_prompt(const struct expansion *w,
                                               const struct sr1__revision_node *n,
                                               char **out)
{
    char *hint = NULL;
    sr1_status st = w->f->o.hints ? build_execution_feedback(w, n, &hint) : SR1_OK;

    if (st == SR1_OK)
        st = sr1_critique_prompt(w->f->o.style, n->problem, n->solution,
                                 strlen(n->solution), hint, out);
    sr1_free(hint);
    return st;
}

static sr1_status build_critique_conversations(struct expansion *w,
                                               struct sr1__conversations *a,
                                               int32_t votes)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct node_job *j = &w->jobs[i / (size_t)votes];
        const struct sr1__revision_node *parent = job_parent(w, j);
        char *prompt = NULL;

        SR1__TRY(build_hinted_critique_prompt(w, parent, &prompt));
        sr1__conversations_set_prompt(a, i, prompt, parent->hash,
                                      j->sample * votes + (int32_t)(i % (size_t)votes));
    }
    return SR1_OK;
}

/* The majority judgement; of two equally frequent ones the first. */
static int32_t find_majority_judgement(char *const *texts, int32_t votes)
{
    int32_t count[3] = {0}, best = -1;

    for (int32_t v = 0; v < votes; v++)
        if (texts[v])
            count[sr1_critique_judgement(texts[v], strlen(texts[v]))]++;
    for (int32_t v = 0; v < votes; v++) {
        int32_t k = texts[v] ? sr1_critique_judgement(texts[v], strlen(texts[v])) : -1;

        if (k >= 0 && (best < 0 || count[k] > count[best]))
            best = k;
    }
    return best;
}

/* Take one of texts[votes] that judges as most of them do, drawn evenly; the others are
 * freed. */
static void select_majority_critique(struct expansion *w, struct node_job *j,
                                     char **texts, int32_t votes)
{
    const struct sr1__revision_node *parent = job_parent(w, j);
    int32_t judged = find_majority_judgement(texts, votes);
    uint64_t seen = 0;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, sr1__hash64(parent->hash, SR1__REVISION_NODE_HASH, w->f->o.seed),
                  (uint64_t)j->sample);
    for (int32_t v = 0; v < votes; v++) {
        int fits =
            texts[v] && sr1_critique_judgement(texts[v], strlen(texts[v])) == judged;

        if (fits && sr1__rng_below(&rng, ++seen) == 0) {
            sr1_free(j->critique);
            j->critique = texts[v];
        } else {
            sr1_free(texts[v]);
        }
    }
    j->judgement = judged < 0 ? SR1_JUDGEMENT_NONE : judged;
}

static sr1_status generate_critiques(struct expansion *w)
{
    int32_t votes = w->f->o.votes;
    size_t n = w->n * (size_t)votes;
    char **texts = sr1__calloc(n, sizeof(*texts));
    struct sr1__conversations a;
    sr1_status st = sr1__conversations_init(&a, n);

    if (st == SR1_OK && !texts)
        st = sr1__fail_nomem("critiques");
    if (st == SR1_OK)
        st = build_critique_conversations(w, &a, votes);
    if (st == SR1_OK)
        st = generate_texts(w->f->o.critic, &a, texts);
    for (size_t i = 0; st == SR1_OK && i < w->n; i++)
        select_majority_critique(w, &w->jobs[i], texts + i * (size_t)votes, votes);
    sr1__conversations_free(&a);
    sr1__free(texts);
    return st;
}

/* ---- revisions ---- */

/* The jobs that have a critique, of[k] the k-th of them. */
static size_t list_jobs_with_critique(const struct expansion *w, size_t of[CHUNK])
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        if (w->jobs[i].critique)
            of[n++] = i;
    return n;
}

static sr1_status generate_node_revisions(struct expansion *w)
{
    char *texts[CHUNK] = {NULL};
    size_t of[CHUNK], n = list_jobs_with_critique(w, of);
    struct sr1__conversations a;
    sr1_status st = sr1__conversations_init(&a, n);

    for (size_t k = 0; k < n && st == SR1_OK; k++) {
        const struct node_job *j = &w->jobs[of[k]];
        const struct sr1__revision_node *parent = job_parent(w, j);

        st = sr1__conversations_set_revision(&a, k, w->f->o.style, parent->problem,
                                             parent->solution, strlen(parent->solution),
                                             j->critique, strlen(j->critique), j->sample);
    }
    if (st == SR1_OK)
        st = generate_texts(w->f->o.reviser, &a, texts);
    for (size_t k = 0; k < n; k++)
        w->jobs[of[k]].solution = texts[k];
    sr1__conversations_free(&a);
    return st;
}

/* ---- running answers ---- */

static sr1_status submit_solutions(struct expansion *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct node_job *j = &w->jobs[i];

        if (j->solution)
            SR1__TRY(sr1_checker_submit(w->f->o.checker, job_parent(w, j)->problem,
                                        SR1_CHECK_TEXT, j->solution, strlen(j->solution),
                                        &j->check));
    }
    return SR1_OK;
}

/* A program longer than any may be is none: as if the generator had failed. */
static sr1_status drop_too_long(struct expansion *w)
{
    for (size_t i = 0; i < w->n; i++) {
        char *shown = NULL;
        sr1_status st = SR1_OK;

        if (w->jobs[i].solution)
            st = sr1_critique_sanitize(w->jobs[i].solution, strlen(w->jobs[i].solution),
                                       &shown);
        sr1_free(shown);
        if (st == SR1_E_LIMIT) {
            sr1_free(w->jobs[i].solution);
            w->jobs[i].solution = NULL;
        } else if (st != SR1_OK) {
            return st;
        }
    }
    return SR1_OK;
}

/* All run at once; the checker bounds how many really do. */
static sr1_status check_solutions(struct expansion *w)
{
    const char *why = "";
    size_t unknown = 0;

    SR1__TRY(submit_solutions(w));
    for (size_t i = 0; i < w->n; i++) {
        sr1_check_report r = {.struct_size = sizeof(r)};

        if (!w->jobs[i].check)
            continue;
        SR1__TRY(sr1_check_wait(w->jobs[i].check, -1.0));
        SR1__TRY(sr1_check_report_get(w->jobs[i].check, &r));
        w->jobs[i].verdict = r.verdict;
        w->jobs[i].pass_rate = r.pass_rate;
        if (r.verdict == SR1_RUN_INFRASTRUCTURE && unknown++ == 0)
            why = r.error;
    }
    if (unknown > 0)
        sr1__log(SR1_LOG_WARN, "%zu of %zu programs could not be run: %.500s", unknown,
                 w->n, why);
    return SR1_OK;
}

/* The caller's own way to run one. */
static sr1_status run_solution_by_callback(const sr1_revision_tree_options *o,
                                           const sr1_problem *problem, struct node_job *j)
{
    SR1__TRY(o->run(o->user, problem, j->solution, strlen(j->solution), &j->verdict,
                    &j->pass_rate));
    if (j->verdict < SR1_RUN_PASSED || j->verdict > SR1_RUN_CANCELLED ||
        !(j->pass_rate >= 0 && j->pass_rate <= 1))
        return sr1__fail(
            SR1_E_CALLBACK,
            "revision trees: run gave the verdict %d and the pass rate %g of an "
            "answer to '%.64s'",
            (int)j->verdict, j->pass_rate, sr1_problem_id(problem));
    return SR1_OK;
}

static sr1_status run_solutions(struct expansion *w)
{
    const sr1_revision_tree_options *o = &w->f->o;

    if (o->checker)
        return check_solutions(w);
    for (size_t i = 0; i < w->n; i++)
        if (w->jobs[i].solution)
            SR1__TRY(run_solution_by_callback(o, job_parent(w, &w->jobs[i])->problem,
                                              &w->jobs[i]));
    return SR1_OK;
}

/* ---- layers ---- */

static int has_verdict(const struct node_job *j)
{
    return j->solution && j->verdict != SR1_RUN_INFRASTRUCTURE &&
           j->verdict != SR1_RUN_CANCELLED;
}

/* A child that could not be generated keeps its index free: later samples of the same
 * parent are not stored either, because the file identifies children by their index. */
static sr1_status store_nodes(struct expansion *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct node_job *j = &w->jobs[i];
        struct sr1__revision_node n = {.problem = job_parent(w, j)->problem,
                                       .parent = j->parent,
                                       .solution = j->solution,
                                       .critique = j->critique,
                                       .kind = job_parent(w, j)->depth ? SR1_NODE_REVISION
                                                                       : SR1_NODE_ANSWER,
                                       .judgement = j->judgement,
                                       .verdict = j->verdict,
                                       .pass_rate = j->pass_rate};

        if (!has_verdict(j) || job_parent(w, j)->children != j->sample) {
            w->missing++;
            continue;
        }
        SR1__TRY(sr1__revision_trees_add(w->f, &n));
        j->solution = j->critique = NULL;
    }
    return SR1_OK;
}

static sr1_status make_nodes(struct expansion *w)
{
    int first = w->n > 0 && job_parent(w, &w->jobs[0])->depth == 0;
    sr1_status st;

    if (w->n == 0)
        return SR1_OK;
    st = first ? generate_first_answers(w) : generate_critiques(w);
    if (st == SR1_OK && !first)
        st = generate_node_revisions(w);
    if (st == SR1_OK)
        st = drop_too_long(w);
    if (st == SR1_OK)
        st = run_solutions(w);
    if (st == SR1_OK)
        st = store_nodes(w);
    w->done += (int64_t)w->n;
    clear_jobs(w);
    return st == SR1_OK ? report_expansion(w) : st;
}

/* Nodes that layer `depth` lacks. */
static int64_t count_missing_nodes(const struct sr1_revision_trees *f, int32_t depth,
                                   int32_t width)
{
    int64_t n = 0;

    for (size_t i = 0; i < f->n; i++)
        if (f->nodes[i].depth == depth && f->nodes[i].children < width)
            n += width - f->nodes[i].children;
    return n;
}

static sr1_status grow_layer(struct expansion *w, int32_t depth, int32_t width)
{
    size_t n = w->f->n; /* what grows now is a layer deeper */

    w->done = 0;
    w->total = count_missing_nodes(w->f, depth, width);
    snprintf(w->phase, sizeof(w->phase), depth ? "revision %d" : "answers", (int)depth);
    SR1__TRY(w->total > 0 ? report_expansion(w) : SR1_OK);
    for (size_t i = 0; i < n; i++) {
        int32_t have = w->f->nodes[i].children;

        if (w->f->nodes[i].depth != depth)
            continue;
        for (int32_t k = have; k < width; k++) {
            w->jobs[w->n++] = (struct node_job){.parent = i, .sample = k};
            if (w->n == CHUNK)
                SR1__TRY(make_nodes(w));
        }
    }
    return make_nodes(w);
}

static sr1_status check_widths(const struct sr1_revision_trees *f, const int32_t *widths,
                               size_t n)
{
    if (n < 1 || widths[0] != 1)
        return sr1__fail(SR1_E_INVALID,
                         "revision trees: the first width is 1, the problem");
    for (size_t i = 1; i < n; i++)
        if (widths[i] < 0 || widths[i] > 100000)
            return sr1__fail(SR1_E_INVALID, "revision trees: width %d is out of range",
                             (int)widths[i]);
    if (n > 2 && !f->o.critic)
        return sr1__fail(SR1_E_INVALID,
                         "revision trees: revisions need a critic and a reviser");
    return SR1_OK;
}

sr1_status sr1_revision_trees_expand(sr1_revision_trees *f, const int32_t *widths,
                                     size_t n, int64_t *missing)
{
    struct expansion *w;
    sr1_status st = SR1_OK;

    if (!f || !widths)
        return sr1__fail(SR1_E_INVALID, "revision trees: trees and widths are needed");
    SR1__TRY(check_widths(f, widths, n));
    SR1__CALLOC(w, 1, "revision trees");
    w->f = f;
    sr1__life_hold(&f->life);
    for (size_t i = 1; i < n && st == SR1_OK; i++)
        st = grow_layer(w, (int32_t)i - 1, widths[i]);
    if (st == SR1_OK && missing)
        *missing = w->missing;
    clear_jobs(w);
    sr1__free(w);
    sr1_revision_trees_free(f);
    return st;
}
