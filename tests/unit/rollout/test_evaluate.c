/* Answering a file of questions and scoring it: nothing is dropped, over all rows and for
 * each data source, whatever the size of the chunks. */
#define JOERG " J\xc3\xb6rg"
#define FIVE_APPLES " 5 apples #### 5"
#define FIVE_PEARS " 5 pears #### 5"
#define SIX " 6 of them #### 6"
#define TEN(x) x x x x x x x x x x
#define WORDS(x) TEN(TEN(x " " x " " x " " x " " x " ")) /* 500 */
#define TINY_MORE_WORDS                                                                  \
    WORDS("1"), WORDS("2"), WORDS("3"), WORDS("4"), WORDS("5"), WORDS("6"), WORDS("7"),  \
        WORDS("8"), WORDS("9"), JOERG, FIVE_APPLES, FIVE_PEARS, SIX

#include "support/tiny.h"

#include "base/mem.h"
#include "text/data/dataset.h"
#include "policy/rollout.h"
#include "text/tokenizer/tokenizer.h"

#include <searchr1/ext/embed.h>
#include <searchr1/ext/eval_figures.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/synthesis.h>

#define ROWS 70 /* more than one chunk of 4 * max_rows */

static int make(void **state)
{
    static const struct tiny_rule sure[] = {
        {"", "<search>"},        {"<search>", " tower"},
        {" tower", "</search>"}, {"</information>", "<answer>"},
        {"<answer>", " Paris"},  {" Paris", "</answer>"}};

    static const struct tiny_rule author[] = {
        {"", "<answer>"},         {"<answer>", WORDS("1")}, {WORDS("1"), WORDS("2")},
        {WORDS("2"), WORDS("3")}, {WORDS("3"), WORDS("4")}, {WORDS("4"), WORDS("5")},
        {WORDS("5"), WORDS("6")}, {WORDS("6"), WORDS("7")}, {WORDS("7"), WORDS("8")},
        {WORDS("8"), WORDS("9")}, {WORDS("9"), "</answer>"}};

    static const struct tiny_rule torn[] = {{"", "<answer>"},
                                            {"<answer>", " Paris"},
                                            {"<answer>", " Rome"},
                                            {" Paris", "</answer>"},
                                            {" Rome", "</answer>"}};

    static const struct tiny_rule worked[] = {
        {"", "<answer>"},  {"<answer>", FIVE_APPLES},  {"<answer>", FIVE_PEARS},
        {"<answer>", SIX}, {FIVE_APPLES, "</answer>"}, {FIVE_PEARS, "</answer>"},
        {SIX, "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("worked", worked, 7, 30);
    tiny_model("torn", torn, 5, 30);
    tiny_model("author", author, sizeof author / sizeof *author, 30);
    tiny_model("sure", sure, 6, 30);
    tiny_model("unsure", sure, 5, 30);
    return 0;
}

static int whence = -1; /* the row that asks something else */

static sr1_dataset *questions(void)
{
    const char *path = scratch_path("questions.jsonl");
    FILE *f = fopen(path, "w");
    sr1_dataset *d = NULL;

    for (int i = 0; f && i < ROWS;
         i++) /* every third is about Rome: the policy is wrong */
        fprintf(f,
                "{\"id\": \"q%d\", \"question\": \"%s is %d?\", \"golden_answers\": "
                "[\"%s\"], \"data_source\": \"%s\"}\n",
                i, i == whence ? "Whence" : "Where", i, i % 3 ? "Paris" : "Rome",
                i % 3 ? "zz" : "aa");
    assert_true(f && fclose(f) == 0);
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    return d;
}

static sr1_rollout *open_rollout_by(const char *pair, const char *other)
{
    sr1_config *c = tiny_config("sure", pair, other, NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return r;
}

static sr1_rollout *open_rollout(const char *pair)
{
    return open_rollout_by(pair, NULL);
}

struct seen {
    size_t n;
    int64_t progress;
};

static sr1_status take(void *user, const sr1_trajectory *t)
{
    struct seen *s = user;
    char id[16];

    snprintf(id, sizeof id, "q%zu", s->n++);
    assert_string_equal(sr1_trajectory_query_id(t), id);
    return SR1_OK;
}

static sr1_status progress(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    struct seen *s = user;

    (void)tokens;
    assert_true(finished >= s->progress && finished <= total);
    s->progress = finished;
    return SR1_OK;
}

/* Paris and Rome lie at an angle whose cosine is 0.6. */
static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)kind;
    ++*(int *)self;
    for (size_t i = 0; i < n; i++) {
        int rome = strcmp(texts[i], "Rome") == 0;

        out[2 * i] = rome ? 0.6F : 1;
        out[2 * i + 1] = rome ? 0.8F : 0;
    }
    return SR1_OK;
}

static sr1_embedder *open_embedder(int *calls)
{
    const sr1_embedder_ops ops = {sizeof ops, "cities", embed, NULL, 2, 0};
    sr1_embedder *e = NULL;

    OK(sr1_embedder_new(&e, &ops, calls));
    return e;
}

static void every_row_counts(void **state)
{
    static const char *const rows[] = {"max_rows=16", "max_rows=3"};
    static const int chunks[] = {2, 6};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_rollout *r = open_rollout(rows[k]);
        sr1_dataset *d = questions();
        struct seen seen = {0, 0};
        int calls = 0;
        sr1_eval_options o = {.struct_size = sizeof o,
                              .greedy = 1,
                              .user = &seen,
                              .progress = progress,
                              .trajectory = take,
                              .embedder = open_embedder(&calls)};
        sr1_eval_scores s = {.struct_size = sizeof s};
        sr1_evaluation *e = NULL;

        OK(sr1_evaluate(&e, r, d, &o));
        assert_int_equal(seen.n, ROWS);
        assert_int_equal(sr1_evaluation_count(e), 3);
        OK(sr1_evaluation_scores(e, 0, &s));
        assert_null(s.data_source);
        assert_int_equal(s.rows, ROWS);
        tiny_near(s.exact_match, 46.0 / 70, 1e-12); /* 24 of 70 are about Rome */
        tiny_near(s.f1, 46.0 / 70, 1e-12);
        tiny_near(s.embedding, (46.0 + 24 * 0.6) / 70, 1e-6);
        assert_int_equal(calls, chunks[k]); /* one call for all answers of a chunk */
        assert_true(s.format == 1 && s.answered == 1 && s.searches == 1 && s.tokens == 6);
        OK(sr1_evaluation_scores(e, 1, &s));
        assert_string_equal(s.data_source, "aa");
        assert_true(s.rows == 24 && s.exact_match == 0);
        OK(sr1_evaluation_scores(e, 2, &s));
        assert_true(s.rows == 46 && s.exact_match == 1 && s.rouge1 == 1 && s.rougeL == 1);
        assert_int_equal(sr1_evaluation_scores(e, 3, &s), SR1_E_INVALID);
        sr1_evaluation_free(e);
        sr1_embedder_free(o.embedder);
        sr1_dataset_free(d);
        sr1_rollout_free(r);
    }
}

