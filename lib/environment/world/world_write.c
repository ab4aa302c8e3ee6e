/* environment/world/world_write.c - make the worlds of one seed and write their files. */
#include "environment/world/world.h"

#include <searchr1/ext/bm25.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/struct.h"
#include "environment/world/world_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Parts that questions are written for, each with names and a world of its own. */
static const struct {
    const char *file;
    int pool;
    double scale; /* of the training world */
} parts[] = {
    {"train.jsonl", SR1__POOL_TRAIN, 1.0},
    {"validation.jsonl", SR1__POOL_VALIDATION, 0.34},
    {"test.jsonl", SR1__POOL_TEST, 0.36},
};
#define PARTS 3
#define STAGES 5

struct world_writer {
    const char *folder;
    const struct sr1__speech *speech;
    sr1_world_options o;
    sr1_world_progress_fn progress;
    void *user;
    struct sr1__names names;
    sr1_tokenizer *tokenizer;
    struct sr1__world worlds[PARTS];
};

static const sr1_world_options defaults = {.scale = 1.0,
                                           .sft_worlds = 40,
                                           .batch = 16,
                                           .stage_steps = {350, 800, 150, 1200, 180},
                                           .test_questions = 400};

void sr1_world_options_init(sr1_world_options *o)
{
    sr1__struct_init(o, &defaults, sizeof(defaults));
}

static sr1_status check_world_options(const sr1_world_options *o)
{
    if (!(o->scale >= 0.05 && o->scale <= 1.5))
        return sr1__fail(SR1_E_INVALID, "world: scale is %g; 0.05 to 1.5", o->scale);
    if (o->sft_worlds < 1 || o->sft_worlds > 48)
        return sr1__fail(SR1_E_INVALID, "world: sft_worlds is %d; 1 to 48",
                         o->sft_worlds);
    if (o->batch < 1 || o->batch > 4096 || o->test_questions < 2)
        return sr1__fail(SR1_E_INVALID, "world: batch or test_questions is out of range");
    if (o->hops < 0 || o->hops > 2)
        return sr1__fail(SR1_E_INVALID, "world: hops is %d; 1 or 2", o->hops);
    for (int i = 0; i < STAGES; i++)
        if (o->stage_steps[i] < 0 || o->stage_steps[i] > 100000)
            return sr1__fail(SR1_E_INVALID, "world: stage_steps[%d] is %d; 0 to 100000",
                             i, o->stage_steps[i]);
    return SR1_OK;
}

static sr1_status report_world_progress(const struct world_writer *w, const char *phase,
                                        int64_t done, int64_t total)
{
    return w->progress ? w->progress(w->user, phase, done, total) : SR1_OK;
}

/* Streams of random numbers, one a purpose. */
enum { STREAM_NAMES, STREAM_WORLDS, STREAM_QUESTIONS, STREAM_SFT };

static struct sr1__rng seed_stream(const struct world_writer *w, uint64_t purpose)
{
    struct sr1__rng r;

    sr1__rng_seed(&r, w->o.seed, purpose);
    return r;
}

/* ---- passages ---- */

static sr1_status add_passage(struct sr1__buf *b, const char *id, const char *text)
{
    json_t *row = json_pack("{s:s, s:s}", "id", id, "contents", text);
    sr1_status st = row ? sr1__json_dump(row, 0, b) : sr1__fail_nomem("passage");

    sr1__buf_char(b, '\n');
    json_decref(row);
    return st;
}

/* All passages of a world; ids as struct sr1__demo_worlds tells. */
static sr1_status add_world(struct sr1__buf *out, const struct sr1__world *w,
                            int32_t number)
{
    struct sr1__buf text;
    char id[48];
    sr1_status st = SR1_OK;

    sr1__buf_init(&text, 0);
    for (int32_t i = 0; i < w->n_things && st == SR1_OK; i++) {
        sr1__buf_clear(&text);
        sr1__text_passage(&text, w, i);
        snprintf(id, sizeof(id), "%d/%d", number, i);
        st = add_passage(out, id, sr1__buf_cstr(&text));
    }
    for (int32_t i = 0; i < w->n_distractors && st == SR1_OK; i++) {
        int32_t about;

        sr1__buf_clear(&text);
        sr1__text_distractor(&text, w, i, &about);
        snprintf(id, sizeof(id), "%d/d/%d/%d", number, about, i);
        st = add_passage(out, id, sr1__buf_cstr(&text));
    }
    sr1__buf_free(&text);
    return st;
}

