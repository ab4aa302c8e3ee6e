/* sr1-infer - ask a policy; see it think, search and answer. */
#include "common/args.h"
#include "common/policy.h"

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
    "read line by line from the terminal. What the policy writes is shown as it comes;\n"
    "passages from searches are dimmed.\n"
    "\n"
    "Example:\n"
    "  sr1-infer runs/grpo --question 'Where was the writer of Song of Bakdel born?'\n";

struct options {
    const char *question;
    int64_t seed;
    int sample, json;
};

struct view {
    int color;
    int32_t source;
};

static sr1_status on_text(void *user, size_t index, int32_t source, const char *text,
                          size_t n)
{
    struct view *v = user;

    (void)index;
    if (v->color && source != v->source)
        fputs(source == SR1_SOURCE_ENVIRONMENT ? "\033[2m" : "\033[0m", stdout);
    v->source = source;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
    return SR1_OK;
}

static void print_end(const struct view *v, const sr1_trajectory *t)
{
    if (v->color)
        fputs("\033[0m", stdout);
    printf("\n\nanswer: %s\n(%s; %zu tokens, %zu searches)\n",
           sr1_trajectory_final_answer(t, NULL),
           sr1_stop_reason_name(sr1_trajectory_stop_reason(t)),
           sr1_trajectory_policy_count(t), sr1_trajectory_search_count(t));
}

static sr1_status print_json(const sr1_trajectory *t)
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

static sr1_status ask(sr1_rollout *r, const struct options *o, const char *question)
{
    struct view v = {.color = isatty(1), .source = SR1_SOURCE_POLICY};
    sr1_query q = {
        .struct_size = sizeof(q), .text = question, .text_len = strlen(question)};
    sr1_rollout_options ro = {.struct_size = sizeof(ro), .group_size = 1,
                              .greedy = !o->sample, .seed = (uint64_t)o->seed, .user = &v,
                              .text = o->json ? NULL : on_text};
    sr1_trajectory *t = NULL;
    sr1_status st = sr1_rollout_generate(r, &q, 1, &ro, &t);

    if (st != SR1_OK)
        return st;
    if (o->json)
        st = print_json(t);
    else
        print_end(&v, t);
    sr1_trajectory_free(t);
    return st;
}

static sr1_status converse(sr1_rollout *r, const struct options *o)
{
    int prompt = isatty(0);
    char *line = NULL;
    size_t cap = 0;
    sr1_status st = SR1_OK;

    for (;;) {
        ssize_t n;

        if (prompt) {
            fputs("\nquestion (empty line ends): ", stdout);
            fflush(stdout);
        }
        n = getline(&line, &cap, stdin);
        if (n <= 0 || (prompt && line[0] == '\n'))
            break;
        line[strcspn(line, "\r\n")] = '\0';
        st = ask(r, o, line);
        if (st != SR1_OK)
            break;
    }
    free(line);
    return st;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    const struct args_option options[] = {
        {"--question", ARGS_STRING, &o.question, "TEXT", "ask this and end", 0, 0, NULL},
        {"--sample", ARGS_FLAG, &o.sample, NULL,
         "sample by temperature instead of greedily", 0, 0, NULL},
        {"--seed", ARGS_INT, &o.seed, "N", "of sampling (0)", 0, 1e15, NULL},
        {"--json", ARGS_FLAG, &o.json, NULL, "print the trajectory as a JSON line", 0, 0,
         NULL},
    };
    const struct args a = {"sr1-infer", help_text, options,
                           sizeof(options) / sizeof(options[0])};
    const char *rest[256];
    size_t n = 0;
    sr1_config *c = NULL;
    sr1_rollout *r = NULL;
    sr1_status st;
    int code = args_read(&a, argc, argv, rest, 256, &n);

    if (code >= 0)
        return code;
    if (n < 1)
        return args_wrong(&a, "give a policy");
    policy_passive_waiting(argv);
    st = policy_config(&c, rest[0], rest + 1, n - 1);
    if (st == SR1_OK)
        st = sr1_rollout_new(&r, c, NULL, NULL, NULL);
    if (st == SR1_OK)
        st = o.question ? ask(r, &o, o.question) : converse(r, &o);
    code = TOOL_OK;
    if (st != SR1_OK) {
        fprintf(stderr, "sr1-infer: %s\n", sr1_last_error());
        code = st == SR1_E_CONFIG || st == SR1_E_NOT_FOUND ? TOOL_USAGE : TOOL_FAILED;
    }
    sr1_rollout_free(r);
    sr1_config_free(c);
    return code;
}