static void on_limit(void *user, int32_t level, const char *text)
{
    (void)level;
    *(int *)user += strstr(text, "over 4096 tokens; it counts 0") != NULL;
}

static void what_rouge_l_cannot_compare_counts_0(void **state)
{
    const char *path = scratch_file("long.jsonl",
                                    "{\"question\": \"Which?\", \"golden_answers\": "
                                    "[\"1 2 3\"]}\n",
                                    0);
    sr1_rollout *r = tiny_rollout(tiny_config("author", "environment=none", NULL), NULL);
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;
    sr1_dataset *d = NULL;
    int told = 0;

    (void)state;
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    sr1_log_set(on_limit, &told);
    OK(sr1_evaluate(&e, r, d, &o));
    sr1_log_set(NULL, NULL);
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.answered == 1 && s.rouge1 > 0 && s.rougeL == 0);
    assert_int_equal(told, 1);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* A file of a Mac has "o" and a mark; the policy writes one letter. */
static void answers_are_compared_in_normal_form(void **state)
{
    static const struct tiny_rule rules[] = {
        {"", "<answer>"}, {"<answer>", JOERG}, {JOERG, "</answer>"}};
    const char *path =
        scratch_file("letters.jsonl",
                     "{\"question\": \"Who?\", \"golden_answers\": [\"x\", "
                     "\" Jo\xcc\x88rg\"]}\n",
                     0);
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;
    sr1_rollout *r = NULL;
    sr1_dataset *d = NULL;
    sr1_search *engine = tiny_engine();
    sr1_config *c;

    (void)state;
    tiny_model("letters", rules, 3, 30);
    c = tiny_config("letters", NULL);
    OK(sr1_rollout_new(&r, c, NULL, NULL, engine));
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.rows == 1 && s.answered == 1);
    assert_true(s.exact_match == 1 && s.f1 == 1 && s.sub_match == 1);
    assert_true(s.rouge1 == 1 && s.rougeL == 1);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
    sr1_search_free(engine);
    sr1_config_free(c);
}

static void cut_short_is_no_answer(void **state)
{
    sr1_rollout *r = open_rollout("max_tokens=5"); /* "<answer> Paris" */
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1, .max_rows = 9};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.rows, 9);
    assert_true(s.exact_match == 0 && s.answered == 0 && s.format == 0 && s.tokens == 5);
    assert_true(s.embedding == 0);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static sr1_status enough(void *user, const sr1_trajectory *t)
{
    (void)user, (void)t;
    return sr1_set_error(SR1_E_CANCELLED, "enough");
}

static void a_callback_ends_it(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=4");
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1, .trajectory = enough};
    sr1_evaluation *e = NULL;

    (void)state;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_CANCELLED, "enough");
    assert_null(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- rewards ---- */

/* Worth 2 with the answer Paris; unknown for the third row. */
static sr1_status worth(void *self, const sr1_trajectory *const *t, size_t n, double *out)
{
    int *seen = self;

    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *answer = sr1_trajectory_final_answer(t[i], &len);

        assert_true(sr1_trajectory_ground_truth_count(t[i]) > 0);
        out[i] = len == 5 && memcmp(answer, "Paris", 5) == 0 ? 2.0 : 0.0;
        if ((*seen)++ == 2)
            out[i] = NAN;
    }
    return SR1_OK;
}

static void rewards_are_scored_too(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "worth", .score = worth, .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_scores with = {.struct_size = sizeof with}, plain = with;
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    int seen = 0;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &plain));
    assert_true(plain.reward == 0.0);
    sr1_evaluation_free(e);
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &seen, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &with));
    assert_int_equal(with.rows, plain.rows - 1);
    assert_int_equal(with.excluded, plain.excluded + 1);
    assert_int_equal(seen, plain.rows);
    assert_true(with.reward >= 0.0 && with.reward <= 2.0);
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Every trajectory of a synthesis is in one of its counts. */
static void demonstrations_without_a_reward_are_counted(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "worth", .score = worth, .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_synth_report report = {.struct_size = sizeof report};
    sr1_synth_options o;
    int seen = 0;

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &seen, 1.0));
    sr1_synth_options_init(&o);
    o.greedy = 1;
    o.max_rows = 9;
    OK(sr1_synthesise(scratch_path("demos.jsonl"), r, set, d, &o, &report));
    assert_int_equal(report.trajectories, 9);
    assert_int_equal(report.excluded, 1);
    assert_int_equal(report.written + report.below + report.unfit, 8);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static sr1_dataset *unchecked(const char *path)
{
    sr1_dataset_options o = {.struct_size = sizeof o, .skip_check = 1};
    sr1_dataset *d = NULL;

    OK(sr1_dataset_open(&d, &path, 1, &o));
    return d;
}

