/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes a sequence of records (a spool), in memory or in a temporary file. */
#include "build/sort/spool.h"

#include <string.h>

#include "base/files/fd.h"
#include "base/files/tempfile.h"

static void take_room(struct ts_spool *s)
{
    struct ts_spool_rooms *rooms = s->rooms;
    for (uint32_t i = 0; i < 2 && rooms != NULL && rooms->words > 0 && s->room == 0; i++)
        if (!rooms->taken[i]) {
            rooms->taken[i] = 1;
            s->room = i + 1;
            s->head = rooms->mem[i];
            s->head_n = rooms->words / s->layout.words;
        }
}

int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_spool_rooms *rooms, struct ts_err *err)
{
    memset(s, 0, sizeof *s);
    s->layout = *layout;
    s->tmp = tmp;
    s->rooms = rooms;
    s->fd = -1;
    return ts_tempfile_new(tmp, &s->fd, err);
}

int ts_spool_adopt(struct ts_spool *s, uint64_t **mem, uint64_t n)
{
    uint64_t *room;
    if (s->n == 0)
        take_room(s);
    if (s->n > 0 || s->room == 0 || n > s->head_n)
        return 0;
    room = s->head;
    s->head = s->rooms->mem[s->room - 1] = *mem;
    s->n = n;
    *mem = room;
    return 1;
}

void ts_spool_close(struct ts_spool *s)
{
    if (s->room > 0)
        s->rooms->taken[s->room - 1] = 0;
    ts_fd_close(s->fd);
    memset(s, 0, sizeof *s);
    s->fd = -1;
}

/* Returns how many of the records first .. first + n - 1 are in memory, in the room of the spool
 * (memory for its first records). */
static uint64_t in_room(const struct ts_spool *s, uint64_t first, uint64_t n)
{
    const uint64_t left = first < s->head_n ? s->head_n - first : 0;
    return n < left ? n : left;
}

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err)
{
    const uint64_t words = s->layout.words, bytes = words * sizeof *rec;
    uint64_t head;
    int rc = 0;
    if (s->n == 0)
        take_room(s);
    head = in_room(s, s->n, n);
    if (head > 0)
        memcpy(s->head + s->n * words, rec, head * bytes);
    if (head < n)
        rc = ts_tempfile_write(s->fd, s->tmp, rec + head * words, (n - head) * bytes,
                               (s->n + head - s->head_n) * bytes, err);
    s->n += rc == 0 ? n : 0;
    return rc;
}

int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err)
{
    const uint64_t words = s->layout.words, bytes = words * sizeof *buf;
    const uint64_t head = in_room(s, first, n);
    if (s->mem != NULL || (n > 0 && head == n)) {
        *ret = (s->mem != NULL ? s->mem : s->head) + first * words;
        return 0;
    }
    *ret = buf;
    if (head > 0)
        memcpy(buf, s->head + first * words, head * bytes);
    return ts_tempfile_read(s->fd, s->tmp, buf + head * words, (n - head) * bytes,
                            (first + head - s->head_n) * bytes, err);
}
