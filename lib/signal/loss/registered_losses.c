/* signal/loss/registered_losses.c - losses of the program's own. Each is a choice of the
 * key `loss` from then on, and a row like those of losses.def. */
#include "signal/loss/loss.h"

#include "base/mem.h"
#include "base/struct.h"
#include "config/added_choices.h"
#include "environment/env/callback.h"

#include <math.h>

const struct sr1__loss_row *sr1__registered_loss(size_t i)
{
    return sr1__added_choice_at("loss", i);
}

/* ---- one call ---- */

static sr1_status check_loss_terms(const struct sr1__loss_call *c)
{
    for (size_t i = 0; i < c->b.n; i++) {
        if (!isfinite(c->terms.values[i]) || !isfinite(c->terms.slopes[i]))
            return sr1__fail(SR1_E_NUMERIC,
                             "loss '%s': token %zu of %zu: the value %g or the slope %g "
                             "is not finite",
                             c->row->name, i, c->b.n, c->terms.values[i],
                             c->terms.slopes[i]);
        if (c->terms.bounds[i] > SR1_LOSS_BOUND_DUAL)
            return sr1__fail(SR1_E_INVALID,
                             "loss '%s': token %zu of %zu: %d is no SR1_LOSS_BOUND_*",
                             c->row->name, i, c->b.n, (int)c->terms.bounds[i]);
    }
    return SR1_OK;
}

sr1_status sr1__loss_terms_make(struct sr1__loss_call *c)
{
    const struct sr1__loss_row *row = c->row;
    struct sr1__error before;
    size_t n = c->b.n;

    if (n == 0)
        return SR1_OK;
    c->terms.struct_size = sizeof(c->terms);
    c->terms.values = sr1__calloc(n, 2 * sizeof(double) + 1);
    if (!c->terms.values)
        return sr1__fail_nomem("loss");
    c->terms.slopes = c->terms.values + n;
    c->terms.bounds = (uint8_t *)(c->terms.slopes + n);
    sr1__callback_begin(&before);
    SR1__TRY(sr1__callback_end(&before,
                               row->ops.compute(row->self, &c->b, &c->o, &c->terms),
                               "loss", row->name));
    return check_loss_terms(c);
}

void sr1__loss_terms_free(struct sr1__loss_call *c)
{
    sr1__free(c->terms.values);
    c->terms = (sr1_loss_terms){0};
}

/* ---- registering ---- */

static sr1_status check_loss_ops(const sr1_loss_ops *ops)
{
    if (!ops->name || !ops->compute)
        return sr1__fail(SR1_E_INVALID, "loss: ops need a name and compute");
    if (ops->needs & ~(int64_t)(2 * SR1_LOSS_NEEDS_SEQUENCES - 1))
        return sr1__fail(SR1_E_INVALID,
                         "loss '%.64s': needs 0x%llx is no SR1_LOSS_NEEDS_*", ops->name,
                         (unsigned long long)ops->needs);
    if (sr1__loss_find(ops->name))
        return sr1__fail(SR1_E_INVALID, "loss '%.64s' is taken; choose another name",
                         ops->name);
    return SR1_OK;
}

static sr1_status read_loss_defaults(struct sr1__loss_row *row)
{
    const struct sr1__aggregation *known = NULL;
    const sr1_loss_options *given = row->ops.defaults;

    row->defaults = sr1__loss_find("grpo")->defaults;
    if (given)
        row->defaults = (sr1_loss_options){0};
    SR1__TRY(sr1__struct_take(&row->defaults, sizeof(row->defaults), given,
                              SR1__STRUCT_END(sr1_loss_options, clip_high),
                              "loss options"));
    row->defaults.kl_kind = row->defaults.correction = NULL;
    row->aggregation = row->ops.aggregation ? row->ops.aggregation : "token-mean";
    return sr1__aggregation_find(row->aggregation, &known);
}

/* The row lives as long as the process; so do its texts. */
static sr1_status copy_loss_texts(struct sr1__loss_row *row)
{
    const sr1_loss_ops *ops = &row->ops;

    row->name = sr1__strdup(ops->name);
    row->formula = sr1__strdup(ops->formula ? ops->formula : "");
    row->source = sr1__strdup(ops->source ? ops->source : "");
    row->options = sr1__strdup(ops->options ? ops->options : "");
    row->aggregation = sr1__strdup(row->aggregation);
    return row->name && row->formula && row->source && row->options && row->aggregation
               ? SR1_OK
               : sr1__fail_nomem("loss");
}

static void free_loss_texts(struct sr1__loss_row *row)
{
    sr1__free((void *)(uintptr_t)row->name);
    sr1__free((void *)(uintptr_t)row->formula);
    sr1__free((void *)(uintptr_t)row->source);
    sr1__free((void *)(uintptr_t)row->options);
    sr1__free((void *)(uintptr_t)row->aggregation);
}

static sr1_status read_loss_ops(struct sr1__loss_row *row, const sr1_loss_ops *given)
{
    if (!given)
        return sr1__fail(SR1_E_INVALID, "loss: ops is NULL");
    SR1__TRY(sr1__struct_take(&row->ops, sizeof(row->ops), given,
                              SR1__STRUCT_END(sr1_loss_ops, compute), "loss: ops"));
    SR1__TRY(check_loss_ops(&row->ops));
    row->needs = (int32_t)row->ops.needs | SR1_LOSS_NEEDS_OLD | SR1_LOSS_NEEDS_ADVANTAGES;
    row->ratio = SR1__RATIO_TOKEN;
    return read_loss_defaults(row);
}

sr1_status sr1_loss_register(const sr1_loss_ops *ops, void *self)
{
    struct sr1__loss_row *row = sr1__calloc(1, sizeof(*row));
    sr1_status st;

    if (!row)
        return sr1__fail_nomem("loss");
    row->self = self;
    st = read_loss_ops(row, ops);
    if (st == SR1_OK) {
        st = copy_loss_texts(row);
        if (st == SR1_OK)
            st = sr1__added_choice("loss", row->name, row);
        if (st != SR1_OK)
            free_loss_texts(row);
    }
    if (st != SR1_OK)
        sr1__free(row);
    return st;
}
