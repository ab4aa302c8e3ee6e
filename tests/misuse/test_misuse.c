/* No public call with wrong arguments ends in a signal, and each says what was wrong.
 *
 * Every function of the public headers is called with each pointer NULL in turn and all
 * of them, with structs of every wrong size, with NULLs inside arrays and structs, with
 * numbers out of range. A child process makes the calls of one function; when it dies,
 * another goes on behind the call that killed it. */
#include "misuse/misuse.h"

#include <searchr1/base.h>

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_TWISTS 512
#define MAX_PARAMS 16
#define CALL_SECONDS 20
#define UNTOUCHED 0xA5
#define SENTINEL "nothing has failed yet"

/* One way to call a function wrongly. */
struct twist {
    enum {
        VALID,
        NULLED,        /* parameter `param` */
        ELEMENT,       /* its first pointer NULL */
        SIZE,          /* struct_size = value */
        BARE,          /* all of a struct but its size 0 */
        COUNTS,        /* ... integers = value, pointers NULL */
        FIELD,         /* field `value` NULL */
        FIELD_ELEMENT, /* the first pointer of the array it points to NULL */
        INTEGER_VALUE, /* = value */
        REAL_VALUE,    /* reals[value] */
        ALL_NULL,      /* every pointer */
        HANDLES_ONLY   /* pointers NULL but for handles, integers = value */
    } what;
    int param;
    int64_t value;
};

static const double reals[] = {-1, INFINITY, NAN};

/* What the children leave for the parent. */
static struct board {
    int at; /* index of the twist under way */
    int valid_failed;
    int findings;
    size_t len;
    char text[1 << 20];
} * board;

static void note(const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(board->text + board->len, sizeof board->text - board->len, format,
                  args);
    va_end(args);
    if (n > 0 && board->len + (size_t)n < sizeof board->text)
        board->len += (size_t)n;
    board->findings++;
}

static const char *describe(const struct function *f, const struct twist *t)
{
    static char text[256];
    const struct param *p = t->param >= 0 ? &f->params[t->param] : NULL;
    const char *name = p ? p->name : "";
    long long v = (long long)t->value;

    switch (t->what) {
    case VALID:
        return "valid arguments";
    case NULLED:
        snprintf(text, sizeof text, "%s NULL", name);
        break;
    case ELEMENT:
        snprintf(text, sizeof text, "%s[0] NULL", name);
        break;
    case SIZE:
        snprintf(text, sizeof text, "%s->struct_size %lld", name, v);
        break;
    case BARE:
        snprintf(text, sizeof text, "%s all zeros", name);
        break;
    case COUNTS:
        snprintf(text, sizeof text, "%s NULLs, integers %lld", name, v);
        break;
    case FIELD:
        snprintf(text, sizeof text, "%s->%s NULL", name, p->shape->fields[v].name);
        break;
    case FIELD_ELEMENT:
        snprintf(text, sizeof text, "%s->%s[0] NULL", name, p->shape->fields[v].name);
        break;
    case INTEGER_VALUE:
        snprintf(text, sizeof text, "%s %lld", name, v);
        break;
    case REAL_VALUE:
        snprintf(text, sizeof text, "%s %g", name, reals[v]);
        break;
    case ALL_NULL:
        return "all pointers NULL";
    case HANDLES_ONLY:
        snprintf(text, sizeof text, "NULL but handles, integers %lld", v);
        break;
    }
    return text;
}

/* ---- the ways ---- */

static bool is_pointer(enum kind kind)
{
    return kind <= OUTPUT;
}

static bool is_position(const char *name)
{
    return strcmp(name, "i") == 0 || strcmp(name, "index") == 0 ||
           strcmp(name, "query") == 0;
}

static int add(struct twist *out, int n, int what, int param, int64_t value)
{
    assert_true(n < MAX_TWISTS);
    out[n] = (struct twist){.param = param, .value = value};
    memcpy(&out[n].what, &what, sizeof what);
    return n + 1;
}

