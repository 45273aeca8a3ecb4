/* SPDX-License-Identifier: BSD-3-Clause */
/* decompress.h - lists compressed formats: their first bytes, and the functions that decompress
 * them.
 *
 * gzip is always supported; zstd, xz and bzip2 if configure found their libraries. Formats that are
 * not supported are listed too, so that the message can name the program that decompresses them.
 * Files of several streams, one after another, are decompressed to their end.
 *
 *   owner    the caller owns file descriptor and buffers; what `open` returns is freed by `close`
 *            of the same row
 *   units    bytes; positions are in the packed file
 *   threads  one at a time
 *   errors   TS_EFORMAT for a file that is damaged or cut short, or needs more memory than allowed;
 *            TS_EIO; TS_ENOMEM; TS_ESTOP
 */
#ifndef TS_SOURCE_DECOMPRESS_H
#define TS_SOURCE_DECOMPRESS_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TS_DECOMPRESS_HEAD 6u /* number of a file's first bytes that tell how it is compressed */

/* A compressed file of which the first n_head bytes (at most 16) were read. */
struct ts_packed_file {
    int fd;
    const char *name; /* name of the file in messages; must stay */
    const unsigned char *head;
    size_t n_head;
    const volatile sig_atomic_t *stop; /* reading ends with TS_ESTOP when it is set; may be NULL */
    uint64_t memory;                   /* most memory that decompression may take */
};

struct ts_decompressor {
    const char *name, *magic;
    size_t n_magic;
    const char *tool; /* command that decompresses a file to standard output */

    /* NULL: this build cannot decompress the format */
    int (*open)(const struct ts_packed_file *file, void **ret, struct ts_err *err);
    /* Reads the next `room` decompressed bytes, or fewer at the end of the file. *ret: number of
     * bytes. */
    int (*read)(void *d, char *out, size_t room, size_t *ret, struct ts_err *err);
    uint64_t (*position)(const void *d); /* compressed bytes read so far */
    void (*close)(void *d);              /* d may be NULL */
};

/* Returns the format of a file that begins with these bytes; NULL: it is not compressed in a known
 * format. */
const struct ts_decompressor *ts_decompress_find(const unsigned char *head, size_t n);

/* Returns the memory that decompressing a regular file with these first bytes may need, for the
 * memory budget of a build; 0 for formats that need little. */
uint64_t ts_decompress_memory(const unsigned char *head, size_t n);

/* Returns the names of the formats that this build can decompress, separated by ", ". */
const char *ts_decompress_names(void);

#endif
