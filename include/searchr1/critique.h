/* searchr1/critique.h - learning to criticise answers (CTRL, Xie et al. 2025, arXiv
 * 2502.03492): a policy reads a problem and an answer and writes a critique; a writer
 * that stands still, the reviser, rewrites the answer by it; what is worth something is
 * that the revision passes the problem's tests.
 *
 * Here: the prompts, writers (models that answer conversations), the environment in which
 * a critique is answered by its revision, hints from execution, trees of revisions and
 * what they show, and demonstrations of critiques.
 *
 * Text:      UTF-8; other bytes become U+FFFD where text is copied.
 * Ownership: free a writer with sr1_writer_free, a forest with sr1_forest_free.
 * Errors:    outputs are untouched on failure; a failing callback becomes an error that
 *            names the writer.
 * Threads:   prompts: any. A writer: write, retain, free from any number of threads;
 * calls into one are made one after another unless it says SR1_WRITER_CONCURRENT. A
 *            forest: one thread at a time. */
#ifndef SEARCHR1_CRITIQUE_H
#define SEARCHR1_CRITIQUE_H

#include <searchr1/base.h>
#include <searchr1/code.h>
#include <searchr1/config.h>
#include <searchr1/env.h>
#include <searchr1/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- prompts ---- */

/* An answer as prompts show it: the program in it (sr1_code_extract) in a block of its
 * own marked as Python; without a fence the text as it is, stripped. *out is
 * NUL-terminated; caller frees with sr1_free. As sr1_code_extract. Since 0.1. */
SR1_API sr1_status sr1_critique_sanitize(const char *answer, size_t len, char **out);

/* How models are asked, in place of the built-in prompts. */
typedef struct sr1_critique_style sr1_critique_style;

/* Read the templates, files of text with places, NULL or "" for the built-in one.
 * critique: what a critic is asked; {{problem}}, {{answer}} (sanitized) and {{hint}} (a
 * paragraph, or nothing; without its place it stands at the end). solve: what a solver is
 * asked;
 * {{problem}}. SR1_E_PARSE names another place. Caller frees with
 * sr1_critique_style_free. Since 0.1. */
SR1_API sr1_status sr1_critique_style_open(sr1_critique_style **out,
                                           const char *critique_template,
                                           const char *solve_template);

/* Another reference; NULL gives NULL. Since 0.1. */
SR1_API sr1_critique_style *sr1_critique_style_retain(sr1_critique_style *style);

/* Drop a reference. NULL is fine. Since 0.1. */
SR1_API void sr1_critique_style_free(sr1_critique_style *style);

/* What a solver is asked: by the style (NULL: built-in), else sr1_problem_prompt. *out is
 * NUL-terminated; caller frees with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_critique_solve_prompt(const sr1_critique_style *style,
                                             const sr1_problem *problem, char **out);

/* What a critic is asked, by the style (NULL: built-in): to analyse, to suggest
 * improvements without solving, and to judge in a line "Overall judgment: Correct" or
 * "... Incorrect". It shows the task of the problem between <problem> tags and the
 * sanitized answer (NULL: the problem's) between <answer> tags. hint NULL: none; else it
 * is given as known from outside, not to be mentioned. *out is NUL-terminated; caller
 * frees with sr1_free. SR1_E_INVALID: there is no answer. Since 0.1. */
SR1_API sr1_status sr1_critique_prompt(const sr1_critique_style *style,
                                       const sr1_problem *problem, const char *answer,
                                       size_t len, const char *hint, char **out);

/* Messages of the conversation that asks for a revision: user, assistant, user. */
#define SR1_REVISION_MESSAGES 3

