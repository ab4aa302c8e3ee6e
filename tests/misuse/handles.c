/* misuse/handles.c - a handle of every type, made by public functions alone. */
#include "misuse/misuse.h"

#include "support/http_server.h"

#include <searchr1/searchr1.h>
#include <searchr1/ext/bm25.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/critique.h>
#include <searchr1/ext/data_files.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/judge.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/openai.h>
#include <searchr1/ext/plan.h>
#include <searchr1/ext/ranks.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/sandbox.h>
#include <searchr1/ext/search_measures.h>
#include <searchr1/ext/server.h>
#include <searchr1/ext/suite.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/trajectory_details.h>

#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

/* Functions that need torch are not linked into every program. */
#pragma weak sr1_model_free
#pragma weak sr1_model_new_random
#pragma weak sr1_model_open
#pragma weak sr1_model_save
#pragma weak sr1_plan_new
#pragma weak sr1_ranks_open
#pragma weak sr1_rollout_new
#pragma weak sr1_evaluate
#pragma weak sr1_suite_run
#pragma weak sr1_trainer_new

#define LEN(array) (sizeof(array) / sizeof *(array))

static void need(sr1_status status, const char *what)
{
    if (status == SR1_OK)
        return;
    fprintf(stderr, "cannot make %s: %s: %s\n", what, sr1_status_name(status),
            sr1_last_error());
    _exit(3);
}

/* ---- callbacks of the handles ---- */

static sr1_status find(void *self, const char *const *queries, size_t n, int32_t top_k,
                       sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)top_k;
    for (size_t i = 0; i < n; i++)
        sr1_search_sink_hit(sink, i, "1", "The tower stands in Paris.", 1);
    return SR1_OK;
}

static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)self;
    (void)texts;
    (void)kind;
    for (size_t i = 0; i < 4 * n; i++)
        out[i] = (float)(i % 3);
    return SR1_OK;
}

static sr1_status score(void *self, const char *query, const char *const *texts, size_t n,
                        double *scores)
{
    (void)self;
    (void)query;
    (void)texts;
    for (size_t i = 0; i < n; i++)
        scores[i] = (double)i;
    return SR1_OK;
}

static sr1_status write_texts(void *self, const sr1_conversation *const *conversations,
                              size_t n, sr1_generator_sink *sink)
{
    (void)self;
    (void)conversations;
    for (size_t i = 0; i < n; i++)
        sr1_generator_sink_text(sink, i, "so", 2);
    return SR1_OK;
}

static sr1_status judge(void *user, const sr1_problem *problem, const char *answer,
                        size_t len, int32_t *verdict, double *pass_rate)
{
    (void)user;
    (void)problem;
    (void)answer;
    (void)len;
    *verdict = SR1_RUN_PASSED;
    *pass_rate = 1;
    return SR1_OK;
}

/* ---- a sink is good inside a callback only: one that never returns ---- */

static void *held_sink;
static sem_t sink_is_there;

static void hold(void *sink)
{
    held_sink = sink;
    sem_post(&sink_is_there);
    for (;;)
        pause();
}

static sr1_status hold_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)n;
    (void)top_k;
    hold(sink);
    return SR1_OK;
}

static sr1_status hold_act(void *self, const sr1_env_action *const *actions, size_t n,
                           sr1_env_sink *sink)
{
    (void)self;
    (void)actions;
    (void)n;
    hold(sink);
    return SR1_OK;
}

static sr1_status hold_call(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    (void)self;
    (void)args;
    (void)len;
    hold(sink);
    return SR1_OK;
}

static sr1_status hold_write(void *self, const sr1_conversation *const *conversations,
                             size_t n, sr1_generator_sink *sink)
{
    (void)self;
    (void)conversations;
    (void)n;
    hold(sink);
    return SR1_OK;
}

