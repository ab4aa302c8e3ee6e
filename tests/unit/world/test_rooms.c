/* The world of rooms: every world can be solved within its limit, actions change what
 * they should and nothing else, and files are as the header tells. */
#include "support/files.h"
#include "support/torture.h"

#include "base/json.h"
#include "environment/env/protocol.h"
#include "environment/world/rooms.h"

#include <searchr1/env.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/thinking.h>

#include <stdio.h>
#include <string.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

static void same_state(const struct sr1__rooms_state *a, const struct sr1__rooms_state *b)
{
    assert_int_equal(a->at, b->at);
    assert_int_equal(a->doors, b->doors);
    assert_int_equal(a->open, b->open);
    assert_memory_equal(a->place, b->place, sizeof a->place);
}

/* ---- worlds ---- */

static int64_t begin(sr1_env *env, int32_t split, uint64_t seed)
{
    int64_t episode = 0;
    char id[64];

    snprintf(id, sizeof id, "rooms-%s-%llu", sr1__rooms_splits[split],
             (unsigned long long)seed);
    OK(sr1_env_begin(env, id, NULL, 0, 0, &episode));
    return episode;
}

/* One action; the text of the answer is freed. */
static sr1_env_reply step(sr1_env *env, int64_t episode, const char *action, char **said)
{
    sr1_env_reply reply = {.struct_size = sizeof reply};
    char *text = NULL;
    size_t len;

    OK(sr1_env_step(env, episode, action, strlen(action), &reply, &text, &len));
    if (said != NULL)
        *said = text;
    else
        sr1_free(text);
    return reply;
}

/* Acting out the plan by its words: 4 to 12 actions, 3 to 6 in a small world; only the
 * last earns anything. */
static void every_world_is_solved_by_its_plan(void **state)
{
    sr1_env *env = NULL;
    int32_t longest = 0, shortest = 99;

    (void)state;
    OK(sr1_rooms_env_open(&env, NULL));
    for (uint64_t seed = 0; seed < 1000; seed++) {
        int32_t split = (int32_t)(seed % (2 * SR1__ROOMS_SPLITS)), n = 0;
        int is_small = split >= SR1__ROOMS_SMALL;
        sr1_rooms_task t = {.struct_size = sizeof t};
        int64_t episode = begin(env, split, seed);
        char *line, *rest = NULL;

        OK(sr1_rooms_make(sr1__rooms_splits[split], seed, &t));
        for (line = strtok_r(t.plan, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest)) {
            sr1_env_reply r = step(env, episode, line, NULL);

            n++;
            assert_int_equal(r.flags, 0);
            assert_int_equal(r.done, n == t.shortest);
            assert_int_equal(r.success, n == t.shortest);
            assert_true(r.reward == (n == t.shortest ? 1.0 : 0.0));
        }
        assert_int_equal(n, t.shortest);
        assert_in_range(n, is_small ? SR1__ROOMS_SMALL_LEAST : SR1__ROOMS_LEAST,
                        is_small ? SR1__ROOMS_SMALL_MOST : SR1__ROOMS_MOST);
        longest = n > longest ? n : longest;
        shortest = !is_small && n < shortest ? n : shortest;
        sr1_env_finish(env, episode);
        sr1_free(t.question);
        sr1_free(t.plan);
    }
    assert_int_equal(shortest, SR1__ROOMS_LEAST);
    assert_true(longest >= 10);
    sr1_env_free(env);
}

/* Is the goal within reach of n actions of any kind? Only goals and what is about the
 * goal's object are tried, but closing and dropping too. */
static int within(const struct sr1__rooms *w, const struct sr1__rooms_state *s, int32_t n)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    size_t count, i;

    if (sr1__rooms_solved(w, s))
        return 1;
    count = n > 0 ? sr1__rooms_admissible(w, s, all) : 0;
    for (i = 0; i < count; i++) {
        struct sr1__rooms_state t = sr1__rooms_after(s, all[i]);

        if (memcmp(&t, s, sizeof t) != 0 && within(w, &t, n - 1))
            return 1;
    }
    return 0;
}

/* By trying everything, other objects too. */
static void no_plan_is_shorter(void **state)
{
    int32_t tried = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct sr1__rooms w;

        OK(sr1__rooms_make(&w, SR1__ROOMS_TRAIN, seed));
        if (w.shortest > 5)
            continue;
        tried++;
        assert_false(within(&w, &w.start, w.shortest - 1));
        assert_true(within(&w, &w.start, w.shortest));
    }
    assert_true(tried >= 5);
}

