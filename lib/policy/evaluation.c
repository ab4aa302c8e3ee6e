/* policy/evaluation.c - see evaluation.h. */
#include "policy/evaluation.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(SR1_EVAL_MAX_SAMPLES == SR1__ANSWERS_MAX, "answers to a question");

struct evaluation_entry {
    sr1_eval_scores scores;
    double figures[SR1__FIGURED_SCORES][SR1__ANSWER_FIGURES_MAX];
};

struct sr1_evaluation {
    struct evaluation_entry *of; /* [n]: all rows first, then by data source */
    size_t n;
    size_t n_figures;
    char names[SR1__ANSWER_FIGURES_MAX][SR1__ANSWER_FIGURE_NAME];
};

/* ---- sums ---- */

#define SUM(score, count)                                                                \
    {                                                                                    \
        offsetof(sr1_eval_scores, score), offsetof(sr1_eval_scores, count)               \
    }

/* A score, and how many rows its mean is over. */
static const struct {
    size_t score, count;
} summed[] = {
    SUM(exact_match, with_answers),
    SUM(f1, with_answers),
    SUM(sub_match, with_answers),
    SUM(bleu, with_answers),
    SUM(rouge1, with_answers),
    SUM(rouge2, with_answers),
    SUM(rougeL, with_answers),
    SUM(embedding, with_answers),
    SUM(format, rows),
    SUM(answered, rows),
    SUM(searches, rows),
    SUM(tokens, rows),
    SUM(reward, rows),
    SUM(success, rows),
    SUM(thinking, rows),
    SUM(hit_rate, with_search),
    SUM(recall, with_gold_ids),
};

#define N_SUMMED (sizeof(summed) / sizeof(summed[0]))

static const struct {
    const char *name;
    int compared; /* with gold answers */
} figured[SR1__FIGURED_SCORES] = {[SR1__FIGURES_EXACT_MATCH] = {"exact_match", 1},
                                  [SR1__FIGURES_REWARD] = {"reward", 0}};

static double *summed_field(sr1_eval_scores *s, size_t i)
{
    return (double *)(void *)((char *)s + summed[i].score);
}

static double summed_value(const sr1_eval_scores *s, size_t i)
{
    return *(const double *)(const void *)((const char *)s + summed[i].score);
}

static int64_t summed_count(const sr1_eval_scores *s, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)s + summed[i].count);
}

void sr1__question_scores_add(struct sr1__question_scores *q, const sr1_eval_scores *one,
                              int32_t n)
{
    for (size_t i = 0; i < N_SUMMED; i++)
        *summed_field(&q->mean, i) += summed_value(one, i) / n;
    q->mean.with_answers = one->with_answers;
    q->mean.with_search = one->with_search;
    q->mean.with_gold_ids = one->with_gold_ids;
}

static void add_question(struct evaluation_entry *sum,
                         const struct sr1__question_scores *q, size_t n_figures)
{
    if (q->excluded) {
        sum->scores.excluded++;
        return;
    }
    for (size_t i = 0; i < N_SUMMED; i++)
        *summed_field(&sum->scores, i) += summed_value(&q->mean, i);
    for (size_t s = 0; s < SR1__FIGURED_SCORES; s++)
        for (size_t i = 0; i < n_figures; i++)
            sum->figures[s][i] += q->figures[s][i];
    sum->scores.rows++;
    sum->scores.with_answers += q->mean.with_answers;
    sum->scores.with_search += q->mean.with_search;
    sum->scores.with_gold_ids += q->mean.with_gold_ids;
}

/* ---- data sources ---- */

/* Each source is eleven figures of a validation, and up to 97 with several answers to a
 * question: a file whose rows all have names of their own gets no more than this many. */
#define MAX_SOURCES 256
#define OTHER "other"

static struct evaluation_entry *find_source(const sr1_evaluation *e, const char *source)
{
    for (size_t i = 1; i < e->n; i++)
        if (strcmp(e->of[i].scores.data_source, source) == 0)
            return &e->of[i];
    return NULL;
}

static sr1_status add_source(sr1_evaluation *e, const char *source)
{
    struct evaluation_entry *p = sr1__realloc(e->of, e->n + 1, sizeof(*p));
    char *name;

    if (!p)
        return sr1__fail_nomem("evaluation");
    e->of = p;
    name = sr1__strdup(source);
    if (!name)
        return sr1__fail_nomem("evaluation");
    p[e->n++] = (struct evaluation_entry){
        .scores = {.struct_size = sizeof(p->scores), .data_source = name}};
    return SR1_OK;
}

static sr1_status find_source_entry(sr1_evaluation *e, const char *source,
                                    struct evaluation_entry **out)
{
    *out = find_source(e, source);
    if (*out)
        return SR1_OK;
    if (e->n > MAX_SOURCES) {
        source = OTHER;
        *out = find_source(e, source);
        if (!*out)
            sr1__log(SR1_LOG_WARN,
                     "evaluation: there are more than %d data sources; the further ones "
                     "are scored together, as '%s'",
                     MAX_SOURCES, source);
    }
    if (!*out) {
        SR1__TRY(add_source(e, source));
        *out = &e->of[e->n - 1];
    }
    return SR1_OK;
}

