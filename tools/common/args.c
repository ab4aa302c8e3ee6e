/* args.c - see args.h. */
#include "args.h"

#include "build.h"
#include "start.h"

#include <searchr1/base.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* As ASCII in a string of JSON. */
static void write_json_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        int plain = *text >= ' ' && *text <= '~';

        if (*text == '"' || *text == '\\')
            fputc('\\', f);
        fputc(plain ? *text : *text == '\n' ? ' ' : '?', f);
    }
}

/* torchrun shows in its summary what a worker leaves there. */
static void leave_error_file(const char *program)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    FILE *f = path && *path ? fopen(path, "w") : NULL;

    if (!f)
        return;
    fprintf(f, "{\"message\": \"%s: ", program);
    write_json_text(f, sr1_last_error());
    fprintf(f, "\", \"timestamp\": %lld}\n", (long long)time(NULL));
    fclose(f);
}

int tool_failed(const char *program, int32_t status)
{
    fprintf(stderr, "%s: %s\n", program, sr1_last_error());
    leave_error_file(program);
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

const char *plural_ending(int64_t n, const char *ending)
{
    return n == 1 ? "" : ending;
}

int tool_printed(const char *program, int code)
{
    /* Of a write that failed earlier the reason is gone; errno has another's. */
    const char *reason = fflush(stdout) != 0 ? strerror(errno) : "not all was written";

    if (!ferror(stdout))
        return code;
    fprintf(stderr, "%s: standard output: %s\n", program, reason);
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

static void print_option(const struct args_option *o)
{
    char left[64];

    snprintf(left, sizeof(left), "%s%s%s", o->name, o->value != NULL ? " " : "",
             o->value != NULL ? o->value : "");
    args_wrapped(o->help, printf("  %-22s ", left), HELP_COLUMN);
}

/* Does name stand as a word in text[n]? */
static int has_word(const char *text, size_t n, const char *name)
{
    static const char ends[] = " ,";
    size_t len = strlen(name);

    for (size_t at = 0; at + len <= n; at++) {
        int begins = at == 0 || strchr(ends, text[at - 1]);

        if (begins && strncmp(text + at, name, len) == 0 &&
            (at + len == n || strchr(ends, text[at + len])))
            return 1;
    }
    return 0;
}

static int names_command(const struct args_option *o, const struct args_command *c)
{
    size_t n = strcspn(o->help, ":");

    return o->help[n] == ':' && has_word(o->help, n, c->name);
}

/* Those whose help names no command belong to all. */
static int belongs_to(const struct args *a, const struct args_option *o,
                      const struct args_command *c)
{
    int named = 0;

    for (size_t i = 0; i < a->n_commands; i++)
        named |= names_command(o, &a->commands[i]);
    return !named || names_command(o, c);
}

static void print_usage(const struct args_command *c, const char *before)
{
    for (const char *at = c->usage; *at != '\0'; before = "       ") {
        int n = (int)strcspn(at, "\n");

        printf("%s%.*s\n", before, n, at);
        at += n + (at[n] == '\n');
    }
}

static void print_options(const struct args *a, const struct args_command *c)
{
    printf("\nOptions:\n");
    for (size_t i = 0; i < a->n_options; i++)
        if (c == NULL || belongs_to(a, &a->options[i], c))
            print_option(&a->options[i]);
    printf("  %-22s %s\n  %-22s %s\n", "--help", "show this and leave", "--version",
           "show the version and leave");
}

static void print_command_help(const struct args *a, const struct args_command *c)
{
    print_usage(c, "usage: ");
    if (c->about != NULL)
        printf("\n%s", c->about);
    print_options(a, c);
}

static void print_help(const struct args *a)
{
    for (size_t i = 0; i < a->n_commands; i++)
        print_usage(&a->commands[i], i == 0 ? "usage: " : "       ");
    for (size_t i = 0; i < a->n_commands; i++)
        if (a->commands[i].about != NULL)
            printf("\n%s", a->commands[i].about);
    if (a->n_commands > 0)
        putchar('\n');
    fputs(a->help, stdout);
    print_options(a, NULL);
}

/* Of the command that stands before (NULL: none does), else of the tool. */
static int print_help_for(const struct args *a, const char *command)
{
    for (size_t i = 0; command != NULL && i < a->n_commands; i++)
        if (strcmp(a->commands[i].name, command) == 0) {
            print_command_help(a, &a->commands[i]);
            return tool_printed(a->program, TOOL_OK);
        }
    print_help(a);
    return tool_printed(a->program, TOOL_OK);
}

int args_is_given(const struct args *a, const char *option)
{
    for (size_t i = 0; i < a->n_options; i++)
        if (strcmp(a->options[i].name, option) == 0)
            return a->given[i];
    return 0;
}

static int refuse_option(const struct args *a, const struct args_option *o)
{
    char names[256] = "";

    for (size_t i = 0; i < a->n_commands; i++)
        if (names_command(o, &a->commands[i]))
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s'%s'",
                     names[0] != '\0' ? " and " : "", a->commands[i].name);
    return args_wrong(a, "%s belongs to %s", o->name, names);
}

int args_check_command(const struct args *a, const char *command)
{
    const struct args_command *c = NULL;

    for (size_t i = 0; i < a->n_commands; i++)
        if (strcmp(a->commands[i].name, command) == 0)
            c = &a->commands[i];
    for (size_t i = 0; c != NULL && i < a->n_options; i++)
        if (a->given[i] && !belongs_to(a, &a->options[i], c))
            return refuse_option(a, &a->options[i]);
    return -1;
}

static int is_any_word(const char *word, const char *x, const char *y, const char *z)
{
    return strcmp(word, x) == 0 || strcmp(word, y) == 0 || strcmp(word, z) == 0;
}

/* What is answered before anything else: -1 when the word asks for neither. */
static int answer_word(const struct args *a, const char *word, const char *command)
{
    if (is_any_word(word, "--help", "-h", "-?"))
        return print_help_for(a, command);
    if (!is_any_word(word, "--version", "-V", "-v"))
        return -1;
    printf("%s %s (%s)\n", a->program, sr1_version(), build_text);
    return tool_printed(a->program, TOOL_OK);
}

/* "sr1-search help index": a first word that is no file. */
static int asks_help(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "help") == 0 && access("help", F_OK) != 0;
}

