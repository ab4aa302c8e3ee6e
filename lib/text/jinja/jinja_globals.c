/* text/jinja/jinja_globals.c - the functions that every template knows. */
#include "text/jinja/jinja_tree.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define RANGE_MAX 100000 /* as Jinja's sandbox bounds it */

static sr1_status make_range(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    int64_t start = 0, stop = 0, step = 1;
    int one = c->arg[1].kind == SR1__J_ABSENT;

    for (int i = 0; i < 3; i++)
        if (c->arg[i].kind != SR1__J_ABSENT && !sr1__jvalue_is_integer(&c->arg[i]))
            return sr1__jrun_fail(r, "range: a whole number is due, not a %s",
                                  sr1__jvalue_type(&c->arg[i]));
    SR1__TRY(sr1__jarg_int(r, &c->arg[one ? 1 : 0], 0, &start));
    SR1__TRY(sr1__jarg_int(r, &c->arg[one ? 0 : 1], 0, &stop));
    SR1__TRY(sr1__jarg_int(r, &c->arg[2], 1, &step));
    if (step == 0)
        return sr1__jrun_fail(r, "range: the step is 0");
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_RANGE, out));
    out->list->start = start;
    out->list->stop = stop;
    out->list->step = step;
    for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
        if (out->list->n == RANGE_MAX)
            return sr1__jrun_fail(r, "range: more than %d numbers", RANGE_MAX);
        SR1__TRY(sr1__jlist_add(r, out->list, sr1__jvalue_int(i)));
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return SR1_OK;
}

/* dict(...) and namespace(...): of pairs or another dict, and of names. */
static sr1_status fill_dict(struct sr1__jrun *r, const struct sr1__jcall *c,
                            struct sr1__jdict *d)
{
    struct sr1__jlist *pairs, *pair;

    if (c->n > 1)
        return sr1__jrun_fail(r, "dict: at most one value without a name");
    if (c->n && c->v[0].kind == SR1__J_DICT) {
        for (size_t i = 0; i < c->v[0].dict->n; i++)
            SR1__TRY(
                sr1__jdict_set(r, d, c->v[0].dict->v[i].key, c->v[0].dict->v[i].value));
    } else if (c->n) {
        SR1__TRY(sr1__jvalue_iterate(r, &c->v[0], &pairs));
        for (size_t i = 0; i < pairs->n; i++) {
            SR1__TRY(sr1__jvalue_iterate(r, &pairs->v[i], &pair));
            if (pair->n != 2)
                return sr1__jrun_fail(r, "dict: item %zu is no pair", i);
            SR1__TRY(sr1__jdict_set(r, d, pair->v[0], pair->v[1]));
        }
    }
    for (size_t i = 0; i < c->n_named; i++)
        SR1__TRY(sr1__jdict_set(r, d, c->named[i].key, c->named[i].value));
    return SR1_OK;
}

static sr1_status make_dict(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jdict_new(r, SR1__J_DICT, out));
    return fill_dict(r, c, out->dict);
}

static sr1_status make_namespace(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jdict_new(r, SR1__J_NAMESPACE, out));
    SR1__TRY(fill_dict(r, c, out->dict));
    for (size_t i = 0; i < out->dict->n; i++)
        if (out->dict->v[i].key.kind == SR1__J_TEXT && out->dict->v[i].key.text.n &&
            out->dict->v[i].key.text.s[0] == '_')
            return sr1__jrun_fail(r, "names of a namespace must not begin with _");
    return SR1_OK;
}

static sr1_status raise_exception(struct sr1__jrun *r, struct sr1__jcall *c,
                                  struct sr1__jvalue *out)
{
    struct sr1__jtext message;

    (void)out;
    SR1__TRY(sr1__jvalue_str(r, &c->arg[0], &message));
    return sr1__jrun_fail(r, "the template refuses the conversation: %.*s",
                          message.n > 400 ? 400 : (int)message.n, message.s);
}

static void put_number(struct sr1__jout *o, int v, int digits)
{
    char text[24];

    snprintf(text, sizeof text, "%0*d", digits, v);
    sr1__jout_own(o, text);
}

