/* test_bm25_lucene.c - our ranking against Lucene's on three public sets: every top-10
 * score, and the measures of whole runs. The sets lie in the shared test data; a small
 * set of our own, with scores worked out by the formula, stands in where they are not. */
#include "base/file.h"
#include "base/json.h"
#include "retrieval/search/bm25.h"

#include "search_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define RELEVANT_MAX 16

struct question {
    char id[64];
    char *text;
    char relevant[RELEVANT_MAX][128];
    int n_relevant;
};

struct set {
    const char *corpus;
    const char *questions;
    const char *judgments; /* TREC form; NULL: the questions carry them */
    const char *run;       /* NULL: none */
    uint64_t documents, terms, total_terms;
    /* 4 digits; negative: not known */
    double ndcg10, recall100, recall1000, mrr10, hit1, hit3;
};

static const struct set sets[] = {
    {"scifact/corpus.jsonl", "scifact/topics.test.tsv", "scifact/qrels.test.txt",
     "bm25/scifact.top10.tsv", 5183, 28865, 838128, 0.6789, 0.9253, 0.9767, 0.6457,
     0.5533, 0.7300},
    {"hotpotqa/corpus.jsonl", "hotpotqa/dev500.jsonl", NULL, "bm25/hotpotqa.top10.tsv",
     4937, 28978, 328133, 0.7723, 0.9730, -1, 0.8714, 0.8060, 0.9140},
    {"squad/corpus.jsonl", "squad/train.jsonl", NULL, NULL, 1507, 13886, 127650, 0.8630,
     -1, -1, 0.8318, 0.7573, 0.8956},
    {"squad/corpus.jsonl", "squad/dev.jsonl", NULL, "bm25/squad_dev_every8th.top10.tsv",
     1507, 13886, 127650, 0.8595, -1, -1, 0.8303, 0.7616, 0.8877},
};

struct corpus {
    char (*ids)[128];
    size_t n;
    sr1_search *engine;
    char index[64];
};

typedef void (*line_fn)(void *arg, char *line);

static void each_line(const char *name, line_fn fn, void *arg)
{
    char *path = test_shared(name);
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    for (char *p = b.data; p != NULL && *p != '\0';) {
        char *end = strchr(p, '\n');

        if (end != NULL)
            *end = '\0';
        fn(arg, p);
        p = end != NULL ? end + 1 : NULL;
    }
    sr1__buf_free(&b);
    free(path);
}

static void add_id(void *arg, char *line)
{
    struct corpus *c = arg;
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);

    assert_non_null(row);
    c->ids = realloc(c->ids, (c->n + 1) * sizeof(c->ids[0]));
    snprintf(c->ids[c->n++], sizeof(c->ids[0]), "%s",
             json_string_value(json_object_get(row, "id")));
    json_decref(row);
}

