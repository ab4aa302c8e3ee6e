/* init PROCESSES FILE_BYTES PROGRAM ARGUMENT... - the first process of a program's
 * namespace.
 *
 * It limits processes and the size of files (here, because a user namespace of its own
 * counts them), starts the program and waits for it: when it ends, the kernel ends
 * whatever the program has left behind. Descriptor 2 is the library's, 3 becomes the
 * program's standard error. On descriptor 2 it writes
 *
 *     started           the limits hold, the program begins
 *     failed N DOING    instead of that, or behind it: it could not do it, errno N
 *     ended CODE SIGNAL the program's end; CODE is -1 for a signal
 *
 * It stands alone, without a C library: one page of code starts in a fifth of the time a
 * shell takes, and this is done for every program. The library carries it as bytes. */
#include <asm/unistd.h>

/* ---- the kernel ---- */

#if defined(__x86_64__)
static long raw_syscall(long n, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;

    __asm__ volatile("syscall"
                     : "+a"(n)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return n;
}
__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall begin_init\n");
#elif defined(__aarch64__)
static long raw_syscall(long n, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return x0;
}
__asm__(".globl _start\n_start: mov x0, sp\nbl begin_init\n");
#elif defined(__riscv) && __riscv_xlen == 64
static long raw_syscall(long n, long a, long b, long c, long d, long e)
{
    register long a7 __asm__("a7") = n;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;

    __asm__ volatile("ecall"
                     : "+r"(a0)
                     : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4)
                     : "memory");
    return a0;
}
__asm__(".globl _start\n_start: mv a0, sp\ncall begin_init\n");
#else
#error "init.c: the calls of this processor are not known here"
#endif

enum {
    NOTE = 2,
    PROGRAM_ERRORS = 3,
    FILE_SIZE = 1, /* RLIMIT_FSIZE */
    PROCESSES = 6, /* RLIMIT_NPROC */
    CHILD_SIGNAL = 17,
    INTERRUPTED = 4, /* EINTR */
    SET_DUMPABLE = 4 /* PR_SET_DUMPABLE */
};

struct limit {
    unsigned long soft, hard;
};

/* ---- words ---- */

static void exit_process(long code)
{
    for (;;)
        (void)raw_syscall(__NR_exit_group, code, 0, 0, 0, 0);
}

static char *append_note_text(char *at, const char *text)
{
    while (*text != '\0')
        *at++ = *text++;
    return at;
}

static char *add_number(char *at, long n)
{
    char digits[24];
    int k = 0;

    if (n < 0) {
        *at++ = '-';
        n = -n;
    }
    do
        digits[k++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (k > 0)
        *at++ = digits[--k];
    return at;
}

static void write_note(const char *from, const char *to)
{
    (void)raw_syscall(__NR_write, NOTE, (long)from, to - from, 0, 0);
}

static void say_ended(long code, long signal)
{
    char line[64];
    char *at = add_number(append_note_text(line, "ended "), code);

    at = add_number(append_note_text(at, " "), signal);
    write_note(line, append_note_text(at, "\n"));
}

static void exit_with_failure(long error, const char *doing)
{
    char line[96];
    char *at = add_number(append_note_text(line, "failed "), error);

    at = append_note_text(append_note_text(at, " "), doing);
    write_note(line, append_note_text(at, "\n"));
    exit_process(125);
}

static long parse_decimal(const char *digits)
{
    long n = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++)
        n = 10 * n + (*digits - '0');
    return n;
}

/* ---- the work ---- */

/* Its notes are trusted, so the program, of the same user, must not see its memory or
 * descriptors in /proc/1. The program's own can be seen again once it is
 * executed. */
static void hide_from_program(void)
{
    long rc = raw_syscall(__NR_prctl, SET_DUMPABLE, 0, 0, 0, 0);

    if (rc != 0)
        exit_with_failure(-rc, "hide from the program");
}

/* Lower it, that is: a limit of the host's that is lower still remains. */
static void lower_rlimit(int which, const char *digits, const char *doing)
{
    struct limit now,
        to = {(unsigned long)parse_decimal(digits), (unsigned long)parse_decimal(digits)};
    long rc = raw_syscall(__NR_prlimit64, 0, which, 0, (long)&now, 0);

    if (rc == 0 && now.hard < to.hard)
        to.soft = to.hard = now.hard;
    if (rc == 0)
        rc = raw_syscall(__NR_prlimit64, 0, which, (long)&to, 0, 0);
    if (rc != 0)
        exit_with_failure(-rc, doing);
}

static void exec_program(char **argv, char **environment)
{
    static const char started[] = "started\n";
    long rc;

    write_note(started, started + sizeof started - 1);
    /* The note stays open until the program is there, for what may fail. */
    rc = raw_syscall(__NR_dup3, NOTE, PROGRAM_ERRORS + 1, 02000000 /* O_CLOEXEC */, 0, 0);
    if (rc >= 0)
        rc = raw_syscall(__NR_dup3, PROGRAM_ERRORS, NOTE, 0, 0, 0);
    if (rc >= 0)
        rc = raw_syscall(__NR_close, PROGRAM_ERRORS, 0, 0, 0, 0);
    if (rc >= 0)
        rc = raw_syscall(__NR_execve, (long)argv[0], (long)argv, (long)environment, 0, 0);
    (void)raw_syscall(__NR_dup3, PROGRAM_ERRORS + 1, NOTE, 0, 0, 0);
    exit_with_failure(-rc, "start the interpreter");
}

static void wait_for(long program)
{
    int status = 0;
    long pid, code, signal;

    do
        pid = raw_syscall(__NR_wait4, -1, (long)&status, 0, 0, 0);
    while (pid != program && (pid > 0 || pid == -INTERRUPTED));
    signal = status & 127;
    code = signal == 0 ? (status >> 8) & 255 : -1;
    say_ended(code, signal);
    exit_process(code >= 0 ? code : 128 + signal);
}

/* The stack as the kernel leaves it: a count, arguments, NULL, environment, NULL. */
__attribute__((used, noreturn)) void begin_init(long *stack);
void begin_init(long *stack)
{
    long n = stack[0];
    char **argv = (char **)(stack + 1);
    char **environment = argv + n + 1;
    long program;

    if (n < 4)
        exit_process(125);
    hide_from_program();
    lower_rlimit(PROCESSES, argv[1], "limit processes");
    lower_rlimit(FILE_SIZE, argv[2], "limit file sizes");
    program = raw_syscall(__NR_clone, CHILD_SIGNAL, 0, 0, 0, 0);
    if (program == 0)
        exec_program(argv + 3, environment);
    if (program < 0)
        exit_with_failure(-program, "start a process");
    wait_for(program);
    __builtin_unreachable();
}
