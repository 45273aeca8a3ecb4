/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the ELF headers, the note and the loaded segments of the shared object with the GPU part,
 * in the layout of <elf.h>. */
#include "config.h"

#include "engine/gpu_part_file.h"

#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/files/fd.h"

#define MOST_NOTE_BYTES 4096u
#define PIECE_BYTES     ((size_t)1 << 20)

struct part_file {
    int fd;
    const char *path;
    ElfW(Ehdr) head;
    struct ts_gpu_note_section section;
    uint64_t loaded_at; /* file position of the hash, which is in the note */
    unsigned char *piece;
};

static int is_ours(const struct ts_gpu_note_section *n)
{
    return n->owner_bytes == sizeof n->owner && n->type == TS_GPU_NOTE_TYPE &&
           n->note_bytes == sizeof n->note + sizeof n->loaded &&
           memcmp(n->owner, TS_GPU_NOTE_OWNER, sizeof n->owner) == 0 &&
           memchr(n->note.version, '\0', sizeof n->note.version) != NULL &&
           memchr(n->note.abi, '\0', sizeof n->note.abi) != NULL;
}

/* Searches the note of a GPU part in n bytes of ELF notes, which begin at byte `there` of the file.
 * Returns whether it was found. */
static int find_note(struct part_file *f, const unsigned char *notes, size_t n, uint64_t there)
{
    uint32_t head[3];
    for (size_t at = 0; n - at >= sizeof head;) {
        uint64_t bytes;
        memcpy(head, notes + at, sizeof head);
        bytes = sizeof head + (((uint64_t)head[0] + 3) & ~UINT64_C(3)) +
                (((uint64_t)head[1] + 3) & ~UINT64_C(3));
        if (n - at >= sizeof f->section) {
            memcpy(&f->section, notes + at, sizeof f->section);
            if (is_ours(&f->section)) {
                f->loaded_at = there + at + offsetof(struct ts_gpu_note_section, loaded);
                return 1;
            }
        }
        if (bytes > n - at)
            break;
        at += bytes;
    }
    return 0;
}

static int is_elf(const struct part_file *f)
{
    return memcmp(f->head.e_ident, ELFMAG, SELFMAG) == 0 &&
           f->head.e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
           f->head.e_phentsize == sizeof(ElfW(Phdr));
}

static int read_segment(const struct part_file *f, uint32_t i, ElfW(Phdr) * ret)
{
    const off_t at = (off_t)(f->head.e_phoff + i * sizeof *ret);
    return pread(f->fd, ret, sizeof *ret, at) == sizeof *ret;
}

/* Reads ELF headers and note. Fails if the file is not a GPU part of tstream, or if a segment that
 * would be loaded is missing. */
static int read_note(struct part_file *f, struct ts_err *err)
{
    unsigned char notes[MOST_NOTE_BYTES];
    struct stat st;
    int found = 0, whole = 1;
    if (fstat(f->fd, &st) < 0)
        return ts_fail_errno(err, TS_EIO, "%s", f->path);
    if (pread(f->fd, &f->head, sizeof f->head, 0) != sizeof f->head || !is_elf(f))
        return ts_fail(err, TS_EFORMAT, "%s is no GPU part of tstream", f->path);
    for (uint32_t i = 0; i < f->head.e_phnum && whole; i++) {
        ElfW(Phdr) part;
        whole = read_segment(f, i, &part);
        if (whole && part.p_type == PT_LOAD)
            whole = part.p_offset <= (uint64_t)st.st_size &&
                    part.p_filesz <= (uint64_t)st.st_size - part.p_offset;
        if (whole && part.p_type == PT_NOTE && !found) {
            const size_t n = part.p_filesz < sizeof notes ? part.p_filesz : sizeof notes;
            whole = pread(f->fd, notes, n, (off_t)part.p_offset) == (ssize_t)n;
            found = whole && find_note(f, notes, n, part.p_offset);
        }
    }
    if (!whole)
        return ts_fail(err, TS_EFORMAT, "%s is cut short: install it again", f->path);
    return found ? 0 : ts_fail(err, TS_EFORMAT, "%s is no GPU part of tstream", f->path);
}

