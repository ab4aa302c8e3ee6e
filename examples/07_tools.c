/* 07_tools.c - a tool of your own beside a search, and what a policy is told.
 *
 *     07_tools
 *
 * In the environment "tools" a policy acts by JSON, {"name": "...", "args": {...}}. The
 * arguments are checked against the tool's schema before it is called; what goes wrong is
 * told to the policy. Give the environment to sr1_rollout_set_env (of a trainer:
 * sr1_trainer_rollout) to train with it. */
#include <searchr1/searchr1.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/episodes.h>

#include <stdio.h>
#include <string.h>

/* The arguments fit the schema below; a real tool would read them with a JSON parser. */
static sr1_status year_of(void *self, const char *args, size_t len, sr1_tool_sink *sink)
{
    static const char *const towers[][2] = {{"Eiffel", "1889"}, {"Shard", "2012"}};
    static const char unknown[] = "no such tower is known";

    (void)self;
    (void)len;
    for (size_t i = 0; i < 2; i++)
        if (strstr(args, towers[i][0]))
            return sr1_tool_sink_text(sink, towers[i][1], 4);
    if (sr1_tool_sink_text(sink, unknown, sizeof(unknown) - 1) != SR1_OK)
        return SR1_E_CALLBACK; /* the error text is set */
    return sr1_tool_sink_status(sink, SR1_TOOL_FAILED);
}

static const sr1_tool_ops tower = {
    .struct_size = sizeof(tower),
    .name = "tower_year",
    .description = "The year in which a tower was finished.",
    .schema = "{\"type\": \"object\", \"required\": [\"tower\"], \"properties\": "
              "{\"tower\": {\"type\": \"string\", \"description\": \"its name\"}}}",
    .call = year_of,
    .deadline_s = 5,
};

int main(void)
{
    static const char *const keys[] = {"louvre"}, *const facts[] = {"The Louvre: Paris."};
    static const char *const actions[] = {
        "{\"name\": \"tower_year\", \"args\": {\"tower\": \"Eiffel\"}}",
        "{\"name\": \"tower_year\", \"args\": {\"tower\": \"Babel\"}}",
        "{\"name\": \"tower_year\", \"args\": {}}",
        "{\"name\": \"wiki_search\", \"args\": {\"query\": \"louvre\", \"k\": 1}}",
    };
    sr1_env_options options = {.struct_size = sizeof(options),
                               .protocol = "mt-grpo",
                               .document_format = "plain"};
    sr1_search *engine = NULL;
    sr1_env *env = NULL;
    sr1_status status = sr1_search_open_mock(&engine, keys, facts, 1);

    if (status == SR1_OK)
        status = sr1_env_open(&env, "tools", engine, &options);
    if (status == SR1_OK)
        status = sr1_env_add_tool(env, &tower, NULL);
    if (status == SR1_OK)
        printf("%s\n", sr1_env_tools(env));
    for (size_t i = 0; i < 4 && status == SR1_OK; i++) {
        char *answer = NULL;
        size_t n = 0;

        status = sr1_env_answer(env, actions[i], strlen(actions[i]), &answer, &n);
        if (status == SR1_OK)
            printf("%s\n%s\n\n", actions[i], answer);
        sr1_free(answer);
    }
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_env_free(env);
    sr1_search_free(engine);
    return status == SR1_OK ? 0 : 1;
}
