/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses and makes names of arrays that include a type, sizes or a dataset. */
#include "format/arrays/array_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns where the text after the last colon before `end` begins; 0 if there is no colon. */
static size_t part_before(const char *name, size_t end)
{
    while (end > 0 && name[end - 1] != ':')
        end--;
    return end;
}

static int is_dims(const char *at, size_t n)
{
    size_t i = 0;
    int some = 0;
    for (; i < n; i++) {
        if (at[i] == 'x' && (i == 0 || !isdigit((unsigned char)at[i - 1])))
            return 0;
        if (at[i] != 'x' && !isdigit((unsigned char)at[i]))
            return 0;
        some |= at[i] == 'x';
    }
    return some && isdigit((unsigned char)at[n - 1]);
}

/* Whether the n characters are a type code like f8: a letter and a digit, after an optional < or
 * >. */
static int is_dtype(const char *at, size_t n)
{
    if (n == 3 && (*at == '<' || *at == '>')) {
        at++;
        n--;
    }
    return n == 2 && isalpha((unsigned char)at[0]) && isdigit((unsigned char)at[1]);
}

size_t ts_array_name_cells(const char *name)
{
    const size_t n = strlen(name), dims = part_before(name, n);
    size_t end = dims, type;
    if (dims == 0 || !is_dims(name + dims, n - dims))
        return 0;
    if (end > 3 && name[end - 3] == ':' && (name[end - 2] == 'F' || name[end - 2] == 'C'))
        end -= 2;
    type = part_before(name, end - 1);
    return type > 1 && is_dtype(name + type, end - 1 - type) ? type - 1 : 0;
}

size_t ts_array_name_dataset(const char *name)
{
    const char *at = strstr(name, ":/");
    struct stat st;
    char *file;
    int there;
    if (at == NULL || at == name || at[2] == '\0')
        return 0;
    file = strndup(name, (size_t)(at - name));
    there = file != NULL && stat(file, &st) == 0 && S_ISREG(st.st_mode);
    free(file);
    return there ? (size_t)(at - name) : 0;
}

static int take_type(const char *name, const char *at, struct ts_dense_array *ret,
                     struct ts_err *err)
{
    const uint16_t one = 1;
    const char own = *(const uint8_t *)&one == 1 ? '<' : '>';
    char code[3] = "";
    ret->swapped = (*at == '<' || *at == '>') && *at != own;
    at += *at == '<' || *at == '>';
    memcpy(code, at, 2);
    if (ts_cell_coded(code, &ret->type))
        return 0;
    return ts_fail(err, TS_EARG,
                   "%s: cells may be f4, f8, i1, i2, i4, i8, u1, u2, u4 or u8, and not %s", name,
                   code);
}

int ts_array_name_parse(const char *name, struct ts_dense_array *ret, struct ts_err *err)
{
    const size_t file = ts_array_name_cells(name);
    const char *dims = strrchr(name, ':') + 1;
    const int rc = take_type(name, name + file + 1, ret, err);
    ret->fortran = dims[-3] == ':' && dims[-2] == 'F';
    ret->order = 0;
    while (rc == 0) {
        char *end;
        if (ret->order == TS_DENSE_MAX_ORDER)
            return ts_fail(err, TS_EARG, "%s: more than %u sizes; a dense tensor has 2 to %u", name,
                           TS_DENSE_MAX_ORDER, TS_DENSE_MAX_ORDER);
        errno = 0;
        ret->dim[ret->order++] = strtoull(dims, &end, 10);
        if (errno != 0)
            return ts_fail(err, TS_EARG, "%s: a size that is too large for any file", name);
        if (*end != 'x')
            break;
        dims = end + 1;
    }
    return rc;
}

char *ts_array_name_make(const char *file, const char *dtype, int fortran, const char *dims)
{
    char *ret;
    return asprintf(&ret, "%s:%s:%s%s", file, dtype, fortran ? "F:" : "", dims) < 0 ? NULL : ret;
}

char *ts_array_name_real(const char *name)
{
    size_t n = ts_array_name_cells(name);
    char *file, *real, *ret = NULL;
    struct stat st;
    if (stat(name, &st) == 0)
        return realpath(name, NULL);
    n = n > 0 ? n : ts_array_name_dataset(name);
    if (n == 0)
        return NULL;
    file = strndup(name, n);
    real = file == NULL ? NULL : realpath(file, NULL);
    if (real != NULL && asprintf(&ret, "%s%s", real, name + n) < 0)
        ret = NULL;
    free(file);
    free(real);
    return ret;
}
