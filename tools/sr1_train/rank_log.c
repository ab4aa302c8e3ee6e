/* rank_log.c - see rank_log.h. A log that cannot be written ends no run. */
#include "sr1_train/rank_log.h"

#include <searchr1/ext/run_info.h>

#include <sys/stat.h>

static FILE *open_rank_file(const struct rank_log *l)
{
    char path[4096];
    const char *folder = sr1_trainer_run_folder(l->trainer);

    snprintf(path, sizeof(path), "%s/logs", folder);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof(path), "%s/logs/rank-%d.log", folder,
             (int)sr1_trainer_rank(l->trainer));
    return fopen(path, "ae");
}

static void write_rank_line(struct rank_log *l, const char *text)
{
    if (!l->file)
        l->file = open_rank_file(l);
    if (!l->file)
        return;
    fprintf(l->file, "%s\n", text);
    fflush(l->file);
}

/* The first note comes when the folder is there. */
static void on_rank_note(void *user, const char *text)
{
    write_rank_line(user, text);
}

static sr1_status on_rank_step(void *user, const sr1_step_report *r, int64_t planned)
{
    char line[256];

    snprintf(line, sizeof(line), "step %lld/%lld  loss %.4f  reward %.3f  %.1fs",
             (long long)r->step, (long long)planned, r->loss, r->avg_reward, r->seconds);
    write_rank_line(user, line);
    return SR1_OK;
}

static void on_rank_warning(void *user, int32_t level, const char *text)
{
    struct rank_log *l = user;

    if (level < SR1_LOG_WARN)
        return;
    fprintf(stderr, "rank %d: warning: %s\n", (int)sr1_trainer_rank(l->trainer), text);
    if (l->file) {
        fprintf(l->file, "warning: %s\n", text);
        fflush(l->file);
    }
}

void rank_log_begin(struct rank_log *l, const sr1_trainer *trainer, sr1_run_callbacks *cb)
{
    *l = (struct rank_log){.trainer = trainer};
    snprintf(l->program, sizeof(l->program), "sr1-train, rank %d",
             (int)sr1_trainer_rank(trainer));
    cb->user = l;
    cb->step = on_rank_step;
    cb->note = on_rank_note;
    sr1_log_set(on_rank_warning, l);
}

void rank_log_end(struct rank_log *l)
{
    sr1_log_set(NULL, NULL);
    if (l->file)
        (void)fclose(l->file);
}
