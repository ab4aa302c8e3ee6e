/* signal/measure/search_measures.c - ask an engine the questions of a dataset, batch by
 * batch, and average the measures of its answers; see searchr1/ext/search_measures.h. */
#include "signal/measure/ranking.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/struct.h"
#include "signal/reward/match.h"
#include "text/data/dataset.h"
#include "text/data/gold_ids.h"

#include <searchr1/ext/search_measures.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 256 /* questions of one call of the engine */

/* A question under way. */
struct measured_question {
    sr1_row *row;
    const struct sr1__judgement *judged; /* [n_judged], sorted by document */
    size_t n_judged;
    struct sr1__gold_ids gold;  /* of the row, where there are no other judgements; */
    struct sr1__judgement *own; /* as judgements; NULL: none */
};

struct search_measuring {
    sr1_search *engine;
    const sr1_dataset *questions;
    sr1_search_measure_options o;
    struct measured_question of[BATCH];
    size_t n;
    sr1_search_measures sums;
    atomic_ullong last_failure;
};

/* ---- which questions ---- */

static void drop_questions(struct search_measuring *m)
{
    for (size_t i = 0; i < m->n; i++) {
        sr1_row_free(m->of[i].row);
        sr1__gold_ids_free(&m->of[i].gold);
        sr1__free(m->of[i].own);
    }
    memset(m->of, 0, sizeof(m->of));
    m->n = 0;
}

/* The gold ids of the row, which are sorted, as judgements of grade 1. */
static sr1_status judge_by_row(struct measured_question *q, const char *field)
{
    SR1__TRY(sr1__gold_ids_read(&q->gold, sr1__dataset_row_json(q->row),
                                field ? field : SR1__GOLD_IDS_FIELD));
    if (q->gold.n == 0)
        return SR1_OK;
    SR1__CALLOC(q->own, q->gold.n, "judgements");
    for (size_t i = 0; i < q->gold.n; i++)
        q->own[i] = (struct sr1__judgement){.document = q->gold.ids[i], .grade = 1};
    q->judged = q->own;
    q->n_judged = q->gold.n;
    return SR1_OK;
}

/* Row `index` becomes question n of the batch where it has a judgement or an answer. */
static sr1_status add_question_of_row(struct search_measuring *m, int64_t index)
{
    struct measured_question *q = &m->of[m->n];

    SR1__TRY(sr1_dataset_read(m->questions, index, &q->row));
    m->n++;
    if (m->o.qrels)
        q->judged = sr1__qrels_of(m->o.qrels, sr1_row_id(q->row), &q->n_judged);
    else
        SR1__TRY(sr1__dataset_context(m->questions, index,
                                      judge_by_row(q, m->o.gold_ids_field)));
    if (q->n_judged == 0 && sr1_row_answer_count(q->row) == 0) {
        sr1_row_free(q->row);
        q->row = NULL;
        m->n--;
    }
    return SR1_OK;
}

/* Each judged query must be one question. found [judgements] marks the first judgement of
 * those that are. */
static sr1_status find_judged_queries(const struct search_measuring *m, char *found)
{
    size_t n = 0, of = 0;
    const struct sr1__judgement *all = sr1__qrels_all(m->o.qrels, &n), *first;

    for (int64_t i = 0; i < sr1_dataset_count(m->questions); i++) {
        sr1_row *row = NULL;
        sr1_status status = sr1_dataset_read(m->questions, i, &row);

        SR1__TRY(status);
        first = sr1__qrels_of(m->o.qrels, sr1_row_id(row), &of);
        if (of > 0 && found[first - all]++)
            status = sr1__fail(SR1_E_INVALID,
                               "two questions have the id '%.80s', and judgements are "
                               "by id; leave one out",
                               sr1_row_id(row));
        sr1_row_free(row);
        SR1__TRY(status);
    }
    for (size_t i = 0; i < n; i++)
        if ((i == 0 || strcmp(all[i].query, all[i - 1].query) != 0) && !found[i])
            return sr1__fail(
                SR1_E_INVALID,
                "%s:%u: query '%.80s' is none of the questions; give the "
                "file of questions that was judged (the ids are in id_field), "
                "or leave the query out",
                sr1__qrels_path(m->o.qrels), (unsigned)all[i].line, all[i].query);
    return SR1_OK;
}

