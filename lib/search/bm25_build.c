/* search/bm25_build.c - a corpus (JSON lines) to an index file.
 *
 * Rows go straight to the index; postings gather in memory by term, each as a string of
 * varints (gap, tf), and are written in term order at the end. Memory: about 3 bytes a
 * posting and 100 a distinct term. */
#include <searchr1/search.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "search/analyze.h"
#include "search/index_format.h"
#include "search/index_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define PROGRESS_EVERY ((uint64_t)1 << 20) /* bytes of corpus */

struct build_term {
    char *text; /* [n] */
    uint32_t n;
    uint32_t hash;
    uint32_t doc;      /* of the posting under way */
    uint32_t tf;       /* 0: none under way */
    uint32_t next_doc; /* gaps count from here */
    uint32_t bytes;
    uint32_t capacity;
    unsigned char *postings;
};

struct build {
    const char *path;
    FILE *file;
    char chunk[1 << 16]; /* [chunk_at, chunk_size) is not read yet */
    size_t chunk_at;
    size_t chunk_size;
    struct sr1__buf row;
    uint64_t total;
    uint64_t done;
    uint64_t reported;
    size_t line;
    sr1_bm25_progress_fn progress;
    void *user;

    const struct sr1__analyzer *analyzer;
    struct sr1__index_writer *writer;
    struct sr1__buf scratch;
    uint32_t documents;
    uint32_t length; /* of the document under way */

    struct build_term *terms;
    size_t n_terms;
    size_t capacity;
    uint32_t *table; /* 1 + term, 0: free */
    size_t slots;    /* a power of two */
};

/* ---- terms in memory ---- */

static unsigned char *put_varint(unsigned char *p, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (unsigned char)(v | 0x80);
    *p++ = (unsigned char)v;
    return p;
}

/* Move the posting under way to the string. */
static sr1_status flush_posting(struct build_term *t)
{
    unsigned char *p;

    if (t->tf == 0)
        return SR1_OK;
    if (t->capacity - t->bytes < 10) {
        uint32_t capacity = t->capacity + t->capacity / 2 + 16;
        unsigned char *grown;

        if (capacity < t->capacity)
            return sr1__fail(SR1_E_LIMIT, "postings of one term: more than 4 GiB");
        grown = sr1__realloc(t->postings, capacity, 1);
        if (grown == NULL)
            return sr1__fail_nomem("postings");
        t->postings = grown;
        t->capacity = capacity;
    }
    p = put_varint(t->postings + t->bytes, t->doc - t->next_doc);
    p = put_varint(p, t->tf);
    t->bytes = (uint32_t)(p - t->postings);
    t->next_doc = t->doc + 1;
    t->tf = 0;
    return SR1_OK;
}

