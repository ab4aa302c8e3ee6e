/* policy/evaluate.c - answer every row of a dataset, once or several times, and score the
 * answers. Rows go in chunks, so memory does not grow with the dataset; their scores are
 * gathered in evaluation.c. */
#include "policy/dataset_queries.h"
#include "policy/evaluation.h"
#include "policy/fingerprint.h"
#include "policy/launched_job.h"
#include "policy/retrieval_figures.h"
#include "policy/rollout_internal.h"
#include "policy/share_rollout.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "environment/env/thinking_turn.h"
#include "signal/reward/embedding_score.h"
#include "signal/reward/format.h"
#include "signal/reward/ground_truths.h"
#include "signal/reward/reward_set.h"
#include "environment/trajectory/trajectory.h"
#include "text/data/dataset.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/reward.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/text_metrics.h>

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct evaluation_run {
    struct sr1__dist *dist; /* who shares the rows; NULL: nobody */
    sr1_rollout *rollout;
    const sr1_dataset *data;
    const sr1_eval_options *o;
    sr1_evaluation *e;
    const int64_t *rows; /* [total] of data: those that can be asked; NULL: all */
    int64_t total, done, tokens;
    size_t samples; /* answers to each question */
    sr1_trajectory *
        *early; /* [n] of a chunk under way: what is finished; NULL: not kept */
    size_t n_early;
    int cancelled;
};

/* ---- scores of one trajectory ---- */

typedef sr1_status (*score_fn)(const char *answer, size_t n, const char *const *truths,
                               size_t n_truths, double *out);

static sr1_status score_rouge_1(const char *a, size_t n, const char *const *t, size_t k,
                                double *out)
{
    return sr1_metric_rouge_n(a, n, t, k, 1, out);
}

static sr1_status score_rouge_2(const char *a, size_t n, const char *const *t, size_t k,
                                double *out)
{
    return sr1_metric_rouge_n(a, n, t, k, 2, out);
}

/* A long answer is beyond what ROUGE-L compares; it is no answer then. */
static sr1_status score_rouge_l(const char *a, size_t n, const char *const *t, size_t k,
                                double *out)
{
    static atomic_ullong last_limit;
    sr1_status st = sr1_metric_rouge_l(a, n, t, k, out);

    if (st != SR1_E_LIMIT)
        return st;
    if (sr1__log_is_news(&last_limit, sr1_last_error()))
        sr1__log(SR1_LOG_WARN, "%s; it counts 0", sr1_last_error());
    *out = 0.0;
    return SR1_OK;
}

static const struct {
    size_t offset;
    score_fn fn;
} metrics[] = {
    {offsetof(sr1_eval_scores, exact_match), sr1_reward_exact_match},
    {offsetof(sr1_eval_scores, f1), sr1_reward_f1},
    {offsetof(sr1_eval_scores, sub_match), sr1_reward_sub_match},
    {offsetof(sr1_eval_scores, bleu), sr1_metric_bleu},
    {offsetof(sr1_eval_scores, rouge1), score_rouge_1},
    {offsetof(sr1_eval_scores, rouge2), score_rouge_2},
    {offsetof(sr1_eval_scores, rougeL), score_rouge_l},
};

static double *score_field(sr1_eval_scores *s, size_t offset)
{
    return (double *)(void *)((char *)s + offset);
}

static sr1_status copy_settled(char **out, const char *text)
{
    struct sr1__str settled = sr1__str_of(text);
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 0);
    st = sr1__settle_answer(&settled, &b);
    *out = st == SR1_OK ? sr1__strndup(settled.s, settled.n) : NULL;
    sr1__buf_free(&b);
    return st != SR1_OK || *out ? st : sr1__fail_nomem("answers to compare with");
}

static sr1_status score_metrics(struct sr1__str answer, char **truths, const sr1_query *q,
                                sr1_eval_scores *out)
{
    for (size_t k = 0; k < q->n_answers; k++)
        SR1__TRY(copy_settled(&truths[k], q->answers[k]));
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        SR1__TRY(metrics[i].fn(answer.s, answer.n, (const char *const *)truths,
                               q->n_answers, score_field(out, metrics[i].offset)));
    return SR1_OK;
}

