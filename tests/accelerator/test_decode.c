/* Decoding on the device: the CPU's tokens and log-probs, and no more traffic between the
 * device and the host than a step needs. */
#include "accelerator/accelerator.h"
#include "check.h"
#include "tensor/model/adapter.h"
#include "tensor/model/model_decoder.h"

#include <searchr1/ext/model_details.h>

#define VOCAB 128
#define ROWS 4
#define NEW 40
#define PROMPT_MOST 9

static struct accelerator_counts counted(void)
{
    struct accelerator_counts c;

    accelerator_read(&c);
    return c;
}

static sr1_model *open_model(const char *name, const char *device)
{
    sr1_model_options options = {
        .struct_size = sizeof options, .device = device, .dtype = "fp32"};
    sr1_model *m = NULL;
    char path[600];

    snprintf(path, sizeof path, "%s/tests/golden/model/%s", getenv("SR1_SRC"), name);
    OK(sr1_model_open(&m, path, &options));
    return m;
}

static const char *const cases[] = {"qwen3-tied", "qwen3-group8-sharded", "qwen3-bias",
                                    "qwen2-tied", "llama-scaled",         "qwen3-yarn",
                                    "qwen3-moe"};
#define N_CASES (sizeof cases / sizeof *cases)

/* ---- the same as the CPU ---- */

/* Kernel by kernel? */
static int eager;

static struct sr1__decoder *new_decoder(sr1_model *m, int32_t rows, int64_t tokens)
{
    struct sr1__decoder *d = NULL;

    OK(sr1__decoder_new(&d, m, rows, tokens));
    sr1__decoder_eager(d, eager);
    return d;
}

/* What was drawn, [NEW][ROWS]. */
struct drawn {
    int32_t ids[NEW][ROWS];
    float log_probs[NEW][ROWS];
    float entropies[NEW][ROWS];
    struct sr1__decoder_stats stats;
};

static void adapt(sr1_model *m)
{
    const struct sr1__lora_config config = {
        .rank = 2, .alpha = 4, .targets = (1u << SR1__LORA_MODULES) - 1};

    OK(sr1__model_adapt(m, &config, 3));
}

/* Weights that were not there when the decoder read its first token: heads' norms, and an
 * adapter where asked. */
static void change_weights(sr1_model *m, struct sr1__decoder *d, int adapted)
{
    const int32_t id = 3;
    sr1_scope *s;

    OK(sr1__decoder_decode(d, &(struct sr1__decode_input){0, &id, 1}, 1));
    sr1__decoder_reset(d);
    if (adapted)
        adapt(m);
    s = sr1__scope_open(m->device, "change");
    sr1__scope_no_grad(s);
    for (size_t i = 0; i < m->n_params; i++)
        if (strstr(m->params[i].name, "_norm") || strstr(m->params[i].name, "lora_B"))
            t_fill_(s, t_narrow(s, m->params[i].tensor, 0, 1, 3), 0.4);
    OK(sr1__scope_close(s));
    sr1__model_touch(m);
}

/* Prompts of different lengths, then a token at a time; rows 2 and 3 go on from row 1's
 * prompt, and row 0 reads more in between. */
