/* policy/assemble/env_from_config.c - the environment that a configuration names: a row
 * of one table. */
#include "policy/assemble/assemble.h"

#include "environment/critique/problems_from_config.h"
#include "config/choices.h"
#include "policy/local_generator.h"

#include <searchr1/ext/engines.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/mcp.h>
#include <searchr1/ext/world.h>

#include <stdio.h>

/* What an opener works with. */
struct env_request {
    const struct sr1__environment_choice *choice;
    sr1_rollout *rollout;
    const sr1_config *config;
    const sr1_env_options *options;
};

static int has_no_engine(const struct env_request *q)
{
    const sr1_config *c = q->config;
    int only_tools =
        *sr1__config_str(c, "tools") && !sr1__config_is_set(c, "search_engine");

    return (sr1__config_is(c, "search_engine", "none") || only_tools) &&
           !q->rollout->search;
}

/* The tools of MCP servers. */
static sr1_status add_configured_tools(sr1_env *env, const struct env_request *q)
{
    const char *path = sr1__config_str(q->config, "tools");
    double timeout_s = sr1__config_real(q->config, "tools_timeout");
    sr1_mcp_options o = {
        .struct_size = sizeof(o), .timeout_s = timeout_s, .start_timeout_s = timeout_s};

    if (!*path)
        return SR1_OK;
    return sr1__context(sr1_env_add_mcp(env, path, &o), "tools");
}

/* An engine that nobody named finds nothing. Where the run had its program's, the policy
 * may not be asked without it. */
static void warn_missing_engine(struct sr1__env_parts *parts, const sr1_config *c)
{
    int was_given = *sr1__config_given_engine(c) != '\0';

    if (!sr1__engine_is_unnamed(c))
        return;
    sr1__engine_warning(c, was_given ? parts->no_env : parts->no_engine,
                        was_given ? sizeof(parts->no_env) : sizeof(parts->no_engine));
}

/* Over the rollout's engine, and over one that finds nothing. */
static sr1_status open_over_engine(struct sr1__env_parts *parts,
                                   const struct env_request *q)
{
    sr1_rollout *r = q->rollout;
    sr1_search *nothing = NULL;
    sr1_status st;

    if (!r->search && !has_no_engine(q)) {
        warn_missing_engine(parts, q->config);
        SR1__TRY(sr1_search_open(&r->search, q->config));
    }
    SR1__TRY(sr1_env_open(&parts->env, q->choice->name, r->search, q->options));
    SR1__TRY(add_configured_tools(parts->env, q));
    SR1__TRY(sr1_search_open_mock(&nothing, NULL, NULL, 0));
    st = sr1_env_open(&parts->no_search_env, q->choice->name, nothing, q->options);
    sr1_search_free(nothing);
    return st;
}

static sr1_status open_silence(struct sr1__env_parts *parts, const struct env_request *q)
{
    SR1__TRY(sr1_env_open(&parts->env, "none", NULL, q->options));
    return sr1_env_open(&parts->no_search_env, "none", NULL, q->options);
}

static sr1_status open_search_env(struct sr1__env_parts *parts,
                                  const struct env_request *q)
{
    return has_no_engine(q) ? open_silence(parts, q) : open_over_engine(parts, q);
}

static sr1_status open_rooms(struct sr1__env_parts *parts, const struct env_request *q)
{
    SR1__TRY(sr1_rooms_env_open(&parts->env, q->options));
    return sr1_env_open(&parts->no_search_env, "none", NULL, q->options);
}

static sr1_status open_env_program(struct sr1__env_parts *parts,
                                   const struct env_request *q)
{
    const char *path = sr1__config_str(q->config, "environment_program");
    sr1_external_options o = {.struct_size = sizeof(o),
                              .timeout_s =
                                  sr1__config_real(q->config, "program_timeout")};

    if (!*path)
        return sr1__fail(SR1_E_CONFIG,
                         "environment_program is empty; name the program's file");
    SR1__TRY(sr1_env_open_external(&parts->env, path, q->options, &o));
    return sr1_env_open(&parts->no_search_env, "none", NULL, q->options);
}

/* Problems, and the frozen model that revises; both stay with the rollout. */
static sr1_status open_revision(sr1_rollout *r, const sr1_config *c)
{
    SR1__TRY(sr1__problems_from_config(&r->problems, c));
    SR1__TRY(sr1__reviser_open(&r->reviser, c,
                               r->model ? sr1__choose_engine_count(c, r->model) : 1));
    r->reviser_model = sr1__generator_model(r->reviser);
    return SR1_OK;
}

