/* SPDX-License-Identifier: BSD-3-Clause */
/* reader_uring.c - reads by io_uring: one thread keeps up to DEPTH reads in flight.
 *
 * The thread sleeps only while it waits for io_uring. A read of an eventfd is always in flight, and
 * ts_reader_kick writes to the eventfd. So one wait ends both when the disk has read and when a
 * slot becomes free.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/machine/thread.h"
#include "stream/feed/reader_engine.h"

#define PROBE_OPS 256u
/* most reads in flight; 16 of 1 MiB saturate an NVMe disk, 32 leave no gaps between them */
#define DEPTH       32u
#define PATIENCE_MS 10000 /* longest time in milliseconds to wait for space in the kernel's queue */
#define EVENT       UINT64_MAX /* marks the read of the eventfd in its user data */

/* A job that is being read. */
struct work {
    struct ts_read_job job;
    uint64_t asked;  /* bytes of the job for which reads were submitted */
    uint32_t flying; /* number of its reads in flight */
    int used, rc;
    struct ts_err err;
};

/* A read in flight. */
struct flight {
    struct work *work;  /* the job of the read; NULL: the entry is free */
    uint64_t at, bytes; /* offset and length of the read within its job */
    int direct;         /* 1: the read was submitted with O_DIRECT */
};

struct ts_reader_uring {
    struct ts_reader_files *files;
    struct io_uring ring;
    int ring_up, event, registered_files, registered_buffers;
    uint64_t event_count; /* the buffer of the read of the eventfd */
    int event_asked;
    atomic_int stop;
    pthread_t thread;
    int thread_up;
    struct work work[DEPTH]; /* each entry in use has reads in flight, or `filling` points to it */
    struct flight flight[DEPTH];
    uint32_t n_flying;
    struct work *filling; /* the job whose reads are being submitted, or NULL */
};

