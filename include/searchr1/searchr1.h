/* searchr1/searchr1.h - the core of the public interface of libsearchr1: what it declares
 * keeps working. The rest is in searchr1/ext (searchr1/ext/ext.h).
 *
 * Train a language model to think, search and answer, as one configuration says:
 *
 *     #include <searchr1/searchr1.h>
 *     #include <stdio.h>
 *
 *     static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
 *     {
 *         (void)user;
 *         printf("step %d of %d: reward %.3f, loss %.4f\n", (int)r->step, (int)planned,
 *                r->avg_reward, r->loss);
 *         return SR1_OK;
 *     }
 *
 *     int main(void)
 *     {
 *         sr1_run_callbacks callbacks = { .struct_size = sizeof callbacks,
 *                                         .step = on_step };
 *         sr1_config *config = NULL;
 *         sr1_trainer *trainer = NULL;
 *         sr1_status status = sr1_config_new(&config);
 *
 *         if (status == SR1_OK)
 *             status = sr1_config_load(config, "train.yaml");
 *         if (status == SR1_OK)
 *             status = sr1_config_set(config, "group_size", "8");
 *         if (status == SR1_OK)
 *             status = sr1_trainer_new(&trainer, config, NULL);
 *         if (status == SR1_OK)
 *             status = sr1_trainer_run(trainer, &callbacks);
 *         if (status == SR1_OK)
 *             status = sr1_trainer_save_model(trainer, "trained");
 *         if (status != SR1_OK)
 *             fprintf(stderr, "%s: %s\n", sr1_status_name(status), sr1_last_error());
 *         sr1_trainer_free(trainer);
 *         sr1_config_free(config);
 *         return status == SR1_OK ? 0 : 1;
 *     }
 *
 * Three contracts hold for every function, unless its comment says otherwise.
 *
 * Ownership. sr1_x_new and sr1_x_open build a handle whole or not at all; free it with
 * sr1_x_free, which accepts NULL. A call that keeps a handle takes a reference of its
 * own, so the caller still frees what it made. Pointers that getters return are borrowed
 * from their first argument until it next changes. The comments use three phrases:
 * "caller frees with", "borrowed until", "copied". A handle that is freed by a callback
 * of its own (an engine within its search, a trainer within a reward) lives until the
 * call that runs the callback returns.
 *
 * Errors. A function that can fail returns sr1_status: SR1_OK or a negative code. On
 * failure its outputs are as they were, and sr1_last_error() on the same thread says what
 * was wrong, where, and what to do. The library never prints and never ends the process.
 *
 * Threads. One handle is used by one thread at a time; different handles are independent.
 * Error text belongs to the thread. The library starts threads of its own: those that
 * compute end with the call or the run that started them, those that serve connections,
 * programs and trackers with their handle. Callbacks of one call come one at a time,
 * except those that are made to run side by side: registered losses, and engines,
 * environments, tools, embedders, rerankers and generators whose flags say CONCURRENT.
 *
 * Structs that are passed in or filled begin with struct_size, which the caller sets to
 * sizeof: later versions append fields and never change those that are there. */
#ifndef SEARCHR1_SEARCHR1_H
#define SEARCHR1_SEARCHR1_H

#include <searchr1/base.h>
#include <searchr1/config.h>
#include <searchr1/data.h>
#include <searchr1/search.h>
#include <searchr1/trajectory.h>
#include <searchr1/env.h>
#include <searchr1/reward.h>
#include <searchr1/advantage.h>
#include <searchr1/loss.h>
#include <searchr1/model.h>
#include <searchr1/rollout.h>
#include <searchr1/trainer.h>

#endif
