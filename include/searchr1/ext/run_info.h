/* searchr1/ext/run_info.h - what a run is going to do, where it stands, and signs that
 * it goes wrong.
 *
 * Ownership: texts are borrowed as their comments say.
 * Errors:    outputs are untouched on failure.
 * Threads:   as the trainer; alarms share no state.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_RUN_INFO_H
#define SEARCHR1_EXT_RUN_INFO_H

#include <searchr1/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a run is going to do, and the room it needs. Texts are borrowed until the trainer
 * is freed. */
typedef struct sr1_run_plan {
    size_t struct_size;
    const char *device; /* of the policy: "cpu", "cuda:0" */
    const char *dtype;  /* its weights: "fp32", "bf16", "fp16" */
    int64_t parameters; /* of the policy */
    int64_t rows;       /* questions or demonstrations; 0 when there are none */
    int64_t validation_rows;
    int64_t steps_done;
    int64_t steps;            /* in all */
    int64_t checkpoint_bytes; /* of one, without its small files */
    int64_t model_bytes;      /* of the model written at the end; 0: none is */
    int64_t disk_bytes;       /* most that these and served/ take at once */
    int64_t disk_free;        /* where the run folder is, or will be; -1: not known */
    int64_t memory_bytes;     /* taken now: on the device, or by the process on the CPU */
    int64_t trained; /* numbers that are trained: an adapter's, else all parameters */
    /* By which stop_at_exact_match ended the run at its last step; 0: it did not */
    double reached_exact_match;
    /* Values of these keys, where the configuration left them to the plan (0); else 0 */
    int64_t chosen_micro_batch_tokens;
    int64_t chosen_max_rows;
    /* The key that ended the run at its last step (stop_at_exact_match,
     * early_stopping_patience, stop_at_kl, stop_below_entropy), and by what, in words;
     * both "" where none did */
    const char *stopped_by;
    const char *stopped_why;
    /* The best validation so far (metric_for_best_model); 0: there is none */
    int64_t best_step;
    double best_value;
} sr1_run_plan;

/* Fill *out (struct_size set) with what sr1_trainer_run is going to do. Nothing is
 * written. */
SR1_API sr1_status sr1_trainer_plan(const sr1_trainer *trainer, sr1_run_plan *out);

/* Return the step of the newest checkpoint of the run, from which it would resume; -1 if
 * it has none. */
SR1_API int64_t sr1_trainer_steps_saved(const sr1_trainer *trainer);

/* Return the number of this process among those of its job, from 0; 0 where no launcher
 * started several (docs/scale.md). All of them make the same calls of the trainer; rank 0
 * alone writes the run's folder. */
SR1_API int32_t sr1_trainer_rank(const sr1_trainer *trainer);

/* Return the number of processes of the job; 1 where no launcher started several. */
SR1_API int32_t sr1_trainer_world_size(const sr1_trainer *trainer);

/* Return the name of alarm i, NULL past the last; the metrics have it as
 * health/alarm_NAME. Static. */
SR1_API const char *sr1_alarm_name(size_t i);

/* Return one sentence about alarm i with what to do, NULL past the last. Static. */
SR1_API const char *sr1_alarm_text(size_t i);

#ifdef __cplusplus
}
#endif
#endif
