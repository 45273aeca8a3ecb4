/* SPDX-License-Identifier: BSD-3-Clause */
/* replacelib.c - a library for LD_PRELOAD that replaces a directory at the k-th look at it.
 *
 *     TS_REPLACE=k TS_REPLACE_PATH=x.tsh TS_REPLACE_WITH=new.tsh TS_REPLACE_MARK=mark \
 *         LD_PRELOAD=tests/replacelib.so tools/tshard export x.tsh
 *
 * A look opens or stats a file whose path holds TS_REPLACE_PATH, or reads or maps a file after the
 * first such one; looks are counted from 1 over all threads. Before the k-th look both names are
 * exchanged in one step, and then the old files are removed one by one, as base/files/atomic_dir.c
 * does when another process replaces a result. The path may be a file, too. At the end the file
 * TS_REPLACE_MARK holds the number of looks, and how many of them came before the process locked a
 * file of the path (all, where it locked none); k = 0 counts them alone.
 *
 *   limits   functions of the C library are replaced, not system calls: what the C library opens
 *            and reads for itself (fread), and reads of io_uring, are not seen
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *part;
static long wanted;
static atomic_long looks, locked = -1; /* locked: looks before the first lock */
static atomic_int begun;

static __thread int inside; /* what is called here is no look */

static void remove_all(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e;
    if (d == NULL) {
        unlink(path);
        return;
    }
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            if (unlinkat(dirfd(d), e->d_name, 0) != 0) {
                char inner[4096];
                snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
                remove_all(inner);
            }
    closedir(d);
    rmdir(path);
}

static void count(void)
{
    const char *with = getenv("TS_REPLACE_WITH");
    const int saved = errno;
    if (inside)
        return;
    inside = 1;
    if (atomic_fetch_add(&looks, 1) + 1 == wanted) {
        if (renameat2(AT_FDCWD, with, AT_FDCWD, part, RENAME_EXCHANGE) != 0) {
            static const char text[] = "replacelib: this file system does not exchange names\n";
            (void)!write(STDERR_FILENO, text, sizeof text - 1);
            _exit(99);
        }
        remove_all(with);
    }
    inside = 0;
    errno = saved;
}

static void look_at(const char *path)
{
    if (part == NULL || path == NULL)
        return;
    if (strstr(path, part) != NULL) {
        atomic_store(&begun, 1);
        count();
    }
}

static void path_of(int fd, char *ret, size_t size)
{
    char link[64];
    ssize_t n;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, ret, size - 1);
    ret[n > 0 ? n : 0] = '\0';
}

static void look_below(int dir, const char *path)
{
    char name[4096];
    if (part == NULL || path == NULL)
        return;
    if (dir == AT_FDCWD || path[0] == '/') {
        look_at(path);
        return;
    }
    path_of(dir, name, sizeof name);
    look_at(name);
}

static void look_into(int fd)
{
    struct stat st;
    if (part != NULL && !inside && atomic_load(&begun) && fd > STDERR_FILENO &&
        fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        count();
}

#define REAL(type, name, ...)         \
    static type (*real)(__VA_ARGS__); \
    if (real == NULL)                 \
        *(void **)(void *)&real = dlsym(RTLD_NEXT, #name);

#define MODE                                    \
    mode_t mode = 0;                            \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) { \
        va_list ap;                             \
        va_start(ap, flags);                    \
        mode = va_arg(ap, mode_t);              \
        va_end(ap);                             \
    }

int open(const char *path, int flags, ...)
{
    REAL(int, open, const char *, int, ...)
    MODE look_at(path);
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    REAL(int, open64, const char *, int, ...)
    MODE look_at(path);
    return real(path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    REAL(int, openat, int, const char *, int, ...)
    MODE look_below(dir, path);
    return real(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...)
{
    REAL(int, openat64, int, const char *, int, ...)
    MODE look_below(dir, path);
    return real(dir, path, flags, mode);
}

FILE *fopen(const char *path, const char *how)
{
    REAL(FILE *, fopen, const char *, const char *)
    look_at(path);
    return real(path, how);
}

FILE *fopen64(const char *path, const char *how)
{
    REAL(FILE *, fopen64, const char *, const char *)
    look_at(path);
    return real(path, how);
}

int stat(const char *path, struct stat *st)
{
    REAL(int, stat, const char *, struct stat *)
    look_at(path);
    return real(path, st);
}

int access(const char *path, int how)
{
    REAL(int, access, const char *, int)
    look_at(path);
    return real(path, how);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    REAL(ssize_t, pread, int, void *, size_t, off_t)
    look_into(fd);
    return real(fd, to, n, at);
}

ssize_t pread64(int fd, void *to, size_t n, off64_t at)
{
    REAL(ssize_t, pread64, int, void *, size_t, off64_t)
    look_into(fd);
    return real(fd, to, n, at);
}

ssize_t read(int fd, void *to, size_t n)
{
    REAL(ssize_t, read, int, void *, size_t)
    look_into(fd);
    return real(fd, to, n);
}

int flock(int fd, int how)
{
    REAL(int, flock, int, int)
    const int rc = real(fd, how);
    char name[4096];
    long none = -1;
    if (part == NULL || rc != 0 || (how & LOCK_EX) == 0)
        return rc;
    path_of(fd, name, sizeof name);
    if (strstr(name, part) != NULL)
        atomic_compare_exchange_strong(&locked, &none, atomic_load(&looks));
    return 0;
}

void *mmap(void *where, size_t n, int prot, int flags, int fd, off_t at)
{
    REAL(void *, mmap, void *, size_t, int, int, int, off_t)
    if (fd >= 0)
        look_into(fd);
    return real(where, n, prot, flags, fd, at);
}

__attribute__((constructor)) static void begin(void)
{
    const char *k = getenv("TS_REPLACE");
    part = getenv("TS_REPLACE_PATH");
    wanted = k == NULL ? 0 : strtol(k, NULL, 10);
}

__attribute__((destructor)) static void end(void)
{
    const char *mark = getenv("TS_REPLACE_MARK");
    FILE *f;
    part = NULL;
    f = mark == NULL ? NULL : fopen(mark, "w");
    if (f == NULL)
        return;
    fprintf(f, "%ld %ld\n", atomic_load(&looks),
            atomic_load(atomic_load(&locked) < 0 ? &looks : &locked));
    fclose(f);
}
