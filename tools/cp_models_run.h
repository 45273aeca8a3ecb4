/* SPDX-License-Identifier: BSD-3-Clause */
/* cp_models_run.h - models.run, the options of a run of several models: what --resume goes on with.
 *
 * The file is the word TSHMODELS and then strings "name=value", each ended by a NUL: those that a state has
 * (cpd/state.h), and "checksum", that of the tensor's index.
 *
 *   owner    the struct owns its strings until close
 *   threads  one
 *   errors   0 or a negative ts_code; the file is untrusted
 */
#ifndef TS_TOOLS_CP_MODELS_RUN_H
#define TS_TOOLS_CP_MODELS_RUN_H

#include "api/tools.h"

struct cp_models_run {
    char *dir; /* X.cp; NULL: nothing is open */
    char *text;
    struct ts_state options; /* these alone, in text */
};

/* `name` is X.cp or X.cp.partial. ret->dir stays NULL where there is no run of several models of that name;
 * TS_EARG where it is done. */
int cp_models_run_open(const char *name, struct cp_models_run *ret, struct ts_err *err);
void cp_models_run_close(struct cp_models_run *r); /* one of zeros is fine */

/* Writes it into the directory `dir`, whose path is `where`. */
int cp_models_run_write(const struct ts_cmd *cmd, const void *args, const char *tensor,
                        uint64_t tensor_hash, int dir, const char *where, struct ts_err *err);

/* Whether the run was of this tensor. */
int cp_models_run_check(const struct cp_models_run *r, const char *tensor, uint64_t tensor_hash,
                        struct ts_err *err);

#endif
