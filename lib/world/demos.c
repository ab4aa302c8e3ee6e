/* world/demos.c - demonstrations, stage by stage:
 *
 *     0 repeat   a list of names, then the same list again       (learns to copy)
 *     1 look up  passages, then subjects to complete              (learns to read)
 *     2 one hop  clean searches                                   (learns the protocol)
 *     3 two hops clean, 60 % over two facts
 *     4 mixed    good and bad ways of searching: where reinforcement learning starts
 *
 * Looking up has many names to find in every line: once it is learned, the searches that
 * follow are learned within a hundred steps; without it they may not be in a thousand.
 *
 * What comes back from a search is what the engine gives over the demonstrations' worlds.
 */
#include "world/world.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One demonstration under way. */
struct demo {
    const struct sr1__demo_worlds *d;
    const struct sr1__world *w;
    int32_t world;
    struct sr1__rng *rng;
    json_t *segments;
    struct sr1__buf said; /* of the policy, since the last inserted block */
    int32_t shown; /* the thing the last search's best passage leads to; -1: none */
    sr1_status status;    /* sticky */
};

static void check(struct demo *m, sr1_status st)
{
    if (m->status == SR1_OK)
        m->status = st;
}

static void add_segment(struct demo *m, const char *source, const char *text)
{
    if (json_array_append_new(
            m->segments, json_pack("{s:s, s:s}", "source", source, "text", text)) != 0)
        check(m, sr1__fail_nomem("demonstration"));
}

static void flush(struct demo *m)
{
    if (m->said.len)
        add_segment(m, "policy", sr1__buf_cstr(&m->said));
    sr1__buf_clear(&m->said);
}

static void say(struct demo *m, const char *text)
{
    sr1__buf_str(&m->said, text);
}

enum { THINK, ACT, RESULT, ANSWER };

static void say_tag(struct demo *m, int role, int closes)
{
    say(m, m->d->speech->tags[2 * role + closes]);
}

static void say_thought(struct demo *m, const char *text)
{
    say_tag(m, THINK, 0);
    say(m, text);
    say_tag(m, THINK, 1);
}

static void say_name(struct demo *m, int32_t thing)
{
    sr1__text_name(&m->said, m->w, thing);
}

static int32_t random_thing(struct demo *m)
{
    return (int32_t)sr1__rng_below(m->rng, (uint64_t)m->w->n_things);
}

static const char *word_of(const struct demo *m, int32_t thing)
{
    return sr1__relations[m->w->things[thing].kind].word;
}

/* ---- searching ---- */

/* Does this passage tell where thing's fact leads? */
static int tells(const struct demo *m, const char *id, int32_t thing)
{
    char want[32];

    snprintf(want, sizeof(want), "%d/%d", m->world, thing);
    return strcmp(id, want) == 0;
}

/* The thing a passage of this demonstration's world leads to; -1 for other worlds. */
static int32_t leads_to(const struct demo *m, const char *id)
{
    char *end;
    long world = strtol(id, &end, 10);

    if (world != m->world || *end != '/')
        return -1;
    if (end[1] == 'd')
        return (int32_t)strtol(end + 3, NULL, 10);
    return m->w->things[strtol(end + 1, NULL, 10)].object;
}

/* What a search for the query finds: whether it tells the fact of `thing`, and what the
 * best passage leads to. */
static int look_at_hits(struct demo *m, const char *query, int32_t thing)
{
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {.struct_size = sizeof(hit)};
    int told = 0;

    check(m, sr1_search_run(m->d->engine, &query, 1, SR1__DEMO_TOP_K, &found));
    m->shown = -1;
    for (int32_t k = 0; found && sr1_search_results_hit(found, 0, k, &hit) == SR1_OK;
         k++) {
        told |= tells(m, hit.id, thing);
        if (m->shown < 0)
            m->shown = leads_to(m, hit.id);
    }
    sr1_search_results_free(found);
    return told;
}

