/* Programs that try to get out of bubblewrap, to hurt, or to stay. */
#include "box.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* What fails with OSError prints "no", anything else "YES". */
#define TRY                                                                              \
    "import os, sys, socket, ctypes, signal, time\n"                                     \
    "libc = ctypes.CDLL(None, use_errno=True)\n"                                         \
    "def call(*a):\n"                                                                    \
    "    if libc.syscall(*a) < 0: raise OSError(ctypes.get_errno(), 'x')\n"              \
    "def t(f, *a):\n"                                                                    \
    "    try: f(*a)\n"                                                                   \
    "    except OSError: return print('no')\n"                                           \
    "    print('YES', f, a)\n"

static void expect_refused(const char *tries, int n)
{
    char code[4096];
    char out[3 * 64 + 1] = "";

    assert_true(n < 64);
    for (int i = 0; i < n; i++)
        memcpy(out + 3 * i, "no\n", 4);
    snprintf(code, sizeof code, TRY "%s", tries);
    expect(box, code, SR1_RUN_PASSED, out);
}

static void the_system_is_read_only(void **state)
{
    (void)state;
    need_box();
    expect_refused("for p in ('/x', '/usr/x', '/etc/x', '/dev/x', '/proc/x', '/bin/x',"
                   " '/usr/bin/python3', '/etc/ld.so.cache', '/proc/sys/kernel/hostname',"
                   " '/proc/sysrq-trigger'):\n"
                   "    t(open, p, 'a')\n"
                   "t(os.mkdir, '/home')\nt(os.symlink, '/tmp', '/usr/y')\n"
                   "t(os.remove, '/usr/bin/env')\nt(os.chmod, '/usr/bin/env', 0o777)\n"
                   "t(os.rename, '/tmp', '/tmp2')\nt(os.chmod, '/', 0o777)\n",
                   16);
}

static void secrets_are_not_there(void **state)
{
    (void)state;
    need_box();
    expect_refused(
        "for p in ('/etc/shadow', '/etc/passwd', '/root', '/home',"
        " '/var/log', '/run', '/mnt', '/opt', '/srv', '/sys/kernel',"
        " '/proc/1/environ/x', '/proc/kcore', '/dev/mem', '/dev/sda', '/dev/vda',"
        " os.path.expanduser('~/.ssh/id_rsa')):\n"
        "    t(os.stat if p.count('/') == 1 else open, p)\n",
        16);
    /* Environments that can be read belong to the sandbox itself. */
    setenv("SR1_TEST_SECRET", "hunter2", 1);
    expect(box,
           "import os\nfound = 0\n"
           "for p in os.listdir('/proc') if os.path.exists('/proc') else []:\n"
           "    try: found += b'hunter2' in open('/proc/%s/environ' % p, 'rb').read()\n"
           "    except OSError: pass\n"
           "print(found)",
           SR1_RUN_PASSED, "0\n");
    unsetenv("SR1_TEST_SECRET");
}

/* A socket in the abstract name space, which no mount hides, that somebody listens to. */
static int host_socket(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(a.sun_path, "\0sr1-test-escapes", 17);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a.sun_family + 17), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void there_is_no_network(void **state)
{
    int fd;

    (void)state;
    need_box();
    expect_refused(
        "t(socket.create_connection, ('1.1.1.1', 53), 3)\n"
        "t(socket.create_connection, ('localhost', 22), 3)\n"
        "t(socket.getaddrinfo, 'example.org', 80)\n"
        "t(socket.socket, socket.AF_PACKET, socket.SOCK_RAW)\n"
        "t(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1)\n"
        "t(socket.socket, 40, socket.SOCK_STREAM)\n"     /* AF_VSOCK: the machine below */
        "t(socket.socket, 38, socket.SOCK_SEQPACKET)\n", /* AF_ALG */
        7);
    fd = host_socket();
    expect_refused("s = socket.socket(socket.AF_UNIX)\n"
                   "t(s.connect, '\\0sr1-test-escapes')\n",
                   1);
    close(fd);
}

