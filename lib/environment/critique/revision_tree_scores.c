/* environment/critique/revision_tree_scores.c - scores of revisions: pass@k, gains and
 * losses against the first answers, and how well critiques distinguish right answers from
 * wrong ones. */
#include "environment/critique/revision_trees.h"

#include "base/mem.h"
#include "base/struct.h"

#include <math.h>

/* ---- pass@k ---- */

#define FACTORS ((int64_t)1 << 20) /* that are multiplied one by one */
#define STEPS 4096

static double log_factor(double n, double many, double i)
{
    return log1p(-many / (n - i));
}

/* The product over 0 <= i < few of 1 - many / (n - i), where all are above 0. Of very
 * many factors the logarithms are summed by Simpson's rule: they hardly differ from one
 * to the next. */
static double multiply_factors(int64_t n, int64_t few, int64_t many)
{
    double width = (double)few / STEPS, sum = 0.0, product = 1.0;

    for (int64_t i = 0; few <= FACTORS && i < few && product > 0.0; i++)
        product *= 1.0 - (double)many / (double)(n - i);
    if (few <= FACTORS)
        return product;
    for (int64_t i = 0; i < STEPS; i++) {
        double from = width * (double)i - 0.5;

        sum += width / 6 *
               (log_factor((double)n, (double)many, from) +
                4 * log_factor((double)n, (double)many, from + width / 2) +
                log_factor((double)n, (double)many, from + width));
    }
    return exp(sum);
}

sr1_status sr1_pass_at_k(int64_t n, int64_t c, int64_t k, double *out)
{
    int64_t few = c < k ? c : k, many = c < k ? k : c;

    if (!out || c < 0 || c > n || k < 1 || k > n)
        return sr1__fail(
            SR1_E_INVALID,
            "pass@k: %lld of %lld answers pass, k is %lld; 0 <= c <= n and 1 "
            "<= k <= n",
            (long long)c, (long long)n, (long long)k);
    /* C(n - c, k) / C(n, k) = prod over 0 <= i < k of (1 - c / (n - i)); c and k may
     * change places */
    *out = n - few < many ? 1.0 : 1.0 - multiply_factors(n, few, many);
    return SR1_OK;
}

/* ---- sums by problem ---- */

enum { NODES, PASSED, RATE, GAINED, LOST, N_SUMS };

struct sums {
    double of[N_SUMS];
};

/* The root of each node's tree is among the first nodes, so its index is the problem's.
 */
static size_t root_of(const struct sr1_revision_trees *f,
                      const struct sr1__revision_node *n)
{
    return f->nodes[n->answer].parent;
}

static int is_passed(const struct sr1__revision_node *n)
{
    return n->verdict == SR1_RUN_PASSED;
}

/* sums[roots] over the nodes with so many revisions; *roots of them are trees. */
static sr1_status sum_by_problem(const struct sr1_revision_trees *f, int32_t revisions,
                                 struct sums **out, size_t *roots)
{
    struct sums *sums;
    size_t found = 0;

    for (*roots = 0; *roots < f->n && f->nodes[*roots].depth == 0;)
        ++*roots;
    SR1__CALLOC(sums, *roots + 1, "scores");
    for (size_t i = 0; i < f->n; i++) {
        const struct sr1__revision_node *n = &f->nodes[i], *first = &f->nodes[n->answer];
        double *s;

        if (n->depth != revisions + 1)
            continue;
        found++;
        s = sums[root_of(f, n)].of;
        s[NODES] += 1;
        s[PASSED] += is_passed(n);
        s[RATE] += n->pass_rate;
        s[GAINED] += is_passed(n) && !is_passed(first);
        s[LOST] += !is_passed(n) && is_passed(first);
    }
    if (found == 0) {
        sr1__free(sums);
        return sr1__fail(SR1_E_NOT_FOUND, "no answer has been revised %d times",
                         (int)revisions);
    }
    *out = sums;
    return SR1_OK;
}

/* ---- judgements ---- */

static sr1_status score_judgements(const struct sr1_revision_trees *f, int32_t revisions,
                                   sr1_revision_tree_scores *s)
{
    sr1_judgement_scores j = {.struct_size = sizeof(j)};
    int32_t *said = sr1__calloc(f->n, sizeof(*said));
    int32_t *truth = sr1__calloc(f->n, sizeof(*truth));
    size_t n = 0;
    sr1_status st = said && truth ? SR1_OK : sr1__fail_nomem("judgements");

    for (size_t i = 0; st == SR1_OK && i < f->n; i++) {
        if (f->nodes[i].depth != revisions + 1)
            continue;
        said[n] = f->nodes[i].judgement;
        truth[n++] = is_passed(&f->nodes[f->nodes[i].parent]);
    }
    if (st == SR1_OK)
        st = sr1_judgement_score(said, truth, n, &j);
    sr1__free(said);
    sr1__free(truth);
    SR1__TRY(st);
    s->critiques = j.n;
    s->no_judgement = j.none;
    s->accuracy = j.accuracy;
    s->f1 = j.f1;
    s->f1_incorrect = j.f1_incorrect;
    return SR1_OK;
}

static void average_problem_sums(const struct sums *sums, size_t roots,
                                 sr1_revision_tree_scores *s)
{
    for (size_t i = 0; i < roots; i++) {
        const double *v = sums[i].of;

        if (v[NODES] <= 0)
            continue;
        s->problems++;
        s->nodes += (int64_t)v[NODES];
        s->pass_at_1 += v[PASSED] / v[NODES];
        s->pass_rate += v[RATE] / v[NODES];
        s->gained += v[GAINED] / v[NODES];
        s->lost += v[LOST] / v[NODES];
    }
    s->pass_at_1 /= (double)s->problems;
    s->pass_rate /= (double)s->problems;
    s->gained /= (double)s->problems;
    s->lost /= (double)s->problems;
}

sr1_status sr1_revision_trees_scores(const sr1_revision_trees *f, int32_t revisions,
                                     sr1_revision_tree_scores *out)
{
    sr1_revision_tree_scores s = {.revisions = revisions};
    struct sums *sums = NULL;
    size_t roots;

    if (!f || revisions < 0)
        return sr1__fail(SR1_E_INVALID,
                         "revision tree scores: no trees, or revisions below 0");
    SR1__TRY(sr1__struct_check(out, "revision tree scores"));
    SR1__TRY(sum_by_problem(f, revisions, &sums, &roots));
    average_problem_sums(sums, roots, &s);
    sr1__free(sums);
    if (revisions > 0)
        SR1__TRY(score_judgements(f, revisions, &s));
    return sr1__struct_give(out, &s, sizeof(s), "revision tree scores");
}

sr1_status sr1_revision_trees_pass_at_k(const sr1_revision_trees *f, int32_t revisions,
                                        int64_t k, double *out)
{
    struct sums *sums = NULL;
    size_t roots, problems = 0;
    double sum = 0.0;
    sr1_status st = SR1_OK;

    if (!f || !out || revisions < 0)
        return sr1__fail(SR1_E_INVALID,
                         "revision trees, pass@k: no trees, or revisions below 0");
    SR1__TRY(sum_by_problem(f, revisions, &sums, &roots));
    for (size_t i = 0; i < roots && st == SR1_OK; i++) {
        double one = 0.0;

        if (sums[i].of[NODES] <= 0)
            continue;
        st = sr1_pass_at_k((int64_t)sums[i].of[NODES], (int64_t)sums[i].of[PASSED], k,
                           &one);
        sum += one;
        problems++;
    }
    sr1__free(sums);
    if (st == SR1_OK)
        *out = sum / (double)problems;
    return st;
}
