/* searchr1/ext/embed.h - texts as vectors, and the fit of a query and a text as a number.
 *
 * An embedder turns texts into vectors whose inner product says how alike they are; a
 * reranker reads a query and a text together and gives one score. Both are opened from
 * Hugging Face folders or made from functions of the caller's.
 *
 *     sr1_embedder *e = NULL;
 *     const char *texts[] = {"who wrote Hamlet?"};
 *     float v[384];
 *
 *     if (sr1_embedder_open(&e, "all-MiniLM-L6-v2", NULL) == SR1_OK)
 *         sr1_embedder_embed(e, texts, 1, SR1_EMBED_QUERY, v);
 *     sr1_embedder_free(e);
 *
 * Ownership: handles are counted: _retain takes a reference, _free gives one back.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   all functions may be called from several threads at a time on one handle;
 *            calls into one without SR1_EMBED_CONCURRENT are made one after another.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_EMBED_H
#define SEARCHR1_EXT_EMBED_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_embedder sr1_embedder;
typedef struct sr1_reranker sr1_reranker;

/* What a text is: models may treat the two differently (a prefix, an encoder). */
enum { SR1_EMBED_QUERY = 0, SR1_EMBED_DOCUMENT = 1 };

/* Flags of sr1_embedder_ops and sr1_reranker_ops. */
enum {
    /* may be called from several threads at a time */
    SR1_EMBED_CONCURRENT = 1
};

/* Largest number of dimensions. */
#define SR1_EMBED_DIM_MAX 65536

/* ---- embedders ---- */

typedef struct sr1_embedder_ops {
    size_t struct_size; /* sizeof(sr1_embedder_ops) */
    const char *name;   /* for messages; copied */
    /* Write the vectors of texts[0..n), n > 0, UTF-8, to out [n, dim], fp32. kind:
     * SR1_EMBED_QUERY or _DOCUMENT. Anything but SR1_OK fails the call; explain with
     * sr1_set_error. */
    sr1_status (*embed)(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out);
    /* May be NULL; called once, when the last reference goes. */
    void (*destroy)(void *self);
    int32_t dim; /* 1 to SR1_EMBED_DIM_MAX */
    int32_t flags;
} sr1_embedder_ops;

/* Make an embedder of the caller's functions. ops is copied; on success the embedder
 * owns self. SR1_E_INVALID: ops lacks a required member. Caller frees with
 * sr1_embedder_free. */
SR1_API sr1_status sr1_embedder_new(sr1_embedder **out, const sr1_embedder_ops *ops,
                                    void *self);

/* Take one more reference. Returns embedder; NULL for NULL. */
SR1_API sr1_embedder *sr1_embedder_retain(sr1_embedder *embedder);

/* Drop one reference; the last one frees the embedder. NULL is fine. */
SR1_API void sr1_embedder_free(sr1_embedder *embedder);

/* Return the embedder's name; "" for NULL. Borrowed until the embedder is freed. */
SR1_API const char *sr1_embedder_name(const sr1_embedder *embedder);

/* Return the length of the embedder's vectors; 0 for NULL. */
SR1_API int32_t sr1_embedder_dim(const sr1_embedder *embedder);

/* Embed n texts (UTF-8, NUL-terminated; n may be 0) as kind, SR1_EMBED_*, into out [n,
 * dim], row by row. Bytes that are not UTF-8 count as U+FFFD. SR1_E_INVALID: a text is
 * NULL, or the kind is unknown. SR1_E_NUMERIC: a vector is not finite. SR1_E_CALLBACK
 * names an embedder of the caller's that failed; SR1_E_TIMEOUT, _CANCELLED, _NOMEM and
 * _CONFIG of its own are passed on. */
SR1_API sr1_status sr1_embedder_embed(sr1_embedder *embedder, const char *const *texts,
                                      size_t n, int32_t kind, float *out);

/* Compute the cosine of the vectors of two texts, both embedded as queries: -1 to 1; 0
 * when either vector is 0. a and b: UTF-8, NUL-terminated; neither may be NULL. Errors
 * as sr1_embedder_embed. */
SR1_API sr1_status sr1_embedder_similarity(sr1_embedder *embedder, const char *a,
                                           const char *b, double *out);

/* ---- rerankers ---- */

