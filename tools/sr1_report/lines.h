/* sr1_report/lines.h - the lines of a file of any size, one at a time, in memory of one
 * line; decompressed where its name ends in .zst. */
#ifndef SR1_TOOLS_SR1_REPORT_LINES_H
#define SR1_TOOLS_SR1_REPORT_LINES_H

#include <stddef.h>
#include <stdint.h>

#define LINE_MAX_BYTES ((size_t)16 << 20) /* longer lines are passed over */

struct report_line {
    const char *text; /* without its line end; borrowed until the next call */
    size_t len;
    uint64_t offset; /* in the text */
    int whole;       /* 0: cut by the end of the file, or too long */
};

struct lines {
    int fd;
    char *buf;
    size_t begin, end, cap; /* buf[begin..end) was read and not yet given */
    uint64_t offset;        /* of buf[begin] */
    int at_end;
    int error;                /* errno of a failed read; ENOMEM; EBADMSG: not by zstd */
    struct ZSTD_DCtx_s *zstd; /* NULL: plain text */
    char *in;                 /* compressed, in[in_begin..in_end) is left */
    size_t in_begin, in_end;
};

/* Returns 0, or errno. */
int text_lines_open(struct lines *l, const char *path);
/* 1 with a line, 0 at the end or after an error. */
int lines_next(struct lines *l, struct report_line *out);
void lines_close(struct lines *l);

#endif
