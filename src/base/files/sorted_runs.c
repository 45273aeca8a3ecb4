/* SPDX-License-Identifier: BSD-3-Clause */
/* Appends the sorted runs of a sort to a temporary file. */
#include "base/files/sorted_runs.h"

#include <stdlib.h>

#include "base/files/fd.h"
#include "base/stop.h"
#include "base/files/tempfile.h"

/* bytes written between checks whether the user wants to stop */
#define WRITE_BYTES (UINT64_C(256) << 20)

void ts_sorted_runs_close(struct ts_sorted_runs *r)
{
    free(r->list);
    ts_fd_close(r->fd);
}

int ts_sorted_runs_room(struct ts_sorted_runs *r, size_t entry_bytes, struct ts_err *err)
{
    if (r->n == r->room) {
        const uint32_t room = 2 * r->room + 16;
        void *more = realloc(r->list, room * entry_bytes);
        if (more == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for %s", r->purpose);
        r->list = more;
        r->room = room;
    }
    return r->fd < 0 ? ts_tempfile_new(r->tmp, &r->fd, err) : 0;
}

int ts_sorted_runs_append(struct ts_sorted_runs *r, const void *data, uint64_t bytes,
                          struct ts_err *err)
{
    const char *from = data;
    int rc = 0;
    for (uint64_t done = 0, n; done < bytes && rc == 0; done += n) {
        n = bytes - done < WRITE_BYTES ? bytes - done : WRITE_BYTES;
        rc = ts_stop_check(r->stop, err);
        if (rc == 0)
            rc = ts_tempfile_write(r->fd, r->tmp, from + done, n, r->bytes, err);
        r->bytes += n;
    }
    return rc;
}