static sr1_status synthesise(const char *out, sr1_rollout *r, const sr1_dataset *d,
                             sr1_synth_report *report)
{
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_reward_set *set = NULL;
    sr1_status st;

    OK(sr1_reward_set_new(&set, &none));
    st = sr1_synthesise(scratch_path(out), r, set, d, NULL, report);
    sr1_reward_set_free(set);
    return st;
}

static void a_synthesis_names_the_row_it_cannot_read(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d =
        unchecked(scratch_file("broken.jsonl",
                               "{\"question\": \"Where?\", \"answer\": \"Paris\"}\n"
                               "{\"question\": 3, \"answer\": \"Rome\"}\n",
                               0));

    (void)state;
    REFUSED(synthesise("broken", r, d, NULL), SR1_E_PARSE, "broken.jsonl:2");
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static int synthesis_stops; /* a synthesis that is asked how far it is */

static sr1_status stop_synthesis(void *user, int64_t finished, int64_t total,
                                 int64_t tokens)
{
    (void)user, (void)finished, (void)total, (void)tokens;
    return synthesis_stops ? SR1_E_CANCELLED : SR1_OK;
}

/* Half of a synthesis by this model and these settings, or the rest of one. */
static sr1_status synthesise_by(const char *model, const char *pair, const char *weight,
                                int64_t rows)
{
    sr1_reward_options f1 = {
        .struct_size = sizeof f1, .rewards = "f1", .weights = weight};
    sr1_config *c = tiny_config(model, pair, NULL);
    sr1_search *e = tiny_engine();
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_rollout *r = NULL;
    sr1_synth_options o;
    sr1_status st;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    OK(sr1_reward_set_new(&set, &f1));
    sr1_synth_options_init(&o);
    o.max_rows = rows;
    o.progress = stop_synthesis;
    st = sr1_synthesise(scratch_path("by.jsonl"), r, set, d, &o, NULL);
    sr1_reward_set_free(set);
    sr1_rollout_free(r);
    sr1_dataset_free(d);
    sr1_search_free(e);
    sr1_config_free(c);
    return st;
}

static void a_synthesis_is_gone_on_with_by_its_policy_only(void **state)
{
    static const char other[] = "by another policy; give the same";
    static const char *const others[] = {
        "max_prompt_tokens=200",   "filter_overlong_prompts=true",
        "search_top_k=2",          "max_observation_tokens=100",
        "max_tokens_per_turn=20",  "max_env_steps=1",
        "search_index=other.bm25", "document_format=titled",
        "search_failure=continue", "bm25_b=0.5",
        "search_provider=brave",   "search_url=http://127.0.0.1:9/other"};
    const char *template = scratch_file("other.txt", "Answer: {{question}}", 0);
    char pair[600];

    (void)state;
    snprintf(pair, sizeof pair, "question_template=%s", template);
    OK(synthesise_by("sure", "seed=1", "1", 2));
    REFUSED(synthesise_by("unsure", "seed=1", "1", 4), SR1_E_STATE, other);
    REFUSED(synthesise_by("sure", "seed=1", "0.5", 4), SR1_E_STATE, other);
    REFUSED(synthesise_by("sure", pair, "1", 4), SR1_E_STATE, other);
    whence = 2;
    REFUSED(synthesise_by("sure", "seed=1", "1", 4), SR1_E_STATE, other);
    whence = -1;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        REFUSED(synthesise_by("sure", others[i], "1", 4), SR1_E_STATE, other);
    OK(synthesise_by("sure", "seed=1", "1", 4));
}

static void forget_synthesis(void)
{
    assert_int_equal(remove(scratch_path("by.jsonl")), 0);
    assert_int_equal(remove(scratch_path("by.jsonl.state")), 0);
}

/* A line of the user's own, and lines that he corrected, are not cut off. */
static void edited_demonstrations_are_refused(void **state)
{
    static const char own[] = "{\"prompt\": \"by hand\", \"completion\": \"mine\"}\n";
    static const char changed[] = "by.jsonl has been changed by others";
    struct sr1__buf text;
    FILE *f;

    (void)state;
    OK(synthesise_by("sure", "seed=1", "1", 2));
    OK(sr1__file_read(scratch_path("by.jsonl"), 0, &text));
    f = fopen(scratch_path("by.jsonl"), "a");
    assert_true(fputs(own, f) >= 0 && fclose(f) == 0);
    REFUSED(synthesise_by("sure", "seed=1", "1", 4), SR1_E_STATE, changed);
    text.data[text.len - 5] ^= 1;
    (void)scratch_file("by.jsonl", text.data, text.len);
    REFUSED(synthesise_by("sure", "seed=1", "1", 4), SR1_E_STATE, changed);
    text.data[text.len - 5] ^= 1;
    (void)scratch_file("by.jsonl", text.data, text.len);
    OK(synthesise_by("sure", "seed=1", "1", 4));
    sr1__buf_free(&text);
    forget_synthesis();
}

/* Nor those behind a synthesis that was stopped. */
static void lines_behind_a_stopped_synthesis_are_refused(void **state)
{
    FILE *f;

    (void)state;
    OK(synthesise_by("sure", "seed=1", "1", 2));
    synthesis_stops = 1;
    assert_int_equal(synthesise_by("sure", "seed=1", "1", 4), SR1_E_CANCELLED);
    synthesis_stops = 0;
    f = fopen(scratch_path("by.jsonl"), "a");
    assert_true(fputs("{\"prompt\": \"p\", \"completion\": \"mine\"}\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    REFUSED(synthesise_by("sure", "seed=1", "1", 4), SR1_E_STATE,
            "by.jsonl has been changed by others");
    forget_synthesis();
    synthesis_stops = 1;
    assert_int_equal(synthesise_by("sure", "seed=1", "1", 4), SR1_E_CANCELLED);
    synthesis_stops = 0;
    OK(synthesise_by("sure", "seed=1", "1", 4));
    OK(synthesise_by("sure", "seed=1", "1", 4));
    forget_synthesis();
}

/* A program is what its file holds, a server what is behind its address. */
static void what_answers_is_of_the_policy(void **state)
{
    static const char other[] = "by another policy; give the same";
    char pair[600], same[600];

    (void)state;
    snprintf(pair, sizeof pair, "search_program=%s", scratch_file("a.py", "one", 0));
    snprintf(same, sizeof same, "search_program=%s", scratch_file("b.py", "one", 0));
    forget_synthesis();
    OK(synthesise_by("sure", pair, "1", 1));
    OK(synthesise_by("sure", same, "1", 2));
    (void)scratch_file("a.py", "two", 0);
    REFUSED(synthesise_by("sure", pair, "1", 3), SR1_E_STATE, other);
    forget_synthesis();
    OK(synthesise_by("sure", "search_url=http://127.0.0.1:8000/retrieve", "1", 1));
    OK(synthesise_by("sure", "search_url=http://127.0.0.1:9000/retrieve", "1", 2));
    REFUSED(synthesise_by("sure", "search_url=http://127.0.0.1:9000/other", "1", 3),
            SR1_E_STATE, other);
    forget_synthesis();
    snprintf(pair, sizeof pair, "search_index=%s", scratch_file("x.bm25", "one", 0));
    OK(synthesise_by("sure", pair, "1", 1));
    (void)scratch_file("x.bm25", "two", 0);
    REFUSED(synthesise_by("sure", pair, "1", 3), SR1_E_STATE, other);
}

/* As if its tokenizer was opened at this time; 0: now. */
static sr1_status synthesise_on(int64_t time, int64_t rows)
{
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_config *c = tiny_config("dated", NULL);
    sr1_search *e = tiny_engine();
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_rollout *r = NULL;
    sr1_synth_options o;
    sr1_status st;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    OK(sr1_reward_set_new(&set, &none));
    if (time)
        sr1__chat_set_time(sr1_rollout_tokenizer(r), time);
    time = sr1__chat_time(sr1_rollout_tokenizer(r));
    sr1_synth_options_init(&o);
    o.max_rows = rows;
    st = sr1_synthesise(scratch_path("dated.jsonl"), r, set, d, &o, NULL);
    assert_int_equal(sr1__chat_time(sr1_rollout_tokenizer(r)), time);
    sr1_reward_set_free(set);
    sr1_rollout_free(r);
    sr1_dataset_free(d);
    sr1_search_free(e);
    sr1_config_free(c);
    return st;
}

/* The template shows a date, which stays that of the beginning. */
static void a_synthesis_is_gone_on_with_on_another_day(void **state)
{
    (void)state;
    tiny_model("dated", TINY_SEARCHER, 9);
    tiny_dated_template("dated");
    OK(synthesise_on(981173106, 2));
    OK(synthesise_on(0, 4));
}

static void a_synthesis_of_no_questions_is_done_at_once(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_synth_report report = {.struct_size = sizeof report};

    (void)state;
    OK(sr1__dataset_keep(d, NULL, 0));
    OK(synthesise("nothing", r, d, &report));
    assert_true(report.rows == 0 && report.trajectories == 0);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- questions that do not fit ---- */

#define ROW_HEAD "{\"question\": \"Where?\", \"answer\": \"Paris\", "

/* A file of one row that ends in n pieces and the tail. */
static sr1_dataset *one_row(const char *name, const char *key, const char *piece,
                            size_t n, const char *tail)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "w");

    assert_true(f && fprintf(f, "%s%s", ROW_HEAD, key) > 0);
    for (size_t i = 0; i < n; i++)
        fputs(piece, f);
    assert_true(fprintf(f, "%s}\n", tail) > 0 && fclose(f) == 0);
    return unchecked(path);
}

static void a_synthesis_leaves_long_prompts_out(void **state)
{
    sr1_rollout *r =
        open_rollout_by("filter_overlong_prompts=true", "max_prompt_tokens=100");
    sr1_rollout *strict = open_rollout("max_prompt_tokens=100");
    char text[2048];
    sr1_dataset *d;
    sr1_synth_report report = {.struct_size = sizeof report};

    (void)state;
    snprintf(text, sizeof text,
             "{\"id\": \"b\", \"question\": \"Where%*s?\", \"answer\": \"Paris\"}\n"
             "{\"id\": \"a\", \"question\": \"Where?\", \"answer\": \"Paris\"}\n"
             "{\"id\": \"c\", \"question\": \"Where now?\", \"answer\": \"Paris\"}\n",
             900, "it");
    d = unchecked(scratch_file("long-one.jsonl", text, 0));
    REFUSED(synthesise("strict", strict, d, NULL), SR1_E_LIMIT, "question 'b'");
    OK(synthesise("lenient", r, d, &report));
    assert_int_equal(report.rows, 2);
    assert_int_equal(report.trajectories, 2);
    sr1_dataset_free(d);
    sr1_rollout_free(strict);
    sr1_rollout_free(r);
}

/* A row that cannot be read is no long prompt. */
static void only_long_prompts_are_left_out(void **state)
{
    sr1_rollout *r = open_rollout("filter_overlong_prompts=true");
    sr1_dataset *d = one_row(
        "talk.jsonl", "\"history\": [", "{\"role\": \"user\", \"content\": \"x\"}, ",
        SR1_TRAJECTORY_MAX_HISTORY, "{\"role\": \"user\", \"content\": \"x\"}]");
    int64_t *rows = NULL, n = 0;

    (void)state;
    REFUSED(sr1__rollout_filter_prompts(r, d, "questions", 1, &rows, &n), SR1_E_LIMIT,
            "talk.jsonl:1");
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static void count_long(void *user, int32_t level, const char *text)
{
    (void)level;
    *(int *)user += strstr(text, "rewards do not see") != NULL;
}

static void long_rows_are_reported_once(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d =
        one_row("long.jsonl", "\"more\": \"", "x", SR1_TRAJECTORY_MAX_ROW, "\"");
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_evaluation *e = NULL;
    int64_t *rows = NULL, n = 0;
    int said = 0;

    (void)state;
    sr1_log_set(count_long, &said);
    OK(sr1__rollout_filter_prompts(r, d, "questions", 1, &rows, &n));
    assert_int_equal(said, 0); /* prompts do not need them */
    for (int i = 0; i < 3; i++) {
        OK(sr1_evaluate(&e, r, d, &o));
        sr1_evaluation_free(e);
    }
    sr1_log_set(NULL, NULL);
    assert_int_equal(said, 1);
    sr1__free(rows);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Of the source aa nothing is known. */
static sr1_status knows_zz(void *self, const sr1_trajectory *const *t, size_t n,
                           double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = strcmp(sr1_trajectory_data_source(t[i]), "aa") == 0 ? NAN : 1.0;
    return SR1_OK;
}

static void nothing_is_known_of_no_rows(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "zz", .score = knows_zz, .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, NULL, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.rows == 46 && s.excluded == 24 && s.exact_match == 1);
    OK(sr1_evaluation_scores(e, 1, &s));
    assert_string_equal(s.data_source, "aa");
    assert_true(s.rows == 0 && s.excluded == 24);
    assert_true(isnan(s.exact_match) && isnan(s.reward) && isnan(s.tokens));
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* The search for every third question fails: its trajectory is left out, and a reward
 * that cannot bear such ones does not see it. */
static sr1_status fail_some(void *self, const char *const *queries, size_t n,
                            int32_t top_k, sr1_search_sink *sink)
{
    int *calls = self;

    (void)queries;
    (void)top_k;
    for (size_t i = 0; i < n; i++)
        if (++*calls % 3 == 0)
            SR1__TRY(sr1_search_sink_status(sink, i, SR1_ACTION_ERROR, "down"));
    return SR1_OK;
}

static sr1_status refuse_failed(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        if (sr1_trajectory_stop_reason(t[i]) == SR1_STOP_SEARCH_FAILED)
            return sr1_set_error(SR1_E_INVALID, "no answer to look at");
        out[i] = 1.0;
    }
    return SR1_OK;
}

static void rewards_do_not_see_what_is_left_out(void **state)
{
    int calls = 0;
    sr1_search_ops engine = {
        .struct_size = sizeof engine, .name = "some", .search = fail_some};
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "strict", .score = refuse_failed};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = ""};
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_search *search = NULL;
    sr1_rollout *r;
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};

    (void)state;
    OK(sr1_search_new(&search, &engine, &calls));
    r = tiny_rollout(tiny_config("sure", "max_rows=16", NULL), search);
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, NULL, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.excluded > 10 && s.rows + s.excluded == ROWS);
    tiny_near(s.reward, 1.0, 1e-12);
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- rewards that begin early ---- */

