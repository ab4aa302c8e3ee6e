/* retrieval/search/dense_writer.h - a dense index in the making: what building and
 * importing share. The rows first, in one pass over the corpus; then vectors, scales and
 * the end. */
#ifndef SR1__SEARCH_DENSE_WRITER_H
#define SR1__SEARCH_DENSE_WRITER_H

#include "retrieval/search/corpus_reader.h"
#include "retrieval/search/dense_index.h"
#include "retrieval/search/id_check.h"
#include "retrieval/search/row_parse.h"

/* What the options say. */
struct sr1__dense_plan {
    const char *corpus_path;
    const char *index_path;
    const struct sr1__dense_type *type;
    const struct sr1__text_format *format;
    const char *embedder;
    const char *encoding; /* of it; "": not known */
    size_t dim;
    size_t batch;
    int32_t zstd_level;
    int32_t force; /* replace any file */
    sr1_dense_progress_fn progress;
    void *user;
};
/* Check options and name; the paths, dim and progress are the caller's to set. embedder:
 * NULL for the name of the options. what: "dense build". */
sr1_status sr1__dense_plan_read(struct sr1__dense_plan *plan,
                                const sr1_dense_build_options *options,
                                const sr1_embedder *embedder, const char *what);

struct sr1__dense_writer {
    const struct sr1__dense_plan *plan;
    struct sr1__section_writer out;
    struct sr1__spool *dir;
    struct sr1__corpus_reader *reader;
    struct sr1__build_item item;
    struct sr1__row_parser parser;
    struct sr1__row_packer *packer;
    struct sr1__id_check ids;
    uint64_t documents;
    uint64_t contents_bytes;
    uint64_t stored; /* documents that are in the file */
    uint64_t corpus_done;
};

sr1_status sr1__dense_writer_open(struct sr1__dense_writer *w,
                                  const struct sr1__dense_plan *plan);
/* A writer that was not committed leaves nothing. */
void sr1__dense_writer_close(struct sr1__dense_writer *w);

/* Called for each row once it is stored; line[n] is the row as the corpus has it. */
typedef sr1_status sr1__dense_row_fn(void *self, const char *line, size_t n,
                                     const struct sr1__parsed_row *row);
/* The pass over the corpus. */
sr1_status sr1__dense_writer_rows(struct sr1__dense_writer *w, sr1__dense_row_fn *fn,
                                  void *self);
/* Tell progress; resumed as sr1_dense_progress_fn. */
sr1_status sr1__dense_writer_report(struct sr1__dense_writer *w, uint64_t resumed);
/* Sections vectors and scales are there: write the rest, put the file in place. */
sr1_status sr1__dense_writer_commit(struct sr1__dense_writer *w);

#endif
