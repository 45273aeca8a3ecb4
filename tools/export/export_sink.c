/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes text or gzip members to standard output or to a file that appears at the end. */
#include "config.h"

#include "tools/export/export_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "api/tools.h"
#include "tools/common/tool.h"
#include "tools/common/tool_term.h"

/* Compression level of zlib. For 95 MB of text on one core, level 6 makes 34.1 MB in 5.3 s, level 4
 * 35.0 MB in 1.7 s, level 1 38.2 MB in 1.1 s. */
#define LEVEL 4

const char *export_sink_name(const struct export_sink *s)
{
    return s->file == NULL ? "standard output" : ts_atomic_file_path(s->file);
}

int export_sink_is_screen(const char *path, int is_lines)
{
    return is_lines && (path == NULL || strcmp(path, "-") == 0) && tool_is_screen();
}

static int ends_in(const char *path, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n > m && memcmp(path + n - m, end, m) == 0;
}

void export_sink_note_table(const struct ts_cmd *cmd, const char *path, int is_table)
{
    size_t n = path == NULL ? 0 : strlen(path);
    int csv;
    n -= path != NULL && ends_in(path, n, ".gz") ? 3 : 0;
    csv = path != NULL && ends_in(path, n, ".csv");
    if (!is_table && (csv || (path != NULL && ends_in(path, n, ".tsv"))))
        tool_note(
            cmd,
            "%s: lines of indices and numbers, divided by blanks; --format %s writes a table with names",
            path, csv ? "csv" : "tsv");
}

int export_sink_open(const char *path, int force, const char *option, struct export_sink *ret,
                     struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = path,
                                         .suffix = ".partial",
                                         .what = "text",
                                         .place = option,
                                         .force = force,
                                         .looks = tool_looks_written };
    struct export_sink s = { .fd = STDOUT_FILENO };
    int rc = tool_writes_file(path, option, err);
    if (rc < 0)
        return rc;
    if (path == NULL || strcmp(path, "-") == 0) {
        *ret = s;
        return 0;
    }
    rc = ts_atomic_file_open(&conf, &s.file, err);
    if (rc < 0)
        return rc;
    s.fd = ts_atomic_file_fd(s.file);
    s.gzip = ends_in(path, strlen(path), ".gz");
    *ret = s;
    return 0;
}

int export_sink_write(struct export_sink *s, const char *bytes, size_t n, struct ts_err *err)
{
    char *shown = NULL;
    int rc = tool_plain_terminal(s->fd, &bytes, &n, &shown, err);
    while (n > 0 && rc == 0) {
        const ssize_t done = write(s->fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            rc = ts_fail_errno(err, TS_EIO, "%s: writing", export_sink_name(s));
        bytes += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
        s->written += done > 0 ? (uint64_t)done : 0;
    }
    free(shown);
    return rc;
}

int export_sink_commit(struct export_sink *s, struct ts_err *warn, struct ts_err *err)
{
    struct stat st;
    if (s->file != NULL)
        return ts_atomic_file_commit(s->file, warn, err);
    if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == s->written)
        /* standard output was redirected to a file, which has only this command's text */
        ts_written_end(s->fd);
    return 0;
}

void export_sink_close(struct export_sink *s)
{
    ts_atomic_file_close(s->file);
    *s = (struct export_sink){ .fd = -1 };
}

int export_sink_pack(const char *bytes, size_t n, char **ret, size_t *room, size_t *ret_n,
                     struct ts_err *err)
{
    z_stream z = { 0 };
    size_t bound;
    int rc;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ts_fail(err, TS_ENOMEM, "no memory to compress");
    bound = deflateBound(&z, (uLong)n);
    if (bound > *room) {
        free(*ret);
        *ret = malloc(bound);
        *room = *ret == NULL ? 0 : bound;
    }
    if (*ret == NULL) {
        deflateEnd(&z);
        return ts_fail(err, TS_ENOMEM, "no memory to compress");
    }
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)*ret;
    z.avail_out = (uInt)bound;
    rc = deflate(&z, Z_FINISH);
    *ret_n = z.total_out;
    deflateEnd(&z);
    return rc == Z_STREAM_END ? 0 : ts_fail(err, TS_EIO, "compressing failed (zlib code %d)", rc);
}
