/* searchr1/ext/plan.h - how much memory and disk a run will take, before anything is
 * loaded.
 *
 * A plan is computed from a configuration and from the shapes of its models: config.json
 * and the headers of safetensors files are read, no weights. It takes every trajectory to
 * be as long as the limits allow, so a run takes at most about this much.
 *
 * Ownership: free a plan with sr1_plan_free; its texts are borrowed until then.
 * Errors:    outputs are untouched on failure.
 * Threads:   a plan does not change and can be read from any thread.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_PLAN_H
#define SEARCHR1_EXT_PLAN_H

#include <searchr1/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_plan sr1_plan;

/* Plan the run of a configuration. model_name_or_path is a model's folder, with or
 * without weights, or a config.json. memory_gb: memory of the device in units of 10^9
 * bytes, to plan for one that is not here (device auto is then a CUDA device); 0: what is
 * free on the device of this machine. SR1_E_CONFIG: a key is wrong, or model_name_or_path
 * is not set. SR1_E_NOT_FOUND: no such folder. SR1_E_UNSUPPORTED: not a model of a shape
 * that is known here. SR1_E_DEVICE: the device is not here and memory_gb is 0. Caller
 * frees with sr1_plan_free. */
SR1_API sr1_status sr1_plan_new(sr1_plan **out, const sr1_config *config,
                                double memory_gb);

/* Free a plan. NULL is fine. */
SR1_API void sr1_plan_free(sr1_plan *plan);

/* Return the plan as a table for people: what takes memory in which phase, the peaks,
 * whether it fits, and keys that lower the peak. Borrowed until the plan is freed. "" for
 * NULL. */
SR1_API const char *sr1_plan_text(const sr1_plan *plan);

/* Return the same as a JSON object (docs/memory.md has its members). Borrowed until the
 * plan is freed. "" for NULL. */
SR1_API const char *sr1_plan_json(const sr1_plan *plan);

/* Return the peak bytes on the device of one phase ("load", "generate", "log_probs",
 * "update_critic", "router_replay", "update", "save"), or of the largest (NULL). On the
 * CPU all memory of the process. -1 for an unknown phase or a NULL plan. */
SR1_API int64_t sr1_plan_peak(const sr1_plan *plan, const char *phase);

/* Return 1 if the peak fits into the device's memory, 0 if it does not; -1 for NULL. */
SR1_API int32_t sr1_plan_fits(const sr1_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
