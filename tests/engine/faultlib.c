/* SPDX-License-Identifier: BSD-3-Clause */
/* faultlib.c - a library for LD_PRELOAD that lets the k-th call of a kind fail.
 *
 *     TS_FAULT=write:7:ENOSPC:on TS_FAULT_MARK=mark LD_PRELOAD=tests/faultlib.so tools/tshard ...
 *
 * kind:k:errno:once lets the k-th call of a kind fail, kind:k:errno:on all from the k-th; k counts
 * from 1, over all threads, from the start of main. At the end the file TS_FAULT_MARK holds the
 * number of calls and, where one failed, " hit": who sees none has asked for a k beyond the last.
 *
 * System calls fail at the kernel's border, whoever makes them: a seccomp filter turns those of the
 * kind into a SIGSYS, whose handler counts and answers, or makes the call itself from the one place
 * that the filter lets through. So calls inside of the C library and of liburing count too. Memory
 * and threads (malloc, pthread_create) are functions of the C library that are replaced here.
 *
 *   limits   x86-64 Linux; neither counted nor failed are writes to standard error, where a program
 *            says what happened, and to an eventfd, whose counter no disk can fail; a close that
 *            fails has closed, as on Linux
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <dlfcn.h>

#define MAX_NUMBERS 6

static const struct kind {
    const char *name;
    int number[MAX_NUMBERS]; /* of system calls, ended by -1; none: replaced functions */
} kinds[] = {
    { "open", { SYS_open, SYS_openat, SYS_creat, -1 } },
    { "read", { SYS_read, SYS_readv, -1 } },
    { "pread", { SYS_pread64, SYS_preadv, -1 } },
    { "write", { SYS_write, SYS_writev, -1 } },
    { "pwrite", { SYS_pwrite64, SYS_pwritev, -1 } },
    { "fsync", { SYS_fsync, SYS_fdatasync, SYS_sync_file_range, -1 } },
    { "rename", { SYS_rename, SYS_renameat, SYS_renameat2, -1 } },
    { "close", { SYS_close, -1 } },
    { "ftruncate", { SYS_ftruncate, SYS_fallocate, -1 } },
    { "mkdir", { SYS_mkdir, SYS_mkdirat, -1 } },
    { "unlink", { SYS_unlink, SYS_unlinkat, SYS_rmdir, -1 } },
    { "stat", { SYS_stat, SYS_lstat, SYS_fstat, SYS_newfstatat, SYS_statx, -1 } },
    { "list", { SYS_getdents64, -1 } },
    { "lock", { SYS_flock, -1 } },
    { "mmap", { SYS_mmap, -1 } },
    { "io_uring_setup", { SYS_io_uring_setup, -1 } },
    { "io_uring_register", { SYS_io_uring_register, -1 } },
    { "io_uring_enter", { SYS_io_uring_enter, -1 } },
    { "malloc", { -1 } },
    { "pthread_create", { -1 } },
};

static const struct {
    const char *name;
    int number;
} errors[] = {
    { "EIO", EIO },       { "ENOSPC", ENOSPC }, { "ENOMEM", ENOMEM }, { "EACCES", EACCES },
    { "EMFILE", EMFILE }, { "EINTR", EINTR },   { "EAGAIN", EAGAIN }, { "EBUSY", EBUSY },
    { "ENOSYS", ENOSYS }, { "EINVAL", EINVAL }, { "EROFS", EROFS },   { "ENOLCK", ENOLCK },
    { "EDQUOT", EDQUOT }, { "EPERM", EPERM },
};

static const struct kind *kind; /* NULL until main, and where nothing is asked for */
static uint64_t first;
static int error, on;
static const char *mark;
static atomic_uint_fast64_t calls;
static atomic_int hits;

/* ---- the call itself ---- */

/* The one place that system calls of the kind may come from. */
__asm__(".pushsection .text\n"
        ".globl faultlib_call\n.hidden faultlib_call\n"
        ".globl faultlib_call_end\n.hidden faultlib_call_end\n"
        "faultlib_call:\n"
        "    mov %rdi, %rax\n    mov %rsi, %rdi\n    mov %rdx, %rsi\n    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n    mov %r9, %r8\n    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "faultlib_call_end:\n"
        "    ret\n"
        ".popsection\n");
extern long faultlib_call(long number, long a, long b, long c, long d, long e, long f);
extern const char faultlib_call_end[];

/* Whether this call is one that fails. */
static int fails(void)
{
    const uint64_t n = atomic_fetch_add(&calls, 1) + 1;
    if (first == 0 || n < first || (n > first && !on))
        return 0;
    atomic_store(&hits, 1);
    return 1;
}

/* A write that is not to be failed. */
static int spared(long number, long fd)
{
    struct stat st;
    if (number != SYS_write && number != SYS_writev)
        return 0;
    return fd == STDERR_FILENO ||
           (faultlib_call(SYS_fstat, fd, (long)(uintptr_t)&st, 0, 0, 0, 0) == 0 &&
            (st.st_mode & S_IFMT) == 0);
}

