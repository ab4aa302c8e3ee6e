/* environment/world/rooms_write.c - tasks, demonstrations and a tokenizer for the world
 * of rooms.
 *
 * Row i is the world of seed * 1000000 + i; demonstrations add 2^62, so no question's
 * world occurs in them. */
#include "environment/world/rooms.h"

#include <searchr1/ext/episodes.h>
#include <searchr1/ext/thinking.h>

#include "base/file.h"
#include "base/json.h"
#include "base/struct.h"
#include "environment/world/world_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- demonstrations ---- */

struct rooms_demo {
    const struct sr1__rooms *w;
    struct sr1__rooms_state at;
    struct sr1__rooms_action plan[SR1__ROOMS_PLAN_MAX];
    int32_t n;
    sr1_env *env;
    int64_t episode;
    json_t *segments;
};

/* 1 if action i uses the thing that the action before uncovered. */
static int uses_uncovered(const struct rooms_demo *d, int32_t i)
{
    enum sr1__rooms_verb before = d->plan[i - 1].verb, now = d->plan[i].verb;

    return (before == SR1__ROOMS_OPEN_DOOR && now == SR1__ROOMS_GO) ||
           (before == SR1__ROOMS_OPEN &&
            (now == SR1__ROOMS_TAKE || now == SR1__ROOMS_PUT));
}

static int32_t level_that_fits(const struct rooms_demo *d, int32_t i)
{
    if (i == 0)
        return 4;
    if (d->plan[i - 1].verb == SR1__ROOMS_GO)
        return 3;
    return uses_uncovered(d, i) ? 1 : 2;
}

/* " I am in the hall. My task is to ... . I will go to the attic, then ... . " */
static void append_level_thoughts(struct sr1__buf *b, const struct rooms_demo *d,
                                  int32_t i, int32_t level)
{
    char text[SR1__ROOMS_TEXT];

    sr1__rooms_room_text(text, d->w, d->at.at);
    sr1__buf_fmt(b, " I am in %s.", text);
    if (level >= 3) {
        sr1__buf_str(b, " My task is to ");
        sr1__rooms_append_goal(b, d->w);
        sr1__buf_str(b, ".");
        sr1__rooms_object_text(text, d->w, 0);
        sr1__buf_fmt(b, " Now %s is ", text);
        sr1__rooms_append_place(b, d->w, &d->at, 0);
        sr1__buf_char(b, '.');
    }
    for (; level >= 4 && i < d->n; i++) {
        sr1__rooms_action_text(text, d->w, d->plan[i]);
        sr1__buf_fmt(b, " Then %s.", text);
    }
    sr1__buf_char(b, ' ');
}

static void append_step(struct sr1__buf *b, const struct rooms_demo *d, int32_t i,
                        int32_t level)
{
    char text[SR1__ROOMS_TEXT];

    sr1__buf_fmt(b, "<level>%d</level>", (int)level);
    if (level > 1) {
        sr1__buf_str(b, "<think>");
        append_level_thoughts(b, d, i, level);
        sr1__buf_str(b, "</think>");
    }
    sr1__rooms_action_text(text, d->w, d->plan[i]);
    sr1__buf_fmt(b, "<action> %s </action>", text);
}

static sr1_status append_rooms_segment(struct rooms_demo *d, const char *source,
                                       const char *text)
{
    return json_array_append_new(
               d->segments, json_pack("{s:s, s:s}", "source", source, "text", text)) == 0
               ? SR1_OK
               : sr1__fail_nomem("demonstration");
}

static sr1_status append_policy_message(struct rooms_demo *d, int32_t i,
                                        struct sr1__rng *rng)
{
    int32_t level = sr1__rng_below(rng, 2) == 0
                        ? level_that_fits(d, i)
                        : 1 + (int32_t)sr1__rng_below(rng, SR1_THINKING_LEVELS);
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 0);
    append_step(&b, d, i, level);
    st = sr1__buf_status(&b, "demonstration");
    if (st == SR1_OK)
        st = append_rooms_segment(d, "policy", sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return st;
}

/* The observation after action i; there is none after the last one. */
static sr1_status append_world_reply(struct rooms_demo *d, int32_t i)
{
    char action[SR1__ROOMS_TEXT], *text = NULL;
    size_t len;
    sr1_status st;

    sr1__rooms_action_text(action, d->w, d->plan[i]);
    SR1__TRY(sr1_env_step(d->env, d->episode, action, strlen(action), NULL, &text, &len));
    st = i + 1 < d->n ? append_rooms_segment(d, "environment", text) : SR1_OK;
    sr1_free(text);
    d->at = sr1__rooms_after(&d->at, d->plan[i]);
    return st;
}

