/* sr1-sandbox - run one program that nobody has read, in isolation. */
#include "common/args.h"
#include "sr1_report/text.h"

#include <searchr1/ext/sandbox.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)
#define FOLDERS_MAX 16

static const char help_text[] =
    "sr1-sandbox - run one program in isolation, and say how it ended\n"
    "\n"
    "  sr1-sandbox run FILE.py [ARGUMENT...]   run it; - reads it from standard input; "
    "what\n"
    "                                          stands behind -- goes to the program\n"
    "  sr1-sandbox check                       can programs be isolated on this "
    "machine?\n"
    "\n"
    "A program sees no network, a read-only /usr, and a /tmp of its own; what it starts "
    "ends\n"
    "with it. Its standard output goes to standard output; the verdict and figures go "
    "to\n"
    "standard error, or with --json all goes to standard output.\n"
    "\n"
    "Example:\n"
    "  echo 'print(int(input()) * 2)' > double.py\n"
    "  echo 21 | sr1-sandbox run double.py --stdin - --time 2 --memory 256\n"
    "\n"
    "Exit codes: 0 the program passed, 1 it did not, or it could not be run, 2 wrong "
    "usage or\n"
    "programs cannot be isolated here.\n";

static struct {
    const char *input;
    const char *expected;
    const char *url;
    const char *token_env;
    const char *language;
    const char *isolation;
    const char *interpreter;
    const char *read_only;
    double time;
    int64_t memory;
    int64_t processes;
    int64_t output;
    int json;
} wanted = {.isolation = "bubblewrap"};

static const struct args_option options[] = {
    {"--stdin", ARGS_STRING, &wanted.input, "FILE", "its standard input; default: empty",
     0, 0},
    {"--expect", ARGS_STRING, &wanted.expected, "FILE",
     "the output it should have, as online judges compare", 0, 0},
    {"--time", ARGS_REAL, &wanted.time, "S", "seconds it may take; default 10", 0.01,
     1e6},
    {"--memory", ARGS_INT, &wanted.memory, "MIB", "memory it may use; default 1024", 16,
     1 << 20},
    {"--processes", ARGS_INT, &wanted.processes, "N",
     "processes and threads at a time; default 32", 1, 100000},
    {"--output", ARGS_INT, &wanted.output, "BYTES",
     "bytes it may write to each stream; default 1048576", 1, 1 << 29},
    {"--isolation", ARGS_STRING, &wanted.isolation, "KIND",
     "bubblewrap, or none: it can do what you can", 0, 0},
    {"--python", ARGS_STRING, &wanted.interpreter, "FILE",
     "the interpreter; default /usr/bin/python3", 0, 0},
    {"--read-only", ARGS_STRING, &wanted.read_only, "FOLDERS",
     "it can read these too, with commas between; needed for a --python elsewhere", 0, 0},
    {"--url", ARGS_STRING, &wanted.url, "URL", "run it by this SandboxFusion service", 0,
     0},
    {"--token-env", ARGS_STRING, &wanted.token_env, "NAME",
     "name of the environment variable that holds the service's key", 0, 0},
    {"--language", ARGS_STRING, &wanted.language, "NAME",
     "of the program, for a service; default python", 0, 0},
    {"--json", ARGS_FLAG, &wanted.json, NULL, "one JSON object on standard output", 0, 0},
};

static const struct args arguments = {"sr1-sandbox", help_text, options,
                                      sizeof options / sizeof *options};

/* ---- files ---- */

struct content {
    char *bytes;
    size_t n;
};

/* All of a stream, with a NUL behind it; 0 and errno on failure. */
static int read_stream(FILE *f, struct content *out)
{
    size_t room = 0;

    do {
        char *more = realloc(out->bytes, room = 2 * room + 65536);

        if (more == NULL)
            return 0;
        out->bytes = more;
        out->n += fread(out->bytes + out->n, 1, room - out->n - 1, f);
        if (out->n > FILE_BYTES_MAX) {
            errno = EFBIG;
            return 0;
        }
    } while (!feof(f) && !ferror(f));
    out->bytes[out->n] = '\0';
    return !ferror(f);
}

