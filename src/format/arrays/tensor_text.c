/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads dense tensors in the text format of Tensor Toolbox and pyttb: "tensor", the order, the
 * sizes, and all cells, the first index changing fastest. They become arrays in memory. As in lists
 * of nonzeros, a '#' or '//' at the start of a word begins a comment. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/machine/bigmem.h"
#include "base/num.h"
#include "format/arrays/dense.h"

#define MOST_CHARS 64u /* most characters of a number */

struct text {
    FILE *file;
    const char *path;
    uint64_t line;
    struct ts_err *err;
};

static int refuse(const struct text *t, const char *sentence, const char *word)
{
    return ts_fail(t->err, TS_EFORMAT, "%s: line %" PRIu64 ": %s%s%s%s", t->path, t->line, sentence,
                   word != NULL ? " '" : "", word != NULL ? word : "", word != NULL ? "'" : "");
}

/* Reads up to the next word that is not in a comment. Returns its first character, or EOF. */
static int skip_blanks(struct text *t)
{
    int c, next = 0;
    for (;;) {
        do {
            c = getc_unlocked(t->file);
            t->line += c == '\n';
        } while (c != EOF && isspace(c));
        if (c == '/' && (next = getc_unlocked(t->file)) != '/') {
            ungetc(next, t->file); /* does nothing if `next` is EOF */
            return c;
        }
        if (c != '#' && c != '/')
            return c;
        do
            c = getc_unlocked(t->file);
        while (c != EOF && c != '\n');
        t->line += c == '\n';
    }
}

/* Reads the next word. Sets *n to its length, 0 at the end of the file. */
static int next_word(struct text *t, char ret[MOST_CHARS], uint32_t *n)
{
    int c = skip_blanks(t);
    *n = 0;
    for (; c != EOF && !isspace(c); c = getc_unlocked(t->file)) {
        if (*n + 1 == MOST_CHARS)
            return refuse(t, "a word that is too long for a number", NULL);
        ret[(*n)++] = (char)c;
    }
    ret[*n] = '\0';
    if (c != EOF)
        ungetc(c, t->file);
    return ferror(t->file) ? ts_fail_errno(t->err, TS_EIO, "%s", t->path) : 0;
}

static int take_size(struct text *t, const char *name, uint64_t *ret)
{
    char word[MOST_CHARS], *end;
    uint32_t n;
    const int rc = next_word(t, word, &n);
    if (rc < 0)
        return rc;
    errno = 0;
    *ret = strtoull(word, &end, 10);
    return n > 0 && isdigit((unsigned char)word[0]) && *end == '\0' && errno == 0
               ? 0
               : refuse(t, name, word);
}

static int take_head(struct text *t, struct ts_dense_array *a)
{
    char word[MOST_CHARS];
    uint64_t order;
    uint32_t n;
    int rc = next_word(t, word, &n);
    if (rc == 0 && strcmp(word, "tensor") != 0)
        rc = refuse(t, "not a dense tensor as text, whose first word is tensor, but", word);
    if (rc == 0)
        rc = take_size(t, "no order, but", &order);
    if (rc == 0)
        a->order = order > UINT32_MAX ? UINT32_MAX : (uint32_t)order;
    for (uint32_t m = 0; rc == 0 && m < a->order && m < TS_DENSE_MAX_ORDER; m++)
        rc = take_size(t, "no size of a mode, but", &a->dim[m]);
    return rc;
}

static int take_cells(struct text *t, uint64_t n_cells, double *cell)
{
    char word[MOST_CHARS], *end;
    uint32_t n;
    int rc = 0;
    for (uint64_t i = 0; i <= n_cells && rc == 0; i++) {
        rc = next_word(t, word, &n);
        if (rc < 0)
            return rc;
        if (n == 0 && i < n_cells)
            return ts_fail(t->err, TS_EFORMAT,
                           "%s: line %" PRIu64 ": the file ends after %" PRIu64 " of %" PRIu64
                           " cells",
                           t->path, t->line, i, n_cells);
        if (n > 0 && i == n_cells)
            return refuse(t, "the sizes say that all cells are read, but there is", word);
        if (i == n_cells)
            break;
        cell[i] = ts_strtod(word, &end);
        if (*end != '\0')
            rc = refuse(t, "not a number:", word);
    }
    return rc;
}

static int read_text(struct text *t, struct ts_tensor **ret)
{
    struct ts_dense_array a = { .path = t->path, .type = TS_CELL_F64, .fortran = 1 };
    struct ts_tensor *tensor;
    int rc = take_head(t, &a);
    if (rc == 0)
        rc = ts_dense_open(&a, &tensor, t->err); /* checks the shape */
    if (rc < 0)
        return rc;
    tensor->dense->own_bytes = tensor->dense->cells * sizeof(double);
    rc = ts_bigmem_new(tensor->dense->own_bytes, "a tensor that is text", &tensor->dense->own,
                       t->err);
    if (rc == 0)
        rc = take_cells(t, tensor->dense->cells, tensor->dense->own);
    tensor->dense->array.memory = tensor->dense->own;
    if (rc == 0)
        *ret = tensor;
    else
        ts_tensor_close(tensor);
    return rc;
}

int ts_dense_text(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    struct text t = { .file = fopen(path, "re"), .path = path, .line = 1, .err = err };
    int rc;
    if (t.file == NULL)
        return ts_fail_errno(err, TS_EIO, "%s", path);
    rc = read_text(&t, ret);
    fclose(t.file);
    return rc;
}
