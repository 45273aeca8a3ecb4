/* SPDX-License-Identifier: BSD-3-Clause */
/* waiting.h - stores nonzeros that wait for the indices of their names (names.h) in a file, as
 * records of equal length.
 *
 *   owner    the caller opens and closes the file
 *   units    bytes
 *   threads  any threads at the same time, each with its own batch
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_WAITING_H
#define TS_SOURCE_WAITING_H

#include "source/batch.h"

/* The file of nonzeros that wait, and the form of its records. */
struct ts_waiting {
    const char *tmp; /* directory of the file */
    int fd;          /* descriptor of the file; -1: there is none */
    uint64_t bytes;  /* size of the file */
    /* bytes of a record: an index for each mode, and the entry of the value */
    uint64_t record_bytes;
    uint32_t entry_bytes;         /* bytes of the entry of a value; 0: values are not stored */
    uint32_t width[TS_MAX_ORDER]; /* bytes of an index of each mode */
};

/* Writes all nonzeros of a batch to the file, from byte `at` on. */
int ts_waiting_put(const struct ts_waiting *w, const struct ts_batch *b, uint64_t at,
                   struct ts_err *err);

/* Reads n nonzeros, from byte `at` of the file on, into entries first .. first + n - 1 of a batch.
 * buf: memory for the records that are read. */
int ts_waiting_get(const struct ts_waiting *w, uint64_t at, uint64_t n, char *buf,
                   struct ts_batch *b, uint64_t first, struct ts_err *err);

#endif
