/* searchr1/ext/critique.h - learning to criticise answers (CTRL, Xie et al. 2025, arXiv
 * 2502.03492): the policy reads a problem and an answer and writes a critique; a frozen
 * model, the reviser, rewrites the answer by the critique; the reward is that the
 * revision passes the problem's tests.
 *
 * This header has the prompts, generators (models that continue conversations), the
 * environment that answers a critique with its revision, hints from execution, trees of
 * revisions with their scores, and demonstrations of critiques.
 *
 * Text:      UTF-8; other bytes become U+FFFD where text is copied.
 * Ownership: free a generator with sr1_generator_free, trees with
 *            sr1_revision_trees_free.
 * Errors:    outputs are untouched on failure; an error of a callback names the
 *            generator.
 * Threads:   prompts have no shared state. Any number of threads may use one generator;
 *            its function write is called by one at a time unless it has
 *            SR1_GENERATOR_CONCURRENT. Trees: one thread at a time.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_CRITIQUE_H
#define SEARCHR1_EXT_CRITIQUE_H

#include <searchr1/base.h>
#include <searchr1/ext/code.h>
#include <searchr1/config.h>
#include <searchr1/env.h>
#include <searchr1/ext/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- prompts ---- */

/* Write an answer as prompts show it: its program (sr1_code_extract) in a ``` block
 * marked as Python; without a fence the whole text, stripped. *out is NUL-terminated;
 * caller frees it with sr1_free. Errors as sr1_code_extract. */
SR1_API sr1_status sr1_critique_sanitize(const char *answer, size_t len, char **out);

/* How models are asked, in place of the built-in prompts. */
typedef struct sr1_critique_style sr1_critique_style;

/* Read prompt templates from two text files; NULL or "" for the built-in one.
 * critique_template is the prompt of the critic, with the placeholders {{problem}},
 * {{answer}} (sanitized) and {{hint}} (a paragraph or nothing; without the placeholder
 * the hint goes to the end). solve_template is the prompt of the solver, with
 * {{problem}}. SR1_E_PARSE names an unknown placeholder. Caller frees with
 * sr1_critique_style_free. */
SR1_API sr1_status sr1_critique_style_open(sr1_critique_style **out,
                                           const char *critique_template,
                                           const char *solve_template);

/* Take one more reference. Returns style; NULL for NULL. */
SR1_API sr1_critique_style *sr1_critique_style_retain(sr1_critique_style *style);

/* Drop one reference; the last one frees the style. NULL is fine. */
SR1_API void sr1_critique_style_free(sr1_critique_style *style);

/* Write the prompt that asks a solver for a solution: by the style's solve_template, else
 * as sr1_problem_prompt. style may be NULL. *out is NUL-terminated; caller frees it with
 * sr1_free. SR1_E_INVALID: problem or out is NULL. SR1_E_NOMEM. */
SR1_API sr1_status sr1_critique_solve_prompt(const sr1_critique_style *style,
                                             const sr1_problem *problem, char **out);

/* Write the prompt that asks a critic to analyse an answer, to suggest improvements
 * without solving the problem, and to judge it in a line "Overall judgment: Correct" or
 * "Overall judgment: Incorrect". The built-in prompt shows the task between <problem>
 * tags and the sanitized answer (NULL: the problem's own solution) between <answer> tags.
 * style NULL: the built-in prompt. hint (may be NULL) is told to the critic as knowledge
 * that it must not mention. *out is NUL-terminated; caller frees it with sr1_free.
 * SR1_E_INVALID: there is no answer. */
SR1_API sr1_status sr1_critique_prompt(const sr1_critique_style *style,
                                       const sr1_problem *problem, const char *answer,
                                       size_t len, const char *hint, char **out);

/* Messages of the conversation that asks for a revision: user, assistant, user. */
#define SR1_REVISION_MESSAGES 3

/* Write the three messages that ask for a revision, into contents
 * [SR1_REVISION_MESSAGES]: the solver's prompt (sr1_critique_solve_prompt); the sanitized
 * answer (NULL: the problem's own solution); the critique (sr1_critique_text) with the
 * request to finalise the answer in the same format. style may be NULL. Each is
 * NUL-terminated; caller frees each with sr1_free. */
