/* policy/suite.c - a policy over a folder of question sets (searchr1/ext/suite.h). The
 * questions of a set go in chunks; the figures are in suite_scores.c, what is kept on
 * disk in suite_results.c. */
#include "policy/dataset_queries.h"
#include "policy/fingerprint.h"
#include "policy/launched_job.h"
#include "policy/retrieval_figures.h"
#include "policy/rollout_internal.h"
#include "policy/share_rollout.h"
#include "policy/suite_results.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "config/config.h"
#include "environment/trajectory/trajectory.h"
#include "signal/reward/answer_figures.h"
#include "signal/reward/ground_truths.h"
#include "signal/reward/match.h"
#include "text/data/dataset.h"
#include "text/data/gold_ids.h"
#include "text/data/row_files.h"

#include <searchr1/ext/suite.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SAMPLES 1024

struct sr1_suite {
    struct sr1__suite_set *sets; /* [n] */
    sr1_dataset **data;          /* [n] while it runs */
    size_t n;
    int32_t samples;
};

void sr1_suite_free(sr1_suite *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        sr1__free(s->sets[i].name);
        sr1__free(s->sets[i].rows);
        sr1_dataset_free(s->data[i]);
    }
    sr1__free(s->sets);
    sr1__free((void *)s->data);
    sr1__free(s);
}

/* ---- the sets of a folder ---- */

/* The columns of Search-R1's table, by how the names of their files begin. */
static const char *const published[] = {"nq",        "triviaqa", "popqa",     "hotpotqa",
                                        "2wikimult", "musique",  "bamboogle", NULL};

/* Letters and digits alone count: "2WikiMultihopQA", "trivia_qa". */
static int begins_like(const char *name, const char *begin)
{
    while (*begin) {
        while (*name && !isalnum((unsigned char)*name))
            name++;
        if (tolower((unsigned char)*name++) != *begin++)
            return 0;
    }
    return 1;
}

static size_t find_table_place(const char *name)
{
    size_t i = 0;

    while (published[i] && !begins_like(name, published[i]))
        i++;
    return i;
}

static int compare_sets(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    size_t i = find_table_place(x), k = find_table_place(y);

    return i != k ? (i > k) - (i < k) : strcmp(x, y);
}

static int is_suite_file(const char *name)
{
    return *name != '.' && sr1__row_files_stem(name) > 0;
}

static void name_row_fields(sr1_dataset_options *o, const sr1_config *c)
{
    o->struct_size = sizeof(*o);
    if (!c)
        return;
    o->question_field = sr1__config_str(c, "question_field");
    o->answer_field = sr1__config_str(c, "answer_field");
    o->id_field = sr1__config_str(c, "id_field");
    o->history_field = sr1__config_str(c, "history_field");
}

static sr1_status add_suite_set(sr1_suite *s, const char *folder, const char *file,
                                const sr1_config *c, int64_t max_rows)
{
    struct sr1__suite_set *set = &s->sets[s->n];
    sr1_dataset_options o = {0};
    char *path = sr1__path_join(folder, file);
    const char *const paths[] = {path};
    sr1_status st = SR1_OK;

    name_row_fields(&o, c);
    set->name = sr1__strndup(file, sr1__row_files_stem(file));
    s->n++;
    if (!path || !set->name)
        st = sr1__fail_nomem("a set of questions");
    for (size_t i = 0; st == SR1_OK && i + 1 < s->n; i++)
        if (strcmp(s->sets[i].name, set->name) == 0)
            st = sr1__fail(SR1_E_INVALID,
                           "%s: two files of this name differ in their ending only; "
                           "rename one",
                           path);
    if (st == SR1_OK)
        st = sr1_dataset_open(&s->data[s->n - 1], paths, 1, &o);
    sr1__free(path);
    SR1__TRY(st);
    set->n = sr1_dataset_count(s->data[s->n - 1]);
    if (max_rows > 0 && max_rows < set->n)
        set->n = max_rows;
    set->rows = sr1__calloc((size_t)set->n + 1, sizeof(*set->rows));
    return set->rows ? SR1_OK : sr1__fail_nomem("a set of questions");
}

