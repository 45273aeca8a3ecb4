/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads ktensor text, NumPy arrays and SPLATT's matrices. The files are untrusted: every size is
 * checked. */
#include "model/model_read.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/setting.h"
#include "model/model_files.h"

#define PARTIAL     ".partial"
#define TOKEN_CHARS 64

/* The name of an open file, for sentences; NULL: that of the model. */
static int take_name(struct ts_model *m, const char *name, struct ts_err *err)
{
    const size_t n = strlen(m->path) + (name == NULL ? 0 : strlen(name)) + 2;
    free(m->name);
    m->name = malloc(n);
    if (m->name == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    snprintf(m->name, n, "%s%s%s", m->path, name == NULL ? "" : "/", name == NULL ? "" : name);
    m->line = 1;
    return 0;
}

static int open_file(struct ts_model *m, const char *name, struct ts_err *err)
{
    int fd, rc = take_name(m, name, err);
    if (rc < 0)
        return rc;
    if (m->file != NULL)
        fclose(m->file);
    m->file = NULL;
    if (m->dir != NULL) {
        fd = ts_open_dir_file(m->dir, name, err);
        if (fd < 0)
            return fd;
        m->file = fdopen(fd, "rb");
        if (m->file == NULL)
            close(fd);
    } else {
        m->file = fopen(m->name, "rbe");
    }
    return m->file == NULL ? ts_fail_errno(err, TS_EIO, "%s: cannot be opened", m->name) : 0;
}

static int open_mode_file(struct ts_model *m, uint32_t mode, const char *suffix, struct ts_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "mode%u.%s", mode + 1, suffix);
    return open_file(m, name, err);
}

/* The file of a mode stays open. */
static void keep_mode_file(struct ts_model *m, uint32_t mode)
{
    m->part[mode] = m->file;
    m->file = NULL;
}

static int again_mode_file(struct ts_model *m, uint32_t mode, const char *suffix,
                           struct ts_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "mode%u.%s", mode + 1, suffix);
    m->file = NULL;
    if (fseek(m->part[mode], 0, SEEK_SET) != 0)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be read", m->path, name);
    m->file = m->part[mode];
    return take_name(m, name, err);
}

#define END_OF_MODES 1

/* The same while modes are counted: the first file that does not exist is the end, END_OF_MODES. A
 * file that exists and cannot be opened is a failure. */
static int open_next_mode(struct ts_model *m, uint32_t mode, const char *suffix, struct ts_err *err)
{
    struct ts_err why;
    const int rc = open_mode_file(m, mode, suffix, &why);
    if (rc == TS_EIO && why.sys == ENOENT && mode >= TS_MIN_ORDER)
        return END_OF_MODES;
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

/* ---- text ---- */

/* The next character that is neither space nor of a comment, which goes from // to the end of its line,
 * or EOF. */
static int skip_space(struct ts_model *m)
{
    for (;;) {
        int c = getc_unlocked(m->file), next;
        while (c != EOF && isspace(c)) {
            m->line += c == '\n';
            c = getc_unlocked(m->file);
        }
        if (c != '/')
            return c;
        next = getc_unlocked(m->file);
        if (next != '/') {
            if (next != EOF)
                ungetc(next, m->file);
            return c;
        }
        while (c != EOF && c != '\n')
            c = getc_unlocked(m->file);
        m->line += c == '\n';
    }
}

/* The next word; its length, 0 at the end of the file, or a failure. */
static int get_word(struct ts_model *m, char *word, struct ts_err *err)
{
    int c = skip_space(m), n = 0;
    for (; c != EOF && !isspace(c); c = getc_unlocked(m->file)) {
        if (c == '\0')
            return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": a byte of 0, which no text has",
                           m->name, m->line);
        if (n == TOKEN_CHARS - 1)
            return ts_fail(err, TS_EFORMAT,
                           "%s: line %" PRIu64 ": a word of more than %d characters", m->name,
                           m->line, TOKEN_CHARS - 1);
        word[n++] = (char)c;
    }
    word[n] = '\0';
    if (c != EOF)
        ungetc(c, m->file);
    else if (ferror(m->file))
        return ts_fail_errno(err, TS_EIO, "%s: line %" PRIu64 ": cannot be read", m->name, m->line);
    return n;
}

