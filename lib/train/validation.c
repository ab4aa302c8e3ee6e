/* train/validation.c - a validation: answers to its questions, their scores in a row of
 * metrics, and some of the trajectories in a log. */
#include "train/internal.h"

#include "base/log.h"
#include "train/ranks.h"

#include <searchr1/ext/eval_figures.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- metrics ---- */

/* What a validation adds to the metrics; with: the number of rows that a score is over,
 * where it is left out when there are none (0: null then). */
static const struct {
    const char *name;
    size_t offset, with;
} scores[] = {{"exact_match", offsetof(sr1_eval_scores, exact_match)},
              {"f1", offsetof(sr1_eval_scores, f1)},
              {"format", offsetof(sr1_eval_scores, format)},
              {"searches", offsetof(sr1_eval_scores, searches)},
              {"reward", offsetof(sr1_eval_scores, reward)},
              {"tokens", offsetof(sr1_eval_scores, tokens)},
              {"success", offsetof(sr1_eval_scores, success)},
              {"thinking", offsetof(sr1_eval_scores, thinking)},
              {"retrieval/hit_rate", offsetof(sr1_eval_scores, hit_rate),
               offsetof(sr1_eval_scores, with_search)},
              {"retrieval/recall", offsetof(sr1_eval_scores, recall),
               offsetof(sr1_eval_scores, with_gold_ids)}};

/* Does score k of a source go to the metrics? */
static int is_validated(const sr1_eval_scores *s, size_t k)
{
    const void *n = (const char *)s + scores[k].with;

    return scores[k].with == 0 || *(const int64_t *)n > 0;
}

/* Put a number under a name of parts, each behind a '/'. */
static sr1_status add_score(json_t *row, double v, const char *const *parts, size_t n)
{
    struct sr1__buf name;
    sr1_status st;

    sr1__buf_init(&name, 0);
    for (size_t i = 0; i < n && parts[i]; i++)
        sr1__buf_fmt(&name, "%s%s", i ? "/" : "", parts[i]);
    st = sr1__buf_status(&name, "metrics");
    if (st == SR1_OK && json_object_set_new(row, name.data, sr1__json_number(v)) != 0)
        st = sr1__fail_nomem("metrics");
    sr1__buf_free(&name);
    return st;
}

