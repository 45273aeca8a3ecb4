/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.h - a sequence of records, in memory or in a temporary file.
 *
 *   owner    the spool owns its file; memory belongs to the caller
 *   units    records of one layout
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_SPOOL_H
#define TS_BUILD_SPOOL_H

#include <stdint.h>

#include "base/err.h"
#include "build/record.h"

struct ts_spool {
    struct ts_record_layout layout;
    uint64_t n;
    uint64_t *mem; /* NULL: in the file */
    int fd;        /* -1: none */
    const char *tmp;
};

/* Makes an empty spool in a temporary file of directory tmp, which must stay. */
int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_err *err);
void ts_spool_close(struct ts_spool *s);

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err);

/* Returns records [first, first + n): where they are in memory, or read into buf. */
int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err);

#endif
