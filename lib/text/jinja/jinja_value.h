/* text/jinja/jinja_value.h - the values of a template: Python's, as far as templates
 * meet them. A value lives in the memory of its run, which is freed as a whole. */
#ifndef SR1__JINJA_VALUE_H
#define SR1__JINJA_VALUE_H

#include "text/jinja/jinja.h"

#include "base/mem.h"

struct sr1__jnode;
struct sr1__jlist;
struct sr1__jdict;
struct sr1__jloop;
struct sr1__jcallable;
struct sr1__jscope;

/* ---- memory ---- */

struct sr1__jchunk;
struct sr1__jarena {
    struct sr1__jchunk *last;
    size_t used, max;
};
void *sr1__jarena_take(struct sr1__jarena *a, size_t n); /* zeroed; NULL: no memory */
void sr1__jarena_free(struct sr1__jarena *a);

/* ---- values ---- */

enum sr1__jkind {
    SR1__J_ABSENT, /* an argument that is not given */
    SR1__J_UNDEFINED,
    SR1__J_NONE,
    SR1__J_BOOL,
    SR1__J_INT,
    SR1__J_BIG, /* an integer of more than 64 bits: printed, not computed with */
    SR1__J_REAL,
    SR1__J_TEXT,
    SR1__J_LIST,
    SR1__J_DICT,
    SR1__J_NAMESPACE,
    SR1__J_LOOP,
    SR1__J_CALLABLE
};

/* What a J_LIST is in Python. */
enum sr1__jform {
    SR1__J_IS_LIST,
    SR1__J_IS_TUPLE,
    SR1__J_IS_RANGE,
    SR1__J_IS_KEYS,
    SR1__J_IS_VALUES,
    SR1__J_IS_ITEMS,
    SR1__J_IS_GENERATOR
};

/* own: for each byte whether it is the template's own word; SR1__J_NOT_OWN and
 * SR1__J_ALL_OWN say it of all. */
struct sr1__jtext {
    const char *s;
    size_t n;
    const unsigned char *own;
};
#define SR1__J_NOT_OWN NULL
extern const unsigned char sr1__jinja_all_own[1];
#define SR1__J_ALL_OWN sr1__jinja_all_own

struct sr1__jvalue {
    unsigned char kind;
    unsigned char form; /* of a list; of a text: 1 for one that `safe` has marked */
    union {
        int64_t i;
        double real;
        struct sr1__jtext text;
        struct sr1__jlist *list;
        struct sr1__jdict *dict; /* also of a namespace */
        struct sr1__jloop *loop;
        struct sr1__jcallable *callable;
        const char *hint; /* what is undefined; NULL: not known */
    };
};

/* Tuples with members: (grouper, list) of groupby; the items of a cycler, which is at
 * item `start` of them. */
enum { SR1__J_GROUP = 1, SR1__J_CYCLER };

struct sr1__jlist {
    struct sr1__jvalue *v;
    size_t n, cap;
    int used_up;               /* a generator that was read */
    int members;               /* SR1__J_GROUP or SR1__J_CYCLER; 0: it has no members */
    int64_t start, stop, step; /* of a range */
};

struct sr1__jpair {
    struct sr1__jvalue key, value;
};

struct sr1__jdict {
    struct sr1__jpair *v;
    size_t n, cap;
};

/* ---- one run ---- */

struct sr1__jrun {
    const struct sr1__jinja *t;
    struct sr1__jarena memory;
    int64_t steps; /* that are left */
    int depth;
    int line; /* of what is evaluated */
    int64_t now;
    struct sr1__jscope *globals, *scope;
    struct sr1__jout *out;
    int leaves;                  /* the statement that leaves a loop's body, or 0 */
    struct sr1__jvalue captured; /* what the filters of a block begin with */
};

/* SR1_E_INVALID with the line: the template cannot go on with these values. */
sr1_status sr1__jrun_fail(const struct sr1__jrun *r, const char *fmt, ...)
    SR1__PRINTF(2, 3);