SR1_API sr1_status sr1_critique_revision(const sr1_critique_style *style,
                                         const sr1_problem *problem, const char *answer,
                                         size_t len, const char *critique,
                                         size_t critique_len, char **contents);

/* ---- hints from execution ---- */

/* Write the hint that a critic gets about an answer that was run: that it is correct; or
 * the line at fault and the last line of the traceback; or that it takes too long or too
 * much memory; or input, expected and actual output of the first failing case (if these
 * are below 1000 bytes together); and, where every test fails, the advice to begin anew.
 * check has run answer against problem with all tests. *out is NUL-terminated; caller
 * frees it with sr1_free. SR1_E_STATE: the check has not ended, or its result is
 * unknown. */
SR1_API sr1_status sr1_critique_execution_feedback(const sr1_problem *problem,
                                                   const char *answer, size_t len,
                                                   const sr1_check *check, char **out);

/* ---- generators ---- */

typedef struct sr1_generator sr1_generator;

/* A conversation that wants its next message. */
typedef struct sr1_conversation {
    size_t struct_size;          /* later versions append fields */
    const char *const *roles;    /* [n] "system", "user" or "assistant" */
    const char *const *contents; /* [n] */
    const size_t *sizes;         /* [n] bytes of contents */
    size_t n;
    const char *id; /* what is drawn depends on the generator's seed, this and sample;
                       NULL: on the contents in place of this */
    int32_t sample;
} sr1_conversation;

/* Collects the messages that a generator writes; only valid inside the call it was given
 * to. */
typedef struct sr1_generator_sink sr1_generator_sink;

enum {
    SR1_GENERATOR_CONCURRENT = 1 /* write may run in several threads at a time */
};

/* A generator of the caller's. Functions may be called from any thread. */
typedef struct sr1_generator_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* copied */
    /* Write the next message of each of the n conversations into the sink. One that got
     * no text failed: nothing is known. A status other than SR1_OK fails the call;
     * explain it with sr1_set_error. */
    sr1_status (*write)(void *self, const sr1_conversation *const *conversations,
                        size_t n, sr1_generator_sink *sink);
    void (*destroy)(void *self); /* called once with self, may be NULL */
    int32_t flags;               /* SR1_GENERATOR_* together, or 0 */
} sr1_generator_ops;

/* Give conversation i its next message (copied); a second call replaces it. */
SR1_API sr1_status sr1_generator_sink_text(sr1_generator_sink *sink, size_t i,
                                           const char *text, size_t len);

/* Make a generator of the caller's functions. ops is copied. On success the generator
 * owns self; on failure the caller still does. Caller frees with sr1_generator_free.
 * SR1_E_INVALID: out, the name or write is missing, or struct_size is not set.
 * SR1_E_NOMEM. */
SR1_API sr1_status sr1_generator_new(sr1_generator **out, const sr1_generator_ops *ops,
                                     void *self);

/* Take one more reference. Returns generator; NULL for NULL. */
SR1_API sr1_generator *sr1_generator_retain(sr1_generator *generator);

/* Drop one reference; the last one frees the generator. NULL is fine. */
SR1_API void sr1_generator_free(sr1_generator *generator);

/* Return the generator's name. Borrowed until the generator is freed. */
SR1_API const char *sr1_generator_name(const sr1_generator *generator);

/* Generate the next message of each of n conversations, whose elements lie
 * conversations[0].struct_size bytes apart. texts[i] receives a NUL-terminated text of
 * lens[i] bytes (lens may be NULL), or NULL where the generator failed for conversation
 * i. Caller frees each text with sr1_free. A failure of the whole call (its function's
 * status, SR1_E_CALLBACK if that is no SR1_E_*) writes no text. SR1_E_INVALID names a
 * conversation without messages, or with another struct_size. */
SR1_API sr1_status sr1_generator_generate(sr1_generator *generator,
                                          const sr1_conversation *conversations, size_t n,
                                          char **texts, size_t *lens);

