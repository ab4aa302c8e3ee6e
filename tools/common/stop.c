/* stop.c - see stop.h. */
#include "common/stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

void stop_catch(void (*handler)(int number), int once)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction act = {.sa_handler = handler,
                            .sa_flags = once ? (int)SA_RESETHAND : 0};

    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction before;

        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN)
            continue; /* below nohup, or a shell's job in the background */
        sigaction(numbers[i], &act, NULL);
    }
}

static void record_signal(int number)
{
    asked = number;
}

void stop_note(void)
{
    stop_catch(record_signal, 1);
}

int stop_asked(void)
{
    return (int)asked;
}
