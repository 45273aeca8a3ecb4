/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_part_file.h - the file of the GPU part, before any of its code is loaded.
 *
 * To load a file that is cut short or damaged may end the process, so all that would be loaded is
 * read and compared with the hash in the note (gpu/module/gpu_note.h). The hash is of the headers
 * of segments and of the segments that are loaded, so symbols and debug information may be stripped
 * from a sealed file. Fields of the ELF header that say where sections are count as zeros, and so
 * does the hash.
 *
 *   format   XXH3-64 of program headers and loaded segments, in the order of the file
 *   threads  any
 *   errors   0; TS_EIO where the file cannot be read; TS_EFORMAT and TS_EARG with the sentence that
 *            names what is wrong with it
 */
#ifndef TS_ENGINE_GPU_PART_FILE_H
#define TS_ENGINE_GPU_PART_FILE_H

#include "base/err.h"
#include "gpu/module/gpu_note.h"

/* Whether it is a whole GPU part with the note `wanted`. */
int ts_gpu_part_file_check(const char *path, const struct ts_gpu_note *wanted, struct ts_err *err);

/* Writes the hash into the note of a file that was linked. */
int ts_gpu_part_file_seal(const char *path, struct ts_err *err);

#endif
