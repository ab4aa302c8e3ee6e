/* environment/sandbox/job.c - programs and submissions of the caller, checked and copied.
 */
#include "environment/sandbox/job.h"

#include "base/mem.h"
#include "base/struct.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define CODE_MAX ((size_t)16 << 20)
/* Input; all files together; data of submissions. */
#define DATA_MAX ((size_t)256 << 20)
#define ARGS_MAX 1024
#define ARG_MAX_BYTES ((size_t)64 << 10) /* all together */
#define PATH_MAX_BYTES 255
#define MEMORY_LEAST 16 /* MiB, as of a sandbox: below, not even a shell begins */

static const sr1_program program_defaults = {.struct_size = sizeof(sr1_program)};

static const sr1_submission submission_defaults = {
    .struct_size = sizeof(sr1_submission),
    .dataset = "code_contests",
    .dataset_type = "CommonOJDataset",
    .id = "0",
    .language = "python",
    .all_tests_s = 160,
};

void sr1_program_init(sr1_program *program)
{
    sr1__struct_init(program, &program_defaults, sizeof(program_defaults));
}

void sr1_submission_init(sr1_submission *submission)
{
    sr1__struct_init(submission, &submission_defaults, sizeof(submission_defaults));
}

/* ---- copies ---- */

static sr1_status copy_job_text(char **to, const char *from)
{
    if (from != NULL && (*to = sr1__strdup(from)) == NULL)
        return sr1__fail_nomem("program");
    return SR1_OK;
}

/* The same of one that has a bound. */
static sr1_status copy_data(char **to, const char *from, const char *what)
{
    if (strlen(from) > DATA_MAX)
        return sr1__fail(SR1_E_INVALID, "submission: %s has more than %zu bytes", what,
                         DATA_MAX);
    return copy_job_text(to, from);
}

static sr1_status copy_bytes(struct sr1__job_bytes *to, const char *from, size_t n,
                             size_t max, const char *what)
{
    if (from == NULL && n > 0)
        return sr1__fail(SR1_E_INVALID, "program: %s is NULL", what);
    if (n > max)
        return sr1__fail(SR1_E_INVALID, "program: %s has %zu bytes; %zu are allowed",
                         what, n, max);
    if ((to->data = sr1__strndup(n > 0 ? from : "", n)) == NULL)
        return sr1__fail_nomem("program");
    to->n = n;
    return SR1_OK;
}

/* Equal, or one is a folder of the other. */
static int paths_collide(const char *a, const char *b)
{
    size_t n = strlen(a) < strlen(b) ? strlen(a) : strlen(b);

    return strncmp(a, b, n) == 0 && (a[n] == '/' || b[n] == '/' || a[n] == b[n]);
}

/* Plain names and folders below the program's own. */
static int path_is_fine(const char *path)
{
    size_t part = 0;

    if (*path == '\0' || *path == '/' || strlen(path) > PATH_MAX_BYTES)
        return 0;
    for (const char *p = path;; p++) {
        if (*p != '/' && *p != '\0') {
            part++;
            continue;
        }
        if (part == 0 || (part == 1 && p[-1] == '.') ||
            (part == 2 && p[-1] == '.' && p[-2] == '.'))
            return 0;
        if (*p == '\0')
            return !paths_collide(path, "main.py");
        part = 0;
    }
}

static sr1_status copy_program_file(struct sr1__sandbox_job *job, const sr1_program *p,
                                    size_t i, size_t *total)
{
    struct sr1__job_file *f = &job->files[i];
    size_t n = p->file_sizes[i];

    if (p->file_paths[i] == NULL || !path_is_fine(p->file_paths[i]))
        return sr1__fail(SR1_E_INVALID,
                         "program: the path of file %zu is not a relative one without "
                         "\".\" and \"..\" (main.py is the program's own)",
                         i);
    for (size_t k = 0; k < i; k++)
        if (paths_collide(job->files[k].path, p->file_paths[i]))
            return sr1__fail(SR1_E_INVALID,
                             "program: the paths of files %zu and %zu collide", k, i);
    SR1__TRY(copy_job_text(&f->path, p->file_paths[i]));
    SR1__TRY(copy_bytes(&f->bytes, p->file_bytes[i], n, DATA_MAX - *total, "a file"));
    *total += n;
    return SR1_OK;
}

