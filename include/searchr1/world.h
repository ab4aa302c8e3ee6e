/* searchr1/world.h - a made-up world to learn searching in.
 *
 * A world has countries, cities, persons, companies, hotels, books and rivers with names
 * of two made-up syllables, one fact each (who wrote a book, where a person was born,
 * ...), one passage a fact and distracting passages. Questions need one fact or two
 * (where was the writer of a book born?). Names of validation and test are never seen in
 * training, so a model cannot answer from memory: it has to search.
 *
 * Threads: no shared state. */
#ifndef SEARCHR1_WORLD_H
#define SEARCHR1_WORLD_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_world_options {
    size_t struct_size;   /* set by sr1_world_options_init */
    uint64_t seed;        /* of syllables, names, facts, questions, demonstrations; 0 */
    double scale;         /* size of the training world; 1 has 1216 passages */
    int32_t sft_worlds;   /* worlds of half that size that demonstrations are about; 40 */
    int32_t batch;        /* demonstrations of one training step; the stages' unit; 16 */
    int32_t stage_steps[5]; /* steps of each stage of demonstrations: repeat lists, look
                               up, one hop, one and two hops, mixed quality; 350 800 150
                               1200 180 */
    int32_t test_questions; /* half of them need two hops; 400 */
    /* how demonstrations speak, "search-r1" or "mt-grpo" (tool calls; the mixed ones have
     * calls that are not valid JSON); NULL: "search-r1" */
    const char *protocol;
    int32_t hops; /* 1: only questions of one fact, so that one search is enough; 0: 2 */
} sr1_world_options;

/* Set the fields above to their defaults. Fields that later versions append are set by
 * the caller, with struct_size. Since 0.1. */
SR1_API void sr1_world_options_init(sr1_world_options *options);

/* Called with the name of the phase and its progress; a status other than SR1_OK stops.
 */
typedef sr1_status (*sr1_world_progress_fn)(void *user, const char *phase, int64_t done,
                                            int64_t total);

/* Write into folder (made if missing; each file replaced whole):
 *
 *     tokenizer/         a byte-level BPE tokenizer that has seen no name
 *     corpus.jsonl       passages of the training, validation and test worlds
 *     corpus.bm25        their index
 *     sft.jsonl          clean demonstrations, in the order to train on
 *     mix.jsonl          demonstrations of mixed quality, for after them
 *     train.jsonl validation.jsonl test.jsonl   questions with gold answers
 *
 * options and progress may be NULL. Equal options give equal files. Since 0.1. */
SR1_API sr1_status sr1_world_write(const char *folder, const sr1_world_options *options,
                                   sr1_world_progress_fn progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
