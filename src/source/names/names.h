/* SPDX-License-Identifier: BSD-3-Clause */
/* names.h - names to indices: the dictionaries of the modes whose fields are names.
 *
 * A name gets an index when it is first seen, in the order of the text, whichever threads read it.
 * The dictionaries have a budget. When it is used up they are sorted and written to disk, and start
 * empty again: a new *generation*. A name that was in an earlier generation gets another,
 * provisional number. Nonzeros with provisional numbers wait in a file. At the end the generations
 * are merged, provisional numbers become indices, and the waiting nonzeros go to the sink. So the
 * indices do not depend on the memory.
 *
 *     ts_names_enter                                   for any piece, by any thread
 *         ts_names_find for each name; an unknown one stays as a place in the text
 *     ts_names_leave
 *     ts_names_turn                                    in the order of the pieces
 *     ts_names_wait, if turn says so: writes the nonzeros to the file
 *     ts_names_end, then ts_names_next until it gives none: the nonzeros that waited
 *
 * Where processes read parts of the text, each numbers its names, and the indices are *told*: all
 * nonzeros wait, and the end puts the names on disk, from where they are read and given to one that
 * numbers all those of a mode (name_list.h). What it says of each goes to ts_names_tell.
 *
 *   owner    the object owns memory and files; callers own batches
 *   threads  as said with each function
 *   errors   0 or a negative ts_code
 */
#ifndef TS_SOURCE_NAMES_H
#define TS_SOURCE_NAMES_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "source/batch.h"
#include "source/names/string_sort.h"

/* An index that is not known yet: the rest is the place of the name, from the start of a text. */
#define TS_NAME_UNKNOWN (UINT64_C(1) << 63)
#define TS_NAME_SIDE    (UINT64_C(1) << 62) /* in the side text */
static inline uint64_t ts_name_at(uint64_t at, uint64_t n)
{
    return TS_NAME_UNKNOWN | at << 16 | n;
}
static inline const char *ts_name_text(uint64_t unknown, const char *text, const char *side)
{
    const uint64_t at = (unknown & ~(TS_NAME_UNKNOWN | TS_NAME_SIDE)) >> 16;
    return (unknown & TS_NAME_SIDE ? side : text) + at;
}
static inline uint32_t ts_name_length(uint64_t unknown)
{
    return unknown & 65535;
}

struct ts_names_conf {
    uint32_t order, entry_bytes; /* entry_bytes: of the value of a nonzero (ts_batch_value_bytes) */
    int named[TS_MAX_ORDER];     /* modes that have names */
    int sorted;                  /* indices in the order of the names; 0: as first seen */
    int waits;                   /* 1: all nonzeros wait, also where numbers are indices */
    int told;       /* 1: so they do, for indices that are told; `sorted` is of no account */
    uint64_t bytes; /* memory for everything together */
    const char *tmp;
    const volatile sig_atomic_t *stop;

    /* Called at the end with the names of a mode, in the order of their indices. */
    int (*label)(void *arg, uint32_t mode, const char *name, uint32_t n, struct ts_err *err);
    void *label_arg;
};

struct ts_names;
int ts_names_new(const struct ts_names_conf *conf, struct ts_names **ret, struct ts_err *err);
void ts_names_free(struct ts_names *n); /* NULL is fine */

/* Before anything is read: gives the next indices of a mode to at most TS_NAMES_FIND names, which
 * must differ from all before. */
int ts_names_seed(struct ts_names *n, uint32_t mode, uint32_t n_names, const char *const name[],
                  const uint32_t len[], struct ts_err *err);

/* Called by any thread before it reads a piece; ts_names_leave after it. Returns the generation. */
uint64_t ts_names_enter(struct ts_names *n);
void ts_names_leave(struct ts_names *n);

/* Looks up at most TS_NAMES_FIND names; ret[i] is not changed where there is no index. To be called
 * between enter and leave, or in turn. Several names at once, so that one waits for memory while
 * the next is looked up. */
#define TS_NAMES_FIND 128u
void ts_names_find(const struct ts_names *g, uint32_t mode, uint32_t n, const char *const name[],
                   const uint32_t len[], uint64_t ret[]);

/* Waits for the turn of piece `number`, which was read in `generation`. Then every name of the
 * batch gets its number. If that generation is over, `again` reads the piece once more into the
 * same batch. Unknown names are in `text` and `side`. *wait: -1, or the place reserved for the
 * nonzeros of the batch in the file of those that wait; then ts_names_wait must follow. */
int ts_names_turn(struct ts_names *n, uint64_t number, uint64_t generation, struct ts_batch *b,
                  const char *text, const char *side, int (*again)(void *arg, struct ts_err *err),
                  void *arg, int64_t *wait, struct ts_err *err);
int ts_names_wait(struct ts_names *n, const struct ts_batch *b, int64_t at, struct ts_err *err);

/* To be called instead of turn when the piece failed. Returns after the turns of all pieces before
 * it; pieces after it get no turn. */
void ts_names_fail(struct ts_names *n, uint64_t number);

/* To be called by one thread when no piece is left: gives the indices and calls conf.label with the
 * names. */
int ts_names_end(struct ts_names *n, struct ts_err *err);

/* After end, of names whose indices are told: those first seen before file `file`, and the bytes
 * that they take on disk; with the number of files, all. They lie there as in string_sort.h, in the
 * order in which they were seen. */
uint64_t ts_names_seen(const struct ts_names *n, uint32_t mode, uint32_t file, uint64_t *bytes);
int ts_names_read(const struct ts_names *n, uint32_t mode, uint64_t at, void *buf, size_t bytes,
                  struct ts_err *err);

/* Gives the indices of the next `count` names. Then it gives the number of names of a mode for
 * which nothing is left. Waiting nonzeros get nothing before ts_names_told. */
int ts_names_tell(struct ts_names *n, uint32_t mode, const uint64_t *index, uint64_t count,
                  struct ts_err *err);
int ts_names_told(struct ts_names *n, const uint64_t n_names[], struct ts_err *err);

/* To be called by any thread after that: the next nonzeros that waited, with their indices; n == 0
 * at the end. */
int ts_names_next(struct ts_names *n, char *buf, size_t buf_bytes, struct ts_batch *b,
                  struct ts_err *err);

/* To be called after the last nonzero: 0, or TS_EIO if the nonzeros are not those that waited. */
int ts_names_check(const struct ts_names *n, struct ts_err *err);

/* After end: how many names a mode has. */
uint64_t ts_names_count(const struct ts_names *n, uint32_t mode);

/* The number of generations. */
uint64_t ts_names_generations(const struct ts_names *n);

#endif