/* Say an action, its query between two texts, and insert the environment's answer. */
static void act(struct demo *m, const char *const around[2], const char *query)
{
    const char *open = m->d->speech->tags[2 * ACT], *action;
    size_t begin = m->said.len + strlen(open), len = 0;
    char *text = NULL;

    say(m, around[0]);
    say(m, " ");
    say(m, query);
    say(m, " ");
    say(m, around[1]);
    check(m, sr1__buf_status(&m->said, "demonstration"));
    if (m->status != SR1_OK)
        return;
    action = m->said.data + begin;
    check(m, sr1_env_answer(m->d->env, action,
                            m->said.len - begin - strlen(m->d->speech->tags[2 * ACT + 1]),
                            &text, &len));
    flush(m);
    if (text)
        add_segment(m, "environment", text);
    sr1_free(text);
}

/* Search by name and relation (with_name, with_word choose which) for thing's fact. */
static int search(struct demo *m, int32_t thing, int with_name, int with_word)
{
    struct sr1__buf query;
    int told;

    sr1__buf_init(&query, 0);
    if (with_name)
        sr1__text_name(&query, m->w, thing);
    if (with_word)
        sr1__buf_fmt(&query, "%s%s", with_name ? " " : "", word_of(m, thing));
    check(m, sr1__buf_status(&query, "query"));
    act(m, m->d->speech->call, sr1__buf_cstr(&query));
    told = look_at_hits(m, sr1__buf_cstr(&query), thing);
    sr1__buf_free(&query);
    return told;
}

static void say_answer(struct demo *m, int32_t thing)
{
    say_tag(m, ANSWER, 0);
    say(m, " ");
    say_name(m, thing);
    say(m, " ");
    say_tag(m, ANSWER, 1);
}

static void answer(struct demo *m, int32_t thing)
{
    say_thought(m, " Done. ");
    say_answer(m, thing);
}

/* The thing that was found, else the one the best passage leads to, else any. */
static int32_t found_or_shown(struct demo *m, int told, int32_t thing)
{
    if (told)
        return m->w->things[thing].object;
    return m->shown >= 0 ? m->shown : random_thing(m);
}

/* ---- ways of answering a question ---- */

struct way {
    int with_name, with_word, stop_early;
};

static void plan(struct demo *m, int32_t thing, int two)
{
    say_tag(m, THINK, 0);
    say(m, " Find: ");
    say(m, word_of(m, thing));
    if (two) {
        say(m, " then ");
        say(m, word_of(m, m->w->things[thing].object));
    }
    say(m, ". ");
    say_tag(m, THINK, 1);
}

static void go(struct demo *m, const struct sr1__question *q, struct way how)
{
    int two = q->chain >= 0 && !how.stop_early;
    int32_t at = q->thing;
    int told;

    plan(m, at, two);
    told = search(m, at, how.with_name, how.with_word);
    at = found_or_shown(m, told, at);
    if (two) {
        say_tag(m, THINK, 0);
        say(m, " Next: ");
        say(m, word_of(m, m->w->things[q->thing].object));
        say(m, ". ");
        say_tag(m, THINK, 1);
        told = search(m, at, how.with_name, how.with_word);
        at = found_or_shown(m, told, at);
    }
    answer(m, at);
}

static void way_good(struct demo *m, const struct sr1__question *q)
{
    go(m, q, (struct way){1, 1, 0});
}

static void way_name_only(struct demo *m, const struct sr1__question *q)
{
    go(m, q, (struct way){1, 0, 0});
}

static void way_poor(struct demo *m, const struct sr1__question *q)
{
    go(m, q, (struct way){0, 1, 1});
}

static void way_stop(struct demo *m, const struct sr1__question *q)
{
    go(m, q, (struct way){1, 1, 1});
}

static void way_guess(struct demo *m, const struct sr1__question *q)
{
    (void)q;
    say_thought(m, " Guess. ");
    say_answer(m, random_thing(m));
}