/* No pair of colour and noun is in two splits, and each word is in all of them. */
static void names_are_held_out(void **state)
{
    int8_t pair[2][16][16] = {{{0}}}, noun[2][16] = {{0}};

    (void)state;
    for (uint64_t seed = 0; seed < 900; seed++) {
        int32_t split = (int32_t)(seed % 3);
        struct sr1__rooms w;

        OK(sr1__rooms_make(&w, split, seed));
        for (int32_t k = 0; k < 2; k++) {
            const struct sr1__rooms_name *names = k ? w.container : w.object;
            int32_t n = k ? w.n_containers : w.n_objects;

            for (int32_t i = 0; i < n; i++) {
                pair[k][names[i].colour][names[i].noun] |= (int8_t)(1 << split);
                noun[k][names[i].noun] |= (int8_t)(1 << split);
                for (int32_t j = 0; j < i; j++)
                    assert_int_not_equal(names[i].noun, names[j].noun);
            }
        }
    }
    for (int32_t k = 0; k < 2; k++)
        for (int32_t i = 0; i < 16; i++) {
            assert_true(noun[k][i] == 0 || noun[k][i] == 7);
            for (int32_t c = 0; c < 16; c++) {
                int8_t s = pair[k][c][i];

                assert_true(s == 0 || s == 1 || s == 2 || s == 4);
            }
        }
}

/* ---- actions ---- */

/* The action that undoes a; 0: a changes nothing. */
static int inverse(const struct sr1__rooms_state *before, struct sr1__rooms_action a,
                   struct sr1__rooms_action *back)
{
    static const enum sr1__rooms_verb other[SR1__ROOMS_VERBS] = {
        [SR1__ROOMS_GO] = SR1__ROOMS_GO,
        [SR1__ROOMS_OPEN_DOOR] = SR1__ROOMS_CLOSE_DOOR,
        [SR1__ROOMS_CLOSE_DOOR] = SR1__ROOMS_OPEN_DOOR,
        [SR1__ROOMS_OPEN] = SR1__ROOMS_CLOSE,
        [SR1__ROOMS_CLOSE] = SR1__ROOMS_OPEN,
        [SR1__ROOMS_DROP] = SR1__ROOMS_TAKE,
        [SR1__ROOMS_PUT] = SR1__ROOMS_TAKE,
    };

    *back = (struct sr1__rooms_action){other[a.verb], a.a, 0};
    if (a.verb == SR1__ROOMS_GO)
        back->a = before->at;
    if (a.verb == SR1__ROOMS_TAKE) {
        int32_t from = before->place[a.a];

        back->verb = from < SR1__ROOMS_IN ? SR1__ROOMS_DROP : SR1__ROOMS_PUT;
        back->b = (int8_t)(from < SR1__ROOMS_IN ? 0 : from - SR1__ROOMS_IN);
    }
    return back->verb != SR1__ROOMS_LOOK;
}

static int is_admissible(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                         struct sr1__rooms_action a)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    size_t n = sr1__rooms_admissible(w, s, all), i;

    for (i = 0; i < n; i++)
        if (all[i].verb == a.verb && all[i].a == a.a && all[i].b == a.b)
            return 1;
    return 0;
}

static void check_places(const struct sr1__rooms *w, const struct sr1__rooms_state *s)
{
    assert_in_range(s->at, 0, w->n_rooms - 1);
    for (int32_t i = 0; i < w->n_objects; i++) {
        int32_t p = s->place[i];

        assert_true((p >= 0 && p < w->n_rooms) || p == SR1__ROOMS_HELD ||
                    (p >= SR1__ROOMS_IN && p < SR1__ROOMS_IN + w->n_containers));
    }
}

/* Each admissible action is read back from its words, and its inverse restores. */
static void check_actions(const struct sr1__rooms *w, const struct sr1__rooms_state *s)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS], back, read;
    size_t n = sr1__rooms_admissible(w, s, all), i;
    char text[SR1__ROOMS_TEXT];

    assert_true(n >= 4 && n <= SR1__ROOMS_ACTIONS);
    for (i = 0; i < n; i++) {
        struct sr1__rooms_state t = sr1__rooms_after(s, all[i]), u;

        check_places(w, &t);
        sr1__rooms_action_text(text, w, all[i]);
        assert_true(sr1__rooms_read_action(w, s, text, strlen(text), &read));
        assert_int_equal(read.verb, all[i].verb);
        assert_int_equal(read.a, all[i].a);
        assert_int_equal(read.b, all[i].b);
        if (!inverse(s, all[i], &back)) {
            same_state(&t, s);
            continue;
        }
        assert_int_not_equal(memcmp(&t, s, sizeof t), 0);
        assert_true(is_admissible(w, &t, back));
        u = sr1__rooms_after(&t, back);
        same_state(&u, s);
    }
}

