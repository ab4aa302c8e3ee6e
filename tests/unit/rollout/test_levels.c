/* Thinking levels of given steps: each of the four messages scores the action as a
 * forward pass over it alone does, whatever shares the cache; what cannot be made is
 * counted. */
#include "support/tiny.h"
#include "support/torture.h"

#include "policy/rollout_internal.h"
#include "policy/level_branches.h"
#include "environment/trajectory/builder.h"

static const struct tiny_rule thinker[] = {
    {"</level>", "<think>"}, {"<think>", " well"},    {"<think>", " so"},
    {" well", "</think>"},   {" well", " so"},        {" so", "</think>"},
    {" so", " well"},        {"</think>", "<action>"}};
static const struct tiny_rule straddler[] = {{"</level>", "<think>"},
                                             {"<think>", " well"},
                                             {" well", "</thin"},
                                             {"</thin", "k><act"},
                                             {"k><act", "ion> so"}};
static const struct tiny_rule ender[] = {{"</level>", "<think>"},
                                         {"<think>", "<|im_end|>"}};
static const struct tiny_rule opener[] = {{"</level>", "<think>"},
                                          {"<think>", "<action>"}};
static const struct tiny_rule talker[] = {
    {"</level>", "<think>"}, {"<think>", " well"}, {" well", " well"}};

#define MODEL(name, gain) tiny_model(#name, name, sizeof name / sizeof *name, gain)

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    MODEL(thinker, 10);
    MODEL(straddler, 40);
    MODEL(ender, 40);
    MODEL(opener, 40);
    MODEL(talker, 40);
    return 0;
}

static sr1_rollout *open_rollout(const char *model, const char *rows, const char *workers)
{
    return tiny_rollout(tiny_config(model, "protocol=rlvcr", "environment=none",
                                    "search_engine=none", rows, workers, NULL),
                        NULL);
}

/* ---- trajectories by hand ---- */

static void say(struct sr1__trajectory_builder *b, sr1_tokenizer *tok, int32_t turn,
                const char *const *words)
{
    sr1_token_stream *s = NULL;
    const char *text;
    size_t n;

    OK(sr1_token_stream_new(&s, tok, 1));
    for (; *words; words++) {
        OK(sr1_token_stream_push(s, tiny_id(tok, *words), &text, &n));
        OK(sr1__trajectory_builder_policy(b, tiny_id(tok, *words), -1.0F, turn, text, n));
    }
    sr1_token_stream_free(s);
}

static void answer(struct sr1__trajectory_builder *b, sr1_tokenizer *tok, int32_t turn,
                   const char *said)
{
    int32_t *ids = NULL;
    size_t n = 0;
    char text[256];

    snprintf(text, sizeof text,
             "<|im_end|>\n<|im_start|>user\n%s<|im_end|>\n"
             "<|im_start|>assistant\n",
             said);
    OK(sr1_tokenizer_encode(tok, text, strlen(text), SR1_ENCODE_ALL_ADDED, &ids, &n));
    OK(sr1__trajectory_builder_environment(b, ids, n, turn, text, strlen(text), 0,
                                           strlen(text)));
    sr1_free(ids);
}

static struct sr1__trajectory_builder *begin(sr1_tokenizer *tok, const char *question,
                                             int32_t sample)
{
    const char *role = "user";
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    struct sr1__trajectory_builder *b = NULL;
    int32_t *ids = NULL;
    size_t n = 0;

    OK(sr1__trajectory_builder_new(&b, question, strlen(question), question, sample));
    OK(sr1_tokenizer_chat(tok, &role, &question, NULL, 1, &o, NULL, NULL, &ids, &n));
    OK(sr1__trajectory_builder_prompt(b, ids, n));
    sr1_free(ids);
    return b;
}

#define STEP(level, ...)                                                                 \
    (const char *const[])                                                                \
    {                                                                                    \
        "<level>", level, "</level>", __VA_ARGS__, NULL                                  \
    }

