/* misuse/misuse.h - every public function as a row: how to call it, and with what.
 *
 * The rows are generated from the public headers by calls.py. handles.c makes a handle of
 * each type, values.c the values of parameters and fields, test_misuse.c the wrong ones.
 */
#ifndef SR1_TESTS_MISUSE_H
#define SR1_TESTS_MISUSE_H

#include <stddef.h>
#include <stdint.h>

union slot {
    void *p;
    int64_t i;
    double d;
    void (*f)(void);
};

/* Kinds of parameters and fields. */
enum kind {
    HANDLE,   /* an opaque type */
    STRUCT,   /* a public struct that begins with struct_size */
    TEXT,     /* const char * */
    POINTERS, /* an array of pointers to read */
    INPUT,    /* another array to read */
    OUTPUT,   /* what the function fills */
    USER,     /* void *: handed on to callbacks */
    FUNCTION, /* a callback */
    INTEGER,
    REAL,
    ARRAY /* a field that is an array of its own */
};

enum result { NOTHING, STATUS, COUNT, NUMBER, STRING, POINTER };

struct field {
    const char *name;
    const char *type; /* that it points to, without const */
    enum kind kind;
    size_t offset;
    size_t size;
};

struct shape {
    const char *name;
    size_t size;
    void (*init)(void *); /* sr1_..._init; NULL: there is none */
    const struct field *fields;
    size_t n_fields;
};

struct param {
    const char *name;
    const char *type;
    enum kind kind;
    int is_const;
    int size; /* INTEGER: bytes */
    int is_signed;
    const struct shape *shape; /* STRUCT */
};

struct function {
    const char *name;
    enum result result;
    int says_null;         /* its comment speaks of NULL */
    void (*present)(void); /* NULL: not linked into this program */
    void (*call)(const union slot *arguments, union slot *result);
    const struct param *params;
    int n_params;
};

extern const struct function misuse_functions[];
extern const size_t misuse_n_functions;
extern const char *const misuse_handles[]; /* names of types, up to NULL */

/* Bytes of every array, struct and output that is handed over. */
#define MISUSE_ROOM 65536

/* ---- handles.c ---- */

/* Files and folders that handles and values name, in the working folder. */
void misuse_prepare(void);

/* Is there a way to make a handle of this type? -1: no. 0: not without torch. */
int misuse_can_make(const char *type);

/* A new handle of this type, never NULL. Ends the process with a message on failure. */
void *misuse_make(const char *type);

/* Address of a server that answers as a model's and as a retriever. */
const char *misuse_server_url(void);

/* ---- values.c ---- */

/* The value that function (or shape) `owner` takes in `name`, as text; NULL: any. */
const char *misuse_value(const char *owner, const char *name);

/* A callback for it; NULL: none is given. */
void (*misuse_callback(const char *owner, const char *name))(void);

/* A valid struct into room[MISUSE_ROOM]. */
void misuse_fill(void *room, const struct shape *shape);

/* What an array is filled with, by its value ("@zeros", "@rising64", ...). */
void misuse_array(void *room, const char *value);

#endif
