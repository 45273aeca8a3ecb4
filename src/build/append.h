/* SPDX-License-Identifier: BSD-3-Clause */
/* append.h - changes of a tensor that was built: nonzeros are appended as a segment, the last
 * segment is taken back, and all segments become one tensor. A merge keeps the segments and puts
 * that one tensor beside them, so that programs can read it. A compaction replaces the segments by
 * it.
 *
 * A change makes a new directory, in which files of the old one that stay are links, and exchanges
 * the two directories (base/files/atomic_out.h). So a change appears completely or not at all. A
 * second writer fails while the first one works. Readers keep using the files that they have open.
 *
 *   owner    strings and arrays are the caller's and must stay
 *   units    nonzeros; segments count from 1 in messages
 *   threads  called from one
 *   errors   0 or a negative ts_code; on failure the tensor is as it was
 */
#ifndef TS_BUILD_APPEND_H
#define TS_BUILD_APPEND_H

#include <stdint.h>

#include "build/build.h"
#include "format/layout.h"

/* What is appended to a tensor, and how. */
struct ts_append_conf {
    const char *path; /* the tensor that nonzeros are appended to */
    /* How the input files are read and packed. The members out, force, duplicates, map, n_dims,
     * after and like are not used, because they follow from the tensor. */
    const struct ts_build_options *build;
    /* bit i is 1 if the user gave option i of enum ts_kept_id; others are taken from the tensor */
    uint64_t said;
    /* the user's options for tables, to which those kept in the tensor are added */
    struct ts_table_plan *plan;
    const char *const *paths; /* input files, as for ts_build_paths */
    uint32_t n_paths;
    int repeat; /* 1: allows the same nonzeros as in an earlier segment */
    /* The segments are merged before the append if those after the first have more bytes than the
     * first times this number. 0: never. */
    double compact_at;
    uint64_t time; /* time of the append, in seconds since 1970 */
};

/* What a change of a tensor has done. */
struct ts_append_report {
    /* segments after the change; for a merge: segments merged, 0: none */
    uint32_t n_segments;
    struct ts_disk_segment segment; /* the segment that was appended, or taken back */
    /* for ts_append_merge, 1: the merged tensor is in a temporary directory */
    int outside;
    int remade; /* for ts_append_compact, 1: the merged tensor was damaged, and was made again */
    uint32_t compacted; /* for ts_append_paths: segments merged before the append; 0: none */
    uint64_t dropped;   /* for ts_append_drop: number of nonzeros that were dropped */
    struct ts_err warn; /* code 0, or a failure after the new tensor had its final name */
};

int ts_append_paths(const struct ts_append_conf *conf, struct ts_build_report *build,
                    struct ts_append_report *ret, struct ts_err *err);
/* Like ts_append_paths, with nonzeros from a source of `order` modes instead of files; plan may be
 * NULL. Its values, zeros and weights must be those of the tensor, as build->value_bytes, zeros and
 * weights say. Labels of build->map are those of the whole mode: they begin with those of the
 * tensor. On failure the source is stopped, as in ts_build_source. */
struct ts_source;
int ts_append_source(const struct ts_append_conf *conf, uint32_t order,
                     const struct ts_source *source, struct ts_build_report *build,
                     struct ts_append_report *ret, struct ts_err *err);
/* Takes back the last segment. Of o it uses stop and note. ts_append_undo, an append and a drop
 * wait for a process that merges the segments to read them. Without o->stop they wait at most a
 * second. */
int ts_append_undo(const char *path, const struct ts_build_options *o, struct ts_append_report *ret,
                   struct ts_err *err);

/* ts_append_merge and ts_append_compact use these options: memory, tmp, threads, stop, shard_bytes,
 * progress and note. shard_bytes 0: the shard size of the first segment. Both functions wait while
 * another process changes the tensor, and call o->note after a second of waiting.
 *
 * A merge does nothing if the merged tensor exists already. It uses a temporary directory in o->tmp
 * or /tmp if this user does not own the tensor or may not write it, or if this process is changing
 * it. Then *outside is the merged tensor, which the caller closes; otherwise *outside is not
 * touched. If outside is NULL, a merge that needs a temporary directory fails. */
int ts_append_merge(const char *path, const struct ts_build_options *o,
                    struct ts_append_report *ret, struct ts_tensor **outside, struct ts_err *err);

/* Selects all slices of a mode before or after the slice with this label. In a mode of times the
 * label is a date, or the beginning of one. Without labels it is an index of the input. */
struct ts_append_cut {
    uint32_t mode; /* from 0 */
    int after;
    const char *label;
};

/* Drops the nonzeros of the slices that any of the n cuts selects, and merges the segments. Sizes
 * and labels of modes stay. If the selected slices have no nonzeros, nothing is changed. */
int ts_append_drop(const char *path, const struct ts_append_cut *cut, uint32_t n,
                   const struct ts_build_options *o, struct ts_append_report *ret,
                   struct ts_err *err);

/* Replaces the segments by the merged tensor. If ts_append_merge has made it already and no
 * shard_bytes is given, that tensor is used, after all its bytes were checked. */
int ts_append_compact(const char *path, const struct ts_build_options *o,
                      struct ts_append_report *ret, struct ts_err *err);

#endif