static int get_real(struct ts_model *m, double *ret, struct ts_err *err)
{
    char word[TOKEN_CHARS], *end;
    const int n = get_word(m, word, err);
    if (n < 0)
        return n;
    if (n == 0)
        return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": the file ends too early", m->name,
                       m->line);
    *ret = ts_strtod(word, &end);
    if (*end != '\0' || !isfinite(*ret))
        return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": \"%s\" is not a finite number",
                       m->name, m->line, word);
    return 0;
}

static int get_count(struct ts_model *m, const char *what, uint64_t most, uint64_t *ret,
                     struct ts_err *err)
{
    char word[TOKEN_CHARS], *end;
    unsigned long long x;
    const int n = get_word(m, word, err);
    if (n < 0)
        return n;
    errno = 0;
    x = n > 0 && isdigit((unsigned char)word[0]) ? strtoull(word, &end, 10) : 0;
    if (x == 0 || *end != '\0' || errno != 0 || x > most)
        return ts_fail(err, TS_EFORMAT,
                       "%s: line %" PRIu64 ": \"%s\" is not a %s (1 to %" PRIu64 ")", m->name,
                       m->line, n > 0 ? word : "end of file", what, most);
    *ret = x;
    return 0;
}

/* other: another name of the same, or NULL. */
static int expect_word(struct ts_model *m, const char *want, const char *other, struct ts_err *err)
{
    char word[TOKEN_CHARS];
    const int n = get_word(m, word, err);
    if (n < 0)
        return n;
    return strcmp(word, want) == 0 || (other != NULL && strcmp(word, other) == 0)
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": found \"%s\", expected \"%s\"",
                         m->name, m->line, n > 0 ? word : "end of file", want);
}

static int expect_end(struct ts_model *m, struct ts_err *err)
{
    char word[TOKEN_CHARS];
    const int n = get_word(m, word, err);
    return n <= 0
               ? n
               : ts_fail(err, TS_EFORMAT,
                         "%s: line %" PRIu64 ": found \"%s\" behind the last row of the last mode",
                         m->name, m->line, word);
}

/* ---- ktensor ---- */

/* A user may name the array that was decomposed, or one of a model's files of NumPy. No text begins with their first byte, and
 * from a pipe no more than one is taken back. */
static int refuse_npy(struct ts_model *m, struct ts_err *err)
{
    const int first = getc_unlocked(m->file);
    char rest[5];
    if (first == EOF &&
        ferror(m->file)) /* a second try may do, and leave it to the end of the file */
        return ts_fail_errno(err, TS_EIO, "%s: line 1: cannot be read", m->name);
    if (first == 0x93 && fread(rest, 1, sizeof rest, m->file) == sizeof rest &&
        memcmp(rest, "NUMPY", sizeof rest) == 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: an array of NumPy, and no decomposition: of one in such files name the "
                       "directory; of a tensor, tshard info tells what it is",
                       m->name);
    if (first != EOF && first != 0x93)
        ungetc(first, m->file);
    return first == 0x93
               ? ts_fail(err, TS_EFORMAT, "%s: line 1: no text, and no decomposition", m->name)
               : 0;
}

static int ktensor_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t x = 0;
    int rc = refuse_npy(m, err);
    if (rc == 0)
        rc = expect_word(m, "ktensor", NULL, err);
    if (rc == 0)
        rc = get_count(m, "number of modes", TS_MAX_ORDER, &x, err);
    m->order = (uint32_t)x;
    for (uint32_t k = 0; k < m->order && rc == 0; k++)
        rc = get_count(m, "size of a mode", TS_MAX_DIM, &m->n_rows[k], err);
    if (rc == 0)
        rc = get_count(m, "rank", TS_MAX_RANK, &x, err);
    if (rc < 0)
        return rc;
    m->rank = (uint32_t)x;
    m->weight = calloc(m->rank, sizeof *m->weight);
    if (m->weight == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    for (uint32_t r = 0; r < m->rank && rc == 0; r++)
        rc = get_real(m, &m->weight[r], err);
    return rc;
}