/* Letters to add, drop or change to make one of the other, up to a small bound. */
static size_t measure_edit_distance(const char *a, const char *b)
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

/* As other programs take their settings: --learning_rate, --learning-rate. */
static int refuse_dashes(const struct args *a, const char *name)
{
    char key[64];

    snprintf(key, sizeof(key), "%s", name + strspn(name, "-"));
    for (char *c = key; *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    return args_wrong(a,
                      "there is no option %s; keys of the configuration are given "
                      "without dashes, as %s=VALUE",
                      name, key);
}

static int unknown_option(const struct args *a, const char *name)
{
    const char *near = NULL;
    size_t length = strlen(name + strspn(name, "-"));
    size_t best = length < 4 ? 2 : length < 7 ? 3 : 4; /* too far off */

    for (size_t i = 0; i < a->n_options; i++) {
        size_t d = measure_edit_distance(name, a->options[i].name);

        if (d < best) {
            best = d;
            near = a->options[i].name;
        }
    }
    if (near != NULL)
        return args_wrong(a, "there is no option %s; did you mean %s?", name, near);
    if (a->takes_keys && length > 1)
        return refuse_dashes(a, name);
    return args_wrong(a, "there is no option %s", name);
}

static int set_int_option(const struct args *a, const struct args_option *o,
                          const char *text)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0')
        return args_wrong(a, "%s %s: '%s' is not a whole number", o->name, o->value,
                          text);
    if (errno != 0 || (double)v < o->min || (double)v > o->max)
        return args_wrong(a, "%s: %s is not from %.0f to %.0f", o->name, text, o->min,
                          o->max);
    *(int64_t *)o->target = v;
    return -1;
}

static int set_real_option(const struct args *a, const struct args_option *o,
                           const char *text)
{
    char *end;
    double v = strtod(text, &end);

    if (end != text && *end != '\0')
        return args_wrong(a, "%s: '%s' is not a number of %s; write %s %.*s", o->name,
                          text, o->value, o->name, (int)(end - text), text);
    if (end == text || !isfinite(v))
        return args_wrong(a, "%s %s: '%s' is not a number", o->name, o->value, text);
    if (v < o->min || v > o->max)
        return args_wrong(a, "%s: %s is not from %g to %g", o->name, text, o->min,
                          o->max);
    *(double *)o->target = v;
    return -1;
}

static int set_value(const struct args *a, const struct args_option *o, const char *text)
{
    if (a->given != NULL)
        a->given[o - a->options] = 1;
    switch (o->kind) {
    case ARGS_FLAG:
        *(int *)o->target = 1;
        return -1;
    case ARGS_STRING:
        *(const char **)o->target = text;
        return -1;
    case ARGS_INT:
        return set_int_option(a, o, text);
    case ARGS_REAL:
        return set_real_option(a, o, text);
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
    start_done();
    if (asks_help(argc, argv))
        return print_help_for(a, argv[2]); /* the last of argv is NULL */
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code = -1;

        if (options && strcmp(word, "--") == 0) {
            options = 0;
        } else if (options && word[0] == '-' && word[1] != '\0') {
            code = answer_word(a, word, *n > 0 ? rest[0] : NULL);
            if (code < 0)
                code = read_option(a, argc, argv, &i);
        } else if (*n == max) {
            code = args_wrong(a, "'%s' is one argument too many", word);
        } else {
            rest[(*n)++] = word;
        }
        if (code >= 0)
            return code;
    }
    return -1;
}
