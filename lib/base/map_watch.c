/* base/map_watch.c - see map_watch.h. The handler finds the map of an address in a list
 * to which maps are only ever added: entries of closed maps are reused. */
#include "base/map_watch.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct sr1__map_watch {
    struct sr1__map_watch *next;
    atomic_uintptr_t begin; /* 0: free; set before end, cleared after it */
    atomic_uintptr_t end;
    atomic_int torn;
    int fd;
    uint64_t size;
    atomic_llong changed; /* nanoseconds */
    char *path;
    unsigned char *seal; /* [n_seal] as it was at opening */
    size_t n_seal;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards places being taken */
static _Atomic(struct sr1__map_watch *) watches;
static struct sigaction before;
static int installed;
static struct sr1__map_watch places[64]; /* the first of the list; more are allocated */

/* ---- the signal ---- */

/* All from the page of this address on becomes zeros: one signal for a file cut short,
 * not one a page. */
static int put_zeros(struct sr1__map_watch *w, uintptr_t address, uintptr_t end)
{
    uintptr_t page = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    atomic_store(&w->torn, 1);
    return mmap((void *)page, end - page, PROT_READ,
                MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* The end of the map of w that the address is in; 0: it is in none. Another thread may
 * open or close the map meanwhile: begin and end are of one map where begin stays. */
static uintptr_t find_end_around(struct sr1__map_watch *w, uintptr_t address)
{
    uintptr_t begin = atomic_load(&w->begin);
    uintptr_t end = atomic_load(&w->end);

    return begin != 0 && address >= begin && address < end &&
                   atomic_load(&w->begin) == begin
               ? end
               : 0;
}

static int replace_lost_pages(uintptr_t address)
{
    for (struct sr1__map_watch *w = atomic_load(&watches); w != NULL; w = w->next) {
        uintptr_t end = find_end_around(w, address);

        if (end != 0)
            return put_zeros(w, address, end);
    }
    return 0;
}

/* Run the handler that was installed before this one, or restore the default action. */
static void forward_sigbus(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else
        (void)sigaction(number, &before, NULL); /* and the access fails once more */
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    int error = errno;

    if (info->si_code != BUS_ADRERR || !replace_lost_pages((uintptr_t)info->si_addr))
        forward_sigbus(number, info, context);
    errno = error;
}

static void add_watch_slot(struct sr1__map_watch *w)
{
    w->fd = -1;
    w->next = atomic_load(&watches);
    atomic_store(&watches, w);
}

/* Called with the lock held. */
static sr1_status install_sigbus_handler(void)
{
    struct sigaction act = {.sa_sigaction = on_sigbus,
                            .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    if (installed)
        return SR1_OK;
    if (sigaction(SIGBUS, NULL, &before) != 0 || sigaction(SIGBUS, &act, NULL) != 0)
        return sr1__fail_errno("handle", "SIGBUS");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        add_watch_slot(&places[i]);
    installed = 1;
    return SR1_OK;
}

/* ---- watching ---- */

static long long time_of_change(const struct stat *st)
{
    return (long long)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Called with the lock held: a free place, or a new one. */
static struct sr1__map_watch *take_watch_slot(void)
{
    struct sr1__map_watch *w = atomic_load(&watches);

    while (w != NULL && (atomic_load(&w->begin) != 0 || w->fd >= 0))
        w = w->next;
    if (w != NULL)
        return w;
    w = sr1__calloc(1, sizeof(*w));
    if (w != NULL)
        add_watch_slot(w);
    return w;
}

static void clear_watch(struct sr1__map_watch *w)
{
    atomic_store(&w->end, 0);
    atomic_store(&w->begin, 0);
    sr1__free(w->path);
    sr1__free(w->seal);
    w->path = NULL;
    w->seal = NULL;
    if (w->fd >= 0)
        close(w->fd);
    w->fd = -1;
}

static sr1_status record_mapping(struct sr1__map_watch *w, const struct sr1__map *m,
                                 const char *path, size_t seal)
{
    struct stat st;

    w->n_seal = seal < m->size ? seal : m->size;
    w->size = m->size;
    w->path = sr1__strdup(path);
    w->seal = sr1__malloc(w->n_seal + 1);
    SR1__CHECK_ALLOC(w->path && w->seal, "map of a file");
    if (fstat(w->fd, &st) != 0)
        return sr1__fail_errno("read", path);
    atomic_store(&w->changed, time_of_change(&st));
    atomic_store(&w->torn, 0);
    atomic_store(&w->begin, (uintptr_t)m->data);
    atomic_store(&w->end, (uintptr_t)m->data + m->size);
    memcpy(w->seal, m->data + m->size - w->n_seal, w->n_seal);
    return (uint64_t)st.st_size == w->size ? SR1_OK : sr1__map_check(m);
}

/* Takes fd over, in any case. */
static sr1_status watch_mapping(struct sr1__map *m, int fd, const char *path, size_t seal)
{
    sr1_status status;

    pthread_mutex_lock(&lock);
    status = install_sigbus_handler();
    if (status == SR1_OK) {
        m->watch = take_watch_slot();
        status = m->watch != NULL ? SR1_OK : sr1__fail_nomem("map of a file");
    }
    if (m->watch != NULL)
        m->watch->fd = fd;
    else
        close(fd);
    pthread_mutex_unlock(&lock);
    return status == SR1_OK ? record_mapping(m->watch, m, path, seal) : status;
}

sr1_status sr1__map_open_watched(struct sr1__map *out, const char *path, size_t seal)
{
    int fd = -1;
    sr1_status status;

    SR1__TRY(sr1__map_open_fd(out, path, &fd));
    if (out->size == 0) {
        close(fd);
        return SR1_OK;
    }
    status = watch_mapping(out, fd, path, seal);
    if (status != SR1_OK)
        sr1__map_close(out);
    return status;
}

void sr1__map_unwatch(struct sr1__map *m)
{
    if (m->watch == NULL)
        return;
    pthread_mutex_lock(&lock);
    clear_watch(m->watch);
    pthread_mutex_unlock(&lock);
    m->watch = NULL;
}

/* ---- checking ---- */

/* A file may be touched, or written anew with the bytes it had. */
static int has_seal(struct sr1__map_watch *w, const struct sr1__map *m,
                    const struct stat *st)
{
    if (w->n_seal == 0 || (uint64_t)st->st_size != w->size ||
        memcmp(m->data + m->size - w->n_seal, w->seal, w->n_seal) != 0)
        return 0;
    atomic_store(&w->changed, time_of_change(st));
    return 1;
}

sr1_status sr1__map_check(const struct sr1__map *m)
{
    struct sr1__map_watch *w = m->watch;
    struct stat st;

    if (w == NULL)
        return SR1_OK;
    if (fstat(w->fd, &st) != 0)
        return sr1__fail_errno("read", w->path);
    if (!atomic_load(&w->torn) && (uint64_t)st.st_size == w->size &&
        (time_of_change(&st) == atomic_load(&w->changed) || has_seal(w, m, &st)) &&
        !atomic_load(&w->torn))
        return SR1_OK;
    return sr1__fail(
        SR1_E_CORRUPT,
        "%s was changed in place, or could not be read, while it was in use; "
        "write a new file beside it and rename that, then open it again",
        w->path);
}

sr1_status sr1__map_blame(const struct sr1__map *m, sr1_status status)
{
    struct sr1__error kept;

    if (m->watch == NULL)
        return status;
    if (status == SR1_OK)
        return sr1__map_check(m);
    sr1__error_save(&kept, status);
    if (sr1__map_check(m) != SR1_OK)
        return SR1_E_CORRUPT;
    return sr1__error_raise(&kept);
}
