/* train/plan.h - the parts of a plan of memory (searchr1/ext/plan.h):
 *
 *     plan_shapes.c    the shapes of the models, read from their folders
 *     plan_items.c     what takes memory, and when
 *     plan_choose.c    keys that are left to the plan
 *     plan_advice.c    keys that lower what does not fit
 *     plan_text.c      the table and the JSON object
 *     plan.c           the whole */
#ifndef SR1__TRAIN_PLAN_H
#define SR1__TRAIN_PLAN_H

#include "base/json.h"
#include "tensor/model/model_memory.h"
#include "train/internal.h"

#include <searchr1/ext/plan.h>

/* ---- plan_shapes.c ---- */

/* The shapes that do not depend on how a run trains. */
struct sr1__plan_shapes {
    struct sr1__hf_config policy, critic, reviser;
    struct sr1__lora_config stored; /* the policy's folder is an adapter; rank 0: not */
    int has_critic;                 /* key critic_model names one of its own */
    int has_reviser;
    int has_weights; /* there are weights beside the policy's config.json */
    int32_t world;   /* processes of the job, by the environment's variables */
};
sr1_status sr1__plan_shapes_read(struct sr1__plan_shapes *out, const sr1_config *c);

/* ---- plan_items.c ---- */

enum sr1__plan_phase {
    SR1__PLAN_LOAD,
    SR1__PLAN_GENERATE,
    SR1__PLAN_LOG_PROBS,
    SR1__PLAN_UPDATE_CRITIC,
    SR1__PLAN_ROUTER_REPLAY,
    SR1__PLAN_UPDATE,
    SR1__PLAN_SAVE,
    SR1__PLAN_PHASES
};
extern const char *const sr1__plan_phases[SR1__PLAN_PHASES]; /* "load", ... */

enum sr1__plan_place { SR1__PLAN_DEVICE, SR1__PLAN_HOST, SR1__PLAN_PLACES };

struct sr1__plan_item {
    const char *name; /* static */
    double bytes;
    enum sr1__plan_place place;
    uint32_t phases; /* bits 1 << SR1__PLAN_* in which it is there */
};
#define SR1__PLAN_ITEMS 48

/* Sizes of one step. */
struct sr1__plan_step {
    double trajectories;
    double context; /* most tokens of one */
    double packed; /* the same, of the prompt only its share, where a group computes it */
    double rows;   /* decoded at once */
    double micro;  /* tokens of a micro-batch */
    double passes; /* micro-batches of an optimizer step */
    double policy; /* most sampled tokens of a trajectory */
    double workers; /* side by side */
    double ranks;   /* processes; the plan is of one of them */
    double shards;  /* parts that optimizer states are in; 1: whole */
    double pieces;  /* that sums of gradients are in */
    int by_unit;    /* gradients are exchanged a unit of the decoder at a time */
    int reshards;   /* and weights, in updates */
    int prefetches; /* which travel a unit ahead */
    int generates;  /* here, not by a server */
    int imitates;   /* stage sft */
};

struct sr1__plan_figures {
    struct sr1__memory_model policy;
    struct sr1__plan_step step;
    struct sr1__plan_item items[SR1__PLAN_ITEMS];
    size_t n_items;
    double peaks[SR1__PLAN_PHASES][SR1__PLAN_PLACES]; /* on the CPU all is DEVICE */
    enum sr1__plan_phase largest;                     /* on the device */
    double peak;                                      /* there, */
    double host;                                      /* and the host's, 0 on the CPU */
    double checkpoint, disk;
    int counts_steps; /* disk is that of max_steps; 0: of as many steps as take most */
};
/* c is complete: its rules hold. */
sr1_status sr1__plan_figure(struct sr1__plan_figures *out, const sr1_config *c,
                            const struct sr1__plan_shapes *shapes, sr1__device device);

/* ---- plan_choose.c ---- */

enum { SR1__PLAN_MICRO_BATCH_TOKENS, SR1__PLAN_MAX_ROWS, SR1__PLAN_CHOSEN };
const char *sr1__plan_chosen_key(size_t i); /* "micro_batch_tokens", ... */

/* ---- plan_advice.c ---- */

struct sr1__plan_advice {
    char set[320]; /* "key=value", several with spaces between them */
    double peak, host;
    int fits;
};
#define SR1__PLAN_ADVICE 16

/* ---- plan.c ---- */

struct sr1_plan {
    sr1_config *config;
    struct sr1__plan_shapes shapes;
    struct sr1__plan_figures figures;
    sr1__device device;
    const char *device_name; /* static */
    double memory;           /* of the device */
    double host_memory;      /* that can be taken; 0: not known, or the device's */
    double disk_free;        /* -1: not known */
    int given;               /* memory: by the caller */
    int64_t chosen[SR1__PLAN_CHOSEN]; /* set in config; 0: it was given */
    struct sr1__plan_advice advice[SR1__PLAN_ADVICE];
    size_t n_advice;
    char *text, *json;
};

/* plan_choose.c: set in config what it leaves to the plan (0), so that it fits or is
 * least; then, was that enough? */
sr1_status sr1__plan_choose(sr1_plan *p);
sr1_status sr1__plan_check_chosen(const sr1_plan *p);
/* plan_items.c: does it fit into the host's memory, where that is known, and into that of
 * the plan? */
int sr1__plan_host_fits(const sr1_plan *p, const struct sr1__plan_figures *f);
int sr1__plan_fits(const sr1_plan *p, const struct sr1__plan_figures *f);
/* plan_advice.c; the rest of *p is set. */
sr1_status sr1__plan_advise(sr1_plan *p);
/* plan_text.c */
sr1_status sr1__plan_write_text(sr1_plan *p);
sr1_status sr1__plan_write_json(sr1_plan *p);

#endif
