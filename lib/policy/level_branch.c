/* policy/level_branch.c - a message at a given level: its tag is set, its thoughts are
 * sampled until an action begins, and the action is that of the step, in the ids that
 * were sampled:
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

void sr1__level_branch_free(struct sr1__level_branch *b)
{
    sr1__ids_free(&b->ids);
    sr1__ids_free(&b->ends);
    sr1__buf_free(&b->text);
    sr1_token_stream_free(b->stream);
    *b = (struct sr1__level_branch){0};
}

/* Each step and level samples from a random stream of its own. */
static void seed_branch(struct sr1__level_branch *b)
{
    const sr1_trajectory *t = b->task->t;
    const int32_t place[] = {sr1_trajectory_sample(t), b->task->turn.turn, b->level};

    sr1__rng_seed(&b->rng,
                  sr1__group_seed(b->call->o->seed, sr1_trajectory_query_id(t),
                                  sr1_trajectory_copy(t)),
                  sr1__hash64(place, sizeof place, 0));
}

static int fits_context(const struct sr1__level_branch *b)
{
    return (int64_t)b->ids.n <= b->call->rollout->limits.max_context;
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
static const char *tail_text(const struct sr1__level_branch *b, size_t *n)
{
    size_t begin = b->task->turn.step.prefix_len - strlen(b->call->action_tag);

    *n = b->task->turn.behind_at - begin;
    return b->task->turn.said + begin;
}

/* White space that the step has before its action. */
static const char *gap_text(const struct sr1__level_branch *b, size_t *n)
{
    size_t end = b->task->turn.step.prefix_len - strlen(b->call->action_tag);

    *n = trailing_space_length(b->task->turn.said, end);
    return b->task->turn.said + end - *n;
}

/* Encode text from `from` on; its tokens end where it does. */
static sr1_status encode_from(struct sr1__level_branch *b, size_t from)
{
    size_t before = b->ids.n;

    SR1__TRY(sr1__buf_status(&b->text, "message"));
    SR1__TRY(sr1__tokenizer_encode(b->call->rollout->tokenizer, b->text.data + from,
                                   b->text.len - from,
                                   SR1_ENCODE_ALL_ADDED | SR1_ENCODE_CONTINUED, &b->ids));
    for (size_t i = before; i < b->ids.n; i++)
        SR1__TRY(sr1__ids_add(&b->ends, (int32_t)b->text.len));
    return SR1_OK;
}

static void append_level_tag(struct sr1__level_branch *b)
{
    const struct sr1__thinking_turn *turn = &b->task->turn;
    size_t lead = turn->step.level_len ? turn->step.level_begin : 0;

    if (trailing_space_length(turn->said, lead) == lead)
        sr1__buf_add(&b->text, turn->said, lead);
    sr1__buf_fmt(&b->text, "<level>%d</level>", (int)b->level + 1);
}

/* Level 1 is not sampled: the configured thought, or none. */
static sr1_status append_fixed_thought(struct sr1__level_branch *b)
{
    struct sr1__ids thought = {0};
    size_t n;
    const char *gap = gap_text(b, &n);
    sr1_status st;

    sr1__buf_add(&b->text, gap, n);
    if (*b->call->o->thought == '\0')
        return SR1_OK;
    sr1__buf_fmt(&b->text, "<think>%s</think>", b->call->o->thought);
    sr1__buf_add(&b->text, gap, n);
    st = sr1__tokenizer_encode(b->call->rollout->tokenizer, b->call->o->thought,
                               strlen(b->call->o->thought),
                               SR1_ENCODE_ADDED_AS_TEXT | SR1_ENCODE_CONTINUED, &thought);
    b->cost = (int64_t)thought.n;
    sr1__ids_free(&thought);
    return st;
}

/* The action's tag behind what stands before it, then the action as it was sampled. */
static sr1_status append_action_tail(struct sr1__level_branch *b, size_t from)
{
    size_t n;
    const char *tail = tail_text(b, &n);

    sr1__buf_add(&b->text, tail, n);
    SR1__TRY(encode_from(b, from));
    return sr1__ids_append(&b->ids, sr1_trajectory_ids(b->task->t) + b->task->turn.behind,
                           b->task->turn.action.end - b->task->turn.behind);
}

/* ---- beginning ---- */

/* Thoughts are asked for in words: the level's sentence goes to the end of what the
 * environment said last, before the opening of the message. */
static sr1_status append_level_prompt(struct sr1__level_branch *b, const int32_t *history,
                                      size_t n)
{
    const struct sr1__ids *open = &b->call->rollout->border.open_ids;
    const sr1_tokenizer *tok = b->call->rollout->tokenizer;
    const int32_t plain = SR1_ENCODE_ADDED_AS_TEXT | SR1_ENCODE_CONTINUED;
    const char *text;

    if (n < open->n ||
        memcmp(history + n - open->n, open->v, open->n * sizeof *open->v) != 0)
        return sr1__fail(SR1_E_UNSUPPORTED, "level_prompts: the prompt does not end with "
                                            "the opening of a message");
    b->asked_in_words = 1;
    b->n_held = n - open->n;
    SR1__TRY(sr1_thinking_level(b->level + 1, NULL, &text));
    SR1__TRY(sr1__ids_append(&b->ids, history, b->n_held));
    SR1__TRY(sr1__tokenizer_encode(tok, "\n", 1, plain, &b->ids));
    SR1__TRY(sr1__tokenizer_encode(tok, text, strlen(text), plain, &b->ids));
    return sr1__ids_append(&b->ids, open->v, open->n);
}

/* The level that was sampled: of its message all but the action was read, and the last
 * token of that predicts the action's first. */
static sr1_status copy_sampled_message(struct sr1__level_branch *b)
{
    const struct sr1__thinking_turn *turn = &b->task->turn;

    b->base = turn->message.begin;
    b->n_held = turn->behind - 1;
    b->cost = (int64_t)(turn->thoughts.end - turn->thoughts.begin);
    return sr1__ids_append(&b->ids, sr1_trajectory_ids(b->task->t), turn->action.end);
}

static sr1_status begin_message(struct sr1__level_branch *b)
{
    sr1__buf_init(&b->text, 0);
    append_level_tag(b);
    if (b->level == 0) {
        SR1__TRY(append_fixed_thought(b));
        return append_action_tail(b, 0);
    }
    SR1__TRY(encode_from(b, 0));
    SR1__TRY(sr1_token_stream_new(&b->stream, b->call->rollout->speech, 1));
    seed_branch(b);
    b->sampling = 1;
    return SR1_OK;
}

sr1_status sr1__level_branch_begin(struct sr1__level_branch *b,
                                   const struct sr1__level_branch_call *call,
                                   const struct sr1__level_branch_task *task,
                                   int32_t level)
{
    const int32_t *ids = sr1_trajectory_ids(task->t);

    *b = (struct sr1__level_branch){.call = call, .task = task, .level = level};
    if (level == task->out->level)
        return copy_sampled_message(b);
    b->n_held = task->turn.message.begin;
    SR1__TRY(level > 0 && call->o->prompts ? append_level_prompt(b, ids, b->n_held)
                                           : sr1__ids_append(&b->ids, ids, b->n_held));
    b->base = b->ids.n;
    SR1__TRY(begin_message(b));
    if (!fits_context(b))
        b->outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}

/* ---- sampling ---- */

/* Where the action's tag begins in text[from..), or its length. */
static size_t find_action(const struct sr1__level_branch *b, size_t from)
{
    const char *text = sr1__buf_cstr(&b->text);
    const char *at = memmem(text + from, b->text.len - from, b->call->action_tag,
                            strlen(b->call->action_tag));

    return at ? (size_t)(at - text) : b->text.len;
}

static size_t tail_room_needed(const struct sr1__level_branch *b)
{
    size_t n;

    (void)tail_text(b, &n);
    return n + b->task->turn.action.end - b->task->turn.behind;
}

sr1_status sr1__level_branch_append(struct sr1__level_branch *b, int32_t id)
{
    size_t before = b->text.len, tag = strlen(b->call->action_tag);
    const char *text;
    size_t n;

    SR1__TRY(sr1_token_stream_push(b->stream, id, &text, &n));
    sr1__buf_add(&b->text, text, n);
    SR1__TRY(sr1__buf_status(&b->text, "thoughts"));
    SR1__TRY(sr1__ids_add(&b->ids, id));
    SR1__TRY(sr1__ids_add(&b->ends, (int32_t)b->text.len));
    b->n_sampled++;
    if (find_action(b, before > tag ? before - tag : 0) < b->text.len)
        b->sampling = 0;
    else if (sr1__tokenizer_stops(b->call->rollout->tokenizer, id))
        b->outcome = SR1__BRANCH_NO_ACTION;
    else if (b->n_sampled >= b->call->o->max_tokens[b->level])
        b->outcome = SR1__BRANCH_TRUNCATED;
    else if ((int64_t)(b->ids.n + tail_room_needed(b)) >=
             b->call->rollout->limits.max_context)
        b->outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}

/* ---- finishing ---- */

/* Tokens whose text is of the thoughts. */
static int64_t count_thoughts(const struct sr1__level_branch *b,
                              const sr1_thinking_step *step)
{
    size_t end = step->think_begin + step->think_len;
    int64_t n = 0;

    for (size_t i = 1; i < b->ends.n && step->think_len > 0; i++) {
        size_t from = (size_t)b->ends.v[i - 1], to = (size_t)b->ends.v[i];

        n += from < end && (to > step->think_begin || from >= step->think_begin);
    }
    return n;
}

/* The message without its last tokens, behind the history itself where it was asked for
 * in words. */
static void truncate_message(struct sr1__level_branch *b, size_t keep)
{
    size_t history = b->task->turn.message.begin;

    if (b->asked_in_words) {
        memmove(b->ids.v + history, b->ids.v + b->base, keep * sizeof *b->ids.v);
        memcpy(b->ids.v, sr1_trajectory_ids(b->task->t), history * sizeof *b->ids.v);
        b->base = b->n_held = history;
    }
    b->ids.n = b->base + keep;
    b->ends.n = keep;
    if (b->n_held > b->ids.n)
        b->n_held = b->ids.n;
}

static sr1_status finish_thoughts(struct sr1__level_branch *b)
{
    sr1_thinking_step step = {.struct_size = sizeof step};
    size_t cut = find_action(b, 0), keep = 0;

    SR1__TRY(sr1_thinking_parse(b->text.data, cut, &step));
    if (step.fallbacks & SR1_THINKING_THINK_OPEN) {
        b->outcome = SR1__BRANCH_MALFORMED;
        return SR1_OK;
    }
    b->cost = count_thoughts(b, &step);
    while (keep < b->ends.n && (size_t)b->ends.v[keep] <= cut)
        keep++;
    truncate_message(b, keep);
    b->text.len = cut;
    return append_action_tail(b, keep > 0 ? (size_t)b->ends.v[keep - 1] : 0);
}

sr1_status sr1__level_branch_finish(struct sr1__level_branch *b)
{
    if (b->stream)
        SR1__TRY(finish_thoughts(b));
    if (b->outcome == SR1__BRANCH_COMPARED && !fits_context(b))
        b->outcome = SR1__BRANCH_CONTEXT_FULL;
    return SR1_OK;
}
