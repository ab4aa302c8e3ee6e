/* A corpus and questions for search benchmarks, by seed: passages of 60 words by Zipf's
 * law (exponent 1.05 over 300,000 words), questions of 8 words drawn alike. No word is a
 * stop word or has a suffix that a stemmer knows, so that words are tokens for everyone.
 * usage: bench_passages FOLDER PASSAGES QUESTIONS [SEED]
 * Writes FOLDER/corpus.jsonl and FOLDER/questions.txt, one question a line. */
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 300000
#define EXPONENT 1.05
#define PASSAGE_WORDS 60
#define QUESTION_WORDS 8

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

static FILE *create(const char *folder, const char *name)
{
    char path[4096];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "w");
    if (f == NULL)
        perror(path);
    return f;
}

static int write_corpus(const char *folder, int passages, uint64_t seed)
{
    FILE *f = create(folder, "corpus.jsonl");
    struct sr1__rng rng;

    if (f == NULL)
        return 1;
    sr1__rng_seed(&rng, seed, 0);
    for (int d = 0; d < passages; d++) {
        fprintf(f, "{\"id\": \"%d\", \"contents\": \"", d);
        write_words(f, &rng, PASSAGE_WORDS);
        fprintf(f, "\"}\n");
    }
    return fclose(f) != 0;
}

static int write_questions(const char *folder, int questions, uint64_t seed)
{
    FILE *f = create(folder, "questions.txt");
    struct sr1__rng rng;

    if (f == NULL)
        return 1;
    sr1__rng_seed(&rng, seed, 1);
    for (int q = 0; q < questions; q++) {
        write_words(f, &rng, QUESTION_WORDS);
        fprintf(f, "\n");
    }
    return fclose(f) != 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 4 ? (uint64_t)atoll(argv[4]) : 1;

    if (argc < 4) {
        fprintf(stderr, "usage: bench_passages FOLDER PASSAGES QUESTIONS [SEED]\n");
        return 2;
    }
    return write_corpus(argv[1], atoi(argv[2]), seed) ||
           write_questions(argv[1], atoi(argv[3]), seed);
}