static sr1_status open_suite_sets(sr1_suite *s, const char *folder, const sr1_config *c,
                                  int64_t max_rows)
{
    char **names = NULL;
    size_t n = 0;
    sr1_status st;

    SR1__TRY(sr1__dir_list(folder, &names, &n));
    if (n > 1)
        qsort(names, n, sizeof(*names), compare_sets);
    s->sets = sr1__calloc(n + 1, sizeof(*s->sets));
    s->data = sr1__calloc(n + 1, sizeof(*s->data));
    st = s->sets && s->data ? SR1_OK : sr1__fail_nomem("sets of questions");
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        if (is_suite_file(names[i]))
            st = add_suite_set(s, folder, names[i], c, max_rows);
    sr1__dir_list_free(names, n);
    if (st == SR1_OK && s->n == 0)
        st = sr1__fail(
            SR1_E_NOT_FOUND,
            "%s: there is no set of questions in it (.jsonl, .json, .csv, .tsv)", folder);
    return st;
}

/* ---- the work ---- */

struct suite_run {
    struct sr1__dist *dist; /* who shares the questions; NULL: nobody */
    sr1_rollout *rollout;
    const sr1_suite_options *o;
    struct sr1__suite_set *set; /* the one under way */
    const sr1_dataset *data;
    struct sr1__suite_results *results;
    int64_t finished, total, tokens; /* answers, over all sets */
};

struct suite_chunk {
    struct sr1__dataset_queries asked;
    const int64_t *rows; /* [asked.n] of the set */
    sr1_trajectory **t;  /* [made], question by question */
    size_t made;
};

static void suite_chunk_free(struct suite_chunk *c)
{
    for (size_t i = 0; c->t && i < c->made; i++)
        sr1_trajectory_free(c->t[i]);
    sr1__free(c->t);
    sr1__dataset_queries_free(&c->asked);
}

static sr1_status report_suite_progress(void *user, int64_t finished, int64_t total,
                                        int64_t tokens)
{
    const struct suite_run *w = user;
    int32_t ranks = sr1__dist_size(w->dist); /* the others are about as far */

    (void)total;
    finished = w->finished + finished * ranks;
    return w->o->progress(w->o->user, finished < w->total ? finished : w->total, w->total,
                          w->tokens + tokens * ranks);
}

/* Only a closed answer counts: NULL where it was cut short. */
static const char *closed_answer(const sr1_trajectory *t, size_t *n)
{
    const char *answer = sr1_trajectory_final_answer(t, n);

    return sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER ? answer : NULL;
}

/* Is an answer right, as rewards compare, its F1, and its normalised text, "" without
 * one, which the caller frees with sr1_free. */
static sr1_status score_answer(const sr1_trajectory *t, double *right, double *f1,
                               char **vote)
{
    const struct sr1__ground_truths truths = {.trajectory = t,
                                              .n = sr1_trajectory_ground_truth_count(t)};
    struct sr1__str answer = {NULL, 0};

    answer.s = closed_answer(t, &answer.n);
    *right = *f1 = 0.0;
    if (!answer.s)
        return sr1__normalise_vote((struct sr1__str){"", 0}, vote);
    SR1__TRY(sr1__best_score(sr1__score_exact, answer, &truths, NULL, right));
    SR1__TRY(sr1__best_score(sr1__score_f1, answer, &truths, NULL, f1));
    return sr1__normalise_vote(answer, vote);
}

