/* policy/server_engine.h - OpenAI-style servers (retrieval/net/server_pool.h) as a
 * generation engine.
 *
 *     server_engine.c    requests side by side, each on a thread that waits
 *     server_sequence.c  what a sequence asks, and what of an answer it gives
 *     server_tokens.c    an answer as tokens */
#ifndef SR1__POLICY_SERVER_ENGINE_H
#define SR1__POLICY_SERVER_ENGINE_H

#include "base/executor.h"
#include "policy/rollout_internal.h"
#include "retrieval/net/server_pool.h"

#include <searchr1/ext/openai.h>

/* As the configuration says; asks the server for its models. r gives tokenizer and
 * prompts, and must outlive the engine. *context: tokens that the server reads, 0: it
 * does not say. */
sr1_status sr1__server_engine_new(struct sr1__engine *out, const sr1_rollout *r,
                                  const sr1_config *c, int64_t *context);
/* Train on it: from now on what has no ids and log-probs is refused. SR1_E_CONFIG where
 * the configuration cannot give them. */
sr1_status sr1__server_engine_require_exact(struct sr1__engine *e, const sr1_config *c);

/* Another engine over the servers of this one, for a generation at the same time; it must
 * not outlive it. */
sr1_status sr1__server_engine_share(struct sr1__engine *out,
                                    const struct sr1__engine *of);

struct sr1__server_pool *sr1__server_engine_pool(const struct sr1__engine *e);

/* ---- an answer as tokens ---- */

/* Where a turn's ids come from. */
enum {
    SR1__SERVER_IDS,         /* the server's own */
    SR1__SERVER_TOKEN_TEXTS, /* its tokens' texts, each of which is one token of ours */
    SR1__SERVER_ENCODED      /* its text, encoded anew: other ids may spell the same */
};

struct sr1__server_tokens {
    struct sr1__ids ids;
    const float *log_probs; /* [ids.n] of the answer; NULL: not known */
    int32_t source;         /* SR1__SERVER_* */
    int32_t drifted;      /* its text, encoded anew, gives other ids, or another number */
    struct sr1__buf text; /* of the ids */
};

/* The tokens of an answer, which must outlive them. check_text: text and ids come from
 * one another; SR1_E_INVALID if they do not, for then the server has another tokenizer.
 */
sr1_status sr1__server_tokens_make(struct sr1__server_tokens *out, const sr1_tokenizer *t,
                                   const sr1_openai_result *answer, int check_text);
void sr1__server_tokens_free(struct sr1__server_tokens *t);

/* ---- one sequence ---- */

struct sr1__server_engine;

/* What a slot holds. Zeroed it is empty. */
struct sr1__server_sequence {
    struct sr1__server_engine *engine;
    struct sr1__task task;
    int32_t answered;    /* and not taken yet; guarded by the engine's lock */
    uint64_t question;   /* hash of it */
    struct sr1__ids ids; /* all that the sequence has */
    int64_t max_tokens;  /* of the next answer */
    int64_t seed;
    struct sr1__buf said;          /* by the policy in this turn */
    struct sr1__messages messages; /* chat: the conversation so far */
    /* The last answer; results own what tokens borrow. */
    sr1_openai_results *results;
    sr1_openai_result answer;
    struct sr1__server_tokens tokens;
    struct sr1__ids missing; /* sampled, and left out of the answer */
    int32_t prompt_differs;  /* the server read other ids */
    int64_t version; /* of the servers' weights as the answer began; -1: not known */
    int32_t failed;  /* the server gave no answer; error says why */
    struct sr1__error error; /* not failed: it ends the generation */
};

struct sr1__server_engine {
    const sr1_rollout *rollout;
    struct sr1__server_pool *servers;
    struct sr1__request_gate *gate; /* of all engines over these servers */
    struct sr1__server_engine *younger;
    int32_t waiting; /* requests at the gate, which guards this, */
    int32_t ending;  /* and: none of them is let in any more */
    int32_t shares;  /* servers and gate are another engine's */
    struct sr1__server_counts counts[SR1__SERVERS_MAX]; /* of the generation */
    int32_t chat;                                       /* turns go as messages */
    int32_t exact; /* what has no token ids and log-probs is refused: training */
    const struct sr1__engine_task *task;
    struct sr1__server_sequence *slots; /* [task->n_slots] */
    struct sr1__executor *executor;     /* of one generation */
    pthread_mutex_t lock;               /* over all below, and slots' answered */
    pthread_cond_t answered;            /* something was answered, or woken */
    int32_t n_asked, n_answered;
    int32_t woken;
};

/* A sequence of this question begins; chat: its prompt as messages. */
sr1_status sr1__server_sequence_open(struct sr1__server_sequence *s, const sr1_query *q);
/* Ask the server, and make tokens of its answer: in tokens, or failed, or error. */
void sr1__server_sequence_ask(struct sr1__server_sequence *s);
/* The answer as an output. */
void sr1__server_sequence_output(const struct sr1__server_sequence *s,
                                 struct sr1__engine_output *o);
/* As sr1__generation_ops has them. */
sr1_status sr1__server_sequence_accept(struct sr1__server_sequence *s, size_t n, int open,
                                       struct sr1__engine_output *o);
sr1_status sr1__server_sequence_next_turn(struct sr1__server_sequence *s,
                                          const struct sr1__observation *o);
/* Free what it holds; it is empty. */
void sr1__server_sequence_clear(struct sr1__server_sequence *s);

#endif
