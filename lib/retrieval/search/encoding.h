/* retrieval/search/encoding.h - how texts become vectors: what a dense index keeps of the
 * embedder that made it, and compares with the one that is to embed its queries.
 *
 *     {"dtype": "fp32", "query": SIDE, "document": SIDE}
 *     SIDE = {"weights": "0123456789abcdef", "pooling": "mean", "normalize": 1,
 *             "tokens": 256, "prefix": "query: "}
 *
 * weights is a hash of the encoder's folder. Embedders of the caller's have none of it:
 * "" stands for what is not known. */
#ifndef SR1__SEARCH_ENCODING_H
#define SR1__SEARCH_ENCODING_H

#include "base/buf.h"

/* Bytes of it, at most. */
#define SR1__ENCODING_MAX ((size_t)1 << 14)

/* Append what the vectors of documents depend on. */
sr1_status sr1__encoding_of_documents(const char *encoding, struct sr1__buf *out);

/* Compare the side "query" of an index's encoding with that of an embedder, `name`.
 * SR1_E_INVALID: their vectors cannot be compared (another pooling, another length; other
 * weights, unless they are allowed). Another prefix is logged. */
sr1_status sr1__encoding_check(const char *of_index, const char *of_embedder,
                               const char *name, int other_weights);

#endif
