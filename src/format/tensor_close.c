/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor_close.c - frees the memory and closes the files of an open tensor of any kind. */
#include <stdlib.h>

#include "base/machine/bigmem.h"
#include "base/files/fd.h"
#include "base/files/open_dir.h"
#include "base/files/temp_dir.h"
#include "format/arrays/dense.h"
#include "format/mode_names.h"
#include "format/tensor.h"
#include "format/tensor_index.h"

static void free_dense(struct ts_dense *d)
{
    if (d == NULL)
        return;
    if (d->own != NULL)
        ts_bigmem_free(d->own, d->own_bytes);
    ts_fd_close(d->fd);
    free((char *)(uintptr_t)d->array.file);
    free(d->sum);
    free(d);
}

void ts_tensor_close(struct ts_tensor *t)
{
    if (t == NULL)
        return;
    ts_tensor_index_free(t);
    ts_mode_names_free(t);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++) {
        free(t->mode[m].shards_path);
        free(t->mode[m].rows_path);
        free(t->mode[m].labels_path);
        ts_fd_close(t->mode[m].rows_fd);
        ts_fd_close(t->mode[m].labels_fd);
        ts_fd_close(t->mode[m].shards_fd);
    }
    ts_open_dir_close(t->dir);
    free_dense(t->dense);
    ts_temp_dir_remove(t->temp);
    free(t->path);
    free(t);
}
