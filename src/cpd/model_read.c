#include "cpd/model_read.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TOKEN_CHARS 64

static int open_file(struct ts_model *m, const char *name, struct ts_err *err)
{
    const size_t n = strlen(m->path) + (name == NULL ? 0 : strlen(name)) + 2;
    if (m->file != NULL)
        fclose(m->file);
    m->file = NULL;
    free(m->name);
    m->name = malloc(n);
    if (m->name == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    snprintf(m->name, n, "%s%s%s", m->path, name == NULL ? "" : "/", name == NULL ? "" : name);
    m->file = fopen(m->name, "rb");
    m->line = 1;
    return m->file == NULL ? ts_fail_errno(err, TS_EIO, "%s: cannot be opened", m->name) : 0;
}

static int open_mode_file(struct ts_model *m, uint32_t mode, const char *suffix, struct ts_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "mode%u.%s", mode + 1, suffix);
    return open_file(m, name, err);
}

/* ---- text ---- */

/* The next word; its length, 0 at the end of the file, or a failure. */
static int get_word(struct ts_model *m, char *word, struct ts_err *err)
{
    int c = getc_unlocked(m->file), n = 0;
    while (c != EOF && isspace(c)) {
        m->line += c == '\n';
        c = getc_unlocked(m->file);
    }
    for (; c != EOF && !isspace(c); c = getc_unlocked(m->file)) {
        if (n == TOKEN_CHARS - 1)
            return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": a word of more than %d characters",
                           m->name, m->line, TOKEN_CHARS - 1);
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
    *ret = strtod(word, &end);
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
                       "%s: line %" PRIu64 ": \"%s\" is no %s (1 to %" PRIu64 ")", m->name, m->line,
                       n > 0 ? word : "end of file", what, most);
    *ret = x;
    return 0;
}

static int expect_word(struct ts_model *m, const char *want, struct ts_err *err)
{
    char word[TOKEN_CHARS];
    const int n = get_word(m, word, err);
    if (n < 0)
        return n;
    return strcmp(word, want) == 0
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": found \"%s\", expected \"%s\"",
                         m->name, m->line, n > 0 ? word : "end of file", want);
}

/* ---- ktensor ---- */

static int ktensor_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t x = 0;
    int rc = expect_word(m, "ktensor", err);
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

/* matrix, 2, rows and rank: what stands before a mode's rows */
static int ktensor_matrix(struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    uint64_t two = 0, rows = 0, columns = 0;
    int rc = expect_word(m, "matrix", err);
    if (rc == 0)
        rc = get_count(m, "number of dimensions", 2, &two, err);
    if (rc == 0)
        rc = get_count(m, "number of rows", TS_MAX_DIM, &rows, err);
    if (rc == 0)
        rc = get_count(m, "number of columns", TS_MAX_RANK, &columns, err);
    if (rc == 0 && (two != 2 || rows != m->n_rows[mode] || columns != m->rank))
        rc = ts_fail(err, TS_EFORMAT,
                     "%s: line %" PRIu64 ": matrix %u is %" PRIu64 " x %" PRIu64
                     ", the head of the file says %" PRIu64 " x %u",
                     m->name, m->line, mode + 1, rows, columns, m->n_rows[mode], m->rank);
    return rc;
}

/* ---- NumPy ---- */

/* Reads the header of the open file: columns is 0 for a vector. */
static int npy_header(struct ts_model *m, uint64_t *rows, uint64_t *columns, struct ts_err *err)
{
    unsigned char head[10];
    char dict[1024], *shape, *end;
    size_t n;
    int fits;
    if (fread(head, 1, 10, m->file) != 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: no NumPy file of format 1.0", m->name);
    n = head[8] + 256u * head[9];
    if (n >= sizeof dict || fread(dict, 1, n, m->file) != n)
        return ts_fail(err, TS_EFORMAT, "%s: byte 8: a header of %zu bytes", m->name, n);
    dict[n] = '\0';
    m->item_bytes = strstr(dict, "'<f8'") != NULL ? 8 : strstr(dict, "'<f4'") != NULL ? 4 : 0;
    shape = strstr(dict, "'shape': (");
    if (m->item_bytes == 0 || shape == NULL || strstr(dict, "'fortran_order': False") == NULL)
        return ts_fail(err, TS_EFORMAT, "%s: byte 10: no rows of little-endian float32 or float64",
                       m->name);
    *rows = strtoull(shape + 10, &end, 10);
    *columns = 0;
    if (*end == ',' && end[1] != ')') { /* a tuple of one ends in a comma */
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
    return 0;
}

static int npy_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err)
{
    float narrow[1024];
    for (uint64_t at = 0; at < n;) {
        const size_t k = n - at < 1024 ? (size_t)(n - at) : 1024;
        if (fread(m->item_bytes == 8 ? (void *)(ret + at) : (void *)narrow, m->item_bytes, k,
                  m->file) != k)
            return ts_fail(err, TS_EFORMAT, "%s: byte %ld: the file ends too early", m->name,
                           ftell(m->file));
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
        rc = open_mode_file(m, k, "npy", NULL);
        if (rc == TS_EIO && k >= TS_MIN_ORDER)
            return 0;
        rc = rc < 0 ? open_mode_file(m, k, "npy", err) : npy_header(m, &m->n_rows[k], &columns, err);
        if (rc == 0 && columns != m->rank)
            rc = ts_fail(err, TS_EFORMAT, "%s: byte 10: %" PRIu64 " columns, weights.npy has %u",
                         m->name, columns, m->rank);
        m->order = k + 1;
    }
    return rc;
}

/* ---- SPLATT ---- */

/* Rows of the open file: lines that hold something, which must be `columns` words each. */
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
                           ", expected %" PRIu64 "; lambda.mat has a number on each line, modeK.mat "
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
        rc = open_mode_file(m, k, "mat", NULL);
        if (rc == TS_EIO && k >= TS_MIN_ORDER)
            return 0;
        rc = rc < 0 ? open_mode_file(m, k, "mat", err)
                    : count_rows(m, m->rank, &m->n_rows[k], err);
        m->order = k + 1;
    }
    return rc;
}