static struct io_uring_sqe *get_sqe(struct ts_reader_uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe == NULL) { /* the queue is full; submitting its entries makes space */
        io_uring_submit(&u->ring);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

static void ask_event(struct ts_reader_uring *u)
{
    struct io_uring_sqe *sqe = get_sqe(u);
    io_uring_prep_read(sqe, u->event, &u->event_count, sizeof u->event_count, 0);
    io_uring_sqe_set_data(sqe, (void *)(uintptr_t)EVENT);
    u->event_asked = 1;
}

/* Returns the number of the registered buffer that contains the whole memory of a read, or -1. */
static int buffer_of(const struct ts_reader_uring *u, const char *addr, uint64_t bytes)
{
    const struct ts_reader_conf *c = &u->files->conf;
    const char *base = c->buffers;
    if (!u->registered_buffers || addr < base || addr >= base + c->buffer_bytes * c->n_buffers)
        return -1;
    return (size_t)(addr - base) % c->buffer_bytes + bytes <= c->buffer_bytes
               ? (int)((size_t)(addr - base) / c->buffer_bytes)
               : -1;
}

static void ask_read(struct ts_reader_uring *u, struct flight *f)
{
    const struct ts_read_job *job = &f->work->job;
    const int fd = u->registered_files ? (int)job->file : u->files->fd[job->file];
    char *addr = (char *)job->addr + f->at;
    const int buffer = buffer_of(u, addr, f->bytes);
    struct io_uring_sqe *sqe = get_sqe(u);
    if (buffer >= 0)
        io_uring_prep_read_fixed(sqe, fd, addr, (unsigned)f->bytes, job->offset + f->at, buffer);
    else
        io_uring_prep_read(sqe, fd, addr, (unsigned)f->bytes, job->offset + f->at);
    if (u->registered_files)
        sqe->flags |= IOSQE_FIXED_FILE;
    f->direct = atomic_load(&u->files->direct);
    io_uring_sqe_set_data(sqe, f);
}

static int take_job(struct ts_reader_uring *u)
{
    const struct ts_reader_conf *c = &u->files->conf;
    struct work *w = u->work;
    while (w < u->work + DEPTH && w->used)
        w++;
    if (w == u->work + DEPTH || c->next(c->ctx, &w->job) != 1)
        return 0;
    w->used = 1;
    w->asked = 0;
    w->flying = 0;
    w->rc = 0;
    u->filling = w;
    return 1;
}

/* Submits reads until DEPTH reads are in flight or no job is left. */
static void fill(struct ts_reader_uring *u)
{
    while (u->n_flying < DEPTH && !atomic_load(&u->stop)) {
        struct flight *f = u->flight;
        struct work *w;
        uint64_t left;
        if (u->filling == NULL && !take_job(u))
            return;
        w = u->filling;
        while (f->work != NULL)
            f++;
        left = w->job.bytes - w->asked;
        f->work = w;
        f->at = w->asked;
        f->bytes = left < TS_READ_BYTES ? left : TS_READ_BYTES;
        ask_read(u, f);
        w->asked += f->bytes;
        w->flying++;
        u->n_flying++;
        if (w->asked == w->job.bytes || w->rc < 0)
            u->filling = NULL;
    }
}

static void end_read(struct ts_reader_uring *u, struct flight *f)
{
    const struct ts_reader_conf *c = &u->files->conf;
    struct work *w = f->work;
    f->work = NULL;
    u->n_flying--;
    if (w->rc < 0 && u->filling == w)
        u->filling = NULL;
    if (--w->flying > 0 || u->filling == w)
        return;
    w->used = 0;
    c->done(c->ctx, &w->job, w->rc, &w->err);
}

static void complete(struct ts_reader_uring *u, struct flight *f, int res)
{
    struct work *w = f->work;
    if (res >= 0 && (uint64_t)res < f->bytes &&
        f->at + (uint64_t)res + w->job.spare >= w->job.bytes) { /* the file ends here */
        end_read(u, f);
        return;
    }
    if (res > 0 && (uint64_t)res < f->bytes && (!f->direct || res % (int)TS_DIRECT_BYTES == 0)) {
        /* fewer bytes were read than asked for, which happens near the end of cached data */
        f->at += (uint64_t)res;
        f->bytes -= (uint64_t)res;
        ask_read(u, f);
        return;
    }
    if (res == -EINVAL && f->direct) {
        ts_reader_drop_direct(u->files); /* only the first read that fails changes something here */
        ask_read(u, f);
        return;
    }
    if ((res == -EINTR || res == -EAGAIN) && !atomic_load(&u->stop)) {
        ask_read(u, f);
        return;
    }
    if ((res < 0 || (uint64_t)res < f->bytes) && w->rc == 0)
        w->rc = ts_reader_fail(u->files, w->job.file, w->job.offset + f->at, res, &w->err);
    end_read(u, f);
}

static void reap(struct ts_reader_uring *u)
{
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&u->ring, &cqe) == 0) {
        void *data = io_uring_cqe_get_data(cqe);
        const int res = cqe->res;
        io_uring_cqe_seen(&u->ring, cqe);
        if (data != (void *)(uintptr_t)EVENT) {
            complete(u, data, res);
            continue;
        }
        u->event_asked = 0;
        if (!atomic_load(&u->stop))
            ask_event(u);
    }
}

/* Called when io_uring itself has failed: all reads in flight and all later jobs fail with this
 * code. */
static void give_up(struct ts_reader_uring *u, int code)
{
    const struct ts_reader_conf *c = &u->files->conf;
    struct ts_err err;
    struct ts_read_job job;
    int rc;
    errno = -code;
    rc = ts_fail_errno(&err, TS_EIO, "%s: io_uring failed", c->path[0]);
    for (uint32_t i = 0; i < DEPTH; i++)
        if (u->work[i].used)
            c->done(c->ctx, &u->work[i].job, rc, &err);
    while (c->next(c->ctx, &job) == 1)
        c->done(c->ctx, &job, rc, &err);
}

/* Returns the number of reads that the kernel has taken, into whose memory it may write at any
 * time. */
static uint32_t kernel_has(const struct ts_reader_uring *u)
{
    const uint32_t asked = u->n_flying + (u->event_asked ? 1 : 0),
                   waiting = io_uring_sq_ready(&u->ring);
    return asked > waiting ? asked - waiting : 0;
}

/* Decides what to do after a failure of io_uring. Returns 0 to try again, or the code with which to
 * give up. EAGAIN and EBUSY end when reads in flight end, for which the thread only waits. It gives
 * up after PATIENCE_MS, or at once if the reader stops and no read is in flight. */
