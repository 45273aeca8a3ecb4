/* SPDX-License-Identifier: BSD-3-Clause */
/* file_sample.h - chooses which of several files a sample reads.
 *
 * A sample reads a share of each file, but at least one piece, which is more than the share of a
 * small file. To make up for this, later files are left out. So a sample of thousands of small
 * files does not read all of them.
 *
 *   units    bytes on disk
 *   threads  one at a time
 *   errors   none: a file whose size is not known is not left out
 */
#ifndef TS_SOURCE_FILE_SAMPLE_H
#define TS_SOURCE_FILE_SAMPLE_H

#include <stdint.h>

/* How much of the files a sample reads. */
struct ts_file_sample {
    double share; /* fraction of each file to read; 0 or 1: all of it */
    double due;   /* bytes of later files that must still be left out */
};

static inline int ts_file_sample_is_on(const struct ts_file_sample *s)
{
    return s->share > 0 && s->share < 1;
}

/* Adds to s->due how many bytes of later files the `read` bytes of a file stand for, because they
 * are more than its share. To be called at the end of each file. size: bytes of the file; 0 if it
 * is not a regular file. */
void ts_file_sample_count(struct ts_file_sample *s, uint64_t read, uint64_t size);

/* Returns the number of the file to read, which is `next` or a later one; n_paths: none is left. */
uint32_t ts_file_sample_next(struct ts_file_sample *s, const char *const paths[], uint32_t n_paths,
                             uint32_t next);

#endif
