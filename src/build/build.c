/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c - runs the steps of a build: divides the memory, gathers and merges the nonzeros, and
 * numbers the slices. Then it writes a sorted copy for each mode, the labels and the index, and
 * puts the directory in its place. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/machine/bigmem.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/files/place.h"
#include "base/setting.h"
#include "base/files/tempfile.h"
#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/source.h"

/* ------------------------------------------------------------------ memory of the sort areas */

static int new_areas(struct ts_build *b, struct ts_err *err)
{
    int rc;
    ts_build_memory_share_beside(b->o, b->order, b->beside_bytes, &b->memory);
    b->area_words = b->memory.area_words;
    b->scratch_words = b->memory.scratch_words;
    b->rooms.words = b->memory.room_words;
    b->area_bytes = (2 * (b->area_words + b->rooms.words) + b->scratch_words) * 8;
    rc = ts_bigmem_new(b->area_bytes, "sorting, most of " TS_SET_MEMORY, &b->area_mem, err);
    if (rc < 0)
        return rc;
    b->area[0] = b->area_mem;
    b->area[1] = b->area[0] + b->area_words;
    b->scratch = b->area[1] + b->area_words;
    b->rooms.mem[0] = b->scratch + b->scratch_words;
    b->rooms.mem[1] = b->rooms.mem[0] + b->rooms.words;
    return 0;
}

static void free_areas(struct ts_build *b)
{
    ts_bigmem_free(b->area_mem, b->area_bytes);
    b->area_mem = NULL;
}

/* ------------------------------------------------------------------ the steps of a build */

/* Checks that each nonzero that was read is in the tensor, or was merged or dropped. A difference
 * is a bug of this program, which no checksum would show to a user of the tensor. */
static int check_nothing_lost(const struct ts_build *b, struct ts_err *err)
{
    const uint64_t merged = b->o->duplicates == TS_DUPLICATES_KEEP ? 0 : b->merge.n_duplicates;
    const uint64_t dropped = b->collect.n_zeros + b->merge.n_zeros;
    const uint64_t left = b->merge.nnz;
    int rc = 0;
    if (left + merged + dropped != b->collect.n_read)
        return ts_fail(err, TS_EIO,
                       "%s: internal error, nothing was written: of %" PRIu64
                       " nonzeros read, %" PRIu64 " were merged, %" PRIu64 " were zero and %" PRIu64
                       " are left; please report it",
                       b->o->out, b->collect.n_read, merged, dropped, left);
    for (uint32_t m = 0; m < b->order && rc == 0; m++) {
        uint64_t nnz = 0;
        for (uint64_t s = 0; s < b->mode[m].n_shards; s++)
            nnz += b->shard[m][s].nnz;
        if (nnz != left)
            rc = ts_fail(err, TS_EIO,
                         "%s: internal error, nothing was written: the copy for " TS_NTH_MODE
                         " has %" PRIu64 " nonzeros of %" PRIu64 "; please report it",
                         b->o->out, m + 1, nnz, left);
    }
    return rc;
}

/* Writes a message with the number of values that were rounded to 0, and the file and line of the
 * first. */
static void tell_rounded(const struct ts_build *b)
{
    const struct ts_collect *c = &b->collect;
    const int narrow = b->o->value_bytes == 4;
    struct ts_build_report *r = b->report;
    char place[4200] = "";
    r->n_rounded = c->n_rounded + b->merge.account[0].n_rounded;
    if (r->n_rounded == 0)
        return;
    if (c->rounded_line > 0 && c->rounded_file < b->n_files) {
        const char *path = b->paths[c->rounded_file];
        snprintf(place, sizeof place, ", the first in %s:%" PRIu64,
                 strcmp(path, "-") == 0 ? "standard input" : path, c->rounded_line);
    }
    (void)ts_fail(&r->rounded, TS_EFORMAT,
                  "%" PRIu64 " value%s%s%s nearer to 0 than float%u holds (%.3g) became 0%s; %s",
                  r->n_rounded, ts_num_plural(r->n_rounded), b->o->weights ? " or weight" : "",
                  b->o->weights ? ts_num_plural(r->n_rounded) : "", narrow ? 32 : 64,
                  narrow ? (double)FLT_MIN : DBL_MIN, place,
                  b->o->weights ? "scale them up to keep them"
                  : narrow      ? TS_SET_FLOAT64 " keeps such values"
                                : "scale the values up to keep them");
}

/* Adds a note if zeros of weighted nonzeros were dropped: they count neither in the mean of their
 * cell nor in a fit. */