struct begun {
    int n, forgotten;
};

static sr1_status begin_one(void *self, sr1_trajectory *t)
{
    (void)t;
    ((struct begun *)self)->n++;
    return SR1_OK;
}

static void forget_all(void *self)
{
    struct begun *b = self;

    b->forgotten += b->n;
    b->n = 0;
}

static sr1_status all_equal(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    (void)t, (void)n, (void)out;
    ((struct begun *)self)->n -= (int)n;
    return SR1_OK;
}

static sr1_status stop_later(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    (void)total, (void)tokens;
    return finished >= *(const int *)user ? sr1_set_error(SR1_E_CANCELLED, "enough")
                                          : SR1_OK;
}

static void what_was_begun_is_forgotten_when_it_is_stopped(void **state)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "early",
                          .score = all_equal,
                          .begin = begin_one,
                          .forget = forget_all};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    struct begun begun = {0, 0};
    int after = 3;
    sr1_rollout *r = open_rollout("max_rows=4");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_options o = {
        .struct_size = sizeof o, .greedy = 1, .progress = stop_later, .user = &after};

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &begun, 1.0));
    o.rewards = set;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_CANCELLED, "enough");
    assert_int_equal(begun.n, 0);
    assert_true(begun.forgotten >= 3);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Of a chunk of 16 and one that ends after 4 of 16: with their embeddings, in the order
 * of the rows; the trajectory's callback sees the same rows. */
