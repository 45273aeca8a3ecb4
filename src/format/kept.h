/* SPDX-License-Identifier: BSD-3-Clause */
/* kept.h - NAME.tsh/options: how the tensor was built, as far as it decides which cell and value a
 * line of input becomes (kept.def).
 *
 * A value is a text, as a user would type it, and says what the build did: a header that was found
 * is `yes`, not `auto`. A row without a value (NULL) does not apply, as bins to a mode of numbers.
 * The file came later than the format: a tensor without it is whole. It holds the checksum of the
 * index that it belongs to.
 *
 * The texts of a file are untrusted. ts_kept_read checks words, lengths and numbers of modes. What
 * is parsed of them (bins, transforms) goes through the functions that parse what a user types.
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

#define TS_KEPT_TEXT_MAX 4095u /* bytes of a value */

struct ts_kept {
    uint32_t order;
    char *text[TS_N_KEPT][TS_MAX_ORDER]; /* of a row of the tensor: [0] alone */
    char *unknown;                       /* key of a row that a newer version wrote; NULL: none */
};

void ts_kept_free(struct ts_kept *k); /* of zeros is fine */

/* Key and number of values of a row: 1, or k->order. */
const char *ts_kept_key(enum ts_kept_id id);
uint32_t ts_kept_count(const struct ts_kept *k, enum ts_kept_id id);

int ts_kept_of_mode(enum ts_kept_id id);

/* The row that an option of tshard build decides: "time-unit". -1: none. */
int ts_kept_by_option(const char *option);

/* Copies a text; NULL takes it away. A text that the file cannot hold is refused: of more than
 * TS_KEPT_TEXT_MAX bytes, or with a newline. */
int ts_kept_set(struct ts_kept *k, enum ts_kept_id id, uint32_t mode, const char *text,
                struct ts_err *err);

/* A copy of those modes of `from` that mode[0..order) names. */
int ts_kept_copy(const struct ts_kept *from, uint32_t order, const uint32_t mode[],
                 struct ts_kept *ret, struct ts_err *err);

/* The bytes of the file, malloc'ed. */
int ts_kept_make(const struct ts_kept *k, uint64_t index_hash, void **ret, size_t *bytes,
                 struct ts_err *err);

/* Reads the file. Returns 1; or 0 if the tensor has none, and *ret is zeros then. */
int ts_kept_read(const struct ts_tensor *t, struct ts_kept *ret, struct ts_err *err);

/* Whether an append that was built like `is` may differ from `was` in this value. Returns 0; or
 * TS_EARG with a sentence that names the option and both values, and begins with `path`. */
int ts_kept_check_one(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                      enum ts_kept_id id, uint32_t mode, struct ts_err *err);

/* The same for all rows, in the order of kept.def. Also refuses another number of modes, and a row
 * of `was` that this version does not know. */
int ts_kept_check(const char *path, const struct ts_kept *was, const struct ts_kept *is,
                  struct ts_err *err);

#endif
