/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU that fails in the middle of an update ends it with a sentence: no member of the team waits
 * for it for ever, and everything can be closed. A program of its own, because the GPU is lost to
 * it. */
#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gpu/fault_kernel.h"
#include "tests/gpu/gpu_rig.h"

#define RANK 32

/* Updates until one fails: the kernel ends when it likes. */
static int update_until(const struct rig_run *r, uint32_t most)
{
    static double w[RANK * RANK], gram[RANK * RANK];
    const struct ts_row_update how = { .matrix = w };
    struct ts_backend_times times;
    double inner;
    const struct ts_row_sums sums = { .gram = gram, .inner = &inner };
    int rc = 0;
    for (uint32_t k = 0; k < most && rc == 0; k++) {
        ts_feed_rewind(r->feed);
        rc = rig_be->pass(&(struct ts_request){ .be = r->be, .update = &how, .sums = &sums }, 1,
                          k % 3, r->feed, &times, &err);
    }
    return rc;
}

START_TEST(a_gpu_that_fails_ends_the_team)
{
    static const struct rig_shape shape = { 3, 12 * TS_PARTITION_NNZ, 1, { 700, 3, 9000 }, 1 };
    const struct rig_ask ask = { .rank = RANK, .members = 3, .host_bytes = RIG_HOST_BYTES };
    struct rig_disk d = rig_counts(&shape);
    struct rig_run r = rig_open(&d, &ask, rig_signed);
    const struct ts_backend_conf conf = rig_conf(d.tensor, &ask);
    int rc;
    OK(update_until(&r, 7));

    alarm(60); /* a hang is a failure, too */
    ck_assert_int_eq(cudaSetDevice(conf.device[conf.n_devices - 1]), cudaSuccess);
    ck_assert_int_eq(test_fault(), cudaSuccess);
    rc = update_until(&r, 100000);
    ck_assert_int_eq(rc, TS_ECUDA);
    ck_assert_msg(strstr(err.text, "GPU") != NULL, "%s", err.text);
    rig_close(&r);
    alarm(0);
    rig_disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = rig_suite("gpu_fault");
    if (suite == NULL || rig_n_devices == 0)
        return 77;
    unsetenv("NCCL_NVLS_ENABLE"); /* rows travel by copies */
    test_add(suite, "all", a_gpu_that_fails_ends_the_team, 1);
    return test_run_suite(suite, CK_NOFORK);
}
