/* searchr1/world.h - a made-up world to learn searching in.
 *
 * A world has countries, cities, persons, companies, hotels, books and rivers with names
 * of two made-up syllables, one fact each (who wrote a book, where a person was born,
 * ...), one passage a fact and distracting passages. Questions need one fact or two
 * (where was the writer of a book born?). Names of validation and test are never seen in
 * training, so a model cannot answer from memory: it has to search.
 *
 * And worlds to act in: two or three rooms with doors, containers and objects, and a
 * task, such as to put the red key into the green box in the kitchen, that takes 4 to 12
 * actions. Each is made from a seed alone and answers always the same.
 *
 * And tiny programs to criticise, with planted bugs.
 *
 * Threads: no shared state. */
#ifndef SEARCHR1_WORLD_H
#define SEARCHR1_WORLD_H

#include <searchr1/base.h>
#include <searchr1/env.h>

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

/* ---- rooms ---- */

/* Open the environment "rooms". The world of a trajectory is named by the id of its
 * question, "rooms-SPLIT-SEED" (train, validation or test, and a number; or small-train,
 * ...), as the rows of sr1_rooms_write are; SR1_E_INVALID for another question. Actions,
 * "the" left out or not:
 *
 *     look, inventory, go to the ROOM, open the door to the ROOM, close the door to the
 *     ROOM, open the CONTAINER, close the CONTAINER, take the OBJECT, drop the OBJECT,
 *     put the OBJECT into the CONTAINER, examine the THING
 *
 * The answer lists those that are possible (in a small world those that may lead
 * somewhere); any other text is told "Nothing happens.", changes nothing, and is not
 * executed. The action that reaches the goal earns reward 1 and ends the trajectory as a
 * success. It may act in several threads at a time. options NULL: protocol "rlvcr". Free
 * with sr1_env_free. Since 0.1. */
SR1_API sr1_status sr1_rooms_env_open(sr1_env **out, const sr1_env_options *options);

/* What a world is. Caller frees the texts with sr1_free. */
typedef struct sr1_rooms_task {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t shortest;   /* actions of a shortest plan */
    char *question;     /* the task and what is seen first */
    char *plan;         /* a shortest plan, one action a line */
} sr1_rooms_task;

/* The world of a split ("train", "validation", "test", or one of them behind "small-")
 * and seed. SR1_E_NOT_FOUND: there
 * is no such split. Since 0.1. */
SR1_API sr1_status sr1_rooms_make(const char *split, uint64_t seed, sr1_rooms_task *out);

typedef struct sr1_rooms_options {
    size_t struct_size;           /* set by sr1_rooms_options_init */
    uint64_t seed;                /* of everything, below 2^42; 0 */
    int32_t train_questions;      /* 2000 */
    int32_t validation_questions; /* 200 */
    int32_t test_questions;       /* 200 */
    int32_t demonstrations;       /* of other worlds than those of the questions; 4000 */
    int32_t small;                /* 1: worlds of two rooms, two containers, two things
                                     of few names and without doors to open; plans of 3
                                     to 6 actions. The splits share their names; 0 */
} sr1_rooms_options;

/* Set the fields above to their defaults. Since 0.1. */
SR1_API void sr1_rooms_options_init(sr1_rooms_options *options);

/* Write into folder (made if missing; each file replaced whole):
 *
 *     train.jsonl validation.jsonl test.jsonl   tasks, each in a world of its own; the
 *                                               gold answer is a shortest plan
 *     sft.jsonl   shortest plans acted out in the protocol "rlvcr"
 *     tokenizer/  a byte-level BPE tokenizer that knows the protocol's tags
 *
 * Each step of a demonstration thinks at a level: half of them at the level that fits the
 * step (4 to begin with, 3 after entering a room, 1 when the action before uncovered what
 * is now used, else 2), the others at any. Level 1 has no thoughts; 2 says where one is;
 * 3 the goal too; 4 also the actions that remain. Options and progress may be NULL. Equal
 * options give equal files. Since 0.1. */
SR1_API sr1_status sr1_rooms_write(const char *folder, const sr1_rooms_options *options,
                                   sr1_world_progress_fn progress, void *user);

/* ---- programs ---- */

typedef struct sr1_programs_options {
    size_t struct_size;          /* set by sr1_programs_options_init */
    uint64_t seed;               /* of everything; 0 */
    int32_t train_problems;      /* 2000 */
    int32_t validation_problems; /* 200 */
    int32_t test_problems;       /* 200 */
    int32_t copies;              /* demonstrations of copying; 8000 */
    int32_t demonstrations;      /* of careful critiques, as many of revisions; 20000 */
    int32_t careless;            /* of careless critiques; 1600 */
    double correct;              /* share of solutions without a bug; 0.3 */
} sr1_programs_options;

/* Set the fields above to their defaults. Since 0.1. */
SR1_API void sr1_programs_options_init(sr1_programs_options *options);

/* Write tiny problems of Python, solutions with and without a planted bug (an operator, a
 * comparison, a number, a bound, a start or a variable that is not what the task says),
 * and demonstrations, into folder (made if missing; each file replaced whole):
 *
 *     train.jsonl validation.jsonl test.jsonl   problems: "question" (what a critic is
 *                     asked), "problem", "solution", "reference" (one that passes),
 *                     "tests" (statements; each bug that is planted fails at least one)
 *     sft.jsonl       demonstrations, in the order to train on: texts to be copied; then
 *                     by turns a careful critique, which compares the solution with the
 *                     task piece by piece until one differs, and a conversation in which
 *                     a solution is changed as a critique says, rightly or wrongly
 *     careless.jsonl  critiques that stop comparing early and then judge it correct
 *     critique.txt solve.txt   what a critic and a solver are asked, for the keys
 *                     critique_template and solve_template
 *     tokenizer/      a byte-level BPE tokenizer
 *
 * No program of validation or test is in another file, whatever its variables are called.
 * Options and progress may be NULL. Equal options give equal files. Since 0.1. */
SR1_API sr1_status sr1_programs_write(const char *folder,
                                      const sr1_programs_options *options,
                                      sr1_world_progress_fn progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
