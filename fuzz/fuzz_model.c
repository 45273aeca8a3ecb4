/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: decompositions as files, as --init, top and fit read them. The first byte chooses the
 * kind: a ktensor file, a directory of one with an index, of NumPy arrays, or of SPLATT matrices.
 * The rest is the contents of its files in turn, divided by the three bytes 0xf5 0xf6 0xf7.
 *
 * Whatever the bytes, what is taken is a decomposition of sane sizes and finite numbers, a refusal
 * has its sentence, and both are the same however many rows are read at a time.
 */
#include <errno.h>
#include <math.h>

#include "fuzz/fuzz.h"
#include "model/model_read.h"

#define MOST_ROWS (UINT64_C(1) << 20) /* whose index is asked for */

static const char divider[3] = "\xf5\xf6\xf7";

static const char *const names[4][5] = {
    { NULL },
    { "model.ktensor", "mode1.index" },
    { "weights.npy", "mode1.npy", "mode2.npy", "mode3.npy", "mode1.index" },
    { "lambda.mat", "mode1.mat", "mode2.mat", "mode3.mat" },
};

/* Writes the files; a part that is not there is no file. */
static void put_all(const char *dir, int kind, const uint8_t *data, size_t size)
{
    for (int i = 0; i < 5 && names[kind][i] != NULL; i++) {
        char path[128];
        const uint8_t *end = data == NULL ? NULL : memmem(data, size, divider, sizeof divider);
        const size_t n = end == NULL ? size : (size_t)(end - data);
        snprintf(path, sizeof path, "%s/%s", dir, names[kind][i]);
        if (data == NULL) {
            MUST(unlink(path) == 0 || errno == ENOENT);
            continue;
        }
        fuzz_write(path, data, n);
        size -= end == NULL ? n : n + sizeof divider;
        data = end == NULL ? NULL : end + sizeof divider;
    }
}

/* A hash of all that is read, `step` rows at a time, and of the refusal. */
static uint64_t read_all(const char *path, uint64_t step)
{
    struct ts_model *m = NULL;
    struct ts_err err = { 0 };
    uint64_t hash = 1;
    double *rows;
    int rc = ts_model_open(path, &m, &err);
    if (rc < 0) {
        MUST(rc == TS_EFORMAT || rc == TS_EIO);
        MUST(err.code == rc && err.text[0] != '\0');
        return 0;
    }
    MUST(m->order >= 1 && m->order <= TS_MAX_ORDER && m->rank >= 1 && m->rank <= TS_MAX_RANK);
    for (uint32_t r = 0; r < m->rank; r++)
        MUST(isfinite(m->weight[r]));
    rows = malloc(step * m->rank * sizeof *rows); /* of the very size: reading on is found out */
    for (uint32_t k = 0; k < m->order && rc == 0; k++) {
        uint64_t *index = NULL;
        MUST(m->n_rows[k] >= 1 && m->n_rows[k] <= TS_MAX_DIM);
        if (m->n_rows[k] <= MOST_ROWS && ts_model_index(m, k, &index, &err) == 0 && index != NULL)
            for (uint64_t i = 1; i < m->n_rows[k]; i++)
                MUST(index[i] > index[i - 1] && index[i] < TS_MAX_DIM);
        free(index);
        for (uint64_t row = 0; row < m->n_rows[k] && rc == 0; row += step) {
            const uint64_t n = m->n_rows[k] - row < step ? m->n_rows[k] - row : step;
            rc = ts_model_rows(m, k, n, rows, &err);
            for (uint64_t i = 0; i < n * m->rank && rc == 0; i++) {
                uint64_t bits;
                MUST(isfinite(rows[i]));
                memcpy(&bits, &rows[i], sizeof bits);
                hash = (hash ^ bits) * UINT64_C(0x100000001b3);
            }
        }
    }
    if (rc < 0) {
        MUST((rc == TS_EFORMAT || rc == TS_EIO) && err.text[0] != '\0');
        hash = 0;
    }
    free(rows);
    ts_model_close(m);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char file[96];
    int kind;
    if (size < 1 || size > 1 << 16)
        return 0;
    fuzz_folder();
    for (int k = 1; k < 4; k++)
        put_all(fuzz_dir, k, NULL, 0);
    kind = data[0] & 3;
    snprintf(file, sizeof file, "%s%s", fuzz_dir, kind == 0 ? "/file" : "");
    if (kind == 0)
        fuzz_write(file, data + 1, size - 1);
    else
        put_all(fuzz_dir, kind, data + 1, size - 1);
    MUST(read_all(file, 1) == read_all(file, 64));
    return 0;
}
