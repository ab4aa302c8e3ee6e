/* train/plan.c - the memory and disk that a run takes, from its configuration and the
 * shapes of its models. */
#include "train/plan.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/mem.h"
#include "policy/assemble/assemble.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static sr1_status resolve_here(sr1_plan *p, const char *name)
{
    uint64_t room = 0;
    sr1_status st = sr1__device_resolve(name, &p->device);

    if (st == SR1_E_DEVICE)
        return sr1__context(st, "to plan for a device that is not here give its memory "
                                "(sr1-train --plan --memory 24)");
    SR1__TRY(st);
    SR1__TRY(sr1__device_room(p->device, &room));
    p->memory = p->device == SR1__CPU ? (double)sr1__available_bytes() : (double)room;
    if (p->memory <= 0)
        p->memory = (double)room;
    return SR1_OK;
}

/* One that need not be here: CUDA, unless the configuration names another. */
static sr1_status assume_device(sr1_plan *p, const char *name, double memory_gb)
{
    p->memory = memory_gb * 1e9;
    p->given = 1;
    p->device = SR1__CUDA;
    if (strcmp(name, "auto") == 0 || strncmp(name, "cuda", 4) == 0)
        return SR1_OK;
    return sr1__device_resolve(name, &p->device);
}

static sr1_status choose_place(sr1_plan *p, double memory_gb)
{
    const char *name = sr1__config_str(p->config, "device");

    SR1__TRY(memory_gb > 0 ? assume_device(p, name, memory_gb) : resolve_here(p, name));
    p->device_name = sr1__device_name(p->device);
    if (p->device != SR1__CPU && !p->given)
        p->host_memory = (double)sr1__available_bytes();
    return SR1_OK;
}

static sr1_status find_disk(sr1_plan *p)
{
    char *folder = sr1__folder_name(p->config);

    SR1__CHECK_ALLOC(folder, "run folder");
    p->disk_free = (double)sr1__disk_free(folder);
    sr1__free(folder);
    return SR1_OK;
}

/* As sr1__reference_open: int8 matrices need a reference of its own, and the reviser of
 * critiques may hold it already. */
static sr1_status check_quantized_reference(const sr1_plan *p)
{
    const sr1_config *c = p->config;
    const char *proxy = sr1__config_str(c, "proxy_model");
    const char *dtype = sr1__config_str(c, "reference_dtype");
    struct sr1__settings set;

    SR1__TRY(sr1__settings_read(&set, c));
    if (!set.frozen_reference || !p->shapes.has_reviser ||
        sr1__config_is(c, "reference_quantization", "none") ||
        (*proxy && !sr1__config_is(c, "model_name_or_path", proxy)) ||
        (strcmp(dtype, "auto") != 0 && !sr1__config_is(c, "dtype", dtype)))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "reference_quantization %s: the reference takes no memory of its "
                     "own, as it is the proxy_model, which is loaded anyway; set "
                     "reference_quantization to none",
                     sr1__config_str(c, "reference_quantization"));
}

/* What a run refuses once its models are there. */
static sr1_status check_planned_models(const sr1_plan *p)
{
    if (p->shapes.stored.rank > 0)
        SR1__TRY(sr1__adapter_check(&p->shapes.stored, &p->shapes.policy, p->config));
    return check_quantized_reference(p);
}

static sr1_status begin_plan(sr1_plan *p, double memory_gb)
{
    SR1__TRY(sr1__settings_resolve(p->config));
    SR1__TRY(sr1__config_validate_shape(p->config));
    SR1__TRY(sr1__plan_shapes_read(&p->shapes, p->config));
    SR1__TRY(check_planned_models(p));
    SR1__TRY(choose_place(p, memory_gb));
    return sr1__plan_choose(p);
}

static sr1_status make_plan(sr1_plan *p, double memory_gb)
{
    SR1__TRY(begin_plan(p, memory_gb));
    SR1__TRY(sr1__plan_figure(&p->figures, p->config, &p->shapes, p->device));
    SR1__TRY(find_disk(p));
    SR1__TRY(sr1__plan_advise(p));
    SR1__TRY(sr1__plan_write_text(p));
    return sr1__plan_write_json(p);
}

sr1_status sr1_plan_new(sr1_plan **out, const sr1_config *config, double memory_gb)
{
    sr1_plan *p;
    sr1_status st;

    SR1__REQUIRE(out && config, "plan: out and config");
    if (!(memory_gb >= 0 && memory_gb <= 1e6))
        return sr1__fail(SR1_E_INVALID,
                         "plan: memory_gb is %g, not between 0 and 1000000", memory_gb);
    SR1__CALLOC(p, 1, "plan");
    st = sr1_config_copy(&p->config, config);
    if (st == SR1_OK)
        st = make_plan(p, memory_gb);
    SR1__RETURN_NEW(out, p, st, sr1_plan_free);
}

static int is_left_to_plan(const sr1_config *c)
{
    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++)
        if (sr1__config_int(c, sr1__plan_chosen_key(i)) == 0)
            return 1;
    return 0;
}

static sr1_status take_chosen(const sr1_plan *p, sr1_config *c,
                              struct sr1__chosen *chosen)
{
    char text[32];

    SR1__TRY(sr1__plan_check_chosen(p));
    for (size_t i = 0; i < SR1__PLAN_CHOSEN; i++) {
        snprintf(text, sizeof text, "%lld", (long long)p->chosen[i]);
        if (p->chosen[i] > 0)
            SR1__TRY(sr1_config_set(c, sr1__plan_chosen_key(i), text));
    }
    chosen->micro_batch_tokens = p->chosen[SR1__PLAN_MICRO_BATCH_TOKENS];
    chosen->max_rows = p->chosen[SR1__PLAN_MAX_ROWS];
    return SR1_OK;
}

sr1_status sr1__settings_choose(sr1_config *c, struct sr1__chosen *chosen)
{
    sr1_plan *p;
    sr1_status st;

    if (!is_left_to_plan(c))
        return SR1_OK;
    SR1__CALLOC(p, 1, "plan");
    st = sr1_config_copy(&p->config, c);
    if (st == SR1_OK)
        st = begin_plan(p, 0);
    if (st == SR1_OK)
        st = take_chosen(p, c, chosen);
    sr1_plan_free(p);
    return st;
}

void sr1_plan_free(sr1_plan *plan)
{
    if (!plan)
        return;
    sr1_config_free(plan->config);
    sr1__free(plan->text);
    sr1__free(plan->json);
    sr1__free(plan);
}

const char *sr1_plan_text(const sr1_plan *plan)
{
    return plan ? plan->text : "";
}

const char *sr1_plan_json(const sr1_plan *plan)
{
    return plan ? plan->json : "";
}

int64_t sr1_plan_peak(const sr1_plan *plan, const char *phase)
{
    if (!plan)
        return -1;
    if (!phase)
        return (int64_t)plan->figures.peak;
    for (size_t k = 0; k < SR1__PLAN_PHASES; k++)
        if (strcmp(sr1__plan_phases[k], phase) == 0)
            return (int64_t)plan->figures.peaks[k][SR1__PLAN_DEVICE];
    return -1;
}

int32_t sr1_plan_fits(const sr1_plan *plan)
{
    return plan ? sr1__plan_fits(plan, &plan->figures) : -1;
}
