/* 01_search.c - index a corpus, ask it, read the hits.
 *
 *     01_search FOLDER
 *
 * Writes FOLDER/corpus.jsonl and FOLDER/corpus.bm25, then asks two questions at once. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/bm25.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const corpus[] = {
    "{\"id\": \"1\", \"contents\": \"Eiffel Tower\\nA tower in Paris, built in 1889.\"}",
    "{\"id\": \"2\", \"contents\": \"Colosseum\\nAn amphitheatre in Rome.\"}",
    "{\"id\": \"3\", \"contents\": \"Louvre\\nA museum in Paris.\"}",
};

static int write_corpus(const char *path)
{
    FILE *f = fopen(path, "w");

    for (size_t i = 0; f && i < sizeof(corpus) / sizeof(corpus[0]); i++)
        fprintf(f, "%s\n", corpus[i]);
    return !f || fclose(f) != 0;
}

static void print_results(const sr1_search_results *found, size_t query)
{
    sr1_search_hit hit = {.struct_size = sizeof(hit)};

    for (int32_t k = 0; sr1_search_results_hit(found, query, k, &hit) == SR1_OK; k++)
        printf("  %.4f  %s  %.30s...\n", hit.score, hit.id, hit.contents);
    if (sr1_search_results_status(found, query) != SR1_ACTION_OK)
        printf("  %s\n", sr1_search_results_message(found, query));
}

int main(int argc, char **argv)
{
    const char *queries[] = {"museums of Paris", "volcanoes"};
    char text[1024], index[1024];
    sr1_search *engine = NULL;
    sr1_search_results *found = NULL;
    sr1_status status;

    if (argc != 2)
        return fprintf(stderr, "usage: 01_search FOLDER\n"), 2;
    snprintf(text, sizeof(text), "%s/corpus.jsonl", argv[1]);
    snprintf(index, sizeof(index), "%s/corpus.bm25", argv[1]);
    if (write_corpus(text))
        return fprintf(stderr, "cannot write %s: %s\n", text, strerror(errno)), 1;

    status = sr1_bm25_build(text, index, NULL, NULL, NULL);
    if (status == SR1_OK)
        status = sr1_search_open_bm25(&engine, index, NULL);
    if (status == SR1_OK)
        status = sr1_search_run(engine, queries, 2, 3, &found);
    for (size_t i = 0; status == SR1_OK && i < 2; i++) {
        printf("%s\n", queries[i]);
        print_results(found, i);
    }
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_search_results_free(found);
    sr1_search_free(engine);
    return status == SR1_OK ? 0 : 1;
}
