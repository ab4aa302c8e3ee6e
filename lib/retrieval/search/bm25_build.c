/* retrieval/search/bm25_build.c - a corpus (JSON lines) to an index file, in bounded
 * memory.
 *
 *     read    the calling thread cuts the corpus into items of whole rows, numbered
 *     work    any thread parses the rows of an item, inverts their texts (inverter.c) and
 *             compresses them (row_packer.c)
 *     take    the calling thread takes the items in order: blocks of documents go to the
 *             index, postings to the segment (segment.c), which spills when it is full
 *     merge   the runs, by term, to the index
 *
 * What an item is depends on the corpus alone, items are taken in order and runs follow
 * each other, so that the index has the same bytes whatever the memory and the number of
 * threads. */
#include <searchr1/ext/bm25.h>

#include "base/executor.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/search/build_item.h"
#include "retrieval/search/corpus_reader.h"
#include "retrieval/search/id_check.h"
#include "retrieval/search/index_kind.h"
#include "retrieval/search/bm25_format.h"
#include "retrieval/search/segment.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MEMORY_DEFAULT ((uint64_t)512 << 20)
#define MEMORY_LEAST ((uint64_t)1 << 20)
#define SEGMENT_MOST ((uint64_t)3 << 30) /* places in a segment are 32 bits */
#define RUNS_MOST 64                     /* then they are joined into one */
#define THREADS_MOST 1024
#define PROGRESS_EVERY ((uint64_t)1 << 20) /* bytes of corpus */

/* An item under way: a task of the executor. */
struct build_slot {
    struct bm25_build *build;
    struct sr1__build_item item;
    struct sr1__task task;
    struct sr1__error error;
};

struct bm25_build {
    const char *index_path;
    struct sr1__build_plan plan;
    uint64_t memory;
    int32_t force; /* replace any file */
    struct sr1__corpus_reader *reader;
    struct sr1__id_check ids;
    struct sr1__executor *executor; /* of all threads but the caller's, which joins in */
    struct build_slot *slots;       /* a ring, filled and taken in order by the caller */
    size_t n_slots;
    uint64_t next_fill;
    uint64_t next_take;
    atomic_int stopped; /* what is queued need not run */
    size_t n_workers;
    pthread_mutex_t lock;            /* over both that follow */
    struct sr1__build_worker **idle; /* [n_workers] memory of threads, not in use */
    size_t n_idle;

    struct sr1__index_writer *writer;
    struct sr1__segment *segment;
    struct sr1__spool *runs[RUNS_MOST];
    size_t n_runs;
    uint64_t documents;

    sr1_bm25_progress_fn progress;
    void *user;
    uint64_t reported;
};

/* ---- work ---- */

/* At most n_workers threads work at once. */
static struct sr1__build_worker *take_worker(struct bm25_build *b)
{
    struct sr1__build_worker *w;

    pthread_mutex_lock(&b->lock);
    w = b->idle[--b->n_idle];
    pthread_mutex_unlock(&b->lock);
    return w;
}

static void return_worker(struct bm25_build *b, struct sr1__build_worker *w)
{
    pthread_mutex_lock(&b->lock);
    b->idle[b->n_idle++] = w;
    pthread_mutex_unlock(&b->lock);
}

static void work_on_slot(void *arg)
{
    struct build_slot *s = arg;
    struct sr1__build_worker *w;
    sr1_status status;

    if (atomic_load(&s->build->stopped))
        return;
    w = take_worker(s->build);
    status = sr1__build_item_work(&s->item, w);
    return_worker(s->build, w);
    if (status != SR1_OK)
        sr1__error_save(&s->error, status);
}

/* ---- runs ---- */

static sr1_status join_runs(struct bm25_build *b)
{
    struct sr1__spool *joined = NULL;
    sr1_status status;

    SR1__TRY(sr1__spool_open(&joined, b->index_path));
    status = sr1__runs_join(b->runs, b->n_runs, (size_t)b->memory / 2, joined);
    if (status != SR1_OK) {
        sr1__spool_close(joined);
        return status;
    }
    while (b->n_runs > 0)
        sr1__spool_close(b->runs[--b->n_runs]);
    b->runs[b->n_runs++] = joined;
    return SR1_OK;
}

static sr1_status spill_segment(struct bm25_build *b)
{
    if (b->n_runs == RUNS_MOST)
        SR1__TRY(join_runs(b));
    SR1__TRY(sr1__spool_open(&b->runs[b->n_runs], b->index_path));
    b->n_runs++;
    return sr1__segment_spill(b->segment, b->runs[b->n_runs - 1]);
}

