/* test_bm25_rank.c - pruning never changes a result: random indexes and queries against
 * scoring every posting; and it saves work on a large one. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/bm25.h"
#include "retrieval/search/bm25_format.h"
#include "retrieval/search/bm25_index_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void index_path(char *path, size_t n)
{
    snprintf(path, n, "/tmp/sr1-rank-%d.idx", (int)getpid());
}

/* Term t of vocabulary v is in a document with a chance that falls with t, tf geometric.
 */
static uint32_t random_tf(struct sr1__rng *rng, uint32_t t, double density)
{
    uint32_t tf = 1;

    if (sr1__rng_uniform(rng) > density / (1.0 + t))
        return 0;
    while (tf < 300 && sr1__rng_uniform(rng) < 0.4)
        tf++;
    return sr1__rng_below(rng, 200) == 0 ? tf * 40 : tf;
}

static void write_random_index(struct sr1__rng *rng, uint32_t documents, uint32_t terms,
                               double density)
{
    uint32_t *tfs = calloc((size_t)documents * terms, sizeof(*tfs));
    struct sr1__index_writer *w = NULL;
    struct sr1__row_packer *packer = NULL;
    struct sr1__doc_block block;
    char path[64];

    index_path(path, sizeof(path));
    sr1__doc_block_init(&block);
    assert_int_equal(sr1__row_packer_new(&packer, 1), SR1_OK);
    assert_int_equal(sr1__index_writer_open(&w, path, "english"), SR1_OK);
    for (uint32_t d = 0; d < documents; d++) {
        uint32_t length = (uint32_t)sr1__rng_below(rng, 100);

        for (uint32_t t = 0; t < terms; t++)
            length += tfs[d * terms + t] = random_tf(rng, t, density);
        assert_int_equal(sr1__row_packer_add(packer, "{}", 2, length, 0), SR1_OK);
    }
    assert_int_equal(sr1__row_packer_finish(packer, &block), SR1_OK);
    assert_int_equal(sr1__index_writer_block(w, &block), SR1_OK);
    sr1__doc_block_free(&block);
    sr1__row_packer_free(packer);
    for (uint32_t t = 0; t < terms; t++) {
        char name[16];
        int any = 0;

        snprintf(name, sizeof(name), "t%05u", t);
        for (uint32_t d = 0; d < documents; d++) {
            if (tfs[d * terms + t] == 0)
                continue;
            if (!any)
                assert_int_equal(sr1__index_writer_term(w, name, strlen(name)), SR1_OK);
            any = 1;
            assert_int_equal(sr1__index_writer_posting(w, d, tfs[d * terms + t]), SR1_OK);
        }
    }
    assert_int_equal(sr1__index_writer_commit(w), SR1_OK);
    free(tfs);
}

static int by_score(const void *pa, const void *pb)
{
    const struct sr1__bm25_doc *a = pa;
    const struct sr1__bm25_doc *b = pb;

    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return a->doc < b->doc ? -1 : a->doc > b->doc;
}

/* Every posting of every term, through the cursor alone. */
static struct sr1__bm25_doc *score_all(const struct sr1__index *ix,
                                       const struct sr1__bm25_norm *norm,
                                       const struct sr1__bm25_query_term *terms, size_t n,
                                       size_t *found)
{
    uint32_t documents = (uint32_t)sr1__index_meta(ix)->documents;
    struct sr1__bm25_doc *all = calloc(documents, sizeof(*all));
    static struct sr1__postings p;
    size_t kept = 0;

    for (uint32_t d = 0; d < documents; d++)
        all[d].doc = d;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sr1__postings_open(&p, ix, &terms[i].term), SR1_OK);
        for (; p.block < p.n_blocks; p.block++) {
            assert_int_equal(sr1__postings_decode(&p), SR1_OK);
            assert_int_equal(sr1__postings_decode_tfs(&p), SR1_OK);
            for (uint32_t k = 0; k < p.count; k++)
                all[p.docs[k]].score +=
                    sr1__bm25_score(norm, terms[i].weight, p.tfs[k],
                                    sr1__index_length_codes(ix)[p.docs[k]]);
        }
    }
    for (uint32_t d = 0; d < documents; d++) {
        if (all[d].score > 0)
            all[kept++] = all[d];
    }
    qsort(all, kept, sizeof(*all), by_score);
    *found = kept;
    return all;
}

