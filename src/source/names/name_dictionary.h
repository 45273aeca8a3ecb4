/* SPDX-License-Identifier: BSD-3-Clause */
/* name_dictionary.h - numbers the names of one mode, and finds the number of a name.
 *
 * Strings are stored one after another in an arena, in the order of their numbers, which count from
 * 0. A hash table with open addressing has their offsets in the arena. It uses the highest bits of
 * the hash, so that it is nearly in the order of the hashes, in which names are written to disk.
 * When the table grows, readers may still use the old one, which stays until the dictionary is
 * cleared. A name that a reader did not find there is looked up again by the thread that gives
 * numbers.
 *
 *   owner    the dictionary owns arena and table
 *   units    bytes, names
 *   threads  find: any, also while one thread gives numbers; other functions: one at a time; clear,
 *            places and close: while no thread is in find
 *   errors   0 or TS_ENOMEM
 */
#ifndef TS_SOURCE_NAME_DICTIONARY_H
#define TS_SOURCE_NAME_DICTIONARY_H

#include <stdint.h>

#include "base/err.h"
#include "source/names/names.h"

struct ts_name_slots;

struct ts_name_dictionary {
    char *arena; /* strings one after another, in the form of string_sort.h */
    /* bytes of addresses reserved for the arena, the most that it may need */
    uint64_t room;
    uint64_t used, n;            /* bytes in use of the arena; number of names */
    struct ts_name_slots *slots; /* the hash table; read atomically */
    uint64_t slots_bytes;
};

/* Opens an empty dictionary with `room` bytes of addresses for its arena. `mode` is for the message
 * of a failure. A dictionary that is all zero may be closed. */
int ts_name_dictionary_open(struct ts_name_dictionary *d, uint64_t room, uint32_t mode,
                            struct ts_err *err);
void ts_name_dictionary_close(struct ts_name_dictionary *d);

/* Looks up n names. Sets ret[i] to the number of name i, if the name has one. */
void ts_name_dictionary_find(const struct ts_name_dictionary *d, uint32_t n,
                             const char *const name[], const uint32_t len[], uint64_t ret[]);

/* Sets *ret[i] to the number of each of n names (at most TS_NAMES_FIND), in order. Names without a
 * number get the next one. */
int ts_name_dictionary_number(struct ts_name_dictionary *d, uint32_t n, const char *const name[],
                              const uint32_t len[], uint64_t *const ret[], struct ts_err *err);

/* Returns the bytes by which the table grows if n names are added. */
uint64_t ts_name_dictionary_growth(const struct ts_name_dictionary *d, uint64_t n);

/* Return the offsets of all strings in the arena: in the order of their numbers, or (by_hash) in
 * the order in which string_sort.h merges strings by hash. The offsets overwrite the hash table, so
 * no name can be found until the dictionary is cleared. */
uint64_t *ts_name_dictionary_places(struct ts_name_dictionary *d);
int ts_name_dictionary_by_hash(struct ts_name_dictionary *d, uint64_t **ret, struct ts_err *err);

/* Removes all names and frees their memory. */
int ts_name_dictionary_clear(struct ts_name_dictionary *d, struct ts_err *err);

#endif