static int add_struct(struct twist *out, int n, int param, const struct param *p)
{
    const struct shape *s = p->shape;
    const int64_t sizes[] = {0, 1, sizeof(size_t) - 1, -1, (int64_t)s->size + 64};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        n = add(out, n, SIZE, param, sizes[i]);
    if (!p->is_const)
        return n;
    n = add(out, n, BARE, param, 0);
    n = add(out, n, COUNTS, param, 1);
    n = add(out, n, COUNTS, param, -1);
    for (size_t i = 0; i < s->n_fields; i++)
        if (is_pointer(s->fields[i].kind) || s->fields[i].kind == FUNCTION)
            n = add(out, n, FIELD, param, (int64_t)i);
    for (size_t i = 0; i < s->n_fields; i++)
        if (s->fields[i].kind == POINTERS)
            n = add(out, n, FIELD_ELEMENT, param, (int64_t)i);
    return n;
}

static int add_param(struct twist *out, int n, int param, const struct param *p)
{
    if (is_pointer(p->kind))
        n = add(out, n, NULLED, param, 0);
    if (p->kind == POINTERS)
        n = add(out, n, ELEMENT, param, 0);
    if (p->kind == STRUCT)
        n = add_struct(out, n, param, p);
    if (p->kind == INTEGER && (p->is_signed || is_position(p->name)))
        n = add(out, n, INTEGER_VALUE, param, -1);
    if (p->kind == REAL)
        for (int i = 0; i < 3; i++)
            n = add(out, n, REAL_VALUE, param, i);
    return n;
}

static int all_twists(const struct function *f, struct twist *out)
{
    int n = add(out, 0, VALID, -1, 0);

    for (int i = 0; i < f->n_params; i++)
        n = add_param(out, n, i, &f->params[i]);
    n = add(out, n, ALL_NULL, -1, 0);
    n = add(out, n, HANDLES_ONLY, -1, 1);
    return add(out, n, HANDLES_ONLY, -1, -1);
}

/* ---- valid arguments ---- */

/* Bytes of a file, NUL-terminated; *n how many. */
static void *file_bytes(const char *path, size_t *n)
{
    char *room = calloc(1, MISUSE_ROOM);
    FILE *file = fopen(path, "rb");

    *n = file ? fread(room, 1, MISUSE_ROOM - 1, file) : 0;
    if (file)
        fclose(file);
    return room;
}

static void *pointers_to(const void *p)
{
    const void **room = malloc(MISUSE_ROOM);

    for (size_t i = 0; i < MISUSE_ROOM / sizeof *room; i++)
        room[i] = p;
    return room;
}

static void *untouched(const struct shape *shape)
{
    unsigned char *room = malloc(MISUSE_ROOM);

    memset(room, UNTOUCHED, MISUSE_ROOM);
    if (shape && misuse_value(shape->name, shape->fields[1].name))
        misuse_fill(room, shape);
    if (shape)
        memcpy(room, &shape->size, sizeof shape->size);
    return room;
}

static void *some_handle(const char *type)
{
    return misuse_can_make(type) > 0 ? misuse_make(type) : NULL;
}

/* A text or an array; of a file *n tells its length to the parameter behind it. */
static void *input(const struct param *p, const char *value, size_t *n)
{
    void *room;

    if (value && strcmp(value, "@url") == 0)
        return (void *)(uintptr_t)misuse_server_url();
    if (value && strncmp(value, "@trajectory.", 12) == 0)
        return file_bytes(value + 1, n);
    if (p->kind == TEXT)
        return (void *)(uintptr_t)(value ? value : "text");
    room = malloc(MISUSE_ROOM);
    misuse_array(room, value ? value : "@zeros");
    return room;
}

static union slot valid(const struct function *f, const struct param *p, size_t *n)
{
    const char *value = misuse_value(f->name, p->name);
    union slot s = {NULL};

    if (p->kind == HANDLE)
        s.p = some_handle(value ? value : p->type);
    else if (p->kind == STRUCT && p->is_const)
        misuse_fill(s.p = malloc(MISUSE_ROOM), p->shape);
    else if (p->kind == STRUCT || p->kind == OUTPUT)
        s.p = untouched(p->shape);
    else if (p->kind == POINTERS)
        s.p = pointers_to(strcmp(p->type, "char") == 0 ? (value ? value : "text")
                                                       : some_handle(p->type));
    else if (p->kind == TEXT || p->kind == INPUT)
        s.p = input(p, value, n);
    else if (p->kind == FUNCTION)
        s.f = misuse_callback(f->name, p->name);
    else if (p->kind == INTEGER)
        s.i = *n ? (int64_t)*n : strtoll(value ? value : "1", NULL, 10);
    else if (p->kind == REAL)
        s.d = strtod(value ? value : "0.5", NULL);
    if (p->kind == INTEGER)
        *n = 0;
    return s;
}

