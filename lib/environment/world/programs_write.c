/* environment/world/programs_write.c - the files of tiny programs: problems,
 * demonstrations, prompts as templates, and a tokenizer. */
#include "environment/world/programs.h"

#include "base/file.h"
#include "base/struct.h"
#include "environment/world/world_files.h"

#include <string.h>

struct programs_writer {
    const char *folder;
    sr1_programs_options o;
    sr1_world_progress_fn progress;
    void *user;
};

static const sr1_programs_options defaults = {.train_problems = 2000,
                                              .validation_problems = 200,
                                              .test_problems = 200,
                                              .copies = 8000,
                                              .demonstrations = 20000,
                                              .careless = 1600,
                                              .correct = 0.3};

void sr1_programs_options_init(sr1_programs_options *o)
{
    sr1__struct_init(o, &defaults, sizeof(defaults));
}

#define MOST_ROWS 1000000

static sr1_status check_programs_options(const sr1_programs_options *o)
{
    const int32_t counts[] = {o->train_problems, o->validation_problems, o->test_problems,
                              o->copies,         o->demonstrations,      o->careless};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 1 || counts[i] > MOST_ROWS)
            return sr1__fail(SR1_E_INVALID, "programs: a count is %d; 1 to %d", counts[i],
                             MOST_ROWS);
    if (!(o->correct >= 0 && o->correct <= 1))
        return sr1__fail(SR1_E_INVALID,
                         "programs: the share of correct solutions is %g; "
                         "0 to 1",
                         o->correct);
    return SR1_OK;
}

static sr1_status append_part_rows(const struct programs_writer *w,
                                   const struct sr1__programs_part *p,
                                   struct sr1__buf *rows)
{
    struct sr1__rng rng;
    sr1_status st = SR1_OK;

    sr1__rng_seed(&rng, w->o.seed, sr1__hash64(p->name, strlen(p->name), p->form));
    for (int32_t i = 0; i < p->count && st == SR1_OK; i++) {
        st = sr1__programs_row(rows, p, i, w->o.correct, &rng);
        if (st == SR1_OK && w->progress && i % 256 == 0)
            st = w->progress(w->user, p->name, i, p->count);
    }
    return st;
}

static sr1_status write_program_parts(const struct programs_writer *w, const char *name,
                                      const struct sr1__programs_part *parts, size_t n)
{
    struct sr1__buf rows;
    sr1_status st = SR1_OK;

    sr1__buf_init(&rows, 0);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = append_part_rows(w, &parts[i], &rows);
    if (st == SR1_OK)
        st = sr1__world_save(w->folder, name, &rows);
    sr1__buf_free(&rows);
    return st;
}

static sr1_status write_program_rows(const struct programs_writer *w)
{
    const struct sr1__programs_part train = {"train", SR1__PROGRAMS_TRAIN,
                                             SR1__PROGRAMS_PROBLEM, w->o.train_problems};
    const struct sr1__programs_part validation = {"validation", SR1__PROGRAMS_VALIDATION,
                                                  SR1__PROGRAMS_PROBLEM,
                                                  w->o.validation_problems};
    const struct sr1__programs_part test = {"test", SR1__PROGRAMS_TEST,
                                            SR1__PROGRAMS_PROBLEM, w->o.test_problems};
    const struct sr1__programs_part careless = {"careless", SR1__PROGRAMS_TRAIN,
                                                SR1__PROGRAMS_CARELESS, w->o.careless};
    const struct sr1__programs_part sft[] = {
        {"copies", SR1__PROGRAMS_TRAIN, SR1__PROGRAMS_COPY, w->o.copies},
        {"demonstrations", SR1__PROGRAMS_TRAIN, SR1__PROGRAMS_BOTH, w->o.demonstrations},
    };

    SR1__TRY(write_program_parts(w, "train.jsonl", &train, 1));
    SR1__TRY(write_program_parts(w, "validation.jsonl", &validation, 1));
    SR1__TRY(write_program_parts(w, "test.jsonl", &test, 1));
    SR1__TRY(write_program_parts(w, "sft.jsonl", sft, 2));
    return write_program_parts(w, "careless.jsonl", &careless, 1);
}

/* ---- templates ---- */

static sr1_status write_template(const struct programs_writer *w, const char *name,
                                 const char *text)
{
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, text);
    st = sr1__world_save(w->folder, name, &b);
    sr1__buf_free(&b);
    return st;
}

static sr1_status write_templates(const struct programs_writer *w)
{
    SR1__TRY(write_template(w, "critique.txt", sr1__programs_prompt));
    return write_template(w, "solve.txt", "{{problem}}");
}

/* ---- the tokenizer ---- */

#define VOCABULARY 512 /* examples/recipes/model-programs.json has as many */

static sr1_status write_programs_tokenizer(const struct programs_writer *w)
{
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = VOCABULARY};
    struct sr1__buf words;
    size_t n;
    sr1_status st;

    sr1__buf_init(&words, 0);
    n = sr1__programs_vocabulary(&words);
    st = sr1__world_tokenizer(w->folder, &words, n, &o);
    sr1__buf_free(&words);
    return st;
}

sr1_status sr1_programs_write(const char *folder, const sr1_programs_options *options,
                              sr1_world_progress_fn progress, void *user)
{
    struct programs_writer w = {
        .folder = folder, .o = defaults, .progress = progress, .user = user};

    if (!folder)
        return sr1__fail(SR1_E_INVALID, "programs: folder is required");
    SR1__TRY(sr1__struct_take(&w.o, sizeof w.o, options,
                              SR1__STRUCT_END(sr1_programs_options, seed),
                              "programs options"));
    SR1__TRY(check_programs_options(&w.o));
    SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(write_programs_tokenizer(&w));
    SR1__TRY(write_templates(&w));
    return write_program_rows(&w);
}
