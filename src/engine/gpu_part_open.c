/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds libtstream-cuda.so, checks it, and opens it. */
#include "config.h"

#include "engine/gpu_part_open.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/trusted.h"
#include "gpu/module/gpu_abi.h"
#include "gpu/module/gpu_note.h"

#define FILE_NAME       "libtstream-cuda.so"
#define WHEEL_FOLDER    "_native" /* of the package tstream, where its libtstream is */
#define MOST_NOTE_BYTES 4096u

static const struct ts_gpu_calls calls = {
#define GIVE(type, name, params, args) .name = name,
#define DO(name, params, args)         .name = name,
#include "gpu/module/gpu_calls.def"
#undef GIVE
#undef DO
};

static const struct ts_gpu_note wanted = TS_GPU_NOTE_FILL(PACKAGE_VERSION, TS_GPU_ABI);

/* ---- where it may be ---- */

/* The folder of the file that this code is in, for the caller to free; NULL: the kernel does not
 * say. Unlike dladdr, which repeats the first argument of a program, it says the true one. */
static char *own_folder(void)
{
    const uintptr_t here = (uintptr_t)&wanted;
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL, *ret = NULL;
    size_t room = 0;
    while (maps != NULL && ret == NULL && getline(&line, &room, maps) > 0) {
        uintptr_t first, last;
        const char *path = strchr(line, '/');
        if (path != NULL && sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &last) == 2 &&
            first <= here && here < last) {
            *strrchr(line, '/') = '\0';
            ret = strdup(*path == '\0' ? "/" : path);
        }
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return ret;
}

static int is_in_wheel(const char *folder)
{
    const char *name = strrchr(folder, '/');
    return name != NULL && strcmp(name + 1, WHEEL_FOLDER) == 0;
}

/* Whether FOLDER/BELOW is there; then *ret is its path, for the caller to free. */
static int is_there(const char *folder, const char *below, char **ret)
{
    if (folder == NULL || asprintf(ret, "%s/%s", folder, below) < 0)
        return 0;
    if (access(*ret, F_OK) == 0)
        return 1;
    free(*ret);
    return 0;
}

/* The path of the first that is there, for the caller to free. NULL: it is in no place. */
static char *find(const char *own)
{
    char *ret = NULL;
    if (is_there(own, FILE_NAME, &ret) ||
        (own != NULL && is_in_wheel(own) &&
         is_there(own, "../../" GPU_PYTHON "/" FILE_NAME, &ret)) ||
        is_there(TS_GPU_MODULE_DIR, FILE_NAME, &ret))
        return ret;
    return NULL;
}

/* NCCL of its own package, beside that of the GPU part; NULL: it is not there, or others may write
 * there. */
static const char *find_nccl(const char *path)
{
    char *folder = strdup(path), *file, *ret = NULL;
    if (folder == NULL)
        return NULL;
    *strrchr(folder, '/') = '\0';
    if (is_there(folder, "../nvidia/nccl/lib/libnccl.so.2", &file)) {
        (void)ts_trusted_path(file, &ret, NULL);
        free(file);
    }
    free(folder);
    return ret;
}

/* ---- what the file says of itself ---- */

static int is_ours(const struct ts_gpu_note_section *n)
{
    return n->owner_bytes == sizeof n->owner && n->type == TS_GPU_NOTE_TYPE &&
           memcmp(n->owner, TS_GPU_NOTE_OWNER, sizeof n->owner) == 0 &&
           memchr(n->note.version, '\0', sizeof n->note.version) != NULL &&
           memchr(n->note.abi, '\0', sizeof n->note.abi) != NULL;
}

/* Looks for our note among n bytes of notes: whether it is there. */
static int find_note(const unsigned char *at, size_t n, struct ts_gpu_note *ret)
{
    uint32_t head[3];
    while (n >= sizeof head) {
        struct ts_gpu_note_section section;
        uint64_t bytes;
        memcpy(head, at, sizeof head);
        bytes = sizeof head + (((uint64_t)head[0] + 3) & ~UINT64_C(3)) +
                (((uint64_t)head[1] + 3) & ~UINT64_C(3));
        if (n >= sizeof section) {
            memcpy(&section, at, sizeof section);
            if (is_ours(&section)) {
                *ret = section.note;
                return 1;
            }
        }
        if (bytes > n)
            break;
        at += bytes;
        n -= bytes;
    }
    return 0;
}