static sr1_status check_judged_queries(const struct search_measuring *m)
{
    char *found;
    sr1_status status;

    if (!m->o.qrels)
        return SR1_OK;
    SR1__CALLOC(found, sr1_qrels_count(m->o.qrels), "judgements");
    status = find_judged_queries(m, found);
    sr1__free(found);
    return status;
}

/* ---- what an answer is worth ---- */

static sr1_status fill_ranking(const struct search_measuring *m,
                               const sr1_search_results *found, size_t query,
                               const char **ids)
{
    sr1_search_hit hit = {.struct_size = sizeof(hit)};

    for (int32_t k = 0; sr1_search_results_hit(found, query, k, &hit) == SR1_OK; k++) {
        if (hit.id[0] == '\0')
            return sr1__fail(SR1_E_INVALID,
                             "%s gives no ids of documents, so that judgements say "
                             "nothing of its hits; measure the hit rate, by questions "
                             "with answers alone",
                             sr1_search_name(m->engine));
        ids[k] = hit.id;
    }
    return SR1_OK;
}

static sr1_status add_ranking(struct search_measuring *m, const sr1_search_results *found,
                              size_t query, const char **ids)
{
    const struct measured_question *q = &m->of[query];
    struct sr1__ranking r;

    if (q->n_judged == 0)
        return SR1_OK;
    SR1__TRY(fill_ranking(m, found, query, ids));
    SR1__TRY(sr1__ranking_measure(&r, q->judged, q->n_judged, ids,
                                  (size_t)sr1_search_results_hit_count(found, query),
                                  m->o.top_k));
    m->sums.judged++;
    m->sums.recall += r.recall;
    m->sums.success += r.success;
    m->sums.reciprocal_rank += r.reciprocal_rank;
    m->sums.ndcg += r.ndcg;
    return SR1_OK;
}

/* Does one of the passages hold an answer? */
static sr1_status add_answer_hit(struct search_measuring *m,
                                 const sr1_search_results *found, size_t query)
{
    const sr1_row *row = m->of[query].row;
    sr1_search_hit hit = {.struct_size = sizeof(hit)};
    struct sr1__ground_truths truths = {.n = sr1_row_answer_count(row)};
    const char **answers;
    int held = 0;
    sr1_status status = SR1_OK;

    if (truths.n == 0)
        return SR1_OK;
    SR1__CALLOC(answers, truths.n, "answers");
    for (size_t i = 0; i < truths.n; i++)
        answers[i] = sr1_row_answer(row, i);
    truths.texts = answers;
    for (int32_t k = 0; status == SR1_OK && !held &&
                        sr1_search_results_hit(found, query, k, &hit) == SR1_OK;
         k++)
        status = sr1__holds_answer(sr1__str_of(hit.contents), &truths, &held);
    sr1__free((void *)answers);
    m->sums.with_answers++;
    m->sums.hit_rate += held;
    return status;
}

static int is_failed_search(struct search_measuring *m, const sr1_search_results *found,
                            size_t query)
{
    int32_t how = sr1_search_results_status(found, query);

    if (how == SR1_ACTION_OK || how == SR1_ACTION_EMPTY)
        return 0;
    if (sr1__log_is_news(&m->last_failure, sr1_search_results_message(found, query)))
        sr1__log(SR1_LOG_WARN, "question '%.80s' could not be searched for: %s",
                 sr1_row_id(m->of[query].row), sr1_search_results_message(found, query));
    return 1;
}

static sr1_status add_results(struct search_measuring *m, const sr1_search_results *found)
{
    const char **ids;
    sr1_status status = SR1_OK;

    SR1__CALLOC(ids, (size_t)m->o.top_k, "ids");
    for (size_t i = 0; status == SR1_OK && i < m->n; i++) {
        if (is_failed_search(m, found, i)) {
            m->sums.failed++;
            continue;
        }
        m->sums.questions++;
        m->sums.hits += sr1_search_results_hit_count(found, i);
        status = add_ranking(m, found, i, ids);
        if (status == SR1_OK)
            status = add_answer_hit(m, found, i);
    }
    sr1__free((void *)ids);
    return status;
}

/* ---- all questions ---- */

static sr1_status ask_questions(struct search_measuring *m, int64_t done)
{
    const char *queries[BATCH];
    sr1_search_results *found = NULL;
    sr1_status status = SR1_OK;

    for (size_t i = 0; i < m->n; i++)
        queries[i] = sr1_row_question(m->of[i].row);
    if (m->n > 0)
        status = sr1_search_run(m->engine, queries, m->n, m->o.top_k, &found);
    if (status == SR1_OK && m->n > 0)
        status = add_results(m, found);
    sr1_search_results_free(found);
    drop_questions(m);
    if (status == SR1_OK && m->o.progress)
        status = m->o.progress(m->o.user, done, sr1_dataset_count(m->questions));
    return status;
}

