/* environment/critique/generator.h - the interface of a generator inside the library (see
 * searchr1/ext/critique.h). */
#ifndef SR1__CRITIQUE_GENERATOR_H
#define SR1__CRITIQUE_GENERATOR_H

#include <searchr1/ext/critique.h>

/* SR1_GENERATOR_* of its table. */
int32_t sr1__generator_flags(const sr1_generator *generator);

/* The caller's options (NULL: defaults), with zeros replaced by their defaults. */
sr1_status sr1__generator_options_read(sr1_generator_options *o,
                                       const sr1_generator_options *given);

typedef sr1_status (*sr1__generate_fn)(void *self, const sr1_conversation *const *c,
                                       size_t n, sr1_generator_sink *sink);

/* The self of a generator with this function, NULL of any other. */
void *sr1__generator_self(const sr1_generator *generator, sr1__generate_fn write);

#endif
