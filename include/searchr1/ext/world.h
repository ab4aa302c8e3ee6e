/* searchr1/ext/world.h - a made-up world to learn searching in.
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
 * Threads: no shared state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_WORLD_H
#define SEARCHR1_EXT_WORLD_H

#include <searchr1/base.h>
#include <searchr1/env.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_world_options {
    size_t struct_size; /* set by sr1_world_options_init */
    uint64_t seed;      /* of syllables, names, facts, questions, demonstrations; 0 */
    double scale;       /* size of the training world; 1 has 1216 passages */
    int32_t sft_worlds; /* worlds of half that size that demonstrations are about; 40 */
    int32_t batch;      /* demonstrations of one training step; the stages' unit; 16 */
    int32_t stage_steps[5]; /* steps of each stage of demonstrations: repeat lists, look
                               up, one hop, one and two hops, mixed quality; 350 800 150
                               1200 180 */
    int32_t test_questions; /* half of them need two hops, with hops 1 none; fewer where
                               the world has no more (hops 1, scale 1: 270 or so); 400 */
    /* how demonstrations speak, "search-r1", "mt-grpo" or "hermes" (tool calls; the mixed
     * ones have calls that are not valid JSON); NULL: "search-r1" */
    const char *protocol;
    int32_t hops; /* 1: only questions of one fact, so that one search is enough; 0: 2 */
} sr1_world_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_world_options_init(sr1_world_options *options);

/* Called with the name of the phase and its progress; a status other than SR1_OK stops.
 */
typedef sr1_status (*sr1_world_progress_fn)(void *user, const char *phase, int64_t done,
                                            int64_t total);

/* Write a search world into folder, which is made if it is missing; each file is replaced
 * whole:
 *
 *     tokenizer/         a byte-level BPE tokenizer that has seen no name
 *     corpus.jsonl       passages of the training, validation and test worlds
 *     corpus.bm25        their index
 *     sft.jsonl          clean demonstrations, in the order to train on
 *     mix.jsonl          demonstrations of mixed quality, for after them
 *     train.jsonl validation.jsonl test.jsonl   questions with ground truths
 *
 * options and progress may be NULL. Equal options give equal files. SR1_E_IO: the folder
 * cannot be written. A status of progress other than SR1_OK ends the call and is
 * returned; files that were written by then stay. */
SR1_API sr1_status sr1_world_write(const char *folder, const sr1_world_options *options,
                                   sr1_world_progress_fn progress, void *user);

/* ---- rooms ---- */

/* Open the environment "rooms". The id of a question names its world: "rooms-SPLIT-SEED"
 * with the split train, validation or test, or small-train, ..., as in the rows of
 * sr1_rooms_write; other questions are SR1_E_INVALID. The actions, with or without "the":
 *
 *     look, inventory, go to the ROOM, open the door to the ROOM, close the door to the
 *     ROOM, open the CONTAINER, close the CONTAINER, take the OBJECT, drop the OBJECT,
 *     put the OBJECT into the CONTAINER, examine the THING
 *
 * The observation lists the possible actions (in a small world those that may lead to the
 * goal). Any other text is answered "Nothing happens.", changes nothing, and counts as
 * not executed. The action that reaches the goal earns reward 1 and ends the trajectory
 * as a success. Several threads may act at a time. options NULL: protocol "rlvcr". Caller
 * frees with sr1_env_free. */
SR1_API sr1_status sr1_rooms_env_open(sr1_env **out, const sr1_env_options *options);

/* What a world is. Caller frees the texts with sr1_free. */
typedef struct sr1_rooms_task {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t shortest;   /* actions of a shortest plan */
    char *question;     /* the task and what is seen first */
    char *plan;         /* a shortest plan, one action a line */
} sr1_rooms_task;

/* Make the world of a split ("train", "validation", "test", or "small-train", ...) and
 * seed, and fill *out (struct_size set) with its task. SR1_E_NOT_FOUND: there is no such
 * split. */
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

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_rooms_options_init(sr1_rooms_options *options);

/* Write tasks in rooms into folder, which is made if it is missing; each file is replaced
 * whole:
 *
 *     train.jsonl validation.jsonl test.jsonl   tasks, each in a world of its own; the
 *                                               ground truth is a shortest plan
 *     sft.jsonl   shortest plans carried out in the protocol "rlvcr"
 *     tokenizer/  a byte-level BPE tokenizer that knows the protocol's tags
 *
 * Each step of a demonstration has a thinking level: for half of the steps the level that
 * fits (4 at the beginning, 3 after entering a room, 1 when the action before uncovered
 * what is now used, else 2), for the others any. Level 1 has no thoughts; the thoughts of
 * level 2 name the place, those of 3 also the goal, those of 4 also the remaining
 * actions. options and progress may be NULL. Equal options give equal files. */
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

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_programs_options_init(sr1_programs_options *options);

/* Write tiny problems of Python, solutions with and without a planted bug, and
 * demonstrations into folder, which is made if it is missing; each file is replaced
 * whole. A bug is an operator, a comparison, a number, a bound, a start value or a
 * variable that differs from the task.
 *
 *     train.jsonl validation.jsonl test.jsonl   problems: "question" (the critic's
 *                     prompt), "problem", "solution", "reference" (a solution that
 *                     passes), "tests" (statements; every planted bug fails one at least)
 *     sft.jsonl       demonstrations, in the order to train on: texts to copy; then by
 *                     turns a careful critique, which compares solution and task piece
 *                     by piece until one differs, and a conversation in which a solution
 *                     is changed as a critique says, rightly or wrongly
 *     careless.jsonl  critiques that stop comparing early and then judge "correct"
 *     critique.txt solve.txt   prompts for the keys critique_template and solve_template
 *     tokenizer/      a byte-level BPE tokenizer
 *
 * No program of validation or test is in another file, whatever its variables are called.
 * options and progress may be NULL. Equal options give equal files. */
SR1_API sr1_status sr1_programs_write(const char *folder,
                                      const sr1_programs_options *options,
                                      sr1_world_progress_fn progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