/* As rewards compare answers. */
static sr1_status score_answer_text(struct sr1__str answer, const sr1_query *q,
                                    sr1_eval_scores *out)
{
    char **truths = sr1__calloc(q->n_answers, sizeof(*truths));
    struct sr1__buf b;
    sr1_status st;

    SR1__CHECK_ALLOC(truths, "answers to compare with");
    sr1__buf_init(&b, 0);
    st = sr1__settle_answer(&answer, &b);
    if (st == SR1_OK)
        st = score_metrics(answer, truths, q, out);
    for (size_t k = 0; k < q->n_answers; k++)
        sr1__free(truths[k]);
    sr1__free(truths);
    sr1__buf_free(&b);
    return st;
}

/* What its searches found; a figure that is not known is 0 and does not count. */
static sr1_status score_retrieval(const struct evaluation_run *w, const sr1_trajectory *t,
                                  sr1_eval_scores *out)
{
    struct sr1__retrieval_figures found;

    SR1__TRY(sr1__retrieval_figures(w->rollout, w->o->no_search, t, &found));
    out->with_search = !isnan(found.hit_rate);
    out->with_gold_ids = !isnan(found.recall);
    out->hit_rate = out->with_search ? found.hit_rate : 0.0;
    out->recall = out->with_gold_ids ? found.recall : 0.0;
    return SR1_OK;
}

/* Only a closed answer counts: what was cut short is no answer. */
static sr1_status score_trajectory(const struct evaluation_run *w,
                                   const sr1_trajectory *t, const sr1_query *q,
                                   sr1_eval_scores *out)
{
    struct sr1__str answer;
    sr1_status st = SR1_OK;

    answer.s = sr1_trajectory_final_answer(t, &answer.n);
    *out =
        (sr1_eval_scores){.struct_size = sizeof(*out), .with_answers = q->n_answers > 0};
    out->answered = sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER;
    if (out->answered > 0 && q->n_answers)
        st = score_answer_text(answer, q, out);
    out->format = sr1__is_well_formed(sr1__env_protocol(w->rollout->env), t,
                                      w->rollout->closed_thoughts);
    out->searches = (double)sr1_trajectory_search_count(t);
    out->tokens = (double)sr1_trajectory_policy_count(t);
    out->success = sr1__trajectory_succeeded(t);
    out->thinking = (double)sr1__thinking_tokens(t);
    return st == SR1_OK ? score_retrieval(w, t, out) : st;
}

/* ---- chunks of rows ---- */

struct eval_chunk {
    struct sr1__dataset_queries asked;
    sr1_trajectory **made; /* [n], question by question */
    size_t n, samples;
};

static void eval_chunk_free(struct eval_chunk *c)
{
    for (size_t i = 0; c->made && i < c->n; i++)
        sr1_trajectory_free(c->made[i]);
    sr1__free(c->made);
    sr1__dataset_queries_free(&c->asked);
}

static sr1_status eval_chunk_read(struct eval_chunk *c, const struct evaluation_run *w,
                                  int64_t from, size_t n)
{
    *c = (struct eval_chunk){.n = n * w->samples, .samples = w->samples};
    c->made = sr1__calloc(c->n, sizeof(sr1_trajectory *));
    if (!c->made)
        return sr1__fail_nomem("rows");
    return sr1__dataset_queries_read(&c->asked, w->data, w->rows, from, n);
}

static sr1_status report_eval_progress(void *user, int64_t finished, int64_t total,
                                       int64_t tokens)
{
    const struct evaluation_run *w = user;
    int64_t answers = w->total * (int64_t)w->samples;

    (void)total;
    /* other ranks are about as far */
    finished = w->done * (int64_t)w->samples + finished * sr1__dist_size(w->dist);
    return w->o->progress(w->o->user, finished < answers ? finished : answers, answers,
                          w->tokens + tokens * sr1__dist_size(w->dist));
}

