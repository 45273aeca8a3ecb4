/* SPDX-License-Identifier: BSD-3-Clause */
/* model_files.h - which files belong to a decomposition, and how several decompositions are stored
 * in one directory:
 *
 *     X.cp/r8.s1, r8.s2, ...  a model each, with the same files as a single one: rank 8, seed 1, 2
 *     X.cp/r8.f1, r8.f2, ...  or, with folds: the model computed without fold 1, 2, ...
 *     X.cp/best.r8            a link to the best model of rank 8
 *     X.cp/models.json, .tsv  the table of all models
 *     X.cp/models.run         the options of the run, which --resume reads
 *
 *   owner    *ret is to be freed
 *   threads  any
 *   errors   0 or a negative ts_code
 */
#ifndef TS_MODEL_MODEL_FILES_H
#define TS_MODEL_MODEL_FILES_H

#include <stdint.h>

#include "base/files/atomic_out.h"
#include "base/files/open_dir.h"

/* The file with what a library caller knows about the run of a model that it saves. */
#define TS_MODEL_HISTORY "history.json"
/* the first bytes of TS_MODEL_HISTORY and of run.json */
#define TS_MODEL_RECORD_BEGINS "{\"program\":\"tstream\""

#define TS_MODELS_JSON       "models.json"
#define TS_MODELS_TSV        "models.tsv"
#define TS_MODELS_RUN        "models.run"
#define TS_MODELS_MAGIC      "TSHMODELS" /* first bytes of models.run */
#define TS_MODELS_NAME_CHARS 40

/* Set ret to the name of a model: "r8.s3" for rank 8 and seed 3, or "r8.f2" for rank 8 and fold
 * 2. */
void ts_models_name(uint32_t rank, uint64_t seed, char ret[TS_MODELS_NAME_CHARS]);
void ts_models_fold_name(uint32_t rank, uint32_t fold, char ret[TS_MODELS_NAME_CHARS]);

/* Returns the kind of a file in the directory of a decomposition, for struct ts_atomic_conf. */
enum ts_atomic_kind ts_model_kind_of(int dir, const char *name, int whole);

/* Whether the open directory has a decomposition of which a file `name` in it would be read as a
 * part. */
int ts_model_would_be_part(int dir, const char *name);

/* Whether the directory holds several models. */
int ts_models_there(const char *path);
int ts_models_there_in(const struct ts_open_dir *dir);

/* Whether the unfinished result X.cp.partial has models, or the state of one, so that a run of
 * several models can be resumed from it. */
int ts_models_kept(const char *partial);
int ts_models_kept_in(const struct ts_open_dir *partial);

/* If the open directory has several models, replaces *dir by the directory of the best one. TS_EARG
 * if there are best models of several ranks; the message names them. */
int ts_models_best(struct ts_open_dir **dir, struct ts_err *err);

#endif
