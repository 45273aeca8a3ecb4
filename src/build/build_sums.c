/* SPDX-License-Identifier: BSD-3-Clause */
/* build_sums.c - checks that each nonzero of the source is unchanged in the copy of each mode. */
#include <inttypes.h>

#include "base/setting.h"
#include "build/ranks/build_comm.h"
#include "build/build_steps.h"
#include "format/tensor_sums.h"

#define IS_BUG ": this is a bug in tstream, please report it; nothing was written"

/* Replaces each of n checksums of this rank by the sum over all ranks. Ranks agree on rc. */
static int join(struct ts_build *b, int rc, struct ts_cell_sum *sum, uint32_t n, struct ts_err *err)
{
    uint64_t word[3 * (TS_MAX_ORDER + 1)];
    for (uint32_t i = 0; i < n; i++) {
        word[3 * i] = sum[i].n;
        word[3 * i + 1] = sum[i].word[0];
        word[3 * i + 2] = sum[i].word[1];
    }
    rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, word, 3 * n, err);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        sum[i] = (struct ts_cell_sum){ word[3 * i], { word[3 * i + 1], word[3 * i + 2] } };
    return rc;
}

int ts_build_sums_merged(struct ts_build *b, int rc, struct ts_err *err)
{
    struct ts_merge_account *a = &b->merge.account[0];
    struct ts_cell_sum all[5] = { b->collect.records, a->gone, a->made, a->kept, a->cells };
    struct ts_err why;
    b->passing = a->cells;
    rc = join(b, rc, all, 5, err);
    if (rc < 0)
        return rc;
    b->records = all[0];
    a->gone = all[1];
    a->made = all[2];
    a->kept = all[3];
    b->cells = all[4];
    if (ts_merge_check(&b->merge, &b->records, &why) < 0)
        return ts_fail(err, TS_EIO, "%s: %s" IS_BUG, b->o->out, why.text);
    return 0;
}

int ts_build_sums_passed(struct ts_build *b, const struct ts_cell_sum *in,
                         const struct ts_cell_sum *out, struct ts_err *err)
{
    if (!ts_cell_sum_same(in, &b->passing))
        return ts_fail(err, TS_EIO,
                       "%s: %" PRIu64 " cells with the sum %016" PRIx64 "%016" PRIx64
                       " were merged, and %" PRIu64 " with the sum %016" PRIx64 "%016" PRIx64
                       " are numbered" IS_BUG,
                       b->o->out, b->passing.n, b->passing.word[1], b->passing.word[0], in->n,
                       in->word[1], in->word[0]);
    b->passing = *out;
    return 0;
}

int ts_build_sums_written(struct ts_build *b, int rc, struct ts_err *err)
{
    struct ts_cell_sum all[TS_MAX_ORDER + 1];
    for (uint32_t m = 0; m < b->order; m++)
        all[m] = b->copy[m];
    all[b->order] = b->passing;
    rc = join(b, rc, all, b->order + 1, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (!ts_cell_sum_same(&all[m], &all[b->order]))
            rc = ts_fail(err, TS_EIO,
                         "%s: the copy for " TS_NTH_MODE " holds %" PRIu64
                         " cells with the sum %016" PRIx64 "%016" PRIx64 ", and %" PRIu64
                         " with the sum %016" PRIx64 "%016" PRIx64 " were to be written" IS_BUG,
                         b->o->out, m + 1, all[m].n, all[m].word[1], all[m].word[0],
                         all[b->order].n, all[b->order].word[1], all[b->order].word[0]);
    return rc;
}

int ts_build_sums_file(const struct ts_build *b, uint64_t index_hash, struct ts_err *err)
{
    const struct ts_tensor_sums sums = { b->carried != NULL ? b->carried->records : b->records,
                                         b->cells };
    struct ts_disk_sums d;
    ts_tensor_sums_make(&sums, b->order, index_hash, &d);
    return ts_build_dir_write(b->dir, TS_SUMS_NAME, &d, sizeof d, err);
}