static sr1_status write_term(void *self, const char *text, size_t n)
{
    return sr1__index_writer_term(self, text, n);
}

static sr1_status write_posting(void *self, uint32_t doc, uint32_t tf)
{
    return sr1__index_writer_posting(self, doc, tf);
}

static sr1_status merge_runs(struct bm25_build *b)
{
    const struct sr1__term_sink sink = {write_term, write_posting, b->writer};

    SR1__TRY(spill_segment(b));
    sr1__segment_free(b->segment);
    b->segment = NULL;
    return sr1__runs_merge(b->runs, b->n_runs, (size_t)b->memory / 2, &sink);
}

/* ---- take ---- */

static sr1_status report_bm25_progress(struct bm25_build *b, uint64_t done,
                                       uint64_t total)
{
    b->reported = done;
    if (b->progress != NULL && b->progress(b->user, done, total, b->documents) != 0)
        return sr1__fail(SR1_E_CANCELLED, "indexing %s: stopped on request",
                         b->plan.corpus_path);
    return SR1_OK;
}

static sr1_status take_build_item(struct bm25_build *b,
                                  const struct sr1__build_item *item)
{
    uint64_t total = sr1__corpus_reader_total(b->reader);

    for (size_t i = 0; i < item->n_blocks; i++)
        SR1__TRY(sr1__index_writer_block(b->writer, &item->blocks[i]));
    SR1__TRY(sr1__segment_add(b->segment, &item->batch, (uint32_t)b->documents));
    b->documents += item->n_rows;
    for (size_t i = 0; i < item->n_rows; i++)
        SR1__TRY(sr1__id_check_add(&b->ids, item->rows[i].id_hash));
    if (sr1__segment_bytes(b->segment) >= b->memory)
        SR1__TRY(spill_segment(b));
    if (item->corpus_end - b->reported >= PROGRESS_EVERY && item->corpus_end < total)
        SR1__TRY(report_bm25_progress(b, item->corpus_end, total));
    return SR1_OK;
}

/* Fill free slots, as far as the corpus goes. */
static sr1_status fill_slots(struct bm25_build *b, int *ended)
{
    while (!*ended && b->next_fill - b->next_take < b->n_slots) {
        struct build_slot *s = &b->slots[b->next_fill % b->n_slots];

        SR1__TRY(sr1__corpus_reader_next(b->reader, &s->item, ended));
        if (s->item.n_rows == 0)
            continue;
        SR1__TRY(sr1__executor_submit(b->executor, &s->task));
        b->next_fill++;
    }
    return SR1_OK;
}

/* The next item in order, done; this thread works until it is. */
static struct build_slot *next_done(struct bm25_build *b)
{
    struct build_slot *s = &b->slots[b->next_take++ % b->n_slots];

    sr1__executor_join(b->executor, &s->task);
    return s;
}

/* Report errors of earlier items first, then the error of the reader (rows of the item
 * in which the reader failed are not parsed). */
static sr1_status take_all(struct bm25_build *b)
{
    struct sr1__error reading = {.code = SR1_OK};
    int ended = 0;

    for (;;) {
        struct build_slot *s;

        if (!ended) {
            sr1_status status = fill_slots(b, &ended);

            if (status != SR1_OK) {
                sr1__error_save(&reading, status);
                ended = 1;
            }
        }
        if (b->next_take == b->next_fill)
            break;
        s = next_done(b);
        SR1__TRY(sr1__error_raise(&s->error));
        SR1__TRY(take_build_item(b, &s->item));
    }
    SR1__TRY(sr1__error_raise(&reading));
    if (b->documents == 0)
        return sr1__fail(SR1_E_PARSE,
                         "%s: no documents; expected lines such as "
                         "{\"id\": \"1\", \"contents\": \"...\"}",
                         b->plan.corpus_path);
    return SR1_OK;
}

/* ---- threads ---- */

static void stop_workers(struct bm25_build *b)
{
    atomic_store(&b->stopped, 1);
    sr1__executor_free(b->executor);
    b->executor = NULL;
}

static sr1_status start_workers(struct bm25_build *b)
{
    b->n_slots = b->n_workers == 1 ? 1 : 2 * b->n_workers;
    SR1__CALLOC(b->slots, b->n_slots, "index build");
    SR1__CALLOC(b->idle, b->n_workers, "index build");
    for (size_t i = 0; i < b->n_slots; i++) {
        struct build_slot *s = &b->slots[i];

        sr1__build_item_init(&s->item);
        s->build = b;
        s->task = (struct sr1__task){.run = work_on_slot, .arg = s};
    }
    for (; b->n_idle < b->n_workers; b->n_idle++)
        SR1__TRY(sr1__build_worker_new(&b->idle[b->n_idle], &b->plan));
    return sr1__executor_new(&b->executor, "index build", b->n_workers - 1, 0);
}

