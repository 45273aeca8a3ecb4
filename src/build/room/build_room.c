/* SPDX-License-Identifier: BSD-3-Clause */
/* build_room.c - compares the disk space and memory that a build needs with the free space: before
 * it reads, and again when more is known about its input. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/num.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/packed/byte_input.h"
#include "source/packed/decompress.h"

#define WATCH_NS UINT64_C(500000000)

static void warn(struct ts_build *b, const struct ts_need *need, const char *but)
{
    struct ts_err text;
    if (b->room_warned || !ts_room_may_lack(&b->room, need, but, &text))
        return;
    b->room_warned = 1;
    if (b->o->note != NULL && ts_build_ranks_writes(b))
        b->o->note(b->o->note_arg, &text);
}

/* For a trial: writes the messages about too little space to the report, instead of failing. */
static void report(const struct ts_build *b)
{
    struct ts_build_report *r = b->report;
    (void)ts_room_check(&b->room, &r->need[TS_NEED_BEFORE], "nothing was read", &r->refused);
    (void)ts_room_may_lack(&b->room, &r->need[TS_NEED_BEFORE], "", &r->may_lack);
}

/* Returns an upper bound of the bytes of the text in a file of labels or of nonzeros, decompressed.
 * UINT64_MAX: not known. */
static uint64_t text_high(const char *path)
{
    unsigned char head[TS_DECOMPRESS_HEAD];
    struct stat st;
    const int fd = ts_byte_input_look(path, &st);
    ssize_t n = -1;
    if (fd >= 0)
        n = pread(fd, head, sizeof head, 0);
    ts_fd_close(fd);
    return n < 0 || ts_decompress_find(head, (size_t)n) != NULL ? UINT64_MAX : (uint64_t)st.st_size;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a == UINT64_MAX || b > UINT64_MAX / 2 ? UINT64_MAX : a + b;
}

/* Returns an upper bound of the bytes of names and labels on disk. For a table with names, it
 * includes nonzeros that wait for the indices of their names, and the names that do not fit in
 * memory, each with a number. Labels count twice if names are sorted. */
static uint64_t names_high(const struct ts_build *b)
{
    uint64_t sum = 0, line = 8 * (b->order + UINT64_C(2));
    int named = 0;
    for (uint32_t m = 0; m < b->order; m++) {
        const int field = b->table == NULL ? TS_TABLE_NUMBER : ts_table_mode_field(b->table, m);
        named |= field == TS_TABLE_NAME;
        line += field == TS_TABLE_NAME ? 40 : 0;
        if (field == TS_TABLE_TIME)
            sum = plus(sum, ts_build_table_times_bytes(ts_table_mode_bin(b->table, m)));
        if (b->o->map[m] != NULL)
            sum = plus(sum, text_high(b->o->map[m]));
        if (b->from != NULL)
            sum += b->from->mode[b->from_mode[m]].disk.labels_bytes;
    }
    for (uint32_t i = 0; i < b->n_files && named; i++) {
        const uint64_t one = strcmp(b->paths[i], "-") == 0 ? UINT64_MAX : text_high(b->paths[i]);
        sum = plus(sum, one < UINT64_MAX / 4 ? 3 * one : one);
    }
    if (named)
        sum = plus(sum,
                   b->space.read.high < UINT64_MAX / 4096 ? line * b->space.read.high : UINT64_MAX);
    return sum;
}

/* Whether `rank` runs on the machine of this rank. Returns 0 if that is not known. */
static int is_neighbour(const struct ts_comm *c, uint32_t rank)
{
    return rank == c->rank || c->beside == c->n ||
           (c->machine != NULL && c->machine[rank] == c->machine[c->rank]);
}

/* Adds to need->tmp.low, the lower bound of temporary files, the bounds of the other ranks on this
 * machine whose temporary files are on the same disk. The bound of each rank is about its own files
 * only. */