static sr1_status copy_files(struct sr1__sandbox_job *job, const sr1_program *p)
{
    size_t total = 0;

    if (p->n_files == 0)
        return SR1_OK;
    if (p->n_files > SR1__JOB_FILES_MAX || p->file_paths == NULL ||
        p->file_bytes == NULL || p->file_sizes == NULL)
        return sr1__fail(SR1_E_INVALID, "program: more than %d files, or arrays missing",
                         SR1__JOB_FILES_MAX);
    SR1__CALLOC(job->files, p->n_files, "program");
    for (job->n_files = 0; job->n_files < p->n_files;) {
        size_t i = job->n_files++;

        SR1__TRY(copy_program_file(job, p, i, &total));
    }
    return SR1_OK;
}

static sr1_status copy_args(struct sr1__sandbox_job *job, const sr1_program *p)
{
    size_t total = 0;

    if (p->n_args == 0)
        return SR1_OK;
    if (p->n_args > ARGS_MAX || p->args == NULL)
        return sr1__fail(SR1_E_INVALID, "program: more than %d arguments, or none",
                         ARGS_MAX);
    if ((job->args = sr1__calloc(p->n_args, sizeof(*job->args))) == NULL)
        return sr1__fail_nomem("program");
    for (size_t i = 0; i < p->n_args; i++) {
        if (p->args[i] == NULL || (total += strlen(p->args[i])) > ARG_MAX_BYTES)
            return sr1__fail(SR1_E_INVALID, "program: argument %zu is NULL or too long",
                             i);
        SR1__TRY(copy_job_text(&job->args[i], p->args[i]));
        job->n_args++;
    }
    return SR1_OK;
}

/* ---- limits ---- */

static sr1_status take_limits(struct sr1__job_limits *l, const sr1_program *p,
                              const sr1_sandbox_options *o)
{
    if (!(p->time_s >= 0) || !(p->time_s <= 1e6) || !(p->cpu_s >= 0) ||
        !(p->cpu_s <= 1e6) || (p->memory_mib != 0 && p->memory_mib < MEMORY_LEAST) ||
        p->memory_mib > 1 << 20 || p->processes < 0 || p->output_bytes < 0 ||
        p->output_bytes > ((int64_t)1 << 29) || p->processes > 100000)
        return sr1__fail(SR1_E_INVALID,
                         "program: a limit is out of range: %g and %g seconds, %d MiB "
                         "(%d to %d), %d processes, %lld bytes of output",
                         p->time_s, p->cpu_s, (int)p->memory_mib, MEMORY_LEAST, 1 << 20,
                         (int)p->processes, (long long)p->output_bytes);
    l->time_s = p->time_s > 0 ? p->time_s : o->time_s;
    l->cpu_s = p->cpu_s > 0 ? p->cpu_s : o->cpu_s > 0 ? o->cpu_s : l->time_s;
    l->memory_mib = p->memory_mib > 0 ? p->memory_mib : o->memory_mib;
    l->memory_asked = p->memory_mib > 0;
    l->processes = p->processes > 0 ? p->processes : o->processes;
    l->output_bytes = p->output_bytes > 0 ? p->output_bytes : o->output_bytes;
    return SR1_OK;
}

/* ---- the whole ---- */

static size_t expected_bytes(const sr1_program *p)
{
    return p->expected_bytes > 0 ? p->expected_bytes : strlen(p->expected);
}

static sr1_status fill_program(struct sr1__sandbox_job *job, const sr1_program *p,
                               const sr1_sandbox_options *o)
{
    if (p->code == NULL)
        return sr1__fail(SR1_E_INVALID, "program: no code is given");
    if (p->language != NULL && *p->language == '\0')
        return sr1__fail(SR1_E_INVALID, "program: the language is empty");
    SR1__TRY(take_limits(&job->limits, p, o));
    SR1__TRY(copy_job_text(&job->language, p->language != NULL ? p->language : "python"));
    SR1__TRY(copy_bytes(&job->code, p->code, strlen(p->code), CODE_MAX, "the code"));
    SR1__TRY(copy_bytes(&job->input, p->input, p->input_bytes, DATA_MAX, "the input"));
    if (p->expected != NULL)
        SR1__TRY(copy_bytes(&job->expected, p->expected, expected_bytes(p), DATA_MAX,
                            "the expected output"));
    SR1__TRY(copy_args(job, p));
    return copy_files(job, p);
}

