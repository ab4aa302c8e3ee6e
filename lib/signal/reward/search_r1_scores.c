/* signal/reward/search_r1_scores.c - the scorers of Search-R1's published code (Jin et
 * al. 2025, arXiv 2503.09516): exact match, sub-string match and structured format. They
 * read the whole sequence, prompt included, so the prompt's own example answer is what a
 * rollout without an answer is scored by. */
#include "signal/reward/search_r1_scores.h"

#include <searchr1/ext/trajectory_details.h>

#include "base/text.h"
#include "text/data/question.h"
#include "signal/reward/match.h"

#include <string.h>

/* ---- the sequence ---- */

/* The published prompt with the question, then what was generated and inserted. */
static sr1_status append_prompt_and_text(const struct sr1__prompt_template *prompt,
                                         const sr1_trajectory *t, struct sr1__buf *out)
{
    size_t n, len;
    const char *question = sr1_trajectory_query(t, &n);
    const char *text = sr1_trajectory_generated_text(t, &len);

    sr1__buf_clear(out);
    SR1__TRY(sr1__question_render(prompt, question, n, out, NULL));
    sr1__buf_add(out, text, len);
    return sr1__buf_status(out, "text of a trajectory");
}

/* The next pair opening...closing at or behind *at; 0 without one, else *at is behind it.
 */
static int find_next_pair(const char *text, size_t len, const char *opening,
                          const char *closing, size_t *at, struct sr1__str *inside)
{
    const char *open = memmem(text + *at, len - *at, opening, strlen(opening)), *close;

    if (open == NULL)
        return 0;
    inside->s = open + strlen(opening);
    close = memmem(inside->s, (size_t)(text + len - inside->s), closing, strlen(closing));
    if (close == NULL)
        return 0;
    inside->n = (size_t)(close - inside->s);
    *at = (size_t)(close - text) + strlen(closing);
    return 1;
}

/* The last answer of two or more, stripped; s NULL without. */
static struct sr1__str find_final_answer(const struct sr1__protocol *p,
                                         const struct sr1__buf *all)
{
    const char *opening = p->tags[SR1__TAG_OPEN(SR1__ROLE_ANSWER)];
    const char *closing = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)];
    struct sr1__str inside, found = {NULL, 0};
    const char *text = sr1__buf_cstr(all);
    size_t at = 0, pairs = 0, begin = 0;

    while (find_next_pair(text, all->len, opening, closing, &at, &inside)) {
        found = inside;
        pairs++;
    }
    if (pairs < 2)
        return (struct sr1__str){NULL, 0};
    sr1__strip(found.s, &begin, &found.n);
    found.s += begin;
    return found;
}

/* ---- the structure ---- */

enum structure_mode {
    BAD, /* first: what the table below does not name leads here */
    START,
    IN_THINK,
    THOUGHT,
    IN_SEARCH,
    SEARCHED,
    IN_RESULT,
    INFORMED,
    IN_ANSWER,
    END,
    MODE_COUNT
};

static const unsigned char next_mode[MODE_COUNT][SR1__TAG_COUNT] = {
    [START] = {[SR1__TAG_OPEN(SR1__ROLE_THINK)] = IN_THINK},
    [IN_THINK] = {[SR1__TAG_CLOSE(SR1__ROLE_THINK)] = THOUGHT},
    [THOUGHT] = {[SR1__TAG_OPEN(SR1__ROLE_ACTION)] = IN_SEARCH,
                 [SR1__TAG_OPEN(SR1__ROLE_ANSWER)] = IN_ANSWER},
    [IN_SEARCH] = {[SR1__TAG_CLOSE(SR1__ROLE_ACTION)] = SEARCHED},
    [SEARCHED] = {[SR1__TAG_OPEN(SR1__ROLE_RESULT)] = IN_RESULT},
    [IN_RESULT] = {[SR1__TAG_CLOSE(SR1__ROLE_RESULT)] = INFORMED},
    [INFORMED] = {[SR1__TAG_OPEN(SR1__ROLE_THINK)] = IN_THINK},
    [IN_ANSWER] = {[SR1__TAG_CLOSE(SR1__ROLE_ANSWER)] = END},
};

static int is_inside(int mode)
{
    return mode == IN_THINK || mode == IN_SEARCH || mode == IN_RESULT ||
           mode == IN_ANSWER;
}

static int is_text_blank(const char *s, size_t n)
{
    size_t begin = 0;

    sr1__strip(s, &begin, &n);
    return n == 0;
}

/* think (search information think)* answer, and nothing but white space between; equal
 * counts of opening and closing tags follow from it. in_thought: the prompt opened the
 * first. */
