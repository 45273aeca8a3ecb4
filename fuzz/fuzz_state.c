/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: the state of a run, as tstream cp --resume reads it. An odd first byte has the
 * checksums of the rest put right, head and sections, so that what lies behind them is reached.
 *
 * Whatever the bytes, what is taken is a state of sane sizes whose rows can be read, and a refusal
 * has its sentence.
 */
#include "cpd/solver/init.h"
#include "cpd/state/state.h"
#include "fuzz/fuzz.h"

static void read_all(const char *path)
{
    struct ts_state_file *f = NULL;
    const struct ts_state *s;
    struct ts_err err = { 0 };
    const int rc = ts_state_open(path, &f, &err);
    if (rc < 0) {
        MUST(err.code == rc && err.text[0] != '\0');
        return;
    }
    s = ts_state_get(f);
    MUST(s->order >= 1 && s->order <= TS_MAX_ORDER && s->rank >= 1 && s->rank <= TS_MAX_RANK);
    MUST(s->sweep >= 1 && s->mode < s->order);
    (void)ts_state_option(s, "rank");
    for (uint32_t m = 0; m < s->order; m++) {
        double *row;
        if ((s->factors >> m & 1) == 0 || s->n_rows[m] == 0)
            continue;
        row = malloc(s->rank * sizeof *row); /* of the very size: writing on is found out */
        MUST(row != NULL);
        MUST(ts_state_rows(f, m, s->n_rows[m] - 1, 1, row, &err) == 0);
        free(row);
    }
    ts_state_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path;
    uint8_t *own;
    if (size < 1 || size > 1 << 16)
        return 0;
    fuzz_folder();
    path = fuzz_at("state");
    own = fuzz_exact(data + 1, size - 1);
    if (data[0] & 1)
        fuzz_seal_state(own, size - 1);
    fuzz_write(path, own, size - 1);
    free(own);
    read_all(path);
    MUST(unlink(path) == 0);
    return 0;
}
