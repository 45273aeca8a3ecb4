/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_file.h - checks the file of the GPU part (all code for CUDA devices, as a shared object)
 * before its code is loaded.
 *
 * Loading a truncated or damaged file may end the process. So everything that would be loaded is
 * read and compared with the hash in the file's ELF note (struct ts_gpu_note). The hash covers the
 * headers of segments and the loaded segments, so symbols and debug information may be stripped
 * from a file after its hash was written. The fields of the ELF header that locate sections count
 * as zeros, and so does the hash.
 *
 *   format   XXH3-64 of program headers and loaded segments, in the order of the file
 *   threads  any thread
 *   errors   0; TS_EIO if the file cannot be read; TS_EFORMAT and TS_EARG with a message about the
 *            fault
 */
#ifndef TS_ENGINE_GPU_PART_FILE_H
#define TS_ENGINE_GPU_PART_FILE_H

#include "base/err.h"
#include "gpu/module/gpu_note.h"

/* Checks that the file is a complete GPU part, and that its ELF note equals `wanted`, so that its
 * version fits. */
int ts_gpu_part_file_check(const char *path, const struct ts_gpu_note *wanted, struct ts_err *err);

/* Writes the hash of a linked file into its note. */
int ts_gpu_part_file_seal(const char *path, struct ts_err *err);

#endif