/* Sets `bytes` bytes of a file, from byte `first` on, to zero in a piece of it. The piece has n
 * bytes and begins at byte `at` of the file. */
static void clear(unsigned char *piece, uint64_t at, uint64_t n, uint64_t first, uint64_t bytes)
{
    for (uint64_t i = first > at ? first : at; i < first + bytes && i < at + n; i++)
        piece[i - at] = 0;
}

static int hash_bytes(struct part_file *f, XXH3_state_t *hash, uint64_t at, uint64_t bytes)
{
    while (bytes > 0) {
        const size_t n = bytes < PIECE_BYTES ? (size_t)bytes : PIECE_BYTES;
        if (pread(f->fd, f->piece, n, (off_t)at) != (ssize_t)n)
            return 0;
#define CLEAR(field) clear(f->piece, at, n, offsetof(ElfW(Ehdr), field), sizeof f->head.field)
        CLEAR(e_shoff);
        CLEAR(e_shentsize);
        CLEAR(e_shnum);
        CLEAR(e_shstrndx);
#undef CLEAR
        clear(f->piece, at, n, f->loaded_at, sizeof f->section.loaded);
        XXH3_64bits_update(hash, f->piece, n);
        at += n;
        bytes -= n;
    }
    return 1;
}

static int hash_loaded(struct part_file *f, uint64_t *ret, struct ts_err *err)
{
    XXH3_state_t *hash = XXH3_createState();
    int whole = 1;
    f->piece = malloc(PIECE_BYTES);
    if (hash == NULL || f->piece == NULL) {
        XXH3_freeState(hash);
        free(f->piece);
        return ts_no_memory(err, f->path);
    }
    XXH3_64bits_reset(hash);
    for (uint32_t i = 0; i < f->head.e_phnum && whole; i++) {
        ElfW(Phdr) part;
        whole = read_segment(f, i, &part);
        XXH3_64bits_update(hash, &part, whole ? sizeof part : 0);
        if (whole && part.p_type == PT_LOAD)
            whole = hash_bytes(f, hash, part.p_offset, part.p_filesz);
    }
    *ret = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    free(f->piece);
    return whole ? 0 : ts_fail(err, TS_EIO, "%s cannot be read to its end", f->path);
}

static int check_open(struct part_file *f, const struct ts_gpu_note *wanted, struct ts_err *err)
{
    const struct ts_gpu_note *note = &f->section.note;
    uint64_t hash = 0;
    int rc = read_note(f, err);
    if (rc == 0 && memcmp(note, wanted, sizeof *note) != 0)
        rc = ts_fail(err, TS_EARG,
                     "the GPU part in %s is of tstream %s (%s), and this is tstream %s (%s): pip "
                     "install " GPU_PACKAGE "==%s, or install both from one build",
                     f->path, note->version, note->abi, wanted->version, wanted->abi,
                     wanted->version);
    if (rc == 0)
        rc = hash_loaded(f, &hash, err);
    if (rc == 0 && hash != (f->section.loaded[0] | (uint64_t)f->section.loaded[1] << 32))
        rc = ts_fail(err, TS_EFORMAT,
                     "%s is damaged, or was changed after it was made: install it again", f->path);
    return rc;
}

int ts_gpu_part_file_check(const char *path, const struct ts_gpu_note *wanted, struct ts_err *err)
{
    struct part_file f = { .path = path };
    int rc;
    /* O_NONBLOCK: a pipe may have no writer */
    f.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f.fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    rc = check_open(&f, wanted, err);
    close(f.fd);
    return rc;
}

int ts_gpu_part_file_seal(const char *path, struct ts_err *err)
{
    struct part_file f = { .path = path };
    uint64_t hash = 0;
    int rc;
    f.fd = open(path, O_RDWR | O_CLOEXEC);
    if (f.fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    rc = read_note(&f, err);
    if (rc == 0)
        rc = hash_loaded(&f, &hash, err);
    if (rc == 0) {
        const uint32_t half[2] = { (uint32_t)hash, (uint32_t)(hash >> 32) };
        if (ts_fd_write(f.fd, half, sizeof half, f.loaded_at) < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s", path);
    }
    if (close(f.fd) < 0 && rc == 0)
        rc = ts_fail_errno(err, TS_EIO, "%s", path);
    return rc;
}