static void *in_search(void *unused)
{
    sr1_search_ops ops = {.struct_size = sizeof ops, .name = "s", .search = hold_search};
    const char *query = "q";
    sr1_search *engine = NULL;
    sr1_search_results *results = NULL;

    need(sr1_search_new(&engine, &ops, NULL), "sr1_search_sink");
    need(sr1_search_run(engine, &query, 1, 3, &results), "sr1_search_sink");
    return unused;
}

static void answer_held(sr1_env *env, const char *action)
{
    char *text = NULL;
    size_t len = 0;

    need(sr1_env_answer(env, action, strlen(action), &text, &len), "a sink");
}

static void *in_act(void *unused)
{
    sr1_env_ops ops = {.struct_size = sizeof ops, .name = "e", .act = hold_act};
    sr1_env *env = NULL;

    need(sr1_env_new(&env, &ops, NULL, NULL), "sr1_env_sink");
    answer_held(env, "q");
    return unused;
}

static void *in_call(void *unused)
{
    sr1_tool_ops ops = {.struct_size = sizeof ops, .name = "t", .call = hold_call};
    sr1_env *env = NULL;

    need(sr1_env_open(&env, "tools", NULL, NULL), "sr1_tool_sink");
    need(sr1_env_add_tool(env, &ops, NULL), "sr1_tool_sink");
    answer_held(env, "{\"name\": \"t\", \"args\": {}}");
    return unused;
}

static void *in_write(void *unused)
{
    static const char *const role = "user", *const text = "q";
    static const size_t size = 1;
    sr1_generator_ops ops = {.struct_size = sizeof ops, .name = "w", .write = hold_write};
    sr1_conversation c = {sizeof c, &role, &text, &size, 1, NULL, 0};
    sr1_generator *writer = NULL;
    char *out = NULL;

    need(sr1_generator_new(&writer, &ops, NULL), "sr1_writer_sink");
    need(sr1_generator_generate(writer, &c, 1, &out, NULL), "sr1_writer_sink");
    return unused;
}

static void *sink_of(void *(*inside)(void *))
{
    pthread_t thread;

    sem_init(&sink_is_there, 0, 0);
    if (pthread_create(&thread, NULL, inside, NULL) != 0)
        _exit(3);
    sem_wait(&sink_is_there);
    return held_sink;
}

static void *search_sink(void)
{
    return sink_of(in_search);
}

static void *sink_with_a_hit(void)
{
    void *sink = search_sink();

    need(sr1_search_sink_hit(sink, 0, "1", "text", 1), "sink with a hit");
    return sink;
}

static void *env_sink(void)
{
    return sink_of(in_act);
}

static void *tool_sink(void)
{
    return sink_of(in_call);
}

static void *writer_sink(void)
{
    return sink_of(in_write);
}

/* ---- search ---- */

/* Of one process. */
static void *ranks(void)
{
    sr1_config *c = NULL;
    sr1_ranks *r = NULL;

    need(sr1_config_new(&c), "sr1_config");
    need(sr1_ranks_open(&r, c), "sr1_ranks");
    sr1_config_free(c);
    return r;
}

static void *embedder(void)
{
    sr1_embedder_ops ops = {
        .struct_size = sizeof ops, .name = "e", .embed = embed, .dim = 4};
    sr1_embedder *e = NULL;

    need(sr1_embedder_new(&e, &ops, NULL), "sr1_embedder");
    return e;
}

static void *reranker(void)
{
    sr1_reranker_ops ops = {.struct_size = sizeof ops, .name = "r", .score = score};
    sr1_reranker *r = NULL;

    need(sr1_reranker_new(&r, &ops, NULL), "sr1_reranker");
    return r;
}

static void *engine(void)
{
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "s", .search = find, .identity = "v1"};
    sr1_search *e = NULL;

    need(sr1_search_new(&e, &ops, NULL), "sr1_search");
    return e;
}

static void *bm25_engine(void)
{
    sr1_search *e = NULL;

    need(sr1_search_open_bm25(&e, "corpus.bm25", NULL), "BM25 engine");
    return e;
}

