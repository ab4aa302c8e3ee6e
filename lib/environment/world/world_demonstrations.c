/* environment/world/world_demonstrations.c - demonstrations, stage by stage:
 *
 *     0 repeat   a list of names, then the same list again       (learns to copy)
 *     1 look up  passages, then subjects to complete              (learns to read)
 *     2 one hop  clean searches                                   (learns the protocol)
 *     3 two hops clean, 60 % over two facts
 *     4 mixed    good and bad ways of searching: where reinforcement learning starts
 *
 * A line of stage 1 has many names to find: once that is learned, the searches of the
 * later stages are learned within a hundred steps; without stage 1 a thousand may not be
 * enough.
 *
 * Search results are those of the engine over the demonstrations' worlds. */
#include "environment/world/world.h"

#include "base/json.h"

#include <searchr1/ext/episodes.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One demonstration under way. */
struct world_demo {
    const struct sr1__demo_worlds *d;
    const struct sr1__world *w;
    int32_t world;
    struct sr1__rng *rng;
    json_t *segments;
    struct sr1__buf said; /* of the policy, since the last inserted block */
    int32_t shown;     /* the thing the last search's best passage leads to; -1: none */
    sr1_status status; /* sticky */
};

static void record_status(struct world_demo *m, sr1_status st)
{
    if (m->status == SR1_OK)
        m->status = st;
}

static void append_world_segment(struct world_demo *m, const char *source,
                                 const char *text)
{
    if (json_array_append_new(
            m->segments, json_pack("{s:s, s:s}", "source", source, "text", text)) != 0)
        record_status(m, sr1__fail_nomem("demonstration"));
}

static void flush_policy_text(struct world_demo *m)
{
    if (m->said.len)
        append_world_segment(m, "policy", sr1__buf_cstr(&m->said));
    sr1__buf_clear(&m->said);
}

static void append_policy_text(struct world_demo *m, const char *text)
{
    sr1__buf_str(&m->said, text);
}

enum { THINK, ACT, RESULT, ANSWER };

static void append_tag(struct world_demo *m, int role, int closes)
{
    append_policy_text(m, m->d->speech->tags[2 * role + closes]);
}

static void append_thought(struct world_demo *m, const char *text)
{
    append_tag(m, THINK, 0);
    append_policy_text(m, text);
    append_tag(m, THINK, 1);
}

static void append_thing_name(struct world_demo *m, int32_t thing)
{
    sr1__text_name(&m->said, m->w, thing);
}

static int32_t random_thing(struct world_demo *m)
{
    return (int32_t)sr1__rng_below(m->rng, (uint64_t)m->w->n_things);
}

static const char *word_of(const struct world_demo *m, int32_t thing)
{
    return sr1__relations[m->w->things[thing].kind].word;
}

/* ---- searching ---- */

/* 1 if this passage states the fact of thing. */
static int states_fact(const struct world_demo *m, const char *id, int32_t thing)
{
    char want[32];

    snprintf(want, sizeof(want), "%d/%d", m->world, thing);
    return strcmp(id, want) == 0;
}

/* The thing a passage of this demonstration's world leads to; -1 for other worlds. */
static int32_t passage_object(const struct world_demo *m, const char *id)
{
    char *end;
    long world = strtol(id, &end, 10);

    if (world != m->world || *end != '/')
        return -1;
    if (end[1] == 'd')
        return (int32_t)strtol(end + 3, NULL, 10);
    return m->w->things[strtol(end + 1, NULL, 10)].object;
}

/* The result of a search for the query: whether it states the fact of `thing`, and the
 * object of the best passage. */
static int search_for_fact(struct world_demo *m, const char *query, int32_t thing)
{
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof(hit)};
    int told = 0;

    record_status(m, sr1_search_run(m->d->engine, &query, 1, SR1__DEMO_TOP_K, &found));
    m->shown = -1;
    for (int32_t k = 0; found && sr1_search_results_hit(found, 0, k, &hit) == SR1_OK;
         k++) {
        told |= states_fact(m, hit.id, thing);
        if (m->shown < 0)
            m->shown = passage_object(m, hit.id);
    }
    sr1_search_results_free(found);
    return told;
}

/* Say an action, its query between two texts, and insert the environment's answer. */
static void append_action(struct world_demo *m, const char *const around[2],
                          const char *query)
{
    const char *open = m->d->speech->tags[2 * ACT], *action;
    size_t begin = m->said.len + strlen(open), len = 0;
    char *text = NULL;

    append_policy_text(m, around[0]);
    append_policy_text(m, " ");
    append_policy_text(m, query);
    append_policy_text(m, " ");
    append_policy_text(m, around[1]);
    record_status(m, sr1__buf_status(&m->said, "demonstration"));
    if (m->status != SR1_OK)
        return;
    action = m->said.data + begin;
    record_status(
        m, sr1_env_answer(m->d->env, action,
                          m->said.len - begin - strlen(m->d->speech->tags[2 * ACT + 1]),
                          &text, &len));
    flush_policy_text(m);
    if (text)
        append_world_segment(m, "environment", text);
    sr1_free(text);
}

