/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the formats that models come in: ktensor text, NumPy arrays, SPLATT's matrices. The files
 * are untrusted: every size is checked. */
#include "model/model_formats.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/c_locale.h"
#include "base/num.h"
#include "base/setting.h"

#define TOKEN_CHARS 64

int ts_model_name_file(struct ts_model *m, const char *name, struct ts_err *err)
{
    const size_t n = strlen(m->path) + (name == NULL ? 0 : strlen(name)) + 2;
    free(m->name);
    m->name = malloc(n);
    if (m->name == NULL)
        return ts_no_memory(err, m->path);
    snprintf(m->name, n, "%s%s%s", m->path, name == NULL ? "" : "/", name == NULL ? "" : name);
    m->line = 1;
    return 0;
}

int ts_model_open_file(struct ts_model *m, const char *name, struct ts_err *err)
{
    int fd, rc = ts_model_name_file(m, name, err);
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
    return ts_model_open_file(m, name, err);
}

int ts_model_again_mode(struct ts_model *m, uint32_t mode, const char *suffix, struct ts_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "mode%u.%s", mode + 1, suffix);
    m->file = NULL;
    if (fseek(m->part[mode], 0, SEEK_SET) != 0)
        return ts_fail_errno(err, TS_EIO, "%s/%s: cannot be read", m->path, name);
    m->file = m->part[mode];
    return ts_model_name_file(m, name, err);
}

/* Opens the files of the modes, which stay open, and reads the head of each. The first missing file
 * ends the modes. A file that exists and cannot be opened is an error. */
static int open_modes(struct ts_model *m, const char *suffix,
                      int (*read_head)(struct ts_model *m, uint64_t *n_rows, struct ts_err *err),
                      struct ts_err *err)
{
    int rc = 0;
    for (uint32_t k = 0; k < TS_MAX_ORDER && rc == 0; k++) {
        struct ts_err why;
        rc = open_mode_file(m, k, suffix, &why);
        if (rc == TS_EIO && why.sys == ENOENT && k >= TS_MIN_ORDER)
            return 0;
        if (rc < 0 && err != NULL)
            *err = why;
        if (rc == 0)
            rc = read_head(m, &m->n_rows[k], err);
        m->order = k + 1;
        m->part[k] = m->file;
        m->file = NULL;
    }
    return rc;
}

static int set_rank(struct ts_model *m, uint64_t rank, struct ts_err *err)
{
    m->rank = (uint32_t)rank;
    m->weight = calloc(m->rank, sizeof *m->weight);
    return m->weight == NULL ? ts_no_memory(err, m->path) : 0;
}

/* ---- words of text ---- */

/* Skips blanks and comments, which go from # or // to the end of the line. Returns the next
 * character, or EOF. */
static int skip_space(struct ts_model *m)
{
    for (;;) {
        int c = getc_unlocked(m->file), next;
        while (c != EOF && isspace(c)) {
            m->line += c == '\n';
            c = getc_unlocked(m->file);
        }
        if (c != '/' && c != '#')
            return c;
        next = c == '/' ? getc_unlocked(m->file) : '/';
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

/* Reads the next word. Returns its length, 0 at the end of the file, or a negative ts_code. */
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

int ts_model_get_real(struct ts_model *m, double *ret, struct ts_err *err)
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

static int get_weights(struct ts_model *m, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t r = 0; r < m->rank && rc == 0; r++)
        rc = ts_model_get_real(m, &m->weight[r], err);
    return rc;
}

static int get_count(struct ts_model *m, const char *noun, uint64_t most, uint64_t *ret,
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
                       m->line, n > 0 ? word : "end of file", noun, most);
    *ret = x;
    return 0;
}

/* Reads a word, which must be `expected`, or `other` if that is not NULL. */
static int expect_word(struct ts_model *m, const char *expected, const char *other,
                       struct ts_err *err)
{
    char word[TOKEN_CHARS];
    const int n = get_word(m, word, err);
    if (n < 0)
        return n;
    return strcmp(word, expected) == 0 || (other != NULL && strcmp(word, other) == 0)
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: line %" PRIu64 ": found \"%s\", expected \"%s\"",
                         m->name, m->line, n > 0 ? word : "end of file", expected);
}

int ts_ktensor_end(struct ts_model *m, struct ts_err *err)
{
    char word[TOKEN_CHARS];
    const int n = get_word(m, word, err);
    return n <= 0
               ? n
               : ts_fail(err, TS_EFORMAT,
                         "%s: line %" PRIu64 ": found \"%s\" behind the last row of the last mode",
                         m->name, m->line, word);
}