/* The text before a mode's rows: matrix (in files of GenTen facmatrix), 2, rows and rank. */
static int ktensor_matrix(struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    uint64_t two = 0, rows = 0, columns = 0;
    int rc = expect_word(m, "matrix", "facmatrix", err);
    if (rc == 0)
        rc = get_count(m, "number of dimensions", 2, &two, err);
    if (rc == 0)
        rc = get_count(m, "number of rows", TS_MAX_DIM, &rows, err);
    if (rc == 0)
        rc = get_count(m, "number of columns", TS_MAX_RANK, &columns, err);
    if (rc == 0 && (two != 2 || rows != m->n_rows[mode] || columns != m->rank))
        rc = ts_fail(err, TS_EFORMAT,
                     "%s: line %" PRIu64
                     ": matrix " TS_NTH("%u") " is %" PRIu64 " x %" PRIu64
                                              ", the head of the file says %" PRIu64 " x %u",
                     m->name, m->line, mode + 1, rows, columns, m->n_rows[mode], m->rank);
    m->mode_at = ftell(m->file);
    m->mode_line = m->line;
    return rc;
}

/* ---- NumPy ---- */

/* Writes the sentence for missing bytes: the read failed, or the file ends early. */
static int npy_short(struct ts_model *m, const char *where, struct ts_err *err)
{
    if (ferror(m->file))
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", m->name);
    return ts_fail(err, TS_EFORMAT, "%s: byte %ld: the file ends %s", m->name, ftell(m->file),
                   where);
}

/* Checks the size of the file: if it is not what the header says, the file was cut or the header is
 * wrong. */
static int npy_size(struct ts_model *m, uint64_t numbers, struct ts_err *err)
{
    const long at = ftell(m->file);
    const uint64_t want = (uint64_t)at + numbers * m->item_bytes;
    struct stat st;
    if (at < 0 || fstat(fileno(m->file), &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: its size cannot be read", m->name);
    if (!S_ISREG(st.st_mode))
        return ts_fail(err, TS_EFORMAT, "%s: not a file", m->name);
    return (uint64_t)st.st_size == want
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: it has %" PRIu64 " bytes, by its header %" PRIu64,
                         m->name, (uint64_t)st.st_size, want);
}

/* Reads the header of the open file: columns is 0 for a vector. */
static int npy_header(struct ts_model *m, uint64_t *rows, uint64_t *columns, struct ts_err *err)
{
    unsigned char head[10];
    char dict[1024], *shape, *end;
    size_t n;
    int fits;
    n = fread(head, 1, 10, m->file);
    if (n != 10 && ferror(m->file))
        return npy_short(m, "inside its head", err);
    if (n != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: no NumPy file of format 1.0", m->name);
    n = head[8] + 256u * head[9];
    if (n >= sizeof dict)
        return ts_fail(err, TS_EFORMAT, "%s: byte 8: a header of %zu bytes, expected less than %zu",
                       m->name, n, sizeof dict);
    if (fread(dict, 1, n, m->file) != n)
        return npy_short(m, "inside its header", err);
    dict[n] = '\0';
    m->item_bytes = strstr(dict, "'<f8'") != NULL ? 8 : strstr(dict, "'<f4'") != NULL ? 4 : 0;
    shape = strstr(dict, "'shape': (");
    if (m->item_bytes == 0 || shape == NULL || strstr(dict, "'fortran_order': False") == NULL)
        return ts_fail(err, TS_EFORMAT, "%s: byte 10: no rows of little-endian float32 or float64",
                       m->name);
    *rows = strtoull(shape + 10, &end, 10);
    *columns = 0;
    if (*end == ',' && end[1] != ')') { /* a tuple of one number ends in a comma */
        *columns = strtoull(end + 1, &end, 10);
        fits = *columns > 0 && *columns <= TS_MAX_RANK && *end == ')';
    } else
        fits = *end == ')' || *end == ',';
    if (!fits || *rows == 0 || *rows > TS_MAX_DIM) {
        const size_t chars = strcspn(shape + 9, ")") + 1;
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 10: a shape of %.*s, expected rows or rows x columns (1 to %u)",
                       m->name, chars < TOKEN_CHARS ? (int)chars : TOKEN_CHARS, shape + 9,
                       TS_MAX_RANK);
    }
    return npy_size(m, *rows * (*columns > 0 ? *columns : 1), err);
}

static int npy_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err)
{
    float narrow[1024];
    for (uint64_t at = 0; at < n;) {
        const size_t k = n - at < 1024 ? (size_t)(n - at) : 1024;
        if (fread(m->item_bytes == 8 ? (void *)(ret + at) : (void *)narrow, m->item_bytes, k,
                  m->file) != k)
            return npy_short(m, "too early", err);
        for (size_t i = 0; i < k; i++) {
            if (m->item_bytes == 4)
                ret[at + i] = narrow[i];
            if (!isfinite(ret[at + i]))
                return ts_fail(err, TS_EFORMAT, "%s: number %" PRIu64 " is not finite", m->name,
                               at + i);
        }
        at += k;
    }
    return 0;
}