/* Point item i at its answer, if it was closed, and at its gold answers. */
static void set_embedding_item(const struct eval_chunk *c, size_t i,
                               struct sr1__answer_pair *item)
{
    const sr1_trajectory *t = c->made[i];

    if (sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER)
        item->answer.s = sr1_trajectory_final_answer(t, &item->answer.n);
    item->truths.texts = c->asked.queries[i / c->samples].answers;
    item->truths.n = c->asked.queries[i / c->samples].n_answers;
}

/* The scores of all rows at once, for they are one call of the embedder; zeros without
 * one. */
static sr1_status embed_eval_chunk(const struct evaluation_run *w,
                                   const struct eval_chunk *c, double *out)
{
    struct sr1__answer_pair *items;
    sr1_status st;

    if (!w->o->embedder)
        return SR1_OK;
    SR1__CALLOC(items, c->n, "answers");
    for (size_t i = 0; i < c->n; i++)
        set_embedding_item(c, i, &items[i]);
    st = sr1__embedding_scores(w->o->embedder, items, c->n, out);
    sr1__free(items);
    return st;
}

/* Zeros without rewards, and for what is dropped; NaN where a reward could not be had.
 */
static sr1_status reward_eval_chunk(const struct evaluation_run *w,
                                    const struct eval_chunk *c, double *out)
{
    if (!w->o->rewards)
        return SR1_OK;
    SR1__TRY(sr1__score_shared(w->dist, w->o->rewards, c->made, c->n, c->samples, out));
    for (size_t i = 0; i < c->n; i++)
        if (sr1__trajectory_excluded(c->made[i]))
            out[i] = 0.0;
        else if (!isnan(out[i]))
            SR1__TRY(sr1_trajectory_set_reward(c->made[i], out[i]));
    return SR1_OK;
}

static sr1_status note_finished(void *user, size_t index, sr1_trajectory *t)
{
    const struct evaluation_run *w = user;

    if (w->early)
        w->early[index] = sr1_trajectory_retain(t);
    return w->o->rewards ? sr1_reward_set_begin(w->o->rewards, t) : SR1_OK;
}

static void drop_finished(void *user)
{
    const struct evaluation_run *w = user;

    for (size_t i = 0; w->early && i < w->n_early; i++) {
        sr1_trajectory_free(w->early[i]);
        w->early[i] = NULL;
    }
    sr1_reward_set_forget(w->o->rewards);
}

static int is_answered(const struct evaluation_run *w, size_t question)
{
    for (size_t i = question * w->samples; i < (question + 1) * w->samples; i++)
        if (!w->early[i])
            return 0;
    return 1;
}

/* Of a chunk that was given up: the queries all of whose answers were finished, and their
 * trajectories. */
static void keep_finished(struct eval_chunk *c, const struct evaluation_run *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_early / w->samples; i++) {
        sr1_query q = c->asked.queries[i];

        if (!is_answered(w, i))
            continue;
        c->asked.queries[i] = c->asked.queries[n];
        c->asked.queries[n] = q;
        for (size_t k = 0; k < w->samples; k++) {
            c->made[n * w->samples + k] = w->early[i * w->samples + k];
            w->early[i * w->samples + k] = NULL;
        }
        n++;
    }
    c->n = n * w->samples;
}

/* The chunk's trajectories; when it is cancelled and parts will do, those there are. */
static sr1_status answer_chunk(struct evaluation_run *w, struct eval_chunk *c,
                               const sr1_rollout_options *o)
{
    sr1_status st;

    if (w->o->partial && !w->dist) { /* of several processes: whole chunks */
        w->early = sr1__calloc(c->n, sizeof(sr1_trajectory *));
        SR1__CHECK_ALLOC(w->early, "rows");
        w->n_early = c->n;
    }
    st = sr1__generate_shared(w->dist, w->rollout, c->asked.queries, c->n / c->samples, o,
                              c->made);
    if (st == SR1_E_CANCELLED && w->early) {
        keep_finished(c, w);
        w->cancelled = 1;
        st = SR1_OK;
    }
    for (size_t i = 0; w->early && i < w->n_early; i++)
        sr1_trajectory_free(w->early[i]);
    sr1__free(w->early);
    w->early = NULL;
    return st;
}

