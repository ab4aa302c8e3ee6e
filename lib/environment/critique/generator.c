/* environment/critique/generator.c - models that write the next message of conversations,
 * behind one table of functions. */
#include "environment/critique/generator.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/env/callback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct sr1_generator {
    atomic_int references;
    sr1_generator_ops ops;
    void *self;
    char *name;
    pthread_mutex_t lock; /* one call at a time, unless the generator is concurrent */
};

struct sr1_generator_sink {
    struct sr1__buf *texts; /* [n] */
    int32_t *given;         /* [n] */
    size_t n;
};

sr1_status sr1_generator_sink_text(sr1_generator_sink *sink, size_t i, const char *text,
                                   size_t len)
{
    if (!sink || i >= sink->n || (!text && len))
        return sr1__fail(SR1_E_INVALID, "generator: no conversation %zu, or no text", i);
    sr1__buf_clear(&sink->texts[i]);
    sr1__buf_utf8(&sink->texts[i], text, len);
    sink->given[i] = 1;
    return sr1__buf_status(&sink->texts[i], "text of a generator");
}

/* ---- options ---- */

#define GENERATOR_TOKENS 1024 /* where none are asked for */

void sr1_generator_options_init(sr1_generator_options *options)
{
    static const sr1_generator_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1__generator_options_read(sr1_generator_options *o,
                                       const sr1_generator_options *given)
{
    *o = (sr1_generator_options){.max_tokens = 0};
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_generator_options, struct_size),
                              "generator options"));
    if (o->max_tokens < 0 || !(o->temperature >= 0.0) || !(o->top_p >= 0.0) ||
        o->top_k < 0)
        return sr1__fail(SR1_E_INVALID,
                         "generator options: max_tokens, temperature, top_p or top_k is "
                         "negative");
    o->max_tokens = o->max_tokens ? o->max_tokens : GENERATOR_TOKENS;
    o->top_p = o->top_p > 0.0 ? o->top_p : 1.0;
    return SR1_OK;
}

/* ---- the handle ---- */

sr1_status sr1_generator_new(sr1_generator **out, const sr1_generator_ops *given,
                             void *self)
{
    sr1_generator_ops ops = {0};
    sr1_generator *w;

    SR1__TRY(sr1__struct_take(&ops, sizeof(ops), given,
                              SR1__STRUCT_END(sr1_generator_ops, write),
                              "generator: ops"));
    if (!out || !ops.name || !ops.write)
        return sr1__fail(SR1_E_INVALID, "generator: out, name and write are needed");
    w = sr1__calloc(1, sizeof(*w));
    if (w)
        w->name = sr1__strdup(ops.name);
    if (!w || !w->name) {
        sr1__free(w);
        return sr1__fail_nomem("generator");
    }
    w->references = 1;
    w->ops = ops;
    w->ops.name = w->name;
    w->self = self;
    pthread_mutex_init(&w->lock, NULL);
    *out = w;
    return SR1_OK;
}

sr1_generator *sr1_generator_retain(sr1_generator *w)
{
    if (w)
        atomic_fetch_add(&w->references, 1);
    return w;
}

void sr1_generator_free(sr1_generator *w)
{
    if (!w || atomic_fetch_sub(&w->references, 1) > 1)
        return;
    if (w->ops.destroy)
        w->ops.destroy(w->self);
    pthread_mutex_destroy(&w->lock);
    sr1__free(w->name);
    sr1__free(w);
}

const char *sr1_generator_name(const sr1_generator *w)
{
    return w ? w->name : "";
}

int32_t sr1__generator_flags(const sr1_generator *w)
{
    return w->ops.flags;
}

void *sr1__generator_self(const sr1_generator *w, sr1__generate_fn write)
{
    return w && w->ops.write == write ? w->self : NULL;
}

/* ---- writing ---- */

static void generator_sink_free(struct sr1_generator_sink *s)
{
    for (size_t i = 0; s->texts && i < s->n; i++)
        sr1__buf_free(&s->texts[i]);
    sr1__free(s->texts);
    sr1__free(s->given);
}

static sr1_status generator_sink_init(struct sr1_generator_sink *s, size_t n)
{
    *s = (struct sr1_generator_sink){.n = n};
    s->texts = sr1__calloc(n, sizeof(*s->texts));
    s->given = sr1__calloc(n, sizeof(*s->given));
    SR1__CHECK_ALLOC(s->texts && s->given, "texts of a generator");
    for (size_t i = 0; i < n; i++)
        sr1__buf_init(&s->texts[i], 0);
    return SR1_OK;
}

static sr1_status check_conversation(const sr1_conversation *c, size_t size, size_t i)
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
static sr1_status point_at_conversations(const sr1_conversation *first, size_t n,
                                         const sr1_conversation ***out)
{
    size_t size = first->struct_size;
    const sr1_conversation **list;

    if (size < SR1__STRUCT_END(sr1_conversation, n) || size > 4096 ||
        size % _Alignof(sr1_conversation))
        return sr1__fail(SR1_E_INVALID, "conversation: struct_size is not set");
    for (size_t i = 0; i < n; i++)
        SR1__TRY(
            check_conversation((const void *)((const char *)first + i * size), size, i));
    SR1__CALLOC(list, n, "conversations");
    for (size_t i = 0; i < n; i++)
        list[i] = (const void *)((const char *)first + i * size);
    *out = list;
    return SR1_OK;
}

static sr1_status call_generator(sr1_generator *w, const sr1_conversation *const *c,
                                 size_t n, struct sr1_generator_sink *sink)
{
    int alone = !(w->ops.flags & SR1_GENERATOR_CONCURRENT);
    struct sr1__error before;
    sr1_status st;

    if (alone)
        pthread_mutex_lock(&w->lock);
    sr1__callback_begin(&before);
    st = w->ops.write(w->self, c, n, sink);
    st = sr1__callback_end(&before, st, "generator", w->name);
    if (alone)
        pthread_mutex_unlock(&w->lock);
    return st;
}

/* Hand the texts over; all or none. */
static sr1_status transfer_texts(struct sr1_generator_sink *s, char **texts, size_t *lens)
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
        return sr1__fail_nomem("texts of a generator");
    }
    memcpy(texts, taken, s->n * sizeof(*texts));
    if (lens)
        memcpy(lens, sizes, s->n * sizeof(*lens));
    sr1__free(taken);
    sr1__free(sizes);
    return SR1_OK;
}

sr1_status sr1_generator_generate(sr1_generator *w, const sr1_conversation *conversations,
                                  size_t n, char **texts, size_t *lens)
{
    const sr1_conversation **list = NULL;
    struct sr1_generator_sink sink = {0};
    sr1_status st;

    if (!w || (n && (!conversations || !texts)))
        return sr1__fail(SR1_E_INVALID,
                         "generator: generator, conversations and texts are needed");
    if (n == 0)
        return SR1_OK;
    SR1__TRY(point_at_conversations(conversations, n, &list));
    st = generator_sink_init(&sink, n);
    sr1_generator_retain(w); /* its callback may free it */
    if (st == SR1_OK)
        st = call_generator(w, list, n, &sink);
    if (st == SR1_OK)
        st = transfer_texts(&sink, texts, lens);
    generator_sink_free(&sink);
    sr1_generator_free(w);
    sr1__free((void *)list);
    return st;
}