/* The call is not what the environment understands; what remains is a guess. */
static void way_broken(struct demo *m, const struct sr1__question *q)
{
    struct sr1__buf query;

    plan(m, q->thing, 0);
    sr1__buf_init(&query, 0);
    sr1__text_name(&query, m->w, q->thing);
    sr1__buf_fmt(&query, " %s", word_of(m, q->thing));
    check(m, sr1__buf_status(&query, "query"));
    act(m, m->d->speech->broken, sr1__buf_cstr(&query));
    sr1__buf_free(&query);
    way_guess(m, q);
}

/* Shares of the ways in the mixed stage, by hops, and where calls can be broken. */
enum { ONE_HOP, TWO_HOPS, BREAKABLE };

static const struct {
    void (*way)(struct demo *m, const struct sr1__question *q);
    double share[3];
} mix[] = {
    {way_good, {.40, .25, .25}}, {way_name_only, {.40, .10, .15}},
    {way_poor, {.10, .05, .10}}, {way_guess, {.10, .05, .20}},
    {way_stop, {.00, .55, .00}}, {way_broken, {.00, .00, .30}},
};

static void mixed_way(struct demo *m, const struct sr1__question *q)
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

static struct sr1__question random_question(struct demo *m, double two_hops)
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

static void ask(struct demo *m, struct sr1__buf *question, double two_hops,
                void (*way)(struct demo *, const struct sr1__question *))
{
    struct sr1__question q = random_question(m, two_hops);

    sr1__text_question(question, sr1__question_text(&q, m->w), m->w, q.thing);
    way(m, &q);
}

static const char *fresh_name(struct demo *m)
{
    const struct sr1__pool_names *p = &m->d->fresh;

    return p->names[sr1__rng_below(m->rng, p->n)];
}

static void stage_repeat(struct demo *m, struct sr1__buf *question)
{
    size_t n = 6 + (size_t)sr1__rng_below(m->rng, 10);
    struct sr1__buf list;

    sr1__buf_str(question, "Repeat the list.");
    sr1__buf_init(&list, 0);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(&list, " %s", fresh_name(m));
    check(m, sr1__buf_status(&list, "list"));
    add_segment(m, "environment", sr1__buf_cstr(&list));
    say(m, sr1__buf_cstr(&list));
    sr1__buf_free(&list);
}

/* A few passages about things of one world, then every subject twice in random order. */
static void stage_look_up(struct demo *m, struct sr1__buf *question)
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
        check(m, sr1__buf_status(&text, "passages"));
        flush(m);
        add_segment(m, "environment", sr1__buf_cstr(&text));
        sr1__buf_clear(&text);
        say(m, " ");
        say_name(m, m->w->things[thing].object);
        say(m, " .");
    }
    sr1__buf_free(&text);
}

static void stage_one_hop(struct demo *m, struct sr1__buf *question)
{
    ask(m, question, 0.0, way_good);
}

static void stage_two_hops(struct demo *m, struct sr1__buf *question)
{
    ask(m, question, m->d->two_hops, way_good);
}

static void stage_mixed(struct demo *m, struct sr1__buf *question)
{
    ask(m, question, m->d->two_hops, mixed_way);
}

static void (*const stages[])(struct demo *m, struct sr1__buf *question) = {
    stage_repeat, stage_look_up, stage_one_hop, stage_two_hops, stage_mixed};

sr1_status sr1__demo_write(struct sr1__buf *out, int32_t stage, struct sr1__rng *rng,
                           const struct sr1__demo_worlds *d)
{
    struct demo m = {.d = d, .rng = rng, .segments = json_array(), .shown = -1};
    struct sr1__buf question;
    json_t *row = NULL;

    m.world = (int32_t)sr1__rng_below(rng, (uint64_t)d->n);
    m.w = &d->worlds[m.world];
    sr1__buf_init(&m.said, 0);
    sr1__buf_init(&question, 0);
    stages[stage](&m, &question);
    flush(&m);
    check(&m, sr1__buf_status(&m.said, "demonstration"));
    check(&m, sr1__buf_status(&question, "question"));
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
