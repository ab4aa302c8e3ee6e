/* start.c - see start.h. A file that would be too long (ulimit -f) is an error of the
 * write, as a full disk is, not the end of the process. Memory that is bounded (ulimit
 * -v) may not do for the initialisers of shared libraries, which then end the process by
 * std::terminate() or abort(), and where the working folder is gone a part of libtorch
 * ends it and names another cause: the executable runs first, and turns both into
 * messages. */
#include "common/start.h"

#include "common/args.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef void terminate_fn(void);

static void leave_at_start(const char *text, int code)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(code);
}

static terminate_fn *terminate_before; /* NULL: it was not changed */

static void on_start_failed(void)
{
    leave_at_start("this program's libraries cannot start in so little memory; "
                   "raise the limit (ulimit -v), 2 GiB will do for them\n",
                   TOOL_FAILED);
}

static void on_abort(int number)
{
    (void)number;
    on_start_failed();
}

/* std::set_terminate of the C++ library that a library brought; its own handler would
 * print the exception first. Returns the handler until now, NULL where there is no C++.
 */
static terminate_fn *set_terminate(terminate_fn *handler)
{
    terminate_fn *(*set)(terminate_fn *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");

    memcpy(&set, &found, sizeof(set));
    return found ? set(handler) : NULL;
}

static void watch_start(int argc, char **argv, char **environment)
{
    struct sigaction act;
    struct rlimit memory;
    char folder[PATH_MAX];

    (void)argc, (void)argv, (void)environment;
    if (!getcwd(folder, sizeof(folder)) && errno == ENOENT)
        leave_at_start("the working folder is gone; change to one that is there (cd)\n",
                       TOOL_USAGE);
    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_AS, &memory) != 0 || memory.rlim_cur == RLIM_INFINITY)
        return;
    memset(&act, 0, sizeof(act));
    act.sa_handler = on_abort;
    sigaction(SIGABRT, &act, NULL);
    terminate_before = set_terminate(on_start_failed);
}

/* Called before the initialisers of the libraries. */
__attribute__((section(".preinit_array"),
               used)) static void (*const watching)(int, char **, char **) = watch_start;

void start_done(void)
{
    signal(SIGABRT, SIG_DFL);
    if (terminate_before)
        (void)set_terminate(terminate_before);
}