sr1_status sr1__jrun_nomem(const struct sr1__jrun *r);
/* SR1_E_LIMIT when all steps are spent. */
sr1_status sr1__jrun_spend(struct sr1__jrun *r, size_t steps);
sr1_status sr1__jrun_enter(struct sr1__jrun *r); /* one level deeper */
void sr1__jrun_leave(struct sr1__jrun *r);

/* Zeroed memory of the run, or leave. */
#define SR1__J_TAKE(r, v, count)                                                         \
    do {                                                                                 \
        (v) = (size_t)(count) > SR1__JINJA_MEMORY_MAX / sizeof *(v)                      \
                  ? NULL                                                                 \
                  : sr1__jarena_take(&(r)->memory, (size_t)(count) * sizeof *(v));       \
        if (!(v))                                                                        \
            return sr1__jrun_nomem(r);                                                   \
    } while (0)

/* ---- text that grows ---- */

struct sr1__jout {
    struct sr1__jrun *r;
    char *s;
    unsigned char *own;
    size_t n, cap;
    sr1_status status; /* sticky */
};
void sr1__jout_init(struct sr1__jout *o, struct sr1__jrun *r);
void sr1__jout_text(struct sr1__jout *o, struct sr1__jtext text);
void sr1__jout_bytes(struct sr1__jout *o, const char *s, size_t n, int own);
void sr1__jout_own(struct sr1__jout *o, const char *s); /* own words, up to its NUL */
void sr1__jout_char(struct sr1__jout *o, uint32_t cp, int own);
sr1_status sr1__jout_value(struct sr1__jout *o, struct sr1__jvalue *out);

/* ---- making ---- */

struct sr1__jvalue sr1__jvalue_none(void);
struct sr1__jvalue sr1__jvalue_bool(int b);
struct sr1__jvalue sr1__jvalue_int(int64_t i);
struct sr1__jvalue sr1__jvalue_real(double v);
struct sr1__jvalue sr1__jvalue_undefined(const char *hint);
struct sr1__jvalue sr1__jvalue_text(struct sr1__jtext text);
struct sr1__jvalue sr1__jvalue_own(const char *s); /* borrowed */
sr1_status sr1__jlist_new(struct sr1__jrun *r, int form, struct sr1__jvalue *out);
sr1_status sr1__jlist_add(struct sr1__jrun *r, struct sr1__jlist *l,
                          struct sr1__jvalue v);
sr1_status sr1__jlist_extend(struct sr1__jrun *r, struct sr1__jlist *l,
                             const struct sr1__jlist *by);
void sr1__jlist_reverse(struct sr1__jlist *l);
sr1_status sr1__jdict_new(struct sr1__jrun *r, int kind, struct sr1__jvalue *out);
sr1_status sr1__jdict_set(struct sr1__jrun *r, struct sr1__jdict *d,
                          struct sr1__jvalue key, struct sr1__jvalue value);
/* NULL in *out: there is none. */
sr1_status sr1__jdict_find(struct sr1__jrun *r, const struct sr1__jdict *d,
                           const struct sr1__jvalue *key, struct sr1__jvalue **out);
struct sr1__jvalue *sr1__jdict_named(const struct sr1__jdict *d, const char *name);
sr1_status sr1__jvalue_pair(struct sr1__jrun *r, struct sr1__jvalue a,
                            struct sr1__jvalue b, struct sr1__jvalue *out);
sr1_status sr1__jvalue_from_json(struct sr1__jrun *r, const json_t *j,
                                 sr1__jinja_text_of text_of, struct sr1__jvalue *out);

/* ---- asking ---- */

const char *sr1__jvalue_type(const struct sr1__jvalue *v); /* as Python names it */
int sr1__jvalue_true(const struct sr1__jvalue *v);
int sr1__jvalue_is_integer(const struct sr1__jvalue *v); /* bool or int */
int sr1__jvalue_is_number(const struct sr1__jvalue *v);  /* these or real */
double sr1__jvalue_as_real(const struct sr1__jvalue *v);
sr1_status sr1__jvalue_equal(struct sr1__jrun *r, const struct sr1__jvalue *a,
                             const struct sr1__jvalue *b, int *equal);