static void a_stopped_one_gives_what_was_finished(void **state)
{
    static const int stops[] = {0, 4, 20};

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        int after = stops[k], calls = 0;
        sr1_rollout *r = open_rollout("max_rows=4");
        sr1_dataset *d = questions();
        sr1_eval_options o = {.struct_size = sizeof o,
                              .greedy = 1,
                              .progress = stop_later,
                              .user = &after,
                              .embedder = open_embedder(&calls),
                              .partial = 1};
        sr1_eval_scores s = {.struct_size = sizeof s};
        sr1_evaluation *e = NULL;
        sr1_status st = sr1_evaluate(&e, r, d, &o);

        if (after == 0) {
            assert_int_equal(st, SR1_E_CANCELLED);
            assert_null(e);
        } else {
            assert_int_equal(st, SR1_OK);
            OK(sr1_evaluation_scores(e, 0, &s));
            assert_true(s.rows >= after && s.rows < after + 4);
            assert_true(s.answered == 1 && s.tokens == 6);
            tiny_near(s.embedding, s.exact_match + 0.6 * (1 - s.exact_match), 1e-6);
        }
        sr1_evaluation_free(e);
        sr1_embedder_free(o.embedder);
        sr1_dataset_free(d);
        sr1_rollout_free(r);
    }
}

