/* SPDX-License-Identifier: BSD-3-Clause */
/* Recognises the files of a model, and the files and directories of several models. */
#include "model/model_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/files/written.h"
#include "format/layout.h"
#include "model/model_read.h"
#include "model/model_write.h"

#define PARTIAL       ".partial"
#define RECORD        "run.json"
#define RECORD_BEGINS TS_MODEL_RECORD_BEGINS

/* ---- files of one model ---- */

/* Whether a file begins like a table of numbers. A MATLAB .mat file, or other text of the user,
 * does not. */
static int is_numbers(int dir, const char *name)
{
    char head[64];
    const long n = ts_atomic_head(dir, name, head, sizeof head);
    for (long i = 0; i < n; i++)
        if (head[i] == '\0' || strchr("0123456789+-.enaif \n", head[i]) == NULL)
            return 0;
    return n >= 0;
}

static int begins(int dir, const char *name, const char *with)
{
    char head[32];
    const size_t n = strlen(with);
    return ts_atomic_head(dir, name, head, n) == (long)n && memcmp(head, with, n) == 0;
}

/* Returns the part after the number of a name such as "mode3.npy", or NULL. */
static const char *mode_ending(const char *name)
{
    char *end;
    if (strncmp(name, "mode", 4) != 0 || name[4] < '1' || name[4] > '9')
        return NULL;
    return strtoul(name + 4, &end, 10) > TS_MAX_ORDER ? NULL : end;
}

static int has_state(int dir)
{
    return faccessat(dir, "state", F_OK, 0) == 0 || faccessat(dir, "state.0", F_OK, 0) == 0 ||
           faccessat(dir, "state.1", F_OK, 0) == 0;
}

/* Recognises by their first bytes the files that a run keeps besides its factors: states, the
 * record of the run, and its status. While one of them is being replaced, the new file is
 * NAME.new. */
static enum ts_atomic_kind kind_of_record(int dir, const char *name, int whole)
{
    static const struct {
        const char *name, *begins;
        enum ts_atomic_kind unfinished;
    } file[] = { { "state", "TSHSTATE", TS_ATOMIC_STATE },
                 { "state.0", "TSHSTATE", TS_ATOMIC_STATE },
                 { "state.1", "TSHSTATE", TS_ATOMIC_STATE },
                 { RECORD, RECORD_BEGINS, TS_ATOMIC_OURS },
                 { TS_MODEL_HISTORY, RECORD_BEGINS, TS_ATOMIC_OURS },
                 { "status.json", "{", TS_ATOMIC_OURS } };
    for (uint32_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        const size_t n = strlen(file[i].name);
        char byte;
        if (strncmp(name, file[i].name, n) == 0 && strcmp(name + n, ".new") == 0)
            return !whole && ts_atomic_head(dir, name, &byte, 1) >= 0 ? TS_ATOMIC_OURS
                                                                      : TS_ATOMIC_FOREIGN;
        if (strcmp(name, file[i].name) != 0)
            continue;
        if (!begins(dir, name, file[i].begins))
            return !whole && ts_atomic_head(dir, name, &byte, 1) >= 0 ? TS_ATOMIC_OURS
                                                                      : TS_ATOMIC_FOREIGN;
        if (strcmp(name, RECORD) == 0 && !whole && has_state(dir))
            return TS_ATOMIC_STATE; /* the record of the run whose state is in this directory */
        return whole ? TS_ATOMIC_OURS : file[i].unfinished;
    }
    return TS_ATOMIC_FOREIGN;
}

/* Whether the directory has the record of a run, or an extended attribute that marks output of this
 * program. A model that a library caller saves has no record. On file systems without attributes,
 * names and first bytes must suffice. */
static int has_record(int dir)
{
    const int saved = errno;
    const int there = begins(dir, RECORD, RECORD_BEGINS) ||
                      begins(dir, TS_MODEL_HISTORY, RECORD_BEGINS) ||
                      ts_written_is_dir(dir) != TS_WRITTEN_OTHER;
    errno = saved;
    return there;
}

/* Returns the kind of a file of one model. In a result (whole), the contents of the file are
 * checked too, because a user may have files with the same names. */
