/* SPDX-License-Identifier: BSD-3-Clause */
/* row_names.h - the index in the input and the label of any row of any mode, within a given memory.
 *
 * ts_tensor_rows holds all used indices of a mode, ts_tensor_labels reads the file of labels for
 * each call: neither serves text of all nonzeros, whose rows come in any order. Here are three
 * tables for a mode: the used indices, the place of every 16th label, and the text of the labels.
 * Each is in memory when it fits, the smallest first. What does not fit is read through pages of 4
 * KiB that every thread keeps for itself: the text from the file of labels, the other two from a
 * temporary file.
 *
 *   owner    the names own what they hold; the tensor must stay
 *   units    bytes; rows and indices from 0
 *   threads  open and close by one; the rest by `threads` at a time, each by its own number
 *   errors   0 or a negative ts_code: TS_EFORMAT for what is damaged
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
    uint64_t bytes;                    /* memory; see ts_row_names_least */
    const char *tmp;                   /* directory for temporary files; must stay */
    const volatile sig_atomic_t *stop; /* may be NULL */
};

/* A table of struct ts_row_names: in memory, or in a file with a cache for each thread. */
struct ts_name_table {
    const char *path; /* for sentences */
    uint64_t bytes;
    void *mem; /* the memory of all members below, or NULL */
    int fd, own_fd;
    uint64_t at;               /* position of the table in the file */
    uint32_t n_pages;          /* pages of a cache, a power of two */
    struct ts_name_page *page; /* threads x n_pages */
};

struct ts_row_names {
    const struct ts_tensor *tensor;
    struct {
        uint32_t index_bytes; /* bytes of an entry of `index`: 4 or 8; 0: row i is index i */
        uint64_t n_labels;
        size_t longest; /* label */
        struct ts_name_table index, place, text;
        char **line; /* for each thread: memory for a label that lies on two pages */
        size_t *line_room;
    } mode[TS_MAX_ORDER];
    uint32_t threads;
};

/* The memory that caches take at least, and what holding everything takes. */
uint64_t ts_row_names_least(const struct ts_row_names_conf *conf);
uint64_t ts_row_names_most(const struct ts_row_names_conf *conf);

int ts_row_names_open(const struct ts_row_names_conf *conf, struct ts_row_names **ret,
                      struct ts_err *err);
void ts_row_names_close(struct ts_row_names *r); /* NULL is fine */

/* The index of a row; for ts_row_index. */
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

/* The label of an index, *n bytes without an end; *ret is NULL when it has none. It stays until
 * this thread asks for another one of the mode. */
int ts_row_label(struct ts_row_names *r, uint32_t thread, uint32_t mode, uint64_t index,
                 const char **ret, size_t *n, struct ts_err *err);

#endif
