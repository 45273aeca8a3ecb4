/* SPDX-License-Identifier: BSD-3-Clause */
/* waiting.h - the file of nonzeros that wait for the indices of their names (names.h), as records
 * of equal length.
 *
 *   owner    the caller opens and closes the file
 *   units    bytes
 *   threads  any, each with its own batch
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_WAITING_H
#define TS_SOURCE_WAITING_H

#include "source/batch.h"

struct ts_waiting {
    const char *tmp;              /* directory of the file */
    int fd;                       /* -1: none */
    uint64_t bytes;               /* size of the file */
    uint64_t record_bytes;        /* bytes of a nonzero: the widths of its modes, and its entry */
    uint32_t entry_bytes;         /* bytes of a value; 0: values are not kept */
    uint32_t width[TS_MAX_ORDER]; /* bytes of an index of each mode */
};

/* Writes all nonzeros of a batch, from byte `at` on. */
int ts_waiting_put(const struct ts_waiting *w, const struct ts_batch *b, uint64_t at,
                   struct ts_err *err);

/* Reads n nonzeros from byte `at` on, through buf, to place `first` of a batch. */
int ts_waiting_get(const struct ts_waiting *w, uint64_t at, uint64_t n, char *buf,
                   struct ts_batch *b, uint64_t first, struct ts_err *err);

#endif