static void random_walks_keep_the_world_whole(void **state)
{
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 11, 0);
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct sr1__rooms w;
        struct sr1__rooms_state s;

        OK(sr1__rooms_make(&w, SR1__ROOMS_TRAIN, seed));
        s = w.start;
        for (int32_t i = 0; i < 40; i++) {
            struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
            size_t n = sr1__rooms_admissible(&w, &s, all);

            check_actions(&w, &s);
            s = sr1__rooms_after(&s, all[sr1__rng_below(&rng, n)]);
        }
    }
}

/* A world made by hand: room 0 the kitchen with the red box (open), room 1 the hall with
 * the blue chest (closed) that holds the green key. The door between is closed. */
static struct sr1__rooms by_hand(void)
{
    struct sr1__rooms w = {.n_rooms = 2, .n_containers = 2, .n_objects = 1};

    w.room[0] = (struct sr1__rooms_name){-1, 0};
    w.room[1] = (struct sr1__rooms_name){-1, 2};
    w.container[0] = (struct sr1__rooms_name){0, 0};
    w.container[1] = (struct sr1__rooms_name){1, 1};
    w.object[0] = (struct sr1__rooms_name){2, 0};
    w.container_room[1] = 1;
    w.start.at = 1;
    w.start.open = 1;
    w.start.place[0] = SR1__ROOMS_IN + 1;
    return w;
}

static void texts_and_plan_by_hand(void **state)
{
    static const char *const plan[] = {
        "open the door to the kitchen", "open the blue chest", "take the green key",
        "go to the kitchen", "put the green key into the red box"};
    struct sr1__rooms w = by_hand();
    struct sr1__rooms_action found[SR1__ROOMS_PLAN_MAX], a;
    struct sr1__rooms_state s = w.start;
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__rooms_append_task(&b, &w);
    assert_string_equal(
        sr1__buf_cstr(&b),
        "Your task: put the green key into the red box in the kitchen. You know that the "
        "green key is in the blue chest in the hall.\n"
        "You are in the hall. Here is the blue chest. It is closed. On the floor: "
        "nothing.\n"
        "You can: open the door to the kitchen, open the blue chest, look, inventory, "
        "examine a thing.");
    assert_int_equal(sr1__rooms_plan(&w, &w.start, found), 5);
    assert_false(sr1__rooms_read_action(&w, &s, plan[2], strlen(plan[2]), &a));
    for (size_t i = 0; i < 5; i++) {
        assert_true(sr1__rooms_read_action(&w, &s, plan[i], strlen(plan[i]), &a));
        s = sr1__rooms_after(&s, a);
        sr1__buf_clear(&b);
        sr1__rooms_append_result(&b, &w, &s, a);
        if (i == 1)
            assert_string_equal(
                sr1__buf_cstr(&b),
                "You open the blue chest. In it: the green key.\n"
                "You can: go to the kitchen, close the door to the kitchen, close the "
                "blue chest, take the green key, look, inventory, examine a thing.");
        if (i == 4)
            assert_string_equal(sr1__buf_cstr(&b),
                                "You put the green key into the red box.");
    }
    assert_true(sr1__rooms_solved(&w, &s));
    sr1__buf_free(&b);
}

static void words_are_read_loosely(void **state)
{
    static const struct {
        const char *text;
        int reads;
    } cases[] = {
        {"open the blue chest", 1},
        {"  OPEN\tBlue\nchest. ", 1},
        {"Open the the blue chest", 1},
        {"open blue", 0},
        {"open the red box", 0}, /* not here */
        {"open the blue chest now", 0},
        {"", 0},
        {"the", 0},
        {"openthebluechest", 0},
        {"op\0en", 0},
        {"take the green key", 0}, /* not seen */
        {"go to the kitchen", 0},  /* the door is closed */
    };
    struct sr1__rooms w = by_hand();
    struct sr1__rooms_action a;
    char long_one[4096];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(sr1__rooms_read_action(&w, &w.start, cases[i].text,
                                                strlen(cases[i].text), &a),
                         cases[i].reads);
    memset(long_one, 'a', sizeof long_one);
    assert_false(sr1__rooms_read_action(&w, &w.start, long_one, sizeof long_one, &a));
    memset(long_one, ' ', sizeof long_one);
    memcpy(long_one + sizeof long_one - 4, "look", 4);
    assert_true(sr1__rooms_read_action(&w, &w.start, long_one, sizeof long_one, &a));
}

