/* environment/world/programs_rows.c - a row of a file of tiny programs: a problem, or a
 * demonstration of criticising or revising its solution.
 *
 * A critic compares what the task says with what the program does, slot by slot, up to
 * the one that is wrong; a careless one stops early. The reviser follows the critique,
 * right or wrong. */
#include "environment/world/programs.h"

#include "base/json.h"

/* ---- splits ---- */

/* Of five programs one is for validation, one for test. */
static int is_in_split(const struct sr1__program *p, enum sr1__programs_split split)
{
    static const enum sr1__programs_split of_fifth[] = {
        SR1__PROGRAMS_VALIDATION, SR1__PROGRAMS_TEST, SR1__PROGRAMS_TRAIN,
        SR1__PROGRAMS_TRAIN, SR1__PROGRAMS_TRAIN};

    return of_fifth[sr1__programs_hash(p) % 5] == split;
}

static void draw_problem(struct sr1__programs_problem *out,
                         enum sr1__programs_split split, struct sr1__rng *rng)
{
    do
        sr1__programs_draw(out, rng);
    while (!is_in_split(&out->right, split));
}

static int by_chance(struct sr1__rng *rng, double share)
{
    return sr1__rng_uniform(rng) < share;
}

/* One of the problem's bugs: a slot that has any, then one of its values. */
static struct sr1__programs_change draw_bug(const struct sr1__programs_problem *p,
                                            struct sr1__rng *rng)
{
    struct sr1__programs_change bug = p->bugs[0];
    uint64_t slots = 0, values = 0;
    int8_t last = -1;
    int32_t i;

    for (i = 0; i < p->n_bugs; i++) { /* they lie slot by slot */
        if (p->bugs[i].slot != last && sr1__rng_below(rng, ++slots) == 0)
            bug = p->bugs[i];
        last = p->bugs[i].slot;
    }
    for (last = bug.slot, i = 0; i < p->n_bugs; i++)
        if (p->bugs[i].slot == last && sr1__rng_below(rng, ++values) == 0)
            bug = p->bugs[i];
    return bug;
}

/* ---- what a row is about ---- */

struct row_task {
    struct sr1__programs_problem problem;
    struct sr1__program solution;
    int has_bug;
    struct sr1__programs_change mend; /* of the bug */
};

static void draw_task(struct row_task *t, enum sr1__programs_split split, double correct,
                      struct sr1__rng *rng)
{
    draw_problem(&t->problem, split, rng);
    t->solution = t->problem.right;
    t->has_bug = !by_chance(rng, correct);
    if (t->has_bug) {
        t->mend = draw_bug(&t->problem, rng);
        t->solution = sr1__programs_with(&t->problem.right, t->mend);
        t->mend.value = t->problem.right.value[t->mend.slot];
    }
}

/* A careless critic's chance to end its analysis after any slot. */
#define BORED 0.65

/* The number of slots compared in the analysis: up to the wrong one, unless the critic
 * stops earlier. */
static int32_t count_in_group_slots(const struct row_task *t, int careful,
                                    struct sr1__rng *rng)
{
    int32_t all = sr1__programs_families[t->solution.family].n_slots, n = 0;

    while (n < all && !(t->has_bug && n == t->mend.slot))
        if (n++, !careful && by_chance(rng, BORED))
            break;
    return n;
}

/* ---- rows ---- */

#define ROW_MAX 8192
#define COPIED_WORDS 24

/* The text as JSON; the buffer is empty afterwards. NULL if memory ran out: then its
 * member is missing, which add_line detects. */
static json_t *take_json_text(struct sr1__buf *b)
{
    json_t *text = b->status == SR1_OK ? json_stringn(sr1__buf_cstr(b), b->len) : NULL;

    sr1__buf_clear(b);
    return text;
}

static void set_row_member(json_t *row, const char *key, json_t *value)
{
    json_object_set_new(row, key, value);
}