static int npy_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t rank = 0, columns = 0;
    int rc = open_file(m, "weights.npy", err);
    if (rc == 0)
        rc = npy_header(m, &rank, &columns, err);
    if (rc == 0 && (columns != 0 || rank > TS_MAX_RANK))
        rc = ts_fail(err, TS_EFORMAT, "%s: byte 10: no vector of at most %u", m->name, TS_MAX_RANK);
    if (rc < 0)
        return rc;
    m->rank = (uint32_t)rank;
    m->weight = calloc(m->rank, sizeof *m->weight);
    if (m->weight == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    rc = npy_numbers(m, rank, m->weight, err);
    for (uint32_t k = 0; k < TS_MAX_ORDER && rc == 0; k++) {
        rc = open_next_mode(m, k, "npy", err);
        if (rc == END_OF_MODES)
            return 0;
        if (rc == 0)
            rc = npy_header(m, &m->n_rows[k], &columns, err);
        m->widest = m->item_bytes > m->widest ? m->item_bytes : m->widest;
        if (rc == 0 && columns != m->rank)
            rc = ts_fail(err, TS_EFORMAT, "%s: byte 10: %" PRIu64 " columns, weights.npy has %u",
                         m->name, columns, m->rank);
        m->order = k + 1;
        keep_mode_file(m, k);
    }
    return rc;
}

/* ---- SPLATT ---- */

/* Counts the rows of the open file: lines that are not empty, each of which must have `columns`
 * words. */
static int count_rows(struct ts_model *m, uint64_t columns, uint64_t *ret, struct ts_err *err)
{
    uint64_t n = 0, line = 0;
    int c;
    do {
        uint64_t words = 0;
        int inside = 0;
        for (c = getc_unlocked(m->file); c != EOF && c != '\n'; c = getc_unlocked(m->file)) {
            words += !isspace(c) && !inside;
            inside = !isspace(c);
        }
        line++;
        if (ferror(m->file))
            return ts_fail_errno(err, TS_EIO, "%s: cannot be read", m->name);
        if (words > 0 && words != columns)
            return ts_fail(err, TS_EFORMAT,
                           "%s: line %" PRIu64 ": the number of words is %" PRIu64
                           ", expected %" PRIu64
                           "; lambda.mat has a number on each line, modeK.mat "
                           "as many on each as lambda.mat has lines",
                           m->name, line, words, columns);
        n += words > 0;
    } while (c != EOF);
    *ret = n;
    return 0;
}

static int splatt_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t rank = 0;
    int rc = open_file(m, "lambda.mat", err);
    if (rc == 0)
        rc = count_rows(m, 1, &rank, err);
    if (rc == 0 && (rank == 0 || rank > TS_MAX_RANK))
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " lines: no rank (1 to %u)", m->name, rank,
                     TS_MAX_RANK);
    if (rc < 0)
        return rc;
    m->rank = (uint32_t)rank;
    m->weight = calloc(m->rank, sizeof *m->weight);
    if (m->weight == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    rewind(m->file);
    for (uint32_t r = 0; r < m->rank && rc == 0; r++)
        rc = get_real(m, &m->weight[r], err);
    for (uint32_t k = 0; k < TS_MAX_ORDER && rc == 0; k++) {
        rc = open_next_mode(m, k, "mat", err);
        if (rc == END_OF_MODES)
            return 0;
        if (rc == 0)
            rc = count_rows(m, m->rank, &m->n_rows[k], err);
        if (rc == 0 && m->n_rows[k] == 0)
            rc = ts_fail(err, TS_EFORMAT, "%s: it has no rows", m->name);
        if (rc == 0 && m->n_rows[k] > TS_MAX_DIM)
            rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " rows are too many", m->name,
                         m->n_rows[k]);
        m->order = k + 1;
        keep_mode_file(m, k);
    }
    return rc;
}

