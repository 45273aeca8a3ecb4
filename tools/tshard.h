/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard.h - the commands of tshard, one file each. */
#ifndef TS_TOOLS_TSHARD_H
#define TS_TOOLS_TSHARD_H

#include "api/tools.h"
#include "tools/common/tool_progress.h"

extern const struct ts_cmd tshard_build_cmd;
extern const struct ts_cmd tshard_plan_cmd;
extern const struct ts_cmd tshard_info_cmd;
extern const struct ts_cmd tshard_verify_cmd;
extern const struct ts_cmd tshard_export_cmd;
extern const struct ts_cmd tshard_split_cmd;
extern const struct ts_cmd tshard_index_cmd;
extern const struct ts_cmd tshard_part_cmd;
extern const struct ts_cmd tshard_select_cmd;
extern const struct ts_cmd tshard_gen_cmd;
extern const struct ts_cmd tshard_append_cmd;
extern const struct ts_cmd tshard_undo_cmd;
extern const struct ts_cmd tshard_compact_cmd;
extern const struct ts_cmd tshard_drop_cmd;

/* Runs tshard, whether as one process or as one of several ranks. Returns the exit status. */
int tshard_run(int argc, char **argv);

/* Opens the tensor that an operand names, with or without .tsh. */
struct ts_tensor;
int tshard_open(const char *operand, struct ts_tensor **ret, struct ts_err *err);
int tshard_open_any(const char *operand, struct ts_tensor **ret,
                    struct ts_err *err); /* opens dense tensors as well */

/* What tshard build, plan and append pass to their functions: parsed options and operands. */
struct tshard_build_job {
    const void *args; /* all arguments, for tool_json_options */
    struct ts_build_options *o;
    struct ts_table_plan *plan; /* tshard append: how tables are read, if options say so */
    uint64_t said; /* tshard append: bit i: an option sets value i of enum ts_kept_id */
    const char *const *paths;
    uint32_t n_paths;
    int json;
    int quiet, repeat; /* tshard append: the options --quiet and --repeat */
    const char *compact_at;
    struct tool_progress *progress;
};
typedef int tshard_build_fn(const struct ts_cmd *cmd, const struct tshard_build_job *job,
                            struct ts_err *err);

extern const struct ts_opt tshard_build_opts[];
/* the options of a build, and two more to plan one without input files */
extern const struct ts_opt tshard_plan_opts[];
extern const char *const tshard_build_headings[];
extern const unsigned char tshard_build_section[];
#define TSHARD_BUILD_BRIEF "output modes columns value bin format duplicates memory tmp force"

/* Parses the options of build or plan and sets defaults, and calls fn, which returns 0 or a
 * negative ts_code. Returns the exit status. */
int tshard_build_command(const struct ts_cmd *cmd, int argc, char **argv, tshard_build_fn *fn);

/* The options of tshard append, and its function like tshard_build_command: o->out is the first
 * operand, the tensor, and the paths are the other operands. */
extern const struct ts_opt tshard_append_opts[];
int tshard_append_command(const struct ts_cmd *cmd, int argc, char **argv, tshard_build_fn *fn);

/* Whether the user gave an option. given: the bits that tool_parse set. */
int tshard_has_option(const struct ts_cmd *cmd, uint64_t given, const char *name);

/* Returns the path, malloc'ed, if the operand is a tensor of several segments (one for each
 * append); else NULL. */
char *tshard_segmented(const char *operand);

#endif
