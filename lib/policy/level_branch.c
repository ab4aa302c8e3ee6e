/* policy/level_branch.c - a message at a given level: its tag is set, its thoughts are
 * drawn until an action begins, and the action is that of the step, in the ids that were
 * sampled:
 *
 *     <level>l</level> thoughts <action> the step's action
 *
 * White space before the level and before the action is as in the step's own message. */
#include "policy/level_branch.h"

#include "base/mem.h"
#include "base/text.h"
#include "text/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <string.h>

void sr1__level_branch_free(struct sr1__level_branch *row)
{
    sr1__ids_free(&row->ids);
    sr1__ids_free(&row->ends);
    sr1__buf_free(&row->text);
    sr1_token_stream_free(row->stream);
    *row = (struct sr1__level_branch){0};
}

/* Each step and level draws from a stream of its own. */
static void seed_branch(struct sr1__level_branch *row,
                        const struct sr1__level_branch_call *c,
                        const struct sr1__level_branch_task *task)
{
    const char *id = sr1_trajectory_query_id(task->t);
    const int32_t place[] = {sr1_trajectory_sample(task->t), task->turn.turn, row->level};

    sr1__rng_seed(&row->rng, sr1__hash64(id, strlen(id), c->o->seed),
                  sr1__hash64(place, sizeof place, 0));
}

static int fits_context(const struct sr1__level_branch *row,
                        const struct sr1__level_branch_call *c)
{
    return (int64_t)row->ids.n <= c->rollout->limits.max_context;
}

static sr1_status append_ids(struct sr1__ids *to, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__ids_add(to, ids[i]));
    return SR1_OK;
}

/* ---- texts ---- */

/* The length of the white space at the end of s[0..n). */
static size_t trailing_space_length(const char *s, size_t n)
{
    size_t begin = 0, len = n;

    sr1__strip(s, &begin, &len);
    return len > 0 ? n - begin - len : n;
}

/* The step's own text from where the action's tag begins to its tokens. */
static const char *tail_text(const struct sr1__level_branch_call *c,
                             const struct sr1__level_branch_task *task, size_t *n)
{
    size_t begin = task->turn.step.prefix_len - strlen(c->action_tag);

    *n = task->turn.behind_at - begin;
    return task->turn.said + begin;
}

/* White space that the step has before its action. */
static const char *gap_text(const struct sr1__level_branch_call *c,
                            const struct sr1__level_branch_task *task, size_t *n)
{
    size_t end = task->turn.step.prefix_len - strlen(c->action_tag);

    *n = trailing_space_length(task->turn.said, end);
    return task->turn.said + end - *n;
}

/* Encode text from `from` on; its tokens end where it does. */
static sr1_status encode_from(struct sr1__level_branch *row,
                              const struct sr1__level_branch_call *c, size_t from)
{
    size_t before = row->ids.n;

    SR1__TRY(sr1__buf_status(&row->text, "message"));
    SR1__TRY(sr1__tokenizer_encode(c->rollout->tokenizer, row->text.data + from,
                                   row->text.len - from, SR1_ENCODE_ALL_ADDED,
                                   &row->ids));
    for (size_t i = before; i < row->ids.n; i++)
        SR1__TRY(sr1__ids_add(&row->ends, (int32_t)row->text.len));
    return SR1_OK;
}

static void append_level_tag(struct sr1__level_branch *row,
                             const struct sr1__level_branch_task *task)
{
    const struct sr1__thinking_turn *turn = &task->turn;
    size_t lead = turn->step.level_len ? turn->step.level_begin : 0;

    if (trailing_space_length(turn->said, lead) == lead)
        sr1__buf_add(&row->text, turn->said, lead);
    sr1__buf_fmt(&row->text, "<level>%d</level>", (int)row->level + 1);
}

/* Level 1 is not sampled: the configured thought, or none. */
static sr1_status append_fixed_thought(struct sr1__level_branch *row,
                                       const struct sr1__level_branch_call *c,
                                       const struct sr1__level_branch_task *task)
{
    struct sr1__ids thought = {0};
    size_t n;
    const char *gap = gap_text(c, task, &n);
    sr1_status st;

    sr1__buf_add(&row->text, gap, n);
    if (*c->o->thought == '\0')
        return SR1_OK;
    sr1__buf_fmt(&row->text, "<think>%s</think>", c->o->thought);
    sr1__buf_add(&row->text, gap, n);
    st = sr1__tokenizer_encode(c->rollout->tokenizer, c->o->thought,
                               strlen(c->o->thought), SR1_ENCODE_ADDED_AS_TEXT, &thought);
    row->cost = (int64_t)thought.n;
    sr1__ids_free(&thought);
    return st;
}

