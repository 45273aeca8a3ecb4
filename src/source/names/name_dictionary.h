/* SPDX-License-Identifier: BSD-3-Clause */
/* name_dictionary.h - the names of one mode that have a number, and a table to find them by.
 *
 * Strings lie one behind the other in an arena, in the order of their numbers, which count from 0.
 * The table of places is open addressing by the highest bits of the hash, so that it is nearly in
 * the order of the hashes, in which names go to disk. A larger one takes its place while readers
 * are in the old one, which therefore stays until the dictionary is emptied: what readers miss
 * there is looked for again in turn.
 *
 *   owner    the dictionary owns arena and table
 *   units    bytes, names
 *   threads  find by any, also while one thread gives numbers; all else by one thread at a time,
 *            and clear, places and close while nobody finds
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_SOURCE_NAME_DICTIONARY_H
#define TS_SOURCE_NAME_DICTIONARY_H

#include <stdint.h>

#include "base/err.h"
#include "source/names/names.h"

struct ts_name_slots;

struct ts_name_dictionary {
    char *arena;                 /* strings as in string_sort.h */
    uint64_t room;               /* addresses reserved for the arena, as many as it may ever need */
    uint64_t used, n;            /* bytes of the arena; names */
    struct ts_name_slots *slots; /* atomic */
    uint64_t slots_bytes;
};

/* `mode` is for the sentence of a failure. One of zeros may be closed. */
int ts_name_dictionary_open(struct ts_name_dictionary *d, uint64_t room, uint32_t mode,
                            struct ts_err *err);
void ts_name_dictionary_close(struct ts_name_dictionary *d);

/* As ts_names_find. */
void ts_name_dictionary_find(const struct ts_name_dictionary *d, uint32_t n,
                             const char *const name[], const uint32_t len[], uint64_t ret[]);

/* The numbers of at most TS_NAMES_FIND names, in their order: new ones where need be. */
int ts_name_dictionary_number(struct ts_name_dictionary *d, uint32_t n, const char *const name[],
                              const uint32_t len[], uint64_t *const ret[], struct ts_err *err);

/* The bytes by which the table grows if n names are added. */
uint64_t ts_name_dictionary_growth(const struct ts_name_dictionary *d, uint64_t n);

/* The places of all strings in the order of their numbers, or of their hashes as strings are merged
 * (string_sort.h). They lie in the memory of the table: nothing is found after this until the
 * dictionary is cleared. */
uint64_t *ts_name_dictionary_places(struct ts_name_dictionary *d);
int ts_name_dictionary_by_hash(struct ts_name_dictionary *d, uint64_t **ret, struct ts_err *err);

/* Forgets all names and gives their memory back. */
int ts_name_dictionary_clear(struct ts_name_dictionary *d, struct ts_err *err);

#endif
