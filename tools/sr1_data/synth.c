/* synth.c - see synth.h. */
#include "sr1_data/synth.h"

#include "common/args.h"
#include "common/output.h"
#include "common/policy.h"
#include "common/progress.h"
#include "common/ranks.h"
#include "common/remote.h"
#include "common/stop.h"

#include <searchr1/rollout.h>
#include <searchr1/ext/synthesis.h>

#include <inttypes.h>
#include <stdio.h>

struct synth_view {
    struct progress bar;
    int begun;
    int64_t done, total;
    int silent; /* another process shows it */
};

/* What an earlier call did counts in no rate. */
static sr1_status show_synth_progress(void *user, int64_t done, int64_t total,
                                      int64_t tokens)
{
    struct synth_view *v = user;
    char note[64];

    v->done = done;
    v->total = total;
    if (stop_asked())
        return SR1_E_CANCELLED;
    if (v->silent)
        return SR1_OK;
    if (!v->begun)
        progress_resume(&v->bar, (double)done);
    v->begun = 1;
    snprintf(note, sizeof(note), "%" PRId64 " tokens", tokens);
    progress_show(&v->bar, (double)done, (double)total, note);
    return SR1_OK;
}

static void print_report(const char *out, int64_t keep, const sr1_synth_report *r)
{
    int64_t surplus = r->trajectories - r->written - r->below - r->unfit - r->excluded;

    printf("%s: %" PRId64 " demonstrations from %" PRId64 " trajectories of %" PRId64
           " questions",
           out, r->written, r->trajectories, r->rows);
    if (r->resumed > 0)
        printf(" (%" PRId64 " were done before)", r->resumed);
    printf("\nleft out: %" PRId64 " below the reward, %" PRId64 " without an answer or "
           "corrected, %" PRId64 " by a failure, %" PRId64 " beyond --keep "
           "%" PRId64 "\n",
           r->below, r->unfit, r->excluded, surplus, keep);
    if (r->written == 0)
        fprintf(
            stderr,
            "warning: %s is empty, and no training can use it: no trajectory was good "
            "enough; lower --min-reward, raise --samples, or begin with another "
            "policy\n",
            out);
}

/* Trajectories that failed leave the work unfinished: their questions are not asked again
 * into the same file. */
static int check_excluded(const char *out, const sr1_synth_report *r)
{
    if (r->excluded == 0)
        return TOOL_OK;
    fprintf(stderr,
            "sr1-data: trajectories missing: %" PRId64 "; a search, the server or a "
            "reward failed; see to it, remove %s and %s.state, and run it again\n",
            r->excluded, out, out);
    return TOOL_FAILED;
}

/* What opened before anything is written. */
struct synth_inputs {
    sr1_ranks *ranks;
    sr1_config *config;
    sr1_dataset *questions;
    sr1_rollout *rollout;
    sr1_reward_set *rewards;
};

/* Where a launcher started several processes, the first one writes out. */
static sr1_status begin_synth_job(struct synth_inputs *p, const char *policy,
                                  const char *questions, const char *out,
                                  const char *const *pairs, size_t n)
{
    const struct output output = {.path = out, .resumes = 1};
    sr1_status st = policy_config(&p->config, policy, pairs, n);

    if (st == SR1_OK)
        st = ranks_begin(&p->ranks, &p->config);
    if (!p->ranks)
        return st;
    if (ranks_is_first(p->ranks))
        st = output_check(&output, &questions, 1, 0);
    return sr1_ranks_agree(p->ranks, st);
}

static sr1_status open_synth_inputs(struct synth_inputs *p, const char *questions)
{
    sr1_status st = policy_questions(&p->questions, p->config, questions);

    if (st == SR1_OK)
        st = sr1_rollout_new(&p->rollout, p->config, NULL, NULL, NULL);
    if (st == SR1_OK)
        st = sr1_reward_set_open(&p->rewards, p->config);
    return st;
}

static int synthesise_demos(const struct synth_options *o, const struct synth_inputs *p,
                            const char *out)
{
    sr1_synth_report r = {.struct_size = sizeof(r)};
    sr1_synth_options s;
    struct synth_view v = {.begun = 0};
    sr1_status st;

    sr1_synth_options_init(&s);
    s.max_rows = o->max_rows;
    s.samples = (int32_t)o->samples;
    s.per_question = (int32_t)o->keep;
    s.min_reward = o->min_reward;
    s.greedy = o->greedy;
    s.seed = (uint64_t)o->seed;
    s.progress = show_synth_progress;
    s.user = &v;
    s.ranks = p->ranks;
    v.silent = !ranks_is_first(p->ranks);
    stop_note();
    progress_begin(&v.bar, "answering", "trajectories", 1.0);
    st = sr1_synthesise(out, p->rollout, p->rewards, p->questions, &s, &r);
    progress_clear(&v.bar);
    if (st == SR1_E_CANCELLED) {
        if (!v.silent)
            fprintf(stderr,
                    "stopped at %" PRId64 " of %" PRId64
                    " trajectories; the same command "
                    "goes on from what %s holds\n",
                    v.done, v.total, out);
        return TOOL_INTERRUPTED;
    }
    if (st != SR1_OK)
        return tool_failed(ranks_program(p->ranks, "sr1-data"), st);
    if (v.silent)
        return r.excluded == 0 ? TOOL_OK : TOOL_FAILED;
    print_report(out, o->keep, &r);
    remote_note("sr1-data", p->rollout);
    return check_excluded(out, &r);
}

int synth_run(const struct synth_options *o, const char *policy, const char *questions,
              const char *out, const char *const *pairs, size_t n)
{
    struct synth_inputs p = {0};
    sr1_status st = begin_synth_job(&p, policy, questions, out, pairs, n);
    int code;

    progress_wait("opening the model");
    if (st == SR1_OK)
        st = sr1_ranks_agree(p.ranks, open_synth_inputs(&p, questions));
    progress_wait(NULL);
    code = st == SR1_OK ? synthesise_demos(o, &p, out)
                        : tool_refused(ranks_program(p.ranks, "sr1-data"), st);

    sr1_reward_set_free(p.rewards);
    sr1_rollout_free(p.rollout);
    sr1_dataset_free(p.questions);
    ranks_end(p.ranks);
    sr1_config_free(p.config);
    return code;
}
