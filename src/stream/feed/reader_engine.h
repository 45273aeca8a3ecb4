/* SPDX-License-Identifier: BSD-3-Clause */
/* reader_engine.h - what the two engines of the reader (io_uring, and threads that call pread) have
 * in common: the files, and whether O_DIRECT works on them.
 *
 *   owner    ts_reader owns all of it
 *   threads  all threads read `files`; its lock is held while falling back to the page cache
 *   errors   as reader.h says
 */
#ifndef TS_STREAM_READER_ENGINE_H
#define TS_STREAM_READER_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "stream/feed/reader.h"

#define TS_READ_BYTES (1u << 20) /* most bytes of one read */
/* smallest block of a disk in bytes: an O_DIRECT read returns at least as many, except at the end
 * of the file */
#define TS_DIRECT_BYTES 512u

struct ts_reader_files {
    struct ts_reader_conf conf;
    int *fd;
    pthread_mutex_t lock;
    atomic_int direct;
    char fallback[400];
};

/* Appends a message about what the kernel refused to f->fallback. */
void ts_reader_note(struct ts_reader_files *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Makes all later reads use the page cache. Returns 1 if that was a change, otherwise 0. */
int ts_reader_drop_direct(struct ts_reader_files *f);

/* Writes to err the message for a read of `want` bytes at `offset` that returned `got` (>= 0) or
 * -errno. Returns the code. */
int ts_reader_fail(const struct ts_reader_files *f, uint32_t file, uint64_t offset, int64_t got,
                   struct ts_err *err);

/* Begins to read by io_uring (reader_uring.c, which owns *ret). Returns TS_ELIMIT if the kernel has
 * no io_uring. */
struct ts_reader_uring;
int ts_reader_uring_new(struct ts_reader_files *f, struct ts_reader_uring **ret,
                        struct ts_err *err);
void ts_reader_uring_free(struct ts_reader_uring *u);
void ts_reader_uring_kick(struct ts_reader_uring *u);
int ts_reader_uring_registered(const struct ts_reader_uring *u);

struct ts_reader_pread;
int ts_reader_pread_new(struct ts_reader_files *f, struct ts_reader_pread **ret,
                        struct ts_err *err);
void ts_reader_pread_free(struct ts_reader_pread *p);
void ts_reader_pread_kick(struct ts_reader_pread *p);

#endif
