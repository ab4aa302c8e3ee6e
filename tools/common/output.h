/* output.h - checks that a tool may write its output: nothing is overwritten without
 * --force.
 *
 * An output is never a file that the same command reads, nor a folder or a device if a
 * file is expected. A file that is not empty, and a folder with files, are replaced with
 * --force only; an older file of the same kind, which `is_ours` recognises, is replaced
 * without. */
#ifndef SR1_TOOLS_OUTPUT_H
#define SR1_TOOLS_OUTPUT_H

#include <searchr1/base.h>

#include <stddef.h>

struct output {
    const char *path;                 /* NULL: nothing is written */
    const char *kind;                 /* what is_ours knows: "a BM25 index" */
    int (*is_ours)(const char *path); /* NULL: no file may be replaced unasked */
    int resumes; /* the library goes on with what is there, or refuses it */
    int streams; /* written in place: a pipe or a device will do */
};

/* Refuse what would be lost; the text names file, reason and remedy. inputs[n] are the
 * files and folders that the command reads, and its other outputs; NULL and "" are passed
 * over. What lies in a folder that is read is not replaced either. */
sr1_status output_check(const struct output *o, const char *const *inputs, size_t n,
                        int force);

/* The same for a folder that is to be written into. */
sr1_status output_check_folder(const char *folder, const char *const *inputs, size_t n,
                               int force);

/* Has the folder anything in it? Also 0 if it cannot be read: writing there will then
 * report the error. */
int output_holds_files(const char *folder);

/* Does the file begin with these bytes? */
int begins_with(const char *path, const void *bytes, size_t n);

/* Does a file of JSON lines have this text in its first row? */
int first_row_has(const char *path, const char *text);

/* The row of --force in a table of options. */
#define OUTPUT_FORCE(target)                                                             \
    {                                                                                    \
        "--force", ARGS_FLAG, target, NULL, "replace what is there", 0, 0                \
    }

#endif
