/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads and writes the file models.run. */
#include "engine/models_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/setting.h"
#include "cpd/state/run_dirs.h"
#include "cpd/state/run_options.h"
#include "model/model_files.h"

#define PARTIAL ".partial"
/* bytes of the word at the start of the file, with its NUL */
#define HEAD_BYTES sizeof TS_MODELS_MAGIC
#define MAX_BYTES  (TS_STATE_MAX_OPTIONS + 256)
#define VERSION    "version=2" /* the first string; files of older versions have no checksum */
/* the last string is this and 16 digits, the XXH3-64 of everything before it */
#define SUM       "xxh3="
#define SUM_BYTES (sizeof SUM + 16)

/* ret := the digits of the checksum of the first n bytes of the text. */
static void sum_text(const char *text, size_t n, char ret[17])
{
    snprintf(ret, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(text, n));
}

/* Checks that the n bytes of the file are complete. A file of an older version has neither version
 * nor checksum; no single changed byte makes a newer file look like that. */
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

/* Checks that the file has the options that every run of several models records. */
static int check_said(const char *path, const struct ts_state *options, struct ts_err *err)
{
    static const char *const must[] = { "tensor", "rank", "seed", "init", "checksum" };
    for (size_t i = 0; i < sizeof must / sizeof *must; i++)
        if (ts_state_option(options, must[i]) == NULL)
            return ts_fail(err, TS_EFORMAT, "%s: its option \"%s\" is missing", path, must[i]);
    return 0;
}

/* Parses the n bytes of r->text, which must be strings "name=value". r keeps owning them. */
static int take_text(struct ts_models_run *r, const char *partial, size_t n, struct ts_err *err)
{
    int rc, sealed = 0;
    if (n <= HEAD_BYTES || n == MAX_BYTES || r->text[n - 1] != '\0' ||
        memcmp(r->text, TS_MODELS_MAGIC, HEAD_BYTES) != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s/" TS_MODELS_RUN ": does not hold the options of a run of several models",
                       partial);
    if (asprintf(&r->path, "%s/" TS_MODELS_RUN, partial) < 0) {
        r->path = NULL;
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", partial);
    }
    rc = check_text(r->path, r->text, n, &sealed, err);
    r->options.options = r->text + HEAD_BYTES;
    r->options.options_bytes = (uint64_t)n - HEAD_BYTES;
    r->unsealed = !sealed;
    return rc == 0 ? check_said(r->path, &r->options, err) : rc;
}

/* Finds the file models.run of a run (a ts_run_dirs_fn). Sets r->path if there is one. */
static int find_run(void *ctx, const struct ts_run_dirs *d, struct ts_err *err)
{
    struct ts_models_run *r = ctx;
    long n = -1;
    free(r->path);
    r->path = NULL;
    if (d->partial != NULL && !d->is_left)
        n = ts_atomic_head(ts_open_dir_fd(d->partial), TS_MODELS_RUN, r->text, MAX_BYTES);
    if (n >= 0)
        return take_text(r, d->partial_name, (size_t)n, err);
    if ((d->is_left || d->partial == NULL) && d->result != NULL && ts_models_there_in(d->result))
        return ts_fail(err, TS_EARG,
                       "%s: all its models are done, so there is nothing to continue; for "
                       "more " TS_SET_SWEEPS " of one of them, " TS_SET_RESUME " %s/NAME",
                       d->name, d->name);
    return 0;
}

int ts_models_run_open(const char *name, struct ts_models_run *ret, struct ts_err *err)
{
    struct ts_models_run r = { .text = malloc(MAX_BYTES) };
    struct ts_run_dirs d;
    int rc;
    if (r.text == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
    rc = ts_run_dirs_read(name, find_run, &r, &d, err);
    if (rc == 0 && r.path != NULL) {
        r.dir = d.name;
        r.in = d.partial;
        d.name = NULL;
        d.partial = NULL;
        *ret = r;
    } else {
        ts_models_run_close(&r);
    }
    ts_run_dirs_close(&d);
    return rc;
}

void ts_models_run_close(struct ts_models_run *r)
{
    ts_open_dir_close(r->in);
    free(r->dir);
    free(r->path);
    free(r->text);
    memset(r, 0, sizeof *r);
}

int ts_models_run_check_place(const struct ts_models_run *r, struct ts_err *err)
{
    return r != NULL && r->in != NULL && ts_open_dir_replaced(r->in)
               ? ts_open_dir_fail(ts_open_dir_path(r->in), err)
               : 0;
}

int ts_models_dir_open(const char *path, int force, const struct ts_models_run *from, int resumable,
                       struct ts_atomic_dir **ret, struct ts_err *err)
{
    const struct ts_atomic_conf conf = { .path = path,
                                         .suffix = PARTIAL,
                                         .place = TS_SET_OUT,
                                         .what = "decomposition",
                                         .force = force,
                                         .resume = from != NULL,
                                         .resumable = resumable,
                                         .kind = ts_model_kind_of };
    struct ts_atomic_dir *d = NULL;
    int rc = ts_atomic_dir_open(&conf, &d, err);
    if (rc == 0)
        rc = ts_models_run_check_place(from, err);
    if (rc == 0)
        *ret = d;
    else
        ts_atomic_dir_close(d);
    return rc;
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