static void open_corpus(struct corpus *c, const char *name)
{
    char *path = test_shared(name);

    memset(c, 0, sizeof(*c));
    snprintf(c->index, sizeof(c->index), "/tmp/sr1-lucene-%d.idx", (int)getpid());
    each_line(name, add_id, c);
    assert_int_equal(sr1_bm25_build(path, c->index, NULL, NULL, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_bm25(&c->engine, c->index, NULL), SR1_OK);
    free(path);
}

static void close_corpus(struct corpus *c)
{
    sr1_search_free(c->engine);
    unlink(c->index);
    free(c->ids);
}

struct questions {
    struct question *list;
    size_t n;
};

static struct question *new_question(struct questions *q, const char *id,
                                     const char *text)
{
    struct question *new;

    q->list = realloc(q->list, (q->n + 1) * sizeof(q->list[0]));
    new = &q->list[q->n++];
    memset(new, 0, sizeof(*new));
    snprintf(new->id, sizeof(new->id), "%s", id);
    new->text = strdup(text);
    return new;
}

static void add_relevant(struct question *q, const char *id)
{
    assert_true(q->n_relevant < RELEVANT_MAX);
    snprintf(q->relevant[q->n_relevant++], sizeof(q->relevant[0]), "%s", id);
}

static void add_json_question(void *arg, char *line)
{
    json_t *row = json_loads(line, 0, NULL);
    json_t *many = json_object_get(row, "supporting_doc_ids");
    struct question *q =
        new_question(arg, json_string_value(json_object_get(row, "id")),
                     json_string_value(json_object_get(row, "question")));
    json_t *id;
    size_t i;

    if (many == NULL)
        add_relevant(q, json_string_value(json_object_get(row, "doc_id")));
    json_array_foreach(many, i, id) add_relevant(q, json_string_value(id));
    json_decref(row);
}

static void add_tsv_question(void *arg, char *line)
{
    char *tab = strchr(line, '\t');

    *tab = '\0';
    new_question(arg, line, tab + 1);
}

static struct question *find_question(struct questions *q, const char *id)
{
    for (size_t i = 0; i < q->n; i++) {
        if (strcmp(q->list[i].id, id) == 0)
            return &q->list[i];
    }
    return NULL;
}

static void add_judgment(void *arg, char *line)
{
    char qid[64];
    char doc[64];
    int grade;

    if (sscanf(line, "%63s %*s %63s %d", qid, doc, &grade) == 3 && grade > 0)
        add_relevant(find_question(arg, qid), doc);
}

static void open_questions(struct questions *q, const struct set *s)
{
    memset(q, 0, sizeof(*q));
    if (s->judgments == NULL) {
        each_line(s->questions, add_json_question, q);
    } else {
        each_line(s->questions, add_tsv_question, q);
        each_line(s->judgments, add_judgment, q);
    }
}

static void close_questions(struct questions *q)
{
    for (size_t i = 0; i < q->n; i++)
        free(q->list[i].text);
    free(q->list);
}

/* ---- measures, as trec_eval's ---- */

struct measures {
    double ndcg10, recall100, recall1000, mrr10, hit1, hit3;
};

static int is_relevant(const struct question *q, const char *id)
{
    for (int i = 0; i < q->n_relevant; i++) {
        if (strcmp(q->relevant[i], id) == 0)
            return 1;
    }
    return 0;
}

static void measure(const struct corpus *c, const struct question *q,
                    const uint32_t *docs, int32_t n, struct measures *m)
{
    double dcg = 0;
    double ideal = 0;
    int found = 0;

    for (int i = 0; i < q->n_relevant && i < 10; i++)
        ideal += 1 / log2(i + 2);
    for (int32_t k = 0; k < n; k++) {
        if (!is_relevant(q, c->ids[docs[k]]))
            continue;
        found++;
        if (k < 10)
            dcg += 1 / log2(k + 2);
        m->recall100 += k < 100 ? 1.0 / q->n_relevant : 0;
        m->recall1000 += 1.0 / q->n_relevant;
        if (found > 1)
            continue;
        m->mrr10 += k < 10 ? 1.0 / (k + 1) : 0;
        m->hit1 += k < 1;
        m->hit3 += k < 3;
    }
    m->ndcg10 += dcg / ideal;
}

static void assert_measure(const char *name, double want, double sum, size_t n)
{
    double got = sum / (double)n;

    if (want >= 0 && fabs(floor(got * 1e4 + 0.5) / 1e4 - want) > 1e-9)
        fail_msg("%s is %.6f, Lucene's %.4f", name, got, want);
}

static void check_measures(const struct set *s)
{
    static uint32_t docs[1000];
    static double scores[1000];
    struct measures m = {0};
    struct corpus c;
    struct questions q;

    open_corpus(&c, s->corpus);
    open_questions(&q, s);
    for (size_t i = 0; i < q.n; i++) {
        int32_t n = 0;

        assert_int_equal(
            sr1__bm25_numbers(c.engine, q.list[i].text, 1000, docs, scores, &n), SR1_OK);
        measure(&c, &q.list[i], docs, n, &m);
    }
    print_message("%s: nDCG@10 %.4f R@100 %.4f R@1000 %.4f MRR@10 %.4f hit@1 %.4f "
                  "hit@3 %.4f\n",
                  s->questions, m.ndcg10 / (double)q.n, m.recall100 / (double)q.n,
                  m.recall1000 / (double)q.n, m.mrr10 / (double)q.n, m.hit1 / (double)q.n,
                  m.hit3 / (double)q.n);
    assert_measure("nDCG@10", s->ndcg10, m.ndcg10, q.n);
    assert_measure("R@100", s->recall100, m.recall100, q.n);
    assert_measure("R@1000", s->recall1000, m.recall1000, q.n);
    assert_measure("MRR@10", s->mrr10, m.mrr10, q.n);
    assert_measure("hit@1", s->hit1, m.hit1, q.n);
    assert_measure("hit@3", s->hit3, m.hit3, q.n);
    close_questions(&q);
    close_corpus(&c);
}

static void measures_equal_lucenes(void **state)
{
    char *here = test_shared("bm25");

    (void)state;
    if (here == NULL)
        skip();
    free(here);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        check_measures(&sets[i]);
}

static void counts_equal_lucenes(void **state)
{
    char *here = test_shared("bm25");

    (void)state;
    if (here == NULL)
        skip();
    free(here);
    for (size_t i = 0; i < 3; i++) {
        sr1_bm25_info info = {sizeof(info)};
        struct corpus c;

        open_corpus(&c, sets[i].corpus);
        assert_int_equal(sr1_bm25_info_get(c.engine, &info), SR1_OK);
        assert_int_equal(info.documents, sets[i].documents);
        assert_int_equal(info.terms, sets[i].terms);
        assert_int_equal(info.total_terms, sets[i].total_terms);
        assert_string_equal(info.analyzer, "english");
        close_corpus(&c);
    }
}

/* ---- run files ---- */

struct run {
    struct questions questions;
    const struct corpus *corpus;
    char qid[64];
    sr1_search_results *found; /* of qid */
    size_t compared;
};

/* Lucene's score of a document and ours, wherever in our ranking it stands, are the same;
 * so are the scores at each rank. Documents this close may change places. */
static void check_run_line(void *arg, char *line)
{
    struct run *r = arg;
    sr1_search_hit hit = {sizeof(hit)};
    char qid[64];
    char doc[128];
    double score;
    int rank;
    int seen = 0;

    if (sscanf(line, "%63s %d %127s %lf", qid, &rank, doc, &score) != 4)
        return; /* the heading */
    if (strcmp(qid, r->qid) != 0) {
        const char *text = find_question(&r->questions, qid)->text;

        sr1_search_results_free(r->found);
        assert_int_equal(sr1_search_run(r->corpus->engine, &text, 1, 20, &r->found),
                         SR1_OK);
        snprintf(r->qid, sizeof(r->qid), "%s", qid);
    }
    assert_int_equal(sr1_search_results_hit(r->found, 0, rank - 1, &hit), SR1_OK);
    assert_true(fabs(hit.score - score) <= 1e-4);
    for (int32_t k = 0; sr1_search_results_hit(r->found, 0, k, &hit) == SR1_OK; k++) {
        if (strcmp(hit.id, doc) == 0) {
            assert_true(fabs(hit.score - score) <= 1e-4);
            seen = 1;
        }
    }
    if (!seen)
        fail_msg("question %s: Lucene's document %s is not in our top 20", qid, doc);
    r->compared++;
}

static void scores_equal_lucenes(void **state)
{
    char *here = test_shared("bm25");

    (void)state;
    if (here == NULL)
        skip();
    free(here);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        struct run r = {0};
        struct corpus c;

        if (sets[i].run == NULL)
            continue;
        open_corpus(&c, sets[i].corpus);
        open_questions(&r.questions, &sets[i]);
        r.corpus = &c;
        each_line(sets[i].run, check_run_line, &r);
        print_message("%s: %zu scores\n", sets[i].run, r.compared);
        assert_true(r.compared >= 2900);
        sr1_search_results_free(r.found);
        close_questions(&r.questions);
        close_corpus(&c);
    }
}

