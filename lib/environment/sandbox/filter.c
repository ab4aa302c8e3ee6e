/* environment/sandbox/filter.c - a seccomp filter in classic BPF, one test a line.
 *
 * Namespaces, limits and the read-only system are bubblewrap's work. The filter closes
 * what they leave open: kernel interfaces that hold memory which no limit counts
 * (memfd_create, shmget and its kin), that reach other processes of the run (ptrace) or
 * the machine below (vsock), and large, seldom used ones where mistakes of kernels were
 * found (io_uring, bpf, user namespaces). A refused call gives EPERM; clone3, whose flags
 * lie in memory, ENOSYS, so that libc takes clone. */
#include "environment/sandbox/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define FOREIGN 0x40000000U /* x32's calls begin here */
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#endif

#ifdef ARCH

static const int refused[] = {
    /* memory that is nobody's */
    SYS_memfd_create,
    SYS_shmget,
    SYS_semget, /* 2 MiB of the kernel's own a call */
    SYS_msgget,
#ifdef SYS_memfd_secret
    SYS_memfd_secret,
#endif
    /* other processes */
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_process_madvise
    SYS_process_madvise,
#endif
    /* namespaces and mounts */
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
#ifdef SYS_open_tree
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    /* the kernel's own matters */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
#ifdef SYS_io_uring_setup
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
#endif
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_fanotify_init,
    SYS_kexec_load,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
#ifdef SYS_modify_ldt
    SYS_modify_ldt,
    SYS_iopl,
    SYS_ioperm,
#endif
};

static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

#define N_OF(a) (sizeof(a) / sizeof *(a))
#define LOAD(field)                                                                      \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(error) ANSWER(SECCOMP_RET_ERRNO | ((error)&SECCOMP_RET_DATA))
/* Skip the next line unless the loaded word is value. */
#define IF_IS(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 1)
#define IF_NOT(value) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 1, 0)

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the low half of an argument lies elsewhere"
#endif

#define NEW_NAMESPACES                                                                   \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |          \
     CLONE_NEWUTS | CLONE_NEWCGROUP)

static void append_instruction(struct sr1__buf *b, struct sock_filter f)
{
    sr1__buf_add(b, &f, sizeof f);
}

#define ADD(...) append_instruction(b, (struct sock_filter)__VA_ARGS__)

static void add_arch_check(struct sr1__buf *b)
{
    ADD(LOAD(arch));
    ADD(IF_NOT(ARCH));
    ADD(ANSWER(SECCOMP_RET_KILL_PROCESS));
    ADD(LOAD(nr));
#ifdef FOREIGN
    ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN, 0, 1));
    ADD(REFUSE(ENOSYS));
#endif
}

/* clone with a new namespace, and sockets of other families. Each block is skipped as a
 * whole, for it loads an argument over the number. */
static void add_arguments(struct sr1__buf *b)
{
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    ADD(LOAD(args[0]));
    ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACES, 0, 1));
    ADD(REFUSE(EPERM));
    ADD(ANSWER(SECCOMP_RET_ALLOW));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, N_OF(families) * 2 + 2));
    ADD(LOAD(args[0]));
    for (size_t i = 0; i < N_OF(families); i++) {
        ADD(IF_IS(families[i]));
        ADD(ANSWER(SECCOMP_RET_ALLOW));
    }
    ADD(REFUSE(EAFNOSUPPORT));
}

sr1_status sr1__filter_make(struct sr1__buf *b)
{
    add_arch_check(b);
    for (size_t i = 0; i < N_OF(refused); i++) {
        ADD(IF_IS(refused[i]));
        ADD(REFUSE(EPERM));
    }
#ifdef SYS_clone3
    ADD(IF_IS(SYS_clone3));
    ADD(REFUSE(ENOSYS));
#endif
    add_arguments(b);
    ADD(ANSWER(SECCOMP_RET_ALLOW));
    return sr1__buf_status(b, "filter of system calls");
}

#else

sr1_status sr1__filter_make(struct sr1__buf *b)
{
    return sr1__buf_status(b, "filter of system calls");
}

#endif
