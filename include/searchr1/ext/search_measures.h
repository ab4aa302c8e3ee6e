/* searchr1/ext/search_measures.h - how good a search engine is on questions: does it
 * return the documents that were judged relevant, and passages that hold the answer?
 *
 * Judgements (qrels) say how relevant a document is to a query, by a grade: 0 is not at
 * all, and so is a document without a judgement. Of the first k hits of a query, with
 * rel_i the grade of hit i and R the number of documents with a grade above 0:
 *
 *     recall           documents of a grade above 0 among the k / R
 *     success          1 if there is such a document among the k, else 0
 *     reciprocal_rank  1 / rank of the first such document, else 0
 *     ndcg             DCG / DCG of the best order of all judged documents, where
 *                      DCG = sum over i <= k of rel_i / log2(i + 1)
 *
 * They are trec_eval's recall_k, success_k, recip_rank (of k hits) and ndcg_cut_k, which
 * BEIR reports as Recall@k, (none), MRR@k and NDCG@k. All are 0 where R is 0. A document
 * that an engine returns twice keeps its first rank, and counts for nothing at the
 * second. Hits keep the order of the engine; trec_eval sorts equal scores by id.
 *
 *     hit_rate         1 if one of the k passages contains an answer of the question,
 *                      both normalised (sr1_reward_normalize), else 0
 *
 * Ownership: free judgements with sr1_qrels_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   any number of threads may read one sr1_qrels.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SEARCH_MEASURES_H
#define SEARCHR1_EXT_SEARCH_MEASURES_H

#include <searchr1/data.h>
#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- judgements ---- */

typedef struct sr1_qrels sr1_qrels;

/* Largest grade. */
#define SR1_QRELS_GRADE_MAX 1000000

/* Read a file of judgements, plain or packed by gzip or zstd, of at most 1 GiB of text.
 * TREC's form is a judgement a line: query, a number that is not read, document, grade,
 * with blanks or tabs between. BEIR's has a first line query-id, corpus-id, score with
 * tabs between, then query, document and grade likewise. Grades are whole numbers from 0
 * to SR1_QRELS_GRADE_MAX. Caller frees with sr1_qrels_free. SR1_E_IO; SR1_E_PARSE names
 * the line: it has another form, its grade is out of range, or the pair of query and
 * document was there before; or no judgement is above 0. SR1_E_LIMIT: the file is too
 * large. */
SR1_API sr1_status sr1_qrels_open(sr1_qrels **out, const char *path);

/* Free judgements. NULL is fine. */
SR1_API void sr1_qrels_free(sr1_qrels *qrels);

/* Return the number of judgements; 0 for NULL. */
SR1_API size_t sr1_qrels_count(const sr1_qrels *qrels);

/* Return the number of queries that are judged; 0 for NULL. */
SR1_API size_t sr1_qrels_query_count(const sr1_qrels *qrels);

/* Return the grade of a document for a query; 0 where there is no judgement, or an
 * argument is NULL. */
SR1_API int32_t sr1_qrels_grade(const sr1_qrels *qrels, const char *query,
                                const char *document);

/* ---- measures ---- */

typedef struct sr1_search_measures {
    size_t struct_size; /* set by the caller */
    int64_t questions;  /* asked, without those that failed */
    int64_t failed;     /* questions that the engine could not answer: in no mean */
    int64_t judged;     /* of questions: the next four are means over these, NaN for 0 */
    double recall;
    double success;
    double reciprocal_rank;
    double ndcg;
    int64_t with_answers; /* of questions: hit_rate is the mean over these, NaN for 0 */
    double hit_rate;
    double hits; /* mean number of hits of a question */
} sr1_search_measures;

/* Measure one ranking: ids [n] of documents, best first, of which the first top_k count.
 * judged is 1, or 0 where the query has no judgement, and then the measures are NaN.
 * SR1_E_INVALID: top_k is not from 1 to SR1_SEARCH_TOP_K_MAX, or an id is NULL.
 * SR1_E_NOMEM. */
SR1_API sr1_status sr1_qrels_measure(const sr1_qrels *qrels, const char *query,
                                     const char *const *ids, size_t n, int32_t top_k,
                                     sr1_search_measures *out);

typedef struct sr1_search_measure_options {
    size_t struct_size;     /* set by sr1_search_measure_options_init */
    int32_t top_k;          /* hits of a question: 10 */
    int32_t reserved;       /* not read */
    const sr1_qrels *qrels; /* borrowed for the call; NULL: gold ids of the rows */
    /* Without qrels: the field of a row with the ids of its documents of grade 1, as the
     * key gold_ids_field; NULL: "gold_ids". Borrowed for the call. */
    const char *gold_ids_field;
    /* After each batch of questions; SR1_E_CANCELLED ends the call. May be NULL. */
    sr1_status (*progress)(void *user, int64_t done, int64_t total);
    void *user;
} sr1_search_measure_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_search_measure_options_init(sr1_search_measure_options *options);

/* Ask an engine the questions that have a judgement or an answer, and measure what it
 * returns; rows are judgements' queries by their ids. A question whose search fails
 * (SR1_ACTION_TIMEOUT, SR1_ACTION_ERROR) is counted in failed and logged. options may be
 * NULL. SR1_E_INVALID: no question has a judgement or an answer; a judged query is none
 * of the questions; two questions have the id of one; the engine gives no ids of
 * documents although some are judged. Other errors as sr1_dataset_read and
 * sr1_search_run. */
SR1_API sr1_status sr1_search_measure(sr1_search *engine, const sr1_dataset *questions,
                                      const sr1_search_measure_options *options,
                                      sr1_search_measures *out);

#ifdef __cplusplus
}
#endif
#endif