/* Reads the note. Fails if it is none of our files, or if a part of what is to be loaded is
 * missing: to load that would end the process. */
static int read_note(int fd, const char *path, struct ts_gpu_note *ret, struct ts_err *err)
{
    unsigned char notes[MOST_NOTE_BYTES];
    struct stat st;
    ElfW(Ehdr) head;
    int found = 0, whole = 1;
    if (fstat(fd, &st) < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    if (pread(fd, &head, sizeof head, 0) != sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        head.e_phentsize != sizeof(ElfW(Phdr)))
        return ts_fail(err, TS_EFORMAT, "%s is no GPU part of tstream", path);
    for (uint32_t i = 0; i < head.e_phnum && whole; i++) {
        ElfW(Phdr) part;
        const off_t at = (off_t)(head.e_phoff + i * sizeof part);
        whole = pread(fd, &part, sizeof part, at) == sizeof part;
        if (whole && part.p_type == PT_LOAD)
            whole = part.p_offset <= (uint64_t)st.st_size &&
                    part.p_filesz <= (uint64_t)st.st_size - part.p_offset;
        if (whole && part.p_type == PT_NOTE && !found) {
            const size_t n = part.p_filesz < sizeof notes ? part.p_filesz : sizeof notes;
            whole = pread(fd, notes, n, (off_t)part.p_offset) == (ssize_t)n;
            found = whole && find_note(notes, n, ret);
        }
    }
    if (!whole)
        return ts_fail(err, TS_EFORMAT, "%s is cut short: install it again", path);
    return found ? 0 : ts_fail(err, TS_EFORMAT, "%s is no GPU part of tstream", path);
}

static int check_note(const char *path, struct ts_err *err)
{
    struct ts_gpu_note note;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe has no writer */
    int rc;
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    rc = read_note(fd, path, &note, err);
    close(fd);
    if (rc == 0 && memcmp(&note, &wanted, sizeof note) != 0)
        rc = ts_fail(err, TS_EARG,
                     "the GPU part in %s is of tstream %s (%s), and this is tstream %s (%s): pip "
                     "install " GPU_PACKAGE "==%s, or install both from one build",
                     path, note.version, note.abi, wanted.version, wanted.abi, wanted.version);
    return rc;
}

/* ---- opening it ---- */

/* `path` has no links, and nobody else can write there. */
static int load(const char *path, const struct ts_gpu_part **ret, struct ts_err *err)
{
    static struct ts_gpu_calls given;
    const struct ts_gpu_part *(*open_part)(const struct ts_gpu_calls *);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return ts_fail(err, TS_EFORMAT, "the GPU part cannot be loaded: %s", dlerror());
    *(void **)&open_part = dlsym(module, TS_GPU_MODULE_FUNCTION);
    if (open_part == NULL) {
        dlclose(module);
        return ts_fail(err, TS_EFORMAT, "%s lacks the function " TS_GPU_MODULE_FUNCTION, path);
    }
    given = calls;
    given.nccl = find_nccl(path);
    *ret = open_part(&given);
    return 0;
}

int ts_gpu_part_open(const struct ts_gpu_part **ret, struct ts_err *why)
{
    char *own = own_folder(), *path = find(own), *real = NULL;
    struct ts_err err;
    int rc = 0;
    if (path == NULL) {
        ts_fail(why, TS_ECUDA, "the GPU part of tstream is not installed: %s",
                own != NULL && is_in_wheel(own)
                    ? "pip install 'tstream[" GPU_EXTRA "]'"
                    : "install the package tstream-cuda, or build tstream with CUDA");
    } else {
        rc = ts_trusted_path(path, &real, &err);
        if (rc < 0)
            ts_fail(why, rc, "the GPU part is not used, because %s", err.text);
        if (rc == 0)
            rc = check_note(real, why);
        if (rc == 0)
            rc = load(real, ret, why);
    }
    free(own);
    free(real);
    rc = path == NULL ? 0 : rc < 0 ? -1 : 1;
    free(path);
    return rc;
}
