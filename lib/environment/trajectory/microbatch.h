/* environment/trajectory/microbatch.h - cut trajectories into packed micro-batches under
 * a token budget.
 *
 * Only the tokens that a forward pass needs are packed: those before the last policy
 * token, since the hidden row at p - 1 predicts the token at p. Longest first, each into
 * the first micro-batch with room (ties by index), so equal input gives equal batches;
 * one longer than the budget has a micro-batch of its own. With share_prompts the
 * trajectories of a group stand together behind one copy of their prompt. The counts of
 * the whole plan are known before the first micro-batch is made, so that a gradient does
 * not depend on the cut. */
#ifndef SR1__TRAJECTORY_MICROBATCH_H
#define SR1__TRAJECTORY_MICROBATCH_H

#include "base/error.h"
#include "environment/trajectory/trajectory_store.h"

#include <searchr1/ext/batching.h>
#include <searchr1/ext/trajectory_details.h>

struct sr1__batch_plan {
    size_t n_batches;
    size_t *batch_begin;     /* [n_batches + 1] into sequences */
    size_t *sequences;       /* [n_sequences] indices of trajectories, batch by batch */
    uint8_t *shares_prompt;  /* [n_sequences] the prompt is that of the one before it */
    int64_t *packed_tokens;  /* [n_batches] */
    int64_t *policy_tokens;  /* [n_batches] */
    size_t n_sequences;      /* trajectories with policy tokens */
    size_t n_skipped;        /* those without */
    int64_t n_policy_tokens; /* over all micro-batches */
    int64_t n_packed_tokens;
    /* The same, including the trajectories that were skipped because they have no
     * gradient: the denominator of means. */
    size_t all_sequences;
    int64_t all_policy_tokens;
};

/* Trajectories [begin, end); with skip_zero_advantage, those whose advantages are all 0
 * (sr1__trajectory_has_zero_advantage) are counted, but put into no micro-batch; with
 * share_prompts a group's prompt (sr1_trajectory_group_key) is in each of its
 * micro-batches once. */
struct sr1__batch_part {
    size_t begin, end;
    int32_t skip_zero_advantage;
    int32_t share_prompts;
};
/* token_budget > 0, in packed tokens. Free with sr1__batch_plan_free. */
sr1_status sr1__batch_plan_array(struct sr1__batch_plan *out,
                                 const sr1_trajectory *const *t,
                                 struct sr1__batch_part part, int64_t token_budget);
/* The same with the tokens of trajectories that are dropped. */
sr1_status sr1__batch_plan_sampled(struct sr1__batch_plan *out,
                                   const sr1_trajectory *const *t,
                                   struct sr1__batch_part part, int64_t token_budget);
sr1_status sr1__batch_plan_store_part(struct sr1__batch_plan *out,
                                      const struct sr1__trajectory_store *s,
                                      struct sr1__batch_part part, int64_t token_budget);
/* A plan just made from the same, anew with micro-batches of about equal size, the same
 * number for every worker. It stays as it was where there are too few sequences. */
sr1_status sr1__batch_plan_even_array(struct sr1__batch_plan *p,
                                      const sr1_trajectory *const *t,
                                      struct sr1__batch_part part, size_t workers,
                                      int64_t token_budget);
sr1_status sr1__batch_plan_even_store(struct sr1__batch_plan *p,
                                      const struct sr1__trajectory_store *s,
                                      struct sr1__batch_part part, size_t workers,
                                      int64_t token_budget);
/* The plan anew with micro-batches of nearly equal length (sr1_balance), their number a
 * multiple of `multiple` where there are enough sequences. It stays as it was where that
 * would go beyond the budget. report (may be NULL): lengths of the micro-batches, cut in
 * the order given and balanced; zeros where the plan stayed. */
sr1_status sr1__batch_plan_balance_store(struct sr1__batch_plan *p,
                                         const struct sr1__trajectory_store *s,
                                         size_t multiple, int64_t token_budget,
                                         sr1_balance_report *report);
void sr1__batch_plan_free(struct sr1__batch_plan *p); /* zeroes *p; a freed one is fine */

/* One micro-batch: S sequences of N tokens in all, M policy tokens to predict. Its rows
 * are R spans: whole sequences, shared prompts, and what follows such a prompt. */
struct sr1__microbatch {
    size_t n_seqs;            /* S */
    size_t n_spans;           /* R, at most 2 S */
    size_t n_tokens;          /* N */
    size_t n_targets;         /* M */
    int32_t max_len;          /* longest sequence */
    int32_t *ids;             /* [N] */
    int32_t *positions;       /* [N] from 0 in each sequence */
    int32_t *cu_seqlens;      /* [R+1] first row of each span, then N */
    int32_t *continues;       /* [R] the span of its prompt, an earlier one; -1: none */
    uint64_t *owners;         /* [N] whose token it is: of a prompt the group's key, else
                                 the index of the trajectory */
    size_t *sequence;         /* [S] index of the trajectory */
    int32_t *target_rows;     /* [M] rows of the hidden states that predict */
    int32_t *target_ids;      /* [M] the tokens that were sampled there */
    int32_t *target_seqs;     /* [M] sequence within this micro-batch */
    int32_t *target_turns;    /* [M] */
    float *rollout_log_probs; /* [M] as sampled */
    /* [M] each by SR1_COLUMN_*, of those asked for, else NULL. The advantage of a token
     * is its own, else its trajectory's. */
    float *columns[SR1_COLUMN_COUNT];
};

/* Micro-batch k of the plan, with the columns whose bits (1 << SR1_COLUMN_*) are set:
 * SR1_E_STATE names a trajectory that lacks one. The trajectories must be those the plan
 * was made from. Free with sr1__microbatch_free. */
sr1_status sr1__microbatch_array(struct sr1__microbatch *out,
                                 const struct sr1__batch_plan *p, size_t k,
                                 const sr1_trajectory *const *t, uint32_t columns);
sr1_status sr1__microbatch_store(struct sr1__microbatch *out,
                                 const struct sr1__batch_plan *p, size_t k,
                                 struct sr1__trajectory_store *s, uint32_t columns);
void sr1__microbatch_free(struct sr1__microbatch *m); /* zeroes *m; a freed one is fine */

#endif