static enum ts_atomic_kind kind_of_file(int dir, const char *name, int whole)
{
    const char *const ending = mode_ending(name);
    char byte;
    int ours, right;
    if (strncmp(name, "state", 5) == 0 || strncmp(name, "run.", 4) == 0 ||
        strncmp(name, "status.", 7) == 0 || strncmp(name, "history.", 8) == 0)
        return kind_of_record(dir, name, whole);
    if (strcmp(name, TS_MODEL_START ".new") == 0)
        return !whole && ts_atomic_head(dir, name, &byte, 1) >= 0 ? TS_ATOMIC_OURS
                                                                  : TS_ATOMIC_FOREIGN;
    if (strcmp(name, TS_MODEL_START) == 0 && !whole && has_state(dir))
        /* the starting factors of the run whose state is in this directory */
        return TS_ATOMIC_STATE;
    /* a labels file needs no other mark: no other program writes its first bytes */
    if (strcmp(name, TS_LABELS_FILE) == 0)
        return (whole ? begins(dir, name, TS_LABELS_FILE_MAGIC)
                      : ts_atomic_head(dir, name, &byte, 1) >= 0)
                   ? TS_ATOMIC_OURS
                   : TS_ATOMIC_FOREIGN;
    if (strcmp(name, "model.ktensor") == 0 || strcmp(name, TS_MODEL_START) == 0) {
        ours = 1;
        right = begins(dir, name, "ktensor");
    } else if (strcmp(name, "weights.npy") == 0 ||
               (ending != NULL && strcmp(ending, ".npy") == 0)) {
        ours = 1;
        right = begins(dir, name, "\x93NUMPY");
    } else {
        ours = strcmp(name, "lambda.mat") == 0 ||
               (ending != NULL && (strcmp(ending, ".mat") == 0 || strcmp(ending, ".index") == 0));
        right = is_numbers(dir, name);
    }
    /* Tensor Toolbox, NumPy and SPLATT write such files too. This program wrote them only if the
     * directory has the record of a run, or a mark. */
    if (ours && whole && right && !has_record(dir))
        return TS_ATOMIC_UNMARKED;
    right = whole ? right : ts_atomic_head(dir, name, &byte, 1) >= 0;
    return ours && right ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
}

/* ---- several models ---- */

void ts_models_name(uint32_t rank, uint64_t seed, char ret[TS_MODELS_NAME_CHARS])
{
    snprintf(ret, TS_MODELS_NAME_CHARS, "r%" PRIu32 ".s%" PRIu64, rank, seed);
}

void ts_models_fold_name(uint32_t rank, uint32_t fold, char ret[TS_MODELS_NAME_CHARS])
{
    snprintf(ret, TS_MODELS_NAME_CHARS, "r%" PRIu32 ".f%" PRIu32, rank, fold);
}

/* Returns the part of a name after "r8.s3" or "r8.f2". NULL: the name does not begin like this. */
static const char *after_name(const char *name)
{
    char *end, again[TS_MODELS_NAME_CHARS];
    unsigned long rank;
    uint64_t number;
    int fold;
    if (name[0] != 'r' || name[1] < '1' || name[1] > '9')
        return NULL;
    rank = strtoul(name + 1, &end, 10);
    fold = strncmp(end, ".f", 2) == 0;
    if (rank > TS_MAX_RANK || (!fold && strncmp(end, ".s", 2) != 0))
        return NULL;
    number = strtoull(end + 2, &end, 10);
    if (fold)
        ts_models_fold_name((uint32_t)rank, (uint32_t)number, again);
    else
        ts_models_name((uint32_t)rank, number, again);
    return strncmp(name, again, strlen(again)) == 0 && end == name + strlen(again) ? end : NULL;
}

static int is_name(const char *name)
{
    const char *end = after_name(name);
    return end != NULL && *end == '\0';
}

static int is_partial_name(const char *name)
{
    const char *end = after_name(name);
    return end != NULL && strcmp(end, PARTIAL) == 0;
}

/* Whether the name is "best.r8" or similar, a link to a model in the same directory. */
static int is_best(int dir, const char *name)
{
    char to[TS_MODELS_NAME_CHARS + 1];
    const ssize_t n = strncmp(name, "best.r", 6) == 0 ? readlinkat(dir, name, to, sizeof to) : -1;
    if (n <= 0 || (size_t)n >= sizeof to)
        return 0;
    to[n] = '\0';
    return is_name(to);
}