/* ---- episodes ---- */

static void episodes_are_apart(void **state)
{
    sr1_env *env = NULL;
    int64_t a, b;
    char *said = NULL, *again = NULL;

    (void)state;
    OK(sr1_rooms_env_open(&env, NULL));
    a = begin(env, SR1__ROOMS_TEST, 3);
    b = begin(env, SR1__ROOMS_TEST, 3);
    assert_int_not_equal(a, b);
    {
        sr1_rooms_task t = {.struct_size = sizeof t};

        OK(sr1_rooms_make("test", 3, &t));
        *strchr(t.plan, '\n') = '\0';
        (void)step(env, a, t.plan, &said);
        assert_int_equal(step(env, a, t.plan, NULL).flags, SR1_ANSWER_UNEXECUTED);
        (void)step(env, b, t.plan, &again);
        assert_string_equal(said, again);
        sr1_free(t.question);
        sr1_free(t.plan);
    }
    sr1_free(said);
    sr1_free(again);
    sr1_env_finish(env, a);
    (void)step(env, b, "look", &said);
    assert_int_equal(sr1_env_step(env, a, "look", 4, NULL, &again, &(size_t){0}),
                     SR1_E_STATE);
    assert_int_equal(sr1_env_answer(env, "look", 4, &again, &(size_t){0}), SR1_E_STATE);
    sr1_free(said);
    sr1_env_free(env); /* with b under way */
}

static void unknown_actions_have_one_text(void **state)
{
    static const char *const odd[] = {"", "dance", "</action>", "\xff\xfe", "open"};
    sr1_env *env = NULL;
    int64_t e;

    (void)state;
    OK(sr1_rooms_env_open(&env, NULL));
    e = begin(env, SR1__ROOMS_TRAIN, 1);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char *said = NULL;
        sr1_env_reply r = step(env, e, odd[i], &said);

        assert_string_equal(said, "<observation>\nNothing happens.\n</observation>");
        assert_int_equal(r.flags, SR1_ANSWER_UNEXECUTED);
        assert_int_equal(r.done, 0);
        sr1_free(said);
    }
    sr1_env_free(env);
}

static void other_questions_are_refused(void **state)
{
    static const char *const ids[] = {"",
                                      "rooms",
                                      "rooms-",
                                      "rooms-train",
                                      "rooms-train-",
                                      "rooms-train-x",
                                      "rooms-dev-1",
                                      "rooms--1",
                                      "rooms-train--1",
                                      "room-train-1",
                                      "q-0123456789",
                                      "rooms-train-1 ",
                                      "rooms-train-18446744073709551616"};
    sr1_env *env = NULL;
    int64_t e = 7;
    sr1_rooms_task t = {.struct_size = sizeof t};

    (void)state;
    OK(sr1_rooms_env_open(&env, NULL));
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_int_equal(sr1_env_begin(env, ids[i], "x", 1, 0, &e), SR1_E_INVALID);
    assert_int_equal(e, 7);
    OK(sr1_env_begin(env, "rooms-train-18446744073709551615", "x", 1, 0, &e));
    assert_int_equal(sr1_rooms_make("dev", 1, &t), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_rooms_make(NULL, 1, &t), SR1_E_NOT_FOUND);
    t.struct_size = 12;
    assert_int_equal(sr1_rooms_make("train", 1, &t), SR1_E_INVALID);
    sr1_env_free(env);
}

static sr1_status play(void *arg)
{
    sr1_env *env = NULL;
    int64_t e = 0;
    char *text = NULL;
    size_t len;
    sr1_status st = sr1_rooms_env_open(&env, NULL);

    (void)arg;
    if (st == SR1_OK)
        st = sr1_env_begin(env, "rooms-train-4", "x", 1, 0, &e);
    if (st == SR1_OK)
        st = sr1_env_step(env, e, "look", 4, NULL, &text, &len);
    sr1_free(text);
    sr1_env_finish(env, e);
    sr1_env_free(env);
    return st;
}

