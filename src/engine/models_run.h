/* SPDX-License-Identifier: BSD-3-Clause */
/* models_run.h - the file models.run: the options of a run of several models, from which --resume
 * continues it.
 *
 * The file has the word TSHMODELS and then strings "name=value", each ended by a NUL: "version",
 * the options (cpd/state/run_options.h), "checksum" of the tensor's index, and "xxh3", the checksum
 * of the file up to there. Files of 0.2.0 and older versions have no version and no checksum of
 * their own.
 *
 *   owner    the struct owns its strings until close
 *   threads  one thread calls
 *   errors   0 or a negative ts_code; the file is untrusted
 */
#ifndef TS_ENGINE_MODELS_RUN_H
#define TS_ENGINE_MODELS_RUN_H

#include "base/files/atomic_out.h"
#include "base/files/open_dir.h"
#include "cpd/state/state.h"

struct ts_models_run {
    char *dir;              /* path of the result X.cp; NULL: nothing is open */
    struct ts_open_dir *in; /* X.cp.partial, which the file was read from */
    char *path;             /* path of the file, for messages */
    int unsealed;           /* 1: the file has no checksum, because an earlier version wrote it */
    char *text;
    /* the text of the options that the file records; other members are not set */
    struct ts_state options;
};

/* Opens the file of an unfinished run. `name` is X.cp or X.cp.partial. ret->dir stays NULL if there
 * is no run of several models with that name. TS_EARG if the run is finished. */
int ts_models_run_open(const char *name, struct ts_models_run *ret, struct ts_err *err);
void ts_models_run_close(struct ts_models_run *r); /* r may be all zero */

/* A message about `path`, a models.run file without a checksum. */
#define TS_MODELS_RUN_UNSEALED \
    "%s: version 0.2.0 or before wrote it without a checksum; its options are possible, but a damaged one would not be noticed"

/* Opens X.cp.partial for a run that writes the directory X.cp. from: the run to be resumed, whose
 * models stay; NULL: a new run. Fails if X.cp.partial is not the directory that `from` was read
 * from. resumable: messages say that the run can be resumed. */
int ts_models_dir_open(const char *path, int force, const struct ts_models_run *from, int resumable,
                       struct ts_atomic_dir **ret, struct ts_err *err);

/* Checks that the directory of the resumed run is still the one from which models.run was read. r
 * NULL: no run is resumed. */
int ts_models_run_check_place(const struct ts_models_run *r, struct ts_err *err);

/* Writes models.run into the directory `dir`: `bytes` bytes of options, as in a state. */
int ts_models_run_write(const struct ts_atomic_dir *dir, const char *options, uint64_t bytes,
                        uint64_t tensor_hash, struct ts_err *err);

/* Checks that the run was made on this tensor. tensor, tensor_hash: its path, and the checksum of
 * its index. */
int ts_models_run_check(const struct ts_models_run *r, const char *tensor, uint64_t tensor_hash,
                        struct ts_err *err);

#endif
