/* policy/local_engine.h - the decoder of this process as a generation engine. */
#ifndef SR1__POLICY_LOCAL_ENGINE_H
#define SR1__POLICY_LOCAL_ENGINE_H

#include "policy/generation_engine.h"
#include "tensor/model/model_decoder.h"

/* Over a model, borrowed until destroy; max_context: tokens of a sequence at most.
 * decoder_rows (>= n_slots): of the decoder, which others use between generations;
 * eager: as sr1__decoder_eager. */
sr1_status sr1__local_engine_new(struct sr1__engine *out, sr1_model *m, int32_t n_slots,
                                 int32_t decoder_rows, int64_t max_context, int eager);
/* Its decoder, made when first needed. Borrowed until destroy. */
sr1_status sr1__local_engine_decoder(struct sr1__engine *e, struct sr1__decoder **out);

#endif