/* ---- several answers to a row ---- */

#define SAMPLES 4

/* What the answers to the rows were, and figures of them counted here. */
struct counted {
    int64_t n;
    int right[SAMPLES]; /* of the present row: is its answer Paris, and is that right? */
    int32_t paris[SAMPLES];
    double mean, best, majority; /* sums */
    double temperature;
};

static void count_row(struct counted *c)
{
    int n_right = 0, n_paris = 0;

    for (int i = 0; i < SAMPLES; i++) {
        n_right += c->right[i];
        n_paris += c->paris[i];
    }
    c->mean += (double)n_right / SAMPLES;
    c->best += n_right > 0;
    if (n_paris * 2 == SAMPLES) /* the first given */
        c->majority += c->right[0];
    else
        c->majority += n_right * 2 > SAMPLES;
}

static sr1_status count_answer(void *user, const sr1_trajectory *t)
{
    struct counted *c = user;
    int i = (int)(c->n++ % SAMPLES), rome;
    int64_t row = (c->n - 1) / SAMPLES;
    char id[16];
    size_t n;

    snprintf(id, sizeof id, "q%d", (int)row);
    assert_string_equal(sr1_trajectory_query_id(t), id);
    assert_int_equal(sr1_trajectory_sample(t), i);
    rome = memcmp(sr1_trajectory_final_answer(t, &n), "Rome", 4) == 0;
    c->paris[i] = !rome;
    c->right[i] = row % 3 ? !rome : rome;
    c->temperature = sr1_trajectory_temperature(t);
    if (i == SAMPLES - 1)
        count_row(c);
    return SR1_OK;
}

static double figure(const sr1_evaluation *e, size_t index, const char *name)
{
    double v = NAN;

    OK(sr1_evaluation_figure(e, index, "exact_match", name, &v));
    return v;
}

static sr1_rollout *open_torn(const char *pair)
{
    return tiny_rollout(tiny_config("torn", "environment=none", pair, NULL), NULL);
}

/* In chunks of any size; the sampling is that of the call. */
static void answers_to_a_row_are_scored_together(void **state)
{
    static const char *const rows[] = {"max_rows=16", "max_rows=3"};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        sr1_rollout *r = open_torn(rows[k]);
        sr1_dataset *d = questions();
        struct counted c = {0};
        sr1_eval_options o = {.struct_size = sizeof o,
                              .user = &c,
                              .trajectory = count_answer,
                              .samples = SAMPLES,
                              .temperature = 0.75};
        sr1_eval_scores s = {.struct_size = sizeof s};
        sr1_evaluation *e = NULL;
        double v = 0;

        OK(sr1_evaluate(&e, r, d, &o));
        assert_int_equal(c.n, ROWS * SAMPLES);
        assert_true(c.temperature == 0.75);
        OK(sr1_evaluation_scores(e, 0, &s));
        assert_int_equal(s.rows, ROWS);
        assert_true(c.best > c.mean && c.best < ROWS);
        tiny_near(s.exact_match, c.mean / ROWS, 1e-12);
        tiny_near(figure(e, 0, "mean@4"), c.mean / ROWS, 1e-12);
        tiny_near(figure(e, 0, "best"), c.best / ROWS, 1e-12);
        tiny_near(figure(e, 0, "majority"), c.majority / ROWS, 1e-12);
        assert_true(figure(e, 0, "best@2/mean") < figure(e, 0, "best@4/mean"));
        assert_true(figure(e, 0, "best@4/mean") < figure(e, 0, "best"));
        tiny_near(figure(e, 0, "best"),
                  (24 * figure(e, 1, "best") + 46 * figure(e, 2, "best")) / ROWS, 1e-12);
        OK(sr1_evaluation_figure(e, 0, "reward", "best", &v)); /* there were none */
        assert_true(v == 0);
        REFUSED(sr1_evaluation_figure(e, 0, "f1", "best", &v), SR1_E_NOT_FOUND,
                "exact_match and reward");
        REFUSED(sr1_evaluation_figure(e, 0, "reward", "best@3/mean", &v), SR1_E_NOT_FOUND,
                "best@3/mean");
        REFUSED(sr1_evaluation_figure(e, 3, "reward", "best", &v), SR1_E_INVALID,
                "no entry 3");
        sr1_evaluation_free(e);
        sr1_dataset_free(d);
        sr1_rollout_free(r);
    }
}