/* The list if it is whole. */
static json_t *require_size(json_t *list, size_t n)
{
    if (json_array_size(list) == n)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *tests_of(const struct row_task *t, struct sr1__buf *b)
{
    json_t *tests = json_array();

    for (int32_t i = 0; i < SR1__PROGRAMS_TESTS; i++) {
        sr1__programs_append_test(b, &t->problem.right, &t->problem.tests[i]);
        json_array_append_new(tests, take_json_text(b));
    }
    return require_size(tests, SR1__PROGRAMS_TESTS);
}

/* Append row as a line and free it; missing members show that memory ran out. */
static sr1_status append_json_row(struct sr1__buf *out, json_t *row, size_t members)
{
    sr1_status st = row && json_object_size(row) == members ? sr1__json_dump(row, 0, out)
                                                            : sr1__fail_nomem("row");

    sr1__buf_char(out, '\n');
    json_decref(row);
    return st;
}

static sr1_status add_problem(struct sr1__buf *out, const struct row_task *t,
                              const char *split, int32_t i)
{
    json_t *row = json_object();
    struct sr1__buf b;

    sr1__buf_init(&b, ROW_MAX);
    sr1__buf_fmt(&b, "programs-%s-%d", split, (int)i);
    set_row_member(row, "id", take_json_text(&b));
    sr1__programs_append_prompt(&b, &t->problem.right, &t->solution);
    set_row_member(row, "question", take_json_text(&b));
    sr1__programs_append_task(&b, &t->problem.right);
    set_row_member(row, "problem", take_json_text(&b));
    sr1__programs_append_code(&b, &t->solution);
    set_row_member(row, "solution", take_json_text(&b));
    sr1__programs_append_code(&b, &t->problem.right);
    set_row_member(row, "reference", take_json_text(&b));
    set_row_member(row, "tests", tests_of(t, &b));
    set_row_member(row, "golden_answers",
                   json_pack("[O]", json_object_get(row, "reference")));
    set_row_member(row, "data_source", json_string("programs"));
    sr1__buf_free(&b);
    return append_json_row(out, row, 8);
}

static sr1_status add_critique(struct sr1__buf *out, const struct row_task *t,
                               int careful, struct sr1__rng *rng)
{
    int32_t n = count_in_group_slots(t, careful, rng);
    struct sr1__programs_critique c = {&t->problem.right, &t->solution, n,
                                       t->has_bug && n == t->mend.slot ? &t->mend : NULL};
    json_t *row = json_object();
    struct sr1__buf b;

    sr1__buf_init(&b, ROW_MAX);
    sr1__programs_append_prompt(&b, &t->problem.right, &t->solution);
    set_row_member(row, "question", take_json_text(&b));
    sr1__programs_append_critique(&b, &c);
    sr1__buf_str(&b, "<|im_end|>");
    set_row_member(
        row, "segments",
        json_pack("[{s:s, s:o}]", "source", "policy", "text", take_json_text(&b)));
    sr1__buf_free(&b);
    return append_json_row(out, row, 2);
}

/* Write a message into b; context is not trained on, whatever its role. */
static void add_message_json(json_t *list, const char *role, int context,
                             struct sr1__buf *b)
{
    json_t *m = json_pack("{s:s, s:o}", "role", role, "content", take_json_text(b));

    if (m && context && json_object_set_new(m, "weight", json_integer(0)) != 0) {
        json_decref(m);
        m = NULL;
    }
    json_array_append_new(list, m);
}

/* A conversation: the task, a text of `say`, a critique, and the text as revised. */
static sr1_status add_conversation(struct sr1__buf *out, const struct row_task *t,
                                   const struct sr1__programs_critique *c,
                                   const char *given, const char *revised)
{
    json_t *row = json_object(), *list = json_array();
    struct sr1__buf b;

    sr1__buf_init(&b, ROW_MAX);
    sr1__programs_append_task(&b, &t->problem.right);
    add_message_json(list, "user", 0, &b);
    sr1__buf_str(&b, given);
    add_message_json(list, "assistant", 1, &b);
    sr1__programs_append_critique(&b, c);
    sr1__buf_str(&b,
                 "\n\nPlease finalize your answer accordingly using the same format.");
    add_message_json(list, "user", 0, &b);
    sr1__buf_str(&b, revised);
    add_message_json(list, "assistant", 0, &b);
    set_row_member(row, "messages", require_size(list, 4));
    sr1__buf_free(&b);
    return append_json_row(out, row, 1);
}

static int32_t draw_compared_slots(const struct sr1__program *p, struct sr1__rng *rng)
{
    int32_t all = sr1__programs_families[p->family].n_slots;

    return 1 + (int32_t)sr1__rng_below(rng, (uint64_t)all);
}

/* Advice that a reviser follows: often right, as often any, at times none. Half of the
 * solutions have nothing to do with the task, so the reviser learns to follow the
 * critique instead of solving the task. */
static sr1_status add_revision(struct sr1__buf *out, const struct row_task *t,
                               struct sr1__rng *rng)
{
    int related = by_chance(rng, 0.5), advised = !by_chance(rng, 0.3);
    struct sr1__program solution = t->solution, after;
    struct sr1__programs_critique said = {&t->problem.right, &solution, 0, NULL};
    struct sr1__programs_change c;
    struct sr1__buf given, revised;
    sr1_status st;

    if (!related)
        sr1__programs_redraw(&solution, rng);
    c = sr1__programs_any_change(&solution, rng);
    if (related && t->has_bug && by_chance(rng, 0.5))
        c = t->mend;
    after = advised ? sr1__programs_with(&solution, c) : solution;
    said.advice = advised ? &c : NULL;
    said.compared = advised ? c.slot : draw_compared_slots(&solution, rng);
    sr1__buf_init(&given, ROW_MAX);
    sr1__buf_init(&revised, ROW_MAX);
    sr1__programs_append_code(&given, &solution);
    sr1__programs_append_code(&revised, &after);
    st = given.status == SR1_OK ? revised.status : given.status;
    if (st == SR1_OK)
        st = add_conversation(out, t, &said, given.data, revised.data);
    sr1__buf_free(&given);
    sr1__buf_free(&revised);
    return st;
}

/* The shape of a revision with words at random in the place of a program. All of them
 * have to be copied, so that copying is learned early. */
static sr1_status add_copy(struct sr1__buf *out, const struct row_task *t,
                           struct sr1__rng *rng)
{
    struct sr1__programs_critique said = {&t->problem.right, &t->problem.right,
                                          draw_compared_slots(&t->solution, rng), NULL};
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, ROW_MAX);
    sr1__buf_str(&b, "```python\n");
    sr1__programs_append_words(&b, COPIED_WORDS, rng);
    sr1__buf_str(&b, "\n```");
    st = sr1__buf_status(&b, "words");
    if (st == SR1_OK)
        st = add_conversation(out, t, &said, b.data, b.data);
    sr1__buf_free(&b);
    return st;
}

sr1_status sr1__programs_row(struct sr1__buf *out, const struct sr1__programs_part *p,
                             int32_t i, double correct, struct sr1__rng *rng)
{
    struct row_task t;

    draw_task(&t, p->split, correct, rng);
    switch (p->form) {
    case SR1__PROGRAMS_PROBLEM:
        return add_problem(out, &t, p->name, i);
    case SR1__PROGRAMS_COPY:
        return add_copy(out, &t, rng);
    case SR1__PROGRAMS_CARELESS:
        return add_critique(out, &t, 0, rng);
    default:
        SR1__TRY(add_critique(out, &t, 1, rng));
        return add_revision(out, &t, rng);
    }
}
