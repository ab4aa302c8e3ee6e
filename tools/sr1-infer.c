/* sr1-infer - ask a policy; see it think, search and answer. */
#include "common/args.h"
#include "common/messages.h"
#include "common/policy.h"
#include "common/progress.h"

#include <searchr1/rollout.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_text[] =
    "usage: sr1-infer POLICY [key=value ...] --question TEXT\n"
    "       sr1-infer POLICY [key=value ...]\n"
    "\n"
    "POLICY is a run folder of sr1-train or a model folder. Without --question, "
    "questions are\n"
    "read line by line from the terminal or a pipe; those of a pipe are printed before "
    "their\n"
    "answers. What the policy writes is shown as it comes; on a terminal thoughts are "
    "slanted,\n"
    "actions coloured, their results dim and the answer bold (NO_COLOR turns that off). "
    "With\n"
    "use_openai=true a server answers, by the tokenizer of POLICY.\n"
    "\n"
    "--history FILE puts a conversation before each question: a JSON list of\n"
    "{\"role\", \"content\"} (user, assistant; first system or developer), or a row of\n"
    "sr1-eval with such a list as \"history\".\n"
    "\n"
    "Examples:\n"
    "  sr1-infer runs/grpo --question 'Where was the writer of Song of Bakdel born?'\n"
    "  sr1-infer runs/grpo --history talk.json --question 'And where did she die?'\n"
    "  sr1-infer models/qwen3-0.6b environment=tools protocol=hermes tools=mcp.json \\\n"
    "    --question 'What is in my notes about Oslo?'   # tools of MCP servers\n";

struct infer_options {
    const char *question, *id, *history;
    struct conversation_file before; /* of history */
    int64_t seed;
    int sample, json;
};

#define PLAIN "\033[0m"
#define DIM "\033[2m"

/* Tags of the policy's text and how a terminal shows what they enclose. */
static const struct {
    const char *tag;
    const char *style;
    int opens;
} tags[] = {
    {"<think>", "\033[3m", 1},      {"</think>", "", 0},
    {"<reasoning>", "\033[3m", 1},  {"</reasoning>", "", 0},
    {"<search>", "\033[36m", 1},    {"</search>", "", 0},
    {"<tool>", "\033[36m", 1},      {"</tool>", "", 0},
    {"<tool_call>", "\033[36m", 1}, {"</tool_call>", "", 0},
    {"<action>", "\033[36m", 1},    {"</action>", "", 0},
    {"<answer>", "\033[1;32m", 1},  {"</answer>", "", 0},
};
#define N_TAGS (sizeof(tags) / sizeof(tags[0]))

/* Text as it comes. On a terminal each part begins on its own line, and has its style
 * unless NO_COLOR is set. */
struct infer_view {
    int terminal, color;
    int32_t source;
    char held[16]; /* the beginning of what may become a tag */
    size_t n_held;
    int in_line;          /* something stands on this line */
    unsigned char before; /* the last byte */
};

/* A terminal gets no control characters from models and passages; the place of one of
 * two bytes is taken by U+00BF. */
static void print_view_bytes(struct infer_view *v, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        int control = is_control(v->before, c) && c != '\n' && c != '\t';

        putchar(!v->terminal || !control ? c : c < 0x80 ? '?' : 0xBF);
        v->in_line = c != '\n';
        v->before = c;
    }
}

static void put_held(struct infer_view *v)
{
    print_view_bytes(v, v->held, v->n_held);
    v->n_held = 0;
}

static void put_style(const struct infer_view *v, const char *style)
{
    if (v->color)
        fputs(style, stdout);
}

/* What is held is a whole tag. */
static void put_tag(struct infer_view *v, size_t i)
{
    if (tags[i].opens && v->in_line)
        print_view_bytes(v, "\n", 1);
    put_style(v, tags[i].opens ? tags[i].style : "");
    put_held(v);
    put_style(v, tags[i].opens ? "" : PLAIN);
}

/* Hold c while the held text can become a tag; else let it go. */
static void put_policy_byte(struct infer_view *v, char c)
{
    if (c == '<')
        put_held(v);
    if (v->n_held == 0 && c != '<') {
        print_view_bytes(v, &c, 1);
        return;
    }
    v->held[v->n_held++] = c;
    for (size_t i = 0; i < N_TAGS; i++) {
        if (strncmp(tags[i].tag, v->held, v->n_held) != 0)
            continue;
        if (tags[i].tag[v->n_held] == '\0')
            put_tag(v, i);
        return;
    }
    put_held(v);
}