/* Their contents: what a solver is asked (sr1_critique_solve_prompt), the sanitized
 * answer (NULL: the problem's), and the critique (sr1_critique_text) with the request to
 * finalise the answer in the same format. contents[SR1_REVISION_MESSAGES] are
 * NUL-terminated; caller frees each with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_critique_revision(const sr1_critique_style *style,
                                         const sr1_problem *problem, const char *answer,
                                         size_t len, const char *critique,
                                         size_t critique_len,
                                         char **contents);

/* ---- hints from execution ---- */

/* What a critic is told of an answer that was run: that it is correct, and to be brief;
 * the line at fault and the last line of the traceback; that it takes too long, or too
 * much memory; input, expected and actual output of the first case that fails (left out
 * unless below 1000 bytes together); and where every test fails, to begin anew. check has
 * ended, and ran answer against problem with all tests. *out is NUL-terminated; caller
 * frees with sr1_free. SR1_E_STATE: the check has not ended, or nothing is known from it.
 * Since 0.1. */
SR1_API sr1_status sr1_critique_hint(const sr1_problem *problem, const char *answer,
                                     size_t len, const sr1_check *check, char **out);

/* ---- writers ---- */

typedef struct sr1_writer sr1_writer;

/* A conversation that wants its next message. */
typedef struct sr1_conversation {
    size_t struct_size;          /* later versions append fields */
    const char *const *roles;    /* [n] "system", "user" or "assistant" */
    const char *const *contents; /* [n] */
    const size_t *sizes;         /* [n] bytes of contents */
    size_t n;
    const char *id; /* what is drawn depends on the writer's seed, this and sample; NULL:
                       on the contents in place of this */
    int32_t sample;
} sr1_conversation;

/* Collects what a writer wrote; only valid inside the call it was given to. */
typedef struct sr1_writer_sink sr1_writer_sink;

enum {
    SR1_WRITER_CONCURRENT = 1 /* write may run in several threads at a time */
};

/* A writer of the caller's. Functions may be called from any thread. */
typedef struct sr1_writer_ops {
    size_t struct_size; /* set by the caller; later versions append fields */
    const char *name;   /* copied */
    /* Write the next message of each of the n conversations into the sink. One that got
     * no text failed: nothing is known. A status other than SR1_OK fails the call;
     * explain it with sr1_set_error. */
    sr1_status (*write)(void *self, const sr1_conversation *const *conversations,
                        size_t n, sr1_writer_sink *sink);
    void (*destroy)(void *self); /* called once with self, may be NULL */
    int32_t flags;               /* SR1_WRITER_* together, or 0 */
} sr1_writer_ops;

/* Conversation i gets this text (copied; the last one given counts). Since 0.1. */
SR1_API sr1_status sr1_writer_sink_text(sr1_writer_sink *sink, size_t i, const char *text,
                                        size_t len);

/* Make a writer of the caller's callbacks. On success the writer owns self; on failure
 * the caller still does. Free with sr1_writer_free. Since 0.1. */
SR1_API sr1_status sr1_writer_new(sr1_writer **out, const sr1_writer_ops *ops,
                                  void *self);

/* Another reference; NULL gives NULL. Since 0.1. */
SR1_API sr1_writer *sr1_writer_retain(sr1_writer *writer);

/* Drop a reference. NULL is fine. Since 0.1. */
SR1_API void sr1_writer_free(sr1_writer *writer);

/* Borrowed until the writer is freed. Since 0.1. */
SR1_API const char *sr1_writer_name(const sr1_writer *writer);

/* The next messages of conversations[n] (elements lie conversations[0].struct_size
 * apart): texts[i] is NUL-terminated and lens[i] bytes long (lens may be NULL), or NULL
 * where the writer failed for it. Caller frees each with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_writer_write(sr1_writer *writer,
                                    const sr1_conversation *conversations, size_t n,
                                    char **texts, size_t *lens);

/* How a model writes. */
typedef struct sr1_writer_options {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t max_tokens; /* of one message; 0: 1024 */
    double temperature; /* 0: greedy */
    double top_p;       /* 0: 1 */
    int32_t top_k;      /* 0: all tokens */
    uint64_t seed;
} sr1_writer_options;

