/* environment/code/judgement.c - parse the verdict of a critique, and score verdicts
 * against the tests. */
#include "environment/code/answer_text.h"

#include "base/struct.h"
#include "base/text.h"

#include <searchr1/ext/code.h>

#include <string.h>
#include <strings.h>

static const char *find_format_tag(const char *s, size_t n, const char *word)
{
    return n > 0 ? memmem(s, n, word, strlen(word)) : NULL;
}

void sr1_critique_text(const char *text, size_t len, size_t *begin, size_t *n)
{
    size_t at = text != NULL ? sr1__after_thinking(text, len) : 0;
    size_t end = text != NULL ? len : 0;
    const char *open =
        text != NULL ? find_format_tag(text + at, end - at, "<format>") : NULL;
    const char *close;

    if (begin == NULL || n == NULL)
        return;
    if (open != NULL) {
        at = (size_t)(open - text) + strlen("<format>");
        close = find_format_tag(text + at, end - at, "</format>");
        end = close != NULL ? (size_t)(close - text) : end;
    }
    *begin = at;
    *n = end - at;
    if (*n > 0)
        sr1__strip(text, begin, n);
}

/* ---- the line ---- */

/* White space, emphasis, headings, lists, quotes. */
static int is_mark(char c)
{
    return c != '\0' && strchr(" \t\r*_#>-`", c) != NULL;
}

static void skip_markup(const char **s, size_t *n)
{
    while (*n > 0 && is_mark(**s)) {
        ++*s;
        --*n;
    }
}

static int take_word(const char **s, size_t *n, const char *word)
{
    size_t m = strlen(word);

    if (*n < m || strncasecmp(*s, word, m) != 0)
        return 0;
    *s += m;
    *n -= m;
    return 1;
}

static int take_heading(const char **s, size_t *n)
{
    skip_markup(s, n);
    if (!take_word(s, n, "overall judgment") && !take_word(s, n, "overall judgement"))
        return 0;
    skip_markup(s, n);
    if (!take_word(s, n, ":"))
        return 0;
    skip_markup(s, n);
    return 1;
}

/* -1: not a judgement line; NONE: a judgement line without a judgement. */
static int32_t read_line(const char *s, size_t n)
{
    int32_t judgement;

    if (!take_heading(&s, &n))
        return -1;
    judgement = take_word(&s, &n, "correct")     ? SR1_JUDGEMENT_CORRECT
                : take_word(&s, &n, "incorrect") ? SR1_JUDGEMENT_INCORRECT
                                                 : SR1_JUDGEMENT_NONE;
    skip_markup(&s, &n);
    take_word(&s, &n, ".");
    skip_markup(&s, &n);
    return n == 0 ? judgement : SR1_JUDGEMENT_NONE;
}

int32_t sr1_critique_judgement(const char *text, size_t len)
{
    int32_t judgement = -1;
    size_t at, n, end;

    sr1_critique_text(text, len, &at, &n);
    end = at + n;
    while (at < end) {
        const char *stop = memchr(text + at, '\n', end - at);
        size_t line = stop != NULL ? (size_t)(stop - text) - at : end - at;
        int32_t said = read_line(text + at, line);

        if (said >= 0 && judgement >= 0 && said != judgement)
            return SR1_JUDGEMENT_NONE;
        judgement = said >= 0 ? said : judgement;
        at += line + 1;
    }
    return judgement > 0 ? judgement : SR1_JUDGEMENT_NONE;
}

/* ---- over many ---- */

/* 2 hits / (2 hits + misses + false alarms). */
static double compute_f1(int64_t hits, int64_t missed, int64_t false_alarms)
{
    int64_t below = 2 * hits + missed + false_alarms;

    return below > 0 ? 2.0 * (double)hits / (double)below : 0.0;
}

sr1_status sr1_judgement_score(const int32_t *judgements, const int32_t *correct,
                               size_t n, sr1_judgement_scores *out)
{
    sr1_judgement_scores s = {.struct_size = sizeof(s)};
    int64_t true_correct = 0, true_incorrect = 0; /* said so, and it is */
    int64_t said_correct = 0, said_incorrect = 0, are_correct = 0;

    if (n > 0 && (judgements == NULL || correct == NULL))
        return sr1__fail(SR1_E_INVALID, "judgement score: judgements or correct is NULL");
    for (size_t i = 0; i < n; i++) {
        if (correct[i] < 0)
            continue;
        s.n++;
        are_correct += correct[i] != 0;
        s.none += judgements[i] == SR1_JUDGEMENT_NONE;
        said_correct += judgements[i] == SR1_JUDGEMENT_CORRECT;
        said_incorrect += judgements[i] == SR1_JUDGEMENT_INCORRECT;
        true_correct += judgements[i] == SR1_JUDGEMENT_CORRECT && correct[i] != 0;
        true_incorrect += judgements[i] == SR1_JUDGEMENT_INCORRECT && correct[i] == 0;
    }
    if (s.n > 0)
        s.accuracy = (double)(true_correct + true_incorrect) / (double)s.n;
    s.f1 =
        compute_f1(true_correct, are_correct - true_correct, said_correct - true_correct);
    s.f1_incorrect = compute_f1(true_incorrect, s.n - are_correct - true_incorrect,
                                said_incorrect - true_incorrect);
    return sr1__struct_give(out, &s, sizeof(s), "judgement scores");
}
