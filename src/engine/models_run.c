/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes models.run. */
#include "engine/models_run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/setting.h"
#include "model/model_files.h"

#define PARTIAL    ".partial"
#define HEAD_BYTES sizeof TS_MODELS_MAGIC /* with its NUL */
#define MAX_BYTES  (TS_STATE_MAX_OPTIONS + 256)

static char *result_name(const char *name)
{
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/')
        n--;
    if (n > sizeof PARTIAL - 1 &&
        strncmp(name + n - (sizeof PARTIAL - 1), PARTIAL, sizeof PARTIAL - 1) == 0)
        n -= sizeof PARTIAL - 1;
    return strndup(name, n);
}

int ts_models_run_open(const char *name, struct ts_models_run *ret, struct ts_err *err)
{
    char *dir = result_name(name), *partial = NULL, *text = malloc(MAX_BYTES);
    int fd = -1, rc = 0, replaced;
    long n = -1;
    if (dir == NULL || text == NULL || asprintf(&partial, "%s" PARTIAL, dir) < 0) {
        partial = NULL;
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
    }
    replaced = rc == 0 && ts_atomic_dir_replaced(dir); /* PARTIAL is no run, but what a kill left */
    if (rc == 0 && !replaced)
        fd = open(partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        n = ts_atomic_head(fd, TS_MODELS_RUN, text, MAX_BYTES);
    if (fd >= 0)
        close(fd);
    if (n >= 0 && ((size_t)n <= HEAD_BYTES || (size_t)n == MAX_BYTES || text[n - 1] != '\0' ||
                   memcmp(text, TS_MODELS_MAGIC, HEAD_BYTES) != 0))
        rc = ts_fail(err, TS_EFORMAT,
                     "%s/" TS_MODELS_RUN ": does not hold the options of a run of several models",
                     partial);
    else if (rc == 0 && n < 0 && (replaced || access(partial, F_OK) != 0) && ts_models_there(dir))
        rc = ts_fail(err, TS_EARG,
                     "%s: all its models are done, so that there is nothing to go on with; for "
                     "more " TS_SET_SWEEPS " of one of them, " TS_SET_RESUME " %s/NAME",
                     dir, dir);
    free(partial);
    if (rc == 0 && n >= 0) {
        ret->dir = dir;
        ret->text = text;
        ret->options.options = text + HEAD_BYTES;
        ret->options.options_bytes = (uint64_t)n - HEAD_BYTES;
        return 0;
    }
    free(dir);
    free(text);
    return rc;
}

void ts_models_run_close(struct ts_models_run *r)
{
    free(r->dir);
    free(r->text);
    memset(r, 0, sizeof *r);
}

int ts_models_dir_open(const char *path, int force, int resume, int resumable,
                       struct ts_atomic_dir **ret, struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = path,
                                         .suffix = PARTIAL,
                                         .place = TS_SET_OUT,
                                         .what = "decomposition",
                                         .force = force,
                                         .resume = resume,
                                         .resumable = resumable,
                                         .kind = ts_model_kind_of };
    return ts_atomic_dir_open(&conf, ret, err);
}

int ts_models_run_write(const struct ts_atomic_dir *dir, const char *options, uint64_t bytes,
                        uint64_t tensor_hash, struct ts_err *err)
{
    const char *where = ts_atomic_dir_partial(dir);
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int rc = 0;
    if (f != NULL) {
        fwrite(TS_MODELS_MAGIC, 1, HEAD_BYTES, f);
        fwrite(options, 1, bytes, f);
        fprintf(f, "checksum=%016" PRIx64 "%c", tensor_hash, 0);
    }
    if (f == NULL || fclose(f) != 0)
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", where);
    if (rc == 0)
        rc = ts_atomic_put(ts_atomic_dir_fd(dir), where, TS_MODELS_RUN, text, n, TS_ATOMIC_DURABLE,
                           err);
    free(text);
    return rc;
}

int ts_models_run_check(const struct ts_models_run *r, const char *tensor, uint64_t tensor_hash,
                        struct ts_err *err)
{
    const char *was = ts_state_option(&r->options, "checksum");
    char now[17];
    snprintf(now, sizeof now, "%016" PRIx64, tensor_hash);
    if (was != NULL && strcmp(was, now) == 0)
        return 0;
    return ts_fail(err, TS_EARG, "%s: its models are of another tensor than %s", r->dir, tensor);
}