static size_t random_query(struct sr1__rng *rng, const struct sr1__index *ix,
                           uint32_t terms, struct sr1__bm25_query_term *out, size_t max)
{
    size_t n = 1 + sr1__rng_below(rng, max);
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct sr1__bm25_query_term *q = &out[kept];
        char name[16];
        int repeated = 0;

        snprintf(name, sizeof(name), "t%05u", (unsigned)sr1__rng_below(rng, terms));
        assert_int_equal(sr1__index_find(ix, name, strlen(name), &q->term), SR1_OK);
        for (size_t k = 0; k < kept; k++)
            repeated |= out[k].term.bytes == q->term.bytes;
        if (q->term.df == 0 || repeated)
            continue;
        q->weight = sr1__bm25_weight(sr1__index_meta(ix)->documents, q->term.df,
                                     1 + (uint32_t)sr1__rng_below(rng, 3));
        kept++;
    }
    return kept;
}

static void check_query(struct sr1__rng *rng, const struct sr1__index *ix,
                        struct sr1__bm25_ranker *r, const struct sr1__bm25_norm *norm,
                        uint32_t terms)
{
    static const int32_t top_ks[] = {1, 3, 10, 100, 1000};
    struct sr1__bm25_query_term query[24];
    struct sr1__bm25_work work = {0, 0};
    size_t n = random_query(rng, ix, terms, query, 24);
    size_t all_n;
    struct sr1__bm25_doc *all = score_all(ix, norm, query, n, &all_n);

    for (size_t i = 0; i < 5; i++) {
        const struct sr1__bm25_doc *docs = NULL;
        int32_t found = 0;
        size_t want = all_n < (size_t)top_ks[i] ? all_n : (size_t)top_ks[i];

        assert_int_equal(sr1__bm25_rank(r, query, n, top_ks[i], &docs, &found, &work),
                         SR1_OK);
        assert_int_equal(found, want);
        for (size_t k = 0; k < want; k++) {
            assert_int_equal(docs[k].doc, all[k].doc);
            assert_true(docs[k].score == all[k].score);
        }
    }
    free(all);
}

static void pruning_changes_nothing(void **state)
{
    static const struct {
        uint32_t documents, terms;
        double density;
        int indexes, queries;
    } shapes[] = {
        {1, 3, 1, 5, 5},        {128, 20, 2, 5, 20},     {129, 20, 8, 5, 20},
        {1000, 40, 3, 4, 60},   {5000, 60, 1, 3, 60},    {20000, 60, 4, 2, 80},
        {20000, 30, 20, 1, 60}, {40000, 20, 0.5, 1, 60},
    };
    struct sr1__rng rng;
    char path[64];

    (void)state;
    index_path(path, sizeof(path));
    sr1__rng_seed(&rng, 11, 0);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        for (int i = 0; i < shapes[s].indexes; i++) {
            struct sr1__bm25_norm norm;
            struct sr1__index *ix = NULL;
            struct sr1__bm25_ranker *r = NULL;

            write_random_index(&rng, shapes[s].documents, shapes[s].terms,
                               shapes[s].density);
            assert_int_equal(sr1__index_open(&ix, path), SR1_OK);
            sr1__bm25_norm_init(&norm, sr1__index_meta(ix), 2 * sr1__rng_uniform(&rng),
                                sr1__rng_uniform(&rng));
            assert_int_equal(sr1__bm25_ranker_new(&r, ix, &norm), SR1_OK);
            for (int q = 0; q < shapes[s].queries; q++)
                check_query(&rng, ix, r, &norm, shapes[s].terms);
            sr1__bm25_ranker_free(r);
            sr1__index_close(ix);
        }
    }
    unlink(path);
}

/* The score may never fall as tf rises or the length falls, after rounding too: bounds
 * that pruning takes from the best tf and length of a block rest on it. */
