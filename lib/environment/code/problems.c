/* environment/code/problems.c - sets of code problems: rows of files read by their
 * shapes, found by id. */
#include "environment/code/problems.h"

#include "base/file.h"
#include "base/hash_index.h"
#include "base/log.h"
#include "base/map_watch.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/struct.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TIME_LIMIT_DEFAULT 10.0
#define TIME_LIMIT_MAX 3600.0

struct sr1_problems {
    atomic_int references;
    struct sr1_problem *items;
    size_t n;
    size_t cap;
    struct sr1__hash_index by_id;
    size_t n_rows;
    struct sr1__hash_index left_out; /* of them: without tests; their ids */
    int64_t max_tests;
    double time_limit;
    const struct sr1__shape *shape; /* NULL: by each row's members */
};

/* ---- lifetime ---- */

static void clear_problem(struct sr1_problem *p)
{
    for (size_t i = 0; i < p->n_tests; i++)
        sr1__free(p->tests[i].input);
    sr1__free(p->tests);
    sr1__free(p->id);
    sr1__free(p->text);
    sr1__free(p->solution);
    sr1__free(p->reference);
    sr1__free(p->entry);
    sr1__free(p->starter);
    sr1__free(p->source);
    sr1__free(p->prelude);
    sr1__free(p->setup);
}

sr1_problems *sr1_problems_retain(sr1_problems *problems)
{
    if (problems != NULL)
        atomic_fetch_add(&problems->references, 1);
    return problems;
}

void sr1_problems_free(sr1_problems *problems)
{
    if (problems == NULL || atomic_fetch_sub(&problems->references, 1) > 1)
        return;
    for (size_t i = 0; i < problems->n; i++)
        clear_problem(&problems->items[i]);
    sr1__free(problems->items);
    sr1__hash_index_free(&problems->by_id);
    sr1__hash_index_free(&problems->left_out);
    sr1__free(problems);
}

/* ---- by id ---- */

static uint64_t hash_problem_id(const char *id)
{
    return sr1__hash64(id, strlen(id), 0);
}

const sr1_problem *sr1_problems_find(const sr1_problems *problems, const char *id)
{
    struct sr1__hash_probe p = {id != NULL ? hash_problem_id(id) : 0};

    if (problems == NULL || id == NULL)
        return NULL;
    while (sr1__hash_index_next(&problems->by_id, &p))
        if (strcmp(problems->items[p.item].id, id) == 0)
            return &problems->items[p.item];
    return NULL;
}

int sr1__problem_is_left_out(const sr1_problems *problems, const char *id)
{
    struct sr1__hash_probe p = {hash_problem_id(id)};

    return sr1_problems_find(problems, id) == NULL &&
           sr1__hash_index_next(&problems->left_out, &p);
}

/* ---- one row ---- */