/* Folders that were named can be read, wherever they are, and nothing beside them. */
static void named_folders_are_read_only(void **state)
{
    static const char *const places[] = {"/tmp/sr1-named-XXXXXX",
                                         "/dev/shm/sr1-named-XXXXXX",
                                         "/var/tmp/sr1-named-XXXXXX"};
    char folders[3][32];
    const char *read_only[3];
    sr1_sandbox_options o = box_options(1);
    sr1_sandbox *other;
    char code[512];

    (void)state;
    need_box();
    for (int i = 0; i < 3; i++) {
        memcpy(folders[i], places[i], strlen(places[i]) + 1);
        read_only[i] = mkdtemp(folders[i]);
        assert_non_null(read_only[i]);
        assert_int_equal(chmod(read_only[i], 0755), 0);
    }
    o.read_only = read_only;
    o.n_read_only = 3;
    other = open_box(&o);
    snprintf(code, sizeof code,
             "import os\n"
             "for p in ('%s', '%s', '%s'):\n"
             "    assert os.listdir(p) == [], p\n"
             "    try: os.mkdir(p + '/x')\n"
             "    except OSError: print('no')\n"
             "print(os.listdir('/var/tmp') == [os.path.basename(p)])",
             read_only[0], read_only[1], read_only[2]);
    expect(other, code, SR1_RUN_PASSED, "no\nno\nno\nTrue\n");
    sr1_sandbox_free(other);
    for (int i = 0; i < 3; i++)
        rmdir(read_only[i]);
}

/* Two programs at a time have a network each, two in turn may have the same: it keeps
 * nothing of the first. */
static void programs_do_not_meet_in_their_networks(void **state)
{
    static const char code[] =
        "import socket, time\n"
        "a = socket.socket(socket.AF_UNIX)\na.bind('\\0here')\n"
        "s = socket.socket()\ns.bind(('127.0.0.1', 5000))\ns.listen(1)\n"
        "c = socket.create_connection(('127.0.0.1', 5000))\n"
        "d, _ = s.accept()\nd.sendall(b'x')\nassert c.recv(1) == b'x'\n"
        "d.close()\n" /* first: its end of the connection would linger in TIME-WAIT */
        "time.sleep(0.5)\nprint('met nobody')";
    sr1_program p = program_of(code);
    sr1_execution *runs[8];

    (void)state;
    need_box();
    p.expected = "met nobody";
    for (int i = 0; i < 8; i++)
        assert_int_equal(sr1_sandbox_start(box, &p, &runs[i]), SR1_OK);
    expect_all(runs, 8, 90, SR1_RUN_PASSED);
}

/* What programs share is not to be seen, nor the processes outside. */
static void the_jail_is_not_seen(void **state)
{
    (void)state;
    need_box();
    assert_int_equal(strstr(sr1_sandbox_describe(box), "no jail") == NULL, may_have_jail);
    expect(box,
           "import os\n"
           "print(set(os.listdir('/')) - {'.init', 'bin', 'dev', 'etc', 'lib', 'lib32',"
           " 'lib64', 'libx32', 'proc', 'sbin', 'tmp', 'usr'})\n"
           "if os.path.exists('/proc/self'):\n"
           "    mounts = open('/proc/self/mounts').read()\n"
           "    print(mounts.count(' proc '), 'oldroot' in mounts)\n"
           "    print(sorted(p for p in os.listdir('/proc') if p.isdigit()))\n"
           "else: print(1, False), print(['1', '2'])",
           SR1_RUN_PASSED, "set()\n1 False\n['1', '2']\n");
}

static void dangerous_calls_are_refused(void **state)
{
    (void)state;
    need_box();
    expect_refused(
        "t(os.memfd_create, 'x')\nt(os.chroot, '/tmp')\n"
        "def p(r):\n"
        "    if libc.ptrace(r, 1, 0, 0) < 0: raise OSError()\n"
        "t(p, 16)\nt(p, 0x4206)\n" /* ATTACH, SEIZE */
        "def u(f):\n"
        "    if libc.unshare(f) < 0: raise OSError()\n"
        "for f in (0x10000000, 0x20000, 0x40000000): t(u, f)\n"
        "def m():\n"
        "    if libc.mount(b'x', b'/tmp', b'tmpfs', 0, 0) < 0: raise OSError()\n"
        "t(m)\n"
        "def s():\n"
        "    if libc.shmget(0, 4096, 0o1600) < 0: raise OSError()\n"
        "t(s)\n"
        "def q(f, *a):\n"
        "    if f(*a) < 0: raise OSError()\n"
        "t(q, libc.semget, 0, 100, 0o1600)\n"
        "t(q, libc.msgget, 0, 0o1600)\n"
        "t(os.setuid, 0)\nt(os.nice, -5)\n"
        "t(os.mknod, '/tmp/n', 0o60600, 0x800)\n",
        14);
}

/* Signals reach nobody outside, and not the first process of the run. */
/* The first process says how the program ended: one that could write to it or in its name
 * would say that it ended well, or was never run. */
