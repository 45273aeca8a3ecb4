/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_note.h - the note in libtstream-cuda.so, the shared object with the GPU part.
 *
 * The program and the shared object share structs of internal headers. So both must have the same
 * version, the same hash of these headers (gpu_abi.h, written by make), and structs of the same
 * sizes. A note in the file of the shared object has these values, and is read before any code is
 * loaded. The note also has a hash of all loaded bytes of the file, by which a damaged file is
 * recognized (engine/gpu_part_file.h); make writes it after linking. The shared object exports one
 * function, which is called after these checks.
 *
 *   format   an ELF note of the owner "tstream"
 */
#ifndef TS_GPU_GPU_NOTE_H
#define TS_GPU_GPU_NOTE_H

#include <stdint.h>

#include "gpu/module/gpu_calls.h"
#include "gpu/team/gpu_part.h"

#define TS_GPU_NOTE_OWNER "tstream"
#define TS_GPU_NOTE_TYPE  1u
#define TS_GPU_NOTE_CHARS 48u

/* The versions and sizes that must be the same in the program and in the shared object. */
struct ts_gpu_note {
    char version[TS_GPU_NOTE_CHARS], abi[TS_GPU_NOTE_CHARS];
    uint32_t bytes[8]; /* sizes of structs that the program and the shared object share */
};

#define TS_GPU_NOTE_FILL(version_, abi_)                                            \
    {                                                                               \
        .version = version_, .abi = abi_,                                           \
        .bytes = { sizeof(struct ts_backend),       sizeof(struct ts_backend_conf), \
                   sizeof(struct ts_backend_times), sizeof(struct ts_tensor),       \
                   sizeof(struct ts_request),       sizeof(struct ts_err),          \
                   sizeof(struct ts_gpu_part),      sizeof(struct ts_gpu_calls) },  \
    }

/* The note in the format of an ELF file. */
struct ts_gpu_note_section {
    uint32_t owner_bytes, note_bytes, type;
    char owner[sizeof TS_GPU_NOTE_OWNER];
    struct ts_gpu_note note;
    uint32_t loaded[2]; /* a hash of the loaded bytes of the shared object, lower half first */
};

_Static_assert(sizeof TS_GPU_NOTE_OWNER % 4 == 0, "notes begin at multiples of 4");

/* Puts the note into a shared object. The assembler makes an ELF note of a section whose name
 * begins with ".note". */
#define TS_GPU_NOTE_SECTION(version_, abi_)                                                  \
    __attribute__((section(".note.tstream"), used,                                           \
                   aligned(4))) static const struct ts_gpu_note_section ts_gpu_note_here = { \
        .owner_bytes = sizeof TS_GPU_NOTE_OWNER,                                             \
        .note_bytes = sizeof(struct ts_gpu_note) + 8,                                        \
        .type = TS_GPU_NOTE_TYPE,                                                            \
        .owner = TS_GPU_NOTE_OWNER,                                                          \
        .note = TS_GPU_NOTE_FILL(version_, abi_),                                            \
    }

/* The only function that the shared object exports. `calls` must stay valid. */
#define TS_GPU_MODULE_FUNCTION "ts_gpu_module_open"
const struct ts_gpu_part *ts_gpu_module_open(const struct ts_gpu_calls *calls);

#endif