static void score_is_monotone(void **state)
{
    struct sr1__index_meta meta = {.documents = 1000, .total_terms = 61234};
    struct sr1__bm25_norm norm;
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 5, 0);
    for (int round = 0; round < 20; round++) {
        double weight = SR1__BM25_UNIT * 10 * sr1__rng_uniform(&rng);

        sr1__bm25_norm_init(&norm, &meta, 3 * sr1__rng_uniform(&rng),
                            sr1__rng_uniform(&rng));
        for (int code = 0; code < 256; code++) {
            for (uint32_t tf = 1; tf < 40; tf++) {
                int64_t s = sr1__bm25_score(&norm, weight, tf, (uint8_t)code);

                assert_true(s <= sr1__bm25_score(&norm, weight, tf + 1, (uint8_t)code));
                assert_true(s > 0 && s <= (int64_t)weight + 1);
                if (code > 0)
                    assert_true(s <=
                                sr1__bm25_score(&norm, weight, tf, (uint8_t)(code - 1)));
            }
        }
    }
}

static void length_codes_are_lucenes(void **state)
{
    static const uint32_t want[][2] = {
        {0, 0},    {1, 1},     {23, 23},    {24, 24},     {39, 39},        {40, 40},
        {41, 40},  {42, 42},   {55, 54},    {56, 56},     {59, 56},        {60, 60},
        {100, 96}, {255, 248}, {1000, 984}, {4096, 3864}, {100000, 98328},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        assert_int_equal(sr1__length_decode(sr1__length_encode(want[i][0])), want[i][1]);
    for (uint32_t code = 0; code < 256; code++)
        assert_int_equal(sr1__length_encode(sr1__length_decode((uint8_t)code)), code);
    for (uint32_t n = 0; n < 200000; n++)
        assert_true(sr1__length_decode(sr1__length_encode(n)) <= n);
}

/* Words by Zipf's law: rank r with weight 1 / r, drawn by inverting the integral. */
static uint32_t zipf(struct sr1__rng *rng, uint32_t words)
{
    double r = exp(sr1__rng_uniform(rng) * log(words + 1.0)) - 1;

    return r < words ? (uint32_t)r : words - 1;
}

static void write_generated_corpus(const char *path, int documents)
{
    FILE *f = fopen(path, "w");
    struct sr1__rng rng;

    assert_non_null(f);
    sr1__rng_seed(&rng, 3, 0);
    for (int d = 0; d < documents; d++) {
        int n = 40 + (int)sr1__rng_below(&rng, 40);

        fprintf(f, "{\"id\": %d, \"contents\": \"", d);
        for (int i = 0; i < n; i++)
            fprintf(f, "w%ux ", zipf(&rng, 100000));
        fprintf(f, "\"}\n");
    }
    fclose(f);
}

static void pruning_halves_the_work(void **state)
{
    char corpus[64];
    char path[64];
    sr1_search *engine = NULL;
    struct sr1__bm25_work work = {0, 0};
    struct sr1__rng rng;

    (void)state;
    index_path(path, sizeof(path));
    snprintf(corpus, sizeof(corpus), "/tmp/sr1-rank-%d.jsonl", (int)getpid());
    write_generated_corpus(corpus, 100000);
    assert_int_equal(sr1_bm25_build(corpus, path, NULL, NULL, NULL), SR1_OK);
    unlink(corpus);
    assert_int_equal(sr1_search_open_bm25(&engine, path, NULL), SR1_OK);
    unlink(path);
    sr1__rng_seed(&rng, 4, 0);
    for (int q = 0; q < 200; q++) {
        char text[256] = "";
        const char *queries[] = {text};
        sr1_search_results *found = NULL;

        for (int i = 0; i < 8; i++)
            snprintf(text + strlen(text), 32, "w%ux ", zipf(&rng, 100000));
        assert_int_equal(sr1_search_run(engine, queries, 1, 3, &found), SR1_OK);
        assert_int_equal(sr1_search_results_hit_count(found, 0), 3);
        sr1_search_results_free(found);
    }
    assert_int_equal(sr1__bm25_stats(engine, &work), SR1_OK);
    print_message("top-3 of 100,000: %.1f%% of the postings scored\n",
                  100.0 * (double)work.scored / (double)work.listed);
    assert_true(work.listed > 1000000);
    assert_true(work.scored < work.listed / 2);
    sr1_search_free(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(length_codes_are_lucenes),
        cmocka_unit_test(score_is_monotone),
        cmocka_unit_test(pruning_changes_nothing),
        cmocka_unit_test(pruning_halves_the_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
