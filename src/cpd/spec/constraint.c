/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes properties of the constraints of a mode, and the rounds of its row updates. */
#include "cpd/spec/constraint.h"

#include <math.h>

#include "stream/row_update.h"

/* a starting factor is too large if the estimated size of the next factor is less than TOO_LARGE
 * times its own */
#define TOO_LARGE 1e-4

int ts_constraint_rigid(const struct ts_constraint *c)
{
    return c->simplex || c->bounded || c->orthogonal;
}

int ts_constraint_as_it_is(const struct ts_constraint *c)
{
    return c->simplex || c->bounded;
}

int ts_constraint_too_large(double norm, uint64_t nnz, double cells, double model_square)
{
    return norm * sqrt((double)nnz / cells) < TOO_LARGE * sqrt(model_square);
}

uint32_t ts_constraint_rounds(int too_large, uint32_t order, uint64_t nnz, uint64_t n_rows,
                              uint32_t rank)
{
    const double more = 0.3 * order * (double)nnz / ((double)rank * (double)(n_rows + 1));
    const uint32_t most = TS_ROW_MANY - 2;
    return 2 + (too_large ? 0 : more < most ? (uint32_t)more : most);
}