static void *dense_engine(void)
{
    sr1_search *e = NULL;

    need(sr1_search_open_dense(&e, "corpus.dense", embedder(), NULL), "dense engine");
    return e;
}

static void *search_results(void)
{
    const char *query = "tower";
    sr1_search_results *r = NULL;

    need(sr1_search_run(engine(), &query, 1, 3, &r), "sr1_search_results");
    return r;
}

static void *retrieval_server(void)
{
    sr1_server_options o;
    sr1_server *s = NULL;

    sr1_server_options_init(&o);
    o.threads = 1;
    need(sr1_server_open(&s, engine(), &o), "sr1_server");
    sr1_server_stop(s); /* so that sr1_server_run returns */
    return s;
}

/* ---- configuration, data, text ---- */

static void *config(void)
{
    sr1_config *c = NULL;

    need(sr1_config_new(&c), "sr1_config");
    need(sr1_config_load(c, "config.yaml"), "sr1_config");
    need(sr1_config_set(c, "openai_base_url", misuse_server_url()), "sr1_config");
    return c;
}

static void *dataset(void)
{
    const char *path = "questions.jsonl";
    sr1_dataset *d = NULL;

    need(sr1_dataset_open(&d, &path, 1, NULL), "sr1_dataset");
    return d;
}

static void *judgements(void)
{
    sr1_qrels *q = NULL;

    need(sr1_qrels_open(&q, "qrels.txt"), "sr1_qrels");
    return q;
}

static void *row(void)
{
    sr1_row *r = NULL;

    need(sr1_dataset_read(dataset(), 0, &r), "sr1_row");
    return r;
}

static void *tokenizer(void)
{
    sr1_tokenizer *t = NULL;

    need(sr1_tokenizer_open(&t, "tokenizer"), "sr1_tokenizer");
    return t;
}

static void *token_stream(void)
{
    sr1_token_stream *s = NULL;

    need(sr1_token_stream_new(&s, tokenizer(), 0), "sr1_token_stream");
    return s;
}

static const char one_trajectory[] =
    "{\"query\":\"q\",\"query_id\":\"a\",\"sample\":0,\"group_key\":\"cfb741f2e1fae9f4\","
    "\"data_source\":\"towers\",\"ground_truths\":[\"Paris\"],\"generated_text\":"
    "\"<answer> Paris</answer>\",\"final_answer\":\"Paris\",\"stop_reason\":\"answer\","
    "\"reward\":0.5,\"reward_parts\":[{\"name\":\"format\",\"value\":0.5,\"weight\":1}],"
    "\"advantage\":-0.25,\"searches\":[{\"turn\":0,\"query\":\"q\",\"status\":0,"
    "\"hits\":1,\"reward\":0,\"success\":0,\"hit_ids\":[\"1\"]}],\"temperature\":1.0,"
    "\"top_p\":1.0,\"top_k\":0,"
    "\"weights_version\":0,\"prompt_tokens\":1,\"policy_tokens\":3,\"segments\":["
    "{\"source\":\"policy\",\"turn\":0,\"token_begin\":1,\"token_count\":3,"
    "\"text_begin\":0,\"text_len\":23,\"body_begin\":0,\"body_len\":23}],"
    "\"full_input_ids\":[65,66,67,68],\"token_steps\":["
    "{\"token_id\":66,\"token_text\":\"<answer>\",\"log_prob\":-1.0,\"position\":1},"
    "{\"token_id\":67,\"token_text\":\" Paris\",\"log_prob\":-1.0,\"position\":2},"
    "{\"token_id\":68,\"token_text\":\"</answer>\",\"log_prob\":-1.0,\"position\":3}],"
    "\"generated_positions\":[1,2,3]}";

static void *trajectory(void)
{
    sr1_trajectory *t = NULL;

    need(sr1_trajectory_from_json(&t, one_trajectory, sizeof one_trajectory - 1),
         "sr1_trajectory");
    return t;
}