/* What a question's answers are worth, with room for their normalised texts. */
static sr1_status score_answers(const struct suite_run *w, sr1_trajectory *const *t,
                                char **votes, struct sr1__suite_row *row)
{
    int32_t n = w->o->samples, chosen;
    double right[MAX_SAMPLES], f1;
    struct sr1__retrieval_figures found;

    *row = (struct sr1__suite_row){.done = 1, .known = 1};
    for (int32_t i = 0; i < n; i++) {
        row->known &= !sr1__trajectory_excluded(t[i]);
        SR1__TRY(score_answer(t[i], &right[i], &f1, &votes[i]));
        row->right += right[i] > 0;
        row->f1 += f1 / n;
        row->searches += (double)sr1_trajectory_search_count(t[i]) / n;
        row->tokens += (double)sr1_trajectory_policy_count(t[i]) / n;
        SR1__TRY(sr1__retrieval_figures(w->rollout, w->o->no_search, t[i], &found));
        row->hit_rate += found.hit_rate / n; /* NaN for all, or for none */
        row->recall += found.recall / n;
    }
    chosen = sr1__find_majority(votes, n);
    row->majority = chosen >= 0 && right[chosen] > 0;
    return SR1_OK;
}

static json_t *list_final_answers(sr1_trajectory *const *t, int32_t n)
{
    json_t *list = json_array();

    for (int32_t i = 0; list && i < n; i++) {
        size_t size;
        const char *s = closed_answer(t[i], &size);
        json_t *answer = s ? json_stringn(s, size) : json_null();

        if (json_array_append_new(list, answer ? answer : json_null()) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static sr1_status write_suite_result(struct suite_run *w, sr1_trajectory *const *t,
                                     int64_t i, const char *id)
{
    json_t *answers = list_final_answers(t, w->o->samples);
    sr1_status st =
        answers ? sr1__suite_results_add(w->results, i, id, &w->set->rows[i], answers)
                : sr1__fail_nomem("results of a suite");

    json_decref(answers);
    return st;
}

static sr1_status score_question(struct suite_run *w, const struct suite_chunk *c,
                                 size_t q)
{
    int32_t n = w->o->samples;
    const sr1_query *asked = &c->asked.queries[q];
    sr1_trajectory *const *t = c->t + q * (size_t)n;
    struct sr1__suite_row *to = &w->set->rows[c->rows[q]];
    char **votes;
    sr1_status st;

    SR1__CALLOC(votes, (size_t)n, "answers");
    st = score_answers(w, t, votes, to);
    if (st == SR1_OK && to->known)
        st = write_suite_result(w, t, c->rows[q], asked->id);
    w->tokens += (int64_t)(to->tokens * n);
    for (int32_t i = 0; i < n; i++)
        sr1_free(votes[i]);
    sr1__free(votes);
    return st;
}

/* Ask the n questions that rows name. */
static sr1_status ask_chunk(struct suite_run *w, const int64_t *rows, size_t n)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = w->o->samples,
                             .greedy = w->o->greedy && w->o->samples == 1,
                             .seed = w->o->seed,
                             .no_search = w->o->no_search,
                             .user = w,
                             .progress = w->o->progress ? report_suite_progress : NULL};
    struct suite_chunk c = {.rows = rows, .made = n * (size_t)w->o->samples};
    sr1_status st;

    c.t = sr1__calloc(c.made + 1, sizeof(*c.t));
    st = c.t ? sr1__dataset_queries_read(&c.asked, w->data, rows, 0, n)
             : sr1__fail_nomem("questions");
    if (st == SR1_OK)
        st = sr1__generate_shared(w->dist, w->rollout, c.asked.queries, n, &o, c.t);
    for (size_t q = 0; q < n && st == SR1_OK; q++)
        st = score_question(w, &c, q);
    suite_chunk_free(&c);
    w->finished += (int64_t)n * w->o->samples;
    return sr1__dist_agree(w->dist, "answers of a suite", st);
}

static size_t questions_at_once(const struct suite_run *w)
{
    const sr1_rollout *r = w->rollout;
    int32_t rows = r->server.ops ? 4 * r->server.n_slots : 4 * r->limits.max_rows;
    int32_t n = rows / w->o->samples;

    return (size_t)(n > 0 ? n : 1) * (size_t)sr1__dist_size(w->dist);
}

/* Those that can be asked and were not. */
static sr1_status list_open_rows(const struct suite_run *w, int64_t **rows, int64_t *n)
{
    int64_t kept = 0;

    SR1__TRY(sr1__rollout_filter_prompts(w->rollout, w->data, w->set->name, w->set->n,
                                         rows, n));
    for (int64_t i = 0; i < *n; i++)
        if (!w->set->rows[(*rows)[i]].done)
            (*rows)[kept++] = (*rows)[i];
    *n = kept;
    return SR1_OK;
}

static sr1_status ask_rows(struct suite_run *w, const int64_t *rows, int64_t n)
{
    int64_t most = (int64_t)questions_at_once(w);

    for (int64_t at = 0; at < n; at += most)
        SR1__TRY(ask_chunk(w, rows + at, (size_t)(n - at < most ? n - at : most)));
    return SR1_OK;
}

/* What must be the same for the work to be gone on with. */
static sr1_status describe_set(json_t **out, const struct suite_run *w)
{
    const char *gold = w->rollout->gold_ids_field;
    json_t *more = json_pack("{s:i, s:b, s:I, s:b}", "samples", (int)w->o->samples,
                             "greedy", w->o->greedy && w->o->samples == 1, "seed",
                             (json_int_t)w->o->seed, "no_search", w->o->no_search != 0);

    /* results from before there was the key are of its default */
    if (more && strcmp(gold, SR1__GOLD_IDS_FIELD) != 0 &&
        json_object_set_new(more, "gold_ids_field", json_string(gold)) != 0) {
        json_decref(more);
        more = NULL;
    }
    return sr1__work_fingerprint(out, w->rollout, w->data, more);
}

/* Open the set's results, by the time that its prompts showed at first. */
static sr1_status begin_suite_set(struct suite_run *w)
{
    int64_t time = sr1__chat_time(w->rollout->tokenizer);
    json_t *settings = NULL;
    sr1_status st;

    SR1__TRY(sr1__suite_results_open(&w->results, w->dist, w->o->results, w->set->name,
                                     &time));
    sr1__chat_set_time(w->rollout->tokenizer, time);
    st = describe_set(&settings, w);
    st = sr1__work_same(w->dist, st, settings, questions_at_once(w));
    if (st == SR1_OK)
        st = sr1__suite_results_begin(w->results, w->set, settings, w->o->samples);
    json_decref(settings);
    return st;
}

static sr1_status run_suite_set(struct suite_run *w, struct sr1__suite_set *set,
                                const sr1_dataset *data)
{
    int64_t time = sr1__chat_time(w->rollout->tokenizer);
    int64_t *rows = NULL, n = 0;
    sr1_status st;

    w->set = set;
    w->data = data;
    st = begin_suite_set(w);
    if (st == SR1_OK) {
        st = sr1__dist_agree(w->dist, "rows", list_open_rows(w, &rows, &n));
        w->finished += (set->n - n) * w->o->samples;
    }
    if (st == SR1_OK)
        st = ask_rows(w, rows, n);
    sr1__free(rows);
    sr1__suite_results_close(w->results);
    w->results = NULL;
    sr1__chat_set_time(w->rollout->tokenizer, time);
    return sr1__context(st, "%s", set->name);
}

static sr1_status run_suite_sets(sr1_suite *s, struct suite_run *w)
{
    if (!w->o->no_search)
        SR1__TRY(sr1__rollout_check_engine(w->rollout));
    for (size_t i = 0; i < s->n; i++)
        w->total += s->sets[i].n * w->o->samples;
    for (size_t i = 0; i < s->n; i++)
        SR1__TRY(run_suite_set(w, &s->sets[i], s->data[i]));
    return SR1_OK;
}

/* ---- the call ---- */

static const sr1_suite_options suite_options_defaults = {.samples = 1, .greedy = 1};

void sr1_suite_options_init(sr1_suite_options *options)
{
    sr1__struct_init(options, &suite_options_defaults, sizeof(suite_options_defaults));
}

static sr1_status run_suite(sr1_suite *s, struct suite_run *w, const sr1_config *config,
                            const char *folder)
{
    s->samples = w->o->samples;
    SR1__TRY(sr1__dist_agree(w->dist, folder,
                             open_suite_sets(s, folder, config, w->o->max_rows)));
    SR1__TRY(sr1__dist_same(w->dist, "the number of sets", s->n));
    return run_suite_sets(s, w);
}

sr1_status sr1_suite_run(sr1_suite **out, sr1_rollout *rollout, const sr1_config *config,
                         const char *folder, const sr1_suite_options *options)
{
    sr1_suite_options o = suite_options_defaults;
    struct suite_run w = {.rollout = rollout, .o = &o};
    sr1_suite *s;
    sr1_status st;

    SR1__REQUIRE(out && rollout && folder, "suite: out, rollout and folder");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_suite_options, samples),
                              "suite options"));
    if (o.samples < 1 || o.samples > MAX_SAMPLES || o.max_rows < 0)
        return sr1__fail(SR1_E_INVALID,
                         "suite: samples must be 1 to %d, max_rows 0 or "
                         "more",
                         MAX_SAMPLES);
    if (o.results && sr1__path_same(o.results, folder))
        return sr1__fail(
            SR1_E_INVALID,
            "suite: %s is the folder of the sets, and results there would be "
            "taken for sets; name another folder of results",
            o.results);
    SR1__CALLOC(s, 1, "suite");
    w.dist = sr1__ranks_dist(o.ranks);
    sr1__life_hold(&rollout->life);
    st = run_suite(s, &w, config, folder);
    sr1_rollout_free(rollout);
    SR1__RETURN_NEW(out, s, st, sr1_suite_free);
}

