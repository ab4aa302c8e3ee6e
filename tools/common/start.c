/* start.c - see start.h. A file that would be too long (ulimit -f) is an error of the
 * write, as a full disk is, not the end of the process. Memory that is bounded (ulimit
 * -v) may not do for the initialisers of shared libraries, which then end the process by
 * abort(): the executable runs first, and turns that into a message. */
#include "common/start.h"

#include "common/args.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void on_abort(int number)
{
    static const char text[] =
        "this program's libraries cannot start in so little memory; "
        "raise the limit (ulimit -v), 2 GiB will do for them\n";

    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(TOOL_FAILED);
}

static void watch_start(int argc, char **argv, char **environment)
{
    struct sigaction act;
    struct rlimit memory;

    (void)argc, (void)argv, (void)environment;
    signal(SIGXFSZ, SIG_IGN);
    if (getrlimit(RLIMIT_AS, &memory) != 0 || memory.rlim_cur == RLIM_INFINITY)
        return;
    memset(&act, 0, sizeof(act));
    act.sa_handler = on_abort;
    sigaction(SIGABRT, &act, NULL);
}

/* Called before the initialisers of the libraries. */
__attribute__((section(".preinit_array"),
               used)) static void (*const watching)(int, char **, char **) = watch_start;

void start_done(void)
{
    signal(SIGABRT, SIG_DFL);
}
