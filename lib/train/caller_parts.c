/* train/caller_parts.c - what a run's program gave it beside the configuration: an
 * engine, an environment, rewards. A run that goes on without them would be another
 * experiment, so a checkpoint keeps their names. */
#include "train/internal.h"

#include "base/log.h"
#include "config/run_config.h"
#include "policy/rollout_internal.h"
#include "signal/reward/reward_set.h"

#include <searchr1/ext/episodes.h>

#include <string.h>

/* ---- the record ---- */

static const char *find_engine(const sr1_trainer *tr)
{
    return tr->engine_given && tr->rollout->search ? sr1_search_name(tr->rollout->search)
                                                   : NULL;
}

static const char *find_environment(const sr1_trainer *tr)
{
    return tr->rollout->env != tr->configured_env ? sr1_env_name(tr->rollout->env) : NULL;
}

/* [[name, weight], ...] of those behind the configured ones. */
static json_t *list_rewards(const sr1_trainer *tr)
{
    json_t *list = json_array();

    for (size_t i = tr->n_configured; list && i < tr->rewards->n; i++) {
        const struct sr1__reward_entry *e = &tr->rewards->entries[i];

        if (json_array_append_new(list, json_pack("[s, f]", e->name, e->weight)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The tools of an environment that was given. */
static json_t *list_tools(const sr1_trainer *tr)
{
    return find_environment(tr) ? sr1__env_tool_names(tr->rollout->env) : json_array();
}

json_t *sr1__given_json(const sr1_trainer *tr)
{
    return json_pack("{s:s?, s:s?, s:o, s:o}", "engine", find_engine(tr), "environment",
                     find_environment(tr), "tools", list_tools(tr), "rewards",
                     list_rewards(tr));
}

/* ---- the comparison ---- */

/* One that is given now is meant, as another address of a service is. */
static sr1_status compare_name(const json_t *then, const char *what, const char *now,
                               const char *remedy)
{
    const char *name = json_string_value(json_object_get(then, what));

    if (name && !now)
        return sr1__fail(
            SR1_E_CONFIG,
            "resume: the run's program gave it the %s '%.100s', and now there "
            "is none; %s",
            what, name, remedy);
    if (now && (!name || strcmp(name, now) != 0))
        sr1__log(SR1_LOG_WARN, "resume: the %s was %.100s and is %.100s from here on",
                 what, name ? name : "the configured one", now);
    return SR1_OK;
}

/* Which of the first list is not in the second; NULL: none. */
static const json_t *find_missing(const json_t *list, const json_t *other)
{
    size_t i, k;
    json_t *a, *b;

    json_array_foreach(list, i, a)
    {
        int found = 0;

        json_array_foreach(other, k, b)
        {
            found |= json_equal(a, b);
        }
        if (!found)
            return a;
    }
    return NULL;
}

static sr1_status compare_rewards(const json_t *then, const json_t *now)
{
    const json_t *lost = find_missing(then, now), *more = find_missing(now, then);
    const json_t *one = lost ? lost : more;

    if (!one)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "resume: the reward '%.100s' of weight %g was %sgiven by the run's "
                     "program, and now it is%s; give the same ones "
                     "(sr1_trainer_add_reward, in Python rewards=)",
                     json_string_value(json_array_get(one, 0)),
                     json_number_value(json_array_get(one, 1)), lost ? "" : "not ",
                     lost ? " not" : "");
}

/* Of the same environment; another one was warned of. Older records have no tools. */
static sr1_status compare_tools(const sr1_trainer *tr, const json_t *then,
                                const json_t *now)
{
    const char *name = json_string_value(json_object_get(then, "environment"));
    const char *ours = find_environment(tr);
    const json_t *lost = find_missing(json_object_get(then, "tools"), now);

    if (!lost || !name || !ours || strcmp(name, ours) != 0)
        return SR1_OK;
    return sr1__fail(
        SR1_E_CONFIG,
        "resume: the environment that the run's program gave it had the tool "
        "'%.100s', and now it has none of that name; add it again "
        "(sr1_env_add_tool, sr1_env_add_mcp; in Python env= with add_mcp)",
        json_string_value(lost));
}

static sr1_status compare_given(const sr1_trainer *tr, const json_t *then)
{
    json_t *tools, *rewards;
    sr1_status st;

    SR1__TRY(
        compare_name(then, "engine", find_engine(tr),
                     "give it again (sr1_resume_options.search, in Python search=)"));
    SR1__TRY(compare_name(then, "environment", find_environment(tr),
                          "give it again (sr1_rollout_set_env of sr1_trainer_rollout)"));
    tools = list_tools(tr);
    rewards = list_rewards(tr);
    st = tools && rewards ? compare_tools(tr, then, tools)
                          : sr1__fail_nomem("what a run was given");
    if (st == SR1_OK)
        st = compare_rewards(json_object_get(then, "rewards"), rewards);
    json_decref(tools);
    json_decref(rewards);
    return st;
}

/* By the checkpoint, or without one by the run's record; neither knows it in older runs.
 */
sr1_status sr1__given_check(const sr1_trainer *tr)
{
    json_t *then = tr->restored ? json_incref(json_object_get(tr->restored, SR1__GIVEN))
                                : sr1__config_given(tr->run_folder);
    sr1_status st = then ? compare_given(tr, then) : SR1_OK;

    if (tr->restored)
        sr1__rule_files_compare(tr, json_object_get(tr->restored, SR1__RULE_FILES));
    json_decref(then);
    return st;
}
