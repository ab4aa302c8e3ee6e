/* environment/env/sink.h - the sink that receives observations from environments. */
#ifndef SR1__ENV_SINK_H
#define SR1__ENV_SINK_H

#include "environment/env/env.h"

struct sr1_env_sink {
    struct sr1__observation *out; /* [n] */
    size_t n;
};

/* Longest body; the token budget of a rollout is far below. */
#define SR1__OBSERVATION_MAX ((size_t)1 << 20)

/* sr1_env_sink_status with the cause. */
sr1_status sr1__env_sink_failure(sr1_env_sink *sink, size_t i, int32_t status,
                                 const char *why);

/* After the environment has answered: strip the body, make it whole UTF-8 within the
 * maximum. */
sr1_status sr1__observation_finish(struct sr1__observation *o);

#endif