static void decode_tokens(const char *name, const char *device, int adapted,
                          const struct sr1__sampling *how, struct drawn *out)
{
    static const int32_t prompt[PROMPT_MOST] = {3, 14, 15, 92, 65, 35, 89, 79, 32};
    const int32_t rows[ROWS] = {0, 1, 2, 3}, to[2] = {2, 3};
    struct sr1__rng streams[ROWS], *rngs[ROWS];
    struct sr1__decode_input feeds[ROWS] = {{0, prompt, 5}, {1, prompt + 1, 8}};
    int late = strcmp(device, "cpu") != 0; /* the CPU's decoder is made for its adapter */
    sr1_model *m = open_model(name, device);
    struct sr1__decoder *d;

    if (adapted && !late)
        adapt(m);
    d = new_decoder(m, ROWS, 600);
    change_weights(m, d, adapted && late);
    for (int32_t i = 0; i < ROWS; i++) {
        sr1__rng_seed(&streams[i], 5, (uint64_t)i);
        rngs[i] = &streams[i];
    }
    for (size_t t = 0; t < NEW; t++) {
        OK(sr1__decoder_decode(d, feeds, t ? ROWS : 2));
        if (t == 0)
            OK(sr1__decoder_fork(d, 1, to, 2));
        OK(sr1__decoder_sample(d, rows, ROWS, how, rngs, out->ids[t], out->log_probs[t],
                               out->entropies[t]));
        for (int32_t i = 0; i < ROWS; i++)
            feeds[i] = (struct sr1__decode_input){i, &out->ids[t][i], 1};
        if (t % 11 == 7)
            feeds[0] = (struct sr1__decode_input){0, prompt, PROMPT_MOST};
    }
    sr1__decoder_stats(d, &out->stats);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void tokens_are_the_cpus(void **state)
{
    static const struct sr1__sampling hows[] = {
        {0, 0, 1}, {1, 0, 1}, {0.8, 20, 1}, {0.8, 30, 0.9}};
    static struct drawn here, there;

    (void)state;
    for (size_t c = 0; c < N_CASES * 4; c++) {
        decode_tokens(cases[c / 4], "cpu", c % 2 == 1, &hows[c % 4], &here);
        decode_tokens(cases[c / 4], "sim", c % 2 == 1, &hows[c % 4], &there);
        assert_memory_equal(here.ids, there.ids, sizeof here.ids);
        for (size_t t = 0; t < NEW; t++)
            for (size_t i = 0; i < ROWS; i++) {
                near((double)there.log_probs[t][i], (double)here.log_probs[t][i], 1e-4);
                near((double)there.entropies[t][i], (double)here.entropies[t][i], 1e-4);
            }
    }
}

/* ---- errors ---- */

/* A model whose logits are not finite: the error names the row, and no stream has moved.
 */
static void a_failed_draw_moves_no_stream(void **state)
{
    const struct sr1__sampling warm = {1, 0, 1};
    const int32_t rows[2] = {1, 0}, ids[2] = {5, 6};
    const struct sr1__decode_input feeds[2] = {{0, ids, 1}, {1, ids + 1, 1}};
    struct sr1__rng streams[2], before[2], *rngs[2] = {&streams[0], &streams[1]};
    sr1_model *m = open_model("qwen3-tied", "sim");
    struct sr1__decoder *d = NULL;
    int32_t out[2] = {-7, -7};
    sr1_scope *s;

    (void)state;
    OK(sr1__decoder_new(&d, m, 2, 8));
    for (size_t i = 0; i < 2; i++)
        sr1__rng_seed(&streams[i], 1, i);
    memcpy(before, streams, sizeof before);
    OK(sr1__decoder_decode(d, feeds, 2));
    accelerator_fail_kernel(5);
    assert_int_equal(sr1__decoder_sample(d, rows, 2, &warm, rngs, out, NULL, NULL),
                     SR1_E_DEVICE);
    assert_memory_equal(before, streams, sizeof before);
    s = sr1__scope_open(m->device, "spoil");
    sr1__scope_no_grad(s);
    t_fill_(s, t_narrow(s, m->head, 0, 9, 1), INFINITY);
    OK(sr1__scope_close(s));
    assert_int_equal(sr1__decoder_sample(d, rows, 2, &warm, rngs, out, NULL, NULL),
                     SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "row 0: a logit is not finite"));
    assert_memory_equal(before, streams, sizeof before);
    assert_true(out[0] == -7 && out[1] == -7);
    sr1__model_touch(m);
    assert_int_equal(sr1__decoder_sample(d, rows, 2, &warm, rngs, out, NULL, NULL),
                     SR1_E_STATE);
    assert_non_null(strstr(sr1_last_error(), "changed since row 1 was read"));
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* Feed another id than was drawn, which fails at kernel `fail` (0: is not done), then the
 * one that was drawn; *log_prob: of one that is drawn behind it. 0: there is no such
 * kernel. */
static int feed_after_failure(int64_t fail, float *log_prob)
{
    const struct sr1__sampling greedy = {0, 0, 1};
    const int32_t row = 0, ids[3] = {5, 6, 7};
    sr1_model *m = open_model("qwen3-tied", "sim");
    struct sr1__decoder *d = new_decoder(m, 1, 16);
    int32_t drawn, next, wrong;
    sr1_status st = SR1_E_DEVICE;

    OK(sr1__decoder_decode(d, &(struct sr1__decode_input){0, ids, 3}, 1));
    OK(sr1__decoder_sample(d, &row, 1, &greedy, NULL, &drawn, NULL, NULL));
    wrong = (drawn + 1) % VOCAB;
    accelerator_fail_kernel(fail);
    if (fail)
        st = sr1__decoder_decode(d, &(struct sr1__decode_input){0, &wrong, 1}, 1);
    accelerator_fail_kernel(0);
    if (st != SR1_OK) {
        assert_int_equal(st, SR1_E_DEVICE);
        for (int i = 0; i < 3; i++, drawn = next) {
            OK(sr1__decoder_decode(d, &(struct sr1__decode_input){0, &drawn, 1}, 1));
            OK(sr1__decoder_sample(d, &row, 1, &greedy, NULL, &next, log_prob, NULL));
        }
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
    return st != SR1_OK;
}

/* Its pass had written over what the one ahead had read. */
static void a_failed_feed_leaves_nothing_behind(void **state)
{
    float want, got;
    int64_t k = 2;

    (void)state;
    eager = 1; /* a graph that cannot be captured is no failure */
    assert_true(feed_after_failure(0, &want));
    for (; feed_after_failure(k, &got); k += 4)
        near((double)got, (double)want, 1e-5);
    eager = 0;
    assert_true(k > 10);
}

/* ---- slots ---- */

#define MANY 20
#define LEFT 3

/* Rows in the highest slots go on alone: they move down, and their tokens stay. */
static void go_on_alone(const char *device, int32_t ids[6][LEFT])
{
    const struct sr1__sampling greedy = {0, 0, 1};
    struct sr1__decode_input feeds[MANY];
    int32_t rows[LEFT], next[LEFT], prompt[MANY][3];
    sr1_model *m = open_model("qwen3-tied", device);
    struct sr1__decoder *d = NULL;

    OK(sr1__decoder_new(&d, m, MANY, 32));
    for (int32_t i = 0; i < MANY; i++) {
        for (int32_t k = 0; k < 3; k++)
            prompt[i][k] = (i * 11 + k * 5) % VOCAB;
        feeds[i] = (struct sr1__decode_input){i, prompt[i], 3};
    }
    OK(sr1__decoder_decode(d, feeds, MANY));
    for (int32_t i = 0; i < MANY - LEFT; i++)
        sr1__decoder_clear(d, i);
    for (int32_t i = 0; i < LEFT; i++)
        rows[i] = MANY - 1 - i;
    for (size_t t = 0; t < 6; t++) {
        accelerator_reset();
        OK(sr1__decoder_sample(d, rows, LEFT, &greedy, NULL, ids[t], NULL, NULL));
        for (size_t i = 0; i < LEFT; i++) {
            next[i] = ids[t][i];
            feeds[i] = (struct sr1__decode_input){rows[i], &next[i], 1};
        }
        OK(sr1__decoder_decode(d, feeds, LEFT));
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void rows_move_down_when_few_are_left(void **state)
{
    int32_t here[6][LEFT], there[6][LEFT];

    (void)state;
    go_on_alone("cpu", here);
    go_on_alone("sim", there);
    assert_memory_equal(here, there, sizeof here);
    assert_int_equal(counted().to_device_bytes, 7 * (LEFT + 1) * 8); /* of four slots */
}

/* ---- groups ---- */

/* A play writes what it draws, [rounds][rows]. */
typedef void (*play_fn)(const char *device, int32_t *seen);
#define SEEN_MOST 1100

#define GROUPS 3
#define SAMPLES 4
#define SHARED (GROUPS * SAMPLES) /* rows of a play, at most */
#define ROUNDS 90

static void assert_same_everywhere(play_fn play, size_t n)
{
    static int32_t here[SEEN_MOST], there[SEEN_MOST];

    assert_true(n <= SEEN_MOST);
    play("cpu", here);
    for (eager = 0; eager < 2; eager++) {
        play("sim", there);
        assert_memory_equal(here, there, n * sizeof *here);
    }
    eager = 0;
}

/* Draw for the rows of n that are marked; seen[n]: -1 for the others. */
static void draw_marked(struct sr1__decoder *d, const int *marked, int32_t n,
                        struct sr1__rng *streams, int32_t *seen)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct sr1__rng *rngs[SHARED];
    int32_t rows[SHARED], drawn[SHARED];
    size_t n_rows = 0;

    for (int32_t i = 0; i < n; i++) {
        seen[i] = -1;
        if (!marked[i])
            continue;
        rngs[n_rows] = &streams[i];
        rows[n_rows++] = i;
    }
    OK(sr1__decoder_sample(d, rows, n_rows, &how, rngs, drawn, NULL, NULL));
    for (size_t i = 0; i < n_rows; i++)
        seen[rows[i]] = drawn[i];
}

/* Groups of samples that begin with one prompt, end one by one, the first sometimes
 * before the others have begun, and are followed by other groups as soon as there are
 * rows for one. Some samples read a block in between. */
static void play_groups(const char *device, int32_t *seen)
{
    struct sr1__rng choose, streams[SHARED];
    sr1_model *m = open_model("qwen3-tied", device);
    struct sr1__decoder *d = new_decoder(m, SHARED + 1, 600); /* blocks hold more */
    int live[SHARED] = {0};

    sr1__rng_seed(&choose, 3, 9);
    for (size_t i = 0; i < SHARED; i++)
        sr1__rng_seed(&streams[i], 5, i);
    for (size_t t = 0; t < ROUNDS; t++, seen += SHARED) {
        struct sr1__decode_input feeds[SHARED];
        int32_t ids[SHARED][80], group[SAMPLES];
        size_t n_feeds = 0, n_free = 0;

        for (int32_t i = 0; i < SHARED; i++) {
            if (live[i] && sr1__rng_below(&choose, 12) == 0) {
                sr1__decoder_clear(d, i);
                live[i] = 0;
            }
            if (!live[i] && n_free < SAMPLES)
                group[n_free++] = i;
            if (!live[i])
                continue;
            ids[i][0] = seen[i - SHARED];
            for (int32_t k = 1; k < 20; k++)
                ids[i][k] = (i + k) % VOCAB;
            feeds[n_feeds++] = (struct sr1__decode_input){
                i, ids[i], sr1__rng_below(&choose, 20) ? 1 : 20};
        }
        if (n_free == SAMPLES) {
            for (int32_t k = 0; k < 80; k++)
                ids[group[0]][k] = (int32_t)sr1__rng_below(&choose, VOCAB);
            feeds[n_feeds++] = (struct sr1__decode_input){
                group[0], ids[group[0]], 30 + sr1__rng_below(&choose, 50)};
        }
        OK(sr1__decoder_decode(d, feeds, n_feeds));
        if (n_free == SAMPLES) {
            OK(sr1__decoder_fork(d, group[0], group + 1, SAMPLES - 1));
            for (size_t k = 0; k < SAMPLES; k++)
                live[group[k]] = 1;
            if (sr1__rng_below(&choose, 2)) {
                sr1__decoder_clear(d, group[0]);
                live[group[0]] = 0;
            }
        }
        draw_marked(d, live, SHARED, streams, seen);
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void groups_come_and_go(void **state)
{
    (void)state;
    assert_same_everywhere(play_groups, (size_t)ROUNDS * SHARED);
}

/* Two groups of eight: two prompts and sixteen tails, before and behind the fork. */
static void a_groups_prompt_is_there_once(void **state)
{
    static const int32_t prompt[192];
    const struct sr1__sampling how = {1, 0, 1};
    int32_t rows[16], ids[16];
    struct sr1__rng streams[16], *rngs[16];
    sr1_model *m = open_model("qwen3-tied", "sim");
    struct sr1__decoder *d = new_decoder(m, 17, 600); /* one that is never used */
    struct sr1__decoder_stats stats;

    (void)state;
    for (int32_t i = 0; i < 16; i++) {
        rows[i] = i;
        rngs[i] = &streams[i];
        sr1__rng_seed(&streams[i], 5, (uint64_t)i);
    }
    for (int32_t g = 0; g < 2; g++) {
        OK(sr1__decoder_decode(d, &(struct sr1__decode_input){8 * g, prompt, 192}, 1));
        accelerator_reset();
        OK(sr1__decoder_fork(d, 8 * g, rows + 8 * g + 1, 7));
        assert_int_equal(counted().allocations, 0);
    }
    OK(sr1__decoder_sample(d, rows, 16, &how, rngs, ids, NULL, NULL));
    sr1__decoder_stats(d, &stats);
    assert_int_equal(stats.cache_bytes, (2 * 192 + 16 * 64) * 2 * m->config.n_layers *
                                            m->config.n_kv_heads * m->config.head_dim *
                                            4);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* A row that ends, and one that begins in its slot, send what the table has of the slot.
 */
static void a_row_that_comes_sends_its_own_positions(void **state)
{
    sr1_model *m = open_model("qwen3-tied", "sim");
    struct sr1__decoder *d = new_decoder(m, MANY, 600);
    struct sr1__decode_input feeds[MANY];
    int32_t ids[MANY];
    int64_t all;

    (void)state;
    for (int32_t i = 0; i < MANY; i++) {
        ids[i] = i;
        feeds[i] = (struct sr1__decode_input){i, &ids[i], 1};
    }
    accelerator_reset();
    OK(sr1__decoder_decode(d, feeds, MANY));
    all = counted().to_device_bytes;
    sr1__decoder_clear(d, 5);
    accelerator_reset();
    OK(sr1__decoder_decode(d, feeds, MANY));
    assert_true(counted().to_device_bytes < all / 4);
    sr1__decoder_free(d);
    sr1_model_free(m);
}

/* ---- budgets ---- */

struct bed {
    sr1_model *model;
    struct sr1__decoder *d;
    struct sr1__rng streams[ROWS];
    struct sr1__rng *rngs[ROWS];
    int32_t ids[ROWS];
};

static void fill_bed(struct bed *b)
{
    b->d = new_decoder(b->model, ROWS, 600);
    for (size_t i = 0; i < ROWS; i++) {
        sr1__rng_seed(&b->streams[i], 5, i);
        b->rngs[i] = &b->streams[i];
        b->ids[i] = (int32_t)(7 * i);
    }
}

static void open_bed(struct bed *b, const char *name)
{
    *b = (struct bed){.model = open_model(name, "sim")};
    fill_bed(b);
}

static void close_bed(struct bed *b)
{
    sr1__decoder_free(b->d);
    sr1_model_free(b->model);
}

/* One token for each of the first n rows. */
static void step_bed(struct bed *b, int32_t n, const struct sr1__sampling *how)
{
    struct sr1__decode_input feeds[ROWS];
    int32_t rows[ROWS];

    for (int32_t i = 0; i < n; i++) {
        rows[i] = i;
        feeds[i] = (struct sr1__decode_input){i, &b->ids[i], 1};
    }
    OK(sr1__decoder_decode(b->d, feeds, (size_t)n));
    OK(sr1__decoder_sample(b->d, rows, (size_t)n, how, b->rngs, b->ids, NULL, NULL));
}

static void a_step_copies_up_twice_and_back_once(void **state)
{
    static const struct sr1__sampling hows[] = {{0, 0, 1}, {1, 20, 0.9}};
    struct bed b;

    (void)state;
    open_bed(&b, "qwen3-tied");
    step_bed(&b, ROWS, &hows[0]); /* makes tables that stay */
    for (int t = 0; t < 6; t++) {
        struct accelerator_counts c;

        accelerator_reset();
        step_bed(&b, ROWS, &hows[t % 2]);
        c = counted();
        assert_int_equal(c.to_device, 2);
        assert_int_equal(c.to_host, 1);
        assert_int_equal(c.waits, 1);
        assert_true(c.to_host_bytes <= ROWS * 5 * 8); /* far from [ROWS,VOCAB] */
    }
    close_bed(&b);
}

/* Rows of n tokens each. */
static void prefill_bed(struct bed *b, size_t n)
{
    int32_t *prompt = calloc(n, sizeof *prompt);

    for (int32_t i = 0; i < ROWS; i++)
        OK(sr1__decoder_decode(b->d, &(struct sr1__decode_input){i, prompt, n}, 1));
    free(prompt);
}

/* Beyond what it gives back: the cache is written in place, and no part of it is copied
 * to be attended to. Kernel by kernel each temporary is an allocation, which CUDA's
 * allocator serves from what it keeps; graphs have theirs. */
static void check_memory_of_steps(int64_t kernels_most, int64_t allocations_most)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct accelerator_counts first, c;
    struct sr1__decoder_stats stats;
    struct bed b;

    open_bed(&b, "qwen3-tied");
    prefill_bed(&b, 200);
    for (int t = 0; t < 3; t++)
        step_bed(&b, ROWS, &how);
    accelerator_reset();
    step_bed(&b, ROWS, &how);
    first = counted();
    sr1__decoder_stats(b.d, &stats);
    assert_true(first.peak_bytes - first.live_bytes <
                stats.cache_bytes / 4 / b.model->config.n_layers); /* half the keys */
    assert_true(first.kernels <= kernels_most);
    assert_true(first.allocations <= allocations_most);
    for (int t = 0; t < 30; t++) {
        accelerator_reset();
        step_bed(&b, ROWS, &how);
        c = counted();
        assert_int_equal(c.live_bytes, first.live_bytes);
        assert_int_equal(c.peak_bytes, first.peak_bytes);
        assert_int_equal(c.allocations, first.allocations);
        assert_int_equal(c.kernels, first.kernels);
    }
    close_bed(&b);
}

static void a_step_takes_no_memory(void **state)
{
    (void)state;
    eager = 1;
    check_memory_of_steps(82, 79);
    eager = 0;
    check_memory_of_steps(2, 0); /* the graphs of a pass and of a draw */
}

static int64_t count_cache(const struct bed *b)
{
    struct sr1__decoder_stats stats;

    sr1__decoder_stats(b->d, &stats);
    return stats.cache_bytes;
}

/* A cache that grows has one layer twice at a time; one that cannot leaves its rows as
 * they were, to go on once there is room. */
static void a_cache_grows_layer_by_layer(void **state)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct bed plain, b;
    int64_t cache, grown;

    (void)state;
    eager = 1;
    open_bed(&plain, "qwen3-tied");
    open_bed(&b, "qwen3-tied");
    prefill_bed(&plain, 255);
    prefill_bed(&b, 255);
    for (int t = 0; t < 63; t++) {
        step_bed(&plain, ROWS, &how);
        step_bed(&b, ROWS, &how);
    }
    cache = count_cache(&b);
    accelerator_reset();
    step_bed(&plain, ROWS, &how); /* the pass ahead wants a 65th place of each tail */
    grown = count_cache(&plain);
    assert_int_equal(grown * (256 + 64), cache * (256 + 128));
    assert_true(counted().peak_bytes < counted().live_bytes + grown / 2); /* two layers */
    accelerator_limit(counted().live_bytes + (2 * grown - cache) / 2 - 4096);
    step_bed(&b, ROWS, &how);
    accelerator_limit(0);
    assert_int_equal(count_cache(&b), (cache + grown) / 2); /* one has grown */
    assert_memory_equal(b.ids, plain.ids, sizeof b.ids);
    for (int t = 0; t < 5; t++) {
        step_bed(&b, ROWS, &how);
        step_bed(&plain, ROWS, &how);
        assert_memory_equal(b.ids, plain.ids, sizeof b.ids);
    }
    assert_int_equal(count_cache(&b), grown);
    eager = 0;
    close_bed(&plain);
    close_bed(&b);
}

/* All rows but the first go on from its prompt. */
static void share_prompt(struct bed *b)
{
    static const int32_t prompt[100], to[ROWS - 1] = {1, 2, 3};

    OK(sr1__decoder_decode(b->d, &(struct sr1__decode_input){0, prompt, 100}, 1));
    OK(sr1__decoder_fork(b->d, 0, to, ROWS - 1));
}

/* Kernels that a step takes more with another layer; the rest, by the way, is bounded. */
static int64_t count_layer_kernels(const char *const family[2], int shared)
{
    int64_t kernels[2];

    for (int i = 0; i < 2; i++) {
        const struct sr1__sampling how = {1, 0, 1};
        sr1_model_options o = {.struct_size = sizeof o, .device = "sim", .dtype = "fp32"};
        struct bed b = {.rngs = {NULL}};
        char shape[600];

        snprintf(shape, sizeof shape,
                 "{\"architectures\": [\"%sForCausalLM\"], \"model_type\": \"%s\", "
                 "\"hidden_size\": 64, "
                 "\"num_hidden_layers\": %d, \"num_attention_heads\": 4, "
                 "\"num_key_value_heads\": 2, \"head_dim\": 16, "
                 "\"intermediate_size\": 64, \"vocab_size\": 128, "
                 "\"max_position_embeddings\": 512, \"rms_norm_eps\": 1e-6, "
                 "\"rope_theta\": 10000.0, \"tie_word_embeddings\": false}",
                 family[0], family[1], 2 + i);
        OK(sr1_model_new_random(&b.model, shape, 7, &o));
        fill_bed(&b);
        if (shared)
            share_prompt(&b);
        step_bed(&b, ROWS, &how);
        accelerator_reset();
        step_bed(&b, ROWS, &how);
        kernels[i] = counted().kernels;
        if (getenv("SR1_SHOW_KERNELS"))
            accelerator_print(stdout);
        close_bed(&b);
    }
    assert_true(kernels[0] - 2 * (kernels[1] - kernels[0]) <= 66 + shared); /* a mask */
    return kernels[1] - kernels[0];
}

static const char *const qwen2[2] = {"Qwen2", "qwen2"};
static const char *const qwen3[2] = {"Qwen3", "qwen3"};

/* norm, q|k|v, heads, attention, o with its sum; norm, gate|up, silu with its product,
 * down with its sum. Rows that share a prompt: results are put apart. */
static void a_layer_is_few_kernels(void **state)
{
    (void)state;
    eager = 1;
    assert_int_equal(count_layer_kernels(qwen2, 0), 9);
    assert_int_equal(count_layer_kernels(qwen3, 0), 9);
    assert_int_equal(count_layer_kernels(qwen2, 1), 10);
    assert_int_equal(count_layer_kernels(qwen3, 1), 10);
    eager = 0;
}

static void a_score_reads_back_once(void **state)
{
    const int32_t ids[6] = {1, 2, 3, 4, 5, 6};
    const struct sr1__decode_input feeds[2] = {{0, ids, 6}, {3, ids + 1, 4}};
    const size_t asked[2] = {3, 2};
    float log_probs[5], entropies[5];
    struct bed b;

    (void)state;
    open_bed(&b, "qwen3-tied");
    accelerator_reset();
    OK(sr1__decoder_score(b.d, feeds, asked, 2, 0.7, log_probs, entropies));
    assert_int_equal(counted().to_host, 1);
    assert_int_equal(counted().to_host_bytes, 2 * 5 * 4);
    close_bed(&b);
}

/* ---- graphs ---- */

/* The kernels of one step with the addresses and shapes that they work on. Freed. */
static char *trace_step(struct bed *b, const struct sr1__sampling *how)
{
    accelerator_trace(1);
    step_bed(b, ROWS, how);
    accelerator_trace(0);
    return strdup(accelerator_traced());
}

/* Lengths from 193 on: 256 positions are seen until the first row has as many. */
static void a_step_is_replayable(void **state)
{
    static const struct sr1__sampling hows[] = {{0, 0, 1}, {0.8, 20, 0.9}};
    struct bed b;

    (void)state;
    eager = 1;
    for (int h = 0; h < 2; h++) {
        char *first, *next;

        open_bed(&b, "qwen3-tied");
        prefill_bed(&b, 192);
        for (int t = 0; t < 3; t++)
            step_bed(&b, ROWS, &hows[h]);
        first = trace_step(&b, &hows[h]);
        assert_non_null(strstr(first, "attention"));
        for (int t = 0; t < 58; t++) {
            next = trace_step(&b, &hows[h]);
            assert_string_equal(next, first);
            free(next);
        }
        for (int t = 0; t < 3; t++)
            step_bed(&b, ROWS, &hows[h]);
        next = trace_step(&b, &hows[h]);
        assert_string_not_equal(next, first); /* longer, in a larger cache */
        free(next);
        free(first);
        close_bed(&b);
    }
    eager = 0;
}

static void same_draws(const struct drawn *a, const struct drawn *b)
{
    assert_memory_equal(a->ids, b->ids, sizeof a->ids);
    assert_memory_equal(a->log_probs, b->log_probs, sizeof a->log_probs);
    assert_memory_equal(a->entropies, b->entropies, sizeof a->entropies);
}

static void captured_steps_are_the_plain_ones(void **state)
{
    static const struct sr1__sampling hows[] = {{0, 0, 1}, {0.8, 30, 0.9}};
    static struct drawn plain, captured;

    (void)state;
    for (size_t c = 0; c < 4; c++) {
        eager = 1;
        decode_tokens(cases[c], "sim", c % 2 == 1, &hows[c % 2], &plain);
        eager = 0;
        decode_tokens(cases[c], "sim", c % 2 == 1, &hows[c % 2], &captured);
        same_draws(&plain, &captured);
        assert_int_equal(plain.stats.graphs.replays, 0);
        assert_true(captured.stats.graphs.replays > NEW);
        assert_true(captured.stats.graphs.captures <= 4);
    }
}

static int warnings;
static char warned[700];

static void take_warning(void *user, int32_t level, const char *text)
{
    (void)user;
    warnings += level == SR1_LOG_WARN;
    snprintf(warned, sizeof warned, "%s", text);
}

/* Where graphs fail, steps go on kernel by kernel: the same tokens, and one warning that
 * says why. */
static void steps_go_on_without_graphs(void **state)
{
    static const char *const calls[] = {"begin", "end", "replay"};
    const struct sr1__sampling how = {0.8, 30, 0.9};
    static struct drawn plain, failed;

    (void)state;
    eager = 1;
    decode_tokens(cases[0], "sim", 0, &how, &plain);
    eager = 0;
    sr1_log_set(take_warning, NULL);
    for (size_t i = 0; i < 3; i++) {
        warnings = 0;
        accelerator_fail_graph(calls[i]);
        decode_tokens(cases[0], "sim", 0, &how, &failed);
        decode_tokens(cases[0], "sim", 0, &how, &failed);
        accelerator_fail_graph(NULL);
        same_draws(&plain, &failed);
        assert_int_equal(failed.stats.graphs.replays, 0);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(warned, calls[i]));
        assert_non_null(strstr(warned, "enforce_eager: true"));
    }
    sr1_log_set(NULL, NULL);
}

/* The host chooses experts in each layer, so a pass of a mixture is never captured, and
 * nothing fails: draws are graphs as ever, and no warning is given. */
static void a_mixture_captures_its_draws_alone(void **state)
{
    static const struct sr1__sampling hows[] = {{0, 0, 1}, {0.8, 30, 0.9}};
    static struct drawn plain, captured;

    (void)state;
    sr1_log_set(take_warning, NULL);
    warnings = 0;
    for (size_t h = 0; h < 2; h++) {
        eager = 1;
        decode_tokens("qwen3-moe", "sim", 0, &hows[h], &plain);
        eager = 0;
        decode_tokens("qwen3-moe", "sim", 0, &hows[h], &captured);
        same_draws(&plain, &captured);
        assert_int_equal(plain.stats.graphs.captures, 0);
        assert_true(captured.stats.graphs.captures >= 1);
        assert_true(captured.stats.graphs.replays > NEW - 8);
        assert_true(captured.stats.graphs.replays < NEW); /* one for a draw at most */
    }
    sr1_log_set(NULL, NULL);
    assert_int_equal(warnings, 0);
}

/* Without a compiler for the device libtorch's kernels do the same: heads are turned,
 * keys and values written, with norms in one write but for the norm and its weights; silu
 * and its product are two; queries are put beside one another where rows share a prompt.
 * One warning for each. */
static void a_device_without_a_compiler(void **state)
{
    sr1_log_set(take_warning, NULL);
    warnings = 0;
    eager = 1;
    accelerator_fail_graph("compiler");
    assert_int_equal(count_layer_kernels(qwen2, 0), 12);
    accelerator_fail_graph(NULL);
    assert_int_equal(count_layer_kernels(qwen3, 0), 13); /* it is not tried again */
    assert_int_equal(count_layer_kernels(qwen2, 1), 14);
    assert_int_equal(count_layer_kernels(qwen3, 1), 15);
    eager = 0;
    sr1_log_set(NULL, NULL);
    assert_int_equal(warnings, 2);
    assert_non_null(strstr(warned, "sim: no compiler"));
    tokens_are_the_cpus(state);
    groups_come_and_go(state);
}

/* A kernel fails while it is captured: the graph is lost, and nothing else. */
static void a_kernel_that_cannot_be_captured(void **state)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct sr1__decoder_stats stats = {0}, after;
    struct bed plain, b;

    (void)state;
    sr1_log_set(take_warning, NULL);
    eager = 1;
    open_bed(&plain, "qwen3-tied");
    eager = 0;
    open_bed(&b, "qwen3-tied");
    for (int t = 0; t < 6; t++) {
        if (t == 1) {
            sr1__decoder_stats(b.d, &stats);
            accelerator_fail_kernel(9); /* of the draw, which is captured now */
        }
        step_bed(&b, ROWS, &how);
        step_bed(&plain, ROWS, &how);
        assert_memory_equal(b.ids, plain.ids, sizeof b.ids);
    }
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warned, "was let fail"));
    sr1__decoder_stats(b.d, &after);
    assert_memory_equal(&after.graphs, &stats.graphs, sizeof after.graphs);
    close_bed(&b);
    close_bed(&plain);
}