/* ---- what came of it ---- */

size_t sr1_suite_count(const sr1_suite *s)
{
    return s ? s->n : 0;
}

int32_t sr1_suite_samples(const sr1_suite *s)
{
    return s ? s->samples : 0;
}

const char *sr1_suite_name(const sr1_suite *s, size_t index)
{
    if (!s || index > s->n)
        return NULL;
    return index < s->n ? s->sets[index].name : "average";
}

int64_t sr1_suite_rows(const sr1_suite *s, size_t index)
{
    int64_t n = 0;

    for (size_t i = 0; s && i < s->n; i++)
        if (i == index || index == s->n)
            n += sr1__suite_set_known(&s->sets[i]);
    return n;
}

int64_t sr1_suite_excluded(const sr1_suite *s, size_t index)
{
    int64_t n = 0;

    for (size_t i = 0; s && i < s->n; i++)
        for (int64_t k = 0; (i == index || index == s->n) && k < s->sets[i].n; k++)
            n += s->sets[i].rows[k].done && !s->sets[i].rows[k].known;
    return n;
}

sr1_status sr1_suite_figure(const sr1_suite *s, size_t index, const char *figure,
                            int32_t k, double *value, double *low, double *high)
{
    struct sr1__suite_value found;

    SR1__REQUIRE(s && figure, "suite: suite and figure");
    if (index > s->n)
        return sr1__fail(SR1_E_INVALID, "suite: there is no set %zu", index);
    SR1__TRY(index < s->n
                 ? sr1__suite_figure(&s->sets[index], 1, s->samples, figure, k, &found)
                 : sr1__suite_figure(s->sets, s->n, s->samples, figure, k, &found));
    if (value)
        *value = found.value;
    if (low)
        *low = found.low;
    if (high)
        *high = found.high;
    return SR1_OK;
}