static sr1_status append_episode(struct rooms_demo *d, struct sr1__rng *rng)
{
    sr1_status st = SR1_OK;

    for (int32_t i = 0; i < d->n && st == SR1_OK; i++) {
        st = append_policy_message(d, i, rng);
        if (st == SR1_OK)
            st = append_world_reply(d, i);
    }
    return st;
}

/* Append o as a line, which is freed; NULL: there was no memory for it. */
static sr1_status append_rooms_line(struct sr1__buf *out, json_t *o)
{
    sr1_status st = o ? sr1__json_dump(o, 0, out) : sr1__fail_nomem("line");

    sr1__buf_char(out, '\n');
    json_decref(o);
    return st;
}

sr1_status sr1__rooms_append_demo(struct sr1__buf *out, sr1_env *env, int32_t split,
                                  uint64_t seed, struct sr1__rng *rng)
{
    struct sr1__rooms w;
    struct rooms_demo d = {.w = &w, .env = env};
    struct sr1__buf question;
    char id[64];
    sr1_status st;

    SR1__TRY(sr1__rooms_make(&w, split, seed));
    d.at = w.start;
    d.n = sr1__rooms_plan(&w, &w.start, d.plan);
    snprintf(id, sizeof id, "rooms-%s-%" PRIu64, sr1__rooms_splits[split], seed);
    SR1__TRY(sr1_env_begin(env, id, NULL, 0, 0, &d.episode));
    sr1__buf_init(&question, 0);
    sr1__rooms_append_task(&question, &w);
    st = sr1__buf_status(&question, "question");
    d.segments = json_array();
    if (st == SR1_OK)
        st = d.segments ? append_episode(&d, rng) : sr1__fail_nomem("demonstration");
    if (st == SR1_OK)
        st = append_rooms_line(out, json_pack("{s:s, s:O}", "question",
                                              sr1__buf_cstr(&question), "segments",
                                              d.segments));
    json_decref(d.segments);
    sr1__buf_free(&question);
    sr1_env_finish(env, d.episode);
    return st;
}

/* ---- files ---- */

struct rooms_writer {
    const char *folder;
    sr1_rooms_options o;
    int32_t small; /* added to a split */
    sr1_world_progress_fn progress;
    void *user;
};

static const sr1_rooms_options defaults = {.train_questions = 2000,
                                           .validation_questions = 200,
                                           .test_questions = 200,
                                           .demonstrations = 4000};

void sr1_rooms_options_init(sr1_rooms_options *o)
{
    sr1__struct_init(o, &defaults, sizeof(defaults));
}

#define MOST_ROWS 1000000
#define SEEDS ((uint64_t)1 << 42)      /* each has MOST_ROWS worlds of its own, */
#define DEMO_SEEDS ((uint64_t)1 << 62) /* and demonstrations have others than these */

static sr1_status check_rooms_options(const sr1_rooms_options *o)
{
    const int32_t counts[] = {o->train_questions, o->validation_questions,
                              o->test_questions, o->demonstrations};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 1 || counts[i] > MOST_ROWS)
            return sr1__fail(SR1_E_INVALID, "rooms: a count is %d; 1 to %d", counts[i],
                             MOST_ROWS);
    if (o->seed >= SEEDS)
        return sr1__fail(SR1_E_INVALID, "rooms: the seed is too large; below 2^42");
    return SR1_OK;
}

static sr1_status report_rooms_progress(const struct rooms_writer *w, const char *phase,
                                        int64_t done, int64_t total)
{
    return w->progress && done % 256 == 0 ? w->progress(w->user, phase, done, total)
                                          : SR1_OK;
}

static uint64_t first_seed(const struct rooms_writer *w)
{
    return w->o.seed * MOST_ROWS;
}

static sr1_status append_rooms_question(struct sr1__buf *out, const char *split,
                                        uint64_t seed)
{
    sr1_rooms_task t = {.struct_size = sizeof t};
    char id[64];
    sr1_status st;

    SR1__TRY(sr1_rooms_make(split, seed, &t));
    snprintf(id, sizeof id, "rooms-%s-%" PRIu64, split, seed);
    st = append_rooms_line(out, json_pack("{s:s, s:s, s:[s], s:s}", "id", id, "question",
                                          t.question, "golden_answers", t.plan,
                                          "data_source", "rooms"));
    sr1_free(t.question);
    sr1_free(t.plan);
    return st;
}

static sr1_status write_rooms_questions(const struct rooms_writer *w, int32_t split,
                                        int32_t count)
{
    const char *file = sr1__rooms_splits[split];
    struct sr1__buf rows;
    char name[32];
    sr1_status st = SR1_OK;

    sr1__buf_init(&rows, 0);
    snprintf(name, sizeof name, "%s.jsonl", file);
    for (int32_t i = 0; i < count && st == SR1_OK; i++) {
        st = append_rooms_question(&rows, sr1__rooms_splits[split + w->small],
                                   first_seed(w) + (uint64_t)i);
        if (st == SR1_OK)
            st = report_rooms_progress(w, file, i, count);
    }
    if (st == SR1_OK)
        st = sr1__world_save(w->folder, name, &rows);
    sr1__buf_free(&rows);
    return st;
}