static void answer(int signal, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const long number = info->si_syscall;
    const int fail = !spared(number, (long)r[REG_RDI]) && fails();
    (void)signal;
    r[REG_RAX] = -error;
    if (!fail || number == SYS_close) {
        const long rc = faultlib_call(number, r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10],
                                      r[REG_R8], r[REG_R9]);
        if (!fail)
            r[REG_RAX] = rc;
    }
}

/* Traps the kind's calls, from anywhere but the one place. */
static int install(void)
{
    const uint64_t place = (uint64_t)(uintptr_t)faultlib_call_end;
    struct sock_filter f[MAX_NUMBERS + 8];
    struct sock_fprog program = { .filter = f };
    struct sigaction act = { .sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER };
    uint32_t n = 0, count = 0;
    while (kind->number[count] >= 0)
        count++;
    if (count == 0)
        return 0;
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (uint32_t i = 0; i < count; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)kind->number[i],
                                              (uint8_t)(count - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                          offsetof(struct seccomp_data, instruction_pointer));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)place, 1, 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program.len = (unsigned short)n;
    if (sigaction(SIGSYS, &act, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* ---- what is asked for ---- */

__attribute__((noreturn)) static void bad(const char *why)
{
    (void)!write(STDERR_FILENO, why, strlen(why));
    _exit(99);
}

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("TS_FAULT"), *end;
    char name[32];
    mark = getenv("TS_FAULT_MARK");
    if (text == NULL)
        return;
    end = strchr(text, ':');
    if (end == NULL || (size_t)(end - text) >= sizeof name)
        bad("faultlib: TS_FAULT is KIND:K:ERRNO:once or on\n");
    memcpy(name, text, (size_t)(end - text));
    name[end - text] = '\0';
    first = strtoull(end + 1, (char **)&end, 10);
    if (*end == ':')
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
            if (strncmp(end + 1, errors[i].name, strcspn(end + 1, ":")) == 0 &&
                errors[i].name[strcspn(end + 1, ":")] == '\0')
                error = errors[i].number;
    if (first > 0 && error == 0)
        bad("faultlib: TS_FAULT names no errno that is known\n");
    on = strlen(text) > 3 && strcmp(text + strlen(text) - 3, ":on") == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            kind = &kinds[i];
    if (kind == NULL)
        bad("faultlib: TS_FAULT names no kind that is known\n");
    if (install() != 0)
        bad("faultlib: no seccomp filter is possible here\n");
}

__attribute__((destructor)) static void end(void)
{
    char text[32] = "", digits[24];
    uint64_t n = atomic_load(&calls);
    size_t at = 0, k = 0;
    long fd;
    if (kind == NULL || mark == NULL)
        return;
    do
        digits[k++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (k > 0)
        text[at++] = digits[--k];
    memcpy(text + at, atomic_load(&hits) ? " hit\n" : "\n", 6);
    fd = faultlib_call(SYS_openat, AT_FDCWD, (long)(uintptr_t)mark, O_WRONLY | O_CREAT | O_TRUNC,
                       0666, 0, 0);
    if (fd < 0)
        return;
    faultlib_call(SYS_write, fd, (long)(uintptr_t)text, (long)strlen(text), 0, 0, 0);
    faultlib_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* ---- signals: SIGSYS is never blocked ---- */

static int set_mask(const char *name, int how, const sigset_t *set, sigset_t *old)
{
    int (*real)(int, const sigset_t *, sigset_t *) =
        (int (*)(int, const sigset_t *, sigset_t *))(uintptr_t)dlsym(RTLD_NEXT, name);
    sigset_t mine;
    if (set == NULL || how == SIG_UNBLOCK)
        return real(how, set, old);
    mine = *set;
    sigdelset(&mine, SIGSYS);
    return real(how, &mine, old);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return set_mask("pthread_sigmask", how, set, old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    return set_mask("sigprocmask", how, set, old);
}

/* ---- memory and threads ---- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static int no_memory(void)
{
    if (kind == NULL || kind->number[0] >= 0 || kind->name[0] != 'm' || !fails())
        return 0;
    errno = error;
    return 1;
}

void *malloc(size_t size)
{
    return no_memory() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return no_memory() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    return no_memory() ? NULL : __libc_memalign(align, size);
}

void *memalign(size_t align, size_t size)
{
    return no_memory() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
    void *p = no_memory() ? NULL : __libc_memalign(align, size);
    if (p == NULL)
        return ENOMEM;
    *ret = p;
    return 0;
}

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))(uintptr_t)dlsym(
            RTLD_NEXT, "pthread_create");
    if (kind != NULL && kind->number[0] < 0 && kind->name[0] == 'p' && fails())
        return error;
    return real(ret, attr, run, arg);
}
