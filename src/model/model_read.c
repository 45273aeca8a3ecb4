/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a model of any format, and reads its rows from front to back. */
#include "model/model_read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "base/setting.h"
#include "model/model_files.h"
#include "model/model_formats.h"

#define PARTIAL ".partial"

/* Returns the format of the model in the directory; format `first` is tried before the others.
 * Returns a negative ts_code if there is no model. */
static int kind_of(const struct ts_model *m, enum ts_model_kind first, struct ts_err *err)
{
    static const char *const name[] = { [TS_MODEL_KTENSOR] = "model.ktensor",
                                        [TS_MODEL_NPY] = "weights.npy",
                                        [TS_MODEL_SPLATT] = "lambda.mat" };
    for (int i = TS_MODEL_KTENSOR; i <= TS_MODEL_SPLATT; i++) {
        const int k = i > (int)first ? i : i == TS_MODEL_KTENSOR ? (int)first : i - 1;
        int fd;
        const int found = ts_open_dir_optional(m->dir, name[k], &fd, err);
        if (found > 0)
            close(fd);
        if (found != 0)
            return found < 0 ? found : k;
    }
    return ts_fail(err, TS_EFORMAT, "%s: no decomposition: neither %s nor %s nor %s is there",
                   m->path, name[0], name[1], name[2]);
}

/* Reads the labels file. Its modes must have the sizes of the factors, or be larger if the factors
 * have only rows of used slices. */
static int read_names(struct ts_model *m, struct ts_err *err)
{
    const int rc = ts_model_names_read(m->dir, &m->names, err);
    const struct ts_model_names *n = m->names;
    const int used = n != NULL && (n->file->head.flags & TS_LABELS_USED) != 0;
    int same = n == NULL || n->order == m->order;
    for (uint32_t k = 0; n != NULL && k < m->order && same; k++)
        same = m->index_fd[k] < 0 && !used ? n->dim[k] == m->n_rows[k] : n->dim[k] >= m->n_rows[k];
    return rc < 0 || same ? rc
                          : ts_fail(err, TS_EFORMAT,
                                    "%s/" TS_LABELS_FILE ": it does not match the factors beside "
                                    "it (without it the model has no labels)",
                                    m->path);
}

static int open_model(struct ts_model *m, enum ts_model_kind first, struct ts_err *err)
{
    int rc, kind = TS_MODEL_KTENSOR;
    if (m->dir != NULL)
        kind = kind_of(m, first, err);
    if (kind < 0)
        return kind;
    m->kind = (enum ts_model_kind)kind;
    if (m->kind != TS_MODEL_KTENSOR) {
        rc = m->kind == TS_MODEL_NPY ? ts_npy_open(m, err) : ts_splatt_open(m, err);
    } else {
        rc = ts_model_open_file(m, m->dir != NULL ? "model.ktensor" : NULL, err);
        rc = rc == 0 ? ts_ktensor_open(m, err) : rc;
    }
    for (uint32_t k = 0; k < m->order && rc == 0 && m->dir != NULL; k++) {
        char name[32];
        snprintf(name, sizeof name, "mode%u.index", k + 1);
        rc = ts_open_dir_optional(m->dir, name, &m->index_fd[k], err);
        rc = rc < 0 ? rc : 0;
    }
    return rc == 0 && m->dir != NULL ? read_names(m, err) : rc;
}

static struct ts_model *new_model(const char *path, struct ts_err *err)
{
    struct ts_model *m = calloc(1, sizeof *m);
    if (m == NULL || (m->path = strdup(path)) == NULL) {
        free(m);
        ts_no_memory(err, path);
        return NULL;
    }
    m->mode = UINT32_MAX; /* no mode has begun */
    for (uint32_t k = 0; k < TS_MAX_ORDER; k++)
        m->index_fd[k] = -1;
    return m;
}

