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

#include <xxhash.h>

#include "base/setting.h"
#include "cpd/run_options.h"
#include "model/model_files.h"

#define PARTIAL    ".partial"
#define HEAD_BYTES sizeof TS_MODELS_MAGIC /* with its NUL */
#define MAX_BYTES  (TS_STATE_MAX_OPTIONS + 256)
#define VERSION    "version=2" /* the first string; files before it have no checksum */
#define SUM        "xxh3="     /* the last string: 16 digits, the XXH3-64 of all before it */
#define SUM_BYTES  (sizeof SUM + 16)

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

/* Digits of the checksum of the first n bytes. */
static void sum_text(const char *text, size_t n, char ret[17])
{
    snprintf(ret, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(text, n));
}

/* Whether the n bytes are whole. A file of an earlier version has neither version nor checksum; one changed byte cannot make a
 * later file look like that. */
static int check_text(const char *path, const char *text, size_t n, int *sealed, struct ts_err *err)
{
    const char *options = text + HEAD_BYTES, *sum;
    const char *version = ts_run_options_get(options, n - HEAD_BYTES, "version");
    char found[17];
    *sealed = version != NULL || ts_run_options_get(options, n - HEAD_BYTES, "xxh3") != NULL;
    if (*sealed) {
        if (version == NULL || strcmp(options, VERSION) != 0)
            return ts_fail(err, TS_EFORMAT, "%s: version %.20s, but this program reads version 2",
                           path, version != NULL ? version : "is missing");
        sum = text + n - SUM_BYTES;
        if (n < HEAD_BYTES + sizeof VERSION + SUM_BYTES || memcmp(sum, SUM, sizeof SUM - 1) != 0)
            return ts_fail(err, TS_EFORMAT,
                           "%s: its checksum is missing (it was cut short, or damaged)", path);
        sum_text(text, n - SUM_BYTES, found);
        if (strcmp(sum + sizeof SUM - 1, found) != 0)
            return ts_fail(err, TS_EFORMAT,
                           "%s: the checksum is %s, expected %s (the file is damaged)", path, found,
                           sum + sizeof SUM - 1);
    }
    return ts_run_options_check(path, options, n - HEAD_BYTES, 1, err);
}

/* What every run of several models has said. */
static int check_said(const char *path, const struct ts_state *options, struct ts_err *err)
{
    static const char *const must[] = { "tensor", "rank", "seed", "init", "checksum" };
    for (size_t i = 0; i < sizeof must / sizeof *must; i++)
        if (ts_state_option(options, must[i]) == NULL)
            return ts_fail(err, TS_EFORMAT, "%s: its option \"%s\" is missing", path, must[i]);
    return 0;
}

int ts_models_run_open(const char *name, struct ts_models_run *ret, struct ts_err *err)
{
    char *dir = result_name(name), *partial = NULL, *path = NULL, *text = malloc(MAX_BYTES);
    struct ts_state options = { 0 };
    int fd = -1, rc = 0, replaced, sealed = 0;
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
    if (rc == 0 && n >= 0 && asprintf(&path, "%s/" TS_MODELS_RUN, partial) < 0) {
        path = NULL;
        rc = ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
    }
    if (rc == 0 && n >= 0) {
        rc = check_text(path, text, (size_t)n, &sealed, err);
        options.options = text + HEAD_BYTES;
        options.options_bytes = (uint64_t)n - HEAD_BYTES;
    }
    if (rc == 0 && n >= 0)
        rc = check_said(path, &options, err);
    free(partial);
    if (rc == 0 && n >= 0) {
        *ret = (struct ts_models_run){
            .dir = dir, .path = path, .text = text, .options = options, .unsealed = !sealed
        };
        return 0;
    }
    free(path);
    free(dir);
    free(text);
    return rc;
}

void ts_models_run_close(struct ts_models_run *r)
{
    free(r->dir);
    free(r->path);
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
        char sum[17];
        fwrite(TS_MODELS_MAGIC, 1, HEAD_BYTES, f);
        fwrite(VERSION, 1, sizeof VERSION, f);
        fwrite(options, 1, bytes, f);
        fprintf(f, "checksum=%016" PRIx64 "%c", tensor_hash, 0);
        if (fflush(f) == 0) {
            sum_text(text, n, sum);
            fprintf(f, SUM "%s%c", sum, 0);
        }
    }
    if (f == NULL || (ferror(f) | fclose(f)) != 0)
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