/* How a model writes. */
typedef struct sr1_generator_options {
    size_t struct_size; /* set by sr1_generator_options_init */
    int64_t max_tokens; /* of one message; 0: 1024 */
    double temperature; /* 0: greedy */
    double top_p;       /* 0: 1 */
    int32_t top_k;      /* 0: all tokens */
    uint64_t seed;
} sr1_generator_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_generator_options_init(sr1_generator_options *options);

/* Make a generator of a local model, loaded from its folder; training elsewhere does not
 * change its weights. config (may be NULL) gives the keys device, dtype, workers,
 * threads, max_rows and enable_thinking, and tokenizer if folder is its
 * model_name_or_path. The last message of a conversation must be the user's; a
 * conversation longer than the model's context gets no text. options may be NULL.
 * The generator has weights of its own, in the memory of its device until it is freed,
 * and while it generates a KV cache for at most max_rows sequences. Any number of threads
 * may use it; their calls run one after another. Caller frees with sr1_generator_free.
 * SR1_E_INVALID: an option is negative. Errors of the folder, the model and the device as
 * sr1_model_open, of the tokenizer as sr1_tokenizer_open. */
SR1_API sr1_status sr1_generator_open_model(sr1_generator **out, const char *folder,
                                            const sr1_config *config,
                                            const sr1_generator_options *options);

/* Make a generator of a model behind a server that speaks OpenAI's API, by the keys
 * openai_*, vllm_server_* and enable_thinking of a configuration. A conversation whose
 * request failed, retries included, gets no text. options may be NULL. Errors as
 * sr1_openai_open. Caller frees with sr1_generator_free. */
SR1_API sr1_status sr1_generator_open_remote(sr1_generator **out,
                                             const sr1_config *config,
                                             const sr1_generator_options *options);

/* Make the generator that revises answers in the environment "critique", by the keys
 * proxy_model, proxy_url and proxy_max_tokens of a configuration; it decodes greedily.
 * Caller frees with sr1_generator_free. */
SR1_API sr1_status sr1_generator_open_reviser(sr1_generator **out,
                                              const sr1_config *config);

/* ---- the environment ---- */

/* Open the environment "critique". The action is a critique: a whole message of the
 * protocol "ctrl". The observation is the revision of the problem's solution by that
 * critique, and ends the trajectory. The id of the question names the problem. Sequences
 * that wait for a revision form one batch of the reviser while others go on. A revision
 * is inserted whole or not at all (SR1_ENV_WHOLE). Where the reviser failed, the action
 * ends as SR1_ACTION_ERROR (sr1_env_sink_status). problems, reviser and style (NULL:
 * built-in prompts) are retained. options NULL: protocol "ctrl". Caller frees with
 * sr1_env_free. */
SR1_API sr1_status sr1_critique_env_open(sr1_env **out, sr1_problems *problems,
                                         sr1_generator *reviser,
                                         sr1_critique_style *style,
                                         const sr1_env_options *options);

/* ---- trees of revisions ---- */

typedef struct sr1_revision_trees sr1_revision_trees;

/* Kinds of nodes. */
enum {
    SR1_NODE_ROOT = 0,    /* a problem */
    SR1_NODE_ANSWER = 1,  /* a first answer to it */
    SR1_NODE_REVISION = 2 /* of its parent's answer, by a critique of that */
};

/* What grows where. Handles are retained. */
typedef struct sr1_revision_tree_options {
    size_t struct_size;     /* set by sr1_revision_tree_options_init */
    sr1_problems *problems; /* a tree each */
    int64_t max_problems;   /* the first so many; 0: all */
    sr1_generator *solver;  /* writes first answers; NULL: they are the problems' own */
    sr1_generator *critic;  /* NULL: nothing is revised */
    sr1_generator *reviser;
    sr1_checker *checker; /* runs answers; NULL: `run` does */
    /* One answer's outcome: SR1_RUN_* and the share of tests it passes, in [0, 1]; others
     * are SR1_E_CALLBACK. */
    sr1_status (*run)(void *user, const sr1_problem *problem, const char *answer,
                      size_t len, int32_t *verdict, double *pass_rate);
    /* Called as work goes on; may be NULL. A status other than SR1_OK ends the call with
     * it; what was made before stays. */
    sr1_status (*progress)(void *user, const char *phase, int64_t done, int64_t total);
    void *user;
    int32_t votes;    /* critiques of each answer: one of those that judge as most of them
                         do is drawn; 0: 1 */
    uint64_t seed;    /* of that */
    const char *path; /* file of nodes, a JSON line each (.jsonl): read if it is there,
                         and added to as nodes are made; NULL: none */
    int32_t hints;    /* 1: the critic is told what running the answer showed
                         (sr1_critique_execution_feedback; without a checker, what its
                         verdict says) */
    sr1_critique_style *style; /* NULL: built-in prompts */
    /* What answers depend on beside the problems, in any words: the names of the models,
     * how they sample. A digest of it, of its problem and of the tests is kept with each
     * node. NULL: it is not, nor looked at. Copied. */
    const char *made_by;
} sr1_revision_tree_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_revision_tree_options_init(sr1_revision_tree_options *options);