static sr1_status find_shape(const json_t *row, const struct sr1__shape **out)
{
    for (size_t i = 0; i < sr1__n_shapes; i++) {
        if (sr1__shapes[i].fits(row)) {
            *out = &sr1__shapes[i];
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_PARSE, "the row has no shape that is known: there is none of "
                                  "tests, test_list, canonical_solution, input_output, "
                                  "public_tests, public_test_cases, content");
}

/* The id that the row has; p->id stays NULL where there is none. */
static sr1_status read_problem_id(struct sr1_problem *p, const json_t *row,
                                  const struct sr1__shape *shape)
{
    struct sr1__buf number;
    sr1_status status;

    for (size_t i = 0; i < 3 && shape->ids[i] != NULL; i++) {
        const json_t *v = json_object_get(row, shape->ids[i]);

        if (json_is_integer(v)) {
            sr1__buf_init(&number, 32);
            sr1__buf_fmt(&number, "%lld", (long long)json_integer_value(v));
            status = sr1__buf_status(&number, "id");
            p->id = status == SR1_OK ? sr1__buf_take(&number) : NULL;
            return p->id != NULL ? SR1_OK : sr1__fail_nomem("id");
        }
        if (v != NULL && !json_is_null(v))
            return sr1__row_need(row, shape->ids[i], &p->id);
    }
    return SR1_OK;
}

/* An id for a row without one: the hash of its text, as a row of questions has it, and
 * behind it the number of the row where another has the same text. */
static sr1_status make_id(const struct sr1_problems *s, struct sr1_problem *p)
{
    char id[64];
    int n =
        snprintf(id, sizeof id, "%016" PRIx64, sr1__hash64(p->text, strlen(p->text), 0));

    if (sr1_problems_find(s, id) != NULL)
        snprintf(id + n, sizeof id - (size_t)n, "-%zu", s->n + 1);
    return sr1__copy_text(&p->id, id, strlen(id));
}

static const struct time_unit {
    const char *name;
    double seconds;
} time_units[] = {
    {"", 1},
    {"s", 1},
    {"sec", 1},
    {"secs", 1},
    {"second", 1},
    {"seconds", 1},
    {"ms", 0.001},
    {"msec", 0.001},
    {"msecs", 0.001},
    {"millis", 0.001},
    {"min", 60},
    {"mins", 60},
    {"minute", 60},
    {"minutes", 60},
    {"millisecond", 0.001},
    {"milliseconds", 0.001},
};

/* What stands behind the number; NULL: it is none of them. */
static const struct time_unit *find_time_unit(struct sr1__str name)
{
    for (size_t i = 0; i < sizeof(time_units) / sizeof(time_units[0]); i++)
        if (name.n == strlen(time_units[i].name) &&
            strncasecmp(name.s, time_units[i].name, name.n) == 0)
            return &time_units[i];
    return NULL;
}

/* "2.0 seconds", "500 ms", "1 minute"; empty: none. */
static sr1_status read_limit_text(const char *text, double *seconds)
{
    size_t at = 0, n = strlen(text), digits;
    const struct time_unit *unit;

    sr1__strip(text, &at, &n);
    if (n == 0)
        return SR1_OK;
    digits = strspn(text + at, "0123456789.");
    if (digits < n && text[at + n - 1] == '.')
        n--; /* "2 sec." */
    if (!sr1__parse_real(text + at, digits, seconds))
        unit = NULL;
    else {
        size_t from = at + digits, rest = n - digits;

        sr1__strip(text, &from, &rest);
        unit = find_time_unit((struct sr1__str){text + from, rest});
    }
    if (unit == NULL)
        return sr1__fail(
            SR1_E_PARSE,
            "'time_limit' is '%.64s'; write seconds as a number, or a number "
            "with s, seconds, ms or minutes",
            text);
    *seconds *= unit->seconds;
    return SR1_OK;
}

/* Seconds as a number, as text of a number and a unit, or in two parts. */
static sr1_status limit_of(const json_t *v, double *out)
{
    double seconds = 0;

    if (json_is_number(v)) {
        seconds = json_number_value(v);
    } else if (json_is_string(v)) {
        SR1__TRY(read_limit_text(json_string_value(v), &seconds));
    } else if (json_is_object(v)) {
        seconds = json_number_value(json_object_get(v, "seconds")) +
                  1e-9 * json_number_value(json_object_get(v, "nanos"));
    }
    if (!(seconds >= 0 && seconds <= TIME_LIMIT_MAX))
        return sr1__fail(SR1_E_PARSE, "'time_limit' is not within 0 and %g seconds",
                         TIME_LIMIT_MAX);
    if (seconds > 0)
        *out = seconds;
    return SR1_OK;
}

static uint64_t hash_counted_bytes(uint64_t h, const char *s, size_t n)
{
    uint64_t len = s != NULL ? n : UINT64_MAX;

    h = sr1__hash64(&len, sizeof(len), h);
    return s != NULL ? sr1__hash64(s, n, h) : h;
}

static uint64_t hash_optional_text(uint64_t h, const char *s)
{
    return hash_counted_bytes(h, s, s != NULL ? strlen(s) : 0);
}

static uint64_t digest_problem(const struct sr1_problem *p, uint64_t seed)
{
    uint64_t h = seed + (uint64_t)p->style * 4 + (uint64_t)p->unwrap;

    h = hash_optional_text(
        hash_optional_text(hash_optional_text(h, p->prelude), p->setup), p->entry);
    for (size_t i = 0; i < p->n_tests; i++) {
        h = hash_counted_bytes(h, p->tests[i].input, p->tests[i].input_len);
        h = hash_counted_bytes(h, p->tests[i].expected, p->tests[i].expected_len);
    }
    return h;
}

/* Words by which code comes to see names or lines of other code. */
static int has_observer_word(const char *s)
{
    static const char *const words[] = {
        "locals", "globals", "vars", "dir", "getattr",   "eval", "exec", "compile",
        "open",   "inspect", "dis",  "ast", "traceback", "sys",  "gc",   "os",
    };

    if (s == NULL || strstr(s, "__") != NULL)
        return s != NULL;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (sr1__has_word(s, words[i], strlen(words[i])))
            return 1;
    return 0;
}

static void look_for_observers(struct sr1_problem *p)
{
    p->observing = has_observer_word(p->prelude) || has_observer_word(p->setup);
    for (size_t i = 0; p->style == SR1_CODE_ASSERT && i < p->n_tests; i++)
        p->observing |= has_observer_word(p->tests[i].input);
}

static sr1_status check_problem(const struct sr1_problem *p,
                                const struct sr1__shape *shape)
{
    if (p->n_tests == 0 && shape->untested_rows)
        return SR1_OK;
    if (p->n_tests == 0)
        return sr1__fail(SR1_E_PARSE, "problem '%s' has no tests", p->id);
    if (p->style == SR1_CODE_CALL && (p->entry == NULL || !*p->entry))
        return sr1__fail(SR1_E_PARSE,
                         "problem '%s' does not name the function to call: 'entry_point'",
                         p->id);
    return SR1_OK;
}

static sr1_status read_problem_row(struct sr1_problems *s, struct sr1_problem *p,
                                   const json_t *row)
{
    const struct sr1__shape *shape = s->shape;

    if (!json_is_object(row))
        return sr1__fail(SR1_E_PARSE, "the row is not an object");
    if (shape == NULL)
        SR1__TRY(find_shape(row, &shape));
    SR1__TRY(read_problem_id(p, row, shape));
    p->set = s;
    p->style = -1;
    p->time_limit = s->time_limit;
    p->max_tests = s->max_tests > 0 ? (size_t)s->max_tests : SIZE_MAX;
    SR1__TRY(limit_of(json_object_get(row, "time_limit"), &p->time_limit));
    SR1__TRY(sr1__row_text(row, "solution", &p->solution));
    SR1__TRY(sr1__row_text(row, "data_source", &p->source));
    SR1__TRY(shape->read(p, row));
    if (p->id == NULL)
        SR1__TRY(make_id(s, p));
    if (sr1_problems_find(s, p->id) != NULL)
        return sr1__fail(SR1_E_INVALID, "problem '%s' comes twice", p->id);
    if (p->source == NULL)
        SR1__TRY(sr1__copy_text(&p->source, shape->name, strlen(shape->name)));
    SR1__TRY(check_problem(p, shape));
    look_for_observers(p);
    p->digest[0] = digest_problem(p, 1);
    p->digest[1] = digest_problem(p, UINT64_C(0x9e3779b97f4a7c15));
    return SR1_OK;
}

static sr1_status add_problem_row(struct sr1_problems *s, const char *line, size_t n)
{
    struct sr1_problem *p;
    json_t *row = NULL;
    int untested;
    sr1_status status;

    if (n > SR1_PROBLEM_ROW_MAX)
        return sr1__fail(SR1_E_LIMIT, "the row is longer than %zu bytes",
                         SR1_PROBLEM_ROW_MAX);
    if (s->n >= SR1_PROBLEMS_MAX)
        return sr1__fail(SR1_E_LIMIT, "more than %d problems", SR1_PROBLEMS_MAX);
    SR1__RESERVE(s->items, s->cap, s->n + 1, "code problems");
    SR1__TRY(sr1__json_parse(&row, line, n, NULL));
    p = &s->items[s->n];
    memset(p, 0, sizeof(*p));
    p->row = s->n_rows;
    status = read_problem_row(s, p, row);
    untested = status == SR1_OK && p->n_tests == 0;
    if (status == SR1_OK)
        status = sr1__hash_index_add(untested ? &s->left_out : &s->by_id,
                                     hash_problem_id(p->id), s->n);
    json_decref(row);
    if (status != SR1_OK || untested)
        clear_problem(p);
    SR1__TRY(status);
    s->n_rows++;
    s->n += (size_t)!untested;
    return SR1_OK;
}

static int is_blank_row(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return 0;
    return 1;
}

static sr1_status add_problem_rows(struct sr1_problems *s, const char *text, size_t n,
                                   const char *name)
{
    size_t at = 0;

    for (int64_t line = 1; at < n; line++) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end != NULL ? (size_t)(end - text) - at : n - at;

        if (!is_blank_row(text + at, len))
            SR1__TRY(sr1__context(add_problem_row(s, text + at, len), "%s:%lld", name,
                                  (long long)line));
        at += len + 1;
    }
    return SR1_OK;
}