/* Three steps at levels 3, 1 and 4, and one that ends without an action. */
static sr1_trajectory *four_turns(sr1_tokenizer *tok, const char *question,
                                  int32_t sample)
{
    struct sr1__trajectory_builder *b = begin(tok, question, sample);
    sr1_trajectory *t = NULL;

    say(b, tok, 0,
        STEP("3", "<think>", " well", " so", "</think>", "<action>", " tower", " so",
             "</action>"));
    answer(b, tok, 0, "The tower stands in Paris. The tower stands in Paris.");
    say(b, tok, 1, STEP("1", "<action>", " Rome", "</action>"));
    answer(b, tok, 1, "Rome is old.");
    say(b, tok, 2,
        STEP("4", "<think>", " so", "</think>", "<action>", " Paris", " tower", " Rome",
             "</action>"));
    answer(b, tok, 2, "Paris.");
    say(b, tok, 3, STEP("2", "<think>", " so"));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_TOKEN_LIMIT, NULL, 0, &t));
    return t;
}

/* ---- every message by a forward pass of its own ---- */

#define MOST 64

struct seen {
    sr1_rollout *r;
    const char *kind;
    double temperature;
    double confidences[MOST][SR1_THINKING_LEVELS];
    double entropies[MOST][SR1_THINKING_LEVELS][8];
    size_t asked[MOST];
    double of_rollout; /* largest difference to sr1_rollout_log_probs */
    int32_t n;
};

/* log p and entropy of tokens ids[at..n) from the whole logits, in double. */
static void forward(struct seen *seen, const int32_t *ids, size_t n, size_t at,
                    double *log_probs, double *entropies)
{
    sr1_model *m = sr1_rollout_model(seen->r);
    int64_t cu[2] = {0, (int64_t)n};
    struct sr1__packed in = {ids, cu, 1};
    size_t v = (size_t)m->config.vocab_size;
    float *z = calloc(n * v, sizeof *z);
    sr1_scope *s = sr1__scope_open(SR1__CPU, "check");

    sr1__scope_no_grad(s);
    t_to_host_f32(s, sr1__causal_lm_logits(s, m, sr1__causal_lm_forward(s, m, &in, NULL)),
                  z, n * v);
    OK(sr1__scope_close(s));
    for (size_t i = at; i < n; i++) {
        const float *row = z + (i - 1) * v;
        double max = -1e30, sum = 0, mean = 0;

        for (size_t k = 0; k < v; k++)
            max = fmax(max, row[k] / seen->temperature);
        for (size_t k = 0; k < v; k++) {
            double p = exp(row[k] / seen->temperature - max);

            sum += p;
            mean += p * (row[k] / seen->temperature);
        }
        log_probs[i - at] = row[ids[i]] / seen->temperature - max - log(sum);
        entropies[i - at] = max + log(sum) - mean / sum;
    }
    free(z);
}

/* And the log-probs of a trajectory of these very ids. */
static void by_trajectory(struct seen *seen, const int32_t *ids, size_t history, size_t n,
                          size_t asked, const double *log_probs)
{
    struct sr1__trajectory_context c = {.temperature = seen->temperature, .top_p = 1};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;
    const sr1_trajectory *all[1];
    float *out = calloc(n, sizeof *out);

    OK(sr1__trajectory_builder_new(&b, "q", 1, "q", 0));
    OK(sr1__trajectory_builder_prompt(b, ids, history));
    OK(sr1__trajectory_builder_context(b, &c));
    for (size_t i = history; i < n; i++)
        OK(sr1__trajectory_builder_policy(b, ids[i], 0, 0, "", 0));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    all[0] = t;
    OK(sr1_rollout_log_probs(seen->r, all, 1, out, n - history));
    for (size_t i = 0; i < asked; i++)
        seen->of_rollout =
            fmax(seen->of_rollout, fabs(out[n - history - asked + i] - log_probs[i]));
    sr1_trajectory_free(t);
    free(out);
}

static double confidence(const char *kind, const double *log_probs,
                         const double *entropies, size_t n)
{
    double sum = 0, least = 0;

    for (size_t i = 0; i < n; i++) {
        sum += strcmp(kind, "entropy") == 0 ? -entropies[i] : log_probs[i];
        least = fmin(least, log_probs[i]);
    }
    return strcmp(kind, "min") == 0 ? exp(least) : sum / (double)n;
}

