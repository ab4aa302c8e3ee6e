/* environment/trajectory/trajectory_layout.h - the struct behind sr1_trajectory. Only
 * this module uses its members. */
#ifndef SR1__TRAJECTORY_TRAJECTORY_LAYOUT_H
#define SR1__TRAJECTORY_TRAJECTORY_LAYOUT_H

#include <searchr1/ext/trajectory_details.h>

#include "environment/trajectory/row_text.h"
#include "environment/trajectory/trajectory.h"

#include <stdatomic.h>

/* Owned bytes, NUL-terminated; data is NULL only while the trajectory is being built. */
struct sr1__owned_bytes {
    char *data;
    size_t len;
};

struct sr1__action_record {
    int32_t turn;
    int32_t status;
    int32_t n_hits;
    int32_t n_hit_ids;
    struct sr1__owned_bytes query;
    char **hit_ids; /* [n_hit_ids] */
    double reward;
    int32_t success;
};

struct sr1__reward_component {
    char *name;
    double value;
    double weight;
};

struct sr1_trajectory {
    atomic_int refs;

    struct sr1__owned_bytes query;
    struct sr1__owned_bytes query_id;
    struct sr1__owned_bytes data_source;
    struct sr1__owned_bytes text; /* generated */
    struct sr1__owned_bytes answer;

    uint64_t group_key;
    int64_t weights_version;
    double temperature;
    double top_p;
    int32_t top_k;
    int32_t sample;
    int64_t copy;    /* questions of its identity before its own in the batch */
    int64_t episode; /* of the environment of this process; 0: none */
    int32_t stop_reason;
    int32_t begins_in_thought;

    size_t n_tokens;
    size_t n_prompt;
    size_t n_policy;
    int32_t *ids;
    uint8_t *sources;
    uint8_t *policy_mask;
    int32_t *turns;
    float *log_probs;
    uint32_t *text_ends;       /* [n_tokens - n_prompt] */
    int32_t *policy_positions; /* [n_policy] */
    float *policy_log_probs;   /* [n_policy] */

    sr1_text_segment *segments;
    size_t n_segments;
    struct sr1__action_record *searches;
    size_t n_searches;
    struct sr1__owned_bytes *ground_truths;
    size_t n_ground_truths;
    struct sr1__owned_bytes *history; /* [2 n_history]: role, text, role, text, ... */
    size_t n_history;
    struct sr1__row_text *row;         /* shared with the group; NULL: none */
    struct sr1__version_run *versions; /* [n_versions] of policy tokens, 0: all are of */
    size_t n_versions;                 /* weights_version; else at least 2 */

    /* Set after generation. */
    int32_t has_reward;
    int32_t has_advantage;
    double reward;
    double advantage;
    struct sr1__reward_component *parts;
    size_t n_parts;
    float *credit[SR1_COLUMN_COUNT]; /* by SR1_COLUMN_*: [n_policy] or NULL */
};

/* The per-token arrays as a table: everything done to all of them is one loop. */
enum sr1__column_length {
    SR1__COLUMN_ALL,       /* one element a token */
    SR1__COLUMN_GENERATED, /* one a token after the prompt */
    SR1__COLUMN_POLICY     /* one a policy token */
};
struct sr1__column {
    size_t offset; /* of the pointer in struct sr1_trajectory */
    size_t size;   /* of an element */
    enum sr1__column_length length;
};
#define SR1__N_COLUMNS 8
extern const struct sr1__column sr1__columns[SR1__N_COLUMNS];

/* Elements in use. */
size_t sr1__column_count(const sr1_trajectory *t, const struct sr1__column *c);
void *sr1__column_get(const sr1_trajectory *t, const struct sr1__column *c);
void sr1__column_set(sr1_trajectory *t, const struct sr1__column *c, void *data);

/* The texts as a table, likewise: offsets of struct sr1__owned_bytes. */
#define SR1__N_TEXTS 5
extern const size_t sr1__texts[SR1__N_TEXTS];
struct sr1__owned_bytes *sr1__text_at(const sr1_trajectory *t, size_t k);

/* t, or the empty trajectory that getters read in place of NULL: no tokens, no texts, no
 * reward. */
const sr1_trajectory *sr1__trajectory_or_empty(const sr1_trajectory *t);

/* Replace *b by a copy; unchanged on failure. */
sr1_status sr1__bytes_set(struct sr1__owned_bytes *b, const char *data, size_t len);

/* Copies of n texts; lens NULL: each ends at its NUL. Free with sr1__bytes_array_free. */
sr1_status sr1__bytes_array_new(struct sr1__owned_bytes **out, const char *const *data,
                                const size_t *lens, size_t n);
void sr1__bytes_array_free(struct sr1__owned_bytes *a, size_t n);

/* Of a trajectory in the making; as sr1__trajectory_builder_history. */
sr1_status sr1__trajectory_set_history(sr1_trajectory *t, const char *const *roles,
                                       const char *const *texts, const size_t *sizes,
                                       size_t n);

void sr1__action_record_free(struct sr1__action_record *s); /* what it holds */
void sr1__reward_components_free(struct sr1__reward_component *parts, size_t n);

#endif
