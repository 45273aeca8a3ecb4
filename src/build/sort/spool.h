/* SPDX-License-Identifier: BSD-3-Clause */
/* spool.h - stores a sequence of records: in memory, in a temporary file, or the first records in
 * memory and the later ones in a file.
 *
 *   owner    the spool owns its file; memory and rooms (see below) belong to the caller
 *   units    records of one layout
 *   threads  one at a time
 *   errors   0 or a negative ts_code
 */
#ifndef TS_BUILD_SPOOL_H
#define TS_BUILD_SPOOL_H

#include <stdint.h>

#include "base/err.h"
#include "build/sort/record.h"

/* Two rooms, each memory for the first records of a spool. There are two because one spool is read
 * while another one is written. */
struct ts_spool_rooms {
    uint64_t *mem[2], words; /* the rooms; words of each room, 0: there are no rooms */
    int taken[2];
};

/* A stored sequence of records. */
struct ts_spool {
    struct ts_record_layout layout;
    uint64_t n;
    uint64_t *mem; /* all records; NULL: they are in a room or in the file */
    int fd;        /* descriptor of the file; -1: there is no file */
    const char *tmp;
    /* two blocks of memory, of which the spool may use one for its first records; or NULL */
    struct ts_spool_rooms *rooms;
    uint32_t room;          /* number of the room that this spool uses, from 1; 0: none */
    uint64_t *head, head_n; /* the records in the room; how many fit there */
};

/* Makes an empty spool, with a temporary file in directory `tmp`; that string must stay. The first
 * records go to a room, if one is free when they are appended. The room is free again when the
 * spool is closed. */
int ts_spool_file(struct ts_spool *s, const struct ts_record_layout *layout, const char *tmp,
                  struct ts_spool_rooms *rooms, struct ts_err *err);

/* Puts the n records at *mem into an empty spool without a copy. The memory at *mem, which must be
 * as large as a room, becomes a room, and *mem becomes the memory that this room had. Returns 1, or
 * 0 without a change if no room is free. */
int ts_spool_adopt(struct ts_spool *s, uint64_t **mem, uint64_t n);
void ts_spool_close(struct ts_spool *s);

int ts_spool_append(struct ts_spool *s, const uint64_t *rec, uint64_t n, struct ts_err *err);

/* Returns records [first, first + n): their address in memory, or a copy read into buf. */
int ts_spool_read(const struct ts_spool *s, uint64_t first, uint64_t n, uint64_t *buf,
                  const uint64_t **ret, struct ts_err *err);

#endif