/* The answers to one question that is scored, and what is known of them. */
struct eval_question {
    const sr1_query *asked;
    sr1_trajectory *const *made;      /* [samples] */
    const double *embedding, *reward; /* [samples] */
    double values[SR1__FIGURED_SCORES][SR1__ANSWERS_MAX];
    char *votes[SR1__ANSWERS_MAX]; /* "" where there is no answer */
};

/* What a reward compares of a worked solution, as it does (verl's pred). */
static sr1_status read_solution_vote(const struct evaluation_run *w,
                                     const sr1_trajectory *t, int *found, char **out)
{
    struct sr1__buf text;
    sr1_status st;

    *found = 0;
    if (!w->o->rewards)
        return SR1_OK;
    sr1__buf_init(&text, 0);
    st = sr1__reward_set_extract(w->o->rewards, t, &text, found);
    if (st == SR1_OK && *found) {
        *out = sr1__strndup(text.len ? text.data : "", text.len);
        st = *out ? SR1_OK : sr1__fail_nomem("votes of answers");
    }
    sr1__buf_free(&text);
    return st;
}

/* Else the closed answer, normalised. */
static sr1_status read_vote(const struct evaluation_run *w, const sr1_trajectory *t,
                            char **out)
{
    struct sr1__str answer = {"", 0};
    int found;

    SR1__TRY(read_solution_vote(w, t, &found, out));
    if (found)
        return SR1_OK;
    if (sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER)
        answer.s = sr1_trajectory_final_answer(t, &answer.n);
    return sr1__normalise_vote(answer, out);
}

static sr1_status score_sample(struct evaluation_run *w, struct eval_question *q,
                               size_t i, struct sr1__question_scores *out)
{
    const sr1_trajectory *t = q->made[i];
    sr1_eval_scores one;

    SR1__TRY(score_trajectory(w, t, q->asked, &one));
    one.embedding = q->embedding[i];
    one.reward = q->reward[i];
    q->values[SR1__FIGURES_EXACT_MATCH][i] = one.exact_match;
    q->values[SR1__FIGURES_REWARD][i] = one.reward;
    out->excluded |= sr1__trajectory_excluded(t) || isnan(one.reward);
    sr1__question_scores_add(out, &one, (int32_t)w->samples);
    w->tokens += (int64_t)one.tokens;
    return w->samples > 1 ? read_vote(w, t, &q->votes[i]) : SR1_OK;
}

static sr1_status figure_answers(const struct evaluation_run *w,
                                 const struct eval_question *q,
                                 struct sr1__question_scores *out)
{
    struct sr1__answer_votes votes;

    if (out->excluded)
        return SR1_OK;
    SR1__TRY(sr1__answer_votes_count(&votes, q->votes, (int32_t)w->samples));
    for (size_t k = 0; k < SR1__FIGURED_SCORES; k++)
        sr1__answer_figures(&votes, q->values[k], out->figures[k]);
    return SR1_OK;
}

static sr1_status score_eval_question(struct evaluation_run *w, struct eval_question *q)
{
    struct sr1__question_scores scores = {0};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < w->samples && st == SR1_OK; i++)
        st = score_sample(w, q, i, &scores);
    if (st == SR1_OK)
        st = figure_answers(w, q, &scores);
    if (st == SR1_OK)
        st = sr1__evaluation_add(w->e, q->asked->data_source, &scores);
    for (size_t i = 0; i < w->samples && st == SR1_OK && w->o->trajectory; i++)
        st = w->o->trajectory(w->o->user, q->made[i]);
    for (size_t i = 0; i < w->samples; i++)
        sr1_free(q->votes[i]);
    return st;
}