static void put_environment(struct infer_view *v, const char *text, size_t n)
{
    put_style(v, DIM);
    print_view_bytes(v, text, n);
    put_style(v, PLAIN);
}

static sr1_status on_text(void *user, size_t index, int32_t source, const char *text,
                          size_t n)
{
    struct infer_view *v = user;

    (void)index;
    if (source != v->source)
        put_held(v);
    v->source = source;
    if (!v->terminal)
        print_view_bytes(v, text, n);
    else if (source == SR1_SOURCE_ENVIRONMENT)
        put_environment(v, text, n);
    for (size_t i = 0; v->terminal && source != SR1_SOURCE_ENVIRONMENT && i < n; i++)
        put_policy_byte(v, text[i]);
    fflush(stdout);
    return SR1_OK;
}

static void print_end(struct infer_view *v, const sr1_trajectory *t)
{
    size_t n = 0;
    size_t tokens = sr1_trajectory_policy_count(t);
    size_t actions = sr1_trajectory_search_count(t);
    const char *answer = sr1_trajectory_final_answer(t, &n);

    put_held(v);
    put_style(v, PLAIN);
    printf("%s\nanswer: ", v->in_line ? "\n" : "");
    print_view_bytes(v, answer[0] ? answer : "none", answer[0] ? n : 4);
    printf("\n(%s; %zu token%s, %zu action%s)\n",
           sr1_stop_reason_name(sr1_trajectory_stop_reason(t)), tokens,
           plural_ending((int64_t)tokens, "s"), actions,
           plural_ending((int64_t)actions, "s"));
}

static sr1_status print_trajectory_json(const sr1_trajectory *t)
{
    char *text;
    size_t n;
    sr1_status st = sr1_trajectory_to_json(t, &text, &n);

    if (st != SR1_OK)
        return st;
    puts(text);
    sr1_free(text);
    return SR1_OK;
}