/* One whose reward could not be had leaves its row out. */
static void a_row_with_an_unknown_answer_is_left_out(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "worth", .score = worth, .may_be_unknown = 1};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = "environment"};
    sr1_rollout *r = open_torn("max_rows=16");
    sr1_dataset *d = questions();
    sr1_reward_set *set = NULL;
    sr1_evaluation *e = NULL;
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_eval_options o = {.struct_size = sizeof o, .samples = SAMPLES};
    double v = NAN;
    int seen = 0;

    (void)state;
    OK(sr1_reward_set_new(&set, &none));
    OK(sr1_reward_set_add(set, &ops, &seen, 1.0));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    assert_int_equal(seen, ROWS * SAMPLES);
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.rows, ROWS - 1);
    assert_int_equal(s.excluded, 1);
    OK(sr1_evaluation_figure(e, 0, "reward", "mean@4", &v));
    tiny_near(v, s.reward, 1e-12);
    OK(sr1_evaluation_figure(e, 0, "reward", "best", &v));
    assert_true(v > s.reward && v <= 2.0);
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* Of a row that was not finished no answer counts. */
static void a_stopped_one_gives_whole_rows(void **state)
{
    int after = 10;
    sr1_rollout *r = open_torn("max_rows=3");
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o,
                          .progress = stop_later,
                          .user = &after,
                          .samples = SAMPLES,
                          .partial = 1};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_true(s.rows >= 2 && s.rows <= 3);
    assert_true(s.answered == 1 && s.tokens == 3);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static void one_answer_has_one_figure(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = questions();
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_evaluation *e = NULL;

    (void)state;
    OK(sr1_evaluate(&e, r, d, &o));
    assert_string_equal(sr1_evaluation_figure_name(e, 0), "mean@1");
    assert_null(sr1_evaluation_figure_name(e, 1));
    tiny_near(figure(e, 0, "mean@1"), 46.0 / 70, 1e-12);
    sr1_evaluation_free(e);
    e = NULL;
    o.samples = SR1_EVAL_MAX_SAMPLES + 1;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_INVALID, "samples must be from 1 to 128");
    o.samples = 2;
    o.temperature = 1e-9;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_INVALID, "too small to draw with");
    sr1_rollout_free(r);
    r = open_rollout("temperature=0");
    o.temperature = 0;
    REFUSED(sr1_evaluate(&e, r, d, &o), SR1_E_INVALID, "with temperature 0 all answers");
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- rows without gold answers, and with too many sources ---- */

static sr1_dataset *mixed_rows(size_t n)
{
    const char *path = scratch_path("mixed.jsonl");
    sr1_dataset_options o;
    FILE *f = fopen(path, "w");
    sr1_dataset *d = NULL;

    for (size_t i = 0; f && i < n; i++)
        fprintf(f,
                "{\"id\": \"m%zu\", \"question\": \"Where is %zu?\", \"data_source\": "
                "\"s%zu\"%s}\n",
                i, i, i, i % 2 ? "" : ", \"golden_answers\": [\"Paris\"]");
    assert_true(f && fclose(f) == 0);
    sr1_dataset_options_init(&o);
    o.answers_optional = 1;
    OK(sr1_dataset_open(&d, &path, 1, &o));
    return d;
}

static void rows_without_answers_are_not_compared(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=16");
    sr1_dataset *d = mixed_rows(4);
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;

    (void)state;
    OK(sr1_evaluate(&e, r, d, NULL));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.rows, 4);
    assert_int_equal(s.with_answers, 2);
    assert_true(s.exact_match == 1.0 && s.f1 == 1.0 && s.answered == 1.0);
    OK(sr1_evaluation_scores(e, 2, &s)); /* s1: its one row has none */
    assert_int_equal(s.with_answers, 0);
    assert_true(isnan(s.exact_match) && s.answered == 1.0);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* The policy searches once and finds the document "tower", which says Paris. Of four rows
 * three have answers, of which two stand there, and three have a column of ids, one of
 * which cannot be read. */
static sr1_dataset *rows_with_documents(void)
{
    const char *path = scratch_file(
        "documents.jsonl",
        "{\"question\": \"Where is 0?\", \"golden_answers\": [\"PARIS!\"], "
        "\"docs\": [\"tower\", \"bridge\"]}\n"
        "{\"question\": \"Where is 1?\", \"golden_answers\": [\"Rome\"], "
        "\"docs\": \"tower\"}\n"
        "{\"question\": \"Where is 2?\", \"golden_answers\": [\"in Paris\"], "
        "\"docs\": [true]}\n"
        "{\"question\": \"Where is 3?\"}\n",
        0);
    sr1_dataset_options o = {.struct_size = sizeof o, .answers_optional = 1};
    sr1_dataset *d = NULL;

    OK(sr1_dataset_open(&d, &path, 1, &o));
    return d;
}

static void what_searches_found_is_counted(void **state)
{
    sr1_rollout *r = open_rollout_by("max_rows=16", "gold_ids_field=docs");
    sr1_dataset *d = rows_with_documents();
    sr1_eval_options o = {.struct_size = sizeof o};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;

    (void)state;
    sr1_eval_options_init(&o);
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.rows, 4);
    assert_int_equal(s.with_search, 3);
    assert_int_equal(s.with_gold_ids, 2);
    assert_true(fabs(s.hit_rate - 2 / 3.0) < 1e-12 && s.recall == 0.75);
    sr1_evaluation_free(e);
    o.no_search = 1;
    OK(sr1_evaluate(&e, r, d, &o));
    OK(sr1_evaluation_scores(e, 0, &s));
    assert_int_equal(s.with_search + s.with_gold_ids, 0);
    assert_true(isnan(s.hit_rate) && isnan(s.recall));
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

