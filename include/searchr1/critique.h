/* searchr1/critique.h - learning to criticise answers (CTRL, Xie et al. 2025, arXiv
 * 2502.03492): a policy reads a problem and an answer and writes a critique; a writer that
 * stands still, the reviser, rewrites the answer by it; what is worth something is that
 * the revision passes the problem's tests.
 *
 * Here: the prompts, writers (models that answer conversations), the environment in which
 * a critique is answered by its revision, hints from execution, trees of revisions and
 * what they show, and demonstrations of critiques.
 *
 * Text:      UTF-8; other bytes become U+FFFD where text is copied.
 * Ownership: free a writer with sr1_writer_free, a forest with sr1_forest_free.
 * Errors:    outputs are untouched on failure; a failing callback becomes an error that
 *            names the writer.
 * Threads:   prompts: any. A writer: write, retain, free from any number of threads; calls
 *            into one are made one after another unless it says SR1_WRITER_CONCURRENT. A
 *            forest: one thread at a time. */
#ifndef SEARCHR1_CRITIQUE_H
#define SEARCHR1_CRITIQUE_H

#include <searchr1/base.h>
#include <searchr1/code.h>
#include <searchr1/env.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- prompts ---- */

/* An answer as prompts show it: the program in it (sr1_code_extract) in a block of its own
 * marked as Python; without a fence the text as it is, stripped. *out is NUL-terminated;
 * caller frees with sr1_free. As sr1_code_extract. Since 0.1. */
SR1_API sr1_status sr1_critique_sanitize(const char *answer, size_t len, char **out);

/* What a critic is asked: to analyse, to suggest improvements without solving, and to judge
 * in a line "Overall judgment: Correct" or "... Incorrect". It shows the task of the
 * problem between <problem> tags and the sanitized answer (NULL: the problem's) between
 * <answer> tags. hint NULL: none; else it is given as known from outside, not to be
 * mentioned. *out is NUL-terminated; caller frees with sr1_free. SR1_E_INVALID: there is no
 * answer. Since 0.1. */
SR1_API sr1_status sr1_critique_prompt(const sr1_problem *problem, const char *answer,
                                       size_t len, const char *hint, char **out);

/* Messages of the conversation that asks for a revision: user, assistant, user. */
#define SR1_REVISION_MESSAGES 3

/* Their contents: what a solver is asked (sr1_problem_prompt), the sanitized answer (NULL:
 * the problem's), and the critique (sr1_critique_text) with the request to finalise the
 * answer in the same format. contents[i] are NUL-terminated; caller frees each with
 * sr1_free. Since 0.1. */
SR1_API sr1_status sr1_critique_revision(const sr1_problem *problem, const char *answer,
                                         size_t len, const char *critique,
                                         size_t critique_len,
                                         char *contents[SR1_REVISION_MESSAGES]);

/* ---- hints from execution ---- */

/* What a critic is told of an answer that was run: that it is correct, and to be brief; the
 * line at fault and the last line of the traceback; that it takes too long, or too much
 * memory; input, expected and actual output of the first case that fails (each below 1000
 * bytes, else left out); and where every test fails, to begin anew. check has ended, and ran
 * answer against problem with all tests. *out is NUL-terminated; caller frees with sr1_free.
 * SR1_E_STATE: the check has not ended, or nothing is known from it. Since 0.1. */
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
    /* Write the next message of each of the n conversations into the sink. One that got no
     * text failed: nothing is known. A status other than SR1_OK fails the call; explain it
     * with sr1_set_error. */
    sr1_status (*write)(void *self, const sr1_conversation *const *conversations, size_t n,
                        sr1_writer_sink *sink);
    void (*destroy)(void *self); /* called once with self, may be NULL */
    int32_t flags;               /* SR1_WRITER_* together, or 0 */
} sr1_writer_ops;

/* Conversation i gets this text (copied; the last one given counts). Since 0.1. */
SR1_API sr1_status sr1_writer_sink_text(sr1_writer_sink *sink, size_t i, const char *text,
                                        size_t len);

/* Make a writer of the caller's callbacks. On success the writer owns self; on failure the
 * caller still does. Free with sr1_writer_free. Since 0.1. */
SR1_API sr1_status sr1_writer_new(sr1_writer **out, const sr1_writer_ops *ops, void *self);

/* Another reference; NULL gives NULL. Since 0.1. */
SR1_API sr1_writer *sr1_writer_retain(sr1_writer *writer);

/* Drop a reference. NULL is fine. Since 0.1. */
SR1_API void sr1_writer_free(sr1_writer *writer);

/* Borrowed until the writer is freed. Since 0.1. */
SR1_API const char *sr1_writer_name(const sr1_writer *writer);

/* The next messages of conversations[n] (elements lie conversations[0].struct_size apart):
 * texts[i] is NUL-terminated and lens[i] bytes long (lens may be NULL), or NULL where the
 * writer failed for it. Caller frees each with sr1_free. Since 0.1. */
SR1_API sr1_status sr1_writer_write(sr1_writer *writer,
                                    const sr1_conversation *conversations, size_t n,
                                    char **texts, size_t *lens);

/* ---- the environment ---- */

/* Open the environment "critique": the action is a critique, a whole message of the
 * protocol "ctrl"; the answer is the revision of the problem's solution by it, and ends the
 * trajectory. The question's id names the problem. Rows wait for their revision while others
 * go on; all that wait are one batch of the reviser. A critique that the reviser failed for
 * is SR1_SEARCH_ERROR (sr1_env_sink_status). problems and reviser are retained. options
 * NULL: protocol "ctrl". Free with sr1_env_free. Since 0.1. */
SR1_API sr1_status sr1_critique_env_open(sr1_env **out, sr1_problems *problems,
                                         sr1_writer *reviser,
                                         const sr1_env_options *options);

#ifdef __cplusplus
}
#endif
#endif