/* ---- all of them ---- */

static int has(const struct ts_model *m, const char *name)
{
    struct stat st;
    const size_t n = strlen(m->path) + strlen(name) + 2;
    char *full = malloc(n);
    int found;
    if (full == NULL)
        return 0;
    snprintf(full, n, "%s/%s", m->path, name);
    found = stat(full, &st) == 0;
    free(full);
    return found;
}

static int open_model(struct ts_model *m, struct ts_err *err)
{
    struct stat st;
    int rc;
    if (stat(m->path, &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", m->path);
    m->kind = TS_MODEL_KTENSOR;
    if (S_ISDIR(st.st_mode) && !has(m, "model.ktensor")) {
        if (has(m, "weights.npy"))
            m->kind = TS_MODEL_NPY;
        else if (has(m, "lambda.mat"))
            m->kind = TS_MODEL_SPLATT;
        else
            return ts_fail(err, TS_EFORMAT,
                           "%s: no decomposition: neither model.ktensor nor weights.npy nor "
                           "lambda.mat is there",
                           m->path);
        return m->kind == TS_MODEL_NPY ? npy_open(m, err) : splatt_open(m, err);
    }
    rc = open_file(m, S_ISDIR(st.st_mode) ? "model.ktensor" : NULL, err);
    return rc == 0 ? ktensor_open(m, err) : rc;
}

int ts_model_open(const char *path, struct ts_model **ret, struct ts_err *err)
{
    struct ts_model *m = calloc(1, sizeof *m);
    int rc;
    if (m == NULL || (m->path = strdup(path)) == NULL) {
        free(m);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    }
    rc = open_model(m, err);
    m->mode = UINT32_MAX; /* none begun */
    if (rc == 0)
        *ret = m;
    else
        ts_model_close(m);
    return rc;
}

void ts_model_close(struct ts_model *m)
{
    if (m == NULL)
        return;
    if (m->file != NULL)
        fclose(m->file);
    free(m->name);
    free(m->path);
    free(m->weight);
    free(m);
}

static int read_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err)
{
    int rc = 0;
    if (m->kind == TS_MODEL_NPY)
        return npy_numbers(m, n, ret, err);
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = get_real(m, &ret[i], err);
    return rc;
}

/* Goes to the first row of the next mode; in a ktensor, over the rows that were left. */
static int begin_mode(struct ts_model *m, uint32_t mode, struct ts_err *err)
{
    uint64_t rows, columns;
    int rc;
    if (m->kind == TS_MODEL_SPLATT)
        return open_mode_file(m, mode, "mat", err);
    if (m->kind == TS_MODEL_NPY) {
        rc = open_mode_file(m, mode, "npy", err);
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

int ts_model_rows(struct ts_model *m, uint32_t mode, uint64_t n, double *ret, struct ts_err *err)
{
    int rc = 0;
    while (rc == 0 && m->mode != mode) {
        const uint32_t next = m->mode == UINT32_MAX ? 0 : m->mode + 1;
        rc = begin_mode(m, next, err);
        m->mode = next;
        m->row = 0;
    }
    if (rc == 0)
        rc = read_numbers(m, n * m->rank, ret, err);
    m->row += n;
    return rc;
}

/* The next number of modeK.index, more than `before`; from 1. */
static int read_index(FILE *f, const char *name, uint64_t line, uint64_t before, uint64_t *ret,
                      struct ts_err *err)
{
    uint64_t x = 0;
    int c = getc_unlocked(f), digits = 0;
    for (; c >= '0' && c <= '9' && x <= TS_MAX_DIM; c = getc_unlocked(f), digits++)
        x = 10 * x + (uint64_t)(c - '0');
    if (digits == 0 || (c != '\n' && c != EOF) || x <= before || x > TS_MAX_DIM)
        return ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": no index above %" PRIu64, name, line,
                       before);
    *ret = x;
    return 0;
}

int ts_model_index(const struct ts_model *m, uint32_t mode, uint64_t **ret, struct ts_err *err)
{
    const uint64_t n = m->n_rows[mode];
    uint64_t *index = NULL, last = 0;
    char *name = NULL;
    FILE *f;
    int rc = 0;
    *ret = NULL;
    if (asprintf(&name, "%s/mode%u.index", m->path, mode + 1) < 0)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", m->path);
    f = fopen(name, "rb");
    if (f == NULL) {
        const int none = errno == ENOENT || errno == ENOTDIR; /* the model may be a file */
        rc = none ? 0 : ts_fail_errno(err, TS_EIO, "%s: cannot be opened", name);
        free(name);
        return rc;
    }
    index = malloc(n * sizeof *index);
    if (index == NULL)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory for %" PRIu64 " indices", name, n);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = read_index(f, name, i + 1, last, &last, err);
        index[i] = last - 1;
    }
    if (rc == 0 && getc_unlocked(f) != EOF)
        rc = ts_fail(err, TS_EFORMAT, "%s: more indices than the %" PRIu64 " rows of mode %u", name, n,
                     mode + 1);
    if (rc == 0)
        *ret = index;
    else
        free(index);
    fclose(f);
    free(name);
    return rc;
}
