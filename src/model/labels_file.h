/* SPDX-License-Identifier: BSD-3-Clause */
/* labels_file.h - reads the file `labels` of a model: names of modes, labels of rows, and the
 * identity of the model's tensor. docs/format.md describes each byte.
 *
 * Opening reads and checks the head and the tables of places (positions of every so many chunks),
 * at most 64 KiB for each mode. Labels are read on request, chunk by chunk, and each chunk is
 * checked before use. A small file is read into memory, a larger one stays open. So the file may be
 * replaced or removed.
 *
 *   owner    the caller, until close
 *   units    bytes; modes and indices from 0
 *   threads  read-only after opening: any thread. A walk belongs to one thread
 *   errors   0 or a negative ts_code; the file is untrusted, and messages name the byte
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
/* most entries of a mode's table of places (positions of chunks in the file) */
#define TS_LABELS_PLACES      4096u
#define TS_LABELS_CHUNK_BYTES 65536u              /* bytes of labels after which a chunk is full */
#define TS_LABELS_MOST_BYTES  (UINT64_C(1) << 30) /* most bytes of a label */

enum {
    TS_LABELS_OF_TENSOR = 1, /* the file identifies a tensor */
    TS_LABELS_SUMS = 2,      /* the file has the sum of the tensor's cells */
    TS_LABELS_USED = 4,      /* only rows that the model has (those of used slices) have labels */
    TS_LABELS_LEFT_OUT = 8,  /* the user did not want labels of rows */
    /* the factors in the same directory are float32, even if text files do not show it */
    TS_LABELS_FLOAT32 = 16
};
#define TS_LABELS_FLAGS 31u

/* The head of the labels file. Tables of modes, names of modes, and a checksum follow. */
struct ts_disk_model_labels {
    char magic[8];
    uint32_t version, order;
    uint64_t file_bytes;
    uint32_t base, flags;
    /* number of nonzeros and checksum of the tensor that the model was computed from; 0: unknown */
    uint64_t nnz, checksum;
    uint64_t cell[2]; /* sum of the tensor's cells */
    uint32_t segments, names_bytes;
    uint64_t reserved[7];
};

/* The position of the labels of one mode in the file. */
struct ts_disk_mode_labels {
    uint64_t dim, n_labels, n_chunks;
    uint64_t at, bytes; /* position and size of the mode's chunks */
    uint32_t n_places, stride;
    uint64_t places_hash, reserved;
};

/* The table of places, after the chunks of the mode: for every stride-th chunk, the index of its
 * first label, and its position. */
struct ts_disk_label_place {
    uint64_t index, at;
};

/* The head of a chunk of labels. The labels follow, in stored_bytes bytes. */
struct ts_disk_label_chunk {
    uint64_t index; /* index of the first label */
    uint32_t n_labels, raw_bytes, stored_bytes;
    uint32_t flags; /* 1: LZ4 packed the labels of this chunk */
    uint64_t hash;  /* XXH3-64 of the 24 bytes before this member, and of the stored bytes */
};

_Static_assert(sizeof(struct ts_disk_model_labels) == 128, "on-disk size");
_Static_assert(sizeof(struct ts_disk_mode_labels) == 64, "on-disk size");
_Static_assert(sizeof(struct ts_disk_label_chunk) == 32, "on-disk size");

struct ts_labels_file {
    char *path; /* path for messages */
    int fd;     /* open file; -1: the file is in memory */
    char *memory;
    uint64_t bytes;
    struct ts_disk_model_labels head;
    struct ts_disk_mode_labels mode[TS_MAX_ORDER];
    struct ts_disk_label_place *place[TS_MAX_ORDER];
    char *name[TS_MAX_ORDER + 1]; /* names of modes, then of values; NULL: no name */
};

/* Opens the labels file in an open directory, and returns 1. Returns 0 if there is none or another
 * kind of file, or a negative ts_code. */
int ts_labels_file_open(const struct ts_open_dir *dir, struct ts_labels_file **ret,
                        struct ts_err *err);

/* Opens a labels file whose bytes are in memory. Takes over `bytes`, even if it fails. */
int ts_labels_file_take(char *bytes, size_t n, struct ts_labels_file **ret, struct ts_err *err);
void ts_labels_file_close(struct ts_labels_file *f); /* NULL is fine */

/* Sets ret[i] to the label of index[i], malloc'ed, or NULL if it has none. The n indices must be
 * ascending. */
int ts_labels_file_get(const struct ts_labels_file *f, uint32_t mode, uint64_t n,
                       const uint64_t *index, char **ret, struct ts_err *err);

/* Walks all labels of a mode, in ascending order of index. *text is NULL at the end. Otherwise it
 * has n bytes, valid until the next call. */
struct ts_labels_walk;
int ts_labels_walk_open(const struct ts_labels_file *f, uint32_t mode, struct ts_labels_walk **ret,
                        struct ts_err *err);
int ts_labels_walk_next(struct ts_labels_walk *w, uint64_t *index, const char **text, size_t *n,
                        struct ts_err *err);
void ts_labels_walk_close(struct ts_labels_walk *w); /* NULL is fine */

#endif
