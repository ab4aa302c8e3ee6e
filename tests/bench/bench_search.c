/* BM25 over the folder that bench_passages wrote: build, sizes, queries top-3 one by one
 * on one thread. usage: bench_search FOLDER [ask]
 * With `ask` the index that is there is asked.
 * Every line is a JSON object. build_s and queries_s are by processor time of the
 * process, build_wall_s by the clock; stored_ratio compares the stored documents with
 * zstd level 3 over the same rows cut into 64 KiB blocks. */
#include "processor_time.h"

#include "base/clock.h"
#include "base/file.h"
#include "retrieval/search/bm25.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define BLOCK ((size_t)64 << 10)
#define TOP_K 3
#define ASKED_BEFORE 50 /* not timed: pages of the index are read in */

struct questions {
    char **text;
    size_t n;
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static sr1_status read_questions(const char *path, struct questions *out)
{
    struct sr1__buf b;
    char *rest;
    char *line;

    SR1__TRY(sr1__file_read(path, 0, &b));
    out->text = calloc(b.len + 1, sizeof(*out->text));
    for (line = strtok_r(b.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        out->text[out->n++] = line;
    return SR1_OK;
}

/* What zstd level 3 makes of the corpus in blocks. */
static uint64_t zstd_size(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *block = malloc(BLOCK);
    char *packed = malloc(ZSTD_compressBound(BLOCK));
    uint64_t size = 0;
    size_t n;

    while (f != NULL && (n = fread(block, 1, BLOCK, f)) > 0)
        size += ZSTD_compress(packed, ZSTD_compressBound(BLOCK), block, n, 3);
    if (f != NULL)
        fclose(f);
    free(packed);
    free(block);
    return size;
}

static sr1_status build(const char *corpus, const char *index)
{
    double wall = sr1__now();
    double begun = processor_seconds();
    sr1_search *e = NULL;
    sr1_bm25_info info = {sizeof(info)};
    sr1_bm25_build_options o;
    double built;
    double opened;

    sr1_bm25_build_options_init(&o);
    o.memory_bytes = 0;
    o.text_format = NULL;
    o.threads = 1;
    SR1__TRY(sr1_bm25_build(corpus, index, &o, NULL, NULL));
    built = processor_seconds() - begun;
    wall = sr1__now() - wall;
    opened = sr1__now();
    SR1__TRY(sr1_search_open_bm25(&e, index, NULL));
    opened = sr1__now() - opened;
    SR1__TRY(sr1_bm25_info_get(e, &info));
    printf("{\"what\": \"search\", \"event\": \"build\", \"passages\": %llu, "
           "\"text_mb\": %.1f, \"terms\": %llu, \"postings\": %llu, \"build_s\": %.2f, "
           "\"build_wall_s\": %.2f, \"mb_min\": %.0f, \"peak_mb\": %.0f, \"open_ms\": "
           "%.2f, \"text_share\": %.4f, \"stored_ratio\": %.4f}\n",
           (unsigned long long)info.documents, 1e-6 * (double)info.contents_bytes,
           (unsigned long long)info.terms, (unsigned long long)info.postings, built, wall,
           60e-6 * (double)info.contents_bytes / built,
           1e-6 * (double)sr1__peak_rss_bytes(), 1e3 * opened,
           (double)info.search_bytes / (double)info.contents_bytes,
           (double)info.documents_bytes / (double)zstd_size(corpus));
    sr1_search_free(e);
    return SR1_OK;
}

/* One by one, with documents (fetch 1) or numbers only. */
static sr1_status ask(sr1_search *e, const struct questions *q, int fetch)
{
    double *times = calloc(q->n, sizeof(*times));
    struct sr1__bm25_work work = {0, 0};
    double total = 0;

    for (size_t i = 0; i < q->n + ASKED_BEFORE; i++) {
        const char *text = q->text[i % q->n];
        sr1_search_results *r = NULL;
        uint32_t docs[TOP_K];
        double scores[TOP_K];
        int32_t found;
        double begun = processor_seconds();

        SR1__TRY(fetch ? sr1_search_run(e, &text, 1, TOP_K, &r)
                       : sr1__bm25_numbers(e, text, TOP_K, docs, scores, &found));
        if (i >= ASKED_BEFORE) {
            times[i - ASKED_BEFORE] = processor_seconds() - begun;
            total += times[i - ASKED_BEFORE];
        }
        sr1_search_results_free(r);
    }
    qsort(times, q->n, sizeof(*times), by_size);
    SR1__TRY(sr1__bm25_stats(e, &work));
    printf("{\"what\": \"search\", \"event\": \"%s\", \"questions\": %zu, \"queries_s\": "
           "%.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"scored_share\": %.4f}\n",
           fetch ? "fetch" : "ask", q->n, (double)q->n / total, 1e6 * times[q->n / 2],
           1e6 * times[q->n * 99 / 100], (double)work.scored / (double)work.listed);
    free(times);
    return SR1_OK;
}

static sr1_status run(const char *folder, int built)
{
    char corpus[4096];
    char index[4096];
    char questions[4096];
    struct questions q = {NULL, 0};
    sr1_search *e = NULL;

    snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder);
    snprintf(index, sizeof(index), "%s/ours.idx", folder);
    snprintf(questions, sizeof(questions), "%s/questions.txt", folder);
    SR1__TRY(read_questions(questions, &q));
    if (!built)
        SR1__TRY(build(corpus, index));
    SR1__TRY(sr1_search_open_bm25(&e, index, NULL));
    SR1__TRY(ask(e, &q, 0));
    SR1__TRY(ask(e, &q, 1));
    sr1_search_free(e);
    free(q.text);
    return SR1_OK;
}

int main(int argc, char **argv)
{
    int built = argc == 3 && strcmp(argv[2], "ask") == 0;

    if (argc != 2 + built) {
        fprintf(stderr, "usage: bench_search FOLDER [ask]\n");
        return 2;
    }
    if (run(argv[1], built) == SR1_OK)
        return 0;
    fprintf(stderr, "bench_search: %s\n", sr1_last_error());
    return 1;
}