static int is_valid(const struct sr1__protocol *p, const char *text, size_t len,
                    int in_thought)
{
    unsigned char mode = in_thought ? IN_THINK : START;
    struct sr1__tag t;
    size_t at;

    for (at = 0; sr1__protocol_next_tag(p, text, len, at, &t); at = t.end) {
        if (!is_inside(mode) && !is_text_blank(text + at, t.begin - at))
            return 0;
        mode = next_mode[mode][t.tag];
    }
    return mode == END && is_text_blank(text + at, len - at);
}

/* Does a block of results hold a gold answer, both normalised? */
static sr1_status results_hold_ground_truth(const struct sr1__protocol *p,
                                            const struct sr1__buf *all,
                                            const struct sr1__ground_truths *truths,
                                            double *out)
{
    const char *opening = p->tags[SR1__TAG_OPEN(SR1__ROLE_RESULT)];
    const char *closing = p->tags[SR1__TAG_CLOSE(SR1__ROLE_RESULT)];
    const char *text = sr1__buf_cstr(all);
    struct sr1__str inside;
    size_t at = 0;

    *out = 0;
    while (*out == 0 && find_next_pair(text, all->len, opening, closing, &at, &inside))
        SR1__TRY(sr1__best_score(sr1__score_sub, inside, truths, NULL, out));
    return SR1_OK;
}

/* ---- scores ---- */

struct score_job {
    const struct sr1__reward_context *c;
    const sr1_trajectory *t;
    const struct sr1__buf *all;
    struct sr1__ground_truths truths;
};

typedef sr1_status (*job_fn)(const struct score_job *j, double *out);

static sr1_status match_final_answer(const struct score_job *j, sr1__score_fn how,
                                     double *out)
{
    struct sr1__str answer = find_final_answer(j->c->protocol, j->all);

    *out = 0;
    return answer.s != NULL ? sr1__best_score(how, answer, &j->truths, NULL, out)
                            : SR1_OK;
}

static sr1_status score_job_em(const struct score_job *j, double *out)
{
    return match_final_answer(j, sr1__score_exact, out);
}

static sr1_status score_job_sub(const struct score_job *j, double *out)
{
    return match_final_answer(j, sr1__score_sub, out);
}

static sr1_status score_job_format(const struct score_job *j, double *out)
{
    const sr1_reward_scales *s = &j->c->scales;
    size_t len;
    const char *text = sr1_trajectory_generated_text(j->t, &len);
    int valid =
        is_valid(j->c->protocol, text, len, sr1_trajectory_begins_in_thought(j->t));
    int answered = find_final_answer(j->c->protocol, j->all).s != NULL;
    double right, found = 0;

    SR1__TRY(match_final_answer(j, sr1__score_exact, &right));
    if (right > 0) {
        *out = valid ? 1 : 1 - s->structure_format_score;
        return SR1_OK;
    }
    if (!valid) {
        *out = answered ? s->final_format_score : 0;
        return SR1_OK;
    }
    SR1__TRY(results_hold_ground_truth(j->c->protocol, j->all, &j->truths, &found));
    *out = s->structure_format_score + (found > 0 ? s->retrieval_score : 0);
    return SR1_OK;
}

static sr1_status score_one_trajectory(struct score_job *j,
                                       const struct sr1__prompt_template *prompt,
                                       struct sr1__buf *all, size_t i, job_fn fn,
                                       double *out)
{
    SR1__TRY(sr1__ground_truths_of(j->t, i, &j->truths));
    SR1__TRY(append_prompt_and_text(prompt, j->t, all));
    return fn(j, out);
}

static sr1_status score_trajectories_by(void *self, const sr1_trajectory *const *t,
                                        size_t n, job_fn fn, double *out)
{
    struct sr1__prompt_template *prompt = NULL;
    struct sr1__buf all;
    struct score_job j = {.c = self, .all = &all};
    sr1_status status = sr1__question_template(&prompt, SR1__QUESTION_SEARCH_R1);
    size_t i;

    sr1__buf_init(&all, 0);
    for (i = 0; status == SR1_OK && i < n; i++) {
        j.t = t[i];
        status = score_one_trajectory(&j, prompt, &all, i, fn, &out[i]);
    }
    sr1__buf_free(&all);
    sr1__prompt_template_free(prompt);
    return status;
}

sr1_status sr1__score_search_r1_em(void *self, const sr1_trajectory *const *t, size_t n,
                                   double *out)
{
    return score_trajectories_by(self, t, n, score_job_em, out);
}

sr1_status sr1__score_search_r1_sub_em(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out)
{
    return score_trajectories_by(self, t, n, score_job_sub, out);
}

sr1_status sr1__score_search_r1_format(void *self, const sr1_trajectory *const *t,
                                       size_t n, double *out)
{
    return score_trajectories_by(self, t, n, score_job_format, out);
}
