/* SPDX-License-Identifier: BSD-3-Clause */
/* segments.h - a tensor that was appended to: tensors in one directory, in the order of the
 * appends.
 *
 * The index of the directory lists them, and each is in a directory of its own. They have the same
 * order, type of values and kinds of cells, and an index means the same slice in all of them. A
 * later segment may have larger modes. The sizes, names and labels of the last one are those of the
 * whole.
 *
 * A directory that was not appended to is one segment, which is the tensor itself.
 *
 *   owner    what is opened is the caller's, until close; a segment may outlive the list
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
    int listed; /* 0: one tensor, which was not appended to, and no entries */
    struct ts_disk_segment *entry;
};

int ts_segments_open(const char *path, struct ts_segments **ret, struct ts_err *err);
void ts_segments_close(struct ts_segments *s); /* NULL is fine */

/* Opens a segment, and checks it against its entry. */
int ts_segments_tensor(const struct ts_segments *s, uint32_t i, struct ts_tensor **ret,
                       struct ts_err *err);

/* Checks that a segment can follow another one: all that they must have in common. */
int ts_segments_follows(const struct ts_tensor *before, const struct ts_tensor *t,
                        struct ts_err *err);

/* The bytes of the index of a list, malloc'ed; NULL: no memory. */
void *ts_segments_make(uint32_t order, const struct ts_disk_segment *entry, uint32_t n,
                       size_t *bytes);

/* Reads and checks the bytes of such an index: *entry is malloc'ed. */
int ts_segments_parse(const void *bytes, size_t n_bytes, const char *where, uint32_t *order,
                      struct ts_disk_segment **entry, uint32_t *n, struct ts_err *err);

/* For ts_tensor_open. Whether the first bytes of an index, at least those of struct
 * ts_disk_segments, are of a list; and the refusal of one that is open. Returns a negative code. */
int ts_segments_is(const void *header);
int ts_segments_refuse(int fd, uint64_t n_bytes, const char *index, const char *path,
                       struct ts_err *err);

#endif
