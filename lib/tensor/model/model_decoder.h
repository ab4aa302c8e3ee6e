/* tensor/model/model_decoder.h - decode many sequences at once, each with its own cache.
 *
 * A row is one sequence being decoded. Feeding appends tokens to any mix of rows
 * (prompts, observations, the token just sampled) in ONE forward pass; afterwards each
 * fed row has the logits of its next token. A row costs nothing while it is not fed. Rows
 * forked from one prompt share its cache.
 *
 * Ownership: the decoder keeps a reference to the model.
 * Errors:    a failed feed leaves every row as it was.
 * Threads:   one thread at a time per decoder and its model. */
#ifndef SR1__MODEL_MODEL_DECODER_H
#define SR1__MODEL_MODEL_DECODER_H

#include "tensor/model/model.h"
#include "tensor/model/step_graphs.h"
#include "tensor/weights/sampling.h"

struct sr1__decoder;

/* Rows 0..max_rows-1, all empty, each of at most max_tokens_per_row tokens. Memory is
 * taken as rows grow. */
sr1_status sr1__decoder_new(struct sr1__decoder **out, sr1_model *m, int32_t max_rows,
                            int64_t max_tokens_per_row);
void sr1__decoder_free(struct sr1__decoder *d); /* NULL is fine */
/* 1: on a device every step is launched kernel by kernel, never as a graph. */
void sr1__decoder_eager(struct sr1__decoder *d, int on);

/* From now on tokens are decoded with int8 weights (kernels/product_int8.h), made again
 * after an update. Of a new decoder; SR1_E_UNSUPPORTED but on a CPU in fp32 or bf16. */
sr1_status sr1__decoder_quantize(struct sr1__decoder *d);

/* From now on keys and values are kept in bf16: of an fp32 model half the bytes. Of a new
 * decoder; SR1_E_UNSUPPORTED but on a CPU in fp32 or bf16. */
sr1_status sr1__decoder_narrow_cache(struct sr1__decoder *d);

/* Tokens to append to one row. Borrowed. */
struct sr1__decode_input {
    int32_t row;
    const int32_t *ids;
    size_t n_ids; /* > 0 */
};

/* Append to n different rows in one forward pass. SR1_E_LIMIT when a row would grow past
 * its maximum; SR1_E_STATE when the weights have changed (sr1__model_touch) since a fed
 * row began: clear the rows or reset. */
sr1_status sr1__decoder_decode(struct sr1__decoder *d,
                               const struct sr1__decode_input *feeds, size_t n);

/* Append all ids of each feed except the last, and compute the log-probs of its last
 * asked[i] ids, each conditioned on the ids before it (0 < asked[i] < n_ids), under
 * softmax(logits / temperature): log_probs and entropies [sum of asked], in nats, feed by
 * feed. The rows have no logits until they are fed again. */
sr1_status sr1__decoder_score(struct sr1__decoder *d,
                              const struct sr1__decode_input *feeds, const size_t *asked,
                              size_t n, double temperature, float *log_probs,
                              float *entropies);

/* Make the rows to[0..n) copies of row `from`: its tokens, its logits. Their old contents
 * are cleared; `from` may not be among them. */
sr1_status sr1__decoder_fork(struct sr1__decoder *d, int32_t from, const int32_t *to,
                             size_t n);
/* Make row `to` a copy of the first n_tokens of row `from`. Of fewer than all it has no
 * logits until it is fed. */
sr1_status sr1__decoder_fork_part(struct sr1__decoder *d, int32_t from, int32_t to,
                                  int64_t n_tokens);

/* Logits [V] of the row's next token; NULL when it has none. Borrowed until the row is
 * fed, cleared, or forked to. On a device they are computed and fetched by this call,
 * NULL with this thread's error text where that fails: to look at, not to generate by. */
const float *sr1__decoder_logits(struct sr1__decoder *d, int32_t row);

/* Draw a token for each of n rows, row rows[i] with its stream rngs[i] (rngs NULL:
 * greedy). The token is not appended: feed it. log_probs and entropies may be NULL. On a
 * device the draw takes place there, one uniform of each stream going up, one small
 * tensor coming back, and a failed draw leaves the streams as they were; the pass over
 * the tokens is launched behind it, and the feed that follows has little left to do. */
sr1_status sr1__decoder_sample(struct sr1__decoder *d, const int32_t *rows, size_t n,
                               const struct sr1__sampling *sampling,
                               struct sr1__rng *const *rngs, int32_t *ids,
                               float *log_probs, float *entropies);

/* Forget a row; its memory is used again. */
void sr1__decoder_clear(struct sr1__decoder *d, int32_t row);
/* Clear all rows and free their memory. Call it before an optimizer step, which then has
 * that memory, and before the first feed after one. */
void sr1__decoder_reset(struct sr1__decoder *d);

int64_t sr1__decoder_length(const struct sr1__decoder *d, int32_t row); /* tokens read */

struct sr1__decoder_stats {
    int64_t forwards;    /* passes over the weights */
    int64_t tokens_fed;  /* through them */
    int64_t cache_bytes; /* held by the cache now */
    struct sr1__step_graph_stats graphs;
};
void sr1__decoder_stats(const struct sr1__decoder *d, struct sr1__decoder_stats *out);

#endif