/* ---- ktensor files ---- */

/* Refuses .npy files: a user may pass the array that was decomposed, or a NumPy file of a model. No
 * text begins with their first byte. Only this byte is read, because a pipe can take back no
 * more. */
static int refuse_npy(struct ts_model *m, struct ts_err *err)
{
    const int first = getc_unlocked(m->file);
    char rest[5];
    if (first == EOF && ferror(m->file)) /* a second read might succeed, and hide the error */
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

int ts_ktensor_open(struct ts_model *m, struct ts_err *err)
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
    if (rc == 0)
        rc = set_rank(m, x, err);
    return rc < 0 ? rc : get_weights(m, err);
}

/* Reads the head of a mode's rows: the word matrix (or facmatrix, as GenTen writes), 2, number of
 * rows, and rank. */
int ts_ktensor_matrix(struct ts_model *m, uint32_t mode, struct ts_err *err)
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

/* ---- NumPy files ---- */

/* Fails because bytes are missing: a read failed, or the file ends early. */
static int npy_short(struct ts_model *m, const char *where, struct ts_err *err)
{
    if (ferror(m->file))
        return ts_fail_errno(err, TS_EIO, "%s: cannot be read", m->name);
    return ts_fail(err, TS_EFORMAT, "%s: byte %ld: the file ends %s", m->name, ftell(m->file),
                   where);
}

/* Checks that the size of the file is what the header says. Otherwise the file was cut off, or the
 * header is wrong. */
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

/* Reads the header of the open .npy file. *columns := 0 for a vector. */
int ts_npy_rows_header(struct ts_model *m, uint64_t *rows, uint64_t *columns, struct ts_err *err)
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
    if (*end == ',' && end[1] != ')') { /* a tuple of one number, which ends with a comma */
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

int ts_npy_numbers(struct ts_model *m, uint64_t n, double *ret, struct ts_err *err)
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

static int npy_mode(struct ts_model *m, uint64_t *n_rows, struct ts_err *err)
{
    uint64_t columns = 0;
    const int rc = ts_npy_rows_header(m, n_rows, &columns, err);
    m->widest = m->item_bytes > m->widest ? m->item_bytes : m->widest;
    return rc < 0 || columns == m->rank
               ? rc
               : ts_fail(err, TS_EFORMAT, "%s: byte 10: %" PRIu64 " column%s, weights.npy has %u",
                         m->name, columns, ts_num_plural(columns), m->rank);
}

int ts_npy_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t rank = 0, columns = 0;
    int rc = ts_model_open_file(m, "weights.npy", err);
    if (rc == 0)
        rc = ts_npy_rows_header(m, &rank, &columns, err);
    if (rc == 0 && (columns != 0 || rank > TS_MAX_RANK))
        rc = ts_fail(err, TS_EFORMAT, "%s: byte 10: no vector of at most %u", m->name, TS_MAX_RANK);
    if (rc == 0)
        rc = set_rank(m, rank, err);
    if (rc == 0)
        rc = ts_npy_numbers(m, rank, m->weight, err);
    return rc < 0 ? rc : open_modes(m, "npy", npy_mode, err);
}

/* ---- SPLATT's files ---- */

/* Counts the rows of the open file: lines that are not empty. Each must have `columns` words. */
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

static int splatt_mode(struct ts_model *m, uint64_t *n_rows, struct ts_err *err)
{
    const int rc = count_rows(m, m->rank, n_rows, err);
    if (rc == 0 && *n_rows == 0)
        return ts_fail(err, TS_EFORMAT, "%s: it has no rows", m->name);
    if (rc == 0 && *n_rows > TS_MAX_DIM)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " rows are too many", m->name, *n_rows);
    return rc;
}

int ts_splatt_open(struct ts_model *m, struct ts_err *err)
{
    uint64_t rank = 0;
    int rc = ts_model_open_file(m, "lambda.mat", err);
    if (rc == 0)
        rc = count_rows(m, 1, &rank, err);
    if (rc == 0 && (rank == 0 || rank > TS_MAX_RANK))
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " lines: no rank (1 to %u)", m->name, rank,
                     TS_MAX_RANK);
    if (rc == 0)
        rc = set_rank(m, rank, err);
    if (rc < 0)
        return rc;
    rewind(m->file);
    rc = get_weights(m, err);
    return rc < 0 ? rc : open_modes(m, "mat", splatt_mode, err);
}
