/* SPDX-License-Identifier: BSD-3-Clause */
/* names.h - gives each name an index: dictionaries for the modes whose fields are names.
 *
 * A name gets an index when it is first seen, in the order of the text, whichever threads read it.
 * The dictionaries have a budget. When it is used up they are sorted and written to disk, and start
 * empty again: a new *generation*. A name that was in an earlier generation gets another,
 * provisional number. Nonzeros with provisional numbers wait in a file. At the end the generations
 * are merged, provisional numbers become indices, and the waiting nonzeros go to the sink. So the
 * indices do not depend on the memory.
 *
 *     ts_names_enter       before a piece of text is read, by any thread
 *         ts_names_find    for each name; a name without a number stays as its position in the text
 *     ts_names_leave       after the piece was read
 *     ts_names_turn        in the order of the pieces in the text
 *     ts_names_wait        if ts_names_turn says so: writes the nonzeros to the file
 *     ts_names_end         after the last piece: gives the indices
 *     ts_names_next        until it returns no nonzeros: reads the nonzeros that waited
 *
 * If several processes read parts of the text, each gives its names provisional numbers, and the
 * indices are *told*. All nonzeros wait, and ts_names_end writes the names to disk. From there they
 * are sent to one process, which chooses the indices of all names of a mode (name_list.h). It sends
 * them back, and they are passed to ts_names_tell.
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

/* Marks an index that is not known yet. Its other bits are the position of the name in a text, and
 * the name's length. */
#define TS_NAME_UNKNOWN (UINT64_C(1) << 63)
#define TS_NAME_SIDE    (UINT64_C(1) << 62) /* the name is in the side text (rewritten fields) */
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
    uint32_t order, entry_bytes; /* entry_bytes: bytes of a value (ts_batch_value_bytes) */
    int named[TS_MAX_ORDER];     /* for each mode, 1: its fields are names */
    /* 1: names get indices in their sorted order; 0: in the order in which they are first seen */
    int sorted;
    /* 1: all nonzeros wait in the file, also where provisional numbers are indices */
    int waits;
    int told;       /* 1: all nonzeros wait for indices of another process; `sorted` is ignored */
    uint64_t bytes; /* memory for the dictionaries of all modes */
    const char *tmp;
    const volatile sig_atomic_t *stop;

    /* Called at the end with each name of a mode, in the order of their indices. */
    int (*label)(void *arg, uint32_t mode, const char *name, uint32_t n, struct ts_err *err);
    void *label_arg;
};

struct ts_names;
int ts_names_new(const struct ts_names_conf *conf, struct ts_names **ret, struct ts_err *err);
void ts_names_free(struct ts_names *n); /* n may be NULL */

/* To be called before any text is read: gives the next indices of a mode to n_names names, at most
 * TS_NAMES_FIND. Each must differ from all names that the mode has already. */
int ts_names_seed(struct ts_names *n, uint32_t mode, uint32_t n_names, const char *const name[],
                  const uint32_t len[], struct ts_err *err);

/* Called by any thread before it reads a piece of text; ts_names_leave is called after it. Returns
 * the number of the current generation. A new one begins when the dictionaries are full. */
uint64_t ts_names_enter(struct ts_names *n);
void ts_names_leave(struct ts_names *n);

/* Looks up at most TS_NAMES_FIND names, and sets ret[i] to the number of name i. ret[i] does not
 * change if the name has none. To be called between enter and leave, or by `again` of
 * ts_names_turn. It takes several names, to load from memory for one while another is looked up. */
#define TS_NAMES_FIND 128u
void ts_names_find(const struct ts_names *g, uint32_t mode, uint32_t n, const char *const name[],
                   const uint32_t len[], uint64_t ret[]);

/* Waits until all pieces before piece `number`, which was read in `generation`, had their turns.
 * Then every name of the batch gets its number. If a new generation has begun since, `again` reads
 * the piece once more into the same batch. Names without a number are in `text` and `side`. *wait:
 * -1, or the place reserved for the nonzeros of the batch in the file of those that wait; then
 * ts_names_wait must follow. */
int ts_names_turn(struct ts_names *n, uint64_t number, uint64_t generation, struct ts_batch *b,
                  const char *text, const char *side, int (*again)(void *arg, struct ts_err *err),
                  void *arg, int64_t *wait, struct ts_err *err);
int ts_names_wait(struct ts_names *n, const struct ts_batch *b, int64_t at, struct ts_err *err);

/* To be called instead of ts_names_turn when reading a piece of text failed. Returns after the
 * turns of all pieces before it; pieces after it get no turn. */
void ts_names_fail(struct ts_names *n, uint64_t number);

/* To be called by one thread when all text was read: gives the indices and calls conf.label with
 * the names. */
int ts_names_end(struct ts_names *n, struct ts_err *err);

/* To be called after ts_names_end, if conf.told is 1. Returns how many names were first seen before
 * file `file` of the input, and sets *bytes to their bytes on disk. If `file` is the number of
 * files, these are all names. ts_names_read reads them: strings in the form of string_sort.h, in
 * the order in which they were seen. */
uint64_t ts_names_seen(const struct ts_names *n, uint32_t mode, uint32_t file, uint64_t *bytes);
int ts_names_read(const struct ts_names *n, uint32_t mode, uint64_t at, void *buf, size_t bytes,
                  struct ts_err *err);

/* ts_names_tell sets the indices of the next `count` names of a mode. After the last name,
 * ts_names_told sets the number of different names of each mode. Waiting nonzeros can be read after
 * that. */
int ts_names_tell(struct ts_names *n, uint32_t mode, const uint64_t *index, uint64_t count,
                  struct ts_err *err);
int ts_names_told(struct ts_names *n, const uint64_t n_names[], struct ts_err *err);

/* To be called by any thread after ts_names_end or ts_names_told: reads the next nonzeros that
 * waited, with their indices, into b. b->n is 0 at the end. */
int ts_names_next(struct ts_names *n, char *buf, size_t buf_bytes, struct ts_batch *b,
                  struct ts_err *err);

/* To be called after the last ts_names_next: returns 0, or TS_EIO if the nonzeros that it returned
 * are not those that were written to the file. */
int ts_names_check(const struct ts_names *n, struct ts_err *err);

/* To be called after ts_names_end: returns how many different names a mode has. */
uint64_t ts_names_count(const struct ts_names *n, uint32_t mode);

/* Returns how many times empty dictionaries were begun so far (the number of generations). */
uint64_t ts_names_generations(const struct ts_names *n);

#endif
