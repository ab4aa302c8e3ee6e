/* tensor/weights/rope_config.h - rotary positions as config.json describes them: the base
 * theta, and how frequencies are scaled for contexts longer than those of pretraining
 * (rope_parameters of transformers 5, rope_scaling and rope_theta of transformers 4).
 * Scalings that are not known (dynamic, longrope) are refused by name. */
#ifndef SR1__WEIGHTS_ROPE_CONFIG_H
#define SR1__WEIGHTS_ROPE_CONFIG_H

#include "base/error.h"

#include <jansson.h>

enum sr1__rope_type {
    SR1__ROPE_DEFAULT,
    SR1__ROPE_LINEAR, /* positions divided by factor */
    SR1__ROPE_LLAMA3, /* long wavelengths divided by factor, short ones kept */
    SR1__ROPE_YARN,   /* the same by rotations over the first context; cos, sin scaled */
    SR1__ROPE_TYPES
};

/* Members that a type does not have are 0. */
struct sr1__rope_config {
    int32_t type;
    int32_t
        whole_dims; /* yarn's truncate: the ramp begins and ends at whole dimensions */
    double theta;
    double factor;
    double original_max_positions; /* positions of pretraining */
    double low_freq_factor;        /* llama3 */
    double high_freq_factor;
    double beta_fast;        /* yarn: rotations above which a frequency is kept */
    double beta_slow;        /* below which it is divided by factor */
    double attention_factor; /* of cos and sin; 0: by factor and both mscales */
    double mscale;           /* 0: not given */
    double mscale_all_dim;
};

/* Read what root, a whole config.json, says; out->theta stands for a rope_theta and
 * max_positions for positions of pretraining that are not named. The error names the file
 * as name, and ends in remedy. */
sr1_status sr1__rope_config_read(struct sr1__rope_config *out, const json_t *root,
                                 double max_positions, const char *remedy,
                                 const char *name);
/* The same of one object in o; an absent one leaves *out with its theta. */
sr1_status sr1__rope_config_read_object(struct sr1__rope_config *out, const json_t *o,
                                        double max_positions, const char *key,
                                        const char *remedy, const char *name);
/* Bounds of every member, of a struct filled by hand too. */
sr1_status sr1__rope_config_check(const struct sr1__rope_config *c, const char *name);
/* The object rope_parameters; NULL: no memory. */
json_t *sr1__rope_config_json(const struct sr1__rope_config *c);

#endif
