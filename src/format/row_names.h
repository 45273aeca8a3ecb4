/* SPDX-License-Identifier: BSD-3-Clause */
/* row_names.h - looks up the input index and the label of any row of any mode, within a memory
 * limit.
 *
 * ts_tensor_rows holds all used indices of a mode, and ts_tensor_labels reads the label file for
 * each call. Neither suits printing all nonzeros, whose rows come in any order. This file keeps
 * three tables for each mode: the used indices, the position of every 16th label, and the text of
 * the labels. Each table is in memory if it fits, the smallest first. Tables that do not fit are
 * read from files through a cache of 4 KiB pages per thread: the text from the label file, the
 * other two from a temporary file.
 *
 *   owner    struct ts_row_names owns its tables; the tensor must stay open
 *   units    bytes; rows and indices from 0
 *   threads  one thread opens and closes; `threads` threads, each with its own number, may look up
 *            at a time
 *   errors   0 or a negative ts_code: TS_EFORMAT for damaged files
 */
#ifndef TS_FORMAT_ROW_NAMES_H
#define TS_FORMAT_ROW_NAMES_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "format/tensor.h"

struct ts_row_names_conf {
    const struct ts_tensor *tensor;
    int labels;                        /* whether labels will be asked for */
    uint32_t threads;                  /* number of threads that will look up names */
    uint64_t bytes;                    /* bytes of memory to use; at least ts_row_names_least */
    const char *tmp;                   /* directory for temporary files; the text must stay valid */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* One table of struct ts_row_names: in memory, or in a file with a cache for each thread. */
struct ts_name_table {
    const char *path; /* the file's name in messages */
    uint64_t bytes;
    void *mem; /* the whole table, or NULL if it is read from the file */
    int fd, own_fd;
    uint64_t at;               /* position of the table's first byte in the file */
    uint32_t n_pages;          /* pages of a cache, a power of two */
    struct ts_name_page *page; /* pages of all caches: n_pages for each thread */
};

struct ts_row_names {
    const struct ts_tensor *tensor;
    struct {
        uint32_t index_bytes; /* bytes of an entry of `index`: 4 or 8; 0: row i is index i */
        uint64_t n_labels;
        size_t longest; /* bytes of the longest label */
        struct ts_name_table index, place, text;
        char **line; /* for each thread: memory for a label that lies on two pages */
        size_t *line_room;
    } mode[TS_MAX_ORDER];
    uint32_t threads;
};

/* Return the memory that the smallest caches take, and the memory that holding all tables takes. */
uint64_t ts_row_names_least(const struct ts_row_names_conf *conf);
uint64_t ts_row_names_most(const struct ts_row_names_conf *conf);

int ts_row_names_open(const struct ts_row_names_conf *conf, struct ts_row_names **ret,
                      struct ts_err *err);
void ts_row_names_close(struct ts_row_names *r); /* NULL is fine */

/* Looks up the input index of a row in the table, for ts_row_index, which callers use. */
int ts_row_names_index(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t row,
                       uint64_t *ret, struct ts_err *err);

static inline int ts_row_index(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t row,
                               uint64_t *ret, struct ts_err *err)
{
    const uint32_t bytes = r->mode[mode].index_bytes;
    const void *mem = r->mode[mode].index.mem;
    if (bytes > 0 && mem == NULL)
        return ts_row_names_index(r, thread, mode, row, ret, err);
    *ret = bytes == 0   ? row
           : bytes == 4 ? ((const uint32_t *)mem)[row]
                        : ((const uint64_t *)mem)[row];
    return 0;
}

/* Sets *ret to the label of an index, *n bytes without a terminator, or to NULL if it has none.
 * The label is valid until this thread asks for another one of the mode. */
int ts_row_label(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t index,
                 const char **ret, size_t *n, struct ts_err *err);

#endif