static sr1_status write_rooms_demos(const struct rooms_writer *w)
{
    struct sr1__buf rows;
    struct sr1__rng rng;
    sr1_env *env = NULL;
    sr1_status st;

    sr1__rng_seed(&rng, w->o.seed, 0x6c6576656cu);
    SR1__TRY(sr1_rooms_env_open(&env, NULL));
    sr1__buf_init(&rows, 0);
    st = SR1_OK;
    for (int32_t i = 0; i < w->o.demonstrations && st == SR1_OK; i++) {
        st = sr1__rooms_append_demo(&rows, env, SR1__ROOMS_TRAIN + w->small,
                                    DEMO_SEEDS + first_seed(w) + (uint64_t)i, &rng);
        if (st == SR1_OK)
            st = report_rooms_progress(w, "demonstrations", i, w->o.demonstrations);
    }
    if (st == SR1_OK)
        st = sr1__world_save(w->folder, "sft.jsonl", &rows);
    sr1__buf_free(&rows);
    sr1_env_free(env);
    return st;
}

/* ---- the tokenizer ---- */

#define VOCABULARY 700

/* Each word is a text of its own. */
static void append_word_table(struct sr1__buf *b, const char *(*word)(size_t), size_t *n)
{
    for (size_t i = 0; word(i) != NULL; i++, ++*n) {
        sr1__buf_fmt(b, " %s", word(i));
        sr1__buf_char(b, '\0');
    }
}

/* All words, then sentences; their number. */
static size_t gather_tokenizer_texts(struct sr1__buf *all)
{
    static const char *const sentences[] = {
        "Your task: put into in. You know that is in the. You are in the. Here is the. "
        "It "
        "is closed. In it: nothing. On the floor: nothing, the. In your hand: nothing.",
        "You can: open the door to the, close the door to the, go to the, take the, drop "
        "the, put the into the, look, inventory, examine a thing.",
        "You open the. You close the. You take the. You drop the. You put the. You look "
        "at the. Nothing happens. I am in the. My task is to put. Now the is in your "
        "hand. Then take the. Then open. Then go to. Then put.",
        "1 2 3 4"};
    size_t n = 0;

    append_word_table(all, sr1__rooms_colour, &n);
    append_word_table(all, sr1__rooms_object_noun, &n);
    append_word_table(all, sr1__rooms_container_noun, &n);
    append_word_table(all, sr1__rooms_room_noun, &n);
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++, n++) {
        sr1__buf_str(all, sentences[i]);
        sr1__buf_char(all, '\0');
    }
    return n;
}

static sr1_status write_rooms_tokenizer(const struct rooms_writer *w)
{
    static const char *const tags[] = {
        "<level>",   "</level>",      "<think>",        "</think>", "<action>",
        "</action>", "<observation>", "</observation>", "<answer>", "</answer>"};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o,
                                     .vocab_size = VOCABULARY,
                                     .added_tokens = tags,
                                     .n_added_tokens = sizeof tags / sizeof *tags};
    struct sr1__buf texts;
    size_t n;
    sr1_status st;

    sr1__buf_init(&texts, 0);
    n = gather_tokenizer_texts(&texts);
    st = sr1__world_tokenizer(w->folder, &texts, n, &o);
    sr1__buf_free(&texts);
    return st;
}

sr1_status sr1_rooms_write(const char *folder, const sr1_rooms_options *options,
                           sr1_world_progress_fn progress, void *user)
{
    struct rooms_writer w = {
        .folder = folder, .o = defaults, .progress = progress, .user = user};

    if (!folder)
        return sr1__fail(SR1_E_INVALID, "rooms: folder is required");
    SR1__TRY(sr1__struct_take(&w.o, sizeof w.o, options,
                              SR1__STRUCT_END(sr1_rooms_options, seed), "rooms options"));
    SR1__TRY(check_rooms_options(&w.o));
    w.small = w.o.small ? SR1__ROOMS_SMALL : 0;
    SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(write_rooms_tokenizer(&w));
    SR1__TRY(write_rooms_questions(&w, SR1__ROOMS_TRAIN, w.o.train_questions));
    SR1__TRY(write_rooms_questions(&w, SR1__ROOMS_VALIDATION, w.o.validation_questions));
    SR1__TRY(write_rooms_questions(&w, SR1__ROOMS_TEST, w.o.test_questions));
    return write_rooms_demos(&w);
}