/* Other weights, a larger cache: no graph of before is used. What graphs held is given
 * back with the cache. */
static void graphs_end_with_what_they_read(void **state)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct bed plain, b;
    int64_t live[3];

    (void)state;
    eager = 1;
    open_bed(&plain, "qwen3-bias");
    eager = 0;
    open_bed(&b, "qwen3-bias");
    for (int round = 0; round < 3; round++) {
        change_weights(b.model, b.d, 0);
        change_weights(plain.model, plain.d, 0);
        for (int t = 0; t < 20; t++) {
            if (t == 10) {
                prefill_bed(&b, 300);
                prefill_bed(&plain, 300);
            }
            step_bed(&b, ROWS, &how);
            step_bed(&plain, ROWS, &how);
            assert_memory_equal(b.ids, plain.ids, sizeof b.ids);
        }
        sr1__decoder_reset(b.d);
        sr1__decoder_reset(plain.d);
        live[round] = counted().live_bytes;
    }
    assert_int_equal(live[1], live[0]);
    assert_int_equal(live[2], live[0]);
    close_bed(&b);
    close_bed(&plain);
}

/* ---- ahead ---- */

/* The feed behind a draw finds its pass under way. */
static void a_feed_of_what_was_drawn_launches_nothing(void **state)
{
    const struct sr1__sampling how = {1, 0, 1};
    struct sr1__decode_input feeds[ROWS];
    const int32_t rows[ROWS] = {0, 1, 2, 3};
    struct sr1__decoder_stats before, after;
    struct bed b;

    (void)state;
    open_bed(&b, "qwen3-tied");
    step_bed(&b, ROWS, &how);
    for (int32_t i = 0; i < ROWS; i++)
        feeds[i] = (struct sr1__decode_input){i, &b.ids[i], 1};
    sr1__decoder_stats(b.d, &before);
    accelerator_reset();
    OK(sr1__decoder_decode(b.d, feeds, ROWS));
    assert_int_equal(counted().kernels + counted().to_device + counted().to_host, 0);
    sr1__decoder_stats(b.d, &after);
    assert_int_equal(after.forwards, before.forwards + 1);
    assert_int_equal(after.tokens_fed, before.tokens_fed + ROWS);
    assert_int_equal(sr1__decoder_length(b.d, 3), 2);
    accelerator_reset();
    OK(sr1__decoder_sample(b.d, rows, ROWS, &how, b.rngs, b.ids, NULL, NULL));
    assert_int_equal(counted().waits, 1);
    close_bed(&b);
}

