/* SPDX-License-Identifier: BSD-3-Clause */
/* write_npy KIND NOISE FILE.npy FILE.tns SIZE... - writes an array of rank 3 and noise of this size
 * as a file of NumPy and, where its name is not "-", as text of nonzeros. KIND: f4 or f8, then C or
 * F for the order of cells, and ":SHARE" where so many of them are unknown, in slice 0 of the first
 * mode more than half: NaN in the array, and not listed in the text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define MOST 8

static int is_unknown(const uint64_t *index, uint64_t number, double share)
{
    return share > 0 && ts_unit(ts_mix(number + 12345)) < (index[0] == 0 ? 0.75 : share);
}

static double cell(uint32_t n, const uint64_t *index, uint64_t number, double noise)
{
    double sum = noise * (ts_unit(ts_mix(number + 99)) - 0.5);
    for (uint32_t r = 0; r < 3; r++) {
        double p = 1;
        for (uint32_t m = 0; m < n; m++)
            p *= 0.2 + ts_init_entry(5, m, index[m], r);
        sum += p;
    }
    return sum;
}

int main(int argc, char **argv)
{
    const uint32_t n = (uint32_t)(argc - 5);
    uint64_t dim[MOST] = { 0 }, cells = 1;
    char text[256] = "", head[10] = "\x93NUMPY\x01";
    FILE *npy, *tns = NULL;
    int wide, fortran;
    double noise, share = 0;
    if (argc < 7 || argc > 5 + MOST || strlen(argv[1]) < 3)
        return 2;
    if (argv[1][3] == ':')
        share = strtod(argv[1] + 4, NULL);
    wide = argv[1][1] == '8';
    fortran = argv[1][2] == 'F';
    noise = strtod(argv[2], NULL);
    for (uint32_t m = 0; m < n; m++) {
        const size_t end = strlen(text);
        dim[m] = strtoull(argv[5 + m], NULL, 10);
        cells *= dim[m];
        snprintf(text + end, sizeof text - end, "%" PRIu64 ", ", dim[m]);
    }
    npy = fopen(argv[3], "wb");
    tns = strcmp(argv[4], "-") == 0 ? NULL : fopen(argv[4], "w");
    if (npy == NULL || (tns == NULL && strcmp(argv[4], "-") != 0))
        return 1;
    {
        char line[400];
        const int k =
            snprintf(line, sizeof line, "{'descr': '<f%c', 'fortran_order': %s, 'shape': (%s), }\n",
                     argv[1][1], fortran ? "True" : "False", text);
        head[8] = (char)k;
        fwrite(head, 1, sizeof head, npy);
        fwrite(line, 1, (size_t)k, npy);
    }
    for (uint64_t i = 0; i < cells; i++) {
        uint64_t index[MOST], rest = i, number = 0;
        double x;
        float y;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t m = fortran ? k : n - 1 - k;
            index[m] = rest % dim[m];
            rest /= dim[m];
        }
        for (uint32_t m = 0; m < n; m++)
            number = number * dim[m] + index[m];
        x = is_unknown(index, number, share) ? (double)NAN : cell(n, index, number, noise);
        y = (float)x;
        if (wide)
            fwrite(&x, sizeof x, 1, npy);
        else
            fwrite(&y, sizeof y, 1, npy);
        if (tns == NULL || isnan(x))
            continue;
        for (uint32_t m = 0; m < n; m++)
            fprintf(tns, "%" PRIu64 " ", index[m] + 1);
        fprintf(tns, "%.17g\n", wide ? x : (double)y);
    }
    return fclose(npy) != 0 || (tns != NULL && fclose(tns) != 0);
}