/* The action's tag behind what stands before it, then the action as it was sampled. */
static sr1_status append_action_tail(struct sr1__level_branch *row,
                                     const struct sr1__level_branch_call *c,
                                     const struct sr1__level_branch_task *task,
                                     size_t from)
{
    size_t n;
    const char *tail = tail_text(c, task, &n);

    sr1__buf_add(&row->text, tail, n);
    SR1__TRY(encode_from(row, c, from));
    return append_ids(&row->ids, sr1_trajectory_ids(task->t) + task->turn.behind,
                      task->turn.action.end - task->turn.behind);
}

/* ---- beginning ---- */

/* Thoughts are asked for in words: the level's sentence goes to the end of what the
 * environment said last, before the opening of the message. */
static sr1_status append_level_prompt(struct sr1__level_branch *row,
                                      const struct sr1__level_branch_call *c,
                                      const int32_t *history, size_t n)
{
    const struct sr1__ids *open = &c->rollout->border.open_ids;
    const sr1_tokenizer *tok = c->rollout->tokenizer;
    const char *text;

    if (n < open->n ||
        memcmp(history + n - open->n, open->v, open->n * sizeof *open->v) != 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "level_prompts: the prompt does not end with "
                                            "the opening of a message");
    row->asked_in_words = 1;
    row->n_held = n - open->n;
    SR1__TRY(sr1_thinking_level(row->level + 1, NULL, &text));
    SR1__TRY(append_ids(&row->ids, history, row->n_held));
    SR1__TRY(sr1__tokenizer_encode(tok, "\n", 1, SR1_ENCODE_ADDED_AS_TEXT, &row->ids));
    SR1__TRY(sr1__tokenizer_encode(tok, text, strlen(text), SR1_ENCODE_ADDED_AS_TEXT,
                                   &row->ids));
    return append_ids(&row->ids, open->v, open->n);
}

/* The level that was sampled: of its message all but the action was read, and the last
 * token of that predicts the action's first. */
static sr1_status copy_sampled_message(struct sr1__level_branch *row,
                                       const struct sr1__level_branch_task *task)
{
    const struct sr1__thinking_turn *turn = &task->turn;

    row->base = turn->message.begin;
    row->n_held = turn->behind - 1;
    row->cost = (int64_t)(turn->thoughts.end - turn->thoughts.begin);
    return append_ids(&row->ids, sr1_trajectory_ids(task->t), turn->action.end);
}

static sr1_status begin_message(struct sr1__level_branch *row,
                                const struct sr1__level_branch_call *c,
                                const struct sr1__level_branch_task *task)
{
    sr1__buf_init(&row->text, 0);
    append_level_tag(row, task);
    if (row->level == 0) {
        SR1__TRY(append_fixed_thought(row, c, task));
        return append_action_tail(row, c, task, 0);
    }
    SR1__TRY(encode_from(row, c, 0));
    SR1__TRY(sr1_token_stream_new(&row->stream, c->rollout->tokenizer, 1));
    seed_branch(row, c, task);
    row->drawing = 1;
    return SR1_OK;
}

sr1_status sr1__level_branch_begin(struct sr1__level_branch *row,
                                   const struct sr1__level_branch_call *c,
                                   const struct sr1__level_branch_task *task,
                                   int32_t *outcome)
{
    const int32_t *ids = sr1_trajectory_ids(task->t);

    if (row->level == task->out->level)
        return copy_sampled_message(row, task);
    row->n_held = task->turn.message.begin;
    SR1__TRY(row->level > 0 && c->o->prompts
                 ? append_level_prompt(row, c, ids, row->n_held)
                 : append_ids(&row->ids, ids, row->n_held));
    row->base = row->ids.n;
    SR1__TRY(begin_message(row, c, task));
    if (!fits_context(row, c))
        *outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}

/* ---- drawing ---- */

