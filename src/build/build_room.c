/* SPDX-License-Identifier: BSD-3-Clause */
/* build_room.c - holds what a build takes against what is free: before it reads, and again when more
 * is known. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/machine.h"
#include "base/num.h"
#include "base/setting.h"
#include "build/build_impl.h"
#include "build/build_ranks.h"

#define WATCH_NS UINT64_C(500000000)

static void note(const struct ts_build *b, const char *text)
{
    struct ts_err e;
    if (b->o->note == NULL || !ts_build_ranks_writes(b))
        return;
    ts_fail(&e, TS_EIO, "%s", text);
    b->o->note(b->o->note_arg, &e);
}

/* What is free, once: later the build's own files lie there, too. */
static void look(struct ts_build *b)
{
    const char *slash = strrchr(b->o->out, '/');
    char *dir = slash == NULL ? strdup(".") : strndup(b->o->out, (size_t)(slash - b->o->out) + 1);
    if (dir == NULL)
        return;
    ts_disk_free_get(dir, &b->room.out);
    ts_disk_free_get(b->tmp, &b->room.tmp);
    b->room.dir = dir;
}

static int is_one_disk(const struct ts_build *b)
{
    return b->room.out.device == b->room.tmp.device;
}

/* One comparison: need bytes in dir, where there are some free. */
static int refuse(const struct ts_build *b, const char *when, uint64_t need, uint64_t there,
                  const char *dir, const char *what, const char *advice, struct ts_err *err)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS];
    return ts_fail(err, TS_EIO,
                   "%s: %s: %s at least %s, and %s has %s free: %s, or " TS_SET_NO_SPACE_CHECK
                   " tries it all the same",
                   b->o->out, when, what, ts_num_bytes(a, need), dir, ts_num_bytes(c, there),
                   advice);
}

static int compare(const struct ts_build *b, const struct ts_build_space *s, const char *when,
                   struct ts_err *err)
{
    const struct ts_disk_free *out = &b->room.out, *tmp = &b->room.tmp;
    const uint64_t file_most = out->file_most;
    struct ts_machine machine;
    if (is_one_disk(b) && s->both.low > out->bytes)
        return refuse(b, when, s->both.low, out->bytes, b->room.dir,
                      "the tensor and its temporary files take",
                      "name another place with " TS_SET_OUTPUT " or " TS_SET_TMP, err);
    if (!is_one_disk(b) && s->result.low > out->bytes)
        return refuse(b, when, s->result.low, out->bytes, b->room.dir, "the tensor takes",
                      "name another place with " TS_SET_OUTPUT, err);
    if (!is_one_disk(b) && s->tmp.low > tmp->bytes)
        return refuse(b, when, s->tmp.low, tmp->bytes, b->tmp, "temporary files take",
                      "name another place with " TS_SET_TMP, err);
    if (s->file.low > file_most)
        return refuse(b, when, s->file.low, file_most, "the limit of a file (ulimit -f)",
                      "a file takes", "raise the limit", err);
    ts_machine_get(&machine);
    if (b->area_mem == NULL && s->memory.low > machine.free_bytes)
        return refuse(b, when, s->memory.low, machine.free_bytes, "the machine",
                      "sorting takes memory of", "give it less with " TS_SET_MEMORY, err);
    return 0;
}

/* Between the bounds nobody knows. */
static void warn(struct ts_build *b, const struct ts_build_space *s, const char *but)
{
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS], text[1024];
    const int one = is_one_disk(b), in_tmp = !one && s->tmp.high > b->room.tmp.bytes;
    const struct ts_space *need = one ? &s->both : in_tmp ? &s->tmp : &s->result;
    const uint64_t there = in_tmp ? b->room.tmp.bytes : b->room.out.bytes;
    if (need->high <= there || need->high == UINT64_MAX || b->room.warned)
        return;
    b->room.warned = 1;
    snprintf(text, sizeof text,
             "%s: %sthe disk may get full: the build takes %s to %s%s, and %s has %s free",
             b->o->out, but, ts_num_bytes(a, need->low), ts_num_bytes(c, need->high),
             one && s->tmp.high > 0 ? " with temporary files" : "", in_tmp ? b->tmp : b->room.dir,
             ts_num_bytes(d, there));
    note(b, text);
}

