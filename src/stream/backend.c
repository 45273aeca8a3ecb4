/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that a backend has the capabilities that a run needs. */
#include "stream/backend.h"

static const char *const lacking[] = {
#define SENTENCE_OF_ROWS(NAME, ...) "these constraints are computed on CPU cores only",
    TS_ROW_KINDS(SENTENCE_OF_ROWS)
#define SENTENCE(NAME, sentence) sentence,
        TS_CAPABILITIES(SENTENCE)
};

_Static_assert(sizeof lacking / sizeof lacking[0] == TS_N_CAPABILITIES,
               "each capability has its sentence");

int ts_backend_check(const struct ts_backend *b, uint32_t needs, struct ts_err *err)
{
    for (enum ts_capability one = 0; one < TS_N_CAPABILITIES; one++)
        if (ts_has_capability(needs & ~b->can, one))
            return ts_fail(err, TS_EARG, "%s", lacking[one]);
    return 0;
}