/* Search by name and relation (with_name, with_word choose which) for thing's fact. */
static int append_search(struct world_demo *m, int32_t thing, int with_name,
                         int with_word)
{
    struct sr1__buf query;
    int told;

    sr1__buf_init(&query, 0);
    if (with_name)
        sr1__text_name(&query, m->w, thing);
    if (with_word)
        sr1__buf_fmt(&query, "%s%s", with_name ? " " : "", word_of(m, thing));
    record_status(m, sr1__buf_status(&query, "query"));
    append_action(m, m->d->speech->call, sr1__buf_cstr(&query));
    told = search_for_fact(m, sr1__buf_cstr(&query), thing);
    sr1__buf_free(&query);
    return told;
}

static void append_answer(struct world_demo *m, int32_t thing)
{
    append_tag(m, ANSWER, 0);
    append_policy_text(m, " ");
    append_thing_name(m, thing);
    append_policy_text(m, " ");
    append_tag(m, ANSWER, 1);
}

static void append_final_thought_and_answer(struct world_demo *m, int32_t thing)
{
    append_thought(m, " Done. ");
    append_answer(m, thing);
}

/* The thing that was found, else the one the best passage leads to, else any. */
static int32_t found_or_shown(struct world_demo *m, int told, int32_t thing)
{
    if (told)
        return m->w->things[thing].object;
    return m->shown >= 0 ? m->shown : random_thing(m);
}

/* ---- ways of answering a question ---- */

struct way {
    int with_name, with_word, stop_early;
};

static void append_plan_thought(struct world_demo *m, int32_t thing, int two)
{
    append_tag(m, THINK, 0);
    append_policy_text(m, " Find: ");
    append_policy_text(m, word_of(m, thing));
    if (two) {
        append_policy_text(m, " then ");
        append_policy_text(m, word_of(m, m->w->things[thing].object));
    }
    append_policy_text(m, ". ");
    append_tag(m, THINK, 1);
}

static void answer_by_way(struct world_demo *m, const struct sr1__question *q,
                          struct way how)
{
    int two = q->chain >= 0 && !how.stop_early;
    int32_t at = q->thing;
    int told;

    append_plan_thought(m, at, two);
    told = append_search(m, at, how.with_name, how.with_word);
    at = found_or_shown(m, told, at);
    if (two) {
        append_tag(m, THINK, 0);
        append_policy_text(m, " Next: ");
        append_policy_text(m, word_of(m, m->w->things[q->thing].object));
        append_policy_text(m, ". ");
        append_tag(m, THINK, 1);
        told = append_search(m, at, how.with_name, how.with_word);
        at = found_or_shown(m, told, at);
    }
    append_final_thought_and_answer(m, at);
}

static void way_good(struct world_demo *m, const struct sr1__question *q)
{
    answer_by_way(m, q, (struct way){1, 1, 0});
}

static void way_name_only(struct world_demo *m, const struct sr1__question *q)
{
    answer_by_way(m, q, (struct way){1, 0, 0});
}

static void way_poor(struct world_demo *m, const struct sr1__question *q)
{
    answer_by_way(m, q, (struct way){0, 1, 1});
}

static void way_stop(struct world_demo *m, const struct sr1__question *q)
{
    answer_by_way(m, q, (struct way){1, 1, 1});
}

static void way_guess(struct world_demo *m, const struct sr1__question *q)
{
    (void)q;
    append_thought(m, " Guess. ");
    append_answer(m, random_thing(m));
}

/* The call is not what the environment understands; what remains is a guess. */
static void way_broken(struct world_demo *m, const struct sr1__question *q)
{
    struct sr1__buf query;

    append_plan_thought(m, q->thing, 0);
    sr1__buf_init(&query, 0);
    sr1__text_name(&query, m->w, q->thing);
    sr1__buf_fmt(&query, " %s", word_of(m, q->thing));
    record_status(m, sr1__buf_status(&query, "query"));
    append_action(m, m->d->speech->broken, sr1__buf_cstr(&query));
    sr1__buf_free(&query);
    way_guess(m, q);
}

/* Shares of the ways in the mixed stage, by hops, and where calls can be broken. */
enum { ONE_HOP, TWO_HOPS, BREAKABLE };

static const struct {
    void (*way)(struct world_demo *m, const struct sr1__question *q);
    double share[3];
} mix[] = {
    {way_good, {.40, .25, .25}}, {way_name_only, {.40, .10, .15}},
    {way_poor, {.10, .05, .10}}, {way_guess, {.10, .05, .20}},
    {way_stop, {.00, .55, .00}}, {way_broken, {.00, .00, .30}},
};

static void mixed_way(struct world_demo *m, const struct sr1__question *q)
{
    int breakable = q->chain < 0 && m->d->speech->broken[0] != NULL;
    int column = breakable ? BREAKABLE : q->chain < 0 ? ONE_HOP : TWO_HOPS;
    double u = sr1__rng_uniform(m->rng);

    for (size_t i = 0; i < sizeof(mix) / sizeof(mix[0]); i++) {
        u -= mix[i].share[column];
        if (u < 0) {
            mix[i].way(m, q);
            return;
        }
    }
    way_good(m, q);
}