/* ---- loading ---- */

static sr1_status name_shape(const char *name, const struct sr1__shape **out)
{
    *out = NULL;
    if (name == NULL || strcmp(name, "auto") == 0)
        return SR1_OK;
    for (size_t i = 0; i < sr1__n_shapes; i++)
        if (strcmp(sr1__shapes[i].name, name) == 0)
            *out = &sr1__shapes[i];
    if (*out == NULL)
        return sr1__fail(
            SR1_E_INVALID,
            "problems: shape '%.40s' is not known; known: auto, plain, mbpp, "
            "humaneval, apps, codecontests, livecodebench",
            name);
    return SR1_OK;
}

void sr1_problems_options_init(sr1_problems_options *options)
{
    static const sr1_problems_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status new_set(struct sr1_problems **out, const sr1_problems_options *options)
{
    sr1_problems_options o = {.struct_size = sizeof(o)};
    const struct sr1__shape *shape;
    struct sr1_problems *s;

    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_problems_options, struct_size),
                              "problems options"));
    SR1__TRY(name_shape(o.shape, &shape));
    if (o.max_tests < 0 || !(o.time_limit >= 0 && o.time_limit <= TIME_LIMIT_MAX))
        return sr1__fail(SR1_E_INVALID,
                         "problems: max_tests must be at least 0, time_limit within 0 "
                         "and %g",
                         TIME_LIMIT_MAX);
    SR1__CALLOC(s, 1, "code problems");
    atomic_init(&s->references, 1);
    s->shape = shape;
    s->max_tests = o.max_tests;
    s->time_limit = o.time_limit > 0 ? o.time_limit : TIME_LIMIT_DEFAULT;
    *out = s;
    return SR1_OK;
}