static int join_needs(struct ts_build *b, int rc, struct ts_need *need, struct ts_err *err)
{
    const struct ts_comm *c = b->ranks.comm;
    const uint64_t own[2] = { need->tmp.low, b->room.in_tmp.device };
    uint64_t *all = NULL, sum = 0;
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    rc = ts_build_comm_numbers(&b->ranks, rc, own, 2, &all, err);
    for (uint32_t r = 0; r < c->n && rc == 0; r++)
        if (r == c->rank || (own[1] != 0 && all[2 * r + 1] == own[1] && is_neighbour(c, r)))
            sum += all[2 * r];
    free(all);
    if (rc == 0) {
        need->tmp.low = sum;
        need->both.low = sum > need->both.low ? sum : need->both.low;
    }
    return rc;
}

int ts_build_room_begin(struct ts_build *b, struct ts_err *err)
{
    struct ts_need *need = &b->report->need[TS_NEED_BEFORE], joined;
    int rc = 0;
    b->space.order = b->order;
    b->space.beside_bytes = b->beside_bytes;
    if (b->space.value_bits == 0)
        b->space.value_bits = ts_build_value_bits(b);
    b->space.names_bytes = names_high(b);
    ts_room_look("the build", b->o->out, b->tmp, &b->room);
    b->room.place = b->o->place;
    ts_build_space_estimate(&b->space, need);
    if (b->o->trial > 0)
        report(b);
    joined = *need;
    rc = join_needs(b, 0, &joined, err);
    if (rc < 0 || b->o->no_space_check || b->o->trial > 0)
        return rc;
    rc = ts_room_check(&b->room, &joined, "nothing was read", err);
    if (rc == 0)
        warn(b, need, "");
    return rc;
}

static int is_watched(const struct ts_build *b)
{
    return b->o->trial == 0 && !b->o->no_space_check && b->room.dir != NULL;
}

/* Fails if the disk has too little space. Does not check memory, because it is allocated
 * already. */
static int check_need(const struct ts_build *b, const struct ts_need *need, const char *when,
                      struct ts_err *err)
{
    struct ts_need disk = *need;
    disk.memory.low = 0;
    return ts_room_check(&b->room, &disk, when, err);
}

/* With several ranks: returns the bytes of the records stored so far, and of `more` records, that
 * do not fit in the memory of this rank for stored records. */
static uint64_t kept_bytes(const struct ts_build *b, uint64_t more)
{
    const uint64_t rooms = 16 * b->rooms.words;
    uint64_t bytes = 8 * more * b->collect.layout.words;
    for (uint32_t i = 0; i < b->n_kept; i++)
        bytes += 8 * b->kept[i].n * b->kept[i].layout.words;
    return bytes > rooms ? bytes - rooms : 0;
}

/* Warns once if the space will be too small for the whole input. read: the number of nonzeros of
 * the whole input, if the input still to come is like the input so far. */
static void warn_of_rest(struct ts_build *b, struct ts_build_space_in *in, double read)
{
    struct ts_need need;
    in->read.low = (uint64_t)read;
    ts_build_space_estimate(in, &need);
    if (need.both.low <= b->room.out.bytes || !ts_room_is_one_disk(&b->room))
        return;
    need.both.high = need.both.low + need.both.low / 4;
    need.tmp.high = need.tmp.high > 0 ? need.tmp.high : 1;
    warn(b, &need, "if the rest is like what was read, ");
}

int ts_build_room_watch(struct ts_build *b, int full, uint64_t done, uint64_t total,
                        struct ts_err *err)
{
    struct ts_collect *c = &b->collect;
    const int ranks = ts_build_comm_many(&b->ranks);
    const uint64_t now = ts_clock_ns();
    uint64_t n, filled;
    struct ts_build_space_in in = b->space;
    struct ts_need need;
    int rc;
    if (!is_watched(b) || (!full && now - b->room_watched_ns < WATCH_NS))
        return 0;
    b->room_watched_ns = now;
    pthread_mutex_lock(&c->lock);
    n = c->n_read - c->n_zeros;
    filled = c->n;
    pthread_mutex_unlock(&c->lock);
    if (ranks) {
        in.runs_bytes = kept_bytes(b, full ? filled : 0);
    } else {
        if (full || b->runs != NULL) /* the collected records become a run in the file */
            in.runs_bytes =
                8 * filled * c->layout.words + (b->runs == NULL ? 0 : ts_extsort_bytes(b->runs));
        in.read.low = in.read.low > n ? in.read.low : n;
    }
    ts_build_space_estimate(&in, &need);
    rc =
        check_need(b, &need, "stopped while reading, as more has come than there is room for", err);
    if (rc == 0 && !ranks && total > 0 && done >= total / 50 && !b->room_warned)
        warn_of_rest(b, &in, (double)n / (double)done * (double)total);
    return rc;
}

