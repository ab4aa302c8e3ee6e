/* environment/env/document_formats.c - how the hits of a search are written into the
 * text. */
#include "environment/env/document_formats.h"

#include <string.h>

/* A hit without id is no document, so it gets no number and no title. */
static int is_document(struct sr1__buf *b, const char *id, const char *contents)
{
    if (id[0] != '\0')
        return 1;
    sr1__buf_str(b, contents);
    sr1__buf_char(b, '\n');
    return 0;
}

/* Search-R1: the first line of the contents is the title. */
static void write_titled(struct sr1__buf *b, int32_t rank, const char *id,
                         const char *contents)
{
    size_t title = strcspn(contents, "\n");

    if (!is_document(b, id, contents))
        return;
    sr1__buf_fmt(b, "Doc %d(Title: ", (int)rank);
    sr1__buf_add(b, contents, title);
    sr1__buf_str(b, ") ");
    sr1__buf_str(b, contents[title] == '\n' ? contents + title + 1 : "");
    sr1__buf_char(b, '\n');
}

static void write_numbered(struct sr1__buf *b, int32_t rank, const char *id,
                           const char *contents)
{
    if (!is_document(b, id, contents))
        return;
    sr1__buf_fmt(b, "Doc %d: ", (int)rank);
    sr1__buf_str(b, contents);
    sr1__buf_char(b, '\n');
}

static void write_plain(struct sr1__buf *b, int32_t rank, const char *id,
                        const char *contents)
{
    (void)id;
    sr1__buf_str(b, rank > 1 ? " " : "");
    sr1__buf_str(b, contents);
}

static const struct sr1__document_format formats[] = {
    {"titled", "\n\n", "", write_titled},
    {"numbered", "\n\n", "", write_numbered},
    {"plain", "", " ", write_plain},
};

static const char *document_format_name(size_t i)
{
    return i < sizeof formats / sizeof formats[0] ? formats[i].name : NULL;
}

const struct sr1__document_format *sr1__document_format_find(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name != NULL ? name : "titled") == 0)
            return &formats[i];
    sr1__fail_unknown("document format", name, document_format_name);
    return NULL;
}