/* ---- environments, rewards ---- */

static void *environment(void)
{
    sr1_env *e = NULL;

    need(sr1_env_open(&e, "tools", NULL, NULL), "sr1_env");
    return e;
}

static void *reward_set(void)
{
    sr1_reward_options o = {.struct_size = sizeof o};
    sr1_reward_set *s = NULL;

    need(sr1_reward_set_new(&s, &o), "sr1_reward_set");
    return s;
}

/* ---- code; the sandbox is a service that is not there ---- */

static void *problems(void)
{
    const char *path = "problems.jsonl";
    sr1_problems *p = NULL;

    need(sr1_problems_load(&p, &path, 1, NULL), "sr1_problems");
    return p;
}

static void *problem(void)
{
    return (void *)(uintptr_t)sr1_problems_at(problems(), 0);
}

static void *sandbox(void)
{
    sr1_sandbox_options o;
    sr1_sandbox *s = NULL;

    sr1_sandbox_options_init(&o);
    o.kind = "fusion";
    o.url = "http://127.0.0.1:9";
    o.retries = 0;
    need(sr1_sandbox_open(&s, &o), "sr1_sandbox");
    return s;
}

static void *run(void)
{
    sr1_program p;
    sr1_execution *r = NULL;

    sr1_program_init(&p);
    p.code = "print(1)";
    need(sr1_sandbox_run(sandbox(), &p, &r), "sr1_run");
    return r;
}

static void *checker(void)
{
    sr1_checker *c = NULL;

    need(sr1_checker_new(&c, sandbox(), NULL), "sr1_checker");
    return c;
}

static void *check(void)
{
    sr1_check *c = NULL;

    need(sr1_checker_run(checker(), problem(), SR1_CHECK_PROGRAM, "x = 1", 5, &c),
         "sr1_check");
    return c;
}

static void *critique_style(void)
{
    sr1_critique_style *s = NULL;

    need(sr1_critique_style_open(&s, NULL, NULL), "sr1_critique_style");
    return s;
}

static void *writer(void)
{
    sr1_generator_ops ops = {
        .struct_size = sizeof ops, .name = "w", .write = write_texts};
    sr1_generator *w = NULL;

    need(sr1_generator_new(&w, &ops, NULL), "sr1_writer");
    return w;
}

static void *trees(void)
{
    static const int32_t widths[] = {1, 1, 1};
    sr1_revision_tree_options o = {.struct_size = sizeof o};
    sr1_revision_trees *f = NULL;

    o.problems = problems();
    o.solver = o.critic = o.reviser = writer();
    o.run = judge;
    need(sr1_revision_trees_open(&f, &o), "sr1_forest");
    need(sr1_revision_trees_expand(f, widths, LEN(widths), NULL), "sr1_forest");
    return f;
}

/* ---- a server of both protocols ---- */

static void answer(void *user, int nth, const char *request, struct reply *r)
{
    (void)user;
    (void)nth;
    if (strstr(request, "/models"))
        r->body = "{\"data\": [{\"id\": \"m\", \"max_model_len\": 512}]}";
    else if (strstr(request, "completions"))
        r->body = "{\"choices\": [{\"index\": 0, \"text\": \"so\", \"message\": "
                  "{\"role\": \"assistant\", \"content\": \"so\"}, "
                  "\"finish_reason\": \"stop\"}]}";
    else
        r->body = "{\"result\": [[{\"document\": {\"id\": \"1\", \"contents\": \"c\"}, "
                  "\"score\": 1.0}]]}";
}

const char *misuse_server_url(void)
{
    static struct server s;

    if (!s.port)
        server_start(&s, answer, NULL);
    return s.url;
}

static void *openai(void)
{
    sr1_openai_options o;
    sr1_openai *c = NULL;

    sr1_openai_options_init(&o);
    o.base_url = misuse_server_url();
    need(sr1_openai_new(&c, &o), "sr1_openai");
    return c;
}

