/* SPDX-License-Identifier: BSD-3-Clause */
/* write_binary splatt|genten INDEX_BYTES VALUE_BYTES little|big ORDER < x.tns > x.bin
 *
 * Lines of indices from 1 and a value, as a binary file; sizes are the largest indices. For tests
 * of the programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/source/binary_file.h"

int main(int argc, char **argv)
{
    struct binary_file f = { 0 };
    uint64_t room = 0, *index = NULL;
    double *value = NULL, x;
    unsigned long long number;
    unsigned char *bytes;
    size_t n;
    if (argc != 6)
        return 2;
    f.genten = strcmp(argv[1], "genten") == 0;
    f.value_bytes = (uint32_t)atoi(argv[3]);
    f.big_endian = strcmp(argv[4], "big") == 0;
    f.order = (uint32_t)atoi(argv[5]);
    if (f.order > BINARY_MAX_ORDER)
        return 2;
    for (uint32_t m = 0; m < f.order; m++)
        f.index_bytes[m] = (uint32_t)atoi(argv[2]);
    while (scanf("%llu", &number) == 1) {
        if (f.n == room) {
            room = 2 * room + 1024;
            index = realloc(index, room * f.order * sizeof *index);
            value = realloc(value, room * sizeof *value);
            if (index == NULL || value == NULL)
                return 1;
        }
        for (uint32_t m = 0; m < f.order; m++) {
            if (m > 0 && scanf("%llu", &number) != 1)
                return 1;
            index[f.n * f.order + m] = number - 1;
            f.dim[m] = number > f.dim[m] ? number : f.dim[m];
        }
        if (scanf("%lf", &x) != 1)
            return 1;
        value[f.n++] = x;
    }
    f.index = index;
    f.value = value;
    bytes = binary_file_put(&f, &n);
    free(index);
    free(value);
    if (fwrite(bytes, 1, n, stdout) != n || fflush(stdout) != 0)
        return 1;
    free(bytes);
    return 0;
}
