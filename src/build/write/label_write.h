/* SPDX-License-Identifier: BSD-3-Clause */
/* label_write.h - writes labels, the names of the indices of a mode, to modeK.labels. They come
 * from a file with one name in each line (text or gzip), from another tensor, or one by one.
 *
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_LABEL_WRITE_H
#define TS_BUILD_LABEL_WRITE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

/* Copies the names in the file `from` to the file `to`: line i, counted from 0, is the label of
 * index i of `mode`. Drops carriage returns. Returns TS_ESTOP when *stop is set; stop may be
 * NULL. */
int ts_label_write(const char *from, const char *to, uint32_t mode,
                   const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                   uint64_t *hash, struct ts_err *err);

/* Copies the labels of mode `from` of tensor t, which must have labels, as the labels of `mode`. */
struct ts_tensor;
int ts_label_copy(const struct ts_tensor *t, uint32_t from, const char *to, uint32_t mode,
                  const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                  uint64_t *hash, struct ts_err *err);

/* Checks that the names in a file fit a mode of `dim` indices. The file must have dim lines, unless
 * `partial` is 1, and no name twice. Lines may be empty. A pipe is not checked, because it can be
 * read only once. Uses 4 MiB of memory, and a file in `tmp`. */
int ts_label_check(const char *from, uint32_t mode, uint64_t dim, int partial, const char *tmp,
                   const volatile sig_atomic_t *stop, struct ts_err *err);

/* Fails with a message if the number of lines is wrong for a mode of `dim` indices. */
int ts_label_check_count(const char *from, uint32_t mode, uint64_t dim, uint64_t n_labels,
                         struct ts_err *err);

/* Writes modeK.labels label by label. Each label must be shorter than TS_LABEL_MAX bytes. finish
 * returns the number of labels, and the bytes and the hash of the file, which the index holds. */
#define TS_LABEL_MAX 65536u
struct ts_label_writer;
int ts_label_writer_new(const char *path, uint32_t mode, struct ts_label_writer **ret,
                        struct ts_err *err);
int ts_label_writer_add(struct ts_label_writer *w, const char *name, size_t n, struct ts_err *err);
/* Reads label i, counted from 0, which was added before. Copies its bytes, at most the first
 * `room`, to ret, and sets *n to their number. */
int ts_label_writer_get(struct ts_label_writer *w, uint64_t i, char *ret, size_t room, size_t *n,
                        struct ts_err *err);
int ts_label_writer_finish(struct ts_label_writer *w, uint64_t *n_labels, uint64_t *bytes,
                           uint64_t *hash, struct ts_err *err);
/* Flushes the file of labels to the disk, after finish. Must be called on the machine that has
 * written the file. */
int ts_label_writer_sync(const struct ts_label_writer *w, struct ts_err *err);
void ts_label_writer_free(struct ts_label_writer *w); /* w may be NULL */

#endif
