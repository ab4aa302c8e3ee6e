/* test_rank_kills.c - a random rank of three is killed (-9) at random moments, of a run
 * with weights in parts (ZeRO-3): the others end, and the run is resumed to the bits of
 * the one that nobody killed. Every other kill comes while a checkpoint is written.
 * SR1_KILLS: how many (1 here, 20 in tests/kill/run). */
#define TINY_WIDTH "768" /* so that tensors have several chunks, and are cut */
#include "dist/job.h"
#include "dist/saved.h"

#include "base/rng.h"
#include "config/run_steps.h"

#include <dirent.h>

#define NOTICE_SECONDS 60.0 /* far beyond the two seconds that they take */

static double seconds_of_whole, slowest;
static int writing; /* kills that met a checkpoint under way */

static const char *const keys[] = {"fsdp_size=-1",          "reshard_after_forward=true",
                                   "forward_prefetch=true", "save_interval=1",
                                   "validate_interval=0",   "max_steps=8"};
#define KEYS (sizeof keys / sizeof keys[0])

static void start_in_parts(struct job *j, const char *run)
{
    const char *args[KEYS + 3] = {recipe, out_of(run)};

    for (size_t i = 0; i < KEYS; i++)
        args[2 + i] = keys[i];
    start_job(j, 0, args);
}

static void wait_for_folder(const char *run)
{
    for (int i = 0; i < 15000 && access(scratch_path(run), F_OK) != 0; i++)
        usleep(2000);
}

/* Is a checkpoint's folder there that is not whole yet? */
static int is_writing(const char *run)
{
    DIR *d = opendir(in_run(run, "checkpoints"));
    struct dirent *e;
    int found = 0;

    while (d && (e = readdir(d)))
        found |= strstr(e->d_name, SR1__STEP_TEMPORARY) != NULL;
    if (d)
        closedir(d);
    return found;
}

static void a_run_that_nobody_kills(void **state)
{
    struct job j;
    double began;

    (void)state;
    start_in_parts(&j, "whole");
    wait_for_folder("whole");
    began = sr1__now();
    end_job_with(&j, 0);
    seconds_of_whole = sr1__now() - began;
}

static void same_states_of_parts(const char *run)
{
    for (int rank = 0; rank < world; rank++) {
        char file[120], a[700];

        snprintf(file, sizeof file,
                 "checkpoints/step-8/optimizer/part-%05d-of-%05d.safetensors", rank + 1,
                 world);
        snprintf(a, sizeof a, "%s", in_run("whole", file));
        same_file(a, in_run(run, file));
    }
}

static void resume_in_parts(const char *run)
{
    struct job j;

    if (access(in_run(run, "run.json"), F_OK) != 0) { /* it had not begun */
        OK(sr1__dir_remove(scratch_path(run)));
        start_in_parts(&j, run);
    } else {
        START_JOB(&j, "--resume", scratch_path(run));
    }
    end_job_with(&j, 0);
    assert_int_equal(count_file_lines(in_run(run, "metrics.jsonl")), 8);
    same_model("whole", run);
    same_states_of_parts(run);
    OK(sr1__dir_remove(scratch_path(run)));
}

/* Returns whether it landed: else the run was over. */
static int end_after_kill(struct job *j, int victim)
{
    double began = sr1__now(), took;
    int over = 0;

    kill(j->pids[victim], SIGKILL);
    for (int rank = 0; rank < world; rank++) {
        int code = rank == victim ? 0 : end_of_rank(j->pids[rank], NOTICE_SECONDS);

        over |= rank != victim && code == 0;
        if (code != 0 &&
            (code != 1 || !file_says(stream_of(rank, "err"), "a rank is gone"))) {
            show_errors();
            fail_msg("rank %d ended with %d", rank, code);
        }
    }
    took = sr1__now() - began;
    over |= end_of_rank(j->pids[victim], 5) == 0;
    if (!over && took > slowest)
        slowest = took;
    return !over;
}

static int kill_once(struct sr1__rng *rng, int number, double *window)
{
    int victim = (int)(sr1__rng_uniform(rng) * world), landed, met;
    double delay = sr1__rng_uniform(rng) * *window, began;
    char run[32];
    struct job j;

    snprintf(run, sizeof run, "killed-%d", number);
    start_in_parts(&j, run);
    wait_for_folder(run);
    usleep((useconds_t)(delay * 1e6));
    began = sr1__now();
    while (number % 2 == 0 && !is_writing(run) && sr1__now() - began < 2)
        usleep(200);
    usleep(number % 2 == 0 ? (useconds_t)(sr1__rng_uniform(rng) * 5000) : 0);
    met = is_writing(run);
    landed = end_after_kill(&j, victim);
    if (landed)
        printf("rank %d killed after %.2f s%s\n", victim, delay,
               met ? ", a checkpoint under way" : "");
    else
        *window *= 0.7;
    writing += landed && met;
    resume_in_parts(run);
    return landed;
}

static void random_kills_are_resumed_to_the_same_bits(void **state)
{
    const char *wanted = getenv("SR1_KILLS");
    int kills = wanted ? atoi(wanted) : 1, landed = 0;
    double window = seconds_of_whole;
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, (uint64_t)time(NULL), 2);
    for (int i = 0; landed < kills; i++) {
        assert_true(i < 10 * kills);
        landed += kill_once(&rng, i, &window);
    }
    printf("%d kills, %d of them while a checkpoint was written; the others ended within "
           "%.2f s\n",
           landed, writing, slowest);
}

static int make_files(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    world = 3;
    make_recipe_file();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_nobody_kills),
        cmocka_unit_test(random_kills_are_resumed_to_the_same_bits),
    };

    return cmocka_run_group_tests(tests, make_files, scratch_remove);
}
