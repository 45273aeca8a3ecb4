/* SPDX-License-Identifier: BSD-3-Clause */
/* name_generations.h - stores the names of one mode on disk, generation after generation (names.h),
 * and merges them to give each name its index.
 *
 * Each generation stores its names sorted, with *provisional* numbers that continue those of the
 * generation before. At the end the sorted names are merged, and a name with several numbers gets
 * one index. A file holds the index of each provisional number, for the nonzeros that wait for
 * indices.
 *
 *   owner    the object owns its files and sorts; dictionary and conf are the caller's
 *   units    names
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_NAME_GENERATIONS_H
#define TS_SOURCE_NAME_GENERATIONS_H

#include <stdint.h>

#include "base/err.h"
#include "source/names/name_dictionary.h"
#include "source/names/names.h"

struct ts_name_generations {
    struct ts_string_sort *runs;
    /* files: names in the order of their numbers; the index of each provisional number */
    int arena_fd, map_fd;
    uint64_t arena_bytes; /* bytes of names in the arena file */
    uint64_t before;      /* number of provisional numbers that earlier generations have */
    uint64_t n_names;     /* number of different names, known at the end */
};

void ts_name_generations_open(struct ts_name_generations *s);
void ts_name_generations_close(struct ts_name_generations *s);

/* Writes the names of a dictionary to disk. No name can be found in the dictionary until it is
 * cleared. */
int ts_name_generations_save(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             struct ts_name_dictionary *d, struct ts_err *err);

/* To be called after the last generation was saved: merges the names, and passes them to
 * conf->label. */
int ts_name_generations_end(struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint32_t mode, struct ts_err *err);

/* If another process chooses the indices (names.h, `told`): stores the indices of provisional
 * numbers first .. first + n - 1. */
int ts_name_generations_tell(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             uint64_t first, const uint64_t *index, uint64_t n, struct ts_err *err);

/* To be called after ts_name_generations_end or the last ts_name_generations_tell: reads the
 * indices of provisional numbers first .. first + n - 1. */
int ts_name_generations_map(const struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint64_t first, uint64_t n, uint64_t *ret, struct ts_err *err);

#endif
