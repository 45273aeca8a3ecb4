/* SPDX-License-Identifier: BSD-3-Clause */
/* reader.h - reads pieces of files into memory, many at a time, in an order that its owner chooses.
 *
 * The reader asks its owner for the next job (a piece of a file to be read) whenever it can take
 * one, and calls the owner's `done` after each job. One thread reads by io_uring, with O_DIRECT, in
 * reads of 1 MiB (a disk reaches its full rate with 16 of them in flight), and with files and
 * buffers that are registered with io_uring. Where the kernel refuses io_uring, threads call pread
 * instead; where it refuses O_DIRECT, reads go through the page cache.
 *
 *   owner    the owner's memory for a job must stay valid until `done` was called for it
 *   units    bytes; offset, bytes and addr of a job are multiples of TS_PAGE
 *   threads  next and done are called from the reader's own threads, kick from any thread, the
 *            other functions from one thread
 *   errors   the failure of a job is passed to `done`; new fails if a file cannot be opened
 */
#ifndef TS_STREAM_READER_H
#define TS_STREAM_READER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Ways to read that the reader must not use: for tests, and to measure their cost. */
enum ts_reader_avoid {
    TS_AVOID_URING = 1,
    TS_AVOID_DIRECT = 2,
    TS_AVOID_REGISTER = 4,
};

struct ts_read_job {
    uint32_t file;
    uint64_t offset, bytes;
    void *addr;
    /* how many of the last bytes of the job may be missing because the file ends before them */
    uint64_t spare;
    uint64_t tag; /* a number of the owner, which the reader only passes on to `done` */
};

struct ts_reader_conf {
    uint32_t n_files;
    const char *const *path;
    /* descriptors of the files, which the reader opens again as needed; -1: open that file by its
     * path; NULL: open all files by their paths */
    const int *fd;
    /* Buffers of equal size into which most jobs read. They are registered with io_uring if the
     * kernel allows it. n_buffers may be 0. */
    void *buffers;
    size_t buffer_bytes;
    uint32_t n_buffers;
    unsigned avoid; /* ways to read that are not used: bits of enum ts_reader_avoid */
    /* Returns 1 and a job, or 0 if there is no job now. The reader then calls it again after
     * ts_reader_kick. */
    int (*next)(void *ctx, struct ts_read_job *ret);
    /* Takes a finished job. rc: 0, or a negative ts_code whose message is in *err. */
    void (*done)(void *ctx, const struct ts_read_job *job, int rc, const struct ts_err *err);
    void *ctx;
};

struct ts_reader;

struct ts_reader_facts {
    int direct, uring, registered;
    const char *fallback; /* NULL, or a message about what the kernel refused; the reader owns it */
};

/* conf is copied, except the text of the paths, which must stay valid while the reader exists; `fd`
 * is not needed after this. */
int ts_reader_new(const struct ts_reader_conf *conf, struct ts_reader **ret, struct ts_err *err);
void ts_reader_free(struct ts_reader *r); /* waits for reads in flight; r may be NULL */
void ts_reader_kick(struct ts_reader *r);
void ts_reader_facts(struct ts_reader *r, struct ts_reader_facts *ret);

#endif
