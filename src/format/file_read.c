/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads regular files and pipes; messages name the file. */
#include "format/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/stop.h"

#define POLL_MS     100 /* milliseconds between checks of *stop */
#define PIECE_BYTES ((size_t)1 << 20)

/* A pipe that this process has open, by its number, is not opened again: if its writers are gone by
 * then, the new file would never tell its end. Returns -1 for all other paths. */
static int open_again(const char *path)
{
    struct stat st;
    int fd = -1, end = 0;
    if ((sscanf(path, "/dev/fd/%d%n", &fd, &end) != 1 &&
         sscanf(path, "/proc/self/fd/%d%n", &fd, &end) != 1) ||
        path[end] != '\0' || fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))
        return -1;
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int ts_file_read_open(const char *path, struct ts_err *err)
{
    int fd = open_again(path);
    /* with O_NONBLOCK, opening a pipe does not wait for a writer; poll later reports data or the
     * end */
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0 ? fd : ts_fail_errno(err, TS_EIO, "%s: cannot open", path);
}

int ts_file_read_next(int fd, const char *path, void *buf, size_t room,
                      const volatile sig_atomic_t *stop, size_t *ret, struct ts_err *err)
{
    for (;;) {
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        const int ready = poll(&wait, 1, POLL_MS);
        ssize_t n;
        if (ts_stop_asked(stop))
            return ts_stop_check(stop, err);
        if (ready == 0 || (ready < 0 && errno == EINTR))
            continue;
        n = read(fd, buf, room); /* read also works if poll cannot wait for this file */
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot read", path);
        *ret = (size_t)n;
        return 0;
    }
}

int ts_file_read_size(int fd, const char *path, uint64_t *ret, struct ts_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    if (!S_ISREG(st.st_mode))
        return ts_fail(err, TS_EFORMAT, "%s: not a file", path);
    *ret = (uint64_t)st.st_size;
    return 0;
}

int ts_file_read_at(int fd, const char *path, uint64_t offset, size_t n, void *ret,
                    struct ts_err *err)
{
    size_t done = 0;
    while (done < n) {
        const ssize_t got = pread(fd, (char *)ret + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ts_fail_errno(err, TS_EIO, "%s: reading at byte %" PRIu64, path, offset + done);
        if (got == 0)
            return ts_fail(err, TS_EFORMAT,
                           "%s: the file ends at byte %" PRIu64 ", expected %" PRIu64, path,
                           offset + done, offset + n);
        done += (size_t)got;
    }
    return 0;
}

/* Reads a whole file if it has at most `room` bytes. Sets *n_bytes to its size, and closes fd. */
static int read_small(int fd, const char *path, size_t room, void *ret, uint64_t *n_bytes,
                      struct ts_err *err)
{
    int rc = ts_file_read_size(fd, path, n_bytes, err);
    if (rc == 0 && *n_bytes <= room)
        rc = ts_file_read_at(fd, path, 0, (size_t)*n_bytes, ret, err);
    close(fd);
    return rc == 0 ? 1 : rc;
}

int ts_file_read_small(const char *path, size_t room, void *ret, uint64_t *n_bytes,
                       struct ts_err *err)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : ts_fail_errno(err, TS_EIO, "%s", path);
    return read_small(fd, path, room, ret, n_bytes, err);
}

int ts_file_read_small_in(const struct ts_open_dir *dir, const char *name, size_t room, void *ret,
                          uint64_t *n_bytes, struct ts_err *err)
{
    char *path;
    int fd, rc = ts_open_dir_named(dir, name, &fd, &path, err);
    if (rc <= 0)
        return rc;
    rc = read_small(fd, path, room, ret, n_bytes, err);
    free(path);
    return rc;
}

int ts_file_read_check(int fd, const char *path, uint64_t n, uint64_t expected, struct ts_err *err)
{
    XXH3_state_t *state = XXH3_createState();
    void *piece = malloc(PIECE_BYTES);
    uint64_t found;
    int rc = 0;
    if (state == NULL || piece == NULL) {
        rc = ts_no_memory(err, path);
        goto done;
    }
    XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < n && rc == 0;) {
        const size_t want = n - at < PIECE_BYTES ? (size_t)(n - at) : PIECE_BYTES;
        rc = ts_file_read_at(fd, path, at, want, piece, err);
        if (rc == 0)
            XXH3_64bits_update(state, piece, want);
        at += want;
    }
    if (rc < 0)
        goto done;
    found = XXH3_64bits_digest(state);
    if (found != expected)
        rc = ts_fail(err, TS_EFORMAT,
                     "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                     " (the file is damaged)",
                     path, found, expected);
done:
    free(piece);
    XXH3_freeState(state);
    return rc;
}
