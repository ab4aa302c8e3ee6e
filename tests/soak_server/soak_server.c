/* soak_server.c - many requests to a server of another process, some from clients that
 * leave: at once after asking, within the body, within the headers, or in the middle of
 * the answer. See run. */
#include "../support/http.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/rng.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define CLIENTS 32
#define LEAVES_EVERY 20 /* requests */
#define GROWTH_MAX (4 << 20)

/* How a client leaves. */
enum { STAYS, WITHOUT_ANSWER, WITHIN_BODY, WITHIN_HEADERS, WITHIN_ANSWER, WAYS };

static int port;
static pid_t server;
static long long planned;
static atomic_llong begun;    /* requests */
static atomic_llong accepted; /* of them: the server saw their headers */
static atomic_llong whole;    /* of them: the right answer came */
static atomic_llong wrong;
static atomic_llong first_rss; /* after a tenth */

static int64_t rss_of(pid_t pid)
{
    char path[64];
    long long pages = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%*d %lld", &pages) != 1)
        pages = 0;
    if (f != NULL)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* A whole answer with status 200 and this list of ids within; 0 when it is. */
static int read_answer(int fd, const char *want)
{
    char text[16384];
    size_t n = 0;
    size_t size = SIZE_MAX;

    while (n < size && n + 1 < sizeof text) {
        ssize_t k = recv(fd, text + n, sizeof text - 1 - n, 0);
        const char *body;

        if (k <= 0)
            return -1;
        n += (size_t)k;
        text[n] = '\0';
        body = strstr(text, "\r\n\r\n");
        if (body != NULL && size == SIZE_MAX) {
            const char *length = strcasestr(text, "content-length:");

            if (length == NULL)
                return -1;
            size = (size_t)(body + 4 - text) + strtoull(length + 15, NULL, 10);
        }
    }
    return strncmp(text, "HTTP/1.1 200", 12) == 0 && strstr(text, want) != NULL ? 0 : -1;
}

static void reset(int fd)
{
    struct linger now = {1, 0};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* Ask once; returns whether the connection can be used again. */
static int ask(int fd, int way, struct sr1__rng *rng)
{
    static const char body[] = "{\"queries\": [\"jasper and copper\"], \"topk\": 2}";
    char text[512];
    char byte;
    int head =
        snprintf(text, sizeof text,
                 "POST /retrieve HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 sizeof body - 1);
    size_t n = (size_t)head + sizeof body - 1;

    memcpy(text + head, body, sizeof body - 1);
    if (way == WITHIN_HEADERS)
        n = 1 + sr1__rng_below(rng, (uint64_t)head - 2);
    if (way == WITHIN_BODY)
        n = (size_t)head + sr1__rng_below(rng, sizeof body - 2);
    if (http_send(fd, text, n) != 0) {
        atomic_fetch_add(&wrong, 1);
        return 0;
    }
    atomic_fetch_add(&accepted, way != WITHIN_HEADERS);
    if (way == WITHIN_ANSWER && recv(fd, &byte, 1, 0) == 1)
        reset(fd);
    if (way != STAYS)
        return 0;
    atomic_fetch_add(read_answer(fd, "jasper copper") == 0 ? &whole : &wrong, 1);
    return 1;
}

static void *client(void *arg)
{
    struct sr1__rng rng;
    int fd = -1;

    sr1__rng_seed(&rng, 7, (uint64_t)(intptr_t)arg);
    for (;;) {
        long long i = atomic_fetch_add(&begun, 1);
        int leaves = sr1__rng_below(&rng, LEAVES_EVERY) == 0;
        int way = leaves ? 1 + (int)sr1__rng_below(&rng, WAYS - 1) : STAYS;

        if (i >= planned)
            break;
        if (i == planned / 10)
            atomic_store(&first_rss, rss_of(server));
        if (fd < 0)
            fd = http_connect(port);
        if (fd < 0) {
            atomic_fetch_add(&wrong, 1);
        } else if (!ask(fd, way, &rng)) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* Start the server; its output is read from the result. */
static FILE *start(const char *tool, const char *index)
{
    int out[2];
    char line[512];
    char *at;
    FILE *f;

    if (pipe(out) != 0)
        return NULL;
    server = fork();
    if (server == 0) {
        dup2(out[1], STDOUT_FILENO);
        close(out[0]);
        execl(tool, tool, "serve", index, "--port", "0", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    f = fdopen(out[0], "r");
    if (f == NULL || fgets(line, sizeof line, f) == NULL)
        return NULL;
    at = strstr(line, "127.0.0.1:");
    port = at != NULL ? atoi(at + 10) : 0;
    return port != 0 ? f : NULL;
}

/* Stop the server with SIGTERM and compare what it counted. */
static int settle(FILE *f)
{
    char line[512] = "";
    long long answered = -1, refused = -1, failed = -1, dropped = -1;
    int status = -1;

    kill(server, SIGTERM);
    if (fgets(line, sizeof line, f) != NULL)
        sscanf(
            line,
            "stopped: %lld requests answered (%lld refused, %lld failed), %lld dropped",
            &answered, &refused, &failed, &dropped);
    waitpid(server, &status, 0);
    printf("server: %s", line);
    return status == 0 && refused == 0 && failed == 0 &&
           answered + dropped == atomic_load(&accepted) &&
           answered >= atomic_load(&whole);
}

int main(int argc, char **argv)
{
    pthread_t threads[CLIENTS];
    double began = sr1__now();
    int64_t last_rss;
    int good;
    FILE *f;

    planned = argc == 4 ? atoll(argv[3]) : 0;
    if (planned < 100) {
        fprintf(stderr, "soak-server SR1-SEARCH INDEX REQUESTS (100 at least)\n");
        return 2;
    }
    f = start(argv[1], argv[2]);
    if (f == NULL) {
        fprintf(stderr, "soak-server: the server did not start\n");
        return 1;
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_create(&threads[i], NULL, client, (void *)(intptr_t)i);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    last_rss = rss_of(server);
    printf(
        "clients: %lld requests in %.0f s, %lld accepted, %lld answered and right, %lld "
        "wrong\n",
        planned, sr1__now() - began, atomic_load(&accepted), atomic_load(&whole),
        atomic_load(&wrong));
    printf("resident: %.1f MiB after a tenth, %.1f MiB at the end\n",
           (double)atomic_load(&first_rss) / (1 << 20), (double)last_rss / (1 << 20));
    good = settle(f) && atomic_load(&wrong) == 0 && atomic_load(&first_rss) > 0 &&
           last_rss - atomic_load(&first_rss) < GROWTH_MAX;
    puts(good ? "1 passed, 0 failed, 0 skipped" : "0 passed, 1 failed, 0 skipped");
    return !good;
}
