/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the environment of a launcher. */
#include "tools/tool_launch.h"

#include <stddef.h>
#include <stdlib.h>

static uint32_t count(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

uint32_t tool_launch_mpi(void)
{
    static const char *const size[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE" };
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        if (count(size[i]) > 0)
            return count(size[i]);
    return getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL ? count("SLURM_STEP_NUM_TASKS")
                                                                     : 1;
}

int tool_launch_place(uint32_t *rank, uint32_t *n)
{
    static const char *const name[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                        "MV2_COMM_WORLD_RANK", "SLURM_PROCID" };
    *n = tool_launch_mpi();
    if (*n <= 1 && count("SLURM_STEP_NUM_TASKS") > 0)
        *n = count("SLURM_STEP_NUM_TASKS");
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (getenv(name[i]) != NULL) {
            *rank = count(name[i]);
            return *rank < *n;
        }
    return 0;
}