static const char forges_its_end[] = TRY
    "t(open, '/proc/1/mem', 'r+b')\nt(os.listdir, '/proc/1/fd')\n"
    "t(open, '/proc/1/maps')\nt(os.readlink, '/proc/1/exe')\n"
    "for fd in range(6): t(open, '/proc/1/fd/%d' % fd, 'wb')\n"
    "for fd in range(100):\n"
    "    for at in ('/proc/1/fd/%d', '/proc/self/fd/%d'):\n"
    "        try: os.write(os.open(at % fd, os.O_WRONLY), b'failed 1 x\\nended 0 0\\n')\n"
    "        except OSError: pass\n"
    "sys.exit(1)\n";

/* 1 when such a program is told from one that ended well, or that was not run. */
static int is_told(sr1_sandbox *from)
{
    sr1_program p = program_of(forges_its_end);
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *run = NULL;
    int told = sr1_sandbox_run(from, &p, &run) == SR1_OK &&
               sr1_execution_result_get(run, &r) == SR1_OK &&
               r.verdict == SR1_RUN_RUNTIME_ERROR && r.exit_code == 1 &&
               strstr(r.out, "YES") == NULL;

    if (!told)
        print_error("%s, exit code %d: %s\n%s", sr1_execution_verdict_name(r.verdict),
                    (int)r.exit_code, r.message, r.out != NULL ? r.out : "");
    sr1_execution_free(run);
    return told;
}

static void nobody_speaks_for_the_first_process(void **state)
{
    (void)state;
    need_box();
    assert_true(is_told(box));
}

/* The same of a caller that is not root: 0 when it is told, 77 where no program can be
 * isolated for such a user. */
