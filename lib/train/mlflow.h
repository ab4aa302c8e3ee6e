/* train/mlflow.h - the metrics of a run to an MLflow server, by its REST API.
 *
 * metrics.jsonl is the buffer: a thread sends the rows that the server does not have yet,
 * and RUN/mlflow.json says which run of the server that is and how far it got. A server
 * that is down delays nothing: its rows wait in the file, one warning is logged, and they
 * are sent when it answers, also by the run that goes on later. */
#ifndef SR1__TRAIN_MLFLOW_H
#define SR1__TRAIN_MLFLOW_H

#include <searchr1/config.h>

struct sr1__mlflow;

/* SR1_E_CONFIG: the address, or a variable that goes with it, is wrong. */
sr1_status sr1__mlflow_check(const sr1_config *config);

/* *out NULL where the key mlflow_tracking_uri is empty. run_folder has metrics.jsonl and
 * config.json. Nothing is sent yet. Errors as sr1__mlflow_check. */
sr1_status sr1__mlflow_open(struct sr1__mlflow **out, const sr1_config *config,
                            const char *run_folder, uint64_t size);

/* metrics.jsonl has so many bytes now; returns at once. NULL is fine. */
void sr1__mlflow_tell(struct sr1__mlflow *m, uint64_t size);

/* Send what is left and how the run ended, for 15 seconds at most; what is not sent by
 * then is said. NULL is fine. */
void sr1__mlflow_close(struct sr1__mlflow *m, sr1_status outcome);

#endif
