/* SPDX-License-Identifier: BSD-3-Clause */
/* Flushes standard output, checks the places of outputs, and recognizes files that the programs
 * wrote. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/common/tool.h"

/* errno of the first failed flush of standard output; errno itself is overwritten before a command
 * ends */
static int flush_errno;

static char in_place[4096]; /* path of the result, "" before there is one */

void tool_in_place(const char *path)
{
    snprintf(in_place, sizeof in_place, "%s", path);
}

const char *tool_plural(uint64_t n)
{
    return ts_num_plural(n);
}

const char *tool_ended(const char *ended)
{
    return strcmp(ended, "iterations") == 0 ? "not converged" : ended;
}

void tool_flush(void)
{
    if (fflush(stdout) != 0 && flush_errno == 0)
        flush_errno = errno;
}

int tool_flushed(struct ts_err *err)
{
    tool_flush();
    if (flush_errno == 0 && !ferror(stdout))
        return 0;
    errno = flush_errno != 0 ? flush_errno : EIO;
    if (in_place[0] != '\0' && errno == EPIPE)
        return 0; /* the reader closed the pipe, and the result exists */
    if (in_place[0] != '\0')
        return ts_fail_errno(err, TS_EIO, "%s is in place, but standard output cannot be written",
                             in_place);
    return ts_fail_errno(err, TS_EIO, "standard output: cannot be written");
}

/* ---- inputs and outputs of the command ---- */

static struct ts_place *places; /* inputs and outputs of the command, kept until the program ends */
static uint32_t n_places;

static int add_place(struct ts_place place, struct ts_err *err)
{
    struct ts_place *more = realloc(places, (n_places + 1) * sizeof *places);
    place.path = strdup(place.path);
    if (more != NULL)
        places = more;
    if (more == NULL || place.path == NULL) {
        free((char *)(uintptr_t)place.path);
        return ts_fail(err, TS_ENOMEM, "out of memory");
    }
    places[n_places++] = place;
    return 0;
}

int tool_reads(const char *path, struct ts_err *err)
{
    /* for a dense tensor, whose name may have options after the name of its file: length of the
     * file's name */
    const size_t file = path == NULL ? 0 : ts_array_name_cells(path);
    char *name;
    int rc;
    if (path == NULL)
        return 0;
    name = file > 0 ? strndup(path, file) : strdup(path);
    rc = name == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", path)
                      : add_place((struct ts_place){ .path = name }, err);
    free(name);
    return rc;
}

int tool_reads_model(const char *path, struct ts_err *err)
{
    return path == NULL ? 0 : add_place((struct ts_place){ .path = path, .beside = 1 }, err);
}

/* Fails if standard output is a file that the command reads: `tstream predict X.cp cells.tns >>
 * cells.tns`. */