#define PLAYED 200

/* Whatever follows a draw, on any rows: another token, several, none, a second draw, the
 * end of a row, a copy of it. Nothing of what was read ahead shows. */
static void play_steps(const char *device, int32_t *seen)
{
    struct sr1__rng choose, streams[ROWS];
    sr1_model *m = open_model("qwen3-tied", device);
    struct sr1__decoder *d = new_decoder(m, ROWS, 300);
    int known[ROWS] = {0};

    sr1__rng_seed(&choose, 11, 1);
    for (size_t i = 0; i < ROWS; i++)
        sr1__rng_seed(&streams[i], 5, i);
    for (size_t t = 0; t < PLAYED; t++, seen += ROWS) {
        struct sr1__decode_input feeds[ROWS];
        int32_t ids[ROWS][3];
        int marked[ROWS];
        size_t n_feeds = 0;

        for (int32_t i = 0; i < ROWS; i++) {
            uint64_t what = sr1__rng_below(&choose, 12);
            size_t n_ids = what < 8 ? 1 : what < 10 ? 3 : 0;

            if (what == 11 && known[i]) { /* ends, or goes on as a copy of another */
                int32_t from = (i + 1) % ROWS;

                sr1__decoder_clear(d, i);
                known[i] = t % 2 && known[from];
                if (known[i])
                    OK(sr1__decoder_fork(d, from, &i, 1));
                continue;
            }
            if (sr1__decoder_length(d, i) > 290)
                sr1__decoder_clear(d, i);
            for (size_t k = 0; k < n_ids; k++)
                ids[i][k] = (int32_t)(sr1__rng_below(&choose, VOCAB));
            if (what < 6 && t > 0 && seen[i - ROWS] >= 0)
                ids[i][0] = seen[i - ROWS];
            if (n_ids == 0)
                continue;
            feeds[n_feeds++] = (struct sr1__decode_input){i, ids[i], n_ids};
            known[i] = 1;
        }
        OK(sr1__decoder_decode(d, feeds, n_feeds));
        for (int32_t i = 0; i < ROWS; i++)
            marked[i] = known[i] && sr1__rng_below(&choose, 4);
        draw_marked(d, marked, ROWS, streams, seen);
    }
    sr1__decoder_free(d);
    sr1_model_free(m);
}

