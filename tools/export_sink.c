#include "config.h"

#include "tools/export_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/out_name.h"

/* Of 95 MB of text level 6 makes 34.1 MB in 5.3 s of one core, level 4 makes 35.0 MB in 1.7 s, level 1
 * 38.2 MB in 1.1 s. */
#define LEVEL 4

static const char *name(const struct export_sink *s)
{
    return s->path == NULL ? "standard output" : s->path;
}

int export_sink_open(const char *path, struct export_sink *ret, struct ts_err *err)
{
    struct export_sink s = { .fd = STDOUT_FILENO };
    struct stat st;
    char *real;
    size_t len;
    int rc;
    if (path == NULL || strcmp(path, "-") == 0) {
        *ret = s;
        return 0;
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return ts_fail(err, TS_EARG, "%s: is a directory, and text goes to a file", path);
    rc = ts_out_name(path, &real, err);
    if (rc < 0)
        return rc;
    len = strlen(path);
    s.gzip = len > 3 && strcmp(path + len - 3, ".gz") == 0;
    s.path = real == NULL ? strdup(path) : real;
    s.fd = -1;
    if (real != NULL && asprintf(&s.tmp_path, "%s.tmp-%ld", real, (long)getpid()) < 0)
        s.tmp_path = NULL;
    if (s.path == NULL || (real != NULL && s.tmp_path == NULL)) {
        export_sink_close(&s);
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", path);
    }
    s.fd = real == NULL ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) /* has no temporary name */
                        : open(s.tmp_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (s.fd < 0) {
        rc = ts_fail_errno(err, TS_EIO, "%s: cannot create", path);
        free(s.tmp_path); /* not made by us: not ours to remove */
        s.tmp_path = NULL;
        export_sink_close(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

int export_sink_write(struct export_sink *s, const char *bytes, size_t n, struct ts_err *err)
{
    while (n > 0) {
        const ssize_t done = write(s->fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return ts_fail_errno(err, TS_EIO, "%s: writing", name(s));
        bytes += done;
        n -= (size_t)done;
        s->written += (uint64_t)done;
    }
    return 0;
}

int export_sink_commit(struct export_sink *s, struct ts_err *err)
{
    int rc;
    if (s->path == NULL)
        return 0;
    rc = close(s->fd);
    s->fd = -1;
    if (rc < 0 || (s->tmp_path != NULL && rename(s->tmp_path, s->path) < 0))
        return ts_fail_errno(err, TS_EIO, "%s: cannot be put in place", s->path);
    free(s->tmp_path);
    s->tmp_path = NULL;
    return 0;
}

void export_sink_close(struct export_sink *s)
{
    if (s->path != NULL && s->fd >= 0)
        close(s->fd);
    if (s->tmp_path != NULL)
        unlink(s->tmp_path);
    free(s->tmp_path);
    free(s->path);
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