static sr1_status measure_questions(struct search_measuring *m)
{
    int64_t count = sr1_dataset_count(m->questions);

    SR1__TRY(check_judged_queries(m));
    for (int64_t i = 0; i < count; i++) {
        SR1__TRY(add_question_of_row(m, i));
        if (m->n == BATCH || i + 1 == count)
            SR1__TRY(ask_questions(m, i + 1));
    }
    if (m->sums.questions + m->sums.failed == 0)
        return sr1__fail(SR1_E_INVALID,
                         "no question has an answer or a judged document; give "
                         "judgements of the questions (qrels), or name the field of the "
                         "answers or of the gold ids");
    return SR1_OK;
}

/* NaN for none. */
static double divide_measure(double sum, int64_t n)
{
    return n > 0 ? sum / (double)n : NAN;
}

static sr1_search_measures average_measures(const sr1_search_measures *sums)
{
    sr1_search_measures out = *sums;

    out.recall = divide_measure(sums->recall, sums->judged);
    out.success = divide_measure(sums->success, sums->judged);
    out.reciprocal_rank = divide_measure(sums->reciprocal_rank, sums->judged);
    out.ndcg = divide_measure(sums->ndcg, sums->judged);
    out.hit_rate = divide_measure(sums->hit_rate, sums->with_answers);
    out.hits = divide_measure(sums->hits, sums->questions);
    return out;
}

/* ---- public ---- */

static const sr1_search_measure_options measure_defaults = {.top_k = 10};

void sr1_search_measure_options_init(sr1_search_measure_options *options)
{
    sr1__struct_init(options, &measure_defaults, sizeof(measure_defaults));
}

static sr1_status check_measure_depth(int32_t top_k)
{
    return top_k >= 1 && top_k <= SR1_SEARCH_TOP_K_MAX
               ? SR1_OK
               : sr1__fail(SR1_E_INVALID, "measures: top_k must be from 1 to %d, not %d",
                           SR1_SEARCH_TOP_K_MAX, (int)top_k);
}

sr1_status sr1_search_measure(sr1_search *engine, const sr1_dataset *questions,
                              const sr1_search_measure_options *options,
                              sr1_search_measures *out)
{
    sr1_search_measure_options o = measure_defaults;
    sr1_search_measures means;
    struct search_measuring *m;
    sr1_status status;

    SR1__REQUIRE(engine && questions, "measures: engine and questions");
    SR1__TRY(sr1__struct_check(out, "measures"));
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_search_measure_options, top_k),
                              "measures: options"));
    SR1__TRY(check_measure_depth(o.top_k));
    SR1__CALLOC(m, 1, "measures");
    m->engine = engine;
    m->questions = questions;
    m->o = o;
    status = measure_questions(m);
    means = average_measures(&m->sums);
    drop_questions(m);
    sr1__free(m);
    return status == SR1_OK ? sr1__struct_give(out, &means, sizeof(means), "measures")
                            : status;
}

sr1_status sr1_qrels_measure(const sr1_qrels *qrels, const char *query,
                             const char *const *ids, size_t n, int32_t top_k,
                             sr1_search_measures *out)
{
    sr1_search_measures one = {.questions = 1, .hits = (double)n};
    struct sr1__ranking r;
    const struct sr1__judgement *judged;
    size_t n_judged = 0;

    SR1__REQUIRE(qrels && query && (ids || n == 0), "measures: qrels, query and ids");
    SR1__TRY(sr1__struct_check(out, "measures"));
    SR1__TRY(check_measure_depth(top_k));
    for (size_t i = 0; i < n; i++)
        SR1__REQUIRE(ids[i], "measures: each id");
    judged = sr1__qrels_of(qrels, query, &n_judged);
    if (n_judged > 0) {
        SR1__TRY(sr1__ranking_measure(&r, judged, n_judged, ids, n, top_k));
        one.judged = 1;
        one.recall = r.recall;
        one.success = r.success;
        one.reciprocal_rank = r.reciprocal_rank;
        one.ndcg = r.ndcg;
    }
    one = average_measures(&one);
    return sr1__struct_give(out, &one, sizeof(one), "measures");
}
