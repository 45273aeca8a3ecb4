/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h - NAME.tsh/options: the build options that decide to which cell and value a line of input
 * leads (kept.def).
 *
 * A value is text as a user would type it, and says what the build did: a detected header is
 * `yes`, not `auto`. The value is NULL if the option does not apply, such as bins for a mode of
 * numbers. Tensors of older versions lack the file and are complete without it. It holds the
 * checksum of the index that it belongs to.
 *
 * The texts of a file are untrusted. ts_kept_read checks words, lengths and numbers of modes. Bins
 * and transforms are parsed by the functions that parse what a user types.
 *
 *   owner    texts are malloc'ed; ts_kept_free frees them
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_FORMAT_KEPT_H
#define TS_FORMAT_KEPT_H

#include <stdint.h>

#include "base/err.h"
#include "base/setting.h"
#include "format/tensor.h"

enum ts_kept_id {
#define KEPT(id, ...) TS_KEPT_##id,
#include "format/kept.def"
    TS_N_KEPT
};

#define TS_KEPT_TEXT_MAX 4095u /* most bytes of a value */

struct ts_kept {
    uint32_t order;
    /* value of each option (row of kept.def) in each mode; an option with one value for the tensor
     * uses [0] */
    char *text[TS_N_KEPT][TS_MAX_ORDER];
    char *unknown; /* key of an option in the file that this version does not know; or NULL */
};

void ts_kept_free(struct ts_kept *k); /* accepts a struct of zeros */

/* Return the key of an option (row of kept.def), the number of its values (1 or k->order), and
 * whether it has a value for each mode. */
const char *ts_kept_key(enum ts_kept_id id);
uint32_t ts_kept_count(const struct ts_kept *k, enum ts_kept_id id);

int ts_kept_of_mode(enum ts_kept_id id);

/* Returns the row of kept.def that an option of tshard build, like "time-unit", sets. -1: none. */
int ts_kept_by_option(const char *option);

/* Sets a value to a copy of the text; NULL removes it. Fails if the file cannot hold the text: it
 * has more than TS_KEPT_TEXT_MAX bytes, or a newline. */
int ts_kept_set(struct ts_kept *k, enum ts_kept_id id, uint32_t mode, const char *text,
                struct ts_err *err);

/* Copies `from`, with only its modes mode[0..order), in this order, to *ret. */
int ts_kept_copy(const struct ts_kept *from, uint32_t order, const uint32_t mode[],
                 struct ts_kept *ret, struct ts_err *err);

/* Makes the bytes of the file `options`, malloc'ed. */
int ts_kept_make(const struct ts_kept *k, uint64_t index_hash, void **ret, size_t *bytes,
                 struct ts_err *err);

/* Reads the file `options`. Returns 1, or 0 if the tensor has none; *ret is then zeros. */
int ts_kept_read(const struct ts_tensor *t, struct ts_kept *ret, struct ts_err *err);

/* Checks whether an append with options `is` may follow a build with options `was`, as far as one
 * value is concerned. Returns 0, or TS_EARG with a message that begins with `path` and names the
 * option and both values. */
int ts_kept_check_one(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                      enum ts_kept_id id, uint32_t mode, struct ts_err *err);

/* Like ts_kept_check_one, for all rows in the order of kept.def. Also fails if the numbers of modes
 * differ, or if `was` or `is` has a row that this version does not know. */
int ts_kept_check(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                  struct ts_err *err);

#endif
