/* retrieval/search/embed.h - what built-in embedders and rerankers need beyond
 * searchr1/ext/embed.h. */
#ifndef SR1__SEARCH_EMBED_H
#define SR1__SEARCH_EMBED_H

#include <searchr1/ext/embed.h>

#include "base/error.h"

/* sr1_embedder_new and sr1_reranker_new for those of the library: their statuses are
 * passed on as they are. encoding: how it turns texts into vectors (encoding.h; copied).
 */
sr1_status sr1__embedder_new_builtin(sr1_embedder **out, const sr1_embedder_ops *ops,
                                     const char *encoding, void *self);
sr1_status sr1__reranker_new_builtin(sr1_reranker **out, const sr1_reranker_ops *ops,
                                     void *self);

/* Its encoding; "": not known. Borrowed until the embedder is freed. */
const char *sr1__embedder_encoding(const sr1_embedder *e);
/* The origin of an engine over vectors (sr1__search_set_origin) that is asked through
 * this embedder; 0 where its encoding is not known. */
uint64_t sr1__embedder_origin(const sr1_embedder *e, uint64_t vectors);

/* Cosine of the angle between a[dim] and b[dim]; 0 when either is 0. */
double sr1__embed_cosine(const float *a, const float *b, size_t dim);

#endif
