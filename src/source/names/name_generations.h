/* SPDX-License-Identifier: BSD-3-Clause */
/* name_generations.h - the names of one mode that went to disk, generation after generation
 * (names.h), and their merging into indices.
 *
 * Each generation leaves its names sorted, with *provisional* numbers that go on from those of the
 * generation before. At the end the sorted names are merged: what is the same name under several
 * numbers gets one index, and a file holds the index of each provisional number, which those ask
 * who bring the nonzeros that waited.
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
    int arena_fd, map_fd; /* all arenas; the index of each provisional number */
    uint64_t arena_bytes; /* bytes of names in the file */
    uint64_t before;      /* provisional numbers there are */
    uint64_t n_names;     /* different ones, at the end */
};

void ts_name_generations_open(struct ts_name_generations *s);
void ts_name_generations_close(struct ts_name_generations *s);

/* Puts a dictionary on disk. Nothing is found in it after this until it is cleared. */
int ts_name_generations_save(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             struct ts_name_dictionary *d, struct ts_err *err);

/* After the last one: merges, and tells the names to conf->label. */
int ts_name_generations_end(struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint32_t mode, struct ts_err *err);

/* Instead of merging, where indices are told (names.h): those of n provisional numbers. */
int ts_name_generations_tell(struct ts_name_generations *s, const struct ts_names_conf *conf,
                             uint64_t first, const uint64_t *index, uint64_t n, struct ts_err *err);

/* After that: the indices of n provisional numbers. */
int ts_name_generations_map(const struct ts_name_generations *s, const struct ts_names_conf *conf,
                            uint64_t first, uint64_t n, uint64_t *ret, struct ts_err *err);

#endif