/* Computes what the build needs, after reading or after merging, from the counts that are known by
 * then. */
static void find_known(const struct ts_build *b, struct ts_need *ret)
{
    struct ts_build_space_in in = b->space;
    const uint64_t n = b->collect.n_read - b->collect.n_zeros;
    const int merged = b->merge.nnz > 0, ranks = ts_build_comm_many(&b->ranks);
    in.read = (struct ts_space){ n, n };
    in.own_low = 0;
    if (!merged && ranks)
        in.runs_bytes = kept_bytes(b, 0);
    else if (!merged && b->runs != NULL)
        in.runs_bytes = ts_extsort_bytes(b->runs) + 8 * b->collect.n * b->collect.layout.words;
    in.nnz.high = n < in.nnz.high ? n : in.nnz.high;
    if (merged)
        in.nnz = (struct ts_space){ b->merge.nnz, b->merge.nnz };
    for (uint32_t m = 0; m < b->order; m++)
        in.dim[m].high = b->dim[m];
    if (merged && b->code != NULL)
        in.value_bits = b->code->code_bits + (b->o->weights ? 32 : 0);
    ts_build_space_estimate(&in, ret);
}

int ts_build_room_known(struct ts_build *b, struct ts_err *err)
{
    const int merged = b->merge.nnz > 0;
    struct ts_need *need = &b->report->need[merged ? TS_NEED_MERGED : TS_NEED_READ], joined;
    int rc;
    find_known(b, need);
    joined = *need;
    rc = join_needs(b, 0, &joined, err);
    if (rc == 0 && is_watched(b))
        rc = check_need(b, &joined, merged ? "stopped before packing" : "stopped after reading",
                        err);
    return ts_build_comm_agree(&b->ranks, rc, err);
}

/* Writes the needed space and the free space as text, whether the result and the temporary files
 * are on one disk or on two. */
static void print_need(const struct ts_room *r, const struct ts_need *need, char *ret, size_t size)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], c[TS_NUM_CHARS], d[TS_NUM_CHARS];
    if (ts_room_is_one_disk(r))
        snprintf(ret, size,
                 "the build takes at least %s with its temporary files, and when it began %s had "
                 "%s free",
                 ts_num_bytes(a, need->both.low), r->dir, ts_num_bytes(b, r->out.bytes));
    else
        snprintf(ret, size,
                 "the result takes at least %s and temporary files %s, and when it began %s had %s "
                 "free and %s %s",
                 ts_num_bytes(a, need->result.low), ts_num_bytes(b, need->tmp.low), r->dir,
                 ts_num_bytes(c, r->out.bytes), r->tmp, ts_num_bytes(d, r->in_tmp.bytes));
}

/* If the message says that a disk is full, adds how much space the build needs. */
void ts_build_room_explain(const struct ts_build *b, struct ts_err *err)
{
    static const char *const phases[] = { "starting", "reading", "merging", "numbering" };
    char before[sizeof err->text], need[sizeof err->text];
    struct ts_build_space_in in = b->space;
    struct ts_need s;
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
    print_need(&b->room, &s, need, sizeof need);
    ts_fail(err, code, "%s, while %s; %s", before,
            b->phase < TS_BUILD_PACKING              ? phases[b->phase]
            : b->phase < TS_BUILD_PACKING + b->order ? "packing"
                                                     : "writing",
            need);
    err->sys = sys;
}
