/* searchr1/advantage.h - an advantage estimator of your own: how much better than others
 * each trajectory did, for the key `advantage`.
 *
 * searchr1/ext/estimators.h calls every estimator, the built-in ones too, as a pure
 * function over plain arrays; KL terms and the rules for batches are in ext/kl.h and
 * ext/batching.h.
 *
 * Ownership: arrays are borrowed for the call.
 * Errors:    a status other than SR1_OK changes nothing.
 * Threads:   sr1_advantage_register from any thread. */
#ifndef SEARCHR1_ADVANTAGE_H
#define SEARCHR1_ADVANTAGE_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What estimators compute from: n trajectories with T policy tokens and U turns in all,
 * ragged, laid out one trajectory after the other.
 *
 *     token t -> turn token_turns[t] -> trajectory (token_begin, turn_begin) -> group
 *
 * Trajectories of one group share a key; a group need not be contiguous. Only policy
 * tokens count: text of the environment between two of them is no entry. Everything after
 * token_begin may be NULL; an estimator that needs what is missing says so. */
typedef struct sr1_advantage_batch {
    size_t struct_size;          /* set by the caller; later versions append fields */
    size_t n;                    /* trajectories */
    const double *rewards;       /* [n] total rewards, those of the turns included */
    const uint64_t *groups;      /* [n] sr1_trajectory_group_key, or any key */
    const int64_t *token_begin;  /* [n + 1] rising, from 0: trajectory i has the policy
                                    tokens [token_begin[i], token_begin[i + 1]); may be
                                    NULL where no array by token is given or asked for */
    const int32_t *token_turns;  /* [T] turn of each policy token within its trajectory,
                                    from 0, never falling; NULL: all 0, where each
                                    trajectory has one turn */
    const int64_t *turn_begin;   /* [n + 1] rising, from 0: trajectory i has the turns
                                    [turn_begin[i], turn_begin[i + 1]) */
    const double *turn_rewards;  /* [U] parts of rewards that belong to a turn; what is
                                    left of rewards is the outcome's */
    const double *token_rewards; /* [T] on top of rewards: dense rewards and penalties,
                                    with their sign */
    const float *values;         /* [T] the critic's before each token */
    const double *bootstrap;     /* [n] the critic's value of the state after the last
                                    token; NULL: 0. Not read where completed is 1 */
    const uint8_t *completed;    /* [n] 1: ended by itself, 0: cut short; NULL: all 0 */
    size_t n_components;         /* of the reward, each with a name */
    const char *const *component_names; /* [n_components] for error texts; may be NULL */
    const double *components; /* [n * n_components] trajectory by trajectory, before their
                                 weights; gdpo reads them in place of rewards and
                                 token_rewards */
    const double *component_weights; /* [n_components]; NULL: 1 each */
    const uint64_t *turn_states;     /* [U] key of the state a turn began in (GiGPO) */
    const int32_t *turn_tags;        /* [U] kind of step from 0 (RLVMR), level 0 to 3
                                        (RLVCR), -1: none */
    const double *confidences;    /* [U * 4] of the turn's action after thinking at each
                                     of the four levels (RLVCR); NaN: was not made */
    const double *thinking_costs; /* [U * 4] tokens of that thinking; NaN: not known */
    const int32_t *result_turn;   /* [n] first turn that a tool's result followed, -1: no
                                     result (MT-GRPO) */
    const double *baselines;      /* [n] reward of the greedy rollout (ReMax) */
    const uint8_t *step_tokens;   /* [T] 1: has its turn's part, 0: only its trajectory's
                                     (GiGPO, RLVMR, RLVCR); NULL: all have it */
    const uint8_t *component_absent; /* [n * n_components] 1: the reward does not apply to
                                        this trajectory, which is not compared with others
                                        by it; NULL: all apply. Since 0.1 */
    const float *score_norms;        /* [T] squared norm of the gradient of the token's
                                        log-prob by the logits, 1 - 2 p + the sum of
                                        squared probabilities, times the square of its
                                        importance weight if it has one. Since 0.1 */
    const int32_t *token_places;     /* [T] place of the token in its response, inserted
                                        text included, from 0 and rising; NULL: no text
                                        was inserted. Since 0.1 */
} sr1_advantage_batch;

/* What of it an estimator needs. */
#define SR1_ADVANTAGE_NEEDS_TOKENS 1 /* token_begin */
#define SR1_ADVANTAGE_NEEDS_TURNS                                                        \
    2 /* turn_begin; token_turns where there are several                                 \
       */
#define SR1_ADVANTAGE_NEEDS_TURN_REWARDS 4
#define SR1_ADVANTAGE_NEEDS_VALUES 8
#define SR1_ADVANTAGE_NEEDS_COMPONENTS 16 /* components, at least one */
#define SR1_ADVANTAGE_NEEDS_TURN_STATES 32
#define SR1_ADVANTAGE_NEEDS_TURN_TAGS 64
#define SR1_ADVANTAGE_NEEDS_CONFIDENCES 128
#define SR1_ADVANTAGE_NEEDS_RESULT_TURN 256
#define SR1_ADVANTAGE_NEEDS_BASELINES 512
#define SR1_ADVANTAGE_NEEDS_SCORE_NORMS 1024

/* What an estimator computes beyond one number a trajectory, and what holds for it. */
#define SR1_ADVANTAGE_GIVES_TOKENS 1  /* tokens of a trajectory may differ */
#define SR1_ADVANTAGE_GIVES_RETURNS 2 /* what a critic should have said */
#define SR1_ADVANTAGE_GIVES_TURNS 4   /* the part of each turn */
#define SR1_ADVANTAGE_GIVES_GROUP_RELATIVE                                               \
    8 /* a group whose rewards are all equal gets 0: it can be skipped                   \
       */