static sr1_status return_problem_set(sr1_problems **out, struct sr1_problems *s,
                                     sr1_status status, const char *name)
{
    if (status == SR1_OK && s->n == 0 && s->left_out.n > 0)
        status = sr1__fail(SR1_E_INVALID,
                           "%s: there is no problem in it that has tests (rows: %zu)",
                           name, s->n_rows);
    else if (status == SR1_OK && s->n == 0)
        status = sr1__fail(SR1_E_INVALID, "%s: there is no problem in it", name);
    if (status == SR1_OK && s->left_out.n > 0)
        sr1__log(SR1_LOG_INFO, "%s: rows without tests, which are left out: %zu of %zu",
                 name, s->left_out.n, s->n_rows);
    SR1__RETURN_NEW(out, s, status, sr1_problems_free);
}

static sr1_status add_problem_file(struct sr1_problems *s, const char *path)
{
    struct sr1__map map;
    sr1_status status;

    if (path == NULL)
        return sr1__fail(SR1_E_INVALID, "problems: a path is NULL");
    SR1__TRY(sr1__map_open_watched(&map, path, 0));
    status =
        sr1__map_blame(&map, add_problem_rows(s, (const char *)map.data, map.size, path));
    sr1__map_close(&map);
    return status;
}

sr1_status sr1_problems_load(sr1_problems **out, const char *const *paths, size_t n_paths,
                             const sr1_problems_options *options)
{
    struct sr1_problems *s = NULL;
    sr1_status status = SR1_OK;

    if (out == NULL || paths == NULL || n_paths == 0)
        return sr1__fail(SR1_E_INVALID, "problems: out and a path are needed");
    SR1__TRY(new_set(&s, options));
    for (size_t i = 0; status == SR1_OK && i < n_paths; i++)
        status = add_problem_file(s, paths[i]);
    return return_problem_set(out, s, status, paths[0]);
}

