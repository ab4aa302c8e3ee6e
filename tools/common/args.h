/* args.h - command lines of the tools: commands, options, help.
 *
 * Options are --name VALUE or --name=VALUE, anywhere on the line; "--" ends them. A wrong
 * command line is explained on stderr with what to do. */
#ifndef SR1_TOOLS_ARGS_H
#define SR1_TOOLS_ARGS_H

#include <stddef.h>
#include <stdint.h>

/* Exit codes of every tool. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_INTERRUPTED = 130 };

enum args_kind {
    ARGS_FLAG,   /* int, set to 1 */
    ARGS_STRING, /* const char *, borrowed from argv */
    ARGS_INT,    /* int64_t, from min to max */
    ARGS_REAL,   /* double, from min to max */
};

struct args_option {
    const char *name; /* with its dashes */
    enum args_kind kind;
    void *target;      /* keeps its value when the option is not given */
    const char *value; /* what help calls the value: "N"; NULL for a flag */
    const char *help;
    double min;
    double max;
};

/* A command of a tool that has several: "sr1-search index". Options whose help begins
 * with names of commands ("index, serve: ...", "index --vectors: ...") belong to these.
 */
struct args_command {
    const char *name;
    const char *usage; /* lines under each other, without a newline at the end */
    const char *about; /* ends with a newline; NULL: the usage says all */
};

struct args {
    const char *program; /* as users call it: "sr1-search" */
    const char *help;    /* printed before the options; ends with a newline */
    const struct args_option *options;
    size_t n_options;
    const struct args_command *commands; /* their usage stands before help */
    size_t n_commands;
    int *given;     /* [n_options] set to 1 for options that were there; may be NULL */
    int takes_keys; /* words key=value are the configuration's */
};

/* Read argv[1..argc). What is no option goes to rest[0..max) in order, *n of them.
 * Returns -1 to go on, or the exit code: TOOL_OK after --help (-h, help; behind a command
 * its part) or --version (-V, -v), both printed to stdout, TOOL_USAGE after an error. */
int args_read(const struct args *a, int argc, char **argv, const char **rest, size_t max,
              size_t *n);

/* Was this option there? By `given`, which must not be NULL; so for the next. */
int args_is_given(const struct args *a, const char *option);

/* -1 when every option that was there belongs to this command, else the exit code: one of
 * another command would be set in vain. */
int args_check_command(const struct args *a, const char *command);

/* The words of text from column `at` on, in lines of at most 90; all but the first line
 * begin at `column`. */
void args_wrapped(const char *text, int at, int column);

/* "program: message" and where to find help, on stderr. Returns TOOL_USAGE. */
int args_wrong(const struct args *a, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* "program: last error" on stderr after a failing call of the library, and in the file
 * that torchrun names (TORCHELASTIC_ERROR_FILE). Returns the exit code: TOOL_USAGE for
 * what the user can set right on the command line, in a configuration or in a file,
 * TOOL_INTERRUPTED after a stop on request, else TOOL_FAILED. */
int tool_failed(const char *program, int32_t status);

/* The same while nothing was written yet: a file that cannot be read, or is
 * damaged, is wrong usage too. */
int tool_refused(const char *program, int32_t status);

/* The ending of a noun behind n: "" for one, else "s" or "es". */
const char *plural_ending(int64_t n, const char *ending);

/* What was printed is out: code, or TOOL_FAILED with a text where it is not (a full
 * disk). The last thing before a tool ends. */
int tool_printed(const char *program, int code);

#endif