static void build_free(struct bm25_build *b)
{
    stop_workers(b);
    while (b->n_idle > 0)
        sr1__build_worker_free(b->idle[--b->n_idle]);
    for (size_t i = 0; b->slots != NULL && i < b->n_slots; i++)
        sr1__build_item_free(&b->slots[i].item);
    sr1__free(b->idle);
    sr1__free(b->slots);
    while (b->n_runs > 0)
        sr1__spool_close(b->runs[--b->n_runs]);
    sr1__segment_free(b->segment);
    sr1__index_writer_abort(b->writer);
    sr1__corpus_reader_free(b->reader);
    pthread_mutex_destroy(&b->lock);
}

/* ---- the whole ---- */

static sr1_status build_bm25_index(struct bm25_build *b)
{
    sr1_status status;

    SR1__TRY(sr1__corpus_reader_open(&b->reader, b->plan.corpus_path));
    SR1__TRY(sr1__file_clean(b->index_path));
    SR1__TRY(sr1__index_writer_open(&b->writer, b->index_path, b->plan.analyzer->name));
    SR1__TRY(sr1__segment_new(&b->segment));
    SR1__TRY(start_workers(b));
    status = take_all(b);
    stop_workers(b);
    SR1__TRY(status);
    SR1__TRY(merge_runs(b));
    SR1__TRY(report_bm25_progress(b, sr1__corpus_reader_done(b->reader),
                                  sr1__corpus_reader_done(b->reader)));
    status = sr1__index_writer_commit(b->writer);
    b->writer = NULL;
    return status;
}

static const sr1_bm25_build_options defaults = {
    .struct_size = sizeof(defaults), .analyzer = "english", .zstd_level = 3};

void sr1_bm25_build_options_init(sr1_bm25_build_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static size_t count_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > THREADS_MOST ? THREADS_MOST : (size_t)n;
}

static sr1_status read_bm25_build_options(struct bm25_build *b,
                                          const sr1_bm25_build_options *options)
{
    sr1_bm25_build_options o = defaults;
    const char *names;

    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_bm25_build_options, analyzer),
                              "bm25 build options"));
    if (o.zstd_level < 1 || o.zstd_level > 19)
        return sr1__fail(SR1_E_INVALID, "bm25 build: zstd_level %d is not in 1..19",
                         (int)o.zstd_level);
    if (o.threads < 0 || o.threads > THREADS_MOST)
        return sr1__fail(SR1_E_INVALID, "bm25 build: threads %d is not in 0..%d",
                         (int)o.threads, THREADS_MOST);
    b->plan.zstd_level = o.zstd_level;
    b->plan.analyzer =
        sr1__analyzer_find(o.analyzer != NULL ? o.analyzer : "english", &names);
    if (b->plan.analyzer == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 build: no analyzer '%.100s'; there are: %s",
                         o.analyzer, names);
    b->plan.format =
        sr1__text_format_find(o.text_format != NULL ? o.text_format : "plain", &names);
    if (b->plan.format == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "bm25 build: no text_format '%.100s'; there are: %s",
                         o.text_format, names);
    b->force = o.force;
    b->memory = o.memory_bytes == 0 ? MEMORY_DEFAULT : o.memory_bytes;
    b->memory = b->memory < MEMORY_LEAST ? MEMORY_LEAST : b->memory;
    b->memory = b->memory > SEGMENT_MOST ? SEGMENT_MOST : b->memory;
    b->n_workers = o.threads == 0 ? count_processors() : (size_t)o.threads;
    return SR1_OK;
}

sr1_status sr1_bm25_build(const char *corpus_path, const char *index_path,
                          const sr1_bm25_build_options *options,
                          sr1_bm25_progress_fn progress, void *user)
{
    struct bm25_build b = {.index_path = index_path, .progress = progress, .user = user};
    sr1_status status;

    if (corpus_path == NULL || index_path == NULL)
        return sr1__fail(SR1_E_INVALID, "bm25 build: a path is NULL");
    SR1__TRY(sr1__path_distinct(corpus_path, index_path));
    b.plan.corpus_path = corpus_path;
    SR1__TRY(read_bm25_build_options(&b, options));
    SR1__TRY(sr1__index_place_check(index_path, "BM25", b.force));
    pthread_mutex_init(&b.lock, NULL);
    status = build_bm25_index(&b);
    if (status == SR1_OK)
        (void)sr1__id_check_end(&b.ids, corpus_path);
    sr1__id_check_free(&b.ids);
    build_free(&b);
    return status;
}