/* *order below, at or above 0; an error for what Python does not order. */
sr1_status sr1__jvalue_compare(struct sr1__jrun *r, const struct sr1__jvalue *a,
                               const struct sr1__jvalue *b, int *order);
/* The comparison of an operator: == != < <= > >= in !in. */
sr1_status sr1__jvalue_relate(struct sr1__jrun *r, const char *op,
                              const struct sr1__jvalue *a, const struct sr1__jvalue *b,
                              int *is);
sr1_status sr1__jvalue_contains(struct sr1__jrun *r, const struct sr1__jvalue *in,
                                const struct sr1__jvalue *item, int *found);
/* len(v) */
sr1_status sr1__jvalue_length(struct sr1__jrun *r, const struct sr1__jvalue *v,
                              size_t *n);
/* What a for loop over v goes through; a generator is read by it. */
sr1_status sr1__jvalue_iterate(struct sr1__jrun *r, const struct sr1__jvalue *v,
                               struct sr1__jlist **out);
/* str(v) appended, and the same as a text. */
sr1_status sr1__jvalue_print(struct sr1__jout *o, const struct sr1__jvalue *v);
sr1_status sr1__jvalue_str(struct sr1__jrun *r, const struct sr1__jvalue *v,
                           struct sr1__jtext *out);
sr1_status sr1__jvalue_repr(struct sr1__jout *o, const struct sr1__jvalue *v);
/* repr of a real number */
void sr1__jinja_real_text(double v, char out[40]);

/* ---- attributes, items, calls (jinja_access.c, jinja_call.c) ---- */

sr1_status sr1__jvalue_attribute(struct sr1__jrun *r, const struct sr1__jvalue *v,
                                 const char *name, struct sr1__jvalue *out);
sr1_status sr1__jvalue_item(struct sr1__jrun *r, const struct sr1__jvalue *v,
                            const struct sr1__jvalue *key, struct sr1__jvalue *out);
/* bound[0..3): start, stop, step; ABSENT or None: not given. */
sr1_status sr1__jvalue_slice(struct sr1__jrun *r, const struct sr1__jvalue *v,
                             const struct sr1__jvalue bound[3], struct sr1__jvalue *out);

#define SR1__J_ARGS 8

struct sr1__jcall {
    struct sr1__jvalue self;     /* what a filter or a method works on */
    const struct sr1__jvalue *v; /* positional arguments */
    size_t n;
    const struct sr1__jpair *named; /* keys are texts */
    size_t n_named;
    struct sr1__jvalue arg[SR1__J_ARGS]; /* by the function's parameters, or ABSENT */
    int how;                             /* of the function's row */
};

typedef sr1_status (*sr1__jfunction_body)(struct sr1__jrun *r, struct sr1__jcall *c,
                                          struct sr1__jvalue *out);

struct sr1__jfunction {
    const char *name;
    sr1__jfunction_body body; /* NULL: known to Python, not supported here */
    const char *params;       /* "a b c"; NULL: takes the arguments as they come */
    int needed;               /* how many must be given */
    int how;                  /* which of several things the body does */
};

struct sr1__jcallable {
    const struct sr1__jfunction *function; /* NULL: a macro */
    struct sr1__jvalue self;
    const struct sr1__jnode *macro;
    struct sr1__jscope *scope; /* where the macro stands */
};

sr1_status sr1__jvalue_function(struct sr1__jrun *r, const struct sr1__jfunction *f,
                                struct sr1__jvalue self, struct sr1__jvalue *out);
sr1_status sr1__jfunction_call(struct sr1__jrun *r, const struct sr1__jfunction *f,
                               const char *what, struct sr1__jcall *c,
                               struct sr1__jvalue *out);
