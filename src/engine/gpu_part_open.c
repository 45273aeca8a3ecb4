/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds libtstream-cuda.so, checks it, and opens it. */
#include "config.h"

#include "engine/gpu_part_open.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/trusted.h"
#include "engine/gpu_part_file.h"
#include "gpu/module/gpu_abi.h"
#include "gpu/module/gpu_note.h"

#define FILE_NAME    "libtstream-cuda.so"
#define WHEEL_FOLDER "_native" /* in the Python package tstream: the directory of libtstream */

static const struct ts_gpu_calls calls = {
#define GIVE(type, name, params, args) .name = name,
#define DO(name, params, args)         .name = name,
#include "gpu/module/gpu_calls.def"
#undef GIVE
#undef DO
};

static const struct ts_gpu_note wanted = TS_GPU_NOTE_FILL(PACKAGE_VERSION, TS_GPU_ABI);

/* ---- finding the file of the GPU part ---- */

/* Returns the path of the file that contains this code; the caller frees it. NULL if the kernel
 * does not provide it. dladdr is not used, because in a program it returns argv[0]. */
static char *own_file(void)
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
            line[strcspn(line, "\n")] = '\0';
            ret = strdup(path);
        }
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return ret;
}

/* Returns the directory of a file; the caller frees it. */
static char *folder_of(const char *file)
{
    char *ret = file == NULL ? NULL : strdup(file), *end = ret == NULL ? NULL : strrchr(ret, '/');
    if (end != NULL)
        end[end == ret] = '\0'; /* the directory of "/x" is "/" */
    return ret;
}

static int is_in_wheel(const char *folder)
{
    const char *name = strrchr(folder, '/');
    return name != NULL && strcmp(name + 1, WHEEL_FOLDER) == 0;
}

/* Returns whether the path FOLDER/BELOW exists. If so, *ret is that path, which the caller
 * frees. */
static int is_there(const char *folder, const char *below, char **ret)
{
    if (folder == NULL || asprintf(ret, "%s/%s", folder, below) < 0)
        return 0;
    if (access(*ret, F_OK) == 0)
        return 1;
    free(*ret);
    return 0;
}

/* Returns the path of the first file of the GPU part that is found, which the caller frees. NULL:
 * there is none. */
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

/* Returns the path of NCCL in its own package, next to the package of the GPU part. NULL: it does
 * not exist, or other users can write there. */
static const char *find_nccl(const char *path)
{
    char *folder = folder_of(path), *file, *ret = NULL;
    if (is_there(folder, "../nvidia/nccl/lib/libnccl.so.2", &file)) {
        (void)ts_trusted_path(file, path, &ret, NULL);
        free(file);
    }
    free(folder);
    return ret;
}

/* ---- loading the file of the GPU part ---- */

/* Loads the file and gets its table of functions. `path` has no links, and other users cannot write
 * there. */
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
    char *self = own_file(), *own = folder_of(self), *path = find(own), *real = NULL;
    struct ts_err err;
    int rc = 0;
    if (path == NULL) {
        ts_fail(why, TS_ECUDA, "the GPU part of tstream is not installed: %s",
                own != NULL && is_in_wheel(own)
                    ? "pip install 'tstream[" GPU_EXTRA "]'"
                    : "install the package tstream-cuda, or build tstream with CUDA");
    } else {
        rc = ts_trusted_path(path, self, &real, &err);
        if (rc < 0)
            ts_fail(why, rc, "the GPU part is not used, because %s", err.text);
        if (rc == 0)
            rc = ts_gpu_part_file_check(real, &wanted, why);
        if (rc == 0)
            rc = load(real, ret, why);
    }
    free(self);
    free(own);
    free(real);
    rc = path == NULL ? 0 : rc < 0 ? -1 : 1;
    free(path);
    return rc;
}
