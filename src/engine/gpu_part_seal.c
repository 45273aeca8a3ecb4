/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_seal FILE - computes the hash of the loaded bytes of a linked libtstream-cuda.so, and
 * writes it into the file (gpu_part_file.h). The build runs this program; it is not installed. */
#include <stdio.h>

#include "engine/gpu_part_file.h"

int main(int argc, char **argv)
{
    struct ts_err err;
    if (argc != 2) {
        fputs("usage: gpu_part_seal FILE\n", stderr);
        return 2;
    }
    if (ts_gpu_part_file_seal(argv[1], &err) == 0)
        return 0;
    fprintf(stderr, "gpu_part_seal: %s\n", err.text);
    return 1;
}