/* ---- stages ---- */

static struct sr1__question random_question(struct world_demo *m, double two_hops)
{
    struct sr1__question q = {random_thing(m), -1};

    if (sr1__rng_uniform(m->rng) < two_hops) {
        enum sr1__kind first;
        int32_t n;

        q.chain = (int32_t)sr1__rng_below(m->rng, SR1__CHAINS);
        first = sr1__chains[q.chain].first;
        n = m->w->begin[first + 1] - m->w->begin[first];
        q.thing = m->w->begin[first] + (int32_t)sr1__rng_below(m->rng, (uint64_t)n);
    }
    return q;
}

static void append_question_and_answer(struct world_demo *m, struct sr1__buf *question,
                                       double two_hops,
                                       void (*way)(struct world_demo *,
                                                   const struct sr1__question *))
{
    struct sr1__question q = random_question(m, two_hops);

    sr1__text_question(question, sr1__question_text(&q, m->w), m->w, q.thing);
    way(m, &q);
}

static const char *fresh_name(struct world_demo *m)
{
    const struct sr1__pool_names *p = &m->d->fresh;

    return p->names[sr1__rng_below(m->rng, p->n)];
}

static void stage_repeat(struct world_demo *m, struct sr1__buf *question)
{
    size_t n = 6 + (size_t)sr1__rng_below(m->rng, 10);
    struct sr1__buf list;

    sr1__buf_str(question, "Repeat the list.");
    sr1__buf_init(&list, 0);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(&list, " %s", fresh_name(m));
    record_status(m, sr1__buf_status(&list, "list"));
    append_world_segment(m, "environment", sr1__buf_cstr(&list));
    append_policy_text(m, sr1__buf_cstr(&list));
    sr1__buf_free(&list);
}

/* A few passages about things of one world, then every subject twice in random order. */
static void stage_look_up(struct world_demo *m, struct sr1__buf *question)
{
    int64_t order[10];
    int32_t things[5];
    size_t n = 3 + (size_t)sr1__rng_below(m->rng, 3);
    struct sr1__buf text;

    sr1__buf_str(question, "Look it up.");
    sr1__buf_init(&text, 0);
    for (size_t i = 0; i < n; i++) {
        things[i] = random_thing(m);
        sr1__buf_char(&text, ' ');
        sr1__text_passage(&text, m->w, things[i]);
        order[i] = order[n + i] = (int64_t)i;
    }
    sr1__rng_shuffle(m->rng, order, 2 * n);
    for (size_t i = 0; i < 2 * n; i++) {
        int32_t thing = things[order[i]];

        sr1__buf_char(&text, ' ');
        sr1__text_name(&text, m->w, thing);
        sr1__buf_fmt(&text, " %s ;", word_of(m, thing));
        record_status(m, sr1__buf_status(&text, "passages"));
        flush_policy_text(m);
        append_world_segment(m, "environment", sr1__buf_cstr(&text));
        sr1__buf_clear(&text);
        append_policy_text(m, " ");
        append_thing_name(m, m->w->things[thing].object);
        append_policy_text(m, " .");
    }
    sr1__buf_free(&text);
}

static void stage_one_hop(struct world_demo *m, struct sr1__buf *question)
{
    append_question_and_answer(m, question, 0.0, way_good);
}

static void stage_two_hops(struct world_demo *m, struct sr1__buf *question)
{
    append_question_and_answer(m, question, m->d->two_hops, way_good);
}

static void stage_mixed(struct world_demo *m, struct sr1__buf *question)
{
    append_question_and_answer(m, question, m->d->two_hops, mixed_way);
}

static void (*const stages[])(struct world_demo *m, struct sr1__buf *question) = {
    stage_repeat, stage_look_up, stage_one_hop, stage_two_hops, stage_mixed};

sr1_status sr1__world_append_demo(struct sr1__buf *out, int32_t stage,
                                  struct sr1__rng *rng, const struct sr1__demo_worlds *d)
{
    struct world_demo m = {.d = d, .rng = rng, .segments = json_array(), .shown = -1};
    struct sr1__buf question;
    json_t *row = NULL;

    m.world = (int32_t)sr1__rng_below(rng, (uint64_t)d->n);
    m.w = &d->worlds[m.world];
    sr1__buf_init(&m.said, 0);
    sr1__buf_init(&question, 0);
    stages[stage](&m, &question);
    flush_policy_text(&m);
    record_status(&m, sr1__buf_status(&m.said, "demonstration"));
    record_status(&m, sr1__buf_status(&question, "question"));
    if (m.status == SR1_OK)
        row = json_pack("{s:s, s:O}", "question", sr1__buf_cstr(&question), "segments",
                        m.segments);
    if (m.status == SR1_OK)
        m.status = row ? sr1__json_dump(row, 0, out) : sr1__fail_nomem("demonstration");
    sr1__buf_char(out, '\n');
    json_decref(row);
    json_decref(m.segments);
    sr1__buf_free(&m.said);
    sr1__buf_free(&question);
    return m.status;
}