static int check_standard(struct ts_err *err)
{
    struct stat out, in;
    if (fstat(STDOUT_FILENO, &out) != 0 || !S_ISREG(out.st_mode))
        return 0;
    for (uint32_t i = 0; i < n_places; i++)
        if (places[i].suffix == NULL && stat(places[i].path, &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return ts_fail(err, TS_EARG, "%s is read, and standard output leads to it",
                           places[i].path);
    return 0;
}

/* Fails for a path in a decomposition's directory, whose files are only replaced together. */
static int check_part(const char *path, const char *option, struct ts_err *err)
{
    char *copy[2] = { strdup(path), strdup(path) };
    const char *name = copy[1] == NULL ? NULL : basename(copy[1]);
    int rc = 0, dir;
    if (copy[0] == NULL || name == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    } else if ((dir = open(dirname(copy[0]), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0) {
        if (ts_model_kind_of(dir, name, 1) == TS_ATOMIC_OURS)
            rc = ts_fail(err, TS_EBUSY,
                         "%s is a file of a decomposition, so it is not replaced alone; name "
                         "another file with %s",
                         path, option);
        else if (ts_model_would_be_part(dir, name))
            rc = ts_fail(err, TS_EARG,
                         "%s would be read as a file of the decomposition beside it; name another "
                         "file with %s",
                         path, option);
        close(dir);
    }
    free(copy[0]);
    free(copy[1]);
    return rc;
}

int tool_writes(const char *path, const char *suffix, const char *option, struct ts_err *err)
{
    int rc;
    if (path == NULL || strcmp(path, "-") == 0)
        return check_standard(err);
    for (uint32_t i = 0; i < n_places; i++)
        if (places[i].suffix != NULL && strcmp(places[i].option, option) == 0 &&
            strcmp(places[i].path, path) == 0)
            /* this is the same output, registered once before the work and once when it is
             * opened */
            return 0;
    rc = add_place((struct ts_place){ .path = path, .suffix = suffix, .option = option }, err);
    if (rc == 0)
        rc = ts_place_check(places, n_places, err);
    return rc;
}

int tool_writes_file(const char *path, const char *option, struct ts_err *err)
{
    const int rc = tool_writes(path, ".partial", option, err);
    return rc == 0 && path != NULL ? check_part(path, option, err) : rc;
}

/* ---- files that the programs wrote ---- */

static int begins(const char *head, size_t n, const char *with)
{
    return n >= strlen(with) && memcmp(head, with, strlen(with)) == 0;
}

/* Whether a line of text ends in a number after a blank, comma or tab. */
static int ends_in_number(const char *line, size_t n)
{
    size_t at = n;
    while (at > 0 && strchr("0123456789+-.einfa", line[at - 1]) != NULL)
        at--;
    return at < n && at > 0 && strchr(" ,\t", line[at - 1]) != NULL;
}

/* Whether a text is a table: its first line, or the second after a line of names, ends in a
 * number. */
static int is_table(const char *head, size_t n)
{
    const char *end = memchr(head, '\n', n), *next;
    if (end == NULL)
        return 0;
    if (ends_in_number(head, (size_t)(end - head)))
        return 1;
    next = memchr(end + 1, '\n', n - (size_t)(end + 1 - head));
    return next != NULL && ends_in_number(end + 1, (size_t)(next - end - 1));
}

int tool_looks_written(const char *head, size_t n, int sure)
{
    static const char *const signature[] = {
        "mode,mode_name,index,label,component_1",
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta "
        "name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta "
        "name=\"color-scheme\" content=\"light dark\"/>\n<title>",
    };
    static const char *const likely[] = { "\x93NUMPY", "\x1f\x8b", "ktensor\n", "sptensor\n" };
    for (size_t i = 0; i < sizeof signature / sizeof *signature; i++)
        if (begins(head, n, signature[i]))
            return 1;
    for (size_t i = 0; !sure && i < sizeof likely / sizeof *likely; i++)
        if (begins(head, n, likely[i]))
            return 1;
    return !sure && memchr(head, '\0', n) == NULL && is_table(head, n);
}

/* ---- names of operands ---- */

char *tool_operand(const char *operand, const char *suffix)
{
    struct stat st;
    char *longer;
    if (lstat(operand, &st) == 0 || errno != ENOENT ||
        asprintf(&longer, "%s%s", operand, suffix) < 0)
        return strdup(operand);
    if (stat(longer, &st) == 0)
        return longer;
    free(longer);
    return strdup(operand);
}

int tool_outside(const char *path, const char *tensor, struct ts_err *err)
{
    char *copy = strdup(path);
    struct stat there, own;
    int inside;
    if (copy == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    inside = stat(dirname(copy), &there) == 0 && stat(tensor, &own) == 0 &&
             there.st_dev == own.st_dev && there.st_ino == own.st_ino;
    free(copy);
    return inside ? ts_fail(err, TS_EARG, "%s: lies in the tensor %s itself; name another place",
                            path, tensor)
                  : 0;
}