/* ---- our own small set ---- */

/* {"question", "scores": {id: score, ...}} for each line, best first. */
static void scores_equal_the_formula(void **state)
{
    char *corpus = test_fixture("search/corpus.jsonl");
    char *cases = test_fixture("search/scores.json");
    sr1_search *engine = NULL;
    json_t *all = NULL;
    json_t *row;
    size_t i;
    char index[64];

    (void)state;
    snprintf(index, sizeof(index), "/tmp/sr1-formula-%d.idx", (int)getpid());
    assert_int_equal(sr1_bm25_build(corpus, index, NULL, NULL, NULL), SR1_OK);
    assert_int_equal(sr1_search_open_bm25(&engine, index, NULL), SR1_OK);
    assert_int_equal(sr1__json_load(&all, cases, 0), SR1_OK);
    assert_true(json_array_size(all) >= 5);
    json_array_foreach(all, i, row)
    {
        const char *question = json_string_value(json_object_get(row, "question"));
        json_t *scores = json_object_get(row, "scores");
        sr1_search_results *found = NULL;
        sr1_search_hit hit = {sizeof(hit)};
        const char *id;
        json_t *score;
        int32_t k = 0;

        assert_int_equal(sr1_search_run(engine, &question, 1, 100, &found), SR1_OK);
        assert_int_equal(sr1_search_results_hit_count(found, 0),
                         json_object_size(scores));
        json_object_foreach(scores, id, score)
        {
            assert_int_equal(sr1_search_results_hit(found, 0, k++, &hit), SR1_OK);
            assert_string_equal(hit.id, id);
            assert_true(fabs(hit.score - json_number_value(score)) < 1e-6);
        }
        sr1_search_results_free(found);
    }
    json_decref(all);
    sr1_search_free(engine);
    unlink(index);
    free(corpus);
    free(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_the_formula),
        cmocka_unit_test(counts_equal_lucenes),
        cmocka_unit_test(measures_equal_lucenes),
        cmocka_unit_test(scores_equal_lucenes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