static DIR *open_names(int dir, const char *name)
{
    const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *names = fd < 0 ? NULL : fdopendir(fd);
    if (names == NULL && fd >= 0)
        close(fd);
    return names;
}

/* Returns the kind of a model's directory: TS_ATOMIC_OURS if this program wrote all files in it,
 * states included; otherwise the kind of the first other file. */
static enum ts_atomic_kind kind_inside(int dir, const char *name, int whole)
{
    DIR *names = open_names(dir, name);
    const struct dirent *e;
    enum ts_atomic_kind ret = names != NULL ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
    while (ret == TS_ATOMIC_OURS && (e = readdir(names)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            !(!whole && strcmp(e->d_name, TS_ATOMIC_LOCK) == 0)) {
            ret = kind_of_file(dirfd(names), e->d_name, whole);
            ret = ret == TS_ATOMIC_STATE ? TS_ATOMIC_OURS : ret;
        }
    if (names != NULL)
        closedir(names);
    return ret;
}

static int partial_has_state(int dir, const char *name)
{
    const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int there = fd >= 0 && has_state(fd);
    ts_fd_close(fd);
    return there;
}

/* Whether the directory has a finished model, or the state of one. */
static int has_models(int dir)
{
    DIR *names = open_names(dir, ".");
    const struct dirent *e;
    int there = 0;
    while (names != NULL && !there && (e = readdir(names)) != NULL)
        there =
            is_name(e->d_name) || (is_partial_name(e->d_name) && partial_has_state(dir, e->d_name));
    if (names != NULL)
        closedir(names);
    return there;
}

/* Returns the kind of a file that belongs to all models of a directory. */
static enum ts_atomic_kind kind_of_common(int dir, const char *name, int whole)
{
    const int is_run = strcmp(name, TS_MODELS_RUN) == 0;
    char byte;
    const int right = is_run ? begins(dir, name, TS_MODELS_MAGIC)
                      : strcmp(name, TS_MODELS_JSON) == 0
                          ? begins(dir, name, "{\"program\":\"tstream\"")
                          : begins(dir, name, "model\trank\t");
    if (whole || ts_atomic_head(dir, name, &byte, 1) < 0)
        return whole && right ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
    return is_run && right && has_models(dir) ? TS_ATOMIC_STATE : TS_ATOMIC_OURS;
}

enum ts_atomic_kind ts_model_kind_of(int dir, const char *name, int whole)
{
    enum ts_atomic_kind inside;
    char byte;
    if (strcmp(name, TS_MODELS_RUN) == 0 || strcmp(name, TS_MODELS_JSON) == 0 ||
        strcmp(name, TS_MODELS_TSV) == 0)
        return kind_of_common(dir, name, whole);
    if (strcmp(name, "status.json") == 0 && !whole && has_models(dir) &&
        ts_atomic_head(dir, TS_MODELS_RUN, &byte, 1) > 0)
        return TS_ATOMIC_STATE; /* the status of the models in this directory */
    if (strcmp(name, TS_MODELS_RUN ".new") == 0 || strcmp(name, TS_MODELS_JSON ".new") == 0 ||
        strcmp(name, TS_MODELS_TSV ".new") == 0)
        return whole ? TS_ATOMIC_FOREIGN : TS_ATOMIC_OURS;
    if (strncmp(name, "best.", 5) == 0)
        return is_best(dir, name) ? TS_ATOMIC_OURS : TS_ATOMIC_FOREIGN;
    inside = is_name(name) ? kind_inside(dir, name, 1) : TS_ATOMIC_FOREIGN;
    if (inside == TS_ATOMIC_OURS)
        return whole ? TS_ATOMIC_OURS : TS_ATOMIC_STATE;
    if (inside == TS_ATOMIC_UNMARKED)
        return inside;
    if (is_partial_name(name) && !whole && kind_inside(dir, name, 0) == TS_ATOMIC_OURS)
        return partial_has_state(dir, name) ? TS_ATOMIC_STATE : TS_ATOMIC_OURS;
    return kind_of_file(dir, name, whole);
}

/* ---- whether a new file would become part of a model ---- */

static int is_part_name(const char *name)
{
    static const char *const part[] = { "state",        "state.0",        "state.1",
                                        RECORD,         TS_MODEL_HISTORY, "status.json",
                                        TS_MODEL_START, TS_LABELS_FILE,   "model.ktensor",
                                        "weights.npy",  "lambda.mat",     TS_MODELS_RUN,
                                        TS_MODELS_JSON, TS_MODELS_TSV };
    const char *const ending = mode_ending(name);
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        if (strcmp(name, part[i]) == 0)
            return 1;
    if (strncmp(name, "best.r", 6) == 0 || after_name(name) != NULL)
        return 1;
    return ending != NULL && (strcmp(ending, ".npy") == 0 || strcmp(ending, ".mat") == 0 ||
                              strcmp(ending, ".index") == 0);
}

static int holds_model(int dir)
{
    DIR *names = open_names(dir, ".");
    const struct dirent *e;
    int there = 0;
    while (names != NULL && !there && (e = readdir(names)) != NULL) {
        const enum ts_atomic_kind kind =
            e->d_name[0] == '.' ? TS_ATOMIC_FOREIGN : ts_model_kind_of(dir, e->d_name, 1);
        there = kind == TS_ATOMIC_OURS || kind == TS_ATOMIC_UNMARKED;
    }
    if (names != NULL)
        closedir(names);
    return there;
}

int ts_model_would_be_part(int dir, const char *name)
{
    return is_part_name(name) && holds_model(dir);
}

/* ---- reading directories of models ---- */

static int is_several(int dir)
{
    return kind_of_common(dir, TS_MODELS_JSON, 1) == TS_ATOMIC_OURS;
}

static int is_kept(int dir)
{
    char byte;
    return ts_atomic_head(dir, TS_MODELS_RUN, &byte, 1) > 0 && has_models(dir);
}

static int ask(const char *path, int (*is)(int dir))
{
    const int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int ret = dir >= 0 && is(dir);
    ts_fd_close(dir);
    return ret;
}

int ts_models_there(const char *path)
{
    return ask(path, is_several);
}

int ts_models_there_in(const struct ts_open_dir *dir)
{
    return is_several(ts_open_dir_fd(dir));
}

int ts_models_kept(const char *partial)
{
    return ask(partial, is_kept);
}

int ts_models_kept_in(const struct ts_open_dir *partial)
{
    return is_kept(ts_open_dir_fd(partial));
}

/* Finds the links to best models. first := the first name, all := all names as a text. Returns
 * their number. */
static uint32_t find_best(int dir, char first[NAME_MAX + 1], char all[160])
{
    struct dirent **e;
    uint32_t n_best = 0;
    const int n = scandirat(dir, ".", &e, NULL, versionsort);
    first[0] = all[0] = '\0';
    for (int i = 0; i < n; i++) {
        const size_t at = strlen(all);
        if (strncmp(e[i]->d_name, "best.r", 6) == 0) {
            if (n_best++ == 0)
                snprintf(first, NAME_MAX + 1, "%s", e[i]->d_name);
            snprintf(all + at, 160 - at, "%s%.20s", at > 0 ? ", " : "", e[i]->d_name);
        }
        free(e[i]);
    }
    if (n >= 0)
        free(e);
    return n_best;
}

int ts_models_best(struct ts_open_dir **dir, struct ts_err *err)
{
    const char *path = ts_open_dir_path(*dir);
    const int fd = ts_open_dir_fd(*dir);
    struct ts_open_dir *best = NULL;
    char first[NAME_MAX + 1], all[160], *name;
    size_t end = strlen(path);
    uint32_t n;
    int rc;
    if (!is_several(fd))
        return 0;
    n = find_best(fd, first, all);
    /* the old directory, which is open, may lack some of the links to best models */
    if (ts_open_dir_replaced(*dir))
        return ts_open_dir_fail(path, err);
    while (end > 1 && path[end - 1] == '/')
        end--;
    if (n == 0)
        return ts_fail(err, TS_EFORMAT, "%s: holds several models and no link to the best of them",
                       path);
    if (n > 1)
        return ts_fail(err, TS_EARG,
                       "%s: holds models of several ranks; name one of them, as %.*s/%s (there "
                       "are %s)",
                       path, (int)end, path, first, all);
    if (asprintf(&name, "%.*s/%s", (int)end, path, first) < 0)
        return ts_no_memory(err, path);
    rc = ts_open_dir_inside(*dir, first, name, &best, err);
    free(name);
    if (rc == 0) {
        ts_open_dir_close(*dir);
        *dir = best;
    }
    return rc;
}