sr1_status sr1__jvalue_call(struct sr1__jrun *r, const struct sr1__jvalue *callee,
                            struct sr1__jcall *c, struct sr1__jvalue *out);
/* A row by its name; NULL: there is none. */
const struct sr1__jfunction *sr1__jinja_filter(const char *name);
const struct sr1__jfunction *sr1__jinja_test(const char *name);
const struct sr1__jfunction *sr1__jinja_global(const char *name);
const struct sr1__jfunction *sr1__jinja_method(const struct sr1__jvalue *v,
                                               const char *name);
const struct sr1__jfunction *sr1__jfunction_find(const struct sr1__jfunction *rows,
                                                 const char *name);
/* A function that changes its object, which the sandbox refuses. */
sr1_status sr1__jinja_refuse_change(struct sr1__jrun *r, struct sr1__jcall *c,
                                    struct sr1__jvalue *out);

/* ---- arguments ---- */

sr1_status sr1__jarg_int(struct sr1__jrun *r, const struct sr1__jvalue *v, int64_t none,
                         int64_t *out);
int sr1__jarg_true(const struct sr1__jvalue *v, int none);
/* Is it there, and not None? */
static inline int sr1__jarg_given(const struct sr1__jvalue *v)
{
    return v->kind != SR1__J_ABSENT && v->kind != SR1__J_NONE;
}
sr1_status sr1__jarg_text(struct sr1__jrun *r, const struct sr1__jvalue *v,
                          const char *what, struct sr1__jtext *out);

/* ---- texts (jinja_text.c) ---- */

static inline int sr1__jtext_is(struct sr1__jtext t, const char *text)
{
    return sr1__str_is((struct sr1__str){t.s, t.n}, text);
}
struct sr1__jtext sr1__jtext_slice(struct sr1__jtext t, size_t begin, size_t end);
size_t sr1__jtext_find(struct sr1__jtext t, struct sr1__jtext what, size_t from);
#define SR1__J_NOWHERE ((size_t)-1)
/* White space. sides: 1 left, 2 right, 3 both. */
struct sr1__jtext sr1__jtext_strip(struct sr1__jtext t, int sides);
/* The characters of an argument; white space where it is not given. */
sr1_status sr1__jtext_strip_by(struct sr1__jrun *r, struct sr1__jtext t,
                               const struct sr1__jvalue *chars, int sides,
                               struct sr1__jtext *out);
enum { SR1__J_UPPER, SR1__J_LOWER, SR1__J_CAPITALIZE, SR1__J_TITLE };
sr1_status sr1__jtext_case(struct sr1__jrun *r, struct sr1__jtext t, int how,
                           struct sr1__jvalue *out);
sr1_status sr1__jtext_replace(struct sr1__jrun *r, struct sr1__jtext t,
                              struct sr1__jtext old, struct sr1__jtext by, int64_t count,
                              struct sr1__jvalue *out);
sr1_status sr1__jtext_lines(struct sr1__jrun *r, struct sr1__jtext t, int keep_ends,
                            struct sr1__jvalue *out);
sr1_status sr1__jtext_join(struct sr1__jrun *r, struct sr1__jtext by,
                           const struct sr1__jlist *list, int strict,
                           struct sr1__jvalue *out);
/* format % values; all: each must be used */
sr1_status sr1__jtext_format(struct sr1__jrun *r, struct sr1__jtext format,
                             const struct sr1__jvalue *values, size_t n, int all,
                             struct sr1__jvalue *out);
sr1_status sr1__jtext_escape(struct sr1__jrun *r, struct sr1__jtext t,
                             struct sr1__jtext *out);
/* The character at s[0..n) and its bytes; a byte that is none counts as one. */
size_t sr1__jinja_char(const char *s, size_t n, uint32_t *cp);
extern const struct sr1__jfunction sr1__jinja_text_methods[];

/* json.dumps with the arguments that transformers' tojson has. */
sr1_status sr1__jinja_tojson(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out);

#endif
