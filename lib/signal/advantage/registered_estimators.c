/* signal/advantage/registered_estimators.c - estimators of the program's own. Each is a
 * choice of the key `advantage` from then on, and a row like those of estimators.def. */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"
#include "base/struct.h"
#include "config/added_choices.h"
#include "environment/env/callback.h"

#define ALL_NEEDS (2 * SR1_ADVANTAGE_NEEDS_SCORE_NORMS - 1)
#define ALL_GIVES                                                                        \
    (SR1_ADVANTAGE_GIVES_TOKENS | SR1_ADVANTAGE_GIVES_RETURNS |                          \
     SR1_ADVANTAGE_GIVES_TURNS | SR1_ADVANTAGE_GIVES_GROUP_RELATIVE)

const struct sr1__estimator *sr1__registered_estimator(size_t i)
{
    return sr1__added_choice_at("advantage", i);
}

/* ---- one call ---- */

static sr1_status call_estimator(struct sr1__advantage_call *a, float *tokens,
                                 float *returns)
{
    const sr1_advantage_ops *ops = &a->row->ops;
    sr1_advantage_outputs out = {.struct_size = sizeof out};
    struct sr1__error before;

    out.advantages = ops->gives & SR1_ADVANTAGE_GIVES_TOKENS ? NULL : a->each;
    out.token_advantages = ops->gives & SR1_ADVANTAGE_GIVES_TOKENS ? tokens : NULL;
    out.returns = ops->gives & SR1_ADVANTAGE_GIVES_RETURNS ? returns : NULL;
    out.turn_advantages = ops->gives & SR1_ADVANTAGE_GIVES_TURNS ? a->turns : NULL;
    sr1__callback_begin(&before);
    return sr1__callback_end(&before, ops->estimate(a->row->self, a->b, a->o, &out),
                             "advantage", ops->name);
}

static sr1_status estimate_registered(struct sr1__advantage_call *a)
{
    size_t i, n = a->n_tokens;
    float *room = sr1__calloc(2 * n + 1, sizeof *room);
    sr1_status status = room != NULL ? SR1_OK : sr1__fail_nomem("advantages");

    if (status == SR1_OK && a->n > 0)
        status = call_estimator(a, room, room + n);
    for (i = 0; status == SR1_OK && i < n; i++) {
        a->tokens[i] = (double)room[i];
        a->returns[i] = (double)room[n + i];
    }
    sr1__free(room);
    return status;
}

/* ---- registering ---- */

static sr1_status check_estimator_ops(const sr1_advantage_ops *ops)
{
    if (ops->name == NULL || ops->estimate == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage: ops need a name and estimate");
    if (ops->needs < 0 || ops->needs > ALL_NEEDS)
        return sr1__fail(SR1_E_INVALID,
                         "advantage '%.64s': needs 0x%x is no SR1_ADVANTAGE_NEEDS_*",
                         ops->name, (unsigned)ops->needs);
    if ((ops->gives & ~ALL_GIVES) != 0)
        return sr1__fail(SR1_E_INVALID,
                         "advantage '%.64s': gives 0x%x is no SR1_ADVANTAGE_GIVES_*",
                         ops->name, (unsigned)ops->gives);
    return SR1_OK;
}

/* What is written by token or turn needs the maps to them. */
static int32_t complete_needs(const sr1_advantage_ops *ops)
{
    int32_t needs = ops->needs;

    if (ops->gives & (SR1_ADVANTAGE_GIVES_TOKENS | SR1_ADVANTAGE_GIVES_RETURNS))
        needs |= SR1_ADVANTAGE_NEEDS_TOKENS;
    if (ops->gives & SR1_ADVANTAGE_GIVES_TURNS)
        needs |= SR1_ADVANTAGE_NEEDS_TOKENS | SR1_ADVANTAGE_NEEDS_TURNS;
    return needs;
}

static sr1_status read_defaults(const sr1_advantage_ops *ops, sr1_advantage_options *out)
{
    const struct sr1__estimator *grpo = NULL;

    SR1__TRY(sr1__estimator_find("grpo", &grpo));
    *out = grpo->published;
    return sr1__struct_take(out, sizeof *out, ops->defaults,
                            SR1__STRUCT_END(sr1_advantage_options, eps),
                            "advantage options");
}

/* The row lives as long as the process; so do its texts. */
static sr1_status copy_texts(struct sr1__estimator *row)
{
    sr1_advantage_info *info = &row->info;
    const sr1_advantage_ops *ops = &row->ops;

    info->struct_size = sizeof *info;
    info->name = sr1__strdup(ops->name);
    info->formula = sr1__strdup(ops->formula != NULL ? ops->formula : "");
    info->source = sr1__strdup(ops->source != NULL ? ops->source : "");
    info->options = sr1__strdup(ops->options != NULL ? ops->options : "");
    info->needs = complete_needs(ops);
    info->gives = ops->gives;
    row->ops.name = info->name;
    return info->name && info->formula && info->source && info->options
               ? SR1_OK
               : sr1__fail_nomem("advantage");
}

static void free_estimator(struct sr1__estimator *row)
{
    sr1__free((void *)(uintptr_t)row->info.name);
    sr1__free((void *)(uintptr_t)row->info.formula);
    sr1__free((void *)(uintptr_t)row->info.source);
    sr1__free((void *)(uintptr_t)row->info.options);
    sr1__free(row);
}

sr1_status sr1_advantage_register(const sr1_advantage_ops *given, void *self)
{
    struct sr1__estimator *row = sr1__calloc(1, sizeof *row);
    sr1_status status;

    if (row == NULL)
        return sr1__fail_nomem("advantage");
    row->estimate = estimate_registered;
    row->self = self;
    status = given != NULL
                 ? sr1__struct_take(&row->ops, sizeof row->ops, given,
                                    SR1__STRUCT_END(sr1_advantage_ops, estimate),
                                    "advantage: ops")
                 : sr1__fail(SR1_E_INVALID, "advantage: ops is NULL");
    if (status == SR1_OK)
        status = check_estimator_ops(&row->ops);
    if (status == SR1_OK)
        status = read_defaults(&row->ops, &row->published);
    if (status == SR1_OK)
        status = copy_texts(row);
    if (status == SR1_OK)
        status = sr1__added_choice("advantage", row->info.name, row);
    if (status != SR1_OK)
        free_estimator(row);
    return status;
}
