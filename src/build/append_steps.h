/* SPDX-License-Identifier: BSD-3-Clause */
/* append_steps.h - the steps that append, undo, merge and compact have in common (append.h). They
 * lock the tensor, open its segments, fill a new directory, and exchange it with the old one.
 *
 *   threads  called from one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_APPEND_STEPS_H
#define TS_BUILD_APPEND_STEPS_H

#include "build/append.h"
#include "build/build_dir.h"
#include "format/kept.h"
#include "format/segments.h"

/* A change of a tensor that is in progress. */
struct ts_append {
    struct ts_build_dir *dir; /* the new directory, which holds the lock of the tensor */
    struct ts_segments *old;
    /* entries in the list of segments: the old ones, and space for a new one */
    struct ts_disk_segment *entry;
    struct ts_kept kept; /* how the tensor was built; read only by an append */
    int unique;          /* 1: no cell may be in two segments */
};

/* Takes the lock of the tensor, and then opens its segments. If the lock is taken, fails with
 * TS_EBUSY. err->sys is EBUSY if another process holds the lock, and EDEADLK if this process
 * does. */
int ts_append_begin(struct ts_append *a, const char *path, struct ts_err *err);
void ts_append_end(struct ts_append *a);

/* Waits while another process changes the tensor, and then calls ts_append_begin. The wait ends
 * when *o->stop is set. After a second it calls o->note once. Returns 1 if there is nothing left to
 * merge. `turn` says for what it waits: */
enum ts_append_turn {
    /* for a program that wants to read: waits until the lock is free, or segments are merged */
    TS_TURN_TO_MERGE,
    /* for a compaction: waits until the lock is free, whatever was changed before */
    TS_TURN_TO_COMPACT,
    /* for an append, undo or drop: waits only for a merge, and without o->stop at most a second;
     * fails at once if the lock belongs to another kind of change */
    TS_TURN_TO_WRITE,
};
int ts_append_turn(struct ts_append *a, const char *path, enum ts_append_turn turn,
                   const struct ts_build_options *o, struct ts_err *err);

/* Links the files of the first n segments into the new directory, each in a directory of its own.
 * alone 1: n is 1, and the new directory becomes a tensor of the segment's files. */
int ts_append_take(const struct ts_append *a, uint32_t n, int alone, struct ts_err *err);

/* Writes the list of segments, which are the first n of a->entry, to the new directory.
 * merged_hash: as for ts_segments_make. */
int ts_append_list(const struct ts_append *a, uint32_t n, const uint64_t *merged_hash,
                   struct ts_err *err);

/* Builds one tensor of all segments in the directory `out`. o: as for ts_append_merge. */
int ts_append_build(const struct ts_segments *all, const char *out,
                    const struct ts_build_options *o, uint64_t *hash, struct ts_err *err);

/* Builds one tensor of all segments in the directory `merged` inside the new directory. */
int ts_append_build_merged(const struct ts_append *a, const struct ts_segments *all,
                           const struct ts_build_options *o, uint64_t *hash, struct ts_err *err);

/* Returns options for a build inside a change of a tensor: resources, progress and stop flag are
 * those of `place`, and all other options are 0. */
struct ts_build_options ts_append_options(const struct ts_build_options *place);

/* Returns the shard size (shard_bytes of the options) that a tensor was built with, as far as its
 * shards show it. */
uint64_t ts_append_shard_bytes(const struct ts_tensor *t);

#endif