#define ADD_SCORE(row, v, ...)                                                           \
    add_score(row, v, (const char *const[]){__VA_ARGS__},                                \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* verl's section of a figure: of the rewards those of all answers that are no worst. */
static const char *choose_section(const char *score, const char *figure, int32_t n)
{
    const char *at = strchr(figure, '@');
    int core = strcmp(score, "reward") == 0 && strtol(at + 1, NULL, 10) == n &&
               (strncmp(figure, "mean", 4) == 0 || strncmp(figure, "best", 4) == 0 ||
                strncmp(figure, "maj", 3) == 0);

    return core ? "val-core" : "val-aux";
}

/* The figures that verl has, under its names. */
static sr1_status add_figures(const sr1_trainer *tr, json_t *row, const sr1_evaluation *e,
                              size_t source, const char *name)
{
    static const char *const of[] = {"reward", "exact_match"};
    const char *figure;
    double v;

    for (size_t k = 0; k < sizeof(of) / sizeof(of[0]); k++)
        for (size_t i = 0; (figure = sr1_evaluation_figure_name(e, i)); i++) {
            if (!strchr(figure, '@'))
                continue;
            SR1__TRY(sr1_evaluation_figure(e, source, of[k], figure, &v));
            SR1__TRY(ADD_SCORE(
                row, v, choose_section(of[k], figure, tr->set.validation_group_size),
                name, of[k], figure));
        }
    return SR1_OK;
}

static sr1_status add_scores(const sr1_trainer *tr, json_t *row, const sr1_evaluation *e)
{
    for (size_t i = 0; i < sr1_evaluation_count(e); i++) {
        sr1_eval_scores s = {.struct_size = sizeof(s)};

        SR1__TRY(sr1_evaluation_scores(e, i, &s));
        for (size_t k = 0; k < sizeof(scores) / sizeof(scores[0]); k++) {
            const char *at = (const char *)&s + scores[k].offset;

            if (is_validated(&s, k))
                SR1__TRY(ADD_SCORE(row, *(const double *)(const void *)at, "val",
                                   scores[k].name, s.data_source));
        }
        if (!s.data_source) {
            if (json_object_set_new(row, "val/excluded", json_integer(s.excluded)) != 0)
                return sr1__fail_nomem("metrics");
            continue;
        }
        /* under the name that Search-R1's published code gives it */
        SR1__TRY(ADD_SCORE(row, s.exact_match, "val", "test_score", s.data_source));
        SR1__TRY(add_figures(tr, row, e, i, s.data_source));
    }
    return SR1_OK;
}

int sr1__validation_may_have(const char *metric)
{
    static const char *const of_sources[] = {"val/test_score/", "val-core/", "val-aux/"};

    for (size_t i = 0; i < sizeof(of_sources) / sizeof(of_sources[0]); i++)
        if (strncmp(metric, of_sources[i], strlen(of_sources[i])) == 0)
            return 1;
    if (strncmp(metric, "val/", 4) != 0)
        return 0;
    for (size_t i = 0; i < sizeof(scores) / sizeof(scores[0]); i++) {
        size_t n = strlen(scores[i].name);

        if (strncmp(metric + 4, scores[i].name, n) == 0 &&
            (metric[4 + n] == '\0' || metric[4 + n] == '/'))
            return 1;
    }
    return strcmp(metric + 4, "excluded") == 0;
}

/* ---- the log ---- */

/* Which trajectories of a validation are logged: all answers to some questions (of
 * the last as many as there is room for), which are chosen at random, and each time the
 * same (Knuth, TAOCP 2, 3.4.2, algorithm S). */
struct validation_log {
    struct sr1__rng rng;
    int64_t questions, wanted;   /* those to come, and to be chosen among them */
    int64_t answers, most;       /* logged, and how many may be */
    int32_t of_question, chosen; /* answers to the present question, and is it logged? */
};

/* A validation that is under way. */
struct validation {
    sr1_trainer *tr;
    struct validation_log log;
};

/* Another stream than those that samples are drawn from. */
#define VALIDATION_LOG_STREAM 0x76616c6964617465u /* "validate" */

static void begin_validation_log(struct validation *v)
{
    const sr1_trainer *tr = v->tr;
    struct validation_log *l = &v->log;
    int64_t group = tr->set.validation_group_size;

    *l = (struct validation_log){.questions = sr1_dataset_count(tr->validation),
                                 .most = tr->set.log_validation_trajectories};
    if (tr->set.validation_samples > 0 && tr->set.validation_samples < l->questions)
        l->questions = tr->set.validation_samples;
    if (l->most < 0 || l->most / group >= l->questions)
        l->most = l->questions * group;
    l->wanted = (l->most + group - 1) / group;
    sr1__rng_seed(&l->rng, tr->set.seed, VALIDATION_LOG_STREAM);
}

/* Trajectories come question by question. */
static sr1_status log_validation(void *user, const sr1_trajectory *t)
{
    struct validation *v = user;
    struct validation_log *l = &v->log;

    if (l->of_question == 0) {
        l->chosen = (int64_t)sr1__rng_below(&l->rng, (uint64_t)l->questions) < l->wanted;
        l->questions--;
        l->wanted -= l->chosen;
    }
    l->of_question = (l->of_question + 1) % v->tr->set.validation_group_size;
    if (!l->chosen || l->answers == l->most || !sr1__is_first_rank(v->tr))
        return SR1_OK;
    l->answers++;
    return sr1__folder_log(v->tr, SR1__LOG_VALIDATIONS, t);
}

void sr1__validation_take_back(const sr1_trainer *tr)
{
    struct sr1__zlines *log = tr->logs[SR1__LOG_VALIDATIONS];

    if (log && sr1__zlines_truncate(log, tr->validation_at) != SR1_OK)
        sr1__log(SR1_LOG_WARN, "the trajectories of a validation may be there twice: %s",
                 sr1_last_error());
}

/* ---- the whole ---- */

static sr1_status report_validation(void *user, int64_t done, int64_t total,
                                    int64_t tokens)
{
    const struct validation *v = user;

    (void)tokens;
    return v->tr->phase ? v->tr->phase(v->tr->phase_user, "validation", done, total)
                        : SR1_OK;
}

sr1_status sr1__validate(sr1_trainer *tr, json_t *row, sr1_evaluation **out)
{
    struct validation v = {.tr = tr};
    const struct sr1__sampling *sampling = &tr->set.validation_sampling;
    sr1_evaluation *e = NULL;
    sr1_eval_options o = {.struct_size = sizeof(o),
                          .greedy = sampling->temperature == 0,
                          .samples = tr->set.validation_group_size,
                          .temperature = sampling->temperature,
                          .top_p = sampling->top_p,
                          .top_k = sampling->top_k,
                          .seed = tr->set.seed,
                          .max_rows = tr->set.validation_samples,
                          .progress = report_validation,
                          .user = &v,
                          .rewards = tr->rewards};
    sr1_status st;

    if (tr->set.log_validation_trajectories != 0) {
        o.trajectory = log_validation;
        begin_validation_log(&v);
    }
    sr1__rollout_set_version(tr->rollout, tr->step);
    sr1__rollout_use_local(tr->rollout, 1); /* a server may have older weights */
    st = sr1__evaluate_filtered(&e, tr->dist, tr->rollout, tr->validation, &o);
    sr1__rollout_use_local(tr->rollout, 0);
    if (st == SR1_OK)
        st = add_scores(tr, row, e);
    if (st == SR1_OK && o.trajectory && sr1__is_first_rank(tr))
        st = sr1__zlines_flush(tr->logs[SR1__LOG_VALIDATIONS]);
    if (st == SR1_OK)
        *out = e;
    else
        sr1_evaluation_free(e);
    return st;
}
