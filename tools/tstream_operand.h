/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_operand.h - which tensor, and which decomposition, a command means.
 *
 *   owner    strings returned are to be freed
 *   errors   0 or TS_EARG, with a sentence that lists what there is
 */
#ifndef TS_TOOLS_TSTREAM_OPERAND_H
#define TS_TOOLS_TSTREAM_OPERAND_H

#include "api/tools.h"

/* Finds the directory that an operand means. If operand is NULL, it is the only directory of the
 * current directory whose name ends with `suffix` (".tsh", ".cp"). `what` is the word for it in
 * messages: "tensor". */
int tstream_operand(const char *operand, const char *suffix, const char *what, char **ret,
                    struct ts_err *err);

/* A command's work on the tensor that its operand (NULL: the directory) names, signals caught and a
 * failure said: returns the exit status. */
int tstream_operand_work(const struct ts_cmd *cmd, const char *operand, const void *args,
                         int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                     struct ts_err *err));

/* "data/amazon.tsh" with ".cp": "amazon.cp", in the current directory. */
char *tstream_operand_swap(const char *tensor, const char *suffix);

#endif
