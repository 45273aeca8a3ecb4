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

struct ts_append {
    struct ts_build_dir *dir; /* holds the lock */
    struct ts_segments *old;
    struct ts_disk_segment *entry; /* entries of the old segments, and space for a new one */
    struct ts_kept kept;           /* how the tensor was built; read only by an append */
    int unique;                    /* no cell may be in two segments */
};

/* Takes the lock of the tensor, and then opens its segments. If the lock is taken, fails with
 * TS_EBUSY. err->sys is EBUSY if another process holds the lock, and EDEADLK if this process
 * does. */
int ts_append_begin(struct ts_append *a, const char *path, struct ts_err *err);
void ts_append_end(struct ts_append *a);

/* Waits while another process changes the tensor, and begins. It ends by o->stop, and tells it by
 * o->note after a second. Returns 1 if there is nothing left to merge. */
enum ts_append_turn {
    TS_TURN_TO_MERGE,   /* of a reader: until there is one tensor to read */
    TS_TURN_TO_COMPACT, /* whatever is there by then */
    /* for a reader that merges alone, and without o->stop for a second; another writer is an
     * error */
    TS_TURN_TO_WRITE,
};
int ts_append_turn(struct ts_append *a, const char *path, enum ts_append_turn turn,
                   const struct ts_build_options *o, struct ts_err *err);

/* Takes the first n segments over: alone, as the tensor itself. */
int ts_append_take(const struct ts_append *a, uint32_t n, int alone, struct ts_err *err);

/* Writes the list of segments: the first n of a->entry. merged_hash: as for ts_segments_make. */
int ts_append_list(const struct ts_append *a, uint32_t n, const uint64_t *merged_hash,
                   struct ts_err *err);

/* Builds the tensor of all segments as the directory `out`. o: as for ts_append_merge. */
int ts_append_build(const struct ts_segments *all, const char *out,
                    const struct ts_build_options *o, uint64_t *hash, struct ts_err *err);

/* Builds the tensor of all segments as the directory `merged` in the new directory. */
int ts_append_build_merged(const struct ts_append *a, const struct ts_segments *all,
                           const struct ts_build_options *o, uint64_t *hash, struct ts_err *err);

/* Returns the shard size that a tensor was built with, as far as its shards show it. */
uint64_t ts_append_shard_bytes(const struct ts_tensor *t);

#endif
