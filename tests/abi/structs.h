/* abi/structs.h - structs as older and newer callers pass them.
 *
 * An older caller's struct ends after some field; what it lacks must count as the
 * default. A newer caller's goes on; what follows must be neither read nor written. Older
 * ones lie in blocks of just their size: a sanitizer sees any byte read beyond. */
#ifndef SR1_TESTS_STRUCTS_H
#define SR1_TESTS_STRUCTS_H

#include "support/tiny.h"

#define GUARD 0x5a
#define GUARDS 32

/* What a call did, as text to compare. */
struct said {
    char text[4096];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static inline void say(struct said *s,
                                                             const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    s->n += (size_t)vsnprintf(s->text + s->n, sizeof s->text - s->n, fmt, args);
    va_end(args);
    assert_true(s->n < sizeof s->text);
}

static inline sr1_status say_status(struct said *s, sr1_status st)
{
    say(s, "%d %s;", (int)st, st == SR1_OK ? "" : sr1_last_error());
    return st;
}

/* The end of a field in bytes: the size of a struct that ends with it. */
#define END(type, field) (offsetof(type, field) + sizeof((type){0}.field))

struct input {
    const char *name;
    void (*call)(const void *given, struct said *said);
    const void *full; /* a value other than the default in every field */
    const void *defaults;
    size_t size;
    size_t ends[8]; /* sizes of older callers, the shortest first */
};

/* A block of `size` bytes that says so at its start, filled from `from` as far as
 * `copied`, else with guards. Caller frees. */
static inline void *sized(const void *from, size_t copied, size_t size)
{
    unsigned char *p = malloc(size);

    assert_non_null(p);
    memset(p, GUARD, size);
    memcpy(p, from, copied < size ? copied : size);
    memcpy(p, &size, sizeof size);
    return p;
}

/* The call with the first `copied` bytes of full in a struct of `size` bytes; the struct
 * must come back unchanged. */
static inline void call_with(const struct input *in, const void *full, size_t copied,
                             size_t size, struct said *said)
{
    void *given = sized(full, copied, size), *before = malloc(size);

    assert_non_null(before);
    memcpy(before, given, size);
    said->n = 0;
    said->text[0] = '\0';
    in->call(given, said);
    assert_memory_equal(given, before, size);
    free(before);
    free(given);
}

static inline void older_callers(const struct input *in, const struct said *whole)
{
    struct said want, got;

    for (size_t i = 0; in->ends[i]; i++) {
        unsigned char *spelt = sized(in->defaults, in->size, in->size);

        memcpy(spelt + sizeof(size_t), (const char *)in->full + sizeof(size_t),
               in->ends[i] - sizeof(size_t));
        call_with(in, spelt, in->size, in->size, &want);
        call_with(in, in->full, in->ends[i], in->ends[i], &got);
        assert_string_equal(got.text, want.text);
        if (i == 0)
            assert_string_not_equal(got.text, whole->text);
        free(spelt);
    }
}

static inline void check_input(const struct input *in)
{
    const size_t bad[] = {0, sizeof(size_t), in->ends[0] - 1};
    struct said whole, got = {.n = 0};

    print_message("    %s\n", in->name);
    call_with(in, in->full, in->size, in->size, &whole);
    older_callers(in, &whole);
    call_with(in, in->full, in->size, in->size + GUARDS, &got);
    assert_string_equal(got.text, whole.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned char *given = sized(in->full, in->size, in->size);

        memcpy(given, &bad[i], sizeof bad[i]);
        got.n = 0;
        in->call(given, &got);
        if (!strstr(got.text, "struct_size is not set"))
            fail_msg("%s of %zu bytes: %s", in->name, bad[i], got.text);
        free(given);
    }
}

#endif
