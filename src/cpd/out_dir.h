/* out_dir.h - a directory of results that appears whole or not at all.
 *
 *   owner    the object owns DIR.partial and removes it unless committed
 *   threads  one at a time; a lock keeps a second process from writing the same DIR
 *   errors   0 or a negative ts_code
 */
#ifndef TS_CPD_OUT_DIR_H
#define TS_CPD_OUT_DIR_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct ts_out_dir {
    char *dir, *partial;
    int fd; /* of partial, locked; -1 when there is none */
    uint64_t free_bytes; /* on its file system, at opening */
};

/* Creates DIR.partial. DIR may exist when `ours` accepts the name of every file in it. */
int ts_out_dir_open(const char *dir, int (*ours)(const char *name), struct ts_out_dir *ret,
                    struct ts_err *err);

/* A new file in it, and its end: flushed to the disk. *path is for sentences, to be freed. */
int ts_out_dir_create(struct ts_out_dir *o, const char *name, FILE **ret, char **path,
                      struct ts_err *err);
int ts_out_dir_finish(FILE *file, const char *path, struct ts_err *err);

/* DIR.partial becomes DIR; what DIR held before is removed. */
int ts_out_dir_commit(struct ts_out_dir *o, int (*ours)(const char *name), struct ts_err *err);

void ts_out_dir_close(struct ts_out_dir *o, int (*ours)(const char *name));

#endif
