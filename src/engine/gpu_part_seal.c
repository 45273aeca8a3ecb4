/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_seal FILE - writes into a linked libtstream-cuda.so the hash of what is loaded of it
 * (gpu_part_file.h). A step of the build, which is not installed. */
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
