/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU that fails in the middle of an update ends it with a sentence: no member of the team waits for it
 * for ever, and everything can be closed. A program of its own, because the GPU is lost to it. */
#include <check.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "gpu/gpu_backend.h"
#include "tests/fault_kernel.h"
#include "tests/run_suite.h"
#include "tests/support.h"
#include "tests/tsh_writer.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", err.text)
#define RANK     32

static const uint64_t dim[] = { 700, 3, 9000 };
static const struct ts_backend *const be = &ts_backend_gpu;
static struct ts_err err;
static int n_devices;

static void fill_factors(void *gpu)
{
    for (uint32_t m = 0; m < 3; m++) {
        double *a = malloc(dim[m] * RANK * sizeof *a);
        for (uint64_t i = 0; i < dim[m] * RANK; i++)
            a[i] = ts_unit(ts_mix(m + i));
        OK(be->put_rows(gpu, m, 0, dim[m], a, &err));
        free(a);
    }
}

/* Updates until one fails: the kernel ends when it likes. */
static int update_until(void *gpu, struct ts_feed *feed, uint32_t most)
{
    static double w[RANK * RANK], gram[RANK * RANK];
    const struct ts_row_update how = { .matrix = w };
    struct ts_backend_times times;
    double inner;
    const struct ts_row_sums sums = { .gram = gram, .inner = &inner };
    int rc = 0;
    for (uint32_t k = 0; k < most && rc == 0; k++) {
        ts_feed_rewind(feed);
        rc = be->pass(&(struct ts_request){ .be = gpu, .how = &how, .sums = &sums }, 1, k % 3, feed,
                      &times, &err);
    }
    return rc;
}

START_TEST(a_gpu_that_fails_ends_the_team)
{
    const struct test_tsh_conf tsh = { .kind = TS_VALUE_INT, .shard_partitions = 1 };
    char *dir = test_tsh_tmp(), path[4096];
    struct test_coo x = test_coo_random(3, 3, dim, 12 * TS_PARTITION_NNZ, 9, 1);
    struct ts_tensor *tensor;
    struct ts_backend_conf conf = { .rank = RANK, .only_mode = -1, .n_devices = 3 };
    struct ts_feed_conf fc = {
        .host_bytes = 64 << 20, .only_mode = -1, .checkers = 1, .pin = be->pin, .unpin = be->unpin
    };
    struct ts_feed *feed;
    void *gpu;
    int rc;
    snprintf(path, sizeof path, "%s/t.tsh", dir);
    test_tsh_write(path, &x, &tsh);
    OK(ts_tensor_open(path, &tensor, &err));
    conf.tensor = fc.tensor = tensor;
    for (uint32_t i = 0; i < conf.n_devices; i++)
        conf.device[i] = (int)i % n_devices;
    OK(be->open(&conf, &gpu, &err));
    fill_factors(gpu);
    be->deal(gpu, &fc.deal);
    fc.pin_ctx = gpu;
    OK(ts_feed_new(&fc, &feed, &err));
    OK(update_until(gpu, feed, 7));

    alarm(60); /* a hang is a failure, too */
    ck_assert_int_eq(cudaSetDevice(conf.device[conf.n_devices - 1]), cudaSuccess);
    ck_assert_int_eq(test_fault(), cudaSuccess);
    rc = update_until(gpu, feed, 100000);
    ck_assert_int_eq(rc, TS_ECUDA);
    ck_assert_msg(strstr(err.text, "GPU") != NULL, "%s", err.text);
    ts_feed_free(feed);
    be->close(gpu);
    alarm(0);

    ts_tensor_close(tensor);
    test_tsh_remove(path);
    test_tsh_remove(dir);
    test_coo_free(&x);
    free(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_fault");
    TCase *tc = tcase_create("all");
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, a_gpu_that_fails_ends_the_team);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
