/* SPDX-License-Identifier: BSD-3-Clause */
/* decompress.h - the ways in which a file can be compressed: a table by first bytes, with the
 * functions that decompress.
 *
 * gzip is always there; zstd, xz and bzip2 are where the build found their libraries. Ways that a
 * build cannot decompress are in the table too, so that the sentence can name the program that can.
 * Files of several streams, one after another, are decompressed to their end.
 *
 *   owner    the caller owns file descriptor and buffers; an opened one is closed by its row's
 *            close
 *   units    bytes; positions are those of the packed file
 *   threads  one at a time
 *   errors   TS_EFORMAT for what is damaged or cut short, or takes more memory than allowed;
 *            TS_EIO; TS_ENOMEM; TS_ESTOP
 */
#ifndef TS_SOURCE_DECOMPRESS_H
#define TS_SOURCE_DECOMPRESS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TS_DECOMPRESS_HEAD 6u /* first bytes of a file, which tell how it is compressed */

/* A compressed file of which the first n_head bytes (at most 16) were read. */
struct ts_packed_file {
    int fd;
    const char *name; /* for sentences; must stay */
    const unsigned char *head;
    size_t n_head;
    const volatile sig_atomic_t *stop; /* may be NULL */
    uint64_t memory;                   /* most memory that decompression may take */
};

struct ts_decompressor {
    const char *name, *magic;
    size_t n_magic;
    const char *tool; /* the program that decompresses to its standard output */

    /* NULL: this build cannot decompress it */
    int (*open)(const struct ts_packed_file *file, void **ret, struct ts_err *err);
    /* Fills out with `room` bytes, or fewer at the end of the file: *ret says how many. */
    int (*read)(void *d, char *out, size_t room, size_t *ret, struct ts_err *err);
    uint64_t (*position)(const void *d); /* compressed bytes read so far */
    void (*close)(void *d);              /* NULL is fine */
};

/* The row for a file that begins with these bytes; NULL: not compressed in a known way. */
const struct ts_decompressor *ts_decompress_find(const unsigned char *head, size_t n);

/* Memory that decompressing a regular file with these first bytes may take, so that a budget can
 * leave room for it: 0 for the ways that take little. */
uint64_t ts_decompress_memory(const unsigned char *head, size_t n);

/* Names of the ways that this build can decompress, divided by ", ". */
const char *ts_decompress_names(void);

#endif
