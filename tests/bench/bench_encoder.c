/* encoder FOLDER TEXTS BATCH[,BATCH...] [REPS]: texts a second through an embedder, one
 * text a line, so many a call; one JSON object a batch. Tokenizing counts. */
#include "bench.h"

#include <searchr1/ext/embed.h>

#define LINE_MAX_BYTES 65536
#define TEXTS_MAX 4096

struct lines {
    char *text[TEXTS_MAX];
    size_t n;
};

static int read_lines(struct lines *l, const char *path)
{
    static char line[LINE_MAX_BYTES];
    FILE *f = fopen(path, "r");

    while (f && l->n < TEXTS_MAX && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        l->text[l->n++] = strdup(line);
    }
    if (f)
        fclose(f);
    return l->n > 0;
}

/* Seconds for all texts, or negative after a failure. */
static double embed_all(sr1_embedder *e, const struct lines *l, size_t batch, float *out)
{
    double start = bench_now();

    for (size_t i = 0; i < l->n; i += batch) {
        size_t n = l->n - i < batch ? l->n - i : batch;

        if (sr1_embedder_embed(e, (const char *const *)l->text + i, n, SR1_EMBED_DOCUMENT,
                               out) != SR1_OK)
            return -1;
    }
    return bench_now() - start;
}

static int measure(sr1_embedder *e, const struct lines *l, size_t batch, size_t reps)
{
    float *out = calloc(batch * (size_t)sr1_embedder_dim(e), sizeof *out);
    double seconds[100];
    double middle;

    if (!out || embed_all(e, l, batch, out) < 0)
        return 1;
    for (size_t i = 0; i < reps; i++) {
        seconds[i] = embed_all(e, l, batch, out);
        if (seconds[i] < 0)
            return 1;
    }
    middle = bench_median(seconds, reps);
    printf("{\"what\": \"encoder\", \"batch\": %zu, \"n\": %zu, \"texts_s\": %.2f}\n",
           batch, l->n, (double)l->n / middle);
    fflush(stdout);
    free(out);
    return 0;
}

int main(int argc, char **argv)
{
    static struct lines lines;
    size_t reps = argc > 4 ? (size_t)atoi(argv[4]) : 3;
    sr1_encoder_options o;
    sr1_embedder *e = NULL;
    int failed;

    if (argc < 4 || reps < 1 || reps > 100 || !read_lines(&lines, argv[2])) {
        fprintf(stderr, "usage: encoder FOLDER TEXTS BATCH[,BATCH...] [REPS]\n");
        return 2;
    }
    sr1_encoder_options_init(&o);
    o.device = getenv("DEVICE") ? getenv("DEVICE") : "cpu";
    o.dtype = getenv("DTYPE"); /* fp32 or bf16; the default is that of the device */
    o.threads = 2;
    failed = sr1_embedder_open(&e, argv[1], &o) != SR1_OK;
    for (char *b = failed ? NULL : strtok(argv[3], ","); b && !failed;
         b = strtok(NULL, ","))
        failed = atoi(b) < 1 || measure(e, &lines, (size_t)atoi(b), reps);
    if (failed)
        fprintf(stderr, "encoder: %s\n", sr1_last_error());
    sr1_embedder_free(e);
    for (size_t i = 0; i < lines.n; i++)
        free(lines.text[i]);
    return failed;
}