/* Number of a step among all: trajectory * 4 + turn. */
static int32_t place(const sr1_trajectory *t, int32_t turn)
{
    return sr1_trajectory_sample(t) * 4 + turn;
}

static void look(void *user, const sr1_trajectory *t, int32_t turn, int32_t level,
                 const int32_t *message, size_t n, size_t asked)
{
    struct seen *seen = user;
    double log_probs[8];
    int32_t ids[512];
    size_t history = 0;
    sr1_text_segment s = {.struct_size = sizeof s};
    int32_t at = place(t, turn);

    for (size_t i = 0; sr1_trajectory_segment(t, i, &s) == SR1_OK; i++)
        if (s.source == SR1_SOURCE_POLICY && s.turn == turn)
            history = s.token_begin;
    memcpy(ids, sr1_trajectory_ids(t), history * sizeof *ids);
    memcpy(ids + history, message, n * sizeof *ids);
    /* The action is in the ids that were sampled, behind its tag. */
    assert_true(asked <= 8);
    forward(seen, ids, history + n, history + n - asked, log_probs,
            seen->entropies[at][level]);
    by_trajectory(seen, ids, history, history + n, asked, log_probs);
    seen->confidences[at][level] =
        confidence(seen->kind, log_probs, seen->entropies[at][level], asked);
    seen->asked[at] = asked;
    seen->n++;
}

static struct sr1__level_branch_options options(struct seen *seen)
{
    return (struct sr1__level_branch_options){.sampling = {1.0, 0, 1.0},
                                              .max_tokens = {40, 40, 40, 40},
                                              .thought = "",
                                              .confidence = seen->kind,
                                              .temperature = seen->temperature,
                                              .seed = 5,
                                              .look = look,
                                              .user = seen};
}

#define GROUP 3

static void group(sr1_rollout *r, sr1_trajectory **t)
{
    for (int32_t i = 0; i < GROUP; i++)
        t[i] = four_turns(sr1_rollout_tokenizer(r), "Where is the tower?", i);
}

static void check_columns(const sr1_trajectory *t, const struct seen *seen)
{
    const float *h = sr1_trajectory_column(t, SR1_COLUMN_LEVEL_ENTROPY);
    const float *cost = sr1_trajectory_column(t, SR1_COLUMN_THINKING_COST);
    /* <level> 3 </level> <think> well so </think> <action> tower so </action>, ... */
    static const char marks[] = "....tt..aa."
                                "....a."
                                "....t..aaa."
                                "....t";
    static const int32_t own[] = {2, 0, 3};
    int32_t turn = -1;

    assert_int_equal(sr1_trajectory_policy_count(t), strlen(marks));
    for (size_t i = 0, k = 0; marks[i]; i++) {
        sr1_token_step s = {.struct_size = sizeof s};

        OK(sr1_trajectory_step(t, i, &s));
        k = s.turn == turn ? k : 0;
        turn = s.turn;
        assert_true(cost[i] == (marks[i] == 't'));
        if (marks[i] == 'a')
            tiny_near(h[i], seen->entropies[place(t, turn)][own[turn]][k++], 2e-5);
        else
            assert_true(h[i] == 0);
    }
}

static double worst;

