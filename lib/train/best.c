/* train/best.c - the best validation of a run by the key metric_for_best_model, as
 * transformers' Trainer and EarlyStoppingCallback compare them:
 *
 *     best    the first, then each one that is better than the best before it
 *     worse   0 after the first, and after one that is better than the best before it by
 *             more than early_stopping_threshold; else one more than before
 *
 * A figure that is no number is never better. The validation before the first step has no
 * checkpoint, and is not one of them. RUN/best leads to the checkpoint of the best. */
#include "train/internal.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/run_steps.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define LINK "best"

/* ---- its figure ---- */

static int is_step_metric(const char *name)
{
    const char *known;

    for (size_t i = 0; (known = sr1_step_metric_name(i)); i++)
        if (strcmp(known, name) == 0)
            return 1;
    return strncmp(name, "rewards/", 8) == 0;
}

sr1_status sr1__best_check_name(const char *metric)
{
    if (!*metric || is_step_metric(metric) || sr1__validation_may_have(metric))
        return SR1_OK;
    return sr1__fail(
        SR1_E_CONFIG,
        "metric_for_best_model: no line of metrics.jsonl has '%.100s'; take a "
        "figure of validations, such as val/exact_match, val/f1 or "
        "val/reward (docs/formats.md#metrics)",
        metric);
}

/* "val/exact_match, val/f1, ...": what it could have been. */
static sr1_status fail_no_figure(const sr1_trainer *tr, const json_t *row)
{
    struct sr1__buf b;
    const char *name;
    json_t *value;
    sr1_status st;

    sr1__buf_init(&b, 0);
    json_object_foreach((json_t *)(uintptr_t)row, name, value)
    {
        if (strncmp(name, "val", 3) == 0 && json_is_number(value))
            sr1__buf_fmt(&b, "%s%s", b.len ? ", " : "", name);
    }
    st = sr1__fail(SR1_E_CONFIG,
                   "metric_for_best_model: the validation has no %.100s; it has %.600s",
                   tr->set.best_metric, sr1__buf_cstr(&b));
    sr1__buf_free(&b);
    return st;
}

static int is_better(const struct sr1__settings *s, double value, double best)
{
    return s->greater_is_better ? value > best : value < best;
}

sr1_status sr1__best_take(sr1_trainer *tr, const json_t *row)
{
    const json_t *figure = json_object_get(row, tr->set.best_metric);
    double value = json_is_number(figure) ? json_number_value(figure) : NAN;
    struct sr1__best *best = &tr->best;
    int better, clearly;

    if (!*tr->set.best_metric)
        return SR1_OK;
    if (!figure && (tr->step > 0 || !is_step_metric(tr->set.best_metric)))
        return fail_no_figure(tr, row);
    if (tr->step == 0) /* it has no checkpoint */
        return SR1_OK;
    better = best->step == 0 ? !isnan(value) : is_better(&tr->set, value, best->value);
    clearly = better && (best->step == 0 ||
                         fabs(value - best->value) > tr->set.early_stopping_threshold);
    best->worse = clearly ? 0 : best->worse + 1;
    if (better) {
        best->step = tr->step;
        best->value = value;
    }
    return SR1_OK;
}

int sr1__best_is_new(const sr1_trainer *tr)
{
    return tr->best.step > 0 && tr->best.step == tr->step;
}

/* ---- checkpoints ---- */

json_t *sr1__best_pack(const sr1_trainer *tr)
{
    const struct sr1__best *b = &tr->best;

    return *tr->set.best_metric
               ? json_pack("{s:s, s:b, s:I, s:f, s:I}", "metric", tr->set.best_metric,
                           "greater_is_better", tr->set.greater_is_better, "step",
                           (json_int_t)b->step, "value", b->value, "worse",
                           (json_int_t)b->worse)
               : json_null();
}

static int is_by_same_keys(const sr1_trainer *tr, const json_t *best)
{
    const char *metric = json_string_value(json_object_get(best, "metric"));

    return metric && strcmp(metric, tr->set.best_metric) == 0 &&
           json_is_true(json_object_get(best, "greater_is_better")) ==
               (tr->set.greater_is_better != 0);
}