/* Make one tree for each problem, of one node, and add the nodes of the file at
 * options->path. SR1_E_PARSE: a node of the file does not fit the problems.
 * SR1_E_INVALID: there are no problems, neither checker nor run, a critic without a
 * reviser or the other way round, votes is not in 0..1000, or the file's name does not
 * end in .jsonl; or the file has a node whose parent is not before it. SR1_E_STATE: a
 * node was made with another made_by, or its problem has changed. Caller frees with
 * sr1_revision_trees_free. */
SR1_API sr1_status sr1_revision_trees_open(sr1_revision_trees **out,
                                           const sr1_revision_tree_options *options);

/* Free the trees. NULL is fine. */
SR1_API void sr1_revision_trees_free(sr1_revision_trees *trees);

/* Grow the trees layer by layer until each node of layer i has widths[i + 1] children.
 * widths [n]: widths[0] is 1 (the problem), widths[1] the number of first answers, the
 * others numbers of revisions: {1, 5, 1, 1} makes five answers, each revised twice.
 * Existing children count, so the same call continues a call that was stopped. *missing
 * (may be NULL) receives the number of nodes that could not be made because a generator
 * or the sandbox failed, or a conversation was longer than its model reads; the next call
 * tries them again, the latter in vain. SR1_E_INVALID: n is 0, widths[0]
 * is not 1, a width is not in 0..100000, or n > 2 without a critic. */
SR1_API sr1_status sr1_revision_trees_expand(sr1_revision_trees *trees,
                                             const int32_t *widths, size_t n,
                                             int64_t *missing);

/* One node. Pointers are borrowed until the trees are freed. */
typedef struct sr1_revision_node {
    size_t struct_size;   /* set by the caller; later versions append fields */
    const char *problem;  /* its problem's id */
    const char *hash;     /* 40 hexadecimal digits */
    const char *parent;   /* its parent's; "" at a root */
    const char *solution; /* the answer; "" at a root */
    const char *critique; /* of its parent's answer; "" but at a revision */
    int32_t kind;         /* SR1_NODE_* */
    int32_t depth;        /* 0 at a root */
    int32_t judgement;    /* SR1_JUDGEMENT_* of the critique */
    int32_t verdict;      /* SR1_RUN_* of the answer */
    double pass_rate;
} sr1_revision_node;

/* Return the number of nodes of all trees. */
SR1_API size_t sr1_revision_trees_count(const sr1_revision_trees *trees);

/* Fill *out (struct_size set) with node index, in the order in which nodes were made.
 * SR1_E_INVALID: index is out of range. */
SR1_API sr1_status sr1_revision_trees_node(const sr1_revision_trees *trees, size_t index,
                                           sr1_revision_node *out);

/* What a number of revisions did. Means over problems of the means over their nodes;
 * rates in [0, 1]. */
typedef struct sr1_revision_tree_scores {
    size_t struct_size; /* set by the caller; later versions append fields */
    int32_t revisions;  /* 0: the first answers */
    int64_t problems;   /* with nodes of that depth */
    int64_t nodes;
    double pass_at_1; /* answers that pass all their tests */
    double pass_rate; /* tests that are passed */
    double gained;    /* answers that pass although the first one did not, and */
    double lost;      /* the other way round */
    /* Judgements of the answers before the last revision against the truth; 0 where
     * revisions is 0 (sr1_judgement_scores). */
    int64_t critiques;
    int64_t no_judgement;
    double accuracy;
    double f1;
    double f1_incorrect;
} sr1_revision_tree_scores;

