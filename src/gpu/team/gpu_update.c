/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends the data of a row update to a device: a matrix and, if the update reads old rows, the table
 * of columns and an inverse. */
#include <math.h>
#include <string.h>

#include "gpu/rows/dense_kernel.h"
#include "gpu/team/gpu_device.h"

/* Sends a matrix of rank x rank values to the model's device memory `w`, where it has ld x ld
 * values, zeros from the rank on. */
static ts_gpu_error send_matrix(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                const double *from)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const size_t bytes = 8 * (size_t)of->ld * of->ld;
    memset(my->host, 0, bytes);
    for (uint32_t i = 0; i < of->rank; i++)
        memcpy((double *)my->host + (size_t)i * of->ld, from + (size_t)i * of->rank,
               8 * (size_t)of->rank);
    return ts_dense_copy(my->w, my->host, bytes, me->dense);
}

/* Fills the table of columns for steps of coordinate descent. The entries of columns rank .. ld - 1
 * are zero. */
static void fill_table(const struct ts_gpu_model *of, const struct ts_row_update *update,
                       double *table)
{
    const uint32_t ld = of->ld;
    memset(table, 0, 8 * (size_t)TS_DESCEND_TABLE * ld);
    for (uint32_t r = 0; r < of->rank; r++) {
        const double square = update->matrix == NULL ? 0 : update->matrix[(size_t)r * of->rank + r];
        const int counts = square > 0 && isfinite(1 / square);
        table[TS_DESCEND_INVERSE * ld + r] = counts ? 1 / square : 0;
        table[TS_DESCEND_THRESHOLD * ld + r] = update->l1 == 0 ? 0
                                               : counts        ? update->l1 / square
                                                               : INFINITY;
        table[TS_DESCEND_LOWER * ld + r] = update->lower;
        table[TS_DESCEND_UPPER * ld + r] = update->upper;
        table[TS_DESCEND_WEIGHT * ld + r] = update->weight == NULL ? 1 : update->weight[r];
    }
}

ts_gpu_error ts_gpu_device_send_update(const struct ts_gpu_model *of, struct ts_gpu_member *me,
                                       const struct ts_row_update *update)
{
    const struct ts_gpu_replica *my = &me->replica[of->number];
    const uint64_t bytes = ts_gpu_host_bytes(of->ld, update->kind == TS_ROW_SIMPLEX);
    double *host = my->host;
    if (!ts_row_reads_old(update->kind))
        return send_matrix(of, me, update->matrix);
    memset(host, 0, bytes);
    for (uint32_t i = 0; i < of->rank && update->matrix != NULL; i++)
        memcpy(host + (size_t)i * of->ld, update->matrix + (size_t)i * of->rank,
               8 * (size_t)of->rank);
    fill_table(of, update, host + (size_t)of->ld * of->ld);
    for (uint32_t i = 0; i < of->rank && update->kind == TS_ROW_SIMPLEX; i++)
        memcpy(host + ((size_t)of->ld + TS_DESCEND_TABLE + i) * of->ld,
               update->inverse + (size_t)i * of->rank, 8 * (size_t)of->rank);
    return ts_dense_copy(my->w, host, bytes, me->dense);
}

struct ts_gpu_mttkrp ts_gpu_device_args(const struct ts_gpu_model *of,
                                        const struct ts_gpu_member *me)
{
    const struct ts_tensor *t = of->gpu->tensor;
    const struct ts_disk_header *h = &t->header;
    return (struct ts_gpu_mttkrp){
        .n_levels = t->order - 1,
        .value_kind = h->value_kind,
        .n_codes = ts_header_codes(h),
        .weights = (uint32_t)ts_tensor_weighted(t),
        .value_base = h->value_base,
        .dict = me->dict,
        .edge = me->replica[of->number].edge,
        .edge_row = me->edge_row,
        .ld = of->ld,
    };
}
