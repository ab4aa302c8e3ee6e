/* args.c - see args.h. */
#include "args.h"

#include <searchr1/base.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int args_wrong(const struct args *a, const char *format, ...)
{
    va_list ap;

    fprintf(stderr, "%s: ", a->program);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fprintf(stderr, "\nTry '%s --help'.\n", a->program);
    return TOOL_USAGE;
}

int tool_failed(const char *program, int32_t status)
{
    fprintf(stderr, "%s: %s\n", program, sr1_last_error());
    switch (status) {
    case SR1_E_INVALID:
    case SR1_E_PARSE:
    case SR1_E_CONFIG:
    case SR1_E_NOT_FOUND:
    case SR1_E_UNSUPPORTED:
    case SR1_E_LIMIT:
    case SR1_E_DEVICE:
        return TOOL_USAGE;
    case SR1_E_CANCELLED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

int tool_refused(const char *program, int32_t status)
{
    int code = tool_failed(program, status);
    int bad_file =
        status == SR1_E_IO || status == SR1_E_CORRUPT || status == SR1_E_NUMERIC;

    return bad_file ? TOOL_USAGE : code;
}

int tool_printed(const char *program, int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fprintf(stderr, "%s: standard output: %s\n", program, strerror(errno));
    return code == TOOL_OK ? TOOL_FAILED : code;
}

#define LINE_END 90
#define HELP_COLUMN 25

void args_wrapped(const char *text, int at, int column)
{
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");

        if (at > column && at + n + 1 > LINE_END)
            at = printf("\n%*s", column, "") - 1;
        at += printf("%s%.*s", at > column ? " " : "", n, text);
        text += n + strspn(text + n, " ");
    }
    putchar('\n');
}

static void print_help(const struct args *a)
{
    fputs(a->help, stdout);
    printf("\nOptions:\n");
    for (size_t i = 0; i < a->n_options; i++) {
        const struct args_option *o = &a->options[i];
        char left[64];

        snprintf(left, sizeof(left), "%s%s%s", o->name, o->value != NULL ? " " : "",
                 o->value != NULL ? o->value : "");
        args_wrapped(o->help, printf("  %-22s ", left), HELP_COLUMN);
    }
    printf("  %-22s %s\n  %-22s %s\n", "--help", "show this and leave", "--version",
           "show the version and leave");
}

/* Letters to add, drop or change to make one of the other, up to a small bound. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64];
    size_t n = strlen(b);

    if (n >= 64 || strlen(a) >= 64)
        return 64;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t change = diagonal + (a[i] != b[j]);
            size_t best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;

            diagonal = row[j + 1];
            row[j + 1] = change < best ? change : best;
        }
    }
    return row[n];
}

static int unknown_option(const struct args *a, const char *name)
{
    const char *near = NULL;
    size_t best = 4;

    for (size_t i = 0; i < a->n_options; i++) {
        size_t d = distance(name, a->options[i].name);

        if (d < best) {
            best = d;
            near = a->options[i].name;
        }
    }
    if (near != NULL)
        return args_wrong(a, "there is no option %s; did you mean %s?", name, near);
    return args_wrong(a, "there is no option %s", name);
}

static int set_int(const struct args *a, const struct args_option *o, const char *text)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return args_wrong(a, "%s: '%s' is not a whole number", o->name, text);
    if (errno != 0 || (double)v < o->min || (double)v > o->max)
        return args_wrong(a, "%s: %s is not from %.0f to %.0f", o->name, text, o->min,
                          o->max);
    *(int64_t *)o->target = v;
    return -1;
}

static int set_real(const struct args *a, const struct args_option *o, const char *text)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || !isfinite(v))
        return args_wrong(a, "%s: '%s' is not a number", o->name, text);
    if (v < o->min || v > o->max)
        return args_wrong(a, "%s: %s is not from %g to %g", o->name, text, o->min,
                          o->max);
    *(double *)o->target = v;
    return -1;
}

static int set_value(const struct args *a, const struct args_option *o, const char *text)
{
    if (o->given != NULL)
        *o->given = 1;
    switch (o->kind) {
    case ARGS_FLAG:
        *(int *)o->target = 1;
        return -1;
    case ARGS_STRING:
        *(const char **)o->target = text;
        return -1;
    case ARGS_INT:
        return set_int(a, o, text);
    case ARGS_REAL:
        return set_real(a, o, text);
    }
    return -1;
}

/* argv[*at] is an option; *at moves over its value where that is a word of its own. */
static int read_option(const struct args *a, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word);
    char name[64];

    if (n >= sizeof(name))
        return args_wrong(a, "there is no option %s", word);
    memcpy(name, word, n);
    name[n] = '\0';
    for (size_t i = 0; i < a->n_options; i++) {
        const struct args_option *o = &a->options[i];

        if (strcmp(o->name, name) != 0)
            continue;
        if (o->kind == ARGS_FLAG && equals != NULL)
            return args_wrong(a, "%s takes no value", o->name);
        if (o->kind == ARGS_FLAG || equals != NULL)
            return set_value(a, o, equals != NULL ? equals + 1 : NULL);
        if (*at + 1 == argc)
            return args_wrong(a, "%s needs a value: %s %s", o->name, o->name, o->value);
        return set_value(a, o, argv[++*at]);
    }
    return unknown_option(a, name);
}

int args_read(const struct args *a, int argc, char **argv, const char **rest, size_t max,
              size_t *n)
{
    int options = 1;

    *n = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code;

        if (options && strcmp(word, "--") == 0) {
            options = 0;
        } else if (options && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            print_help(a);
            return TOOL_OK;
        } else if (options && strcmp(word, "--version") == 0) {
            printf("%s %s\n", a->program, sr1_version());
            return TOOL_OK;
        } else if (options && word[0] == '-' && word[1] != '\0') {
            code = read_option(a, argc, argv, &i);
            if (code >= 0)
                return code;
        } else if (*n == max) {
            return args_wrong(a, "'%s' is one argument too many", word);
        } else {
            rest[(*n)++] = word;
        }
    }
    return -1;
}