/* One conversion of strftime in the C locale; 0: not supported. */
static int put_time(struct sr1__jout *o, char kind, const struct tm *t)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    const char *day = days[t->tm_wday], *month = months[t->tm_mon];
    const struct {
        char kind;
        int value, digits;
    } numbers[] = {
        {'Y', t->tm_year + 1900, 4}, {'y', t->tm_year % 100, 2},
        {'m', t->tm_mon + 1, 2},     {'d', t->tm_mday, 2},
        {'H', t->tm_hour, 2},        {'M', t->tm_min, 2},
        {'S', t->tm_sec, 2},         {'j', t->tm_yday + 1, 3},
        {'w', t->tm_wday, 1},        {'I', t->tm_hour % 12 ? t->tm_hour % 12 : 12, 2}};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].kind == kind) {
            put_number(o, numbers[i].value, numbers[i].digits);
            return 1;
        }
    if (kind == 'A' || kind == 'B')
        sr1__jout_own(o, kind == 'A' ? day : month);
    else if (kind == 'a' || kind == 'b' || kind == 'h')
        sr1__jout_bytes(o, kind == 'a' ? day : month, 3, 1);
    else if (kind == 'p')
        sr1__jout_own(o, t->tm_hour < 12 ? "AM" : "PM");
    else if (kind == '%')
        sr1__jout_own(o, "%");
    else
        return 0;
    return 1;
}

/* The conversions that stand for several. */
static const char *long_form(char kind)
{
    return kind == 'F'   ? "%Y-%m-%d"
           : kind == 'T' ? "%H:%M:%S"
           : kind == 'R' ? "%H:%M"
           : kind == 'D' ? "%m/%d/%y"
                         : NULL;
}

static sr1_status put_times(struct sr1__jout *o, const char *p, size_t n,
                            const struct tm *t)
{
    for (const char *end = p + n; p < end; p++) {
        const char *form;

        if (*p != '%' || p + 1 == end) {
            sr1__jout_bytes(o, p, 1, 1);
            continue;
        }
        form = long_form(*++p);
        if (form)
            SR1__TRY(put_times(o, form, strlen(form), t));
        else if (*p == '-' && p + 1 < end && strchr("dmHIMSjy", p[1])) {
            struct sr1__jout digits;
            size_t zeros = 0;

            sr1__jout_init(&digits, o->r);
            (void)put_time(&digits, *++p, t);
            SR1__TRY(digits.status);
            while (zeros + 1 < digits.n && digits.s[zeros] == '0')
                zeros++;
            sr1__jout_bytes(o, digits.s + zeros, digits.n - zeros, 1);
        } else if (!put_time(o, *p, t))
            return sr1__jrun_fail(o->r, "strftime_now: %%%c is not supported", *p);
    }
    return SR1_OK;
}

static sr1_status strftime_now(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    time_t now = (time_t)r->now;
    struct sr1__jtext format;
    struct sr1__jout o;
    struct tm t;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "strftime_now", &format));
    if (!gmtime_r(&now, &t))
        return sr1__jrun_fail(r, "strftime_now: the time has no date");
    sr1__jout_init(&o, r);
    SR1__TRY(put_times(&o, format.s, format.n, &t));
    return sr1__jout_value(&o, out);
}

/* joiner(sep): "" when first called, then sep. */
static sr1_status call_joiner(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jlist *state = c->self.list;

    (void)r;
    *out = state->used_up ? state->v[0] : sr1__jvalue_own("");
    state->used_up = 1;
    return SR1_OK;
}

static const struct sr1__jfunction joiner_call = {"joiner", call_joiner, "", 0};

static sr1_status make_joiner(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jvalue state;

    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, &state));
    SR1__TRY(sr1__jlist_add(r, state.list,
                            c->arg[0].kind == SR1__J_ABSENT ? sr1__jvalue_own(", ")
                                                            : c->arg[0]));
    return sr1__jvalue_function(r, &joiner_call, state, out);
}

/* cycler(a, b, ...): next() gives them by turns. */
static sr1_status make_cycler(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    if (c->n == 0 || c->n_named > 0)
        return sr1__jrun_fail(r, "cycler: at least one item is due, and none by name");
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_TUPLE, out));
    for (size_t i = 0; i < c->n; i++)
        SR1__TRY(sr1__jlist_add(r, out->list, c->v[i]));
    out->list->members = SR1__J_CYCLER;
    return SR1_OK;
}

static const struct sr1__jfunction globals[] = {
    {"range", make_range, "start stop step", 1},
    {"dict", make_dict, NULL, 0},
    {"namespace", make_namespace, NULL, 0},
    {"raise_exception", raise_exception, "message", 1},
    {"strftime_now", strftime_now, "format", 1},
    {"joiner", make_joiner, "sep", 0},
    {"cycler", make_cycler, NULL, 0},
    {"lipsum", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};

const struct sr1__jfunction *sr1__jinja_global(const char *name)
{
    return sr1__jfunction_find(globals, name);
}
