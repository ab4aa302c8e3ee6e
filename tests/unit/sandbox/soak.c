/* soak [N] - N hostile programs (10,000), whose verdicts are known, through one sandbox.
 *
 * At the end: no wrong verdict, nothing written outside, no process left, and descriptors
 * and memory of this process as after the first hundredth. Exit status 77: no isolation
 * here. */
#include <searchr1/ext/sandbox.h>

#include "base/clock.h"
#include "base/mem.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE 16
#define MARK "sr1-soak-mark"
#define GROWTH_MAX ((int64_t)16 << 20)

/* %d is a number that differs from run to run. One line is printed by what passes. */
static const struct {
    const char *code;
    int32_t verdict;
} kinds[] = {
    {"print(%d)", SR1_RUN_PASSED},
    {"import sys; sys.exit(%d %% 250 + 1)", SR1_RUN_RUNTIME_ERROR},
    {"raise ValueError(%d)", SR1_RUN_RUNTIME_ERROR},
    {"import os; os.kill(os.getpid(), (4, 6, 7, 8, 9, 11, 15)[%d %% 7])",
     SR1_RUN_RUNTIME_ERROR},
    {"x = [%d] * 10**10", SR1_RUN_MEMORY},
    {"x = []\nwhile True: x.append(bytearray(1 << 24)) # %d", SR1_RUN_MEMORY},
    {"while True: print('%d' * 1000)", SR1_RUN_OUTPUT},
    {"import sys\nwhile True: sys.stderr.write('%d' * 1000)", SR1_RUN_OUTPUT},
    {"for p in ('/x%d', '/usr/x', '/etc/x', '/opt/x', '/var/tmp/x', '/srv/x', "
     "'/dev/x'):\n"
     "    try: open(p, 'w').write('x')\n    except OSError: continue\n"
     "    raise SystemExit(9)\nopen('/tmp/" MARK "', 'w').write('x')",
     SR1_RUN_PASSED},
    {"import os\nfor p in ('/etc/shadow', '/etc/passwd', '/root', '/home', "
     "'/proc/9%d/mem'):\n" /* 1 and 2 are its own */
     "    try: os.listdir(p) if p.count('/') == 1 else open(p)\n"
     "    except OSError: continue\n    raise SystemExit(9)",
     SR1_RUN_PASSED},
    {"import socket\ntry: socket.create_connection(('10.0.0.%d', 80), 2)\n"
     "except OSError: raise SystemExit(0)\nraise SystemExit(9)",
     SR1_RUN_PASSED},
    {"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
     "        os.execv('/bin/sleep', ['" MARK "', '1%d'])\n    os._exit(0)",
     SR1_RUN_PASSED},
    {"import os, signal\nfor s in (9, 15, 2): os.kill(1, s)\n"
     "try: os.kill(%d + 100000, 9)\nexcept OSError: raise SystemExit(0)\nraise "
     "SystemExit(9)",
     SR1_RUN_PASSED},
    {"import os\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n"
     "            os.execv('/bin/sleep', ['" MARK "', '1%d'])\n        n += 1\n"
     "except OSError: raise SystemExit(n > 40)",
     SR1_RUN_PASSED},
    {"import os\nos.symlink('/', '/tmp/l%d')\n"
     "try: open('/tmp/l%d/usr/lib/x', 'w')\nexcept OSError: raise SystemExit(0)\n"
     "raise SystemExit(9)",
     SR1_RUN_PASSED},
    {"import ctypes\nlibc = ctypes.CDLL(None)\n"
     "raise SystemExit(libc.unshare(0x10000000) == 0 or libc.ptrace(16, 1, 0, %d) == 0)",
     SR1_RUN_PASSED},
    {"with open('/tmp/big', 'wb') as f:\n    while True: f.write(bytes(1 << 20)) # %d",
     SR1_RUN_RUNTIME_ERROR},
    {"import sys, os\nos.close(0); os.close(1); os.close(2) # %d", SR1_RUN_PASSED},
    {"def f(): f()\nf() # %d", SR1_RUN_RUNTIME_ERROR},
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

/* These take their whole limit, so there are few of them. */
static const char *const slow[] = {
    "while True: pass # %d",
    "import time\ntime.sleep(1000 + %d)",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass # %d",
    ("import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
     "    except OSError: pass\nwhile True: signal.sigtimedwait([], 100 + %d)"),
};
#define EVERY 100 /* the share of slow ones */

static int64_t wrong;

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

/* Processes of this machine that carry our mark. */
static int marked(void)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int n = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[300], line[256] = "";
        FILE *f;

        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || (f = fopen(path, "r")) == NULL)
            continue;
        n += fread(line, 1, sizeof line - 1, f) > 0 && strcmp(line, MARK) == 0;
        fclose(f);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

