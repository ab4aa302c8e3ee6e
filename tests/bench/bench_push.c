/* A push of weights by disk to two servers that read them, as vLLM's and SGLang's routes
 * have it (retrieval/net/serving.h), against writing the same bytes to a file and reading
 * it twice side by side. The shape is that of Qwen3-0.6B, in bf16.
 * usage: bench_push FOLDER [layers=28] [rounds=5] */
#include "support/http_server.h"

#include "bench.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "retrieval/net/serving.h"

#include <searchr1/ext/model_details.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#define SERVERS 2
#define CHUNK ((size_t)4 << 20)

static const char shape[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
    "\"hidden_size\": 1024, \"num_hidden_layers\": %d, \"num_attention_heads\": 16, "
    "\"num_key_value_heads\": 8, \"head_dim\": 128, \"intermediate_size\": 3072, "
    "\"vocab_size\": 151936, \"max_position_embeddings\": 40960, \"rms_norm_eps\": 1e-6, "
    "\"rope_theta\": 1000000.0, \"tie_word_embeddings\": true}";

static void *read_file(void *path)
{
    char *chunk = malloc(CHUNK);
    int fd = open(path, O_RDONLY);

    while (fd >= 0 && chunk && read(fd, chunk, CHUNK) > 0)
        ;
    if (fd >= 0)
        close(fd);
    free(chunk);
    return NULL;
}

/* A server of both kinds' routes; it reads the weights as it is told to load them. */
static void answer(void *user, int nth, const char *request, struct reply *r)
{
    json_t *q = json_loads(request_body(request), 0, NULL);
    const char *folder = json_string_value(json_object_get(q, "model_path"));
    char path[1024];

    (void)user, (void)nth;
    if (!folder)
        folder = json_string_value(
            json_object_get(json_object_get(q, "kwargs"), "weights_path"));
    if (strncmp(request, "GET /v1/models ", 15) == 0)
        r->body = "{\"data\": [{\"id\": \"m\", \"max_model_len\": 512}]}";
    else
        r->body = "{\"success\": true}";
    if (folder) {
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        read_file(path);
    }
    json_decref(q);
}

static sr1_status time_push(const sr1_model *m, const char *folder, const sr1_config *c,
                            struct sr1__server_pool *pool, double *seconds, double *saved)
{
    struct sr1__serving_weights w = {.folder = folder, .version = 1};
    uint8_t taken[SR1__SERVERS_MAX];
    double began = bench_now();

    SR1__TRY(sr1_model_save(m, folder));
    *saved = bench_now() - began;
    SR1__TRY(sr1__serving_push(pool, c, &w, taken));
    *seconds = bench_now() - began;
    return taken[0] && taken[1] ? SR1_OK : sr1__fail(SR1_E_STATE, "a server failed");
}

static sr1_status time_bytes(const void *bytes, size_t n, char *path, double *seconds)
{
    pthread_t threads[SERVERS];
    double began = bench_now();

    SR1__TRY(sr1__file_replace(path, bytes, n));
    for (int i = 0; i < SERVERS; i++)
        pthread_create(&threads[i], NULL, read_file, path);
    for (int i = 0; i < SERVERS; i++)
        pthread_join(threads[i], NULL);
    *seconds = bench_now() - began;
    return SR1_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static sr1_status measure(const char *folder, int layers, int rounds, const sr1_config *c)
{
    double push[64], saved[64], bytes_alone[64];
    struct sr1__server_pool *pool = NULL;
    char text[1200], path[1024], file[1100];
    sr1_model_options o = {.struct_size = sizeof o, .device = "cpu", .dtype = "bf16"};
    sr1_model *m = NULL;
    struct stat st;
    void *bytes;

    snprintf(text, sizeof text, shape, layers);
    snprintf(path, sizeof path, "%s/served", folder);
    snprintf(file, sizeof file, "%s/bytes", folder);
    SR1__TRY(sr1__dir_make(folder));
    SR1__TRY(sr1__dir_make(path));
    SR1__TRY(sr1_model_new_random(&m, text, 1, &o));
    SR1__TRY(sr1__server_pool_open(&pool, c));
    SR1__TRY(time_push(m, path, c, pool, &push[0], &saved[0]));
    snprintf(text, sizeof text, "%s/model.safetensors", path);
    if (stat(text, &st) != 0)
        return sr1__fail_errno("find", text);
    bytes = malloc((size_t)st.st_size);
    if (!bytes)
        return sr1__fail_nomem("bytes");
    memset(bytes, 7, (size_t)st.st_size);
    for (int i = 0; i < rounds; i++) { /* in turn */
        SR1__TRY(time_bytes(bytes, (size_t)st.st_size, file, &bytes_alone[i]));
        SR1__TRY(time_push(m, path, c, pool, &push[i], &saved[i]));
    }
    qsort(push, (size_t)rounds, sizeof *push, compare_doubles);
    qsort(saved, (size_t)rounds, sizeof *saved, compare_doubles);
    qsort(bytes_alone, (size_t)rounds, sizeof *bytes_alone, compare_doubles);
    printf("{\"what\": \"push\", \"servers\": %d, \"mb\": %.0f, \"push_s\": %.3f, "
           "\"save_s\": %.3f, "
           "\"bytes_s\": %.3f, \"ratio\": %.2f}\n",
           SERVERS, (double)st.st_size / 1e6, push[rounds / 2], saved[rounds / 2],
           bytes_alone[rounds / 2], push[rounds / 2] / bytes_alone[rounds / 2]);
    free(bytes);
    sr1__server_pool_free(pool);
    sr1_model_free(m);
    return SR1_OK;
}

int main(int argc, char **argv)
{
    int layers = argc > 2 ? atoi(argv[2]) : 28, rounds = argc > 3 ? atoi(argv[3]) : 5;
    struct server servers[SERVERS];
    sr1_config *c = NULL;
    char urls[256];
    sr1_status st;

    if (argc < 2 || layers < 1 || rounds < 1 || rounds > 64) {
        fprintf(stderr, "usage: bench_push FOLDER [layers=28] [rounds=5]\n");
        return 2;
    }
    for (int i = 0; i < SERVERS; i++)
        server_start(&servers[i], answer, NULL);
    snprintf(urls, sizeof urls, "%s/v1,%s/v1", servers[0].url, servers[1].url);
    st = sr1_config_new(&c);
    if (st == SR1_OK)
        st = sr1_config_set(c, "openai_base_url", urls);
    if (st == SR1_OK)
        st = sr1_config_set(c, "openai_engine", "vllm");
    if (st == SR1_OK)
        st = measure(argv[1], layers, rounds, c);
    if (st != SR1_OK)
        fprintf(stderr, "bench_push: %s\n", sr1_last_error());
    sr1_config_free(c);
    for (int i = 0; i < SERVERS; i++)
        server_stop(&servers[i]);
    return st == SR1_OK ? 0 : 1;
}
