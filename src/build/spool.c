/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes a sequence of records, in memory or in a temporary file. */
#include "build/spool.h"

#include <string.h>
#include <unistd.h>

#include "base/tempfile.h"

int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_err *err)
{
    memset(s, 0, sizeof *s);
    s->layout = *layout;
    s->tmp = tmp;
    s->fd = -1;
    return ts_tempfile_new(tmp, &s->fd, err);
}

void ts_spool_close(struct ts_spool *s)
{
    if (s->fd >= 0)
        close(s->fd);
    memset(s, 0, sizeof *s);
    s->fd = -1;
}

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint64_t bytes = s->layout.words * sizeof *rec;
    const int rc = ts_tempfile_write(s->fd, s->tmp, rec, n * bytes, s->n * bytes, err);
    s->n += rc == 0 ? n : 0;
    return rc;
}

int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err)
{
    const uint64_t bytes = s->layout.words * sizeof *buf;
    if (s->mem != NULL) {
        *ret = s->mem + first * s->layout.words;
        return 0;
    }
    *ret = buf;
    return ts_tempfile_read(s->fd, s->tmp, buf, n * bytes, first * bytes, err);
}