static void *model_judge(void)
{
    sr1_judge_options o;
    sr1_judge *j = NULL;

    sr1_judge_options_init(&o);
    o.base_url = misuse_server_url();
    need(sr1_judge_open(&j, &o), "sr1_judge");
    return j;
}

static void *openai_results(void)
{
    sr1_openai_request q = {.struct_size = sizeof q, .max_tokens = 4};
    sr1_openai_results *r = NULL;

    q.prompt = "q";
    q.prompt_len = 1;
    need(sr1_openai_run(openai(), &q, 1, &r), "sr1_openai_results");
    return r;
}

/* ---- with torch ---- */

static void *plan(void)
{
    sr1_config *c = config();
    sr1_plan *p = NULL;

    need(sr1_config_set(c, "model_name_or_path", "model"), "sr1_plan");
    need(sr1_plan_new(&p, c, 24), "sr1_plan");
    sr1_config_free(c);
    return p;
}

static void *model(void)
{
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sr1_model *m = NULL;

    need(sr1_model_open(&m, "model", &o), "sr1_model");
    return m;
}

static void *rollout(void)
{
    sr1_rollout *r = NULL;

    need(sr1_rollout_new(&r, config(), NULL, NULL, NULL), "sr1_rollout");
    return r;
}

static void *evaluation(void)
{
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_evaluation *e = NULL;

    need(sr1_evaluate(&e, rollout(), dataset(), &o), "sr1_evaluation");
    return e;
}

static void *suite(void)
{
    sr1_suite_options o = {.struct_size = sizeof o, .samples = 1, .greedy = 1};
    sr1_suite *s = NULL;

    (void)mkdir("sets", 0700);
    (void)link("questions.jsonl", "sets/nq.jsonl");
    need(sr1_suite_run(&s, rollout(), NULL, "sets", &o), "sr1_suite");
    return s;
}

static void *lines(void)
{
    sr1_lines *l = NULL;

    need(sr1_lines_open(&l, "questions.jsonl"), "sr1_lines");
    return l;
}

static void *trainer(void)
{
    sr1_trainer *t = NULL;

    need(sr1_trainer_new(&t, config(), NULL), "sr1_trainer");
    return t;
}

static const struct factory {
    const char *type; /* or the name that a value of values.c asks for */
    void *(*make)(void);
    int torch;
} factories[] = {
    {"sr1_check", check, 0},
    {"sr1_checker", checker, 0},
    {"sr1_config", config, 0},
    {"sr1_critique_style", critique_style, 0},
    {"sr1_dataset", dataset, 0},
    {"sr1_qrels", judgements, 0},
    {"sr1_embedder", embedder, 0},
    {"sr1_judge", model_judge, 0},
    {"sr1_ranks", ranks, 1},
    {"sr1_env", environment, 0},
    {"sr1_env_sink", env_sink, 0},
    {"sr1_evaluation", evaluation, 1},
    {"sr1_revision_trees", trees, 0},
    {"sr1_model", model, 1},
    {"sr1_openai", openai, 0},
    {"sr1_openai_results", openai_results, 0},
    {"sr1_plan", plan, 1},
    {"sr1_problem", problem, 0},
    {"sr1_problems", problems, 0},
    {"sr1_reranker", reranker, 0},
    {"sr1_reward_set", reward_set, 0},
    {"sr1_rollout", rollout, 1},
    {"sr1_row", row, 0},
    {"sr1_execution", run, 0},
    {"sr1_sandbox", sandbox, 0},
    {"sr1_search", engine, 0},
    {"sr1_suite", suite, 1},
    {"sr1_search_results", search_results, 0},
    {"sr1_search_sink", search_sink, 0},
    {"sr1_server", retrieval_server, 0},
    {"sr1_token_stream", token_stream, 0},
    {"sr1_tokenizer", tokenizer, 0},
    {"sr1_tool_sink", tool_sink, 0},
    {"sr1_lines", lines, 0},
    {"sr1_trainer", trainer, 1},
    {"sr1_trajectory", trajectory, 0},
    {"sr1_generator", writer, 0},
    {"sr1_generator_sink", writer_sink, 0},
    {"bm25", bm25_engine, 0},
    {"dense", dense_engine, 0},
    {"sink with a hit", sink_with_a_hit, 0},
};