struct hostile {
    sr1_execution *run;
    int32_t verdict;
    char code[1024];
};

static int begin(sr1_sandbox *box, struct hostile *h, int i)
{
    sr1_program p;

    sr1_program_init(&p);
    p.time_s = 120; /* the machine may be busy */
    if (i % EVERY == EVERY - 1) {
        h->verdict = SR1_RUN_TIMEOUT;
        snprintf(h->code, sizeof h->code, slow[i / EVERY % 4], i);
        p.time_s = 3;
    } else {
        h->verdict = kinds[i % KINDS].verdict;
        snprintf(h->code, sizeof h->code, kinds[i % KINDS].code, i % 200, i % 200);
    }
    p.code = h->code;
    if (sr1_sandbox_start(box, &p, &h->run) == SR1_OK)
        return 1;
    fprintf(stderr, "soak: %s\n", sr1_last_error());
    return 0;
}

static void end(struct hostile *h, int i)
{
    sr1_execution_result r = {.struct_size = sizeof r};

    if (h->run == NULL)
        return;
    (void)sr1_execution_wait(h->run, -1);
    (void)sr1_execution_result_get(h->run, &r);
    if (r.verdict != h->verdict && ++wrong <= 20)
        fprintf(stderr, "soak: run %d: %s (%s) in place of %s:\n%s\n%s\n", i,
                sr1_execution_verdict_name(r.verdict), r.message,
                sr1_execution_verdict_name(h->verdict), h->code, r.err);
    sr1_execution_free(h->run);
    h->run = NULL;
}

/* Runs from..to, AT_ONCE of them in flight; 0: one could not be started. */
static int work_off(sr1_sandbox *box, int from, int to)
{
    static struct hostile in_flight[AT_ONCE];
    int i;

    for (i = from; i < to; i++) {
        end(&in_flight[i % AT_ONCE], i - AT_ONCE);
        if (!begin(box, &in_flight[i % AT_ONCE], i))
            return 0;
    }
    for (int k = 0; k < AT_ONCE; k++)
        end(&in_flight[k], i - AT_ONCE + k);
    return 1;
}

struct state {
    int64_t live, rss;
    int fds, tmp, var_tmp, root;
};

/* A moment later: the sandbox lets go of a run after it has told of its end. */
static struct state look(void)
{
    usleep(300000);
    return (struct state){sr1__mem_live(), sr1__rss_bytes(),    entries("/proc/self/fd"),
                          entries("/tmp"), entries("/var/tmp"), entries("/")};
}

static int compare(const struct state *a, const struct state *b)
{
    int64_t grown = b->rss - a->rss;

    printf("blocks %" PRId64 " and %" PRId64
           ", descriptors %d and %d, memory grew by %.1f "
           "MiB, processes left %d, wrong verdicts %" PRId64 "\n",
           a->live, b->live, a->fds, b->fds, (double)grown / 1048576, marked(), wrong);
    if (a->tmp != b->tmp || a->var_tmp != b->var_tmp || a->root != b->root)
        printf("entries of /tmp %d and %d, /var/tmp %d and %d, / %d and %d (others may "
               "write "
               "there too)\n",
               a->tmp, b->tmp, a->var_tmp, b->var_tmp, a->root, b->root);
    return a->live == b->live && a->fds == b->fds && grown < GROWTH_MAX && wrong == 0 &&
           marked() == 0 && a->root == b->root && access("/tmp/" MARK, F_OK) != 0 &&
           access("/var/tmp/x", F_OK) != 0 && access("/opt/x", F_OK) != 0;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10000;
    int first = n / 100 > 100 ? n / 100 : 100;
    sr1_sandbox_options o;
    sr1_sandbox *box = NULL;
    sr1_sandbox_counters counts = {.struct_size = sizeof counts};
    struct state before, after;
    double begun = sr1__now();

    sr1_sandbox_options_init(&o);
    o.memory_mib = 256;
    o.tmp_mib = 16;
    if (sr1_sandbox_open(&box, &o) != SR1_OK) {
        fprintf(stderr, "soak: %s\n", sr1_last_error());
        return 77;
    }
    if (!work_off(box, 0, first))
        return 1;
    before = look();
    if (n > first && !work_off(box, first, n))
        return 1;
    after = look();
    (void)sr1_sandbox_counters_get(box, &counts);
    sr1_sandbox_free(box);
    wrong += counts.retries;
    printf("%d programs in %.0f s, %" PRId64 " begun again\n", n, sr1__now() - begun,
           counts.retries);
    if (compare(&before, &after))
        return 0;
    printf("FAILED\n");
    return 1;
}
