/* SPDX-License-Identifier: BSD-3-Clause */
/* labels_file.h - reads the file `labels` of a model: names of modes, labels of rows, and which
 * tensor the model is of. docs/format.md says what each byte means.
 *
 * Opening reads and checks the head and the sparse tables of places, 64 KiB for each mode at most.
 * Labels are read when they are asked for, chunk by chunk, and each chunk is checked before its
 * use. A small file is held in memory, a larger one stays open. So it may be replaced or removed.
 *
 *   owner    the caller, until close
 *   units    bytes; modes and indices from 0
 *   threads  read-only after opening: any thread. A walk belongs to one
 *   errors   0 or a negative ts_code; the file is untrusted, sentences name the byte
 */
#ifndef TS_MODEL_LABELS_FILE_H
#define TS_MODEL_LABELS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/files/open_dir.h"
#include "format/layout.h"

#define TS_LABELS_FILE         "labels"
#define TS_LABELS_FILE_MAGIC   "TSLABELS"
#define TS_LABELS_FILE_VERSION 1u
#define TS_LABELS_PLACES       4096u               /* entries of a table of places, at most */
#define TS_LABELS_CHUNK_BYTES  65536u              /* bytes of text after which a chunk is full */
#define TS_LABELS_MOST_BYTES   (UINT64_C(1) << 30) /* of one label */

enum {
    TS_LABELS_OF_TENSOR = 1, /* a tensor is named */
    TS_LABELS_SUMS = 2,      /* with the sum of its cells */
    TS_LABELS_USED = 4,      /* labels of used rows alone */
    TS_LABELS_LEFT_OUT = 8,  /* labels of rows were not wanted */
    TS_LABELS_FLOAT32 = 16   /* the factors beside it are of float32, also where text has them */
};
#define TS_LABELS_FLAGS 31u

/* Begins the file. Tables of modes, names and a checksum follow. */
struct ts_disk_model_labels {
    char magic[8];
    uint32_t version, order;
    uint64_t file_bytes;
    uint32_t base, flags;
    uint64_t nnz, checksum; /* of the tensor, 0 without one */
    uint64_t cell[2];       /* sum of its cells */
    uint32_t segments, names_bytes;
    uint64_t reserved[7];
};

/* What there is of a mode. */
struct ts_disk_mode_labels {
    uint64_t dim, n_labels, n_chunks;
    uint64_t at, bytes; /* of the chunks */
    uint32_t n_places, stride;
    uint64_t places_hash, reserved;
};

/* Every stride-th chunk: the index of its first label, and where it begins. The table follows the
 * chunks of the mode. */
struct ts_disk_label_place {
    uint64_t index, at;
};

/* Begins a chunk; stored_bytes follow. */
struct ts_disk_label_chunk {
    uint64_t index; /* of the first label */
    uint32_t n_labels, raw_bytes, stored_bytes;
    uint32_t flags; /* 1: LZ4 */
    uint64_t hash;  /* XXH3-64 of the 24 bytes before it and of the stored bytes */
};

_Static_assert(sizeof(struct ts_disk_model_labels) == 128, "on-disk size");
_Static_assert(sizeof(struct ts_disk_mode_labels) == 64, "on-disk size");
_Static_assert(sizeof(struct ts_disk_label_chunk) == 32, "on-disk size");

struct ts_labels_file {
    char *path; /* for sentences */
    int fd;     /* -1: in memory */
    char *memory;
    uint64_t bytes;
    struct ts_disk_model_labels head;
    struct ts_disk_mode_labels mode[TS_MAX_ORDER];
    struct ts_disk_label_place *place[TS_MAX_ORDER];
    char *name[TS_MAX_ORDER + 1]; /* of modes, then of values; NULL: none */
};

/* The file of an open directory: 1, 0 where there is none or one of something else, or a negative
 * ts_code. */
int ts_labels_file_open(const struct ts_open_dir *dir, struct ts_labels_file **ret,
                        struct ts_err *err);

/* The same of bytes in memory, which it takes, also after a failure. */
int ts_labels_file_take(char *bytes, size_t n, struct ts_labels_file **ret, struct ts_err *err);
void ts_labels_file_close(struct ts_labels_file *f); /* NULL is fine */

/* Labels of n indices of a mode, ascending: ret[i] is malloc'ed, or NULL where there is none. */
int ts_labels_file_get(const struct ts_labels_file *f, uint32_t mode, uint64_t n,
                       const uint64_t *index, char **ret, struct ts_err *err);

/* All labels of a mode, by index. *text is NULL at the end; else n bytes that stay until the next
 * call. */
struct ts_labels_walk;
int ts_labels_walk_open(const struct ts_labels_file *f, uint32_t mode, struct ts_labels_walk **ret,
                        struct ts_err *err);
int ts_labels_walk_next(struct ts_labels_walk *w, uint64_t *index, const char **text, size_t *n,
                        struct ts_err *err);
void ts_labels_walk_close(struct ts_labels_walk *w); /* NULL is fine */

#endif