static sr1_status grow_table(struct build *b)
{
    size_t slots = b->slots == 0 ? 1024 : b->slots * 2;
    uint32_t *table = sr1__calloc(slots, sizeof(*table));

    if (table == NULL)
        return sr1__fail_nomem("terms");
    for (size_t i = 0; i < b->n_terms; i++) {
        size_t at = b->terms[i].hash & (slots - 1);

        while (table[at] != 0)
            at = (at + 1) & (slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    sr1__free(b->table);
    b->table = table;
    b->slots = slots;
    return SR1_OK;
}

static sr1_status new_term(struct build *b, const char *text, size_t n, uint32_t hash)
{
    struct build_term t = {.n = (uint32_t)n, .hash = hash};

    if (b->n_terms == UINT32_MAX - 1)
        return sr1__fail(SR1_E_LIMIT, "more than 2^32 distinct terms");
    if (b->n_terms == b->capacity) {
        size_t capacity = b->capacity == 0 ? 1024 : b->capacity * 2;
        struct build_term *terms = sr1__realloc(b->terms, capacity, sizeof(*terms));

        if (terms == NULL)
            return sr1__fail_nomem("terms");
        b->terms = terms;
        b->capacity = capacity;
    }
    t.text = sr1__strndup(text, n);
    if (t.text == NULL)
        return sr1__fail_nomem("terms");
    b->terms[b->n_terms++] = t;
    return SR1_OK;
}

static sr1_status find_term(struct build *b, const char *text, size_t n,
                            struct build_term **out)
{
    uint32_t hash = (uint32_t)sr1__hash64(text, n, 0);
    size_t at;

    if (2 * (b->n_terms + 1) > b->slots)
        SR1__TRY(grow_table(b));
    for (at = hash & (b->slots - 1); b->table[at] != 0; at = (at + 1) & (b->slots - 1)) {
        struct build_term *t = &b->terms[b->table[at] - 1];

        if (t->hash == hash && t->n == n && memcmp(t->text, text, n) == 0) {
            *out = t;
            return SR1_OK;
        }
    }
    SR1__TRY(new_term(b, text, n, hash));
    b->table[at] = (uint32_t)b->n_terms;
    *out = &b->terms[b->n_terms - 1];
    return SR1_OK;
}

/* sr1__token_fn */
static sr1_status add_token(void *arg, const char *token, size_t n)
{
    struct build *b = arg;
    struct build_term *t = NULL;

    SR1__TRY(find_term(b, token, n, &t));
    if (t->tf > 0 && t->doc != b->documents)
        SR1__TRY(flush_posting(t));
    t->doc = b->documents;
    t->tf++;
    b->length++;
    return SR1_OK;
}

/* ---- rows ---- */

static sr1_status check_row(const json_t *row, const json_t **contents)
{
    const json_t *id = json_object_get(row, "id");

    *contents = json_object_get(row, "contents");
    if (!json_is_object(row))
        return sr1__fail(SR1_E_PARSE, "not a JSON object");
    if (!json_is_string(id) && !json_is_integer(id))
        return sr1__fail(SR1_E_PARSE, "'id' is missing or neither string nor integer");
    if (!json_is_string(*contents))
        return sr1__fail(SR1_E_PARSE, "'contents' is missing or not a string");
    return SR1_OK;
}

static sr1_status add_row(struct build *b, const char *text, size_t n)
{
    json_t *row = NULL;
    const json_t *contents = NULL;
    size_t bytes = 0;
    sr1_status status;

    SR1__TRY(sr1__json_parse(&row, text, n, "row"));
    status = check_row(row, &contents);
    b->length = 0;
    if (status == SR1_OK) {
        bytes = json_string_length(contents);
        status = sr1__analyze(b->analyzer, json_string_value(contents), bytes,
                              &b->scratch, add_token, b);
    }
    if (status == SR1_OK)
        status = sr1__index_writer_document(b->writer, text, n, b->length, bytes);
    json_decref(row);
    b->documents++;
    return status;
}

static size_t trimmed(const char **text, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", (*text)[n - 1]) != NULL && (*text)[n - 1] != '\0')
        n--;
    while (n > 0 && strchr(" \t\r\n", **text) != NULL && **text != '\0') {
        (*text)++;
        n--;
    }
    return n;
}

static sr1_status report(struct build *b, uint64_t done)
{
    b->reported = done;
    if (b->progress != NULL && b->progress(b->user, done, b->total, b->documents) != 0)
        return sr1__fail(SR1_E_CANCELLED, "indexing %s: stopped on request", b->path);
    return SR1_OK;
}

/* Make b->row the next line with its end, empty at the end of the file. */
static sr1_status next_line(struct build *b)
{
    int ended = 0;

    sr1__buf_clear(&b->row);
    while (!ended) {
        const char *from = b->chunk + b->chunk_at;
        const char *newline = memchr(from, '\n', b->chunk_size - b->chunk_at);
        size_t n =
            newline != NULL ? (size_t)(newline + 1 - from) : b->chunk_size - b->chunk_at;

        sr1__buf_add(&b->row, from, n);
        SR1__TRY(sr1__context(sr1__buf_status(&b->row, "a row"), "%s:%zu", b->path,
                              b->line + 1));
        b->chunk_at += n;
        if (newline != NULL)
            break;
        b->chunk_size = fread(b->chunk, 1, sizeof(b->chunk), b->file);
        b->chunk_at = 0;
        ended = b->chunk_size == 0;
    }
    if (ferror(b->file))
        return sr1__fail_errno("read", b->path);
    b->line++;
    b->done += b->row.len;
    return SR1_OK;
}

static sr1_status read_rows(struct build *b)
{
    for (;;) {
        const char *text;
        size_t n;

        SR1__TRY(next_line(b));
        text = sr1__buf_cstr(&b->row);
        n = b->row.len;
        if (n == 0)
            break;
        if (b->line == 1 && n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
            text += 3;
            n -= 3;
        }
        n = trimmed(&text, n);
        if (n > 0)
            SR1__TRY(sr1__context(add_row(b, text, n), "%s:%zu", b->path, b->line));
        if (b->done - b->reported >= PROGRESS_EVERY && b->done < b->total)
            SR1__TRY(report(b, b->done));
    }
    if (b->documents == 0)
        return sr1__fail(SR1_E_PARSE,
                         "%s: no documents; expected lines such as "
                         "{\"id\": \"1\", \"contents\": \"...\"}",
                         b->path);
    return SR1_OK;
}

/* ---- from memory to the file ---- */

static int compare_terms(const void *pa, const void *pb)
{
    const struct build_term *a = pa;
    const struct build_term *b = pb;
    int c = memcmp(a->text, b->text, a->n < b->n ? a->n : b->n);

    return c != 0 ? c : a->n < b->n ? -1 : a->n > b->n;
}

static const unsigned char *get_varint(const unsigned char *p, uint32_t *v)
{
    *v = 0;
    for (int shift = 0;; shift += 7) {
        *v |= (uint32_t)(*p & 0x7F) << shift;
        if (*p++ < 0x80)
            return p;
    }
}

static sr1_status write_term(struct build *b, struct build_term *t)
{
    const unsigned char *p;
    const unsigned char *end;
    uint32_t next = 0;

    SR1__TRY(flush_posting(t));
    SR1__TRY(sr1__index_writer_term(b->writer, t->text, t->n));
    p = t->postings;
    end = p + t->bytes;
    while (p < end) {
        uint32_t gap;
        uint32_t tf;

        p = get_varint(p, &gap);
        p = get_varint(p, &tf);
        next += gap;
        SR1__TRY(sr1__index_writer_posting(b->writer, next++, tf));
    }
    sr1__free(t->postings);
    t->postings = NULL;
    return SR1_OK;
}

static sr1_status write_terms(struct build *b)
{
    sr1__free(b->table);
    b->table = NULL;
    if (b->n_terms > 0)
        qsort(b->terms, b->n_terms, sizeof(*b->terms), compare_terms);
    for (size_t i = 0; i < b->n_terms; i++)
        SR1__TRY(write_term(b, &b->terms[i]));
    return SR1_OK;
}

static sr1_status open_corpus(struct build *b)
{
    struct stat st;

    b->file = fopen(b->path, "rb");
    if (b->file == NULL)
        return sr1__fail_errno("open", b->path);
    if (fstat(fileno(b->file), &st) != 0)
        return sr1__fail_errno("read", b->path);
    if (S_ISDIR(st.st_mode))
        return sr1__fail(SR1_E_IO, "%s is a folder, not a file", b->path);
    b->total = (uint64_t)st.st_size;
    return SR1_OK;
}

static sr1_status build(struct build *b, const char *index_path, int32_t zstd_level)
{
    sr1_status status;

    SR1__TRY(open_corpus(b));
    SR1__TRY(
        sr1__index_writer_open(&b->writer, index_path, b->analyzer->name, zstd_level));
    status = read_rows(b);
    if (status == SR1_OK)
        status = write_terms(b);
    if (status == SR1_OK) {
        b->total = b->done;
        status = report(b, b->done);
    }
    if (status == SR1_OK) {
        status = sr1__index_writer_commit(b->writer);
        b->writer = NULL;
    }
    return status;
}

static void build_free(struct build *b)
{
    sr1__index_writer_abort(b->writer);
    for (size_t i = 0; i < b->n_terms; i++) {
        sr1__free(b->terms[i].text);
        sr1__free(b->terms[i].postings);
    }
    sr1__free(b->terms);
    sr1__free(b->table);
    sr1__buf_free(&b->scratch);
    sr1__buf_free(&b->row);
    if (b->file != NULL)
        fclose(b->file);
}

static const sr1_bm25_build_options defaults = {sizeof(defaults), "english", 3};

void sr1_bm25_build_options_init(sr1_bm25_build_options *options)
{
    sr1__struct_init(options, &defaults,
                     SR1__STRUCT_END(sr1_bm25_build_options, zstd_level));
}

sr1_status sr1_bm25_build(const char *corpus_path, const char *index_path,
                          const sr1_bm25_build_options *options,
                          sr1_bm25_progress_fn progress, void *user)
{
    struct build b = {.path = corpus_path, .progress = progress, .user = user};
    sr1_bm25_build_options o = defaults;
    const char *names;
    sr1_status status;

    if (corpus_path == NULL || index_path == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 build: a path is NULL");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_bm25_build_options, analyzer),
                              "bm25 build options"));
    if (o.zstd_level < 1 || o.zstd_level > 19)
        return sr1__fail(SR1_E_INVALID, "bm25 build: zstd_level %d is not in 1..19",
                         (int)o.zstd_level);
    b.analyzer = sr1__analyzer_find(o.analyzer != NULL ? o.analyzer : "english", &names);
    if (b.analyzer == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 build: no analyzer '%.100s'; there are: %s",
                         o.analyzer, names);
    sr1__buf_init(&b.scratch, 0);
    sr1__buf_init(&b.row, INDEX_ROW_MAX);
    status = build(&b, index_path, o.zstd_level);
    build_free(&b);
    return status;
}