/* Fill *out (struct_size set) with the scores over all nodes with so many revisions.
 * SR1_E_NOT_FOUND: no node has that many. */
SR1_API sr1_status sr1_revision_trees_scores(const sr1_revision_trees *trees,
                                             int32_t revisions,
                                             sr1_revision_tree_scores *out);

/* Compute the unbiased estimate of pass@k (Chen et al. 2021): the chance that at least
 * one of k answers, drawn from n of which c pass, passes:
 *
 *     1 - C(n - c, k) / C(n, k)
 *
 * SR1_E_INVALID unless 0 <= c <= n and 1 <= k <= n. */
SR1_API sr1_status sr1_pass_at_k(int64_t n, int64_t c, int64_t k, double *out);

/* Compute the mean of sr1_pass_at_k over problems, each over its nodes with so many
 * revisions. SR1_E_INVALID: a problem has fewer than k such nodes. */
SR1_API sr1_status sr1_revision_trees_pass_at_k(const sr1_revision_trees *trees,
                                                int32_t revisions, int64_t k,
                                                double *out);

/* ---- demonstrations ---- */

/* Which critiques of revision trees become demonstrations. Zeros are the published
 * choice. */
typedef struct sr1_critique_demo_options {
    size_t struct_size;      /* set by sr1_critique_demo_options_init */
    int32_t drop_failed;     /* 1: only where the revision passes */
    int32_t one_per_problem; /* 1: the first of each problem */
    int32_t drop_unjudged;   /* 1: only with a judgement */
    int32_t drop_untrue;     /* 1: only with a true one */
    const sr1_tokenizer
        *tokenizer;            /* counts the tokens of prompts; NULL: none is too long */
    int64_t max_prompt_tokens; /* prompts have fewer; 0: 2048 */
    int32_t balance; /* 1: as many that judge "correct" as "incorrect": of the more
                        frequent judgement, those that lie evenly among what is left by
                        all the above; those without a judgement stay */
} sr1_critique_demo_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_critique_demo_options_init(sr1_critique_demo_options *options);

/* What became of the critiques of first answers, each counted once. */
typedef struct sr1_critique_demo_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t critiques;
    int64_t written;
    int64_t mentioning; /* left out: it speaks of the hint */
    int64_t too_long;   /* its prompt */
    int64_t unwanted;   /* by the options */
    int64_t surplus;    /* of their judgement, by balance */
    int64_t empty;      /* left out: there is nothing to learn from it */
} sr1_critique_demo_report;

/* Write the critiques of first answers as demonstrations for stage sft into a file of
 * JSON lines, which is replaced when all went well: {"messages": [user: the critique
 * prompt without a hint, assistant: the critique], "task_id", "success": the revision
 * passes, "judgement"}. Critiques that contain "he hint" and empty ones are left out.
 * options and report (struct_size set) may be NULL. SR1_E_NOT_FOUND: no critique is left.
 */
SR1_API sr1_status sr1_revision_trees_write_demos(
    const sr1_revision_trees *trees, const char *path,
    const sr1_critique_demo_options *options, sr1_critique_demo_report *report);

/* Write the rows of problem_paths, the files that the problems were loaded from, into a
 * file of JSON lines for the keys train_file and code_problems. Each row gets the first
 * answer of its problem as "solution", the critique prompt of that answer as
 * "critique_prompt" (for the key question_field) and its "id". Problems without an answer
 * are left out. The file is replaced when all went well. *written (may be NULL) receives
 * the number of rows. SR1_E_INVALID: the files do not have as many rows as the problems
 * were loaded from, or path is one of them or the file of nodes. Errors of files as
 * sr1_dataset_open. */
SR1_API sr1_status sr1_revision_trees_write_rows(const sr1_revision_trees *trees,
                                                 const char *const *problem_paths,
                                                 size_t n_paths, const char *path,
                                                 int64_t *written);

#ifdef __cplusplus
}
#endif
#endif