static void sources_are_bounded(void **state)
{
    sr1_rollout *r = open_rollout("max_rows=64");
    sr1_dataset *d = mixed_rows(300);
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_evaluation *e = NULL;
    int64_t rows = 0;

    (void)state;
    OK(sr1_evaluate(&e, r, d, NULL));
    assert_int_equal(sr1_evaluation_count(e), 1 + 256 + 1);
    for (size_t i = 1; i < sr1_evaluation_count(e); i++) {
        OK(sr1_evaluation_scores(e, i, &s));
        rows += s.rows;
        assert_int_equal(s.rows, strcmp(s.data_source, "other") == 0 ? 300 - 256 : 1);
    }
    assert_int_equal(rows, 300);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

/* ---- votes for answers in worked solutions ---- */

struct solved {
    int64_t n;
    int fives, first,
        differing; /* of the present row; rows whose fives differ in words */
    const char *words;
    double majority; /* sum: is 5 the answer that most gave? */
};

static sr1_status count_solution(void *user, const sr1_trajectory *t)
{
    struct solved *c = user;
    size_t n;
    const char *text = sr1_trajectory_final_answer(t, &n);
    int i = (int)(c->n++ % SAMPLES), five = memcmp(text, "5", 1) == 0;

    if (i == 0)
        c->fives = 0, c->first = five, c->words = NULL;
    c->fives += five;
    if (five && c->words && *c->words != text[2])
        c->differing++;
    if (five)
        c->words = text[2] == 'a' ? "a" : "p";
    if (i == SAMPLES - 1)
        c->majority += c->fives * 2 == SAMPLES ? c->first : c->fives * 2 > SAMPLES;
    return SR1_OK;
}

/* What differs in its words alone is one answer: as the reward compares it. */
static void solutions_vote_by_their_answers(void **state)
{
    sr1_reward_options gsm8k = {.struct_size = sizeof gsm8k, .rewards = "gsm8k"};
    const char *path = scratch_path("sums.jsonl");
    FILE *f = fopen(path, "w");
    sr1_rollout *r = tiny_rollout(tiny_config("worked", "environment=none", NULL), NULL);
    struct solved c = {0};
    sr1_eval_options o = {.struct_size = sizeof o,
                          .user = &c,
                          .trajectory = count_solution,
                          .samples = SAMPLES,
                          .temperature = 1};
    sr1_evaluation *e = NULL;
    sr1_reward_set *set = NULL;
    sr1_dataset *d = NULL;
    double v = 0;

    (void)state;
    for (int i = 0; f && i < ROWS; i++)
        fprintf(f,
                "{\"id\": \"s%d\", \"question\": \"Sum %d?\", "
                "\"golden_answers\": [\"5\"]}\n",
                i, i);
    assert_true(f && fclose(f) == 0);
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    OK(sr1_reward_set_new(&set, &gsm8k));
    o.rewards = set;
    OK(sr1_evaluate(&e, r, d, &o));
    assert_true(c.n == ROWS * SAMPLES && c.differing > 5);
    OK(sr1_evaluation_figure(e, 0, "reward", "majority", &v));
    tiny_near(v, c.majority / ROWS, 1e-12);
    sr1_evaluation_free(e);
    sr1_reward_set_free(set);
    sr1_dataset_free(d);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_counts),
        cmocka_unit_test(what_rouge_l_cannot_compare_counts_0),
        cmocka_unit_test(answers_are_compared_in_normal_form),
        cmocka_unit_test(cut_short_is_no_answer),
        cmocka_unit_test(rewards_are_scored_too),
        cmocka_unit_test(rewards_do_not_see_what_is_left_out),
        cmocka_unit_test(demonstrations_without_a_reward_are_counted),
        cmocka_unit_test(a_synthesis_names_the_row_it_cannot_read),
        cmocka_unit_test(edited_demonstrations_are_refused),
        cmocka_unit_test(lines_behind_a_stopped_synthesis_are_refused),
        cmocka_unit_test(a_synthesis_is_gone_on_with_by_its_policy_only),
        cmocka_unit_test(what_answers_is_of_the_policy),
        cmocka_unit_test(a_synthesis_is_gone_on_with_on_another_day),
        cmocka_unit_test(a_synthesis_of_no_questions_is_done_at_once),
        cmocka_unit_test(a_synthesis_leaves_long_prompts_out),
        cmocka_unit_test(answers_to_a_row_are_scored_together),
        cmocka_unit_test(solutions_vote_by_their_answers),
        cmocka_unit_test(a_row_with_an_unknown_answer_is_left_out),
        cmocka_unit_test(a_stopped_one_gives_whole_rows),
        cmocka_unit_test(one_answer_has_one_figure),
        cmocka_unit_test(rows_without_answers_are_not_compared),
        cmocka_unit_test(what_searches_found_is_counted),
        cmocka_unit_test(sources_are_bounded),
        cmocka_unit_test(only_long_prompts_are_left_out),
        cmocka_unit_test(long_rows_are_reported_once),
        cmocka_unit_test(nothing_is_known_of_no_rows),
        cmocka_unit_test(what_was_begun_is_forgotten_when_it_is_stopped),
        cmocka_unit_test(a_callback_ends_it),
        cmocka_unit_test(a_stopped_one_gives_what_was_finished),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