static sr1_status score_eval_chunk(struct evaluation_run *w, struct eval_chunk *c,
                                   const double *embedding, const double *reward)
{
    for (size_t i = 0; i < c->n; i += w->samples) {
        struct eval_question q = {.asked = &c->asked.queries[i / w->samples],
                                  .made = c->made + i,
                                  .embedding = embedding + i,
                                  .reward = reward + i};

        SR1__TRY(score_eval_question(w, &q));
    }
    return SR1_OK;
}

static sr1_status evaluate_chunk(struct evaluation_run *w, size_t n)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = (int32_t)w->samples,
                             .greedy = w->o->greedy && w->samples == 1,
                             .seed = w->o->seed,
                             .temperature = w->o->temperature,
                             .top_p = w->o->top_p,
                             .top_k = w->o->top_k,
                             .no_search = w->o->no_search,
                             .user = w,
                             .progress = w->o->progress ? report_eval_progress : NULL,
                             .finished =
                                 w->o->rewards || w->o->partial ? note_finished : NULL,
                             .dropped = drop_finished};
    struct eval_chunk c = {0};
    double *embedding = sr1__calloc(n * w->samples, sizeof(*embedding));
    double *reward = sr1__calloc(n * w->samples, sizeof(*reward));
    sr1_status st = embedding && reward ? eval_chunk_read(&c, w, w->done, n)
                                        : sr1__fail_nomem("scores");

    if (st == SR1_OK)
        st = answer_chunk(w, &c, &o);
    if (st == SR1_OK && c.n > 0)
        st = embed_eval_chunk(w, &c, embedding);
    if (st == SR1_OK && c.n > 0)
        st = reward_eval_chunk(w, &c, reward);
    if (st == SR1_OK)
        st = score_eval_chunk(w, &c, embedding, reward);
    st = sr1__dist_agree(w->dist, "scores", st);
    sr1_reward_set_forget(w->o->rewards); /* of trajectories that were given up */
    sr1__free(embedding);
    sr1__free(reward);
    eval_chunk_free(&c);
    w->done += (int64_t)n;
    return st == SR1_OK && w->cancelled ? SR1_E_CANCELLED : st;
}

/* Questions that are asked at once. */
static int64_t count_chunk_questions(const struct evaluation_run *w)
{
    int64_t n = 4 * (int64_t)w->rollout->limits.max_rows / (int64_t)w->samples;

    return (n > 0 ? n : 1) * sr1__dist_size(w->dist);
}

static sr1_status evaluate_rows(struct evaluation_run *w, sr1_evaluation **out)
{
    int64_t chunk = count_chunk_questions(w);
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__evaluation_new(&w->e, (int32_t)w->samples));
    while (st == SR1_OK && w->done < w->total)
        st = evaluate_chunk(
            w, (size_t)(w->total - w->done < chunk ? w->total - w->done : chunk));
    if (st == SR1_E_CANCELLED && w->o->partial && sr1__evaluation_has_rows(w->e))
        st = SR1_OK;
    if (st != SR1_OK) {
        sr1_evaluation_free(w->e);
        return st;
    }
    sr1__evaluation_average(w->e);
    *out = w->e;
    return SR1_OK;
}

static const sr1_eval_options eval_options_defaults = {.greedy = 1, .samples = 1};

void sr1_eval_options_init(sr1_eval_options *options)
{
    sr1__struct_init(options, &eval_options_defaults, sizeof(eval_options_defaults));
}

/* How many rows there are to ask. */
static sr1_status read_eval_call(struct evaluation_run *w, sr1_eval_options *o,
                                 const sr1_eval_options *options)
{
    SR1__TRY(sr1__struct_take(o, sizeof(*o), options,
                              SR1__STRUCT_END(sr1_eval_options, max_rows),
                              "evaluate: options"));
    if (o->samples < 0 || o->samples > SR1_EVAL_MAX_SAMPLES)
        return sr1__fail(SR1_E_INVALID, "evaluate: samples must be from 1 to %d, not %d",
                         SR1_EVAL_MAX_SAMPLES, (int)o->samples);
    w->o = o;
    w->samples = o->samples ? (size_t)o->samples : 1;
    if (w->samples > 1 && !(o->temperature > 0) &&
        w->rollout->sampling.temperature == 0.0)
        return sr1__fail(SR1_E_INVALID,
                         "evaluate: with temperature 0 all answers to a question are the "
                         "same; give a temperature, or samples 1");
    w->total = sr1_dataset_count(w->data);
    if (o->max_rows > 0 && o->max_rows < w->total)
        w->total = o->max_rows;
    return SR1_OK;
}

