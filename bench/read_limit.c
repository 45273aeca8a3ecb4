/* SPDX-License-Identifier: BSD-3-Clause */
/* read_limit.c - the disk's limit for a streamed run: bare io_uring reads of the same files.
 *
 *   bench/read_limit [-n PASSES] FILE...
 *
 * All files one after another, 1 MiB a read, 32 reads in flight, O_DIRECT, registered buffers and
 * files, nobody looking at the bytes. Prints GB/s of each pass. A file whose size is no multiple of
 * a page is read up to the last whole one.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"

#define READ_BYTES ((uint64_t)1 << 20)
#define DEPTH      32u
#define PAGE       UINT64_C(4096)

struct files {
    char **path;
    int *fd;
    uint64_t *bytes, total;
    int n;
};

struct cursor {
    int file;
    uint64_t at;
};

static void die(const char *what, int error)
{
    fprintf(stderr, "read_limit: %s: %s\n", what, strerror(error));
    exit(1);
}

static void open_files(struct files *f)
{
    f->fd = malloc((size_t)f->n * sizeof *f->fd);
    f->bytes = malloc((size_t)f->n * sizeof *f->bytes);
    if (f->fd == NULL || f->bytes == NULL)
        die("files", ENOMEM);
    for (int i = 0; i < f->n; i++) {
        struct stat st;
        f->fd[i] = open(f->path[i], O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (f->fd[i] < 0 || fstat(f->fd[i], &st) != 0)
            die(f->path[i], errno);
        f->bytes[i] = (uint64_t)st.st_size / PAGE * PAGE;
        f->total += f->bytes[i];
    }
}

/* The next read into buffer `k`; 0 when all were asked for. */
static int ask(struct io_uring *ring, const struct files *f, struct cursor *c, char *memory,
               uint32_t k)
{
    struct io_uring_sqe *sqe;
    uint64_t n;
    while (c->file < f->n && c->at == f->bytes[c->file]) {
        c->file++;
        c->at = 0;
    }
    if (c->file == f->n)
        return 0;
    n = f->bytes[c->file] - c->at < READ_BYTES ? f->bytes[c->file] - c->at : READ_BYTES;
    sqe = io_uring_get_sqe(ring);
    io_uring_prep_read_fixed(sqe, c->file, memory + k * READ_BYTES, (unsigned)n, c->at, (int)k);
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(sqe, k);
    c->at += n;
    return 1;
}

/* Seconds that one pass over all files takes. */
static double pass(struct io_uring *ring, const struct files *f, char *memory)
{
    const uint64_t start = ts_clock_ns();
    struct cursor c = { 0 };
    uint32_t flying = 0;
    while (flying < DEPTH && ask(ring, f, &c, memory, flying))
        flying++;
    while (flying > 0) {
        struct io_uring_cqe *cqe;
        int rc = io_uring_submit_and_wait(ring, 1);
        if (rc < 0)
            die("io_uring_submit_and_wait", -rc);
        while (io_uring_peek_cqe(ring, &cqe) == 0) {
            const uint32_t k = (uint32_t)io_uring_cqe_get_data64(cqe);
            if (cqe->res < 0)
                die("read", -cqe->res);
            io_uring_cqe_seen(ring, cqe);
            flying--;
            flying += (uint32_t)ask(ring, f, &c, memory, k);
        }
    }
    return (double)(ts_clock_ns() - start) * 1e-9;
}

int main(int argc, char **argv)
{
    struct files f = { 0 };
    struct io_uring ring;
    struct iovec buffer[DEPTH];
    struct ts_err err;
    void *memory;
    int passes = 3, opt, rc;
    while ((opt = getopt(argc, argv, "n:")) != -1)
        if (opt != 'n' || (passes = atoi(optarg)) < 1)
            return 2;
    f.path = argv + optind;
    f.n = argc - optind;
    if (f.n == 0) {
        fprintf(stderr, "usage: read_limit [-n PASSES] FILE...\n");
        return 2;
    }
    open_files(&f);
    if (ts_bigmem_new(DEPTH * READ_BYTES, "buffers", &memory, &err) < 0) {
        fprintf(stderr, "read_limit: %s\n", err.text);
        return 1;
    }
    for (uint32_t k = 0; k < DEPTH; k++)
        buffer[k] = (struct iovec){ (char *)memory + k * READ_BYTES, READ_BYTES };
    rc = io_uring_queue_init(2 * DEPTH, &ring, 0);
    if (rc == 0)
        rc = io_uring_register_buffers(&ring, buffer, DEPTH);
    if (rc == 0)
        rc = io_uring_register_files(&ring, f.fd, (unsigned)f.n);
    if (rc < 0)
        die("io_uring", -rc);
    for (int i = 0; i < passes; i++)
        printf("%.3f GB/s, %.2f GB\n", (double)f.total * 1e-9 / pass(&ring, &f, memory),
               (double)f.total * 1e-9);
    io_uring_queue_exit(&ring);
    ts_bigmem_free(memory, DEPTH * READ_BYTES);
    for (int i = 0; i < f.n; i++)
        close(f.fd[i]);
    free(f.fd);
    free(f.bytes);
    return 0;
}