static sr1_status open_critique(struct sr1__env_parts *parts, const struct env_request *q)
{
    sr1_rollout *r = q->rollout;
    sr1_critique_style *style = NULL;
    sr1_status st;

    SR1__TRY(open_revision(r, q->config));
    parts->reviser = r->reviser;
    SR1__TRY(sr1_critique_style_open(&style,
                                     sr1__config_str(q->config, "critique_template"),
                                     sr1__config_str(q->config, "solve_template")));
    st = sr1_critique_env_open(&parts->env, r->problems, r->reviser, style, q->options);
    sr1_critique_style_free(style);
    SR1__TRY(st);
    return sr1_env_open(&parts->no_search_env, "none", NULL, q->options);
}

typedef sr1_status (*open_env)(struct sr1__env_parts *parts, const struct env_request *q);

/* NULL for a name that no row has. */
static open_env find_opener(const sr1_config *c)
{
    static const struct {
        const char *name;
        open_env open;
    } rows[] = {
        {"search", open_search_env}, {"tools", open_over_engine},
        {"rooms", open_rooms},       {"critique", open_critique},
        {"none", open_silence},      {"program", open_env_program},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (sr1__config_is(c, "environment", rows[i].name))
            return rows[i].open;
    return NULL;
}

static void warn_missing_env(const sr1_config *c, char *text, size_t size)
{
    const char *given = sr1__config_given_environment(c);

    if (*given)
        snprintf(text, size,
                 "the run's program gave it the environment '%.100s' (in Python env= or "
                 "tools=), and here is none, so no action would be answered; use the run "
                 "from such a program, or name an environment by the key environment "
                 "(none: nothing is answered)",
                 given);
}

sr1_status sr1__env_parts_open(struct sr1__env_parts *parts, sr1_rollout *r,
                               const sr1_config *c)
{
    open_env open = find_opener(c);
    sr1_env_options o = {.struct_size = sizeof(o),
                         .protocol = sr1__config_protocol(c),
                         .document_format = sr1__config_str(c, "document_format"),
                         .top_k = (int32_t)sr1__config_int(c, "search_top_k"),
                         .max_parallel_calls =
                             (int32_t)sr1__config_int(c, "max_parallel_calls")};
    struct env_request q = {
        .choice = sr1__environment_choice(c), .rollout = r, .config = c, .options = &o};

    if (!open || !q.choice)
        return sr1__fail(SR1_E_CONFIG, "environment '%.64s' cannot be opened",
                         sr1__config_str(c, "environment"));
    warn_missing_env(c, parts->no_env, sizeof(parts->no_env));
    (void)sr1__env_pair_warning(c, parts->odd_pair, sizeof(parts->odd_pair));
    return open(parts, &q);
}

void sr1__env_parts_free(struct sr1__env_parts *parts)
{
    sr1_env_free(parts->env);
    sr1_env_free(parts->no_search_env);
    *parts = (struct sr1__env_parts){0};
}

/* ---- an engine that nobody named ---- */

int sr1__engine_is_unnamed(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return e && e->has_engine && !sr1__config_is_set(c, "search_engine") &&
           !*sr1__config_str(c, "mock_knowledge") && !*sr1__config_str(c, "tools");
}

void sr1__engine_warning(const sr1_config *c, char *text, size_t size)
{
    const char *given = sr1__config_given_engine(c);

    if (*given)
        snprintf(text, size,
                 "the run's program gave it the search engine '%.100s' (in Python "
                 "search=), and here is none, so every search would find nothing; use "
                 "the run from such a program, or name an engine by search_engine",
                 given);
    else
        snprintf(text, size,
                 "search_engine is not set, so every search would find nothing; set "
                 "search_engine: bm25 and search_index (sr1-search index makes one), "
                 "or remote and search_url, or environment: none for a run without "
                 "search");
}

sr1_status sr1__engine_check(const sr1_config *c)
{
    char text[512];

    if (!sr1__engine_is_unnamed(c))
        return SR1_OK;
    sr1__engine_warning(c, text, sizeof(text));
    return sr1__fail(SR1_E_CONFIG, "%s", text);
}

/* ---- a protocol of another environment ---- */

int sr1__env_pair_warning(const sr1_config *c, char *text, size_t size)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);
    const struct sr1__protocol_choice *p = sr1__protocol_choice(c);

    if (!e || !e->acts || e->of_user || *sr1__config_str(c, "prompt_template"))
        return 0;
    if (!p || !p->tells || sr1__config_is(c, "environment", p->environment))
        return 0;
    snprintf(text, size,
             "the prompt of protocol %s tells the policy %s, which environment %s "
             "does not answer; it goes with environment %s, or with a prompt_template "
             "of your own",
             p->name, p->tells, e->name, p->environment);
    return 1;
}