/* Opens a model in a directory, and takes over `dir`. dir NULL: the path is a file. */
static int open_in(struct ts_open_dir *dir, const char *path, enum ts_model_kind first,
                   struct ts_model **ret, struct ts_err *err)
{
    struct ts_model *m = new_model(dir != NULL ? ts_open_dir_path(dir) : path, err);
    int rc;
    if (m == NULL) {
        ts_open_dir_close(dir);
        return TS_ENOMEM;
    }
    m->dir = dir;
    rc = open_model(m, first, err);
    if (dir != NULL)
        rc = ts_open_dir_explain(dir, rc, err);
    if (rc == 0)
        *ret = m;
    else
        ts_model_close(m);
    return rc;
}

/* Adds to the message about a missing path that its run is not finished, if path.partial exists. */
static void explain_absent(const char *path, struct ts_err *err)
{
    size_t at = strlen(err->text), end = strlen(path);
    struct stat st;
    char *partial;
    while (end > 1 && path[end - 1] == '/')
        end--;
    if (asprintf(&partial, "%.*s" PARTIAL, (int)end, path) < 0)
        return;
    if (stat(partial, &st) == 0 && S_ISDIR(st.st_mode))
        snprintf(err->text + at, sizeof err->text - at,
                 "; %s is there: its run is not finished (tstream status says where it is)",
                 partial);
    free(partial);
}

static int open_once(const char *path, enum ts_model_kind first, struct ts_model **ret,
                     struct ts_err *err)
{
    struct ts_open_dir *dir = NULL;
    struct ts_err why;
    int rc = ts_open_dir_new(path, &dir, &why);
    if (rc == TS_EIO && why.sys == ENOTDIR)
        rc = 0; /* the path is a file */
    else if (rc < 0)
        *err = why;
    if (rc == TS_EIO && why.sys == ENOENT)
        explain_absent(path, err);
    if (rc == 0 && dir != NULL)
        rc = ts_models_best(&dir, err);
    if (rc == 0)
        return open_in(dir, path, first, ret, err);
    ts_open_dir_close(dir);
    return rc;
}