sr1_status sr1__job_of_program(struct sr1__sandbox_job **out, const sr1_program *program,
                               const sr1_sandbox_options *options)
{
    sr1_program p = program_defaults;
    struct sr1__sandbox_job *job;

    if (program == NULL)
        return sr1__fail(SR1_E_INVALID, "program: none is given");
    SR1__TRY(sr1__struct_take(&p, sizeof p, program, SR1__STRUCT_END(sr1_program, code),
                              "program"));
    if ((job = sr1__calloc(1, sizeof(*job))) == NULL)
        return sr1__fail_nomem("program");
    job->socket = -1;
    SR1__RETURN_NEW(out, job, fill_program(job, &p, options), sr1__sandbox_job_free);
}

static sr1_status check_submission(const sr1_submission *s)
{
    if (s->completion == NULL || s->provided_data == NULL || s->dataset == NULL ||
        s->dataset_type == NULL || s->id == NULL || s->language == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "submission: completion, provided_data, dataset, dataset_type, "
                         "id and language must be set");
    if (!(s->time_s >= 0) || !(s->time_s <= 1e6) || !(s->all_tests_s >= 0) ||
        !(s->all_tests_s <= 1e6))
        return sr1__fail(SR1_E_INVALID, "submission: a limit is out of range");
    return SR1_OK;
}

static sr1_status fill_submission(struct sr1__sandbox_job *job, const sr1_submission *s,
                                  const sr1_sandbox_options *o)
{
    sr1_program limits = program_defaults;

    SR1__TRY(check_submission(s));
    SR1__TRY(take_limits(&job->limits, &limits, o));
    job->limits.time_s = s->time_s;
    job->all_tests_s =
        s->all_tests_s > 0 ? s->all_tests_s : submission_defaults.all_tests_s;
    SR1__TRY(copy_job_text(&job->language, s->language));
    SR1__TRY(copy_bytes(&job->code, s->completion, strlen(s->completion), CODE_MAX,
                        "the completion"));
    SR1__TRY(copy_job_text(&job->dataset, s->dataset));
    SR1__TRY(copy_job_text(&job->dataset_type, s->dataset_type));
    SR1__TRY(copy_job_text(&job->id, s->id));
    SR1__TRY(copy_data(&job->provided_data, s->provided_data, "provided_data"));
    return copy_data(&job->extra, s->extra != NULL ? s->extra : "{}", "extra");
}

sr1_status sr1__job_of_submission(struct sr1__sandbox_job **out,
                                  const sr1_submission *submission,
                                  const sr1_sandbox_options *options)
{
    sr1_submission s = submission_defaults;
    struct sr1__sandbox_job *job;

    if (submission == NULL)
        return sr1__fail(SR1_E_INVALID, "submission: none is given");
    SR1__TRY(sr1__struct_take(&s, sizeof s, submission,
                              SR1__STRUCT_END(sr1_submission, provided_data),
                              "submission"));
    if ((job = sr1__calloc(1, sizeof(*job))) == NULL)
        return sr1__fail_nomem("submission");
    job->socket = -1;
    SR1__RETURN_NEW(out, job, fill_submission(job, &s, options), sr1__sandbox_job_free);
}

void sr1__sandbox_job_free(struct sr1__sandbox_job *job)
{
    if (job == NULL)
        return;
    for (size_t i = 0; i < job->n_args; i++)
        sr1__free(job->args[i]);
    for (size_t i = 0; i < job->n_files; i++) {
        sr1__free(job->files[i].path);
        sr1__free(job->files[i].bytes.data);
    }
    if (job->socket >= 0)
        (void)close(job->socket);
    sr1__free(job->args);
    sr1__free(job->files);
    sr1__free(job->language);
    sr1__free(job->code.data);
    sr1__free(job->input.data);
    sr1__free(job->expected.data);
    sr1__free(job->dataset);
    sr1__free(job->dataset_type);
    sr1__free(job->id);
    sr1__free(job->provided_data);
    sr1__free(job->extra);
    sr1__free(job);
}