static int is_blank_question(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* https://no-color.org: set to anything but nothing. */
static int is_unset(const char *name)
{
    const char *value = getenv(name);

    return value == NULL || *value == '\0';
}

/* Worlds and problems are known by the question's id. */
static sr1_status check_question_id(const sr1_config *c, const char *id)
{
    const char *env = NULL;
    char text[128];

    if (id || sr1_config_get_str(c, "environment", &env) != SR1_OK ||
        (strcmp(env, "rooms") != 0 && strcmp(env, "critique") != 0))
        return SR1_OK;
    snprintf(text, sizeof(text),
             "environment %s knows a question by its id; give --id ID", env);
    return sr1_set_error(SR1_E_INVALID, text);
}

static sr1_status answer_question(sr1_rollout *r, const struct infer_options *o,
                                  const char *question)
{
    struct infer_view v = {.terminal = isatty(1), .source = SR1_SOURCE_POLICY};
    sr1_query q = {.struct_size = sizeof(q),
                   .text = question,
                   .text_len = strlen(question),
                   .id = o->id};
    sr1_rollout_options ro = {.struct_size = sizeof(ro),
                              .group_size = 1,
                              .greedy = !o->sample,
                              .seed = (uint64_t)o->seed,
                              .user = &v,
                              .text = o->json ? NULL : on_text};
    sr1_trajectory *t = NULL;
    sr1_status st;

    v.color = v.terminal && is_unset("NO_COLOR");
    messages_before(&q, &o->before);
    st = sr1_rollout_generate(r, &q, 1, &ro, &t);
    if (st != SR1_OK)
        return st;
    if (o->json)
        st = print_trajectory_json(t);
    else
        print_end(&v, t);
    if (st == SR1_OK && sr1_trajectory_stop_reason(t) == SR1_STOP_SEARCH_FAILED)
        st = sr1_set_error(SR1_E_NETWORK, "a search failed, so there is no answer; with "
                                          "search_failure=continue it goes on without");
    sr1_trajectory_free(t);
    return st;
}

/* The library counts the questions of one call, and here that is one. */
static sr1_status name_question(sr1_status st, const char *called)
{
    static const char alone[] = "query 0: ";
    const char *said = sr1_last_error();
    char text[1024];

    if (st == SR1_OK)
        return st;
    if (strncmp(said, alone, sizeof(alone) - 1) == 0)
        said += sizeof(alone) - 1;
    snprintf(text, sizeof(text), "%s: %s", called, said);
    return sr1_set_error(st, text);
}

/* Before its answer, where nobody sees what came in. */
static void print_question(const char *question)
{
    struct infer_view v = {.terminal = isatty(1)};

    fputs("question: ", stdout);
    print_view_bytes(&v, question, strlen(question));
    fputc('\n', stdout);
}

/* A line of the input without its end; NULL: it has a NUL, behind which nothing would be
 * asked. The byte order mark of a file is no part of its first question. */
static char *trim_input_line(char *line, size_t n, int first)
{
    if (memchr(line, '\0', n))
        return NULL;
    line[strcspn(line, "\r\n")] = '\0';
    return first && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? line + 3 : line;
}

static sr1_status answer_line(sr1_rollout *r, const struct infer_options *o,
                              const char *question)
{
    if (!question)
        return sr1_set_error(SR1_E_INVALID, "it has a NUL byte, which is no text");
    if (!isatty(0) && !o->json)
        print_question(question);
    return answer_question(r, o, question);
}

/* Ask what stands on each line of the input. A question that fails is explained and the
 * next one asked. */
static int answer_input_lines(sr1_rollout *r, const struct infer_options *o)
{
    int prompt = isatty(0), asked = 0;
    char *line = NULL;
    size_t cap = 0;
    int code = TOOL_OK;

    for (int64_t number = 1;; number++) {
        char called[40];
        const char *question;
        ssize_t n;
        sr1_status st;

        if (prompt) {
            fputs("\nquestion (empty line ends): ", stdout);
            fflush(stdout);
        }
        n = getline(&line, &cap, stdin);
        if (n <= 0)
            break;
        question = trim_input_line(line, (size_t)n, number == 1);
        if (question && !*question && prompt)
            break;
        if (question && is_blank_question(question))
            continue;
        snprintf(called, sizeof(called), "line %lld", (long long)number);
        st = name_question(answer_line(r, o, question), called);
        asked = 1;
        if (st != SR1_OK)
            code = tool_failed("sr1-infer", st);
    }
    free(line);
    if (asked || prompt)
        return code;
    fputs("sr1-infer: no question came on standard input; give one a line, or "
          "--question TEXT\n",
          stderr);
    return TOOL_USAGE;
}

int main(int argc, char **argv)
{
    struct infer_options o = {0};
    const struct args_option options[] = {
        {"--question", ARGS_STRING, &o.question, "TEXT", "ask this and end", 0, 0},
        {"--id", ARGS_STRING, &o.id, "ID",
         "the question's id, where a world or a problem is known by it", 0, 0},
        {"--history", ARGS_STRING, &o.history, "FILE",
         "the conversation before it (JSON)", 0, 0},
        {"--sample", ARGS_FLAG, &o.sample, NULL,
         "sample by temperature instead of greedily", 0, 0},
        {"--seed", ARGS_INT, &o.seed, "N", "seed of sampling (0)", 0, 1e15},
        {"--json", ARGS_FLAG, &o.json, NULL, "print the trajectory as a JSON line", 0, 0},
    };
    const struct args a = {.program = "sr1-infer",
                           .help = help_text,
                           .options = options,
                           .n_options = sizeof(options) / sizeof(options[0]),
                           .takes_keys = 1};
    const char *rest[256];
    size_t n = 0;
    sr1_config *c = NULL;
    sr1_rollout *r = NULL;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (n < 1)
        return args_wrong(&a, "give a policy: a run folder or a model folder");
    if (o.question && is_blank_question(o.question))
        return args_wrong(&a, "--question: the question is empty");
    policy_passive_waiting(argv);
    progress_warnings();
    st = o.history ? messages_read(&o.before, o.history) : SR1_OK;
    if (st == SR1_OK)
        st = policy_config(&c, rest[0], rest + 1, n - 1);
    if (st == SR1_OK)
        st = check_question_id(c, o.id);
    if (st == SR1_OK)
        policy_warn_of_sampling(o.sample, rest + 1, n - 1);
    progress_wait("opening the model");
    if (st == SR1_OK)
        st = sr1_rollout_new(&r, c, NULL, NULL, NULL);
    progress_wait(NULL);
    if (st == SR1_OK && o.question)
        st = name_question(answer_question(r, &o, o.question), "--question");
    code = TOOL_OK;
    if (st != SR1_OK && r)
        code = tool_failed("sr1-infer", st);
    else if (st != SR1_OK)
        code = tool_refused("sr1-infer", st);
    else if (!o.question)
        code = answer_input_lines(r, &o);
    conversation_free(&o.before);
    sr1_rollout_free(r);
    sr1_config_free(c);
    return tool_printed("sr1-infer", code);
}