static void compare(const char *kind, double temperature, const char *rows,
                    const char *workers, int32_t prompts)
{
    static struct seen seen;
    sr1_trajectory *t[GROUP];
    struct sr1__level_branch_step steps[GROUP * 4];
    struct sr1__level_branch_stats stats;
    struct sr1__level_branch_options o;
    sr1_rollout *r = open_rollout("thinker", rows, workers);
    sr1_rollout *alone = open_rollout("thinker", "max_rows=6", "workers=1");

    seen = (struct seen){.r = alone, .kind = kind, .temperature = temperature};
    o = options(&seen);
    o.prompts = prompts;
    group(r, t);
    OK(sr1__rollout_level_branches(r, t, GROUP, NULL, &o, steps, &stats));
    assert_int_equal(seen.n, GROUP * 3 * SR1_THINKING_LEVELS);
    for (int32_t i = 0; i < GROUP * 4; i++) {
        static const int32_t own[] = {2, 0, 3, 1};
        static const double costs[] = {2, 0, 1, NAN};

        assert_int_equal(steps[i].level, own[i % 4]);
        assert_int_equal(steps[i].outcome,
                         i % 4 == 3 ? SR1__BRANCH_UNPARSED : SR1__BRANCH_COMPARED);
        for (int32_t k = 0; k < SR1_THINKING_LEVELS; k++) {
            if (i % 4 == 3) {
                assert_true(isnan(steps[i].confidences[k]) && isnan(steps[i].costs[k]));
                continue;
            }
            worst = fmax(worst, fabs(steps[i].confidences[k] - seen.confidences[i][k]));
            tiny_near(steps[i].confidences[k], seen.confidences[i][k], 2e-5);
            assert_true(k > 0 || i % 4 == 1 ? steps[i].costs[k] >= (k > 0)
                                            : steps[i].costs[k] == 0);
        }
        if (i % 4 < 3)
            assert_true(steps[i].costs[own[i % 4]] == costs[i % 4]);
    }
    assert_true(seen.of_rollout < 1e-5);
    assert_int_equal(stats.outcomes[SR1__BRANCH_COMPARED], GROUP * 3);
    assert_int_equal(stats.outcomes[SR1__BRANCH_UNPARSED], GROUP);
    if (!prompts)
        assert_true(stats.tokens_fed * 4 < stats.tokens_alone);
    for (int32_t i = 0; i < GROUP; i++)
        check_columns(t[i], &seen);
    printf("%s at %g: tokens through the model %lld, each message alone %lld\n", kind,
           temperature, (long long)stats.tokens_fed, (long long)stats.tokens_alone);
    tiny_free_all(t, GROUP);
    sr1_rollout_free(r);
    sr1_rollout_free(alone);
}

static void each_level_equals_a_forward_of_its_own(void **state)
{
    (void)state;
    compare("entropy", 1.0, "max_rows=6", "workers=1", 0);
    compare("mean", 0.7, "max_rows=16", "workers=1", 0);
    compare("min", 1.0, "max_rows=32", "workers=2", 0);
    compare("entropy", 1.3, "max_rows=14", "workers=1", 0);
    printf("largest difference %.2e\n", worst);
}

static void thoughts_can_be_asked_for_in_words(void **state)
{
    (void)state;
    compare("entropy", 1.0, "max_rows=16", "workers=1", 1);
}

/* ---- tags that tokens cut across ---- */

struct texts {
    struct seen seen;
    sr1_tokenizer *tok;
    char *of[SR1_THINKING_LEVELS];
};

static void look_at_text(void *user, const sr1_trajectory *t, int32_t turn, int32_t level,
                         const int32_t *ids, size_t n, size_t asked)
{
    struct texts *x = user;
    size_t len;

    look(&x->seen, t, turn, level, ids, n, asked);
    OK(sr1_tokenizer_decode(x->tok, ids, n, 0, &x->of[level], &len));
}

static void tags_may_be_cut_anywhere(void **state)
{
    sr1_rollout *r = open_rollout("straddler", "max_rows=8", "workers=1");
    sr1_rollout *alone = open_rollout("straddler", "max_rows=6", "workers=1");
    struct texts x = {.seen = {.r = alone, .kind = "mean", .temperature = 1},
                      .tok = sr1_rollout_tokenizer(r)};
    struct sr1__level_branch_options o = options(&x.seen);
    struct sr1__trajectory_builder *b = begin(x.tok, "Where?", 0);
    struct sr1__level_branch_step step;
    sr1_trajectory *t = NULL;

    (void)state;
    say(b, x.tok, 0,
        STEP("3", "<think>", " so", "</thin", "k><act", "ion> so", " tower",
             "</action>"));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    o.look = look_at_text;
    o.user = &x;
    OK(sr1__rollout_level_branches(r, &t, 1, NULL, &o, &step, NULL));
    assert_int_equal(step.outcome, SR1__BRANCH_COMPARED);
    assert_string_equal(x.of[0], "<level>1</level><action> so tower");
    assert_string_equal(x.of[1], "<level>2</level><think> well</think><action> so tower");
    assert_string_equal(x.of[2], "<level>3</level><think> so</think><action> so tower");
    assert_string_equal(x.of[3], "<level>4</level><think> well</think><action> so tower");
    assert_int_equal(x.seen.asked[0], 1); /* " so" came with the tag */
    for (int k = 0; k < SR1_THINKING_LEVELS; k++) {
        tiny_near(step.confidences[k], x.seen.confidences[0][k], 2e-5);
        assert_true(step.costs[k] == (k > 0));
        sr1_free(x.of[k]);
    }
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
    sr1_rollout_free(alone);
}

