/* tensor/encoder/encoder.h - inside of the built-in embedders and rerankers: a BERT, DPR
 * or T5 encoder and its forward pass over token ids. */
#ifndef SR1__ENCODER_ENCODER_H
#define SR1__ENCODER_ENCODER_H

#include "tensor/encoder/packing.h"
#include "tensor/weights/encoder_config.h"
#include "tensor/weights/encoder_use.h"
#include "tensor/weights/safetensors.h"

/* The output of a forward pass for one text: a pooled vector, or the logit of a
 * cross-encoder. */
enum { SR1__OUTPUT_SCORE = SR1__POOLINGS, SR1__OUTPUTS };

/* One layer; NULL where the architecture has no such tensor. A is heads * head_dim. */
struct sr1__encoder_layer {
    sr1_tensor *qkv;          /* [3A, E], rows q | k | v; T5: q times sqrt(head_dim) */
    sr1_tensor *qkv_bias;     /* [3A] */
    sr1_tensor *o;            /* [E, A] */
    sr1_tensor *o_bias;       /* [E] */
    sr1_tensor *norm;         /* [E], of the attention: BERT after, T5 before it */
    sr1_tensor *norm_bias;    /* [E] */
    sr1_tensor *up;           /* [F, E]; gated: [2F, E], rows of the gate first */
    sr1_tensor *up_bias;      /* [F] */
    sr1_tensor *down;         /* [E, F] */
    sr1_tensor *down_bias;    /* [E] */
    sr1_tensor *ff_norm;      /* [E] */
    sr1_tensor *ff_norm_bias; /* [E] */
    sr1_tensor *cross_q;      /* [A, E], T5's decoder: times sqrt(head_dim) */
    sr1_tensor *cross_kv;     /* [2A, E], rows k | v */
    sr1_tensor *cross_o;      /* [E, A] */
    sr1_tensor *cross_norm;   /* [E] */
};

struct sr1__encoder {
    struct sr1__encoder_config config;
    int32_t output; /* enum sr1__pooling or SR1__OUTPUT_SCORE */
    int32_t dtype;
    sr1__device device;
    sr1_tensor *words;        /* [V, E] */
    sr1_tensor *positions;    /* [P, E], BERT */
    sr1_tensor *types;        /* [n_types, E], BERT */
    sr1_tensor *norm;         /* [E]: BERT after the embedding, T5 after the layers */
    sr1_tensor *norm_bias;    /* [E], BERT */
    sr1_tensor *buckets;      /* [n_buckets, H], T5: bias of relative positions */
    sr1_tensor *decoder_norm; /* [E] */
    sr1_tensor *project;      /* [projection_dim, E], DPR */
    sr1_tensor *project_bias;
    sr1_tensor *pooler; /* [E, E], cross-encoders */
    sr1_tensor *pooler_bias;
    sr1_tensor *classifier; /* [1, E] */
    sr1_tensor *classifier_bias;
    struct sr1__encoder_layer *layers;  /* [n_layers] */
    struct sr1__encoder_layer *decoder; /* [n_decoder_layers], or NULL */
    sr1_tensor **owned;                 /* every tensor above */
    size_t n_owned;
    int32_t pad; /* batches are padded, and attention masked: on CUDA */
};

/* ---- a folder (encoder_load.c) ---- */

/* config.json and the weights, mapped. */
struct sr1__encoder_files {
    struct sr1__encoder_config config;
    struct sr1__weights *weights;
};
sr1_status sr1__encoder_files_open(struct sr1__encoder_files *out, const char *folder);
void sr1__encoder_files_close(struct sr1__encoder_files *f); /* closed: fine */
int sr1__encoder_files_have_decoder(const struct sr1__encoder_files *f);

/* An encoder for this output; the files may be closed then. */
sr1_status sr1__encoder_load(struct sr1__encoder **out,
                             const struct sr1__encoder_files *f, int32_t output,
                             int32_t dtype, sr1__device device);
void sr1__encoder_free(struct sr1__encoder *e); /* NULL is fine */

/* Numbers of one text's output. */
int64_t sr1__encoder_dim(const struct sr1__encoder *e);

/* ---- running it (run.c) ---- */

/* One text as the tokenizer gave it; borrowed. */
struct sr1__encoder_text {
    const int32_t *ids;
    const int32_t *types; /* NULL: all 0 */
    size_t n;
};

/* Outputs of n texts, fp32 [n, dim], rows in the order given. Texts of similar length go
 * through the model together, at most batch_tokens at a time (a longer one alone). */
sr1_status sr1__encoder_run(const struct sr1__encoder *e,
                            const struct sr1__encoder_text *texts, size_t n,
                            int64_t batch_tokens, float *out);

/* ---- architectures (bert.c, t5.c) ---- */

/* The tokens of one pass. */
struct sr1__encoder_pass {
    struct sr1__packing packing;
    sr1_tensor *ids;   /* i64 [N] */
    sr1_tensor *types; /* i64 [N], NULL for T5, as positions */
    sr1_tensor *positions;
};

/* Hidden states [N, E] after the last layer. */
sr1_tensor *sr1__bert_hidden(sr1_scope *s, const struct sr1__encoder *e,
                             const struct sr1__encoder_pass *p);
sr1_tensor *sr1__t5_hidden(sr1_scope *s, const struct sr1__encoder *e,
                           const struct sr1__encoder_pass *p);
/* First state of the decoder [n_seqs, E], from those of the encoder. */
sr1_tensor *sr1__t5_decoder(sr1_scope *s, const struct sr1__encoder *e,
                            const struct sr1__packing *p, sr1_tensor *hidden);

/* Which of the buckets a distance 0..n-1 falls into, of `buckets` for one direction. */
sr1_status sr1__t5_buckets(int64_t n, int64_t buckets, int64_t max_distance,
                           int64_t *out);

/* An activation of enum sr1__encoder_act. */
sr1_tensor *sr1__encoder_act(sr1_scope *s, int32_t act, sr1_tensor *x);

#endif