static int is_stdin(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static int read_input_file(const char *path, struct content *out)
{
    FILE *f = is_stdin(path) ? stdin : fopen(path, "rb");
    int good = f != NULL && read_stream(f, out);

    if (!good)
        fprintf(stderr, "sr1-sandbox: cannot read %s: %s\n", path, strerror(errno));
    if (f != NULL && f != stdin)
        (void)fclose(f);
    return good;
}

/* A program is text that ends at a NUL: what is behind one would not run. */
static int check_program(const char *path, const struct content *code)
{
    const char *nul = memchr(code->bytes, '\0', code->n);

    if (nul == NULL)
        return 1;
    fprintf(stderr,
            "sr1-sandbox: %s: a NUL byte at offset %zu; a program is text without any\n",
            path, (size_t)(nul - code->bytes));
    return 0;
}

/* ---- what is shown ---- */

/* What is not UTF-8 in what it wrote becomes U+FFFD. */
static int print_result_json(const sr1_execution_result *r)
{
    struct text t = {0};
    int failed;

    text_fmt(&t, "{\"verdict\": \"%s\", \"exit_code\": %d, \"signal\": %d, ",
             sr1_execution_verdict_name(r->verdict), r->exit_code, r->signal);
    text_str(&t, "\"message\": ");
    text_json_str(&t, r->message);
    text_fmt(&t, ", \"wall_s\": %.4f, \"cpu_s\": %.4f, \"peak_bytes\": %lld", r->wall_s,
             r->cpu_s, (long long)r->peak_bytes);
    text_str(&t, ", \"stdout\": ");
    text_json_bytes(&t, r->out, r->out_bytes);
    text_str(&t, ", \"stderr\": ");
    text_json_bytes(&t, r->err, r->err_bytes);
    text_str(&t, "}\n");
    failed = t.failed;
    if (failed)
        fprintf(stderr, "sr1-sandbox: out of memory\n");
    else
        fwrite(t.data, 1, t.len, stdout);
    text_free(&t);
    return failed ? TOOL_FAILED : TOOL_OK;
}

static int print_plain(const sr1_execution_result *r)
{
    fwrite(r->out, 1, r->out_bytes, stdout);
    fflush(stdout);
    fwrite(r->err, 1, r->err_bytes, stderr);
    if (r->err_bytes > 0 && r->err[r->err_bytes - 1] != '\n')
        fputc('\n', stderr);
    fprintf(stderr, "verdict: %s%s%s\n", sr1_execution_verdict_name(r->verdict),
            *r->message != '\0' ? ", " : "", r->message);
    fprintf(stderr, "time: %.3f s", r->wall_s);
    if (r->cpu_s >= 0)
        fprintf(stderr, ", processor %.3f s", r->cpu_s);
    if (r->peak_bytes >= 0)
        fprintf(stderr, ", memory %.1f MiB", (double)r->peak_bytes / 1048576);
    fputc('\n', stderr);
    return TOOL_OK;
}

static int show_execution(const sr1_execution_result *r)
{
    int code = wanted.json ? print_result_json(r) : print_plain(r);

    return r->verdict == SR1_RUN_PASSED ? code : TOOL_FAILED;
}

/* ---- commands ---- */

static void free_folders(char **folders, size_t n)
{
    while (n > 0)
        free(folders[--n]);
}

/* The folders of --read-only by their full names. */
static sr1_status find_folders(char *folders[FOLDERS_MAX], size_t *n)
{
    const char *at = wanted.read_only;
    char name[4096], text[4200];

    while (at != NULL) {
        const char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);

        snprintf(name, sizeof(name), "%.*s", (int)(len < 4000 ? len : 4000), at);
        if (*n == FOLDERS_MAX || (folders[*n] = realpath(name, NULL)) == NULL) {
            snprintf(text, sizeof(text), "--read-only: %s: %s", name,
                     *n == FOLDERS_MAX ? "too many folders" : strerror(errno));
            return sr1_set_error(SR1_E_INVALID, text);
        }
        ++*n;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return SR1_OK;
}

static sr1_status open_tool_sandbox(sr1_sandbox **box)
{
    char *folders[FOLDERS_MAX];
    sr1_sandbox_options o;
    size_t n = 0;
    sr1_status status = find_folders(folders, &n);

    sr1_sandbox_options_init(&o);
    o.read_only = (const char *const *)folders;
    o.n_read_only = n;
    o.kind = wanted.url != NULL ? "fusion" : "local";
    o.isolation = wanted.isolation;
    o.interpreter = wanted.interpreter;
    o.url = wanted.url;
    o.token_env = wanted.token_env;
    o.concurrency = 1;
    if (status == SR1_OK)
        status = sr1_sandbox_open(box, &o);
    free_folders(folders, n);
    return status;
}

static int run_program(sr1_sandbox *box, const sr1_program *program)
{
    sr1_execution_result result = {sizeof result};
    sr1_execution *run = NULL;
    sr1_status status = sr1_sandbox_run(box, program, &run);
    int code;

    if (status == SR1_OK)
        status = sr1_execution_result_get(run, &result);
    code =
        status == SR1_OK ? show_execution(&result) : tool_failed("sr1-sandbox", status);
    sr1_execution_free(run);
    return code;
}

static int run_program_command(const char *const *rest, size_t n)
{
    struct content code = {NULL, 0}, input = {NULL, 0}, expected = {NULL, 0};
    sr1_sandbox *box = NULL;
    sr1_program program;
    sr1_status status;
    int result = TOOL_USAGE;

    if (n == 0)
        return args_wrong(&arguments, "run: which program?");
    if (is_stdin(rest[0]) + is_stdin(wanted.input) + is_stdin(wanted.expected) > 1)
        return args_wrong(&arguments, "only one file can be -, the standard input");
    if (!read_input_file(rest[0], &code) || !check_program(rest[0], &code) ||
        (wanted.input != NULL && !read_input_file(wanted.input, &input)) ||
        (wanted.expected != NULL && !read_input_file(wanted.expected, &expected)))
        goto out;
    sr1_program_init(&program);
    program.language = wanted.language;
    program.code = code.bytes;
    program.input = input.bytes;
    program.input_bytes = input.n;
    program.expected = expected.bytes;
    program.expected_bytes = expected.n;
    program.args = rest + 1;
    program.n_args = n - 1;
    program.time_s = wanted.time;
    program.memory_mib = (int32_t)wanted.memory;
    program.processes = (int32_t)wanted.processes;
    program.output_bytes = wanted.output;
    status = open_tool_sandbox(&box);
    result = status == SR1_OK ? run_program(box, &program)
                              : tool_refused("sr1-sandbox", status);
out:
    sr1_sandbox_free(box);
    free(code.bytes);
    free(input.bytes);
    free(expected.bytes);
    return result;
}

static int check_command(void)
{
    sr1_sandbox *box = NULL;
    sr1_status status = open_tool_sandbox(&box);

    if (status != SR1_OK)
        return tool_refused("sr1-sandbox", status);
    printf("programs run by %s\n", sr1_sandbox_describe(box));
    sr1_sandbox_free(box);
    return TOOL_OK;
}

static int run_words(const char *const *rest, size_t n)
{
    if (n > 0 && strcmp(rest[0], "run") == 0)
        return run_program_command(rest + 1, n - 1);
    if (n == 1 && strcmp(rest[0], "check") == 0)
        return check_command();
    if (n == 0)
        return args_wrong(&arguments, "which command? run or check");
    return args_wrong(&arguments, "'%s' is no command here; it is run FILE or check",
                      rest[0]);
}

int main(int argc, char **argv)
{
    const char *rest[1026];
    size_t n = 0;
    int code = args_read(&arguments, argc, argv, rest, sizeof rest / sizeof *rest, &n);

    return code >= 0 ? code : tool_printed("sr1-sandbox", run_words(rest, n));
}