/* Where the action's tag begins in text[from..), or its length. */
static size_t find_action(const struct sr1__level_branch *row,
                          const struct sr1__level_branch_call *c, size_t from)
{
    const char *text = sr1__buf_cstr(&row->text);
    const char *at =
        memmem(text + from, row->text.len - from, c->action_tag, strlen(c->action_tag));

    return at ? (size_t)(at - text) : row->text.len;
}

static size_t tail_room_needed(const struct sr1__level_branch_call *c,
                               const struct sr1__level_branch_task *task)
{
    size_t n;

    (void)tail_text(c, task, &n);
    return n + task->turn.action.end - task->turn.behind;
}

sr1_status sr1__level_branch_append(struct sr1__level_branch *row,
                                    const struct sr1__level_branch_call *c,
                                    const struct sr1__level_branch_task *task, int32_t id,
                                    int32_t *outcome)
{
    size_t before = row->text.len, tag = strlen(c->action_tag);
    const char *text;
    size_t n;

    SR1__TRY(sr1_token_stream_push(row->stream, id, &text, &n));
    sr1__buf_add(&row->text, text, n);
    SR1__TRY(sr1__buf_status(&row->text, "thoughts"));
    SR1__TRY(sr1__ids_add(&row->ids, id));
    SR1__TRY(sr1__ids_add(&row->ends, (int32_t)row->text.len));
    row->made++;
    if (find_action(row, c, before > tag ? before - tag : 0) < row->text.len)
        row->drawing = 0;
    else if (sr1__tokenizer_stops(c->rollout->tokenizer, id))
        *outcome = SR1__BRANCH_NO_ACTION;
    else if (row->made >= c->o->max_tokens[row->level])
        *outcome = SR1__BRANCH_TRUNCATED;
    else if ((int64_t)(row->ids.n + tail_room_needed(c, task)) >=
             c->rollout->limits.max_context)
        *outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}

/* ---- finishing ---- */

/* Tokens whose text is of the thoughts. */
static int64_t count_thoughts(const struct sr1__level_branch *row,
                              const sr1_thinking_step *step)
{
    size_t end = step->think_begin + step->think_len;
    int64_t n = 0;

    for (size_t i = 1; i < row->ends.n && step->think_len > 0; i++) {
        size_t from = (size_t)row->ends.v[i - 1], to = (size_t)row->ends.v[i];

        n += from < end && (to > step->think_begin || from >= step->think_begin);
    }
    return n;
}

/* The message without its last tokens, behind the history itself where it was asked for
 * in words. */
static void truncate_message(struct sr1__level_branch *row,
                             const struct sr1__level_branch_task *task, size_t keep)
{
    size_t history = task->turn.message.begin;

    if (row->asked_in_words) {
        memmove(row->ids.v + history, row->ids.v + row->base, keep * sizeof *row->ids.v);
        memcpy(row->ids.v, sr1_trajectory_ids(task->t), history * sizeof *row->ids.v);
        row->base = row->n_held = history;
    }
    row->ids.n = row->base + keep;
    row->ends.n = keep;
    if (row->n_held > row->ids.n)
        row->n_held = row->ids.n;
}

static sr1_status finish_thoughts(struct sr1__level_branch *row,
                                  const struct sr1__level_branch_call *c,
                                  const struct sr1__level_branch_task *task,
                                  int32_t *outcome)
{
    sr1_thinking_step step = {.struct_size = sizeof step};
    size_t cut = find_action(row, c, 0), keep = 0;

    SR1__TRY(sr1_thinking_parse(row->text.data, cut, &step));
    if (step.fallbacks & SR1_THINKING_THINK_OPEN) {
        *outcome = SR1__BRANCH_MALFORMED;
        return SR1_OK;
    }
    row->cost = count_thoughts(row, &step);
    while (keep < row->ends.n && (size_t)row->ends.v[keep] <= cut)
        keep++;
    truncate_message(row, task, keep);
    row->text.len = cut;
    return append_action_tail(row, c, task, keep > 0 ? (size_t)row->ends.v[keep - 1] : 0);
}

sr1_status sr1__level_branch_finish(struct sr1__level_branch *row,
                                    const struct sr1__level_branch_call *c,
                                    const struct sr1__level_branch_task *task,
                                    int32_t *outcome)
{
    if (row->stream)
        SR1__TRY(finish_thoughts(row, c, task, outcome));
    if (*outcome == SR1__BRANCH_COMPARED && !fits_context(row, c))
        *outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}