static int tell_as_another_user(void)
{
    sr1_sandbox_options o = box_options(1);
    sr1_sandbox *mine = NULL;
    int told;

    if (setgid(1000) != 0 || setuid(1000) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
        return 2;
    if (sr1_sandbox_open(&mine, &o) != SR1_OK)
        return 77;
    told = is_told(mine);
    sr1_sandbox_free(mine);
    return !told;
}

static void nor_for_that_of_another_user(void **state)
{
    int status = 0;
    pid_t pid;

    (void)state;
    need_box();
    if (geteuid() != 0)
        skip();
    pid = fork();
    if (pid == 0)
        _exit(tell_as_another_user());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

static void others_are_not_hurt(void **state)
{
    char code[1024];
    pid_t victim;

    (void)state;
    need_box();
    victim = fork();
    if (victim == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    snprintf(code, sizeof code,
             TRY "signal.signal(15, signal.SIG_IGN)\n"
                 "t(os.kill, %d, 9)\nt(os.kill, %d, 9)\nt(os.kill, -1, 15)\n"
                 "for s in (9, 15, 2): os.kill(1, s)\nprint('alive')",
             (int)victim, (int)getpid());
    expect(box, code, SR1_RUN_PASSED, "no\nno\nno\nalive\n");
    assert_int_equal(kill(victim, 0), 0);
    kill(victim, SIGKILL);
    assert_int_equal(waitpid(victim, NULL, 0), victim);
}

static void symlinks_lead_nowhere(void **state)
{
    char folder[] = "/tmp/sr1-escapes-XXXXXX";
    char path[64], code[1024];
    int fd;

    (void)state;
    need_box();
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/secret", folder);
    fd = open(path, O_CREAT | O_WRONLY, 0666);
    assert_int_equal(write(fd, "secret", 6), 6);
    close(fd);
    snprintf(
        code, sizeof code,
        "os.symlink('%s', '/tmp/l')\nos.symlink('/proc/1/root', '/tmp/r')\n"
        "os.symlink('/proc/self/cwd/../../..', '/tmp/c')\n"
        "t(open, '/tmp/l')\nt(open, '%s')\nt(open, '/tmp/r%s')\nt(open, '/tmp/c%s')\n"
        "t(open, '/tmp/r/etc/shadow')\nt(open, '/tmp/r/x', 'w')\n",
        path, path, path, path);
    expect_refused(code, 6);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* Is a process with this argument alive anywhere on the host? */
static int is_running(const char *mark)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int found = 0;

    while ((e = readdir(d)) != NULL) {
        char path[300], line[4096];
        FILE *f;
        size_t n;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if ((f = fopen(path, "r")) == NULL)
            continue;
        n = fread(line, 1, sizeof line, f);
        fclose(f);
        found |= memmem(line, n, mark, strlen(mark)) != NULL;
    }
    closedir(d);
    return found;
}

/* A name that no other process has in its arguments, in pieces here too. */
static void mark_of(char mark[64])
{
    snprintf(mark, 64, "stay-%d-%d", (int)getpid(), rand());
}

static void nothing_is_left_behind(void **state)
{
    static const char *const ways[] = {
        /* a child, a double fork with a session of its own, a daemon that ignores all */
        "if os.fork() == 0: stay()\nprint('bye')",
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: stay()\n    "
        "os._exit(0)\n"
        "print('bye')",
        "if os.fork() == 0:\n    os.setsid()\n"
        "    for s in range(1, 32):\n"
        "        try: signal.signal(s, signal.SIG_IGN)\n"
        "        except OSError: pass\n"
        "    for f in (0, 1, 2): os.close(f)\n"
        "    stay()\nprint('bye')",
        "for i in range(20):\n    if os.fork() == 0: stay()\nprint('bye')",
    };

    (void)state;
    need_box();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char mark[64], code[1024];

        mark_of(mark);
        snprintf(code, sizeof code,
                 "import os, signal\n"
                 "def stay(): os.execv('/bin/sleep', ['%s', '1000'])\n%s",
                 mark, ways[i]);
        expect(box, code, SR1_RUN_PASSED, "bye\n");
        assert_false(is_running(mark));
    }
}

/* The same when the run is stopped at its limit, or cancelled, or its memory is gone. */
static void what_is_stopped_ends_whole(void **state)
{
    char mark[64], code[512];
    sr1_program p;
    sr1_execution_result r = {.struct_size = sizeof r};
    sr1_execution *run = NULL;

    (void)state;
    need_box();
    mark_of(mark);
    snprintf(code, sizeof code,
             "import os\nif os.fork() == 0:\n    os.setsid()\n"
             "    os.execv('/bin/sleep', ['%s', '1000'])\n"
             "while True: pass",
             mark);
    p = program_of(code);
    p.time_s = 1.5;
    run = run_of(box, &p, &r);
    assert_verdict(&r, SR1_RUN_TIMEOUT);
    assert_false(is_running(mark));
    sr1_execution_free(run);
    p.time_s = 100;
    assert_int_equal(sr1_sandbox_start(box, &p, &run), SR1_OK);
    for (double until = sr1__now() + 60; !is_running(mark) && sr1__now() < until;)
        usleep(10000);
    assert_true(is_running(mark));
    sr1_execution_cancel(run);
    assert_int_equal(sr1_execution_wait(run, 60), SR1_OK);
    assert_false(is_running(mark));
    sr1_execution_free(run);
}

static void a_fork_bomb_is_held(void **state)
{
    static const char *const bombs[] = {
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'b() { b | b & }; b; sleep "
        "9'])\n"
        "while True: pass",
    };

    (void)state;
    need_box();
    for (size_t i = 0; i < 2; i++) {
        sr1_program p = program_of(bombs[i]);
        sr1_execution_result r;
        sr1_execution *run;

        p.time_s = 2;
        run = run_of(box, &p, &r);
        assert_verdict(&r, SR1_RUN_TIMEOUT);
        sr1_execution_free(run);
    }
    expect(box,
           "import os, time\nn = 0\ntry:\n"
           "    while True:\n"
           "        if os.fork() == 0: time.sleep(100)\n"
           "        n += 1\n"
           "except OSError: print(n)",
           SR1_RUN_PASSED, "31\n");
    expect(
        box,
        "import threading, time\nn = 0\ntry:\n"
        "    while True:\n"
        "        threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
        "        n += 1\n"
        "except RuntimeError: print(n)",
        SR1_RUN_PASSED, "31\n");
}

static void memory_bombs_end_as_memory(void **state)
{
    static const char *const bombs[] = {
        /* one process; several, each below the limit; memory that only files hold */
        "x = []\nwhile True: x.append(bytearray(1 << 22))",
        "import os, time\nfor i in range(6):\n"
        "    if os.fork() == 0: break\n"
        "x = bytearray(100 << 20)\ntime.sleep(1000)",
        "import mmap\nm = [mmap.mmap(-1, 1 << 26) for i in range(100)]",
    };
    static const char *const files[] = {
        "for i in range(1000):\n    with open('/tmp/%d' % i, 'wb') as f:\n"
        "        f.write(bytes(1 << 20))",
        "for i in range(1000):\n    with open('/dev/shm/%d' % i, 'wb') as f:\n"
        "        f.write(bytes(1 << 20))",
        "with open('/tmp/big', 'wb') as f:\n    for i in range(200): f.write(bytes(1 << "
        "20))",
    };

    (void)state;
    need_box();
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        sr1_program p = program_of(bombs[i]);
        sr1_execution_result r;
        sr1_execution *run;

        p.memory_mib = 256;
        run = run_of(box, &p, &r);
        if (r.verdict != SR1_RUN_MEMORY &&
            !(i == 2 && strstr(r.message, "Cannot allocate memory") != NULL))
            fail_msg("bomb %zu: %s, %s", i, sr1_execution_verdict_name(r.verdict),
                     r.message);
        sr1_execution_free(run);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        expect(box, files[i], SR1_RUN_RUNTIME_ERROR, NULL);
    /* Names cost memory of the kernel's that no size bounds. */
    expect(box,
           "import os\nfor i in range(10**7):\n    os.close(os.open('/tmp/%d' % i,"
           " os.O_CREAT))",
           SR1_RUN_MEMORY, NULL);
}

/* One that hangs, in its own way, delays none of 63 others in flight. */
static void one_that_hangs_delays_no_other(void **state)
{
    sr1_sandbox_options o = box_options(64);
    sr1_program hang = program_of("import time\ntime.sleep(1000)");
    sr1_program quick = program_of("print(sum(range(1000)))");
    sr1_execution *runs[64];
    sr1_sandbox *wide;

    (void)state;
    need_box();
    wide = open_box(&o);
    hang.time_s = 100;
    quick.expected = "499500";
    assert_int_equal(sr1_sandbox_start(wide, &hang, &runs[0]), SR1_OK);
    for (int i = 1; i < 64; i++)
        assert_int_equal(sr1_sandbox_start(wide, &quick, &runs[i]), SR1_OK);
    expect_all(runs + 1, 63, 90, SR1_RUN_PASSED);
    assert_int_equal(sr1_execution_wait(runs[0], 0), SR1_E_TIMEOUT);
    sr1_execution_free(runs[0]);
    sr1_sandbox_free(wide);
}

/* With one place, a program that hangs gives it up after a second. */
static void one_place_is_not_lost_to_one_that_hangs(void **state)
{
    sr1_sandbox_options o = box_options(1);
    sr1_program hang = program_of("while True: pass");
    sr1_sandbox *narrow;
    sr1_execution *run = NULL;

    (void)state;
    need_box();
    narrow = open_box(&o);
    hang.time_s = 500;
    assert_int_equal(sr1_sandbox_start(narrow, &hang, &run), SR1_OK);
    for (int i = 0; i < 5; i++)
        expect(narrow, "print(1)", SR1_RUN_PASSED, "1\n");
    assert_int_equal(sr1_execution_wait(run, 0), SR1_E_TIMEOUT);
    sr1_execution_free(run);
    sr1_sandbox_free(narrow);
}

/* The sandbox lets go of a run after it has told of its end. */
static int is_left(int64_t live, int fds)
{
    return sr1__mem_live() > live || entries("/proc/self/fd") > fds;
}

static void runs_leave_nothing_in_this_process(void **state)
{
    int64_t live;
    int fds;

    (void)state;
    need_box();
    for (int i = 0; i < 3; i++)
        expect(box, "x = nowhere", SR1_RUN_RUNTIME_ERROR, NULL);
    usleep(200000);
    live = sr1__mem_live();
    fds = entries("/proc/self/fd");
    for (int i = 0; i < 100; i++) {
        expect(box, "print(1)", SR1_RUN_PASSED, "1\n");
        expect(box, "x = nowhere", SR1_RUN_RUNTIME_ERROR, NULL);
    }
    for (int i = 0; i < 3000 && is_left(live, fds); i++)
        usleep(10000);
    assert_false(is_left(live, fds));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_is_read_only),
        cmocka_unit_test(secrets_are_not_there),
        cmocka_unit_test(there_is_no_network),
        cmocka_unit_test(named_folders_are_read_only),
        cmocka_unit_test(programs_do_not_meet_in_their_networks),
        cmocka_unit_test(the_jail_is_not_seen),
        cmocka_unit_test(dangerous_calls_are_refused),
        cmocka_unit_test(nobody_speaks_for_the_first_process),
        cmocka_unit_test(nor_for_that_of_another_user),
        cmocka_unit_test(others_are_not_hurt),
        cmocka_unit_test(symlinks_lead_nowhere),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(what_is_stopped_ends_whole),
        cmocka_unit_test(a_fork_bomb_is_held),
        cmocka_unit_test(memory_bombs_end_as_memory),
        cmocka_unit_test(one_that_hangs_delays_no_other),
        cmocka_unit_test(one_place_is_not_lost_to_one_that_hangs),
        cmocka_unit_test(runs_leave_nothing_in_this_process),
    };

    take_isolation(argc, argv);
    return cmocka_run_group_tests(tests, NULL, close_box);
}
