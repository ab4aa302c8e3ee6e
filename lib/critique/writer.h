/* critique/writer.h - what the library asks of a writer (see searchr1/critique.h). */
#ifndef SR1__CRITIQUE_WRITER_H
#define SR1__CRITIQUE_WRITER_H

#include <searchr1/critique.h>

/* SR1_WRITER_* of its table. */
int32_t sr1__writer_flags(const sr1_writer *writer);

/* What was given (NULL: defaults), zeros replaced by what they stand for. */
sr1_status sr1__writer_options_take(sr1_writer_options *o,
                                    const sr1_writer_options *given);

typedef sr1_status (*sr1__write_fn)(void *self, const sr1_conversation *const *c,
                                    size_t n, sr1_writer_sink *sink);

/* The self of a writer with this function, NULL of any other. */
void *sr1__writer_self(const sr1_writer *writer, sr1__write_fn write);

#endif
