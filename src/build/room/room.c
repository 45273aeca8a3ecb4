/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares bounds of the disk space and memory that a command needs with the free space and memory,
 * and writes messages. */
#include "build/room/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/machine/machine.h"
#include "base/num.h"
#include "base/setting.h"

void ts_room_look(const char *use, const char *name, const char *tmp, struct ts_room *ret)
{
    const char *slash = strrchr(name, '/');
    char *dir = slash == NULL ? strdup(".") : strndup(name, (size_t)(slash - name) + 1);
    struct ts_room r = { .what = use, .name = name };
    struct ts_machine machine;
    r.tmp = tmp != NULL ? strdup(tmp) : dir == NULL ? NULL : strdup(dir);
    ts_machine_get(&machine);
    r.memory_bytes = machine.free_bytes;
    if (r.tmp != NULL && dir != NULL) {
        ts_disk_free_get(dir, &r.out);
        ts_disk_free_get(r.tmp, &r.in_tmp);
        r.dir = dir;
    } else {
        free(dir);
    }
    *ret = r;
}

void ts_room_free(struct ts_room *r)
{
    free(r->dir);
    free(r->tmp);
    r->dir = r->tmp = NULL;
}

int ts_room_is_one_disk(const struct ts_room *r)
{
    return r->out.device == r->in_tmp.device;
}

/* Writes the last part of a message, which advises another place for the result, or also for
 * temporary files if with_tmp is 1. */
static void print_advice(const struct ts_room *r, int with_tmp, char *ret, size_t size)
{
    const char *place = r->place == NULL ? TS_SET_OUTPUT : r->place;
    const int named = *place != '\0';
    snprintf(ret, size, "name another place%s%s%s", named ? " with " : "", place,
             !with_tmp ? ""
             : named   ? " or " TS_SET_TMP
                       : ", or one for temporary files with " TS_SET_TMP);
}

/* Fails with the message that `need` bytes are needed in directory `dir`, where `there` bytes are
 * free. */
static int refuse(const struct ts_room *r, const char *when, uint64_t need, uint64_t there,
                  const char *dir, const char *files, const char *advice, struct ts_err *err)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS];
    return ts_fail(err, TS_EIO,
                   "%s: %s: %s at least %s, and %s has %s free: %s, or " TS_SET_NO_SPACE_CHECK
                   " tries it all the same",
                   r->name, when, files, ts_num_bytes(a, need), dir, ts_num_bytes(c, there),
                   advice);
}

int ts_room_check(const struct ts_room *r, const struct ts_need *need, const char *when,
                  struct ts_err *err)
{
    const int one = ts_room_is_one_disk(r);
    char advice[160];
    if (r->dir == NULL)
        return 0;
    print_advice(r, one && need->tmp.low > 0 && need->both.low > r->out.bytes, advice,
                 sizeof advice);
    if (one && need->tmp.low > 0 && need->both.low > r->out.bytes)
        return refuse(r, when, need->both.low, r->out.bytes, r->dir,
                      "the result and its temporary files take", advice, err);
    if (need->result.low > r->out.bytes)
        return refuse(r, when, need->result.low, r->out.bytes, r->dir, "the result takes", advice,
                      err);
    if (!one && need->tmp.low > r->in_tmp.bytes)
        return refuse(r, when, need->tmp.low, r->in_tmp.bytes, r->tmp, "temporary files take",
                      "name another place with " TS_SET_TMP, err);
    if (need->file > r->out.file_most)
        return refuse(r, when, need->file, r->out.file_most, "the limit of a file (ulimit -f)",
                      "a file takes", "raise the limit", err);
    if (need->memory.low > r->memory_bytes)
        return refuse(r, when, need->memory.low, r->memory_bytes, "the machine",
                      "sorting takes memory of", "give it less with " TS_SET_MEMORY, err);
    return 0;
}

static int may_lack_memory(const struct ts_room *r, const struct ts_need *need, const char *but,
                           struct ts_err *err)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS];
    if (need->memory.high <= r->memory_bytes || need->memory.high == UINT64_MAX)
        return 0;
    ts_fail(
        err, TS_ENOMEM,
        "%s: %sthe memory may not suffice: %s takes %s to %s, and the machine has %s free: give "
        "it less with " TS_SET_MEMORY,
        r->name, but, r->what, ts_num_bytes(a, need->memory.low),
        ts_num_bytes(c, need->memory.high), ts_num_bytes(d, r->memory_bytes));
    return 1;
}

int ts_room_may_lack(const struct ts_room *r, const struct ts_need *need, const char *but,
                     struct ts_err *err)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS];
    const int one = r->dir != NULL && ts_room_is_one_disk(r);
    const int in_tmp = !one && need->tmp.high != UINT64_MAX && need->tmp.high > r->in_tmp.bytes;
    const struct ts_space *of = one ? &need->both : in_tmp ? &need->tmp : &need->result;
    const uint64_t there = in_tmp ? r->in_tmp.bytes : r->out.bytes;
    if (r->dir == NULL)
        return 0;
    if (of->high <= there || of->high == UINT64_MAX)
        return may_lack_memory(r, need, but, err);
    ts_fail(err, TS_EIO, "%s: %sthe disk may get full: %s takes %s to %s%s, and %s has %s free",
            r->name, but, r->what, ts_num_bytes(a, of->low), ts_num_bytes(c, of->high),
            one && need->tmp.high > 0 ? " with temporary files" : "", in_tmp ? r->tmp : r->dir,
            ts_num_bytes(d, there));
    return 1;
}
