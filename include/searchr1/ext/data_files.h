/* searchr1/ext/data_files.h - files of rows for other programs, and text files line by
 * line.
 *
 * Ownership: free lines with sr1_lines_free.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   one thread at a time per sr1_lines.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_DATA_FILES_H
#define SEARCHR1_EXT_DATA_FILES_H

#include <searchr1/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What all records of a file say. Strings are borrowed for the call. */
typedef struct sr1_record_options {
    size_t struct_size;      /* set by sr1_record_options_init */
    const char *data_source; /* "nq", ...; NULL: each row's own */
    const char *split;       /* NULL: "train" */
} sr1_record_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_record_options_init(sr1_record_options *options);

/* Write all rows to a file of JSON lines in the form of Search-R1's published data
 * (nq_search) and its relatives:
 *
 *     {"data_source", "prompt": [history, {"role": "user", "content"}], "ability":
 *      "fact-reasoning", "reward_model": {"style": "rule", "ground_truth": {"target":
 *      [answers]}}, "extra_info": {"split", "index": from 0}}
 *
 * content is the published prompt with the question, which ends in a question mark. The
 * file is replaced when all went well; sr1_dataset_open reads it. options may be NULL.
 * SR1_E_IO; other errors as sr1_dataset_read. */
SR1_API sr1_status sr1_dataset_write_records(const sr1_dataset *dataset, const char *path,
                                             const sr1_record_options *options);

/* ---- the conversation before a question ---- */

/* Return the number of messages in the conversation before the question. */
SR1_API size_t sr1_row_history_count(const sr1_row *row);

/* Return the text of message index, oldest first; NULL past the last. *role (may be NULL)
 * becomes "system", "user" or "assistant". Borrowed until the row is freed. */
SR1_API const char *sr1_row_history(const sr1_row *row, size_t index, const char **role);

/* ---- lines ---- */

typedef struct sr1_lines sr1_lines;

/* Open a text file to read it line by line; gzip and zstd (the trajectories of a run) are
 * decompressed. SR1_E_IO; SR1_E_CORRUPT: a .zst file is not zstd. Caller frees with
 * sr1_lines_free. */
SR1_API sr1_status sr1_lines_open(sr1_lines **out, const char *path);

/* Read the next line, without its line end, as NUL-terminated *text of *n bytes; *text
 * becomes NULL after the last line. A last line without a line end is ignored: another
 * process is writing it, or it was torn. *text is borrowed until the next call. SR1_E_IO,
 * SR1_E_CORRUPT; SR1_E_LIMIT: a line is longer than 64 MiB. */
SR1_API sr1_status sr1_lines_next(sr1_lines *lines, const char **text, size_t *n);

/* Close a file and free its reader. NULL is fine. */
SR1_API void sr1_lines_free(sr1_lines *lines);

#ifdef __cplusplus
}
#endif
#endif
