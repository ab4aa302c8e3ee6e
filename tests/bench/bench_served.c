/* bench_served.c - the searches that `sr1-search serve` does, without HTTP: threads that
 * ask one question at a time, as connections do.
 *
 *     bench-served INDEX QUESTIONS.jsonl THREADS SECONDS
 *
 * Prints one JSON line. */
#include <searchr1/search.h>
#include <searchr1/ext/bm25.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTIONS_MAX 10000

static const char *questions[QUESTIONS_MAX];
static size_t n_questions;

struct asker {
    pthread_t thread;
    sr1_search *engine;
    size_t first;
    double until;
    long long asked;
    long long hits;
};

static void *ask(void *arg)
{
    struct asker *a = arg;

    for (size_t i = a->first; sr1__now() < a->until; i++, a->asked++) {
        sr1_search_results *found = NULL;

        if (sr1_search_run(a->engine, &questions[i % n_questions], 1, 3, &found) !=
            SR1_OK)
            break;
        a->hits += sr1_search_results_hit_count(found, 0);
        sr1_search_results_free(found);
    }
    return NULL;
}

/* Kept for the process's life. */
static int read_questions(const char *path)
{
    struct sr1__buf b;
    char *line;
    char *rest = NULL;

    if (sr1__file_read(path, 0, &b) != SR1_OK)
        return -1;
    for (line = strtok_r(b.data, "\n", &rest);
         line != NULL && n_questions < QUESTIONS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        if (sr1__json_parse(&row, line, strlen(line), path) != SR1_OK)
            return -1;
        questions[n_questions] = json_string_value(json_object_get(row, "question"));
        n_questions += questions[n_questions] != NULL;
    }
    return n_questions > 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct asker askers[64];
    int threads = argc == 5 ? atoi(argv[3]) : 0;
    sr1_search *engine = NULL;
    long long asked = 0;
    long long hits = 0;
    double seconds;
    double began;

    if (threads < 1 || threads > 64) {
        fprintf(stderr, "bench-served INDEX QUESTIONS.jsonl THREADS SECONDS\n");
        return 2;
    }
    if (read_questions(argv[2]) != 0 ||
        sr1_search_open_bm25(&engine, argv[1], NULL) != SR1_OK) {
        fprintf(stderr, "bench-served: %s\n", sr1_last_error());
        return 1;
    }
    seconds = atof(argv[4]);
    began = sr1__now();
    for (int i = 0; i < threads; i++) {
        askers[i] = (struct asker){
            .engine = engine, .first = 997 * (size_t)i, .until = began + seconds};
        pthread_create(&askers[i].thread, NULL, ask, &askers[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(askers[i].thread, NULL);
        asked += askers[i].asked;
        hits += askers[i].hits;
    }
    printf("{\"requests_s\": %.1f, \"requests\": %lld, \"hits\": %lld}\n",
           (double)asked / (sr1__now() - began), asked, hits);
    sr1_search_free(engine);
    return hits > 0 ? 0 : 1;
}