static const struct factory *factory_of(const char *type)
{
    for (size_t i = 0; i < LEN(factories); i++)
        if (strcmp(factories[i].type, type) == 0)
            return &factories[i];
    return NULL;
}

int misuse_can_make(const char *type)
{
    const struct factory *f = factory_of(type);

    return !f ? -1 : !f->torch || (void (*)(void))sr1_model_open != NULL;
}

void *misuse_make(const char *type)
{
    return factory_of(type)->make();
}

/* ---- files ---- */

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        _exit(3);
}

static void put_tokenizer(const char *folder)
{
    static const char *const texts[] = {"Where is the tower? The tower stands in Paris."};
    sr1_tokenizer_train_options o = {.struct_size = sizeof o, .vocab_size = 280};

    need(sr1_tokenizer_train(texts, NULL, NULL, 1, &o, folder), "tokenizer");
}

static void put_model(void)
{
    static const char shape[] =
        "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
        "\"hidden_size\": 16, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
        "\"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 16, "
        "\"vocab_size\": 320, \"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
        "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}";
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    sr1_model *m = NULL;

    put_tokenizer("model");
    need(sr1_model_new_random(&m, shape, 7, &o), "model");
    need(sr1_model_save(m, "model"), "model");
    sr1_model_free(m);
}

static void put_bytes(void)
{
    void *bytes = NULL;
    size_t n = 0;
    FILE *f = fopen("trajectory.bin", "wb");

    need(sr1_trajectory_encode(trajectory(), &bytes, &n), "trajectory");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        _exit(3);
    put_file("trajectory.json", one_trajectory);
}

void misuse_prepare(void)
{
    put_file("corpus.jsonl", "{\"id\": \"1\", \"contents\": \"Tower\\nIn Paris.\"}\n"
                             "{\"id\": \"2\", \"contents\": \"Bridge\\nIn Rome.\"}\n");
    put_file("vectors.f32", "0123456789ABCDEF0123456789ABCDEF"); /* 2 vectors of 4 */
    put_file("mock.json", "{\"tower\": \"The tower stands in Paris.\"}");
    put_file("qrels.txt", "q 0 1 1\n");
    put_file(
        "questions.jsonl",
        "{\"id\": \"q\", \"question\": \"Where?\", \"golden_answers\": [\"Paris\"]}\n");
    put_file("problems.jsonl",
             "{\"id\": \"p\", \"problem\": \"Do it.\", \"solution\": "
             "\"x = 1\", \"tests\": [{\"stdin\": \"1\", \"stdout\": \"1\"}]}\n");
    put_file("config.yaml",
             "model_name_or_path: model\ndevice: cpu\nworkers: 1\nthreads: 1\n"
             "prompt_template: none\nsearch_engine: mock\nmock_knowledge: mock.json\n"
             "max_tokens: 4\nmax_turns: 1\ngroup_size: 2\nbatch_size: 1\nmax_rows: 4\n"
             "update_times: 1\nmax_steps: 1\ntrain_file: questions.jsonl\nout: out/run\n"
             "openai_model: m\nproxy_model: model\nsandbox: fusion\n"
             "sandbox_url: http://127.0.0.1:9\n");
    mkdir("out", 0777);
    put_tokenizer("tokenizer");
    put_bytes();
    need(sr1_bm25_build("corpus.jsonl", "corpus.bm25", NULL, NULL, NULL), "index");
    need(sr1_dense_build("corpus.jsonl", "corpus.dense", embedder(), NULL, NULL, NULL),
         "index");
    if (misuse_can_make("sr1_model") > 0)
        put_model();
}