typedef struct sr1_reranker_ops {
    size_t struct_size; /* sizeof(sr1_reranker_ops) */
    const char *name;   /* for messages; copied */
    /* Write how well texts[0..n), n > 0, UTF-8, fit the query to scores[n]: finite,
     * higher is better. Anything but SR1_OK fails the call; explain with sr1_set_error.
     */
    sr1_status (*score)(void *self, const char *query, const char *const *texts, size_t n,
                        double *scores);
    /* May be NULL; called once, when the last reference goes. */
    void (*destroy)(void *self);
    int32_t flags; /* SR1_EMBED_CONCURRENT or 0 */
} sr1_reranker_ops;

/* Make a reranker of the caller's functions. ops is copied; on success the reranker
 * owns self. SR1_E_INVALID: ops lacks a required member. Caller frees with
 * sr1_reranker_free. */
SR1_API sr1_status sr1_reranker_new(sr1_reranker **out, const sr1_reranker_ops *ops,
                                    void *self);

/* Take one more reference. Returns reranker; NULL for NULL. */
SR1_API sr1_reranker *sr1_reranker_retain(sr1_reranker *reranker);

/* Drop one reference; the last one frees the reranker. NULL is fine. */
SR1_API void sr1_reranker_free(sr1_reranker *reranker);

/* Return the reranker's name; "" for NULL. Borrowed until the reranker is freed. */
SR1_API const char *sr1_reranker_name(const sr1_reranker *reranker);

/* Score how well each of n texts (UTF-8, NUL-terminated; n may be 0) fits a query, into
 * scores [n]. Errors as sr1_embedder_embed. */
SR1_API sr1_status sr1_reranker_score(sr1_reranker *reranker, const char *query,
                                      const char *const *texts, size_t n, double *scores);

/* ---- from Hugging Face folders ---- */

/* How an encoder is used. Fields left NULL, "auto" or negative are read from the folder:
 * its sentence-transformers files (modules.json, 1_Pooling/config.json,
 * sentence_bert_config.json) where it has them, else by its architecture and name. */
typedef struct sr1_encoder_options {
    size_t struct_size;          /* set by sr1_encoder_options_init */
    const char *pooling;         /* "mean" over the text's tokens, "cls" (the first one),
                                    "decoder" (T5: the decoder's first state), "auto" */
    const char *query_prefix;    /* put before each query; e.g. "query: " */
    const char *document_prefix; /* put before each document; e.g. "passage: " */
    int32_t normalize;           /* 1: vectors of length 1; 0: as they come; -1 */
    int32_t query_tokens;        /* longer texts are cut, special tokens counted; -1:
                                    Search-R1's 256 or what the model reads, if less */
    int32_t document_tokens;     /* the same */
    const char *document_folder; /* a second encoder for documents (DPR); NULL: one for
                                    both */
    const char *device;          /* as sr1_model_options, as is dtype */
    const char *dtype;
    int32_t threads;      /* as sr1_model_options */
    int32_t batch_tokens; /* texts of similar length go through the model together,
                             at most this many tokens at a time; default 4096 */
} sr1_encoder_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_encoder_options_init(sr1_encoder_options *options);

/* Open an encoder from a Hugging Face folder: a config.json of model_type "bert" (E5,
 * BGE, MiniLM, ...), "dpr" or "t5" (its encoder; with pooling "decoder" the first step of
 * its decoder too), tokenizer.json or vocab.txt, and *.safetensors. Vectors equal those
 * of transformers up to rounding. options may be NULL and is copied. SR1_E_NOT_FOUND: the
 * folder does not exist; the text has the command that downloads it. SR1_E_UNSUPPORTED
 * names what a file asks for in addition. Caller frees with sr1_embedder_free. */
SR1_API sr1_status sr1_embedder_open(sr1_embedder **out, const char *folder,
                                     const sr1_encoder_options *options);

/* Open a cross-encoder from a Hugging Face folder: "bert" with a classification head of
 * one label (BertForSequenceClassification), whose logit is the score. Of options only
 * device, dtype, threads, batch_tokens and document_tokens count; document_tokens bounds
 * both texts together (-1: what the model reads, at most 512). Errors as
 * sr1_embedder_open. Caller frees with sr1_reranker_free. */
SR1_API sr1_status sr1_reranker_open(sr1_reranker **out, const char *folder,
                                     const sr1_encoder_options *options);

#ifdef __cplusplus
}
#endif
#endif