/* ---- all of them ---- */

/* Which of the kinds a directory holds, `first` before the others; or a failure. */
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

static int open_model(struct ts_model *m, enum ts_model_kind first, struct ts_err *err)
{
    int rc, kind = TS_MODEL_KTENSOR;
    if (m->dir != NULL)
        kind = kind_of(m, first, err);
    if (kind < 0)
        return kind;
    m->kind = (enum ts_model_kind)kind;
    if (m->kind != TS_MODEL_KTENSOR) {
        rc = m->kind == TS_MODEL_NPY ? npy_open(m, err) : splatt_open(m, err);
    } else {
        rc = open_file(m, m->dir != NULL ? "model.ktensor" : NULL, err);
        rc = rc == 0 ? ktensor_open(m, err) : rc;
    }
    for (uint32_t k = 0; k < m->order && rc == 0 && m->dir != NULL; k++) {
        char name[32];
        snprintf(name, sizeof name, "mode%u.index", k + 1);
        rc = ts_open_dir_optional(m->dir, name, &m->index_fd[k], err);
        rc = rc < 0 ? rc : 0;
    }
    return rc;
}

static struct ts_model *new_model(const char *path, struct ts_err *err)
{
    struct ts_model *m = calloc(1, sizeof *m);
    if (m == NULL || (m->path = strdup(path)) == NULL) {
        free(m);
        ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
        return NULL;
    }
    m->mode = UINT32_MAX; /* none begun */
    for (uint32_t k = 0; k < TS_MAX_ORDER; k++)
        m->index_fd[k] = -1;
    return m;
}

/* Takes the directory; NULL: the path is a file's. */
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

/* Adds to the sentence for a path that leads nowhere what its run has left. */
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
        rc = 0; /* a file */
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

/* A model in a file of its own. Takes fd. */
static int open_alone(int fd, const char *path, struct ts_model **ret, struct ts_err *err)
{
    struct ts_model *m = new_model(path, err);
    int rc = m == NULL ? TS_ENOMEM : take_name(m, NULL, err);
    if (rc == 0 && (m->file = fdopen(fd, "rb")) != NULL)
        fd = -1;
    else if (rc == 0)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        rc = ktensor_open(m, err);
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
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", ts_open_dir_path(parent));
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
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", ts_open_dir_path(dir));
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
        return ts_model_open_first(m->path, first, ret, err); /* a pipe */
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
        if (m->index_fd[k] >= 0)
            close(m->index_fd[k]);
    }
    if (m->file != NULL)
        fclose(m->file);
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
        return npy_numbers(m, n, ret, err);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = get_real(m, &ret[i], err);
    return rc;
}

/* Goes to the first row of the next mode; in a ktensor, past rows that were not read. */
static int begin_mode(struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    uint64_t rows, columns;
    int rc;
    if (m->kind == TS_MODEL_MEMORY)
        return 0;
    if (m->kind == TS_MODEL_SPLATT)
        return again_mode_file(m, mode, "mat", err);
    if (m->kind == TS_MODEL_NPY) {
        rc = again_mode_file(m, mode, "npy", err);
        if (rc == 0)
            rc = npy_header(m, &rows, &columns, err);
        if (rc == 0 && (rows != m->n_rows[mode] || columns != m->rank))
            rc = ts_fail(err, TS_EFORMAT, "%s: changed while it was read", m->name);
        return rc;
    }
    if (m->mode != UINT32_MAX)
        for (; m->row < m->n_rows[m->mode]; m->row++)
            for (uint32_t r = 0; r < m->rank; r++) {
                double x;
                rc = get_real(m, &x, err);
                if (rc < 0)
                    return rc;
            }
    return ktensor_matrix(m, mode, err);
}

/* There is no way back in a text, and no end of a memory that its reader would come to. */
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
        rc = expect_end(m, err);
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
    ret->at = ret->bytes - m->n_rows[m->mode] * m->rank * m->item_bytes; /* npy_size looked */
    if (ret->at % m->item_bytes != 0)
        return 0;
    /* A caller that writes to it changes its own copy of the page, never the file. Where the system
     * refuses memory for copies in advance, nobody can write. */
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
