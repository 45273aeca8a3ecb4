/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the communicator of this process, and drops the output of all ranks but rank 0. */
#include "tools/common/tool_ranks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tools/common/tool.h"

static struct ts_comm *ranks;

/* Sends standard output and standard error of a rank to /dev/null. */
static void drop_output(void)
{
    const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    close(fd);
}

void tool_ranks_set(struct ts_comm *comm, uint32_t beside)
{
    ranks = comm->n > 1 ? comm : NULL;
    ts_machine_share(beside);
    /* no colors: launchers give ranks a terminal even if the launcher's own output goes to a
     * file */
    (void)setenv("NO_COLOR", "1", 0);
    if (!tool_ranks_speaks())
        drop_output();
}

struct ts_comm *tool_ranks(void)
{
    return ranks;
}

uint32_t tool_ranks_count(void)
{
    return ranks == NULL ? 1 : ranks->n;
}

int tool_ranks_speaks(void)
{
    return ranks == NULL || ranks->rank == 0;
}

const volatile sig_atomic_t *tool_ranks_stop(void)
{
    static const volatile sig_atomic_t never;
    return ranks == NULL ? &tool_stop : &never;
}

int tool_ranks_agree(int rc, struct ts_err *err)
{
    return ranks == NULL ? rc : ranks->ops->agree(ranks, rc, err);
}

/* Called when a signal or --max-time has stopped another rank. Usually launchers pass signals on,
 * and --max-time soon ends here too. If neither happens in two seconds, this rank asks itself to
 * stop. */
void tool_ranks_stopped(void)
{
    const struct timespec moment = { .tv_nsec = 10000000 };
    for (int i = 0; i < 200 && !ts_stop_asked(&tool_stop); i++)
        nanosleep(&moment, NULL);
    if (!ts_stop_asked(&tool_stop))
        ts_stop_ask(&tool_stop, SIGTERM);
}

/* Returns the position at which the bytes of each rank begin in a gathered array: rank 0 has
 * of_first + of_each bytes, and each other rank of_each. */
static uint64_t *places(uint64_t of_first, uint64_t of_each)
{
    uint64_t *first = calloc(ranks->n + UINT64_C(1), sizeof *first);
    for (uint32_t r = 1; first != NULL && r <= ranks->n; r++)
        first[r] = of_first + r * of_each;
    return first;
}

int tool_ranks_tell(int rc, void *bytes, uint64_t n, struct ts_err *err)
{
    uint64_t *first;
    if (ranks == NULL)
        return rc;
    first = places(n, 0);
    if (rc == 0 && first == NULL)
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    rc = tool_ranks_agree(rc, err);
    if (rc == 0)
        rc = ranks->ops->gather(ranks, bytes, first, err);
    free(first);
    return rc;
}

int tool_ranks_least(int rc, uint32_t *number, struct ts_err *err)
{
    uint64_t *first;
    uint32_t *all;
    if (ranks == NULL)
        return rc;
    first = places(0, sizeof *all);
    all = calloc(ranks->n, sizeof *all);
    if (rc == 0 && (first == NULL || all == NULL))
        rc = ts_fail(err, TS_ENOMEM, "out of memory");
    rc = tool_ranks_agree(rc, err);
    if (rc == 0) {
        all[ranks->rank] = *number;
        rc = ranks->ops->gather(ranks, all, first, err);
    }
    for (uint32_t r = 0; rc == 0 && r < ranks->n; r++)
        *number = all[r] < *number ? all[r] : *number;
    free(first);
    free(all);
    return rc;
}

int tool_ranks_same(const char *what, const char *text, struct ts_err *err)
{
    uint64_t *hash, *first;
    int rc = 0;
    if (ranks == NULL)
        return 0;
    hash = calloc(2 * (ranks->n + UINT64_C(1)), sizeof *hash);
    rc = tool_ranks_agree(hash == NULL ? ts_fail(err, TS_ENOMEM, "out of memory") : 0, err);
    if (rc < 0) {
        free(hash);
        return rc;
    }
    first = hash + ranks->n + 1;
    for (uint32_t r = 0; r <= ranks->n; r++)
        first[r] = r * sizeof *hash;
    for (const char *at = text; *at != '\0'; at++)
        hash[ranks->rank] = ts_mix(hash[ranks->rank] ^ (unsigned char)*at);
    rc = ranks->ops->gather(ranks, hash, first, err);
    if (rc == 0 && hash[ranks->rank] != hash[0])
        rc = ts_fail(err, TS_EARG, "its %s differs from that of rank 0", what);
    free(hash);
    return tool_ranks_agree(rc, err);
}