sr1_status sr1_problems_parse(sr1_problems **out, const char *text, size_t len,
                              const char *name, const sr1_problems_options *options)
{
    struct sr1_problems *s = NULL;

    if (out == NULL || (text == NULL && len > 0))
        return sr1__fail(SR1_E_INVALID, "problems: out or text is NULL");
    name = name != NULL ? name : "problems";
    SR1__TRY(new_set(&s, options));
    return return_problem_set(out, s, add_problem_rows(s, text, len, name), name);
}

/* ---- fields of a problem ---- */

size_t sr1_problems_count(const sr1_problems *problems)
{
    return problems != NULL ? problems->n : 0;
}

size_t sr1_problems_left_out(const sr1_problems *problems)
{
    return problems != NULL ? problems->left_out.n : 0;
}

size_t sr1__problems_rows(const sr1_problems *problems)
{
    return problems->n_rows;
}

const sr1_problem *sr1_problems_at(const sr1_problems *problems, size_t index)
{
    return problems != NULL && index < problems->n ? &problems->items[index] : NULL;
}

sr1_status sr1__problem_of_question(const sr1_problem **out, const sr1_problems *problems,
                                    const char *id)
{
    *out = sr1_problems_find(problems, id);
    if (*out != NULL)
        return SR1_OK;
    return sr1__fail(SR1_E_NOT_FOUND,
                     "question '%.64s' is none of the problems; its id must be one of "
                     "code_problems%s",
                     id,
                     sr1_problems_left_out(problems) > 0
                         ? ", some rows of which have no tests and are left out"
                         : "");
}

const char *sr1_problem_id(const sr1_problem *problem)
{
    return problem != NULL ? problem->id : "";
}

const char *sr1_problem_text(const sr1_problem *problem)
{
    return problem != NULL ? problem->text : "";
}

const char *sr1_problem_solution(const sr1_problem *problem)
{
    return problem != NULL ? problem->solution : NULL;
}

const char *sr1_problem_reference(const sr1_problem *problem)
{
    return problem != NULL ? problem->reference : NULL;
}

const char *sr1_problem_entry_point(const sr1_problem *problem)
{
    return problem != NULL ? problem->entry : NULL;
}

const char *sr1_problem_data_source(const sr1_problem *problem)
{
    return problem != NULL ? problem->source : "";
}

int32_t sr1_problem_style(const sr1_problem *problem)
{
    return problem != NULL ? problem->style : 0;
}

double sr1_problem_time_limit(const sr1_problem *problem)
{
    return problem != NULL ? problem->time_limit : 0;
}

size_t sr1_problem_test_count(const sr1_problem *problem)
{
    return problem != NULL ? problem->n_tests : 0;
}

sr1_status sr1_problem_test(const sr1_problem *problem, size_t index,
                            sr1_problem_case *out)
{
    sr1_problem_case c = {.struct_size = sizeof(c)};

    SR1__REQUIRE(problem != NULL, "problem test: problem");
    if (index >= problem->n_tests)
        return sr1__fail(SR1_E_INVALID, "problem '%s' has no test %zu", problem->id,
                         index);
    c.input = problem->tests[index].input;
    c.input_len = problem->tests[index].input_len;
    c.expected = problem->tests[index].expected;
    c.expected_len = problem->tests[index].expected_len;
    return sr1__struct_give(out, &c, sizeof(c), "problem case");
}