/* A local model as a writer, loaded from its folder: no training of a model loaded
 * elsewhere reaches it. config (may be NULL: defaults) says how it runs: device, dtype,
 * workers, threads, max_rows, enable_thinking, and tokenizer if folder is the
 * configuration's model_name_or_path. A conversation longer than the model reads gets an
 * empty text; its last message must be the user's. options NULL: defaults. Free with
 * sr1_writer_free. Since 0.1. */
SR1_API sr1_status sr1_writer_open_model(sr1_writer **out, const char *folder,
                                         const sr1_config *config,
                                         const sr1_writer_options *options);

/* The same of a model behind a server that speaks OpenAI's API, by the configuration's
 * keys openai_*, vllm_server_* and enable_thinking. A conversation whose request failed,
 * retries included, gets no text. As sr1_openai_open. Since 0.1. */
SR1_API sr1_status sr1_writer_open_remote(sr1_writer **out, const sr1_config *config,
                                          const sr1_writer_options *options);

/* The writer that revises answers in the environment critique, as the configuration names
 * it (proxy_model, proxy_url, proxy_max_tokens): greedy. Since 0.1. */
SR1_API sr1_status sr1_writer_open_proxy(sr1_writer **out, const sr1_config *config);

/* ---- the environment ---- */

/* Open the environment "critique": the action is a critique, a whole message of the
 * protocol "ctrl"; the answer is the revision of the problem's solution by it, and ends
 * the trajectory. The question's id names the problem. Rows wait for their revision while
 * others go on; all that wait are one batch of the reviser. It goes in whole, or not at
 * all (SR1_ENV_WHOLE). A critique that the reviser failed for is SR1_SEARCH_ERROR
 * (sr1_env_sink_status). problems, reviser and style (NULL: built-in) are retained.
 * options NULL: protocol "ctrl". Free with sr1_env_free. Since 0.1. */
SR1_API sr1_status sr1_critique_env_open(sr1_env **out, sr1_problems *problems,
                                         sr1_writer *reviser, sr1_critique_style *style,
                                         const sr1_env_options *options);

/* ---- trees of revisions ---- */

typedef struct sr1_forest sr1_forest;

/* Kinds of nodes. */
enum {
    SR1_NODE_ROOT = 0,    /* a problem */
    SR1_NODE_ANSWER = 1,  /* a first answer to it */
    SR1_NODE_REVISION = 2 /* of its parent's answer, by a critique of that */
};

/* What grows where. Handles are retained. */
typedef struct sr1_forest_options {
    size_t struct_size;     /* set by the caller; later versions append fields */
    sr1_problems *problems; /* a tree each */
    int64_t max_problems;   /* the first so many; 0: all */
    sr1_writer *solver;     /* writes first answers; NULL: they are the problems' own */
    sr1_writer *critic;     /* NULL: nothing is revised */
    sr1_writer *reviser;
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
                         (sr1_critique_hint; without a checker, what its verdict says) */
    sr1_critique_style *style; /* NULL: built-in prompts */
    /* What answers depend on beside the problems, in any words: the names of the models,
     * how they sample. A digest of it, of its problem and of the tests is kept with each
     * node. NULL: it is not, nor looked at. Copied. */
    const char *made_by;
} sr1_forest_options;

/* A tree of one node for each problem, and what the file at path has. A file whose nodes
 * do not fit the problems, or whose name does not end in .jsonl, is SR1_E_PARSE or
 * SR1_E_INVALID; one with a node of another made_by, or of a problem that has changed, is
 * SR1_E_STATE. Free with sr1_forest_free. Since 0.1. */
SR1_API sr1_status sr1_forest_open(sr1_forest **out, const sr1_forest_options *options);

/* NULL is fine. Since 0.1. */
SR1_API void sr1_forest_free(sr1_forest *forest);