static int bear(struct ts_reader_uring *u, int code, uint32_t *failures)
{
    static const struct timespec ms = { .tv_nsec = 1000000 };
    if (code != -EINTR && code != -EAGAIN && code != -EBUSY)
        return code;
    if (atomic_load(&u->stop) && kernel_has(u) == 0)
        return code;
    if (++*failures > PATIENCE_MS)
        return code;
    nanosleep(&ms, NULL);
    return 0;
}

static void *read_by_ring(void *arg)
{
    struct ts_reader_uring *u = arg;
    uint32_t failures = 0;
    ask_event(u);
    while (!atomic_load(&u->stop) || u->n_flying > 0) {
        int rc;
        fill(u);
        rc = io_uring_submit_and_wait(&u->ring, 1);
        if (rc >= 0)
            failures = 0;
        rc = rc < 0 ? bear(u, rc, &failures) : 0;
        if (rc < 0) {
            give_up(u, rc);
            return NULL;
        }
        reap(u);
    }
    return NULL;
}

/* Registers files and buffers, which saves the kernel some work in each read. A limit on locked
 * memory (ulimit -l) often makes the kernel refuse the buffers; reads work without registered
 * ones. */
static void register_all(struct ts_reader_uring *u)
{
    const struct ts_reader_conf *c = &u->files->conf;
    struct iovec *iov;
    if ((c->avoid & TS_AVOID_REGISTER) != 0)
        return;
    u->registered_files = io_uring_register_files(&u->ring, u->files->fd, c->n_files) == 0;
    iov = c->n_buffers == 0 ? NULL : malloc(c->n_buffers * sizeof *iov);
    if (iov == NULL)
        return;
    for (uint32_t i = 0; i < c->n_buffers; i++) {
        iov[i].iov_base = (char *)c->buffers + i * c->buffer_bytes;
        iov[i].iov_len = c->buffer_bytes;
    }
    u->registered_buffers = io_uring_register_buffers(&u->ring, iov, c->n_buffers) == 0;
    free(iov);
}

/* Returns 0 if the kernel has IORING_OP_READ (Linux 5.6), otherwise -errno. */
static int check_read(struct io_uring *ring)
{
    struct io_uring_probe *probe =
        calloc(1, sizeof *probe + PROBE_OPS * sizeof(struct io_uring_probe_op));
    int rc = probe == NULL ? -ENOMEM : io_uring_register_probe(ring, probe, PROBE_OPS);
    if (rc == -EINVAL) /* the kernel is too old to say which operations it has */
        rc = -ENOSYS;
    if (rc == 0 && !io_uring_opcode_supported(probe, IORING_OP_READ))
        rc = -ENOSYS;
    free(probe);
    return rc < 0 ? rc : 0;
}

int ts_reader_uring_new(struct ts_reader_files *f, struct ts_reader_uring **ret, struct ts_err *err)
{
    struct ts_reader_uring *u = calloc(1, sizeof *u);
    int rc;
    if (u == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for a reader");
    u->files = f;
    u->event = eventfd(0, EFD_CLOEXEC);
    rc = u->event < 0 ? -errno : io_uring_queue_init(4 * DEPTH, &u->ring, 0);
    u->ring_up = rc == 0;
    if (rc == 0)
        rc = check_read(&u->ring);
    if (rc == 0) {
        register_all(u);
        rc = -ts_thread_new(&u->thread, read_by_ring, u);
        u->thread_up = rc == 0;
    }
    if (rc == 0) {
        *ret = u;
        return 0;
    }
    ts_reader_note(f, "io_uring is refused (%s), reading with pread", strerror(-rc));
    ts_reader_uring_free(u);
    return ts_fail(err, TS_ELIMIT, "io_uring is refused: %s", strerror(-rc));
}

void ts_reader_uring_free(struct ts_reader_uring *u)
{
    if (u == NULL)
        return;
    atomic_store(&u->stop, 1);
    if (u->thread_up) {
        ts_reader_uring_kick(u);
        pthread_join(u->thread, NULL);
    }
    if (u->ring_up)
        io_uring_queue_exit(&u->ring);
    if (u->event >= 0)
        close(u->event);
    free(u);
}

void ts_reader_uring_kick(struct ts_reader_uring *u)
{
    const uint64_t one = 1;
    if (write(u->event, &one, sizeof one) != sizeof one)
        return; /* the counter is at its limit with unread kicks, so the thread wakes anyway */
}

int ts_reader_uring_registered(const struct ts_reader_uring *u)
{
    return u->registered_files && u->registered_buffers;
}