static sr1_status demonstrate(void *arg)
{
    sr1_rooms_task t = {.struct_size = sizeof t};
    struct sr1__rng rng;
    struct sr1__buf out;
    sr1_env *env = NULL;
    sr1_status st = sr1_rooms_env_open(&env, NULL);

    (void)arg;
    sr1__rng_seed(&rng, 1, 1);
    sr1__buf_init(&out, 0);
    if (st == SR1_OK)
        st = sr1__rooms_append_demo(&out, env, SR1__ROOMS_TRAIN, 9, &rng);
    if (st == SR1_OK)
        st = sr1__buf_status(&out, "line");
    sr1__buf_free(&out);
    if (st == SR1_OK)
        st = sr1_rooms_make("train", 2, &t);
    sr1_free(st == SR1_OK ? t.question : NULL);
    sr1_free(st == SR1_OK ? t.plan : NULL);
    sr1_env_free(env);
    return st;
}

static void torture_play(void **state)
{
    (void)state;
    assert_true(torture(play, NULL) > 5);
    assert_true(torture(demonstrate, NULL) > 20);
}

/* ---- files ---- */

static sr1_rooms_options small(void)
{
    sr1_rooms_options o = {0};

    sr1_rooms_options_init(&o);
    o.seed = 3;
    o.train_questions = 12;
    o.validation_questions = o.test_questions = 5;
    o.demonstrations = 40;
    return o;
}

struct sums {
    int32_t levels[SR1_THINKING_LEVELS + 1];
    size_t thoughts[SR1_THINKING_LEVELS + 1];
};

/* Every message is a step of the protocol, the actions solve the world that the question
 * describes, and what is inserted is what the environment says. */
static void check_demo(const json_t *row, int32_t number, struct sums *sums)
{
    const json_t *segments = json_object_get(row, "segments");
    sr1_rooms_task t = {.struct_size = sizeof t};
    uint64_t seed = ((uint64_t)1 << 62) + 3000000 + (uint64_t)number;
    sr1_env_reply r = {.struct_size = sizeof r};
    sr1_env *env = NULL;
    int64_t e;
    size_t i;

    OK(sr1_rooms_make("train", seed, &t));
    assert_string_equal(json_string_value(json_object_get(row, "question")), t.question);
    assert_int_equal(json_array_size(segments), 2 * t.shortest - 1);
    OK(sr1_rooms_env_open(&env, NULL));
    e = begin(env, SR1__ROOMS_TRAIN, seed);
    for (i = 0; i < json_array_size(segments); i += 2) {
        const json_t *other = json_array_get(segments, i + 1);
        const char *said =
            json_string_value(json_object_get(json_array_get(segments, i), "text"));
        sr1_thinking_step s = {.struct_size = sizeof s};
        char action[128], *answer = NULL;

        OK(sr1_thinking_parse(said, strlen(said), &s));
        assert_int_equal(s.fallbacks, 0);
        sums->levels[s.level]++;
        sums->thoughts[s.level] += s.think_len;
        snprintf(action, sizeof action, "%.*s", (int)s.action_len, said + s.action_begin);
        r = step(env, e, action, &answer);
        assert_int_equal(r.flags, 0);
        if (other != NULL)
            assert_string_equal(json_string_value(json_object_get(other, "text")),
                                answer);
        sr1_free(answer);
    }
    assert_int_equal(r.success, 1);
    sr1_env_free(env);
    sr1_free(t.question);
    sr1_free(t.plan);
}

static int32_t each_line(const char *path, void (*use)(const json_t *, int32_t, void *),
                         void *arg)
{
    struct sr1__buf text;
    char *line, *end;
    int32_t n = 0;

    OK(sr1__file_read(scratch_path(path), 0, &text));
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, (size_t)(end - line), path));
        use(row, n, arg);
        json_decref(row);
    }
    sr1__buf_free(&text);
    return n;
}

static void use_demo(const json_t *row, int32_t n, void *arg)
{
    check_demo(row, n, arg);
}

static void use_question(const json_t *row, int32_t n, void *arg)
{
    sr1_rooms_task t = {.struct_size = sizeof t};
    char id[64];

    snprintf(id, sizeof id, "rooms-%s-%d", (const char *)arg, 3000000 + (int)n);
    OK(sr1_rooms_make(arg, 3000000 + (uint64_t)n, &t));
    assert_string_equal(json_string_value(json_object_get(row, "id")), id);
    assert_string_equal(json_string_value(json_object_get(row, "question")), t.question);
    sr1_free(t.question);
    sr1_free(t.plan);
}

