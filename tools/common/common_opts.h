/* SPDX-License-Identifier: BSD-3-Clause */
/* common_opts.h - rows of option tables that several commands share. `at` is the offset of the
 * option's value in the struct of the command's arguments.
 *
 *   threads  pure
 *   errors   none
 */
#ifndef TS_TOOLS_COMMON_OPTS_H
#define TS_TOOLS_COMMON_OPTS_H

#include "api/tools.h"

/* clang-format off */
#define TOOL_THREADS_OPT(at) \
    { "threads", 't', TS_OPT_U32, at, "0", "N", \
      "number of threads; 0 uses all CPUs. The result does not depend on it" }
#define TOOL_HOST_MEMORY_OPT(at) \
    { "host-memory", 'm', TS_OPT_SIZE, at, NULL, "SIZE", \
      "memory for shards; the rest is streamed from disk. Factor matrices need memory in " \
      "addition. Default: the free memory of the machine, less an eighth and 64M" }
#define TOOL_JSON_OPT(at) \
    { "json", 0, TS_OPT_FLAG, at, NULL, NULL, "print one JSON object on standard output" }
#define TOOL_NUMBERS_OPT(at) \
    { "numbers", 0, TS_OPT_FLAG, at, NULL, NULL, "indices instead of names in a table" }
#define TOOL_OUTPUT_FILE_OPT(at) \
    { "output", 'o', TS_OPT_STRING, at, NULL, "FILE", \
      "file to write instead of standard output. It is compressed if its name ends in .gz. It " \
      "appears when it is complete and on disk" }
#define TOOL_FORCE_FILE_OPT(letter, at) \
    { "force", letter, TS_OPT_FLAG, at, NULL, NULL, \
      "replace an existing FILE of this program. A file that has changed since, and any other " \
      "file, is never touched" }
/* clang-format on */

#endif
