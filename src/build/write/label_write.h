/* SPDX-License-Identifier: BSD-3-Clause */
/* label_write.h - copies a file of names (one a line, text or gzip) to modeK.labels.
 *
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_LABEL_WRITE_H
#define TS_BUILD_LABEL_WRITE_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"

/* Line i (from 0) of `from` names index i of `mode`. Carriage returns are dropped. Ends with
 * TS_ESTOP when *stop (may be NULL) is set. */
int ts_label_write(const char *from, const char *to, uint32_t mode,
                   const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                   uint64_t *hash, struct ts_err *err);

/* Copies the labels of mode `from` of a tensor, which must have labels, for `mode`. */
struct ts_tensor;
int ts_label_copy(const struct ts_tensor *t, uint32_t from, const char *to, uint32_t mode,
                  const volatile sig_atomic_t *stop, uint64_t *n_labels, uint64_t *bytes,
                  uint64_t *hash, struct ts_err *err);

/* Whether the names in a file fit a mode of `dim` indices: as many lines, each name once (empty
 * lines do not count). `partial`: any number of lines. A pipe is not read, because that is
 * possible only once. Memory: 4 MiB; the rest goes to a file in tmp. */
int ts_label_check(const char *from, uint32_t mode, uint64_t dim, int partial, const char *tmp,
                   const volatile sig_atomic_t *stop, struct ts_err *err);

/* Writes the sentence for a wrong number of lines; 0 when it is right. */
int ts_label_check_count(const char *from, uint32_t mode, uint64_t dim, uint64_t n_labels,
                         struct ts_err *err);

/* Like ts_label_write, for names that come one by one, each shorter than TS_LABEL_MAX. What finish
 * returns goes to the index. */
#define TS_LABEL_MAX 65536u
struct ts_label_writer;
int ts_label_writer_new(const char *path, uint32_t mode, struct ts_label_writer **ret,
                        struct ts_err *err);
int ts_label_writer_add(struct ts_label_writer *w, const char *name, size_t n, struct ts_err *err);
/* Reads back name i, from 0: its first `room` bytes. *n: their number. */
int ts_label_writer_get(struct ts_label_writer *w, uint64_t i, char *ret, size_t room, size_t *n,
                        struct ts_err *err);
int ts_label_writer_finish(struct ts_label_writer *w, uint64_t *n_labels, uint64_t *bytes,
                           uint64_t *hash, struct ts_err *err);
/* Flushes the file after finish. It must be called on the machine that has written the file. */
int ts_label_writer_sync(const struct ts_label_writer *w, struct ts_err *err);
void ts_label_writer_free(struct ts_label_writer *w); /* NULL is fine */

#endif