/* ---- spoiling them ---- */

static void set_counts(unsigned char *room, const struct shape *shape, int64_t value)
{
    memset(room + sizeof(size_t), 0, shape->size - sizeof(size_t));
    for (size_t i = 1; i < shape->n_fields; i++)
        if (shape->fields[i].kind == INTEGER)
            memcpy(room + shape->fields[i].offset, &value, shape->fields[i].size);
}

static void spoil_struct(unsigned char *room, const struct shape *shape,
                         const struct twist *t)
{
    size_t size = (size_t)t->value;
    const void **array;

    if (t->what == SIZE) {
        memset(room + shape->size, UNTOUCHED, 64);
        memcpy(room, &size, sizeof size);
    } else if (t->what == BARE) {
        set_counts(room, shape, 0);
    } else if (t->what == COUNTS) {
        set_counts(room, shape, t->value);
    } else if (t->what == FIELD) {
        memset(room + shape->fields[t->value].offset, 0, sizeof(void *));
    } else if (t->what == FIELD_ELEMENT) {
        memcpy(&array, room + shape->fields[t->value].offset, sizeof array);
        if (array)
            *array = NULL;
    }
}

static void spoil_one(union slot *a, const struct param *p, const struct twist *t)
{
    if (t->what == NULLED)
        a->p = NULL;
    else if (t->what == ELEMENT)
        *(void **)a->p = NULL;
    else if (t->what == INTEGER_VALUE)
        a->i = t->value;
    else if (t->what == REAL_VALUE)
        a->d = reals[t->value];
    else
        spoil_struct(a->p, p->shape, t);
}

static void spoil(const struct function *f, union slot *a, const struct twist *t)
{
    if (t->param >= 0)
        spoil_one(&a[t->param], &f->params[t->param], t);
    if (t->what != ALL_NULL && t->what != HANDLES_ONLY)
        return;
    for (int i = 0; i < f->n_params; i++) {
        enum kind kind = f->params[i].kind;

        if (is_pointer(kind) && !(kind == HANDLE && t->what == HANDLES_ONLY))
            a[i].p = NULL;
        if (kind == INTEGER && t->what == HANDLES_ONLY &&
            (t->value > 0 || f->params[i].is_signed || f->params[i].size == 8))
            a[i].i = t->value;
    }
}

/* ---- what comes back ---- */

static bool fills(const struct param *p)
{
    return p->kind == OUTPUT || (p->kind == STRUCT && !p->is_const);
}

static void check_outputs(const struct function *f, const struct twist *t,
                          const union slot *a, void *const *before)
{
    for (int i = 0; i < f->n_params; i++)
        if (before[i] && memcmp(before[i], a[i].p, MISUSE_ROOM) != 0)
            note("%s: %s: failed, and changed '%s'\n", f->name, describe(f, t),
                 f->params[i].name);
}

/* An init function sets struct_size and does not read it. */
static bool is_init(const struct function *f)
{
    size_t n = strlen(f->name);

    return n > 5 && strcmp(f->name + n - 5, "_init") == 0;
}

/* Its argument is a failure of the caller's, whose text is the caller's too. */
static int gives_status_back(const struct function *f)
{
    return strcmp(f->name, "sr1_ranks_agree") == 0;
}

static void check_status(const struct function *f, const struct twist *t,
                         sr1_status status, const union slot *a, void *const *before)
{
    if (t->what == VALID && status != SR1_OK) {
        board->valid_failed++;
        if (getenv("MISUSE_VERBOSE"))
            fprintf(stderr, "valid: %s: %s\n", f->name, sr1_last_error());
    }
    if (status > SR1_OK || strcmp(sr1_status_name(status), "SR1_E_?") == 0)
        note("%s: %s: %d is no status\n", f->name, describe(f, t), (int)status);
    if (status == SR1_OK && t->what == NULLED && !f->says_null)
        note("%s: accepts %s; its comment says nothing of NULL\n", f->name,
             describe(f, t));
    if (status == SR1_OK && t->what == SIZE && t->value >= 0 && t->value < 8 &&
        !is_init(f))
        note("%s: accepts %s\n", f->name, describe(f, t));
    if (status == SR1_OK)
        return;
    if ((strcmp(sr1_last_error(), SENTINEL) == 0 || !*sr1_last_error()) &&
        !gives_status_back(f))
        note("%s: %s: fails without a text\n", f->name, describe(f, t));
    check_outputs(f, t, a, before);
}

