/* rollout/remote.h - trajectories whose tokens come from a server (searchr1/openai.h) in
 * place of a decoder.
 *
 *     remote.c         rows side by side, each a thread that waits for its answers
 *     remote_turn.c    what a row asks, and what of an answer it takes
 *     remote_tokens.c  an answer as tokens */
#ifndef SR1__ROLLOUT_REMOTE_H
#define SR1__ROLLOUT_REMOTE_H

#include "rollout/row.h"

#include <searchr1/openai.h>

struct sr1__remote {
    sr1_openai *client;
    struct sr1__pool *pool; /* one thread for each row under way */
    int32_t chat;           /* turns go as messages */
    int32_t exact;          /* what has no token ids and log-probs is refused: training */
    struct sr1__remote_stats total; /* since opening */
};

/* As the configuration says; asks the server for its models. */
sr1_status sr1__remote_new(struct sr1__remote **out, const sr1_config *c);
void sr1__remote_free(struct sr1__remote *m); /* NULL is fine */
/* Train on it: from now on what has no ids and log-probs is refused. SR1_E_CONFIG where
 * the configuration cannot give them. */
sr1_status sr1__remote_train(struct sr1__remote *m, const sr1_config *c);
/* What it did since opening. */
void sr1__remote_describe(const struct sr1__remote *m, sr1_remote_report *out);

/* Make all trajectories of a generation. Those whose server fails in the end stop with
 * SR1_STOP_ERROR; only if all do, or none could ever succeed, does the call fail. */
sr1_status sr1__remote_run(struct sr1__generation *g, size_t total);

/* ---- an answer as tokens ---- */

/* Where a turn's ids come from. */
enum {
    SR1__REMOTE_IDS,     /* the server's own */
    SR1__REMOTE_SPELLED, /* its tokens' texts, each of which is one token of ours */
    SR1__REMOTE_ENCODED  /* its text, encoded anew: other ids may spell the same */
};

struct sr1__remote_tokens {
    struct sr1__ids ids;
    const float *log_probs; /* [ids.n] of the answer; NULL: not known */
    int32_t source;         /* SR1__REMOTE_* */
    int32_t drifted;      /* its text, encoded anew, gives other ids, or another number */
    struct sr1__buf text; /* of the ids */
};

/* The tokens of an answer, which must outlive them. check_text: text and ids come from
 * one another; SR1_E_INVALID if they do not, for then the server has another tokenizer.
 */
sr1_status sr1__remote_tokens_make(struct sr1__remote_tokens *out, const sr1_tokenizer *t,
                                   const sr1_openai_result *answer, int check_text);
void sr1__remote_tokens_free(struct sr1__remote_tokens *t);

/* ---- one turn ---- */

/* A row and its conversation with the server. */
struct sr1__talk {
    struct sr1__generation *g;
    struct sr1__remote *remote;
    struct sr1__row row;
    struct sr1__buf said;     /* by the policy in this turn */
    char **roles, **contents; /* [n_messages], chat */
    size_t n_messages, cap_messages;
    int32_t failed; /* the server gave no answer; error says why */
    struct sr1__error error;
};

/* Chat: the prompt as messages. */
sr1_status sr1__talk_begin(struct sr1__talk *k);
/* Ask, take the answer's tokens; *want is what the row wants then. A failure of the
 * server sets k->failed and is none of the call's. */
sr1_status sr1__talk_ask(struct sr1__talk *k, enum sr1__row_want *want);
/* The environment has answered (NULL: as the protocol's notice says), a turn begins. */
sr1_status sr1__talk_turn(struct sr1__talk *k, const struct sr1__observation *o);
void sr1__talk_free(struct sr1__talk *k);

#endif