static void note_weighted_zeros(struct ts_build *b)
{
    struct ts_build_report *r = b->report;
    if (!b->o->weights || b->o->zeros || b->collect.n_zeros == 0 || r->n_notes == TS_BUILD_NOTES)
        return;
    ts_setting_print(r->note[r->n_notes++], sizeof r->note[0],
                     "%" PRIu64 " observation%s of value 0 %s left out, of %" PRIu64
                     ": %s in no mean and no fit unless zeros are kept",
                     b->collect.n_zeros, b->collect.n_zeros == 1 ? "" : "s",
                     b->collect.n_zeros == 1 ? "was" : "were", b->collect.n_read,
                     b->collect.n_zeros == 1 ? "it counts" : "they count");
}

/* Runs all steps of a build after its input has ended. */
int ts_build_finish(struct ts_build *b, uint64_t start_ns, struct ts_err *err)
{
    struct ts_build_report *r = b->report;
    uint64_t t0 = ts_clock_ns(), t1;
    int rc;
    r->read_ns = t0 - start_ns;
    rc = ts_build_room_known(b, err);
    if (rc == 0)
        rc = ts_build_gather_merge(b, err);
    if (rc == 0)
        rc = ts_build_number(b, err);
    if (rc == 0)
        rc = ts_build_room_known(b, err);
    t1 = ts_clock_ns();
    r->merge_ns = t1 - t0;
    if (rc == 0) {
        rc = ts_build_write_modes(b, err);
        free_areas(b);
    }
    if (rc == 0)
        rc = check_nothing_lost(b, err);
    rc = ts_build_sums_written(b, rc, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_write_labels(b, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_write_index(b, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    t0 = ts_clock_ns();
    r->pack_ns = t0 - t1;
    ts_build_phase_begin(b, TS_BUILD_PACKING + b->order, 0);
    /* from here on only the rank that writes the files checks whether to stop */
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_tell(b, "writing", "", 0, 0, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = b->o->trial > 0 ? ts_build_dir_sync(b->dir, b->order, err)
                             : ts_build_dir_commit(b->dir, &r->warn, err);
    r->sync_ns = ts_clock_ns() - t0;
    r->exchange_ns = b->ranks.exchange_ns;
    r->order = b->order;
    r->nnz = b->merge.nnz;
    r->input_nnz = b->collect.n_read;
    r->n_duplicates = b->merge.n_duplicates;
    r->n_zeros = b->collect.n_zeros + b->merge.n_zeros;
    if (rc == 0)
        tell_rounded(b);
    if (rc == 0)
        note_weighted_zeros(b);
    r->n_missing = b->collect.n_missing;
    memcpy(r->dim, b->dim, sizeof r->dim);
    memcpy(r->n_rows, b->n_rows, sizeof r->n_rows);
    r->read_words = b->collect.layout.words;
    r->packed_words = b->spool.layout.words;
    for (uint32_t m = 0; m < b->order; m++) {
        r->shards_bytes[m] = b->mode[m].shards_bytes;
        r->rows_bytes[m] = b->mode[m].rows_bytes;
        r->labels_bytes[m] = b->mode[m].labels_bytes;
        r->n_numbered += (uint32_t)b->mapped[m];
    }
    return rc;
}

/* Checks before reading that temporary files can be made, because a build needs them only after a
 * long time of reading. */
static int check_tmp(const char *dir, struct ts_err *err)
{
    int fd;
    const int rc = ts_tempfile_new(dir, &fd, err);
    if (rc == 0)
        close(fd);
    return rc;
}

/* Sends the path of the directory that rank 0 has made to the other ranks, which open it. */
static int join_dir(struct ts_build *b, int rc, struct ts_err *err)
{
    char path[4096] = "";
    const int writes = ts_build_ranks_writes(b);
    if (!ts_build_comm_many(&b->ranks))
        return rc;
    if (rc == 0 && writes && strlen(ts_build_dir_path(b->dir)) >= sizeof path)
        rc = ts_fail(err, TS_EARG, "%s: the name is too long", b->o->out);
    else if (rc == 0 && writes)
        strcpy(path, ts_build_dir_path(b->dir));
    rc = ts_build_comm_tell(&b->ranks, rc, path, sizeof path, err);
    return rc == 0 && !writes ? ts_build_dir_join(path, &b->dir, err) : rc;
}

/* Checks that no input file or file of labels is in the directory that is made or replaced. */
static int check_places(const struct ts_build_options *o, const char *const path[], uint32_t n,
                        struct ts_err *err)
{
    struct ts_place *place = calloc((size_t)n + TS_MAX_ORDER + 1, sizeof *place);
    int rc;
    if (place == NULL)
        return ts_no_memory(err, o->out);
    for (uint32_t i = 0; i < n; i++)
        place[i].path = path[i];
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        place[n + m].path = o->map[m];
    place[n + TS_MAX_ORDER] =
        (struct ts_place){ .path = o->out, .suffix = TS_BUILDING_SUFFIX, .option = TS_SET_OUTPUT };
    rc = ts_place_check(place, n + TS_MAX_ORDER + 1, err);
    free(place);
    return rc;
}

int ts_build_init(struct ts_build *b, const struct ts_build_options *o, const char *const path[],
                  uint32_t n_paths, struct ts_build_report *report, struct ts_err *err)
{
    const char *slash = strrchr(o->out, '/');
    int rc;
    memset(b, 0, sizeof *b);
    memset(report, 0, sizeof *report);
    b->o = o;
    b->report = report;
    b->ranks.comm = o->comm;
    b->work = o->work != NULL ? o->work : &b->own_work;
    b->base = 1;
    b->spool.fd = -1;
    b->tmp = o->tmp != NULL  ? strdup(o->tmp)
             : slash == NULL ? strdup(".")
                             : strndup(o->out, (size_t)(slash - o->out) + 1);
    b->real = *o;
    if (o->trial > 0)
        b->real.trial = 0, b->real.area_words = 0;
    b->space.o = &b->real;
    b->space.read.high = b->space.nnz.high = UINT64_MAX;
    b->space.nnz.low = 1;
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        b->space.dim[m] = (struct ts_space){ 1, UINT64_C(1) << 32 };
    ts_build_memory_share(o, TS_MIN_ORDER, &b->memory);
    if (b->tmp == NULL)
        return ts_no_memory(err, o->out);
    rc = o->tmp == NULL ? 0 : check_tmp(b->tmp, err);
    if (rc == 0)
        rc = check_places(o, path, n_paths, err);
    if (rc == 0 && ts_build_ranks_writes(b))
        rc = ts_build_dir_open(o->out, o->force, &b->dir, err);
    return join_dir(b, rc, err);
}

/* Frees a build, whose result is rc. Writes the message of TS_ESTOP, whichever step failed. */
int ts_build_fini(struct ts_build *b, int rc, struct ts_err *err)
{
    if (rc == TS_ESTOP)
        rc = ts_build_fail_stopped(b, err);
    if (rc < 0)
        ts_build_room_explain(b, err);
    ts_room_free(&b->room);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    ts_build_ranks_drop(b);
    ts_build_ranks_unshare(b);
    ts_collect_fini(&b->collect);
    ts_extsort_free(b->runs);
    ts_merge_fini(&b->merge);
    ts_spool_close(&b->spool);
    for (uint32_t m = 0; m < b->order; m++)
        free(b->shard[m]);
    free(b->code);
    free(b->tmp);
    free_areas(b);
    ts_build_table_free(b);
    ts_build_dir_close(b->dir);
    return rc;
}

static int gather(struct ts_build *b, const struct ts_source *s, struct ts_err *err)
{
    const struct ts_sink sink = ts_collect_sink(&b->collect);
    int rc = s->start(s->self, &sink, err);
    if (rc == 0)
        rc = ts_build_gather(b, s, err);
    s->stop(s->self);
    return rc;
}

/* Reads all nonzeros of a source into the sort areas and, if these are full, into sorted runs. */
int ts_build_read(struct ts_build *b, const struct ts_source *s, struct ts_err *err)
{
    int rc = ts_build_comm_agree(&b->ranks, ts_build_room_begin(b, err), err);
    if (rc == 0)
        rc = new_areas(b, err);
    if (rc == 0)
        rc = ts_collect_init(&b->collect, b->order, ts_build_value_bits(b), b->area[0],
                             b->area_words, s->threads, err);
    b->collect.weights = b->o->weights;
    if (rc == 0)
        rc = gather(b, s, err);
    if (b->names != NULL && ts_build_comm_many(&b->ranks)) {
        rc = ts_build_names(b, rc, err);
        if (rc == 0) {
            ts_collect_again(&b->collect, s->threads);
            rc = gather(b, s, err);
        }
    }
    if (rc == 0 && s->check != NULL && !ts_build_comm_many(&b->ranks))
        rc = s->check(s->self, err);
    return ts_build_ranks_read(b, rc, err);
}