sr1_status sr1__evaluate_filtered(sr1_evaluation **out, struct sr1__dist *d,
                                  sr1_rollout *rollout, const sr1_dataset *dataset,
                                  const sr1_eval_options *options)
{
    sr1_eval_options o = eval_options_defaults;
    struct evaluation_run w = {.dist = d, .rollout = rollout, .data = dataset};

    SR1__TRY(read_eval_call(&w, &o, options));
    return evaluate_rows(&w, out);
}

/* Machines may have another model under the same name. */
static sr1_status compare_policies(const struct evaluation_run *w)
{
    json_t *policy = NULL;
    sr1_status st;

    SR1__TRY(sr1__share_date(w->dist, w->rollout));
    st = sr1__policy_fingerprint(&policy, w->rollout, w->data);
    st = sr1__fingerprint_same(w->dist, "the policy", st, policy);
    json_decref(policy);
    return st;
}

/* What all ranks must be told alike: the questions, and how they are answered. */
static sr1_status compare_eval_calls(const struct evaluation_run *w)
{
    const sr1_eval_options *o = w->o;
    const double sampling[] = {o->temperature, o->top_p};
    const int64_t told[] = {w->total,
                            o->greedy,
                            (int64_t)o->seed,
                            o->no_search,
                            !!o->embedder,
                            !!o->rewards,
                            o->top_k,
                            (int64_t)w->samples,
                            (int64_t)sr1__hash64(sampling, sizeof(sampling), 0)};
    uint64_t questions = 0;
    sr1_status st;

    if (!w->dist)
        return SR1_OK;
    st = sr1__dataset_hash(w->data, &questions);
    SR1__TRY(sr1__dist_agree(w->dist, "questions", st));
    SR1__TRY(sr1__dist_same(w->dist, "the file of questions", questions));
    SR1__TRY(sr1__dist_same(w->dist, "an option of the evaluation",
                            sr1__hash64(told, sizeof(told), 0)));
    SR1__TRY(compare_policies(w));
    return sr1__dist_same(w->dist,
                          "how many rows go at once (give key max_rows a number)",
                          (uint64_t)w->rollout->limits.max_rows);
}

/* The rows that can be asked. */
static sr1_status choose_eval_rows(struct evaluation_run *w, int64_t **rows)
{
    if (!w->o->no_search)
        SR1__TRY(sr1__rollout_check_engine(w->rollout));
    return sr1__rollout_filter_prompts(w->rollout, w->data, "questions", w->total, rows,
                                       &w->total);
}

sr1_status sr1_evaluate(sr1_evaluation **out, sr1_rollout *rollout,
                        const sr1_dataset *dataset, const sr1_eval_options *options)
{
    sr1_eval_options o = eval_options_defaults;
    struct evaluation_run w = {.rollout = rollout, .data = dataset};
    int64_t *rows = NULL, time;
    sr1_status st;

    if (!out || !rollout || !dataset)
        return sr1__fail(SR1_E_INVALID,
                         "evaluate: out, rollout and dataset are required");
    SR1__TRY(read_eval_call(&w, &o, options));
    w.dist = sr1__ranks_dist(o.ranks);
    sr1__life_hold(&rollout->life);
    time = sr1__chat_time(rollout->tokenizer);
    st = compare_eval_calls(&w);
    if (st == SR1_OK)
        st = sr1__dist_agree(w.dist, "rows", choose_eval_rows(&w, &rows));
    w.rows = rows;
    if (st == SR1_OK)
        st = evaluate_rows(&w, out);
    sr1__chat_set_time(rollout->tokenizer, time);
    sr1_rollout_free(rollout);
    sr1__free(rows);
    return st;
}