static void nothing_read_ahead_shows(void **state)
{
    (void)state;
    assert_same_everywhere(play_steps, (size_t)PLAYED * ROWS);
}

/* Ids of the caller's are checked before a graph reads them. */
static void an_id_that_is_none_is_refused(void **state)
{
    const struct sr1__sampling how = {1, 0, 1};
    const int32_t none = VOCAB;
    struct bed b;

    (void)state;
    open_bed(&b, "qwen3-tied");
    for (int t = 0; t < 4; t++)
        step_bed(&b, ROWS, &how);
    assert_int_equal(
        sr1__decoder_decode(b.d, &(struct sr1__decode_input){0, &none, 1}, 1),
        SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "id 128 is not in [0, 128)"));
    step_bed(&b, ROWS, &how);
    close_bed(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_cpus),
        cmocka_unit_test(a_failed_draw_moves_no_stream),
        cmocka_unit_test(a_failed_feed_leaves_nothing_behind),
        cmocka_unit_test(rows_move_down_when_few_are_left),
        cmocka_unit_test(groups_come_and_go),
        cmocka_unit_test(a_groups_prompt_is_there_once),
        cmocka_unit_test(a_row_that_comes_sends_its_own_positions),
        cmocka_unit_test(a_step_copies_up_twice_and_back_once),
        cmocka_unit_test(a_step_takes_no_memory),
        cmocka_unit_test(a_cache_grows_layer_by_layer),
        cmocka_unit_test(a_layer_is_few_kernels),
        cmocka_unit_test(a_score_reads_back_once),
        cmocka_unit_test(a_step_is_replayable),
        cmocka_unit_test(captured_steps_are_the_plain_ones),
        cmocka_unit_test(steps_go_on_without_graphs),
        cmocka_unit_test(a_mixture_captures_its_draws_alone),
        cmocka_unit_test(a_kernel_that_cannot_be_captured),
        cmocka_unit_test(graphs_end_with_what_they_read),
        cmocka_unit_test(a_feed_of_what_was_drawn_launches_nothing),
        cmocka_unit_test(nothing_read_ahead_shows),
        cmocka_unit_test(an_id_that_is_none_is_refused),
        cmocka_unit_test(a_device_without_a_compiler), /* last: it lasts */
    };

    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
