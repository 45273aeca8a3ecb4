/* SPDX-License-Identifier: BSD-3-Clause */
/* build_opts.h - the options and the progress that tshard build, gen, split and select share.
 *
 *   threads  the main thread
 *   errors   0 or a negative ts_code
 */
#ifndef TS_TOOLS_BUILD_OPTS_H
#define TS_TOOLS_BUILD_OPTS_H

#include <stddef.h>

#include "api/tools.h"
#include "tools/common/tool.h"

/* Values of the options that build, gen, split and select share, as a part of their arguments. */
struct build_opts {
    uint64_t memory, shard;
    uint32_t threads;
    const char *tmp;
    int force, values, json, quiet, no_space_check;
};

/* Rows of an option table for a struct build_opts at the offset `base` of a command's arguments. */
/* clang-format off */
#define BUILD_FORCE_OPT(base) \
    { "force", 'f', TS_OPT_FLAG, (base) + offsetof(struct build_opts, force), NULL, NULL, \
      "replace an existing result. The existing result stays until the new one is complete. Files " \
      "that tshard did not write are never touched, and a directory that holds one is refused" }
#define BUILD_PLACE_OPTS(base) \
    { "memory", 'm', TS_OPT_SIZE, (base) + offsetof(struct build_opts, memory), NULL, "SIZE", \
      "memory to use; the rest goes to temporary files. The program itself takes 24M more. " \
      "Default: half of the free memory" }, \
    { "tmp", 0, TS_OPT_STRING, (base) + offsetof(struct build_opts, tmp), NULL, "DIR", \
      "directory for temporary files. Default: $TMPDIR, or the directory of the result" }, \
    { "threads", 't', TS_OPT_U32, (base) + offsetof(struct build_opts, threads), NULL, "N", \
      "number of threads. Default: all CPUs" }, \
    { "shard", 0, TS_OPT_SIZE, (base) + offsetof(struct build_opts, shard), "4M", "SIZE", \
      "largest size of a shard, the unit of reading" }, \
    { "json", 0, TS_OPT_FLAG, (base) + offsetof(struct build_opts, json), NULL, NULL, \
      "print the report as one JSON object" }, \
    TOOL_SPACE_OPT((base) + offsetof(struct build_opts, no_space_check)), \
    TOOL_QUIET_OPT((base) + offsetof(struct build_opts, quiet))
#define BUILD_OPTS(base) \
    BUILD_FORCE_OPT(base), \
    { "values", 0, TS_OPT_CHOICE, (base) + offsetof(struct build_opts, values), "float32", \
      "float32|float64", "precision of the values" }, \
    BUILD_PLACE_OPTS(base)
/* For each of these rows, in their order, the section of --help in which it is printed. */
#define BUILD_SECTIONS(output, room) \
    output, output, room, room, room, room, output, room, output
/* clang-format on */

/* Sets *o from the options: threads and memory (defaults from the machine), limits, progress and
 * the stop flag. `progress` must stay valid until the build ends. */
int build_opts_apply(const struct build_opts *c, struct ts_build_options *o,
                     struct tool_progress *progress, struct ts_err *err);

/* Sets the precision of values, and the treatment of zeros and duplicates, to those of tensor t. */
void build_opts_like(const struct ts_tensor *t, struct ts_build_options *o);

/* Makes a name from the name of a tensor: "dir/amazon.tsh" and ".train.tsh" give
 * "amazon.train.tsh". Returns malloc'ed text; NULL: out of memory. */
char *build_opts_name(const char *path, const char *suffix);

/* Parses sizes of modes like "30x40x50". Returns their number, or a negative code. */
int build_opts_dims(const char *text, uint64_t dim[TS_MAX_ORDER], struct ts_err *err);

#endif
