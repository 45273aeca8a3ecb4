/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.h - stores a sequence of records: in memory, in a temporary file, or the first of them in
 * memory and the rest in a file.
 *
 *   owner    the spool owns its file; memory and rooms belong to the caller
 *   units    records of one layout
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_SPOOL_H
#define TS_BUILD_SPOOL_H

#include <stdint.h>

#include "base/err.h"
#include "build/sort/record.h"

/* Two rooms: memory for the first records of two spools, one being read and one being written. */
struct ts_spool_rooms {
    uint64_t *mem[2], words; /* the rooms; words of each, 0: there are none */
    int taken[2];
};

struct ts_spool {
    struct ts_record_layout layout;
    uint64_t n;
    uint64_t *mem; /* all records; NULL: they are in a room or in the file */
    int fd;        /* descriptor of the file; -1: there is no file */
    const char *tmp;
    /* The rooms that the spool may use; NULL: none. */
    struct ts_spool_rooms *rooms;
    uint32_t room;          /* number of the room of this spool, from 1; 0: it has none */
    uint64_t *head, head_n; /* the records in the room, and how many fit there */
};

/* Makes an empty spool, with a temporary file in directory `tmp`, which must stay. The first
 * records go to a room, if one is free when they are appended. It is free again when the spool is
 * closed. */
int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_spool_rooms *rooms, struct ts_err *err);

/* Gives the n records at *mem to an empty spool; their memory is as large as a room, and takes the
 * place of one. *mem becomes the memory of that room. Returns 1, or 0 without a change if no room
 * is free. */
int ts_spool_adopt(struct ts_spool *s, uint64_t **mem, uint64_t n);
void ts_spool_close(struct ts_spool *s);

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err);

/* Returns records [first, first + n): their address in memory, or a copy read into buf. */
int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err);

#endif
