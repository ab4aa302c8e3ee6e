/* base/error.h - set and pass on the thread's error text (see searchr1/base.h). */
#ifndef SR1__BASE_ERROR_H
#define SR1__BASE_ERROR_H

#include <searchr1/base.h>

#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__ERROR_MAX 1024

#define SR1__PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Replace this thread's text and return code. The usual last line of an error path:
 *     return sr1__fail(SR1_E_PARSE, "%s:%zu: no 'question'", path, line); */
sr1_status sr1__fail(sr1_status code, const char *fmt, ...) SR1__PRINTF(2, 3);

/* "a, b, c", from name_of(0), name_of(1), ... to NULL. */
void sr1__list_names(char *out, size_t size, const char *(*name_of)(size_t i));
/* SR1_E_NOT_FOUND: "THING 'name' is not known; known: a, b, c". */
sr1_status sr1__fail_unknown(const char *thing, const char *name,
                             const char *(*name_of)(size_t i));

/* Out of memory for `what` ("token buffer"). */
sr1_status sr1__fail_nomem(const char *what);

/* SR1_E_IO with strerror(errno): "cannot open PATH: No such file or directory". */
sr1_status sr1__fail_errno(const char *doing, const char *path);

/* Put "context: " before the text when status is a failure. Returns status. */
sr1_status sr1__context(sr1_status status, const char *fmt, ...) SR1__PRINTF(2, 3);

/* An error as a value, to carry from a worker to the thread that joins it. */
struct sr1__error {
    sr1_status code;
    char text[SR1__ERROR_MAX];
    uint64_t texts; /* that the thread had been given when it was saved */
};

/* Copy this thread's error into *e (code as given). */
void sr1__error_save(struct sr1__error *e, sr1_status code);

/* The same of the first failure: nothing if st is SR1_OK, or *e has one already. */
void sr1__error_keep_first(struct sr1__error *e, sr1_status st);

/* Make *e this thread's error; returns its code. SR1_OK passes through. */
sr1_status sr1__error_raise(const struct sr1__error *e);

/* The text that this thread was given since it saved *e; "" when none was. Borrowed as
 * sr1_last_error. */
const char *sr1__error_since(const struct sr1__error *e);

/* A failure that less work at a time may avoid. */
static inline int sr1__is_memory(sr1_status status)
{
    return status == SR1_E_NOMEM || status == SR1_E_DEVICE_NOMEM;
}

/* A failure of an action that says nothing about the action: no other would escape it. */
static inline int sr1__is_fatal(sr1_status status)
{
    return status == SR1_E_NOMEM || status == SR1_E_CANCELLED || status == SR1_E_CONFIG;
}

/* Leave at once with a failing status. */
#define SR1__TRY(expr)                                                                   \
    do {                                                                                 \
        sr1_status sr1__try_status = (expr);                                             \
        if (sr1__try_status != SR1_OK)                                                   \
            return sr1__try_status;                                                      \
    } while (0)

/* At the public border: refuse a call that lacks an argument. `names` says which may not:
 *     SR1__REQUIRE(out && config, "rollout: out and config"); */
#define SR1__REQUIRE(given, names)                                                       \
    do {                                                                                 \
        if (!(given))                                                                    \
            return sr1__fail(SR1_E_INVALID, "%s must not be NULL", names);               \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
