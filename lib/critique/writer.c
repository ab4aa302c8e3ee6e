/* critique/writer.c - models that write the next message of conversations, behind one
 * table of functions. */
#include "critique/writer.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/struct.h"
#include "env/callback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct sr1_writer {
    atomic_int references;
    sr1_writer_ops ops;
    void *self;
    char *name;
    pthread_mutex_t lock; /* one call at a time, unless the writer is concurrent */
};

struct sr1_writer_sink {
    struct sr1__buf *texts; /* [n] */
    int32_t *given;         /* [n] */
    size_t n;
};

sr1_status sr1_writer_sink_text(sr1_writer_sink *sink, size_t i, const char *text,
                                size_t len)
{
    if (!sink || i >= sink->n || (!text && len))
        return sr1__fail(SR1_E_INVALID, "writer: no conversation %zu, or no text", i);
    sr1__buf_clear(&sink->texts[i]);
    sr1__buf_utf8(&sink->texts[i], text, len);
    sink->given[i] = 1;
    return sr1__buf_status(&sink->texts[i], "text of a writer");
}

/* ---- options ---- */

#define WRITER_TOKENS 1024 /* where none are asked for */

sr1_status sr1__writer_options_take(sr1_writer_options *o,
                                    const sr1_writer_options *given)
{
    *o = (sr1_writer_options){.max_tokens = 0};
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_writer_options, struct_size),
                              "writer options"));
    if (o->max_tokens < 0 || !(o->temperature >= 0.0) || !(o->top_p >= 0.0) ||
        o->top_k < 0)
        return sr1__fail(SR1_E_INVALID,
                         "writer options: max_tokens, temperature, top_p or top_k is "
                         "negative");
    o->max_tokens = o->max_tokens ? o->max_tokens : WRITER_TOKENS;
    o->top_p = o->top_p > 0.0 ? o->top_p : 1.0;
    return SR1_OK;
}

/* ---- the handle ---- */

sr1_status sr1_writer_new(sr1_writer **out, const sr1_writer_ops *given, void *self)
{
    sr1_writer_ops ops = {0};
    sr1_writer *w;

    SR1__TRY(sr1__struct_take(&ops, sizeof(ops), given,
                              SR1__STRUCT_END(sr1_writer_ops, write), "writer: ops"));
    if (!out || !ops.name || !ops.write)
        return sr1__fail(SR1_E_INVALID, "writer: out, name and write are needed");
    w = sr1__calloc(1, sizeof(*w));
    if (w)
        w->name = sr1__strdup(ops.name);
    if (!w || !w->name) {
        sr1__free(w);
        return sr1__fail_nomem("writer");
    }
    w->references = 1;
    w->ops = ops;
    w->ops.name = w->name;
    w->self = self;
    pthread_mutex_init(&w->lock, NULL);
    *out = w;
    return SR1_OK;
}

sr1_writer *sr1_writer_retain(sr1_writer *w)
{
    if (w)
        atomic_fetch_add(&w->references, 1);
    return w;
}

void sr1_writer_free(sr1_writer *w)
{
    if (!w || atomic_fetch_sub(&w->references, 1) > 1)
        return;
    if (w->ops.destroy)
        w->ops.destroy(w->self);
    pthread_mutex_destroy(&w->lock);
    sr1__free(w->name);
    sr1__free(w);
}

const char *sr1_writer_name(const sr1_writer *w)
{
    return w->name;
}

int32_t sr1__writer_flags(const sr1_writer *w)
{
    return w->ops.flags;
}

void *sr1__writer_self(const sr1_writer *w, sr1__write_fn write)
{
    return w && w->ops.write == write ? w->self : NULL;
}

/* ---- writing ---- */

static void sink_free(struct sr1_writer_sink *s)
{
    for (size_t i = 0; s->texts && i < s->n; i++)
        sr1__buf_free(&s->texts[i]);
    sr1__free(s->texts);
    sr1__free(s->given);
}

