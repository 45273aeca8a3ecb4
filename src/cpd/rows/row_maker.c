/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the row maker (row_maker.h) of a kind of row update, and adds up checks and memory of all
 * makers. */
#include "cpd/rows/row_maker.h"

static const struct ts_row_maker *const makers[TS_N_ROW_KINDS] = {
#define ADDRESS(NAME, name) [TS_ROW_##NAME] = &ts_rows_##name,
    TS_ROW_MAKERS(ADDRESS)
};

#define BIT(NAME, name) | 1 << TS_ROW_##NAME
_Static_assert((0 TS_ROW_MAKERS(BIT)) == (TS_ROWS_ALL & ~TS_ROWS_BY_BACKEND),
               "an update of stream/row_update.h that no backend makes has its line in "
               "TS_ROW_MAKERS of row_maker.h, and no other update has");

const struct ts_row_maker *ts_row_maker_of(enum ts_row_kind kind)
{
    return makers[kind];
}

int ts_row_makers_check(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec,
                        struct ts_err *err)
{
    int rc = 0;
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        const struct ts_row_maker *maker = makers[ts_spec_row_kind(spec, m)];
        if (maker != NULL && maker->check != NULL)
            rc = maker->check(t, m, rank, err);
    }
    return rc;
}

uint64_t ts_row_makers_bytes(const struct ts_tensor *t, uint32_t rank, const struct ts_spec *spec)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        const struct ts_row_maker *maker = makers[ts_spec_row_kind(spec, m)];
        const uint64_t bytes = maker == NULL || maker->bytes == NULL ? 0 : maker->bytes(t, m, rank);
        most = bytes > most ? bytes : most;
    }
    return most;
}
