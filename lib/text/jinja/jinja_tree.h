/* text/jinja/jinja_tree.h - a template as tokens and as a tree. */
#ifndef SR1__JINJA_TREE_H
#define SR1__JINJA_TREE_H

#include "text/jinja/jinja_value.h"

/* ---- tokens ---- */

enum sr1__jtoken_kind {
    SR1__T_DATA,
    SR1__T_BLOCK_BEGIN,
    SR1__T_BLOCK_END,
    SR1__T_VARIABLE_BEGIN,
    SR1__T_VARIABLE_END,
    SR1__T_NAME,
    SR1__T_STRING,
    SR1__T_INT,
    SR1__T_REAL,
    SR1__T_OPERATOR,
    SR1__T_END
};

struct sr1__jtoken {
    int kind;
    int line;
    const char *s; /* DATA, NAME, STRING (what it means), OPERATOR and numbers */
    size_t n;
};

struct sr1__jtokens {
    struct sr1__jtoken *v;
    size_t n, cap;
};

/* All tokens; texts live in memory or in text, which outlives them. */
sr1_status sr1__jinja_lex(struct sr1__jarena *memory, const char *text, size_t n,
                          struct sr1__jtokens *out);

/* ---- tree ---- */

enum sr1__jnode_kind {
    /* statements */
    SR1__N_DATA,
    SR1__N_OUTPUT,
    SR1__N_IF,           /* a: test, body, other */
    SR1__N_FOR,          /* a: target, b: list, c: filter or NULL, body, other */
    SR1__N_SET,          /* a: target, b: value */
    SR1__N_CAPTURE,      /* a: target, b: filters or NULL, body */
    SR1__N_MACRO,        /* name, items: parameters (NAME with default in a), body */
    SR1__N_CALLER,       /* a: call, b: a macro without name */
    SR1__N_WITH,         /* items: SET, body */
    SR1__N_FILTER_BLOCK, /* b: filters, body */
    SR1__N_GENERATION,   /* body */
    SR1__N_BREAK,
    SR1__N_CONTINUE,
    /* expressions */
    SR1__N_CONST,
    SR1__N_NAME,
    SR1__N_MEMBER_OF, /* target name.attribute: name, attribute */
    SR1__N_TUPLE,
    SR1__N_LIST,
    SR1__N_DICT, /* items: PAIR a: b */
    SR1__N_PAIR,
    SR1__N_ATTRIBUTE, /* a, name */
    SR1__N_ITEM,      /* a, b */
    SR1__N_SLICE,     /* a, b, c: each may be NULL */
    SR1__N_CALL,      /* a; items, named, b: *list, c: **dict */
    SR1__N_FILTER,    /* a (NULL: what is captured), name; arguments as of a call */
    SR1__N_TEST,      /* the same */
    SR1__N_KEYWORD,   /* name, a */
    SR1__N_CONDITION, /* a if b else c */
    SR1__N_OR,
    SR1__N_AND,
    SR1__N_NOT,
    SR1__N_COMPARE, /* a; items: OPERAND op a */
    SR1__N_OPERAND,
    SR1__N_BINARY, /* a op b */
    SR1__N_NEGATE,
    SR1__N_POSITIVE,
    SR1__N_CONCAT /* items */
};

enum { SR1__J_VARARGS = 1, SR1__J_KWARGS = 2, SR1__J_CALLER = 4 };

struct sr1__jnode {
    unsigned char kind;
    unsigned char uses; /* a macro: what of varargs, kwargs and caller it reads */
    char op[4];         /* "+", "**", "in", "!in", ... */
    int line;
    const char *name, *attribute; /* names are unique pointers */
    struct sr1__jvalue value;
    struct sr1__jnode *a, *b, *c;
    struct sr1__jnode *items, *named, *body, *other; /* first of a list */
    struct sr1__jnode *next;
    size_t n_items, n_named;
};

struct sr1__jname {
    struct sr1__jname *next;
    char text[];
};

#define SR1__JINJA_NAMES 256

struct sr1__jinja {
    struct sr1__jarena memory;
    struct sr1__jname *names[SR1__JINJA_NAMES];
    struct sr1__jnode *body;
};

/* The one pointer of a name, NULL without memory. */
const char *sr1__jinja_name(struct sr1__jinja *t, const char *s, size_t n);
/* The same of a name that is there; NULL: the template does not have it. */
const char *sr1__jinja_known_name(const struct sr1__jinja *t, const char *s);

/* ---- scopes ---- */

struct sr1__jvar {
    struct sr1__jvar *next;
    const char *name;
    struct sr1__jvalue value;
};

struct sr1__jscope {
    struct sr1__jscope *up;
    struct sr1__jvar *vars;
};

/* A loop under way: list[at] is the next item to look at. */
struct sr1__jloop {
    const struct sr1__jlist *list;
    size_t at;
    int64_t index0;
    struct sr1__jvalue before, now, after;
    int has_before, has_after;
    const struct sr1__jnode *node;
    struct sr1__jscope *scope;  /* around the loop */
    struct sr1__jvalue changed; /* what loop.changed was given last, or ABSENT */
};

sr1_status sr1__jinja_eval(struct sr1__jrun *r, const struct sr1__jnode *n,
                           struct sr1__jvalue *out);
sr1_status sr1__jinja_run_body(struct sr1__jrun *r, const struct sr1__jnode *body);
sr1_status sr1__jinja_set(struct sr1__jrun *r, struct sr1__jscope *s, const char *name,
                          struct sr1__jvalue v);
sr1_status sr1__jinja_assign(struct sr1__jrun *r, const struct sr1__jnode *target,
                             struct sr1__jvalue v);
sr1_status sr1__jinja_call_macro(struct sr1__jrun *r, const struct sr1__jcallable *macro,
                                 struct sr1__jcall *c, struct sr1__jvalue *out);
sr1_status sr1__jinja_eval_call(struct sr1__jrun *r, const struct sr1__jnode *n,
                                const struct sr1__jvalue *caller,
                                struct sr1__jvalue *out);
/* Run a body with its output kept as a text. */
sr1_status sr1__jinja_capture(struct sr1__jrun *r, const struct sr1__jnode *body,
                              struct sr1__jvalue *out);
sr1_status sr1__jloop_run(struct sr1__jrun *r, const struct sr1__jnode *n);
/* loop.NAME; *known 0: it has none. */
sr1_status sr1__jloop_attribute(struct sr1__jrun *r, struct sr1__jloop *l,
                                const char *name, struct sr1__jvalue *out, int *known);
struct sr1__jscope *sr1__jscope_new(struct sr1__jrun *r, struct sr1__jscope *up);

#endif
