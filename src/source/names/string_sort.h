/* SPDX-License-Identifier: BSD-3-Clause */
/* string_sort.h - sorts strings, each with a number, by their bytes or hashes, in bounded memory
 * (with base/files/sorted_runs.h).
 *
 * Strings that do not fit in memory go to sorted runs, which are merged while they are read. Equal
 * strings are returned in the order in which they were added.
 *
 *   owner    the sort owns memory and file; a key that next returns is valid until the next call
 *   units    bytes
 *   threads  one at a time
 *   errors   0 or a negative ts_code; TS_ESTOP when *stop is set
 */
#ifndef TS_SOURCE_STRING_SORT_H
#define TS_SOURCE_STRING_SORT_H

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "base/err.h"

#define TS_STRING_MAX 4095u /* most bytes of a key */

/* A string in memory is its number (8 bytes), the length of its key (4 bytes), and the key. The
 * functions below read and write these parts. */
#define TS_STRING_HEAD 12u
static inline uint64_t ts_string_number(const char *at)
{
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}
static inline uint32_t ts_string_length(const char *at)
{
    uint32_t n;
    memcpy(&n, at + 8, sizeof n);
    return n;
}
static inline const char *ts_string_key(const char *at)
{
    return at + TS_STRING_HEAD;
}
static inline char *ts_string_put(char *at, const char *key, uint32_t n, uint64_t number)
{
    memcpy(at, &number, sizeof number);
    memcpy(at + 8, &n, sizeof n);
    if (n > 0)
        memcpy(at + TS_STRING_HEAD, key, n);
    return at + TS_STRING_HEAD + n;
}

static inline uint64_t ts_string_hash(const char *key, uint32_t n)
{
    return XXH3_64bits(key, n);
}

/* Compares two keys whose first `depth` bytes are equal. */
int ts_string_compare(const char *a, const char *b, uint32_t depth);

/* Sorts n offsets from `base` by the keys of the strings at these offsets, which must all differ.
 * Allocates no memory. */
void ts_string_sort_places(const char *base, uint64_t *place, uint64_t n);

struct ts_string_sort;

/* Makes a sort. `bytes`: memory for strings that are added, and later for merging runs. tmp:
 * directory of the file. */
int ts_string_sort_new(const char *tmp, uint64_t bytes, const volatile sig_atomic_t *stop,
                       struct ts_string_sort **ret, struct ts_err *err);
void ts_string_sort_free(struct ts_string_sort *s); /* s may be NULL */

/* Adds a string. All strings that are added this way must differ. */
int ts_string_sort_add(struct ts_string_sort *s, const char *key, uint32_t n, uint64_t number,
                       struct ts_err *err);

/* Makes the sort order strings by ts_string_hash, and by bytes if hashes are equal. To be called
 * before the first string. Only strings of ts_string_sort_run can be sorted this way. */
void ts_string_sort_by_hash(struct ts_string_sort *s);

/* Adds n strings that are sorted already, at the offsets `place` from `base`, as a run. They may
 * equal strings of other runs. */
int ts_string_sort_run(struct ts_string_sort *s, const char *base, const uint64_t *place,
                       uint64_t n, struct ts_err *err);

/* To be called after the last string is added. */
int ts_string_sort_end(struct ts_string_sort *s, struct ts_err *err);

/* Returns 1 with the next string, 0 at the end, or a failure. */
int ts_string_sort_next(struct ts_string_sort *s, const char **key, uint32_t *n, uint64_t *number,
                        struct ts_err *err);

#endif