sr1_status sr1__evaluation_add(sr1_evaluation *e, const char *source,
                               const struct sr1__question_scores *q)
{
    struct evaluation_entry *of_source = NULL;

    SR1__TRY(find_source_entry(e, source, &of_source));
    add_question(of_source, q, e->n_figures);
    add_question(&e->of[0], q, e->n_figures);
    return SR1_OK;
}

/* ---- the whole ---- */

sr1_status sr1__evaluation_new(sr1_evaluation **out, int32_t samples)
{
    sr1_evaluation *e = sr1__calloc(1, sizeof(*e));

    SR1__CHECK_ALLOC(e, "evaluation");
    e->of = sr1__calloc(1, sizeof(*e->of));
    if (!e->of) {
        sr1__free(e);
        return sr1__fail_nomem("evaluation");
    }
    e->n = 1;
    e->of->scores.struct_size = sizeof(e->of->scores);
    e->n_figures = sr1__answer_figure_count(samples);
    for (size_t i = 0; i < e->n_figures; i++)
        sr1__answer_figure_name(samples, i, e->names[i]);
    *out = e;
    return SR1_OK;
}

int sr1__evaluation_has_rows(const sr1_evaluation *e)
{
    return e->of->scores.rows + e->of->scores.excluded > 0;
}

static double divide_sum(double sum, int64_t n)
{
    return n ? sum / (double)n : NAN;
}

/* Nothing is known of no rows. */
static void average_entry(struct evaluation_entry *entry, size_t n_figures)
{
    sr1_eval_scores *s = &entry->scores;

    for (size_t i = 0; i < N_SUMMED; i++)
        *summed_field(s, i) = divide_sum(summed_value(s, i), summed_count(s, i));
    for (size_t k = 0; k < SR1__FIGURED_SCORES; k++)
        for (size_t i = 0; i < n_figures; i++)
            entry->figures[k][i] = divide_sum(
                entry->figures[k][i], figured[k].compared ? s->with_answers : s->rows);
}

static int compare_source_names(const void *a, const void *b)
{
    return strcmp(((const struct evaluation_entry *)a)->scores.data_source,
                  ((const struct evaluation_entry *)b)->scores.data_source);
}

void sr1__evaluation_average(sr1_evaluation *e)
{
    for (size_t k = 0; k < e->n; k++)
        average_entry(&e->of[k], e->n_figures);
    qsort(e->of + 1, e->n - 1, sizeof(*e->of), compare_source_names);
}

void sr1_evaluation_free(sr1_evaluation *e)
{
    if (!e)
        return;
    for (size_t i = 1; i < e->n; i++)
        sr1__free((char *)(uintptr_t)e->of[i].scores.data_source);
    sr1__free(e->of);
    sr1__free(e);
}

/* ---- reading ---- */

size_t sr1_evaluation_count(const sr1_evaluation *e)
{
    return e ? e->n : 0;
}

static sr1_status check_entry(const sr1_evaluation *e, size_t index)
{
    return index < e->n ? SR1_OK
                        : sr1__fail(SR1_E_INVALID, "evaluation: no entry %zu", index);
}

sr1_status sr1_evaluation_scores(const sr1_evaluation *e, size_t index,
                                 sr1_eval_scores *out)
{
    SR1__REQUIRE(e, "evaluation");
    SR1__TRY(check_entry(e, index));
    return sr1__struct_give(out, &e->of[index].scores, sizeof(e->of[index].scores),
                            "evaluation scores");
}

const char *sr1_evaluation_figure_name(const sr1_evaluation *e, size_t i)
{
    return e && i < e->n_figures ? e->names[i] : NULL;
}

static sr1_status find_figured_score(const char *name, size_t *out)
{
    for (*out = 0; *out < SR1__FIGURED_SCORES; ++*out)
        if (strcmp(figured[*out].name, name) == 0)
            return SR1_OK;
    return sr1__fail(SR1_E_NOT_FOUND,
                     "an evaluation has no figures of the score '%.64s'; there are "
                     "exact_match and reward",
                     name);
}

sr1_status sr1_evaluation_figure(const sr1_evaluation *e, size_t index, const char *score,
                                 const char *figure, double *out)
{
    size_t k = 0;

    SR1__REQUIRE(e && score && figure && out, "evaluation, score, figure and out");
    SR1__TRY(check_entry(e, index));
    SR1__TRY(find_figured_score(score, &k));
    for (size_t i = 0; i < e->n_figures; i++)
        if (strcmp(e->names[i], figure) == 0) {
            *out = e->of[index].figures[k][i];
            return SR1_OK;
        }
    return sr1__fail(SR1_E_NOT_FOUND, "an evaluation has no figure '%.64s'", figure);
}