/* Passages of worlds[n] into folder/name.jsonl, their index into folder/name.bm25. */
static sr1_status write_corpus(const struct world_writer *w, const char *name,
                               const struct sr1__world *worlds, int32_t n)
{
    sr1_bm25_build_options o = {.struct_size = sizeof(o)};
    struct sr1__buf rows, corpus, index;
    sr1_status st = SR1_OK;

    sr1__buf_init(&rows, 0);
    sr1__buf_init(&corpus, 0);
    sr1__buf_init(&index, 0);
    sr1_bm25_build_options_init(&o);
    o.analyzer = "plain";
    o.force = 1; /* as the corpus beside it */
    sr1__buf_fmt(&corpus, "%s/%s.jsonl", w->folder, name);
    sr1__buf_fmt(&index, "%s/%s.bm25", w->folder, name);
    for (int32_t i = 0; i < n && st == SR1_OK; i++)
        st = add_world(&rows, &worlds[i], i);
    if (st == SR1_OK)
        st = sr1__buf_status(&rows, "corpus");
    if (st == SR1_OK)
        st = sr1__file_replace(sr1__buf_cstr(&corpus), sr1__buf_cstr(&rows), rows.len);
    if (st == SR1_OK)
        st =
            sr1_bm25_build(sr1__buf_cstr(&corpus), sr1__buf_cstr(&index), &o, NULL, NULL);
    sr1__buf_free(&rows);
    sr1__buf_free(&corpus);
    sr1__buf_free(&index);
    return st;
}

/* ---- questions ---- */

static sr1_status append_world_question(struct sr1__buf *out, const struct sr1__world *w,
                                        const struct sr1__question *q, const char *part,
                                        size_t number)
{
    struct sr1__buf text, answer;
    char id[64];
    json_t *row;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__buf_init(&answer, 0);
    sr1__text_question(&text, sr1__question_text(q, w), w, q->thing);
    sr1__text_name(&answer, w, sr1__question_answer(w, q));
    snprintf(id, sizeof(id), "%.*s-%zu", (int)strcspn(part, "."), part, number);
    row = json_pack("{s:s, s:s, s:[s], s:s}", "id", id, "question", sr1__buf_cstr(&text),
                    "golden_answers", sr1__buf_cstr(&answer), "data_source",
                    q->chain < 0 ? "one-hop" : "two-hop");
    st = row ? sr1__json_dump(row, 0, out) : sr1__fail_nomem("question");
    sr1__buf_char(out, '\n');
    json_decref(row);
    sr1__buf_free(&text);
    sr1__buf_free(&answer);
    return st;
}

/* Training: 60 % two-hop questions, each once, as far as they last. The other parts:
 * half. As many of one hop in place of them where only those are wanted. */
static sr1_status write_world_questions(const struct world_writer *w, int part)
{
    const struct sr1__world *world = &w->worlds[part];
    struct sr1__rng rng = seed_stream(w, STREAM_QUESTIONS + 16 * (uint64_t)(part + 1));
    struct sr1__question *q = NULL;
    size_t n, one, two, want_one, want_two;
    struct sr1__buf rows;
    sr1_status st;

    SR1__TRY(sr1__questions(world, &rng, &q, &n, &one));
    two = n - one;
    want_two = part == 0 ? two : (size_t)w->o.test_questions / 2;
    want_one = part == 0 ? two * 2 / 3 : (size_t)w->o.test_questions / 2;
    if (w->o.hops == 1) {
        want_one += want_two;
        want_two = 0;
    }
    sr1__buf_init(&rows, 0);
    st = SR1_OK;
    for (size_t i = 0; i < n && st == SR1_OK; i++) { /* the kinds in turn */
        if (i < want_one && i < one)
            st = append_world_question(&rows, world, &q[i], parts[part].file, 2 * i);
        if (st == SR1_OK && i < want_two && i < two)
            st = append_world_question(&rows, world, &q[one + i], parts[part].file,
                                       2 * i + 1);
    }
    if (st == SR1_OK)
        st = sr1__world_save(w->folder, parts[part].file, &rows);
    sr1__buf_free(&rows);
    sr1__free(q);
    return st;
}

static sr1_status write_world_parts(struct world_writer *w)
{
    struct sr1__rng rng = seed_stream(w, STREAM_WORLDS);

    for (int i = 0; i < PARTS; i++)
        SR1__TRY(sr1__world_make(&w->worlds[i], w->o.scale * parts[i].scale,
                                 &w->names.pools[parts[i].pool], &rng));
    SR1__TRY(write_corpus(w, "corpus", w->worlds, PARTS));
    for (int i = 0; i < PARTS; i++)
        SR1__TRY(write_world_questions(w, i));
    return SR1_OK;
}

/* ---- demonstrations ---- */

/* The mixed stage has a file of its own: it is trained on once the clean ones are
 * mastered. */
static const struct {
    const char *file;
    int32_t begin, end; /* stages */
} demo_files[] = {{"sft.jsonl", 0, STAGES - 1}, {"mix.jsonl", STAGES - 1, STAGES}};

