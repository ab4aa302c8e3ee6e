/* policy/local_engine.h - the decoder of this process as a generation engine. */
#ifndef SR1__POLICY_LOCAL_ENGINE_H
#define SR1__POLICY_LOCAL_ENGINE_H

#include "policy/generation_engine.h"
#include "tensor/model/model_decoder.h"

struct sr1__local_options {
    int32_t n_slots;
    int32_t decoder_rows; /* >= n_slots: of the decoder, which others use between
                             generations */
    int64_t max_context;  /* tokens of a sequence at most */
    int eager;            /* as sr1__decoder_eager */
    int int8;             /* as sr1__decoder_quantize */
    int narrow_cache;     /* as sr1__decoder_narrow_cache */
};

/* Over a model, borrowed until destroy. */
sr1_status sr1__local_engine_new(struct sr1__engine *out, sr1_model *m,
                                 const struct sr1__local_options *o);
/* Its decoder, made when first needed. Borrowed until destroy. */
sr1_status sr1__local_engine_decoder(struct sr1__engine *e, struct sr1__decoder **out);

#endif
