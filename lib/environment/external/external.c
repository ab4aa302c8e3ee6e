/* environment/external/external.c - see external.h. */
#include "environment/external/external.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/struct.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE ((size_t)64 << 20)
#define DEFAULT_TIMEOUT_S 600.0
#define START_S 60.0

void sr1_external_options_init(sr1_external_options *options)
{
    static const sr1_external_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_options(double *timeout_s, const sr1_external_options *given)
{
    sr1_external_options o = {0};

    SR1__TRY(sr1__struct_take(&o, sizeof o, given,
                              SR1__STRUCT_END(sr1_external_options, struct_size),
                              "options of a program"));
    if (!(o.timeout_s >= 0 && o.timeout_s <= 86400))
        return sr1__fail(SR1_E_INVALID,
                         "options of a program: timeout_s is %g; 0 to 86400",
                         o.timeout_s);
    *timeout_s = o.timeout_s > 0 ? o.timeout_s : DEFAULT_TIMEOUT_S;
    return SR1_OK;
}

static int is_python_file(const char *path)
{
    return sr1__str_ends_with(sr1__str_of(path), ".py");
}

/* Python would run it, but the system takes it for a program of its own. */
static int lacks_first_line(const char *path)
{
    char begin[2] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, begin, 2) : -1;

    if (fd >= 0)
        close(fd);
    return n >= 0 && !(n == 2 && begin[0] == '#' && begin[1] == '!');
}

/* What cannot be run is told now, not at the first request. */
static sr1_status check_program_file(const char *what, const char *path)
{
    struct stat info;

    if (access(path, is_python_file(path) ? R_OK : X_OK) != 0) {
        const char *remedy = errno == EACCES ? " (make it executable: chmod +x)" : "";

        return sr1__context(sr1__fail_errno("run", path), "%s%s", what, remedy);
    }
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return sr1__fail(SR1_E_IO, "%s: cannot run %s: it is no file", what, path);
    if (is_python_file(path) && access(path, X_OK) == 0 && lacks_first_line(path))
        return sr1__fail(SR1_E_IO,
                         "%s: cannot run %s: it is executable, but its first line is not "
                         "#!/usr/bin/env python3 (without the permission, chmod -x, "
                         "python3 runs it)",
                         what, path);
    return SR1_OK;
}

/* A name without a folder is a file of this one, not a program of PATH. */
static sr1_status open_program(struct sr1__external *x, const char *what,
                               const char *path)
{
    struct sr1__buf file, name;
    const char *argv[3] = {NULL, NULL, NULL};
    struct sr1__rpc_options o = {.start_s = START_S};
    int script = is_python_file(path) && access(path, X_OK) != 0;
    sr1_status st;

    sr1__buf_init(&file, 0);
    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&file, "%s%s", strchr(path, '/') ? "" : "./", path);
    sr1__buf_fmt(&name, "%s %s", what, path);
    argv[0] = script ? "python3" : sr1__buf_cstr(&file);
    argv[1] = script ? sr1__buf_cstr(&file) : NULL;
    o.program = (struct sr1__line_process_options){
        .name = sr1__buf_cstr(&name), .argv = argv, .max_line = MAX_LINE};
    st = sr1__buf_status(&file, what);
    if (st == SR1_OK)
        st = sr1__buf_status(&name, what);
    if (st == SR1_OK)
        st = sr1__rpc_new(&x->program, &o);
    sr1__buf_free(&file);
    sr1__buf_free(&name);
    return st;
}

sr1_status sr1__external_open(struct sr1__external **out, const char *what,
                              const char *path, const sr1_external_options *options)
{
    struct sr1__external *x;
    double timeout_s = 0;
    sr1_status st;

    SR1__TRY(read_options(&timeout_s, options));
    SR1__TRY(check_program_file(what, path));
    SR1__CALLOC(x, 1, what);
    x->timeout_s = timeout_s;
    st = open_program(x, what, path);
    SR1__RETURN_NEW(out, x, st, sr1__external_free);
}

void sr1__external_free(struct sr1__external *x)
{
    if (!x)
        return;
    sr1__rpc_free(x->program);
    sr1__free(x);
}

/* The answers, if there are as many as questions. */
static sr1_status take_answer_list(struct sr1__external *x, const char *method,
                                   const struct sr1__rpc_reply *reply, size_t n,
                                   json_t **out)
{
    const char *name = sr1__rpc_name(x->program);

    if (!reply->result)
        return sr1__fail(SR1_E_NETWORK, "%s: %s failed: %.300s", name, method,
                         reply->message);
    if (!json_is_array(reply->result) || json_array_size(reply->result) != n)
        return sr1__fail(SR1_E_PARSE,
                         "%s: the result of %s must be a list of %zu, one for each asked",
                         name, method, n);
    *out = json_incref(reply->result);
    return SR1_OK;
}

sr1_status sr1__external_ask(struct sr1__external *x, const char *method, json_t *params,
                             size_t n, json_t **out, int64_t *incarnation)
{
    struct sr1__rpc_reply reply = {0};
    sr1_status st;

    SR1__CHECK_ALLOC(params, "a request to a program");
    st = sr1__rpc_call(x->program, method, params, sr1__now() + x->timeout_s, &reply);
    json_decref(params);
    if (st == SR1_OK)
        st = take_answer_list(x, method, &reply, n, out);
    if (st == SR1_OK && incarnation)
        *incarnation = reply.incarnation;
    sr1__rpc_reply_free(&reply);
    return st;
}

sr1_status sr1__external_tell(struct sr1__external *x, const char *method, json_t *params,
                              int64_t *incarnation)
{
    sr1_status st;

    SR1__CHECK_ALLOC(params, "a message to a program");
    st = sr1__rpc_notify(x->program, method, params, sr1__now() + x->timeout_s,
                         incarnation);
    json_decref(params);
    return st;
}

sr1_status sr1__external_start(struct sr1__external *x, int64_t *incarnation)
{
    return sr1__rpc_start(x->program, sr1__now() + x->timeout_s, incarnation);
}