/* Stages without a step have no file, nor that of an earlier world. */
static sr1_status remove_demos(const struct world_writer *w, const char *file)
{
    char *path = sr1__path_join(w->folder, file);
    sr1_status st = path ? sr1__dir_remove(path) : sr1__fail_nomem("path");

    sr1__free(path);
    return st;
}

static sr1_status write_stages(const struct world_writer *w,
                               const struct sr1__demo_worlds *d, size_t file)
{
    struct sr1__rng rng = seed_stream(w, STREAM_SFT + 1024 * (uint64_t)(file + 1));
    struct sr1__buf rows;
    int64_t total = 0, done = 0;
    sr1_status st = SR1_OK;

    sr1__buf_init(&rows, 0);
    for (int32_t i = demo_files[file].begin; i < demo_files[file].end; i++)
        total += (int64_t)w->o.stage_steps[i] * w->o.batch;
    for (int32_t stage = demo_files[file].begin; stage < demo_files[file].end; stage++)
        for (int64_t i = 0; i < (int64_t)w->o.stage_steps[stage] * w->o.batch; i++) {
            if (st == SR1_OK)
                st = sr1__world_append_demo(&rows, stage, &rng, d);
            if (st == SR1_OK && done++ % 256 == 0)
                st = report_world_progress(w, "demonstrations", done, total);
        }
    if (st == SR1_OK)
        st = total > 0 ? sr1__world_save(w->folder, demo_files[file].file, &rows)
                       : remove_demos(w, demo_files[file].file);
    sr1__buf_free(&rows);
    return st;
}

static sr1_status write_world_demos(struct world_writer *w)
{
    struct sr1__pool_names *pool = &w->names.pools[SR1__POOL_TRAIN];
    struct sr1__rng rng = seed_stream(w, STREAM_SFT);
    struct sr1__demo_worlds d = {.n = w->o.sft_worlds,
                                 .speech = w->speech,
                                 .two_hops = w->o.hops == 1 ? 0.0 : 0.6};
    sr1_env_options e = {.struct_size = sizeof(e),
                         .protocol = w->speech->protocol,
                         .document_format = "plain",
                         .top_k = SR1__DEMO_TOP_K};
    char *index = sr1__path_join(w->folder, "sft-corpus.bm25");
    sr1_status st = index ? SR1_OK : sr1__fail_nomem("path");

    d.worlds = sr1__calloc((size_t)d.n, sizeof(*d.worlds));
    if (!d.worlds && st == SR1_OK)
        st = sr1__fail_nomem("worlds");
    for (int32_t i = 0; i < d.n && st == SR1_OK; i++)
        st = sr1__world_make(&d.worlds[i], 0.5 * w->o.scale, pool, &rng);
    if (st == SR1_OK)
        st = write_corpus(w, "sft-corpus", d.worlds, d.n);
    if (st == SR1_OK)
        st = sr1_search_open_bm25(&d.engine, index, NULL);
    if (st == SR1_OK)
        st = sr1_env_open(&d.env, w->speech->environment, d.engine, &e);
    d.fresh = (struct sr1__pool_names){pool->names, pool->n, 0};
    for (size_t i = 0; i < sizeof(demo_files) / sizeof(demo_files[0]) && st == SR1_OK;
         i++)
        st = write_stages(w, &d, i);
    sr1_env_free(d.env);
    sr1_search_free(d.engine);
    for (int32_t i = 0; d.worlds && i < d.n; i++)
        sr1__world_free(&d.worlds[i]);
    sr1__free(d.worlds);
    sr1__free(index);
    return st;
}

sr1_status sr1_world_write(const char *folder, const sr1_world_options *options,
                           sr1_world_progress_fn progress, void *user)
{
    struct world_writer w = {
        .folder = folder, .o = defaults, .progress = progress, .user = user};
    struct sr1__rng rng;
    sr1_status st;

    if (!folder)
        return sr1__fail(SR1_E_INVALID, "world: folder is required");
    SR1__TRY(sr1__struct_take(&w.o, sizeof(w.o), options,
                              SR1__STRUCT_END(sr1_world_options, seed), "world options"));
    SR1__TRY(check_world_options(&w.o));
    w.speech = sr1__speech_find(w.o.protocol);
    if (!w.speech)
        return SR1_E_NOT_FOUND;
    SR1__TRY(sr1__dir_make(folder));
    rng = seed_stream(&w, STREAM_NAMES);
    st = sr1__names_make(&w.names, w.speech, &rng, folder, &w.tokenizer);
    if (st == SR1_OK)
        st = report_world_progress(&w, "names", 1, 1);
    if (st == SR1_OK)
        st = write_world_parts(&w);
    if (st == SR1_OK)
        st = write_world_demos(&w);
    for (int i = 0; i < PARTS; i++)
        sr1__world_free(&w.worlds[i]);
    sr1__names_free(&w.names);
    sr1_tokenizer_free(w.tokenizer);
    return st;
}