/* What is no status must be readable, and nothing of nothing. */
static void check_value(const struct function *f, const struct twist *t,
                        const union slot *r)
{
    bool nothing = t->what == NULLED && f->params[t->param].kind == HANDLE;

    if (f->result == STRING && r->p)
        (void)strlen(r->p);
    if (nothing && f->result == POINTER && r->p)
        note("%s: %s gives a pointer\n", f->name, describe(f, t));
    if (nothing && f->result == NUMBER && r->d != 0)
        note("%s: %s gives %g\n", f->name, describe(f, t), r->d);
}

static void call(const struct function *f, const struct twist *t)
{
    union slot a[MAX_PARAMS], r = {NULL};
    void *before[MAX_PARAMS] = {NULL};
    size_t n = 0;

    for (int i = 0; i < f->n_params; i++)
        a[i] = valid(f, &f->params[i], &n);
    spoil(f, a, t);
    for (int i = 0; i < f->n_params; i++)
        if (fills(&f->params[i]) && a[i].p)
            before[i] = memcpy(malloc(MISUSE_ROOM), a[i].p, MISUSE_ROOM);
    sr1_set_error(SR1_E_INTERNAL, SENTINEL);
    f->call(a, &r);
    if (f->result == STATUS && strcmp(f->name, "sr1_set_error") != 0)
        check_status(f, t, (sr1_status)r.i, a, before);
    else if (f->result != STATUS)
        check_value(f, t, &r);
}

/* ---- a child for each function, and another behind each death ---- */

/* A signal ends the child; cmocka would go on with the next test in it. */
static void default_signals(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};

    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

static void call_from(const struct function *f, const struct twist *t, int n, int first)
{
    default_signals();
    for (int i = first; i < n; i++) {
        board->at = i;
        alarm(CALL_SECONDS);
        call(f, &t[i]);
    }
    _exit(0);
}

static void note_death(const struct function *f, const struct twist *t, int status)
{
    if (WIFSIGNALED(status))
        note("%s: %s: %s\n", f->name, describe(f, t), strsignal(WTERMSIG(status)));
    else
        note("%s: %s: exit status %d\n", f->name, describe(f, t), WEXITSTATUS(status));
}

static int call_all(const struct function *f)
{
    struct twist twists[MAX_TWISTS];
    int n = all_twists(f, twists);

    assert_true(f->n_params <= MAX_PARAMS);
    for (int first = 0; first < n; first = board->at + 1) {
        int status = 0;
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            call_from(f, twists, n, first);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status == 0)
            return n;
        note_death(f, &twists[board->at], status);
    }
    return n;
}

static void prepare(void)
{
    int status = 1;
    pid_t child = fork();

    if (child == 0) {
        default_signals();
        misuse_prepare();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- tests ---- */

static void every_type_of_handle_can_be_made(void **state)
{
    (void)state;
    for (const char *const *type = misuse_handles; *type; type++)
        if (misuse_can_make(*type) < 0)
            fail_msg("%s is a new type of handle: give tests/misuse/handles.c a row in "
                     "`factories` that makes one",
                     *type);
}

static void wrong_arguments_are_refused(void **state)
{
    const char *only = getenv("MISUSE_ONLY"); /* a part of the names of functions */
    int calls = 0, statuses = 0;

    (void)state;
    prepare();
    for (size_t i = 0; i < misuse_n_functions; i++) {
        const struct function *f = &misuse_functions[i];

        if (!f->present || (only && !strstr(f->name, only)))
            continue;
        calls += call_all(f);
        statuses += f->result == STATUS;
    }
    print_message("%d calls; of %d functions with a status %d fail with arguments meant "
                  "to be valid\n",
                  calls, statuses, board->valid_failed);
    fputs(board->text, stderr);
    assert_int_equal(board->findings, 0);
    assert_true(only || board->valid_failed * 10 <= statuses);
}

/* Without support/files.h: a second copy of lib/base would have a last error of its own.
 */
static char scratch[256];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(scratch, sizeof scratch, "%s/sr1-misuse-XXXXXX", base ? base : "/tmp");
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    return board == MAP_FAILED || !mkdtemp(scratch) || chdir(scratch) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_of_handle_can_be_made),
        cmocka_unit_test(wrong_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
