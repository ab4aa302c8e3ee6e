/* output.c - see output.h. */
#include "output.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sr1_status refuse_output_path(sr1_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static sr1_status refuse_output_path(sr1_status status, const char *format, ...)
{
    char text[4400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return sr1_set_error(status, text);
}

static const char *get_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* The folder that path lies in; free it. */
static char *get_parent_folder(const char *path)
{
    size_t n = (size_t)(get_path_base(path) - path);

    return n > 0 ? strndup(path, n) : strdup(".");
}

static int stat_parent(const char *path, struct stat *st)
{
    char *parent = get_parent_folder(path);
    int found = parent && stat(parent, st) == 0;

    free(parent);
    return found;
}

static int is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* One file through any links; of files that are not there yet, one name in one folder. */
static int is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    int x_there = stat(a, &x) == 0, y_there = stat(b, &y) == 0;

    if (x_there || y_there)
        return x_there && y_there && is_same_inode(&x, &y);
    return strcmp(get_path_base(a), get_path_base(b)) == 0 && stat_parent(a, &x) &&
           stat_parent(b, &y) && is_same_inode(&x, &y);
}

/* Does what is at path lie in the folder, however deep? */
static int is_inside(const char *path, const char *folder)
{
    char *inner = realpath(path, NULL), *outer = realpath(folder, NULL);
    size_t n = outer ? strlen(outer) : 0;
    int yes = inner && outer && strncmp(inner, outer, n) == 0 &&
              (inner[n] == '/' || inner[n] == '\0' || strcmp(outer, "/") == 0);

    free(inner);
    free(outer);
    return yes;
}

/* what: "file" or "folder" */
static sr1_status check_inputs(const char *path, const char *what,
                               const char *const *inputs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!inputs[i] || !*inputs[i])
            continue;
        if (!is_same_file(path, inputs[i]) && is_inside(path, inputs[i]))
            return refuse_output_path(
                SR1_E_INVALID,
                "cannot replace %.2000s: it lies in %.2000s, which this command reads; "
                "name another %s",
                path, inputs[i], what);
        if (!is_same_file(path, inputs[i]))
            continue;
        if (strcmp(path, inputs[i]) == 0)
            return refuse_output_path(
                SR1_E_INVALID,
                "cannot write %.4000s: this command reads or writes it "
                "already; name another %s",
                path, what);
        return refuse_output_path(
            SR1_E_INVALID,
            "cannot write %.2000s: it is the same file as %.2000s, which this "
            "command reads or writes already; name another %s",
            path, inputs[i], what);
    }
    return SR1_OK;
}

/* Hours of work are not to end at a folder that is missing or read-only. */
static sr1_status check_parent(const char *path)
{
    char *parent = get_parent_folder(path);
    sr1_status st = SR1_OK;

    if (!parent)
        return sr1_set_error(SR1_E_NOMEM, "out of memory");
    if (access(parent, W_OK) != 0)
        st = refuse_output_path(SR1_E_IO, "cannot write %.4000s: %s", path,
                                strerror(errno));
    free(parent);
    return st;
}

static sr1_status check_file(const struct output *o, const struct stat *st, int force)
{
    if (S_ISDIR(st->st_mode))
        return refuse_output_path(SR1_E_INVALID, "%.4000s is a folder: name a file",
                                  o->path);
    if (!S_ISREG(st->st_mode))
        return o->streams
                   ? SR1_OK
                   : refuse_output_path(SR1_E_INVALID,
                                        "%.4000s is a device or a pipe: name a file",
                                        o->path);
    if (force || o->resumes || st->st_size == 0 || (o->is_ours && o->is_ours(o->path)))
        return SR1_OK;
    return refuse_output_path(
        SR1_E_INVALID,
        "%.4000s exists%s%s: name another file, or replace it with --force", o->path,
        o->kind ? " and is not " : "", o->kind ? o->kind : "");
}

sr1_status output_check(const struct output *o, const char *const *inputs, size_t n,
                        int force)
{
    struct stat st;
    sr1_status status = o->path ? check_inputs(o->path, "file", inputs, n) : SR1_OK;

    if (!o->path || status != SR1_OK)
        return status;
    return stat(o->path, &st) == 0 ? check_file(o, &st, force) : check_parent(o->path);
}

int output_holds_files(const char *folder)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    int found = 0;

    if (!d)
        return 0;
    while (!found && (e = readdir(d)) != NULL)
        found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return found;
}

sr1_status output_check_folder(const char *folder, const char *const *inputs, size_t n,
                               int force)
{
    struct stat st;
    sr1_status status =
        output_holds_files(folder) ? check_inputs(folder, "folder", inputs, n) : SR1_OK;

    if (status != SR1_OK)
        return status;
    if (*folder == '\0')
        return sr1_set_error(SR1_E_INVALID, "the folder to write has no name: give one");
    if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        return refuse_output_path(SR1_E_INVALID, "%.4000s is not a folder: name another",
                                  folder);
    if (force || !output_holds_files(folder))
        return SR1_OK;
    return refuse_output_path(
        SR1_E_INVALID,
        "%.4000s is not empty: name another folder, or replace files in it with "
        "--force",
        folder);
}

int begins_with(const char *path, const void *bytes, size_t n)
{
    const unsigned char *wanted = bytes;
    FILE *f = fopen(path, "rb");
    size_t same = 0;

    if (!f)
        return 0;
    while (same < n && fgetc(f) == wanted[same])
        same++;
    fclose(f);
    return same == n;
}

int first_row_has(const char *path, const char *text)
{
    FILE *f = fopen(path, "rb");
    char *line = NULL;
    size_t room = 0;
    int found = 0;

    if (f) {
        found = getline(&line, &room, f) > 0 && line[0] == '{' && strstr(line, text);
        fclose(f);
    }
    free(line);
    return found;
}