int ts_build_room_begin(struct ts_build *b, struct ts_err *err)
{
    struct ts_build_space s;
    int rc = 0;
    b->space.o = b->o;
    b->space.order = b->order;
    b->space.beside_bytes = b->beside_bytes;
    if (b->space.value_bits == 0)
        b->space.value_bits = ts_build_value_bits(b);
    if (b->o->trial > 0)
        return 0;
    look(b);
    if (b->o->no_space_check || b->room.dir == NULL)
        return 0;
    ts_build_space_estimate(&b->space, &s);
    rc = compare(b, &s, "nothing was read", err);
    if (rc == 0)
        warn(b, &s, "");
    return rc;
}

static int is_watched(const struct ts_build *b)
{
    return b->o->trial == 0 && !b->o->no_space_check && b->room.dir != NULL;
}

int ts_build_room_watch(struct ts_build *b, int full, uint64_t done, uint64_t total,
                        struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    const uint64_t now = ts_clock_ns();
    uint64_t n, filled;
    struct ts_build_space_in in = b->space;
    struct ts_build_space s;
    int rc;
    if (!is_watched(b) || ts_build_comm_many(&b->ranks) ||
        (!full && now - b->room.watched_ns < WATCH_NS))
        return 0;
    b->room.watched_ns = now;
    pthread_mutex_lock(&c->lock);
    n = c->n_read - c->n_zeros;
    filled = 8 * c->n * c->layout.words;
    pthread_mutex_unlock(&c->lock);
    if (full || b->runs != NULL) /* what is collected becomes a run */
        in.runs_bytes = filled + (b->runs == NULL ? 0 : ts_extsort_bytes(b->runs));
    in.read.low = in.read.low > n ? in.read.low : n;
    ts_build_space_estimate(&in, &s);
    rc = compare(b, &s, "stopped while reading, as more has come than there is room for", err);
    if (rc < 0 || total == 0 || done < total / 50 || b->room.warned)
        return rc;
    in.read.low = (uint64_t)((double)n / (double)done * (double)total); /* as so far */
    ts_build_space_estimate(&in, &s);
    if (s.both.low > b->room.out.bytes && is_one_disk(b)) {
        s.both.high = s.both.low + s.both.low / 4;
        warn(b, &s, "if the rest is like what was read, ");
    }
    return 0;
}

int ts_build_room_known(struct ts_build *b, struct ts_err *err)
{
    struct ts_build_space_in in = b->space;
    struct ts_build_space s;
    const uint64_t n = b->collect.n_read - b->collect.n_zeros;
    const int merged = b->merge.nnz > 0;
    if (!is_watched(b) || ts_build_comm_many(&b->ranks))
        return 0;
    in.read = (struct ts_space){ n, n };
    if (!merged && b->runs != NULL)
        in.runs_bytes = ts_extsort_bytes(b->runs) + 8 * b->collect.n * b->collect.layout.words;
    in.nnz.high = n < in.nnz.high ? n : in.nnz.high;
    if (merged)
        in.nnz = (struct ts_space){ b->merge.nnz, b->merge.nnz };
    for (uint32_t m = 0; m < b->order; m++)
        in.dim[m].high = b->dim[m];
    if (merged)
        in.value_bits = b->code->code_bits + (b->o->weights ? 32 : 0);
    ts_build_space_estimate(&in, &s);
    b->room.need = s;
    return compare(b, &s, merged ? "stopped before packing" : "stopped after reading", err);
}

/* A disk that got full all the same. */
void ts_build_room_explain(const struct ts_build *b, struct ts_err *err)
{
    static const char *const phases[] = { "starting", "reading", "merging", "numbering" };
    char a[TS_NUM_CHARS], c[TS_NUM_CHARS], before[sizeof err->text];
    struct ts_build_space_in in = b->space;
    struct ts_build_space s;
    const int code = err == NULL ? 0 : err->code, sys = err == NULL ? 0 : err->sys;
    if ((sys != ENOSPC && sys != EDQUOT && sys != EFBIG) || b->room.dir == NULL)
        return;
    in.read.low = in.read.low > b->collect.n_read - b->collect.n_zeros
                      ? in.read.low
                      : b->collect.n_read - b->collect.n_zeros;
    if (b->merge.nnz > 0)
        in.nnz.low = b->merge.nnz;
    ts_build_space_estimate(&in, &s);
    memcpy(before, err->text, sizeof before);
    ts_fail(err, code,
            "%s, while %s; the build takes at least %s with its temporary files, and when it began "
            "%s had %s free",
            before,
            b->phase < TS_BUILD_PACKING              ? phases[b->phase]
            : b->phase < TS_BUILD_PACKING + b->order ? "packing"
                                                     : "writing",
            ts_num_bytes(a, s.both.low), b->room.dir, ts_num_bytes(c, b->room.out.bytes));
    err->sys = sys;
}