static void files_hold_what_they_should(void **state)
{
    sr1_rooms_options o = small();
    struct sums sums = {{0}, {0}};
    char train[] = "train", validation[] = "validation", test[] = "test";
    int32_t i;

    (void)state;
    OK(sr1_rooms_write(scratch_path("rooms"), &o, NULL, NULL));
    assert_int_equal(each_line("rooms/sft.jsonl", use_demo, &sums), 40);
    for (i = 1; i <= SR1_THINKING_LEVELS; i++)
        assert_true(sums.levels[i] > 10);
    assert_int_equal(sums.thoughts[1], 0);
    for (i = 2; i <= SR1_THINKING_LEVELS; i++) /* longer by level, in the mean */
        assert_true(sums.thoughts[i] * (size_t)sums.levels[i - 1] >
                    sums.thoughts[i - 1] * (size_t)sums.levels[i]);
    assert_int_equal(each_line("rooms/train.jsonl", use_question, train), 12);
    assert_int_equal(each_line("rooms/validation.jsonl", use_question, validation), 5);
    assert_int_equal(each_line("rooms/test.jsonl", use_question, test), 5);
}

/* Small worlds: two rooms whose door is open, things without colours, and a shorter list
 * of what can be done. */
static void small_worlds_are_small(void **state)
{
    sr1_rooms_options o = small();
    char train[] = "small-train", test[] = "small-test";

    (void)state;
    o.struct_size = sizeof o;
    o.small = 1;
    OK(sr1_rooms_write(scratch_path("small"), &o, NULL, NULL));
    assert_int_equal(each_line("small/train.jsonl", use_question, train), 12);
    assert_int_equal(each_line("small/test.jsonl", use_question, test), 5);
    for (uint64_t seed = 0; seed < 200; seed++) {
        sr1_rooms_task t = {.struct_size = sizeof t};
        struct sr1__rooms w;

        OK(sr1__rooms_make(&w, SR1__ROOMS_SMALL + (int32_t)(seed % 3), seed));
        assert_true(w.n_rooms == 2 && w.n_containers == 2 && w.n_objects == 2);
        assert_true(w.start.doors == 2);
        assert_true(w.container_room[0] != w.container_room[1]);
        for (int i = 0; i < 2; i++)
            assert_true(w.object[i].colour < 0 && w.container[i].colour < 0);
        OK(sr1_rooms_make("small-train", seed, &t));
        assert_null(strstr(t.question, "close the"));
        assert_null(strstr(t.question, "door"));
        assert_non_null(strstr(t.question, "You can: go to the "));
        sr1_free(t.question);
        sr1_free(t.plan);
    }
}

static void files_repeat(void **state)
{
    static const char *const names[] = {"sft.jsonl", "train.jsonl",
                                        "tokenizer/tokenizer.json"};
    sr1_rooms_options o = small();

    (void)state;
    OK(sr1_rooms_write(scratch_path("once"), &o, NULL, NULL));
    OK(sr1_rooms_write(scratch_path("twice"), &o, NULL, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sr1__buf a, b;
        char path[64];

        snprintf(path, sizeof path, "once/%s", names[i]);
        OK(sr1__file_read(scratch_path(path), 0, &a));
        snprintf(path, sizeof path, "twice/%s", names[i]);
        OK(sr1__file_read(scratch_path(path), 0, &b));
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        sr1__buf_free(&a);
        sr1__buf_free(&b);
    }
    o.demonstrations = 0;
    assert_int_equal(sr1_rooms_write(scratch_path("no"), &o, NULL, NULL), SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_is_solved_by_its_plan),
        cmocka_unit_test(no_plan_is_shorter),
        cmocka_unit_test(names_are_held_out),
        cmocka_unit_test(random_walks_keep_the_world_whole),
        cmocka_unit_test(texts_and_plan_by_hand),
        cmocka_unit_test(words_are_read_loosely),
        cmocka_unit_test(episodes_are_apart),
        cmocka_unit_test(unknown_actions_have_one_text),
        cmocka_unit_test(other_questions_are_refused),
        cmocka_unit_test(torture_play),
        cmocka_unit_test_setup_teardown(files_hold_what_they_should, scratch_make,
                                        scratch_remove),
        cmocka_unit_test_setup_teardown(small_worlds_are_small, scratch_make,
                                        scratch_remove),
        cmocka_unit_test_setup_teardown(files_repeat, scratch_make, scratch_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
