/* BM25 over generated passages: words by Zipf's law (exponent 1.05 over 300,000 words),
 * 60 a passage; questions of 8 words drawn alike. usage: bench_search [passages]
 * [questions] Prints the build rate, sizes relative to the text, and queries a second,
 * all by processor time of one core. */
#include "base/clock.h"
#include "base/rng.h"
#include "search/bm25.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS 300000
#define EXPONENT 1.05
#define PASSAGE_WORDS 60
#define QUESTION_WORDS 8

/* Processor seconds of this process: other work on the machine does not count. */
static double cpu(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Inverts the integral of x^-EXPONENT over [1, WORDS + 1). */
static uint32_t zipf(struct sr1__rng *rng)
{
    double e = 1.0 - EXPONENT;
    double u = sr1__rng_uniform(rng);
    double x = pow(1.0 + u * (pow(WORDS + 1.0, e) - 1.0), 1.0 / e);

    return x < WORDS ? (uint32_t)x - 1 : WORDS - 1;
}

/* A made-up word: frequent ones short, as in language. */
static const char *word(uint32_t rank, char out[16])
{
    static const char consonants[] = "bcdfghklmnprtvz";
    static const char vowels[] = "aeiou";
    size_t n = 0;

    rank++;
    while (rank > 0) {
        out[n++] = consonants[rank % 15];
        rank /= 15;
        out[n++] = vowels[rank % 5];
        rank /= 5;
    }
    out[n++] = 'k';
    out[n] = '\0';
    return out;
}

static void write_words(FILE *f, struct sr1__rng *rng, int n)
{
    char w[16];

    for (int i = 0; i < n; i++)
        fprintf(f, "%s%s", i > 0 ? " " : "", word(zipf(rng), w));
}

static void write_corpus(const char *path, int passages)
{
    FILE *f = fopen(path, "w");
    struct sr1__rng rng;

    if (f == NULL)
        exit(1);
    sr1__rng_seed(&rng, 1, 0);
    for (int d = 0; d < passages; d++) {
        fprintf(f, "{\"id\": \"%d\", \"contents\": \"", d);
        write_words(f, &rng, PASSAGE_WORDS);
        fprintf(f, "\"}\n");
    }
    fclose(f);
}

static void question(struct sr1__rng *rng, char *text, size_t size)
{
    char w[16];

    text[0] = '\0';
    for (int i = 0; i < QUESTION_WORDS; i++) {
        strncat(text, word(zipf(rng), w), size - strlen(text) - 1);
        strncat(text, " ", size - strlen(text) - 1);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Ask one by one, with documents (fetch 1) or numbers only; p50 and p99 in microseconds.
 */
static void ask(sr1_search *e, int questions, int fetch)
{
    double *times = malloc((size_t)questions * sizeof(*times));
    struct sr1__bm25_work work = {0, 0};
    struct sr1__rng rng;
    double total = 0;

    sr1__rng_seed(&rng, 2, 0);
    for (int i = 0; i < questions; i++) {
        char text[256];
        const char *queries[] = {text};
        uint32_t docs[3];
        double scores[3];
        int32_t found;
        sr1_search_results *r = NULL;
        double begun;

        question(&rng, text, sizeof(text));
        begun = cpu();
        if ((fetch ? sr1_search_run(e, queries, 1, 3, &r)
                   : sr1__bm25_numbers(e, text, 3, docs, scores, &found)) != SR1_OK)
            exit(1);
        times[i] = cpu() - begun;
        total += times[i];
        sr1_search_results_free(r);
    }
    qsort(times, (size_t)questions, sizeof(*times), by_size);
    printf("%s: %.0f queries/s on one core, p50 %.0f us, p99 %.0f us\n",
           fetch ? "top-3 with documents" : "top-3, numbers only", questions / total,
           1e6 * times[questions / 2], 1e6 * times[questions * 99 / 100]);
    sr1__bm25_stats(e, &work);
    if (fetch)
        printf("postings scored: %.1f%% of those in the lists\n",
               100.0 * (double)work.scored / (double)work.listed);
    free(times);
}

int main(int argc, char **argv)
{
    int passages = argc > 1 ? atoi(argv[1]) : 200000;
    int questions = argc > 2 ? atoi(argv[2]) : 2000;
    sr1_bm25_info info = {sizeof(info)};
    sr1_search *e = NULL;
    char corpus[64];
    char index[64];
    double begun;
    double seconds;

    snprintf(corpus, sizeof(corpus), "/tmp/sr1-bench-%d.jsonl", (int)getpid());
    snprintf(index, sizeof(index), "/tmp/sr1-bench-%d.idx", (int)getpid());
    write_corpus(corpus, passages);
    begun = cpu();
    if (sr1_bm25_build(corpus, index, NULL, NULL, NULL) != SR1_OK ||
        sr1_search_open_bm25(&e, index, NULL) != SR1_OK) {
        fprintf(stderr, "%s\n", sr1_last_error());
        return 1;
    }
    seconds = cpu() - begun;
    unlink(corpus);
    unlink(index);
    sr1_bm25_info_get(e, &info);
    printf("%llu passages, %.1f MB of text, %llu terms, %llu postings\n",
           (unsigned long long)info.documents, 1e-6 * (double)info.contents_bytes,
           (unsigned long long)info.terms, (unsigned long long)info.postings);
    printf("build: %.1f s, %.0f MB a minute, peak memory %.0f MB\n", seconds,
           60e-6 * (double)info.contents_bytes / seconds,
           1e-6 * (double)sr1__peak_rss_bytes());
    printf("postings, dictionary and lengths: %.1f%% of the text; stored rows %.1f%%\n",
           100.0 * (double)info.search_bytes / (double)info.contents_bytes,
           100.0 * (double)info.documents_bytes / (double)info.contents_bytes);
    ask(e, questions, 0);
    ask(e, questions, 1);
    sr1_search_free(e);
    return 0;
}
