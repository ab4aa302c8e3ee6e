/* searchr1/data.h - questions with their gold answers, read from files row by row.
 *
 * A dataset keeps the place of each row (8 bytes a row) and reads rows when asked, so
 * files may be larger than memory. Files: .jsonl (one object a line), .json (an array of
 * objects, or an object with such an array under "data"), .csv and .tsv (RFC 4180 with a
 * header row, by commas or tabs); each also packed (.jsonl.gz, .jsonl.zst, ...), which is
 * unpacked into a file in TMPDIR without a name.
 *
 * Ownership: free a dataset with sr1_dataset_free and a row with sr1_row_free; a dataset
 *            made by sr1_dataset_split holds its own reference to the files.
 * Errors:    a status other than SR1_OK leaves outputs as they were; sr1_last_error()
 *            names file, line and field.
 * Threads:   any number of threads may read one dataset; a row belongs to one thread. */
#ifndef SEARCHR1_DATA_H
#define SEARCHR1_DATA_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_dataset sr1_dataset;
typedef struct sr1_row sr1_row;

/* How rows are read. A NULL name means the default in brackets. Strings are copied. */
typedef struct sr1_dataset_options {
    size_t struct_size; /* set by sr1_dataset_options_init */
    /* ["question"]: text. Where the default is missing, the user's last message in the
     * list "prompt", as in sr1_dataset_write_records, is taken: where it begins with
     * "Answer the given question. ", as there, what follows its first "Question: ", else
     * all of it; or else the user's last message in the list "messages". The messages
     * before it are then the history. */
    const char *question_field;
    /* ["golden_answers"]: text, a number, or a list of them, which a cell of a CSV file
     * holds as JSON, or as Python prints a list of texts and numbers (['a', "b's", 3]);
     * or an object with value, aliases and normalized_aliases (TriviaQA)
     * or text (SQuAD), all of whose answers count, each once. A name with dots is a path
     * into objects: "answer.aliases". Where the default is missing, an object "answer" is
     * taken, or else the target in "reward_model", as in sr1_dataset_write_records. */
    const char *answer_field;
    const char *id_field;     /* ["id"]: text or number; absent: a hash of the content */
    const char *source_field; /* ["data_source"]: likewise; absent: the file's name */
    int32_t answers_optional; /* 1: rows without answers are fine */
    int32_t skip_check;       /* 1: do not read every row when opening */
    /* ["history"]: the conversation before the question, a list of {"role", "content"}
     * (roles system, first only, user, assistant); absent: none. */
    const char *history_field;
} sr1_dataset_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_dataset_options_init(sr1_dataset_options *options);

/* Parts of a split. */
enum { SR1_PART_TRAIN = 0, SR1_PART_VALIDATION = 1, SR1_PART_TEST = 2 };

/* Index the rows of n_paths files, in order, and check every row unless
 * options->skip_check is set. options may be NULL. Caller frees with sr1_dataset_free.
 * SR1_E_IO, SR1_E_PARSE; SR1_E_INVALID: the files have no row, or a file name has an
 * unknown ending; SR1_E_LIMIT: a row is larger than 16 MiB. */
SR1_API sr1_status sr1_dataset_open(sr1_dataset **out, const char *const *paths,
                                    size_t n_paths, const sr1_dataset_options *options);

/* Make a dataset of one part (SR1_PART_*) of a seeded split. The part of a row depends on
 * seed and the row's id alone, so it does not change when rows are added. Both fractions
 * are at least 0, their sum is below 1. Caller frees with sr1_dataset_free.
 * SR1_E_INVALID: the part is empty. */
SR1_API sr1_status sr1_dataset_split(sr1_dataset **out, const sr1_dataset *dataset,
                                     double validation_fraction, double test_fraction,
                                     uint64_t seed, int32_t part);

/* Free a dataset. NULL is fine. */
SR1_API void sr1_dataset_free(sr1_dataset *dataset);

/* Return the number of rows: at least 1; 0 for NULL. */
SR1_API int64_t sr1_dataset_count(const sr1_dataset *dataset);

/* Read row index, 0 <= index < sr1_dataset_count. Caller frees *out with sr1_row_free.
 * SR1_E_INVALID: index is out of range; other errors as sr1_dataset_open. */
SR1_API sr1_status sr1_dataset_read(const sr1_dataset *dataset, int64_t index,
                                    sr1_row **out);

/* Free a row. NULL is fine. */
SR1_API void sr1_row_free(sr1_row *row);

/* Return the row's id. UTF-8 without NUL bytes; borrowed until the row is freed. */
SR1_API const char *sr1_row_id(const sr1_row *row);

/* Return the row's question. UTF-8 without NUL bytes; borrowed until the row is freed. */
SR1_API const char *sr1_row_question(const sr1_row *row);

/* Return the name of the data set that the row belongs to. UTF-8 without NUL bytes;
 * borrowed until the row is freed. */
SR1_API const char *sr1_row_data_source(const sr1_row *row);

/* Return the number of ground truths: at least 1 unless options->answers_optional was
 * set. */
SR1_API size_t sr1_row_answer_count(const sr1_row *row);

/* Return ground truth index, NULL past the last. Borrowed until the row is freed. */
SR1_API const char *sr1_row_answer(const sr1_row *row, size_t index);

/* Write the whole row as one line of JSON. Caller frees *out with sr1_free.
 * SR1_E_NOMEM. */
SR1_API sr1_status sr1_row_json(const sr1_row *row, char **out);

#ifdef __cplusplus
}
#endif
#endif
