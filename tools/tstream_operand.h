/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream_operand.h - finds the tensor or decomposition that an operand names.
 *
 *   owner    the caller frees the strings returned
 *   errors   0 or TS_EARG, with a message that lists the candidates
 */
#ifndef TS_TOOLS_TSTREAM_OPERAND_H
#define TS_TOOLS_TSTREAM_OPERAND_H

#include "api/tools.h"

/* Finds the directory that an operand means. If operand is NULL, it is the only directory of the
 * current directory whose name ends with `suffix` (".tsh", ".cp"). `what` is the word for it in
 * messages: "tensor". */
int tstream_operand(const char *operand, const char *suffix, const char *what, char **ret,
                    struct ts_err *err);

/* Catches signals, finds the tensor that the operand names (NULL: the only one of the directory),
 * and calls work. Prints the message of a failure. Returns the exit status. */
int tstream_operand_work(const struct ts_cmd *cmd, const char *operand, const void *args,
                         int (*work)(const struct ts_cmd *cmd, const void *args, const char *path,
                                     struct ts_err *err));

/* Replaces the ending of a name: "data/amazon.tsh" and ".cp" give "amazon.cp", in the working
 * directory. malloc'ed. */
char *tstream_operand_swap(const char *tensor, const char *suffix);

#endif
