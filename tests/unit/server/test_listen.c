/* Which of the addresses that a name stands for a server listens on. */
#include "retrieval/server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* What every name stands for, in this order; set by tests. */
static const char *addresses[3];
static struct sockaddr_in places[3];
static struct addrinfo infos[3];

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **out)
{
    (void)node;
    (void)hints;
    for (size_t i = 0; i < 3 && addresses[i] != NULL; i++) {
        places[i] = (struct sockaddr_in){.sin_family = AF_INET};
        places[i].sin_port = htons((uint16_t)atoi(service));
        inet_pton(AF_INET, addresses[i], &places[i].sin_addr);
        infos[i] = (struct addrinfo){.ai_family = AF_INET,
                                     .ai_addr = (struct sockaddr *)&places[i],
                                     .ai_addrlen = sizeof places[i]};
        if (i > 0)
            infos[i - 1].ai_next = &infos[i];
    }
    *out = infos;
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

static int absent; /* addresses to come that this machine does not have */

int listen(int fd, int backlog)
{
    if (absent > 0) {
        absent--;
        errno = EADDRNOTAVAIL;
        return -1;
    }
    return (int)syscall(SYS_listen, fd, backlog);
}

static void stands_for(const char *a, const char *b, const char *c)
{
    addresses[0] = a;
    addresses[1] = b;
    addresses[2] = c;
}

static void an_address_that_is_not_here_is_passed_over(void **state)
{
    struct sr1__listener l;

    (void)state;
    stands_for("127.0.0.1", "127.0.0.2", "127.0.0.3");
    absent = 2;
    assert_int_equal(sr1__listen(&l, "here", 0, 0), SR1_OK);
    assert_non_null(strstr(l.url, "http://127.0.0.3:"));
    assert_true(l.loopback);
    close(l.fd);
    absent = 3;
    assert_int_equal(sr1__listen(&l, "here", 0, 0), SR1_E_IO);
    assert_int_equal(absent, 0);
    assert_non_null(strstr(sr1_last_error(), "cannot listen on here"));
}

static void a_port_that_is_taken_is_not_sought_elsewhere(void **state)
{
    struct sr1__listener first;
    struct sr1__listener second;

    (void)state;
    stands_for("127.0.0.1", "127.0.0.2", NULL);
    assert_int_equal(sr1__listen(&first, "here", 0, 0), SR1_OK);
    assert_int_equal(sr1__listen(&second, "here", first.port, 0), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "name another port"));
    close(first.fd);
}

/* One of them is enough to be reached. */
static void a_name_that_others_reach_needs_a_token(void **state)
{
    struct sr1__listener l;

    (void)state;
    stands_for("127.0.0.1", "0.0.0.0", NULL);
    assert_int_equal(sr1__listen(&l, "here", 0, 0), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "token_env"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_is_not_here_is_passed_over),
        cmocka_unit_test(a_port_that_is_taken_is_not_sought_elsewhere),
        cmocka_unit_test(a_name_that_others_reach_needs_a_token),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
