/* SPDX-License-Identifier: BSD-3-Clause */
/* segments.h - a tensor that was appended to: tensors in one directory, in the order of the
 * appends.
 *
 * The index of the directory lists them, and each is in a directory of its own. They have the same
 * order, type of values and kinds of cells, and an index means the same slice in all of them. A
 * later segment may have larger modes. The whole tensor has the sizes, names and labels of the last
 * segment.
 *
 * A directory that was not appended to is one segment, which is the tensor itself.
 *
 *   owner    the caller owns what it opens, until close; a segment may outlive the list
 *   units    bytes, nonzeros; segments from 0
 *   threads  read-only after opening: any thread
 *   errors   0 or a negative ts_code with one sentence; on failure *ret is not touched
 */
#ifndef TS_FORMAT_SEGMENTS_H
#define TS_FORMAT_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "format/tensor.h"

struct ts_segments {
    char *path;
    struct ts_open_dir *dir;
    uint32_t n, order;
    int listed; /* 0: nothing was appended, so there is one segment; entry is NULL */
    int merged; /* 1: the directory `merged` exists, which has the tensor of all segments */
    uint64_t merged_hash; /* checksum of the index in that directory */
    struct ts_disk_segment *entry;
};

int ts_segments_open(const char *path, struct ts_segments **ret, struct ts_err *err);
void ts_segments_close(struct ts_segments *s); /* NULL is fine */

/* Opens a segment, and checks it against its entry in the list. */
int ts_segments_tensor(const struct ts_segments *s, uint32_t i, struct ts_tensor **ret,
                       struct ts_err *err);

/* Checks that a segment can follow another one: order, type of values, kinds of cells, first index
 * and sizes of modes. */
int ts_segments_follows(const struct ts_tensor *before, const struct ts_tensor *t,
                        struct ts_err *err);

/* Opens the tensor of all segments. s->merged must be 1. The path of the tensor is s->path. */
int ts_segments_merged(const struct ts_segments *s, struct ts_tensor **ret, struct ts_err *err);

/* Makes the bytes of an index that lists the segments, malloc'ed. Returns NULL if there is no
 * memory. merged_hash: the checksum of the index of the tensor of all segments, or NULL if that
 * tensor does not exist. */
void *ts_segments_make(uint32_t order, const struct ts_disk_segment *entry, uint32_t n,
                       const uint64_t *merged_hash, size_t *bytes);

/* Reads and checks the bytes of an index that lists segments, and sets all of *ret but path and
 * dir. ret->entry is malloc'ed. */
int ts_segments_parse(const void *bytes, size_t n_bytes, const char *where, struct ts_segments *ret,
                      struct ts_err *err);

/* Whether an index lists segments. header: its first bytes, at least sizeof(struct
 * ts_disk_segments). */
int ts_segments_is(const void *header);

/* A merger is a function that makes one tensor of all segments of the tensor at `path`.
 * ts_tensor_open calls ts_segments_open_whole for an index that lists segments. It opens the tensor
 * of all segments. If that tensor does not exist, or cannot be opened, the merger makes it first.
 * src/build sets the merger. Where the merger cannot make the tensor beside the segments, *ret is a
 * temporary tensor. Without a merger the call fails. */
typedef int ts_segments_merger(const char *path, struct ts_tensor **ret, struct ts_err *err);
/* Sets the merger. replace 0: does nothing if one is already set. */
void ts_segments_set_merger(ts_segments_merger *merger, int replace);
int ts_segments_open_whole(const char *path, struct ts_tensor **ret, struct ts_err *err);

#endif
