/* searchr1/base.h - statuses, error text, version, logging.
 *
 * Every function that can fail returns sr1_status: SR1_OK (0) or one of the negative
 * codes below. sr1_last_error() explains the last failure on the calling thread. */
#ifndef SEARCHR1_BASE_H
#define SEARCHR1_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SR1_API __attribute__((visibility("default")))
#else
#define SR1_API
#endif

#define SR1_VERSION_MAJOR 0
#define SR1_VERSION_MINOR 1
#define SR1_VERSION_PATCH 0

/* X(name, code, meaning): the one list of statuses. Codes are never reused. */
#define SR1_STATUS_TABLE(X)                                                              \
    X(SR1_OK, 0, "success")                                                              \
    X(SR1_E_INVALID, -1, "an argument is not acceptable")                                \
    X(SR1_E_NOMEM, -2, "out of memory")                                                  \
    X(SR1_E_IO, -3, "a file or folder could not be read or written")                     \
    X(SR1_E_PARSE, -4, "input is not well formed")                                       \
    X(SR1_E_CONFIG, -5, "a configuration key or value is wrong")                         \
    X(SR1_E_NOT_FOUND, -6, "the thing named does not exist")                             \
    X(SR1_E_UNSUPPORTED, -7, "known, but not supported here")                            \
    X(SR1_E_STATE, -8, "the call does not fit the state of the object")                  \
    X(SR1_E_LIMIT, -9, "a stated bound was exceeded")                                    \
    X(SR1_E_CORRUPT, -10, "stored data fails its check")                                 \
    X(SR1_E_NETWORK, -11, "a remote service failed")                                     \
    X(SR1_E_TIMEOUT, -12, "a deadline passed")                                           \
    X(SR1_E_CANCELLED, -13, "stopped on request")                                        \
    X(SR1_E_DEVICE, -14, "the compute device failed or is not there")                    \
    X(SR1_E_DEVICE_NOMEM, -15, "the compute device is out of memory")                    \
    X(SR1_E_NUMERIC, -16, "a value is not finite")                                       \
    X(SR1_E_CALLBACK, -17, "a function given by the caller failed")                      \
    X(SR1_E_INTERNAL, -18, "a defect in the library")

typedef int32_t sr1_status;

#define SR1_STATUS_ENUM(name, code, meaning) name = code,
enum { SR1_STATUS_TABLE(SR1_STATUS_ENUM) };
#undef SR1_STATUS_ENUM

/* Return the text of the last failure on the calling thread; "" if no call failed yet.
 * Never NULL. Borrowed until the next failing call on this thread. */
SR1_API const char *sr1_last_error(void);

/* Return the name of a status: "SR1_E_IO" for -3; "SR1_E_?" for an unknown code.
 * Static. */
SR1_API const char *sr1_status_name(sr1_status status);

/* Return the meaning of a status as SR1_STATUS_TABLE has it: "out of memory" for
 * SR1_E_NOMEM; "unknown status" for an unknown code. Static. */
SR1_API const char *sr1_status_text(sr1_status status);

/* Explain, from inside a callback, why the callback is about to return a failing status.
 * The text is copied (at most 1023 bytes). Returns status, so that a callback can end
 * with "return sr1_set_error(SR1_E_IO, text)". */
SR1_API sr1_status sr1_set_error(sr1_status status, const char *text);

/* Mark the calls that this thread makes from here on with a number of yours, below 2^63;
 * returns the mark that was there (0 at first), to be put back after the call. Callbacks
 * that a call causes see its mark by sr1_call_mark, on whichever thread they run. */
SR1_API uint64_t sr1_set_call_mark(uint64_t mark);

/* Return, from inside a callback, the mark of the call that caused it; where no call is
 * under way 0, or in a server a number of the server's own, 2^63 or more. */
SR1_API uint64_t sr1_call_mark(void);

/* Return the version of the library that is loaded: "0.1.0". Static. */
SR1_API const char *sr1_version(void);

/* Free memory that the library allocated for the caller: what a function comment marks
 * "caller frees with sr1_free". NULL is fine. */
SR1_API void sr1_free(void *memory);

/* Levels of log messages. */
enum { SR1_LOG_DEBUG = 0, SR1_LOG_INFO = 1, SR1_LOG_WARN = 2 };

/* The library never prints: messages worth a line go here, from any of its threads, one
 * call at a time; one that arises within the call is dropped. One that another thread has
 * meanwhile comes next, and that thread does not wait for it, so the call may free a
 * handle whose thread logs. text is borrowed for it. */
typedef void (*sr1_log_fn)(void *user, int32_t level, const char *text);

/* Set the function that receives the library's log messages, for the whole process; fn
 * NULL removes it. user is passed on to fn. Call this while no other call of the library
 * runs. */
SR1_API void sr1_log_set(sr1_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