static int has_checkpoint(const sr1_trainer *tr, int64_t step)
{
    char *folder = sr1__run_step_folder(tr->run_folder, step, "");
    int yes = folder && sr1__dir_has(folder, SR1__STATE_FILE);

    sr1__free(folder);
    return yes;
}

void sr1__best_restore(sr1_trainer *tr, const json_t *state)
{
    const json_t *best = json_object_get(state, "best"); /* not in older checkpoints */
    int64_t step = json_integer_value(json_object_get(best, "step"));

    if (!is_by_same_keys(tr, best))
        return;
    if (step > 0 && !has_checkpoint(tr, step)) {
        sr1__log(SR1_LOG_WARN,
                 "the best checkpoint, that of step %" PRId64
                 ", is gone: the best one is looked for anew",
                 step);
        return;
    }
    tr->best = (struct sr1__best){step, json_number_value(json_object_get(best, "value")),
                                  json_integer_value(json_object_get(best, "worse"))};
}

/* ---- RUN/best ---- */

/* Is it such a link, or nothing? What else a user has put there stays. */
static sr1_status check_link(const char *path)
{
    static const char begin[] = "checkpoints/step-";
    char target[64] = "";

    if (readlink(path, target, sizeof(target) - 1) < 0 && errno == ENOENT)
        return SR1_OK;
    return strncmp(target, begin, strlen(begin)) == 0
               ? SR1_OK
               : sr1__fail(SR1_E_CONFIG, "%s is no link to a checkpoint, and stays",
                           path);
}

static sr1_status replace_link(const char *target, const char *path)
{
    struct sr1__buf temp;
    sr1_status st;

    sr1__buf_init(&temp, 0);
    sr1__buf_fmt(&temp, "%s.tmp", path);
    st = sr1__buf_status(&temp, "path");
    if (st == SR1_OK) {
        (void)unlink(temp.data);
        if (symlink(target, temp.data) != 0 || rename(temp.data, path) != 0) {
            st = sr1__fail_errno("link", path);
            (void)unlink(temp.data);
        }
    }
    sr1__buf_free(&temp);
    return st;
}

static sr1_status remove_link(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT ? SR1_OK
                                                : sr1__fail_errno("remove", path);
}

void sr1__best_link(const sr1_trainer *tr)
{
    char *path = sr1__path_join(tr->run_folder, LINK), target[64];
    sr1_status st = path ? check_link(path) : sr1__fail_nomem("path");

    snprintf(target, sizeof(target), "checkpoints/step-%" PRId64, tr->best.step);
    if (st == SR1_OK)
        st = tr->best.step > 0 ? replace_link(target, path) : remove_link(path);
    if (st != SR1_OK && *tr->set.best_metric)
        sr1__log(SR1_LOG_WARN, "%s; the best checkpoint is %s", sr1_last_error(),
                 tr->best.step > 0 ? target : "not known yet");
    sr1__free(path);
}

/* ---- the model at the end ---- */

sr1_status sr1__best_is_final(const sr1_trainer *tr, int32_t *yes)
{
    *yes = 0;
    if (!tr->set.load_best || tr->best.step == 0 || sr1__best_is_new(tr))
        return SR1_OK;
    SR1__TRY(sr1__checkpoint_is_whole(tr->run_folder, tr->best.step, yes));
    if (!*yes)
        sr1__log(SR1_LOG_WARN,
                 "the best checkpoint, that of step %" PRId64
                 ", is damaged: model/ is that of the last step",
                 tr->best.step);
    return SR1_OK;
}

sr1_status sr1__best_copy_model(const sr1_trainer *tr, const char *folder)
{
    char *from = sr1__run_step_folder(tr->run_folder, tr->best.step, "/model");
    sr1_status st = from ? sr1__dir_remove(folder) : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = sr1__dir_make(folder);
    if (st == SR1_OK)
        st = sr1__dir_pair_files(from, folder, sr1__file_copy);
    sr1__free(from);
    return st;
}