/* White space around tags, and the thought of level 1, are as the step and the key say.
 */
static void the_format_is_that_of_the_step(void **state)
{
    sr1_rollout *r = open_rollout("thinker", "max_rows=8", "workers=1");
    struct texts x = {.seen = {.r = r, .kind = "mean", .temperature = 1},
                      .tok = sr1_rollout_tokenizer(r)};
    struct sr1__level_branch_options o = options(&x.seen);
    struct sr1__trajectory_builder *b = begin(x.tok, "Where?", 0);
    static const char *const words[] = {
        "\u010a",   "<level>", "3",        "</level>", "\u010a",    "<think>", " so",
        "</think>", "\u010a",  "<action>", " tower",   "</action>", NULL};
    struct sr1__level_branch_step step;
    sr1_trajectory *t = NULL;

    (void)state;
    say(b, x.tok, 0, words);
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    o.look = look_at_text;
    o.user = &x;
    o.thought = "Rome is so well";
    OK(sr1__rollout_level_branches(r, &t, 1, NULL, &o, &step, NULL));
    assert_int_equal(step.outcome, SR1__BRANCH_COMPARED);
    assert_string_equal(x.of[0], "\n<level>1</level>\n<think>Rome is so well</think>\n"
                                 "<action> tower");
    assert_true(strstr(x.of[1], "\n<level>2</level><think>") == x.of[1]);
    assert_true(step.costs[0] >= 4);
    for (int k = 0; k < SR1_THINKING_LEVELS; k++)
        sr1_free(x.of[k]);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

/* ---- what cannot be compared ---- */

static sr1_status fate_of(sr1_rollout *r, sr1_trajectory *t, const uint8_t *wanted,
                          int64_t max_tokens, int32_t *fate)
{
    struct seen seen = {.r = r, .kind = "entropy", .temperature = 1};
    struct sr1__level_branch_options o = options(&seen);
    struct sr1__level_branch_step steps[4];
    struct sr1__level_branch_stats stats;
    sr1_status st;

    o.look = NULL;
    for (int k = 0; k < SR1_THINKING_LEVELS; k++)
        o.max_tokens[k] = max_tokens;
    st = sr1__rollout_level_branches(r, &t, 1, wanted, &o, steps, &stats);
    if (st == SR1_OK) {
        *fate = steps[0].outcome;
        assert_int_equal(stats.outcomes[*fate], wanted && !wanted[0] ? 4 : 3);
        for (int k = 0; k < SR1_THINKING_LEVELS; k++)
            assert_true(isnan(steps[0].confidences[k]) == (*fate != 0));
    }
    return st;
}

static void check_fate(const char *model, const uint8_t *wanted, int64_t max_tokens,
                       int32_t want)
{
    sr1_rollout *r = open_rollout(model, "max_rows=8", "workers=1");
    sr1_trajectory *t = four_turns(sr1_rollout_tokenizer(r), "Where?", 0);
    int32_t fate = -1;

    OK(fate_of(r, t, wanted, max_tokens, &fate));
    assert_int_equal(fate, want);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

static void what_cannot_be_compared_is_counted(void **state)
{
    const uint8_t no = 0;

    (void)state;
    check_fate("talker", NULL, 20, SR1__BRANCH_TRUNCATED);
    check_fate("talker", NULL, 4000, SR1__BRANCH_CONTEXT_FULL);
    check_fate("ender", NULL, 20, SR1__BRANCH_NO_ACTION);
    check_fate("opener", NULL, 20, SR1__BRANCH_MALFORMED);
    check_fate("thinker", &no, 20, SR1__BRANCH_EXCLUDED);
    check_fate("straddler", NULL, 20, SR1__BRANCH_COMPARED);
}

/* A step at the very end of the context: at another level, or asked for in words, its
 * message may be longer than the one that was sampled. */
static void a_step_without_room_is_no_failure(void **state)
{
    static const char *const words[] = {"<level>",   "4",        "</level>", "<think>",
                                        " so",       "</think>", "<action>", " tower",
                                        "</action>", NULL};

    (void)state;
    for (size_t length = 490; length <= 512; length += 2) {
        sr1_rollout *r = open_rollout("thinker", "max_rows=8", "workers=1");
        sr1_tokenizer *tok = sr1_rollout_tokenizer(r);
        struct sr1__trajectory_builder *b;
        char question[4096] = "";
        sr1_trajectory *t = NULL;

        for (;;) { /* as long as the question has to be */
            size_t n;

            b = begin(tok, question, 0);
            (void)sr1__trajectory_builder_ids(b, &n);
            if (n + 9 >= length)
                break;
            sr1__trajectory_builder_free(b);
            strcat(question, "x");
        }
        say(b, tok, 0, words);
        OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
        for (int32_t prompts = 0; prompts < 2; prompts++) {
            struct seen seen = {.r = r, .kind = "entropy", .temperature = 1};
            struct sr1__level_branch_options o = options(&seen);
            struct sr1__level_branch_stats stats;
            struct sr1__level_branch_step step;

            o.look = NULL;
            o.prompts = prompts;
            OK(sr1__rollout_level_branches(r, &t, 1, NULL, &o, &step, &stats));
            assert_int_equal(stats.outcomes[SR1__BRANCH_COMPARED] +
                                 stats.outcomes[SR1__BRANCH_CONTEXT_FULL],
                             1);
            if (prompts)
                assert_int_equal(step.outcome, SR1__BRANCH_CONTEXT_FULL);
        }
        sr1_trajectory_free(t);
        sr1_rollout_free(r);
    }
}

static void another_protocol_is_refused(void **state)
{
    sr1_rollout *r = tiny_rollout(tiny_config("thinker", NULL), tiny_engine());
    struct seen seen = {.r = r, .kind = "entropy", .temperature = 1};
    struct sr1__level_branch_options o = options(&seen);

    (void)state;
    REFUSED(sr1__rollout_level_branches(r, NULL, 0, NULL, &o, NULL, NULL), SR1_E_CONFIG,
            "need the protocol rlvcr");
    sr1_rollout_free(r);
    r = open_rollout("thinker", "max_rows=8", "workers=1");
    o.confidence = "trust";
    REFUSED(sr1__rollout_level_branches(r, NULL, 0, NULL, &o, NULL, NULL),
            SR1_E_NOT_FOUND, "confidence 'trust'");
    sr1_rollout_free(r);
}

/* ---- streams and memory ---- */

/* Thoughts depend on their step alone, not on the rows there are or on other steps. */
static void thoughts_depend_on_their_step_alone(void **state)
{
    static const char *const rows[] = {"max_rows=6", "max_rows=40"};
    struct sr1__level_branch_step steps[2][GROUP * 4], one[4];
    struct seen seen = {.kind = "entropy", .temperature = 1};
    struct sr1__level_branch_options o = options(&seen);

    (void)state;
    o.look = NULL;
    for (int i = 0; i < 2; i++) {
        sr1_rollout *r = open_rollout("thinker", rows[i], i ? "workers=2" : "workers=1");
        sr1_trajectory *t[GROUP];

        group(r, t);
        OK(sr1__rollout_level_branches(r, t, GROUP, NULL, &o, steps[i], NULL));
        OK(sr1__rollout_level_branches(r, t + 1, 1, NULL, &o, one, NULL));
        for (int32_t k = 0; k < 4; k++)
            for (int l = 0; k < 3 && l < SR1_THINKING_LEVELS; l++)
                assert_true(one[k].costs[l] == steps[i][4 + k].costs[l]);
        tiny_free_all(t, GROUP);
        sr1_rollout_free(r);
    }
    for (int32_t k = 0; k < GROUP * 4; k++) {
        for (int l = 0; k % 4 < 3 && l < SR1_THINKING_LEVELS; l++) {
            assert_true(steps[0][k].costs[l] == steps[1][k].costs[l]);
            tiny_near(steps[0][k].confidences[l], steps[1][k].confidences[l], 2e-5);
        }
    }
}

struct one {
    sr1_rollout *r;
    sr1_trajectory *t;
};

static sr1_status try_once(void *arg)
{
    struct one *x = arg;
    int32_t fate;
    sr1_status st = fate_of(x->r, x->t, NULL, 20, &fate);

    /* what is kept of a try is the trajectory's */
    OK(sr1_trajectory_set_column(x->t, SR1_COLUMN_LEVEL_ENTROPY, NULL, 0));
    OK(sr1_trajectory_set_column(x->t, SR1_COLUMN_THINKING_COST, NULL, 0));
    return st;
}

static void no_memory_is_an_error(void **state)
{
    struct one x = {open_rollout("straddler", "max_rows=6", "workers=1"), NULL};

    (void)state;
    x.t = four_turns(sr1_rollout_tokenizer(x.r), "Where?", 0);
    OK(try_once(&x)); /* decoders stay */
    assert_true(torture(try_once, &x) > 50);
    sr1_trajectory_free(x.t);
    sr1_rollout_free(x.r);
}

/* Where it is short for many steps at once, fewer are compared at once, and what the
 * first try has counted does not count. */
static void memory_that_runs_out_halves_the_rows(void **state)
{
    sr1_rollout *r = open_rollout("thinker", "max_rows=16", "workers=1");
    sr1_trajectory *t = four_turns(sr1_rollout_tokenizer(r), "Where?", 0);
    struct seen seen = {.r = r, .kind = "entropy", .temperature = 1};
    struct sr1__level_branch_options o = options(&seen);
    struct sr1__level_branch_step want[4], steps[4];
    struct sr1__level_branch_stats all, stats;
    int64_t n, again = 0;

    (void)state;
    o.look = NULL;
    OK(sr1__rollout_level_branches(r, &t, 1, NULL, &o, want, NULL)); /* decoders stay */
    sr1__mem_fail_at(0);
    OK(sr1__rollout_level_branches(r, &t, 1, NULL, &o, want, &all));
    n = sr1__mem_count();
    for (int64_t k = 1; k <= n; k += 2) {
        sr1_status st;

        sr1__mem_fail_at(k);
        st = sr1__rollout_level_branches(r, &t, 1, NULL, &o, steps, &stats);
        sr1__mem_fail_at(0);
        if (st != SR1_OK) {
            assert_int_equal(st, SR1_E_NOMEM);
            continue;
        }
        again++;
        assert_memory_equal(stats.outcomes, all.outcomes, sizeof all.outcomes);
        assert_int_equal(stats.tokens_made, all.tokens_made);
        for (int i = 0; i < 3 * SR1_THINKING_LEVELS; i++) {
            int step = i / SR1_THINKING_LEVELS, level = i % SR1_THINKING_LEVELS;

            assert_true(steps[step].costs[level] == want[step].costs[level]);
            tiny_near(steps[step].confidences[level], want[step].confidences[level],
                      2e-5);
        }
    }
    assert_true(again > n / 4);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_equals_a_forward_of_its_own),
        cmocka_unit_test(thoughts_can_be_asked_for_in_words),
        cmocka_unit_test(tags_may_be_cut_anywhere),
        cmocka_unit_test(the_format_is_that_of_the_step),
        cmocka_unit_test(what_cannot_be_compared_is_counted),
        cmocka_unit_test(a_step_without_room_is_no_failure),
        cmocka_unit_test(another_protocol_is_refused),
        cmocka_unit_test(thoughts_depend_on_their_step_alone),
        cmocka_unit_test(no_memory_is_an_error),
        cmocka_unit_test(memory_that_runs_out_halves_the_rows),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("levels", tests, make, scratch_remove);
}