/* Let it grow, layer by layer, until each node of layer i has widths[i + 1] children:
 * widths[0] is 1, the problems; widths[1] first answers, those behind it revisions. "1 5
 * 1 1" is five answers each and two revisions of each. Children that are there count, so
 * a call that was stopped is continued by the same call. *missing (may be NULL): nodes
 * that could not be made, because a writer or the sandbox failed; the next call tries
 * again. Since 0.1. */
SR1_API sr1_status sr1_forest_expand(sr1_forest *forest, const int32_t *widths, size_t n,
                                     int64_t *missing);

/* One node. Pointers are borrowed until the forest is freed. */
typedef struct sr1_forest_node {
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
} sr1_forest_node;

SR1_API size_t sr1_forest_count(const sr1_forest *forest); /* Since 0.1. */

/* Node index, in the order they were made. SR1_E_INVALID: there is none. Since 0.1. */
SR1_API sr1_status sr1_forest_node_get(const sr1_forest *forest, size_t index,
                                       sr1_forest_node *out);

/* What a number of revisions did. Means over problems of the means over their nodes;
 * rates in [0, 1]. */
typedef struct sr1_forest_scores {
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
} sr1_forest_scores;

/* SR1_E_NOT_FOUND: no node has that many revisions. Since 0.1. */
SR1_API sr1_status sr1_forest_scores_get(const sr1_forest *forest, int32_t revisions,
                                         sr1_forest_scores *out);

/* 1 - C(n - c, k) / C(n, k): the chance that one of k answers, drawn from n of which c
 * pass, passes (Chen et al. 2021, the unbiased estimate of pass@k). SR1_E_INVALID unless
 * 0 <= c
 * <= n and 1 <= k <= n. Since 0.1. */
SR1_API sr1_status sr1_pass_at_k(int64_t n, int64_t c, int64_t k, double *out);

/* Its mean over problems, of their nodes with so many revisions. SR1_E_INVALID: a problem
 * has fewer than k. Since 0.1. */
SR1_API sr1_status sr1_forest_pass_at_k(const sr1_forest *forest, int32_t revisions,
                                        int64_t k, double *out);

/* ---- demonstrations ---- */

/* Which critiques of a forest become demonstrations. Zeros are the published choice. */
typedef struct sr1_critique_demo_options {
    size_t struct_size;      /* set by the caller; later versions append fields */
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

/* What became of the critiques of first answers, each counted once. */
typedef struct sr1_critique_demo_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t critiques;
    int64_t written;
    int64_t mentioning; /* left out: it speaks of the hint */
    int64_t too_long;   /* its prompt */
    int64_t unwanted;   /* by the options */
    int64_t surplus;    /* of their judgement, by balance */
} sr1_critique_demo_report;

/* Write the critiques of first answers as demonstrations for stage sft, a file of JSON
 * lines that is replaced when all went well: {"messages": [user: the critique prompt
 * without a hint, assistant: the critique], "task_id", "success", "judgement"}; success:
 * the revision passes. Critiques with "he hint" in them are left out. options and report
 * may be NULL. SR1_E_NOT_FOUND: none is left. Since 0.1. */
SR1_API sr1_status sr1_forest_write_demos(const sr1_forest *forest, const char *path,
                                          const sr1_critique_demo_options *options,
                                          sr1_critique_demo_report *report);

/* Write the rows of these files, from which the forest's problems were loaded, to one of
 * JSON lines that train_file and code_problems take: each row with its problem's first
 * answer as "solution", the critique prompt of that as "critique_prompt" (key
 * question_field), and its "id". Problems without an answer are left out. *written may be
 * NULL. Since 0.1. */
SR1_API sr1_status sr1_forest_write_rows(const sr1_forest *forest,
                                         const char *const *problem_paths, size_t n_paths,
                                         const char *path, int64_t *written);

#ifdef __cplusplus
}
#endif
#endif