int ts_model_open_first(const char *path, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err)
{
    struct ts_err why;
    int rc = open_once(path, first, ret, &why);
    for (int tries = 1; ts_open_dir_stale(rc, &why) && tries < TS_OPEN_DIR_TRIES; tries++)
        rc = open_once(path, first, ret, &why);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

/* Opens a model that is a single file. The function takes fd over. */
static int open_alone(int fd, const char *path, struct ts_model **ret, struct ts_err *err)
{
    struct ts_model *m = new_model(path, err);
    int rc = m == NULL ? TS_ENOMEM : ts_model_name_file(m, NULL, err);
    if (rc == 0 && (m->file = fdopen(fd, "rb")) != NULL)
        fd = -1;
    else if (rc == 0)
        rc = ts_no_memory(err, path);
    ts_fd_close(fd);
    if (rc == 0)
        rc = ts_ktensor_open(m, err);
    if (rc == 0)
        *ret = m;
    else
        ts_model_close(m);
    return rc;
}

int ts_model_open_inside(const struct ts_open_dir *parent, const char *name, struct ts_model **ret,
                         struct ts_err *err)
{
    struct ts_open_dir *dir = NULL;
    char *path;
    int rc;
    if (name == NULL) {
        rc = ts_open_dir_again(parent, &dir, err);
        rc = rc == 0 ? ts_models_best(&dir, err) : rc;
        if (rc == 0)
            return open_in(dir, NULL, TS_MODEL_KTENSOR, ret, err);
        ts_open_dir_close(dir);
        return rc;
    }
    if (asprintf(&path, "%s/%s", ts_open_dir_path(parent), name) < 0)
        return ts_no_memory(err, ts_open_dir_path(parent));
    rc = ts_open_dir_inside(parent, name, path, &dir, err);
    free(path);
    return rc < 0 ? rc : open_in(dir, NULL, TS_MODEL_KTENSOR, ret, err);
}

int ts_model_open_file_in(const struct ts_open_dir *dir, const char *name, struct ts_model **ret,
                          struct ts_err *err)
{
    char *path;
    int fd, rc = ts_open_dir_optional(dir, name, &fd, err);
    if (rc <= 0)
        return rc;
    if (asprintf(&path, "%s/%s", ts_open_dir_path(dir), name) < 0) {
        close(fd);
        return ts_no_memory(err, ts_open_dir_path(dir));
    }
    rc = open_alone(fd, path, ret, err);
    free(path);
    return rc < 0 ? ts_open_dir_explain(dir, rc, err) : 1;
}

int ts_model_open_again(const struct ts_model *m, enum ts_model_kind first, struct ts_model **ret,
                        struct ts_err *err)
{
    struct ts_open_dir *dir = NULL;
    struct stat st;
    int fd, rc;
    if (m->dir != NULL) {
        rc = ts_open_dir_again(m->dir, &dir, err);
        return rc < 0 ? rc : open_in(dir, m->path, first, ret, err);
    }
    if (m->file == NULL || fstat(fileno(m->file), &st) != 0 || !S_ISREG(st.st_mode))
        /* a pipe, which is opened again by its path */
        return ts_model_open_first(m->path, first, ret, err);
    fd = ts_file_again(fileno(m->file), m->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ESTALE ? ts_open_dir_fail(m->path, err)
                               : ts_fail_errno(err, TS_EIO, "%s: cannot be opened", m->path);
    return open_alone(fd, m->path, ret, err);
}

int ts_model_open(const char *path, struct ts_model **ret, struct ts_err *err)
{
    return ts_model_open_first(path, TS_MODEL_KTENSOR, ret, err);
}

int ts_model_open_memory(const struct ts_model_memory *in, struct ts_model **ret,
                         struct ts_err *err)
{
    struct ts_model *m = new_model("the model in memory", err);
    if (m == NULL)
        return TS_ENOMEM;
    m->weight = malloc(in->rank * sizeof *m->weight);
    if (m->weight == NULL) {
        ts_model_close(m);
        return ts_fail(err, TS_ENOMEM, "out of memory for a model");
    }
    m->kind = TS_MODEL_MEMORY;
    m->order = in->order;
    m->rank = in->rank;
    m->memory = *in;
    memcpy(m->n_rows, in->n_rows, in->order * sizeof *m->n_rows);
    memcpy(m->weight, in->weight, in->rank * sizeof *m->weight);
    *ret = m;
    return 0;
}

int ts_model_is_float32(const struct ts_model *m)
{
    return m->widest == sizeof(float);
}

void ts_model_close(struct ts_model *m)
{
    if (m == NULL)
        return;
    if (m->memory.close != NULL)
        m->memory.close(m->memory.from);
    for (uint32_t k = 0; k < TS_MAX_ORDER; k++) {
        if (m->part[k] != NULL && m->part[k] == m->file)
            m->file = NULL;
        if (m->part[k] != NULL)
            fclose(m->part[k]);
        ts_fd_close(m->index_fd[k]);
    }
    if (m->file != NULL)
        fclose(m->file);
    ts_model_names_drop(m->names);
    ts_open_dir_close(m->dir);
    free(m->name);
    free(m->path);
    free(m->weight);
    free(m);
}

static int read_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err)
{
    int rc = 0;
    if (m->kind == TS_MODEL_MEMORY)
        return m->memory.get_rows(m->memory.from, m->mode, m->row, n / m->rank, ret, err);
    if (m->kind == TS_MODEL_NPY)
        return ts_npy_numbers(m, n, ret, err);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = ts_model_get_real(m, &ret[i], err);
    return rc;
}

/* Moves to the first row of the next mode. In a ktensor, skips rows that were not read. */
static int begin_mode(struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    uint64_t rows, columns;
    int rc;
    if (m->kind == TS_MODEL_MEMORY)
        return 0;
    if (m->kind == TS_MODEL_SPLATT)
        return ts_model_again_mode(m, mode, "mat", err);
    if (m->kind == TS_MODEL_NPY) {
        rc = ts_model_again_mode(m, mode, "npy", err);
        if (rc == 0)
            rc = ts_npy_rows_header(m, &rows, &columns, err);
        if (rc == 0 && (rows != m->n_rows[mode] || columns != m->rank))
            rc = ts_fail(err, TS_EFORMAT, "%s: changed while it was read", m->name);
        return rc;
    }
    if (m->mode != UINT32_MAX)
        for (; m->row < m->n_rows[m->mode]; m->row++)
            for (uint32_t r = 0; r < m->rank; r++) {
                double x;
                rc = ts_model_get_real(m, &x, err);
                if (rc < 0)
                    return rc;
            }
    return ts_ktensor_matrix(m, mode, err);
}

/* Fails because rows that were requested have been read already, or do not exist. */
static int fail_behind(const struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    return ts_fail(err, TS_EARG,
                   "%s: these rows of " TS_NTH_MODE
                   " were read already, or it has no more; a model is read "
                   "once, front to back",
                   m->path, mode + 1);
}

int ts_model_rows(struct ts_model *m, uint32_t mode, uint64_t n, double *ret, struct ts_err *err)
{
    int rc = 0;
    if (mode >= m->order || (m->mode != UINT32_MAX && mode < m->mode) ||
        n > m->n_rows[mode] - (m->mode == mode ? m->row : 0))
        return fail_behind(m, mode, err);
    while (rc == 0 && m->mode != mode) {
        const uint32_t next = m->mode == UINT32_MAX ? 0 : m->mode + 1;
        rc = begin_mode(m, next, err);
        m->mode = next;
        m->row = 0;
    }
    if (rc == 0)
        rc = read_numbers(m, n * m->rank, ret, err);
    m->row += n;
    if (rc == 0 && m->kind == TS_MODEL_KTENSOR && mode + 1 == m->order && m->row == m->n_rows[mode])
        rc = ts_ktensor_end(m, err);
    return rc;
}

int ts_model_again(struct ts_model *m, struct ts_err *err)
{
    m->row = 0;
    if (m->kind != TS_MODEL_KTENSOR)
        return begin_mode(m, m->mode, err);
    m->line = m->mode_line;
    return m->mode_at < 0 || fseek(m->file, m->mode_at, SEEK_SET) != 0;
}

int ts_model_map(const struct ts_model *m, struct ts_model_map *ret, struct ts_err *err)
{
    struct stat st;
    if (m->kind != TS_MODEL_NPY)
        return 0;
    if (fstat(fileno(m->file), &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: its size cannot be read", m->name);
    ret->bytes = (size_t)st.st_size;
    /* npy_size has checked the size of the file */
    ret->at = ret->bytes - m->n_rows[m->mode] * m->rank * m->item_bytes;
    if (ret->at % m->item_bytes != 0)
        return 0;
    /* A caller that writes to the mapping changes its own copy of a page, never the file. If the
     * system refuses to reserve memory for copies, the mapping is read-only. */
    ret->memory = mmap(NULL, ret->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                       fileno(m->file), 0);
    if (ret->memory == MAP_FAILED)
        ret->memory = mmap(NULL, ret->bytes, PROT_READ, MAP_PRIVATE, fileno(m->file), 0);
    if (ret->memory != MAP_FAILED)
        return 0;
    ret->memory = NULL;
    return ts_fail_errno(err, TS_ENOMEM, "%s: cannot be mapped", m->name);
}

void ts_model_unmap(struct ts_model_map *map)
{
    if (map->memory != NULL)
        munmap(map->memory, map->bytes);
    map->memory = NULL;
}