#define SR1_ADVANTAGE_STD_DEFAULT 0    /* the estimator's own */
#define SR1_ADVANTAGE_STD_POPULATION 1 /* divided by n */
#define SR1_ADVANTAGE_STD_UNBIASED 2   /* divided by n - 1, as torch.std */

#define SR1_ADVANTAGE_STD_OVER_GROUP 0
#define SR1_ADVANTAGE_STD_OVER_BATCH 1 /* of all rewards of the batch */

/* Of steps and of trajectories (gigpo, rlvmr), or of levels (rlvcr). */
#define SR1_ADVANTAGE_MEAN_NORM 1     /* the mean is taken off */
#define SR1_ADVANTAGE_MEAN_STD_NORM 2 /* and divided by std + eps */

#define SR1_ADVANTAGE_WHITEN 1        /* as the estimator's source does */
#define SR1_ADVANTAGE_WHITEN_TOKENS 2 /* over policy tokens; all but gdpo do anyway */

/* Begin with sr1_advantage_options_init: what is 0 here is 0. Each estimator reads the
 * fields that sr1_advantage_describe lists. */
typedef struct sr1_advantage_options {
    size_t struct_size;
    double eps;            /* added to the standard deviation (whitening over tokens:
                              to the variance), >= 0 */
    int32_t divide_by_std; /* 0: only the mean is taken off */
    int32_t std_kind;      /* SR1_ADVANTAGE_STD_DEFAULT, _POPULATION or _UNBIASED */
    int32_t single_raw;    /* a group of one: 0 gives 0; 1 lets its reward through, as if
                              mean 0 and std 1 (verl) */
    int32_t whiten;        /* SR1_ADVANTAGE_WHITEN*: afterwards to mean 0, std 1 over
                              the batch; 0: not */
    double gamma;          /* discount, 0 to 1: by policy token; in mt_grpo_turns and
                              gigpo by turn */
    double lam;            /* of GAE, 0 to 1 */
    double turn_advantage_coef;  /* weight of the turn's part (MT-GRPO) */
    double step_advantage_w;     /* weight of the step's part (GiGPO, RLVMR, RLVCR) */
    int32_t step_mode;           /* SR1_ADVANTAGE_MEAN_NORM or MEAN_STD_NORM */
    int32_t multiplicative;      /* RLVCR: 1 takes the form of the published code */
    double thinking_diversity_w; /* RLVCR: more for a level the group seldom used */
    double thinking_cost_w;      /* RLVCR: alpha of alpha (0.5 - cost / cost_max) */
    double thinking_cost_max;    /* RLVCR: > 0, tokens */
    int32_t pass_k;              /* pass_at_k: at least 2; 0: the size of the group */
    int32_t gpg_nonzero;         /* gpg: 1 scales by the rewards that are not 0 (verl) */
    int32_t std_over;            /* SR1_ADVANTAGE_STD_OVER_*: whose deviation divides,
                                    that of single_raw too; means are of groups. Since
                                    0.1 */
} sr1_advantage_options;

/* Where results go; each may be NULL. The arrays are the caller's. */
typedef struct sr1_advantage_outputs {
    size_t struct_size;
    double *advantages;      /* [n] of a trajectory; where tokens differ, their mean (0
                                without tokens) */
    float *token_advantages; /* [T] */
    float *returns;          /* [T] for the critic's loss (GIVES_RETURNS) */
    double *turn_advantages; /* [U] the part of a turn, before its weight (GIVES_TURNS) */
} sr1_advantage_outputs;

/* What is written goes to the trajectories, and through them into the loss. */
typedef struct sr1_advantage_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* 1 to 64 letters, digits, '_', '-', '.'; copied, as all texts */
    /* Fill what `gives` names; the other outputs are NULL: advantages[n] without
     * GIVES_TOKENS, token_advantages[T] with it, returns[T] and turn_advantages[U] with
     * theirs. All are zeros before. batch: as in sr1_advantage_batch, with at least what
     * `needs` names; token_rewards (KL in the reward, dense rewards) count on top of
     * rewards. options: those of the configuration. batch, options and outputs are
     * borrowed for the call. Called by the thread that trains or estimates; two threads
     * may call it at once. A status other than SR1_OK fails the step; explain it with
     * sr1_set_error. */
    sr1_status (*estimate)(void *self, const sr1_advantage_batch *batch,
                           const sr1_advantage_options *options,
                           const sr1_advantage_outputs *outputs);
    int32_t needs;       /* SR1_ADVANTAGE_NEEDS_*; NEEDS_VALUES trains a critic */
    int32_t gives;       /* SR1_ADVANTAGE_GIVES_* */
    const char *options; /* fields of sr1_advantage_options that it reads, joined by ", ";
                            NULL: none. Keys of the configuration that set others are
                            refused */
    const sr1_advantage_options *defaults; /* their numbers; NULL: those of grpo */
    const char *formula;                   /* for sr1_advantage_describe; NULL: "" */
    const char *source;
} sr1_advantage_ops;

/* Make an estimator known by its name: to every function of searchr1/ext/estimators.h
 * that takes one, and to the key `advantage`, in the order of registering behind the
 * built-in ones. For the life of the process, in which self (may be NULL) stays valid. A
 * run that was begun with it resumes in a process that has registered it before; another
 * is refused by name. From any thread. SR1_E_INVALID: the name is taken or no name, or a
 * field contradicts another. */
SR1_API sr1_status sr1_advantage_register(const sr1_advantage_ops *ops, void *self);

#ifdef __cplusplus
}
#endif
#endif