static sr1_status sink_init(struct sr1_writer_sink *s, size_t n)
{
    *s = (struct sr1_writer_sink){.n = n};
    s->texts = sr1__calloc(n, sizeof(*s->texts));
    s->given = sr1__calloc(n, sizeof(*s->given));
    if (!s->texts || !s->given)
        return sr1__fail_nomem("texts of a writer");
    for (size_t i = 0; i < n; i++)
        sr1__buf_init(&s->texts[i], 0);
    return SR1_OK;
}

static sr1_status check(const sr1_conversation *c, size_t size, size_t i)
{
    if (c->struct_size != size)
        return sr1__fail(SR1_E_INVALID,
                         "conversation %zu: its struct_size is %zu, not %zu", i,
                         c->struct_size, size);
    if (!c->roles || !c->contents || !c->sizes || !c->n)
        return sr1__fail(SR1_E_INVALID, "conversation %zu has no messages", i);
    return SR1_OK;
}

/* The caller's array, whose elements lie their own struct_size apart, as pointers. */
static sr1_status point(const sr1_conversation *first, size_t n,
                        const sr1_conversation ***out)
{
    size_t size = first->struct_size;
    const sr1_conversation **list;

    if (size < SR1__STRUCT_END(sr1_conversation, n) || size > 4096 ||
        size % _Alignof(sr1_conversation))
        return sr1__fail(SR1_E_INVALID, "conversation: struct_size is not set");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check((const void *)((const char *)first + i * size), size, i));
    list = sr1__calloc(n, sizeof(*list));
    if (!list)
        return sr1__fail_nomem("conversations");
    for (size_t i = 0; i < n; i++)
        list[i] = (const void *)((const char *)first + i * size);
    *out = list;
    return SR1_OK;
}

static sr1_status call(sr1_writer *w, const sr1_conversation *const *c, size_t n,
                       struct sr1_writer_sink *sink)
{
    int alone = !(w->ops.flags & SR1_WRITER_CONCURRENT);
    struct sr1__error before;
    sr1_status st;

    if (alone)
        pthread_mutex_lock(&w->lock);
    sr1__callback_begin(&before);
    st = w->ops.write(w->self, c, n, sink);
    st = sr1__callback_end(&before, st, "writer", w->name);
    if (alone)
        pthread_mutex_unlock(&w->lock);
    return st;
}

/* Hand the texts over; all or none. */
static sr1_status give(struct sr1_writer_sink *s, char **texts, size_t *lens)
{
    char **taken = sr1__calloc(s->n, sizeof(*taken));
    size_t *sizes = sr1__calloc(s->n, sizeof(*sizes)), i;

    for (i = 0; taken && sizes && i < s->n; i++) {
        sizes[i] = s->texts[i].len;
        if (s->given[i] && !(taken[i] = sr1__buf_take(&s->texts[i])))
            break;
    }
    if (!taken || !sizes || i < s->n) {
        for (i = 0; taken && i < s->n; i++)
            sr1__free(taken[i]);
        sr1__free(taken);
        sr1__free(sizes);
        return sr1__fail_nomem("texts of a writer");
    }
    memcpy(texts, taken, s->n * sizeof(*texts));
    if (lens)
        memcpy(lens, sizes, s->n * sizeof(*lens));
    sr1__free(taken);
    sr1__free(sizes);
    return SR1_OK;
}

sr1_status sr1_writer_write(sr1_writer *w, const sr1_conversation *conversations,
                            size_t n, char **texts, size_t *lens)
{
    const sr1_conversation **list = NULL;
    struct sr1_writer_sink sink = {0};
    sr1_status st;

    if (!w || (n && (!conversations || !texts)))
        return sr1__fail(SR1_E_INVALID,
                         "writer: writer, conversations and texts are needed");
    if (n == 0)
        return SR1_OK;
    SR1__TRY(point(conversations, n, &list));
    st = sink_init(&sink, n);
    if (st == SR1_OK)
        st = call(w, list, n, &sink);
    if (st == SR1_OK)
        st = give(&sink, texts, lens);
    sink_free(&sink);
    sr1__free((void *)list);
    return st;
}
