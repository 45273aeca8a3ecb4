/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_tools.h - for fuzzers of whole commands: they run in this process, on a small tensor and
 * results of it in a folder of memory.
 *
 * What commands print is dropped. A command must end with 0 or 1, with a sentence where it is 1.
 *
 *   threads  one
 *   errors   traps
 */
#ifndef TS_FUZZ_TOOLS_H
#define TS_FUZZ_TOOLS_H

#include "fuzz/fuzz.h"
#include "tools/common/tool.h"
#include "tools/tstream.h"
#include "tools/cp/tstream_cp.h"

/* Runs a command with words that NULL ends. */
static inline int fuzz_run(const struct ts_cmd *cmd, const char *const *words)
{
    char *argv[24];
    int argc = 0, status;
    for (; words[argc] != NULL && argc < 23; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    argv[argc] = NULL;
    status = cmd->run(cmd, argc, argv);
    MUST(status == 0 || status == 1);
    MUST(status == 0 || tool_failure()->text[0] != '\0');
    return status;
}

/* The folder; what is printed goes nowhere. */
static inline void fuzz_begin(void)
{
    fuzz_folder();
    stdout = stderr = fopen("/dev/null", "w"); /* libFuzzer has its own copy */
    MUST(stdout != NULL);
}

/* X.cp of the tensor, by three sweeps. */
static inline void fuzz_compute(const char *out, const char *rank)
{
    const char *const words[] = { "cp", FUZZ_TENSOR, "--cpu", "-t", "1",  "-r", rank,
                                  "-i", "3",         "--tol", "0",  "-o", out,  NULL };
    MUST(fuzz_run(&tstream_cp, words) == 0);
}

#endif
