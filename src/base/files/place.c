/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests whether two paths lead to the same file, or one is inside the other. */
#include "base/files/place.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/atomic_out.h"
#include "base/files/fd.h"

/* The file that marks a directory as a tensor (format/layout.h). */
#define INDEX        "index"
#define INDEX_BEGINS "TSHINDEX"

/* A path as the file system sees it. */
struct where {
    char *real;     /* path without links; NULL: no file or directory */
    struct stat st; /* set if the path exists */
    int exists;
};

/* Returns the path without links. If the name does not exist, returns the path of its directory
 * without links, followed by the name. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL), *copy, *slash, *dir, *joined = NULL;
    size_t n = strlen(path);
    if (real != NULL || n == 0)
        return real;
    copy = strdup(path);
    while (copy != NULL && n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    slash = copy == NULL ? NULL : strrchr(copy, '/');
    if (slash != NULL)
        *slash = '\0';
    dir = copy == NULL    ? NULL
          : slash == NULL ? realpath(".", NULL)
          : slash == copy ? strdup("")
                          : real_path(copy);
    if (dir != NULL &&
        asprintf(&joined, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, slash ? slash + 1 : copy) < 0)
        joined = NULL;
    free(dir);
    free(copy);
    return joined;
}

static int find(const char *path, const char *suffix, struct where *w, struct ts_err *err)
{
    *w = (struct where){ 0 };
    w->real = real_path(path);
    if (w->real == NULL)
        return ts_no_memory(err, path);
    if (suffix[0] != '\0') {
        char *longer;
        if (asprintf(&longer, "%s%s", w->real, suffix) < 0)
            return ts_no_memory(err, path);
        free(w->real);
        w->real = longer;
    }
    w->exists = stat(w->real, &w->st) == 0;
    if (w->exists && !S_ISREG(w->st.st_mode) && !S_ISDIR(w->st.st_mode)) {
        free(w->real);
        w->real = NULL;
    }
    return 0;
}

static int same(const struct where *a, const struct where *b)
{
    return strcmp(a->real, b->real) == 0 ||
           (a->exists && b->exists && a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino);
}

/* Whether `a` is inside the directory `b`, under any name of `b`. */
static int inside(const struct where *a, const struct where *b)
{
    char *up = strdup(a->real), *slash;
    int is = 0;
    while (up != NULL && !is && (slash = strrchr(up, '/')) != NULL && up[0] != '\0') {
        struct stat st;
        *slash = '\0';
        is = strcmp(up, b->real) == 0 ||
             (b->exists && S_ISDIR(b->st.st_mode) && stat(up[0] == '\0' ? "/" : up, &st) == 0 &&
              st.st_dev == b->st.st_dev && st.st_ino == b->st.st_ino);
    }
    free(up);
    return is;
}

static int fail_same(const struct ts_place *out, int exists, const struct ts_place *other,
                     struct ts_err *err)
{
    if (other->suffix == NULL && exists)
        return ts_fail(err, TS_EBUSY, "%s exists, and it is read as %s; name another place with %s",
                       out->path, other->path, out->option);
    return ts_fail(err, TS_EARG,
                   "%s and %s are one place, or need one while they are written; name another with "
                   "%s",
                   out->path, other->path, out->option);
}

static int fail_two(const struct ts_place *out, const struct ts_place *other, const char *relation,
                    struct ts_err *err)
{
    return ts_fail(err, TS_EARG, "%s %s %s, which is %s; name another place with %s", out->path,
                   relation, other->path, other->suffix == NULL ? "read" : "written too",
                   out->option);
}

static int compare(const struct ts_place *out, const struct where *w, const struct ts_place *other,
                   const struct where *o, struct ts_err *err)
{
    if (w->real == NULL || o->real == NULL)
        return 0;
    if (same(w, o))
        return fail_same(out, w->exists, other, err);
    if (inside(w, o) && !other->beside)
        return fail_two(out, other, "lies in", err);
    if (inside(o, w))
        return fail_two(out, other, "would replace the directory of", err);
    return 0;
}

static int is_none(const struct ts_place *p)
{
    return p->path == NULL || p->path[0] == '\0' || strcmp(p->path, "-") == 0;
}

/* Compares one of the two names of an output with a name of `other`. first 1: the name under which
 * it is written, with the suffix; 0: its final name. */
static int check_names(const struct ts_place *out, int first, const struct ts_place *other,
                       int other_first, struct ts_err *err)
{
    struct where w, o;
    int rc = find(out->path, first ? out->suffix : "", &w, err);
    if (rc == 0) {
        rc = find(other->path, other_first ? other->suffix : "", &o, err);
        if (rc == 0)
            rc = compare(out, &w, other, &o, err);
        free(o.real);
    }
    free(w.real);
    return rc;
}

static int is_tensor(const char *path)
{
    char head[sizeof INDEX_BEGINS - 1];
    const int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int is = dir >= 0 && ts_atomic_head(dir, INDEX, head, sizeof head) == sizeof head &&
                   memcmp(head, INDEX_BEGINS, sizeof head) == 0;
    ts_fd_close(dir);
    return is;
}

/* Fails if an output lies in the directory of a tensor. A new file there, such as `part` or
 * `mode1.labels`, would be read as a file of the tensor. */
static int check_directory(const struct ts_place *out, struct ts_err *err)
{
    struct where w;
    char *slash;
    int rc = find(out->path, "", &w, err);
    if (rc == 0 && w.real != NULL && (slash = strrchr(w.real, '/')) != NULL && slash > w.real) {
        *slash = '\0';
        if (is_tensor(w.real))
            rc = ts_fail(err, TS_EARG, "%s lies in the tensor %s; name another place with %s",
                         out->path, w.real, out->option);
    }
    free(w.real);
    return rc;
}

int ts_place_check(const struct ts_place *place, uint32_t n, struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        if (is_none(&place[i]) || place[i].suffix == NULL)
            continue;
        rc = check_directory(&place[i], err);
        for (uint32_t k = 0; k < n && rc == 0; k++) {
            const int out = place[k].suffix != NULL;
            if (k == i || is_none(&place[k]) || (out && k < i))
                continue;
            for (int first = 0; first < 2 && rc == 0; first++)
                for (int other = 0; other <= out && rc == 0; other++)
                    rc = check_names(&place[i], first, &place[k], other, err);
        }
    }
    return rc;
}
