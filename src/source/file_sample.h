/* SPDX-License-Identifier: BSD-3-Clause */
/* file_sample.h - a sample of several files: which of them are read at all.
 *
 * A source reads a share of each file, but at least a piece. A piece is often more of a small file
 * than its share. To make up for it, files that follow are left out, so that a sample of thousands
 * of small files is not all of them.
 *
 *   units    bytes on disk
 *   threads  one at a time
 *   errors   none: a file that cannot be looked at is not left out
 */
#ifndef TS_SOURCE_FILE_SAMPLE_H
#define TS_SOURCE_FILE_SAMPLE_H

#include <stdint.h>

struct ts_file_sample {
    double share; /* of each file; 0 or 1: all is read */
    double due;   /* bytes that files to come should leave out */
};

static inline int ts_file_sample_is_on(const struct ts_file_sample *s)
{
    return s->share > 0 && s->share < 1;
}

/* To be called at the end of a file. size: 0 if it is not a regular file. */
void ts_file_sample_count(struct ts_file_sample *s, uint64_t read, uint64_t size);

/* Returns the number of the file to read, which is `next` or a later one; n_paths: none is left. */
uint32_t ts_file_sample_next(struct ts_file_sample *s, const char *const paths[], uint32_t n_paths,
                             uint32_t next);

#endif
