/* The GPU backend does what its table says, with the same bits whether shards stay on the device, or
 * pass through it from host memory, or from disk; and it refuses budgets that cannot work. */
#include <check.h>
#include <cuda_runtime.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "gpu/gpu_backend.h"
#include "tests/run_suite.h"
#include "tests/support.h"
#include "tests/tsh_writer.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", err.text)

static const uint32_t ranks[] = { 1, 7, 32, 50, 130 };
#define N_RANKS (int)(sizeof ranks / sizeof ranks[0])

static struct ts_err err;
static const struct ts_backend *const be = &ts_backend_gpu;

/* A tensor on disk, with 8 shards in each mode. */
struct disk {
    char *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

static struct disk disk_new(void)
{
    static const uint64_t dim[] = { 700, 3, 9000 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_INT, .shard_partitions = 1 };
    struct disk d = { .dir = test_tsh_tmp() };
    char *path = malloc(strlen(d.dir) + 8);
    d.x = test_coo_random(21, 3, dim, 8 * TS_PARTITION_NNZ - 500, 9, 1);
    strcat(strcpy(path, d.dir), "/t.tsh");
    test_tsh_write(path, &d.x, &conf);
    OK(ts_tensor_open(path, &d.tensor, &err));
    free(d.dir);
    d.dir = path;
    return d;
}

static void disk_free(struct disk *d)
{
    char *end;
    ts_tensor_close(d->tensor);
    test_tsh_remove(d->dir);
    end = strrchr(d->dir, '/');
    *end = '\0';
    test_tsh_remove(d->dir);
    free(d->dir);
    test_coo_free(&d->x);
}

static double *random_rows(uint64_t seed, uint64_t n, uint32_t rank)
{
    double *a = malloc(n * rank * sizeof *a);
    for (uint64_t i = 0; i < n * rank; i++)
        a[i] = (float)(ts_unit(ts_mix(seed + i)) - 0.3);
    return a;
}

static void *open_backend(const struct disk *d, uint32_t rank, enum ts_precision precision,
                          uint64_t device_bytes, double **factor)
{
    const struct ts_backend_conf conf = { .tensor = d->tensor, .rank = rank, .n_devices = 1,
                                          .only_mode = -1, .precision = precision,
                                          .device_bytes = device_bytes };
    void *gpu;
    OK(be->open(&conf, &gpu, &err));
    for (uint32_t m = 0; m < d->x.order; m++)
        OK(be->put_rows(gpu, m, 0, d->x.dim[m], factor[m], &err));
    return gpu;
}

static struct ts_feed *open_feed(const struct disk *d, void *gpu, uint64_t host_bytes)
{
    struct ts_feed_conf conf = { .tensor = d->tensor, .host_bytes = host_bytes, .only_mode = -1,
                                 .checkers = 2, .pin = be->pin, .unpin = be->unpin };
    struct ts_feed *feed;
    be->deal(gpu, &conf.deal);
    OK(ts_feed_new(&conf, &feed, &err));
    return feed;
}

static void check_near(const double *got, const double *want, uint64_t n, double most)
{
    for (uint64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= most, "entry %llu: %.12g, expected %.12g",
                      (unsigned long long)i, got[i], want[i]);
}

/* Factors and w have entries of magnitude up to 0.7, so the sums below are of terms of that size;
 * each bound is the number of terms times their size times the precision's rounding. */
START_TEST(dense_work_equals_reference)
{
    const uint32_t rank = ranks[_i / 2];
    const enum ts_precision precision = _i % 2 ? TS_FLOAT64 : TS_FLOAT32;
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    struct disk d = disk_new();
    const uint32_t mode = 2;
    const uint64_t n = d.x.dim[mode], size = n * rank, square = (uint64_t)rank * rank;
    double *factor[3], *a = calloc(size, sizeof *a), *got = malloc(size * sizeof *got);
    double *w = random_rows(5, rank, rank), *gram = malloc(square * sizeof *gram);
    double *want = calloc(square, sizeof *want), inner, want_inner = 0;
    void *gpu;
    for (uint32_t m = 0; m < 3; m++)
        factor[m] = random_rows(100 * m, d.x.dim[m], rank);
    gpu = open_backend(&d, rank, precision, 0, factor);

    OK(be->get_rows(gpu, mode, 0, n, got, &err));
    ck_assert(memcmp(got, factor[mode], size * sizeof *got) == 0);
    OK(be->get_rows(gpu, mode, n - 2, 2, got, &err));
    ck_assert(memcmp(got, factor[mode] + size - 2 * rank, 2 * rank * sizeof *got) == 0);

    OK(be->solve(gpu, mode, w, gram, &inner, &err));
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < rank; k++)
            for (uint32_t c = 0; c < rank; c++)
                a[i * rank + c] += factor[mode][i * rank + k] * w[k * rank + c];
    OK(be->get_rows(gpu, mode, 0, n, got, &err));
    check_near(got, a, size, 4 * rank * eps);
    for (uint64_t i = 0; i < size; i++)
        want_inner += factor[mode][i] * got[i]; /* what the device has: its roundings are not ours */
    check_near(&inner, &want_inner, 1, (double)size * rank * 2 * eps);
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < rank; r++)
            for (uint32_t c = 0; c < rank; c++)
                want[r * rank + c] += got[i * rank + r] * got[i * rank + c];
    check_near(gram, want, square, (double)n * rank * rank * DBL_EPSILON);

    for (uint32_t r = 0; r < rank; r++)
        w[r] = 0.25 * (r % 5 + 1);
    OK(be->scale(gpu, mode, w, &err));
    for (uint64_t i = 0; i < size; i++)
        a[i] = got[i] * w[i % rank];
    OK(be->get_rows(gpu, mode, 0, n, got, &err));
    check_near(got, a, size, rank * eps);
    OK(be->gram(gpu, mode, gram, &err));
    for (uint64_t i = 0; i < square; i++)
        want[i] *= w[i / rank] * w[i % rank];
    check_near(gram, want, square, (double)n * rank * rank * 4 * eps);

    be->close(gpu);
    for (uint32_t m = 0; m < 3; m++)
        free(factor[m]);
    free(a);
    free(got);
    free(w);
    free(gram);
    free(want);
    disk_free(&d);
}
END_TEST

/* The smallest budget that opens, to within 64 KiB. */
static uint64_t least_budget(const struct disk *d, uint32_t rank, enum ts_precision precision)
{
    uint64_t bytes = 1 << 20;
    for (;; bytes += 64 << 10) {
        const struct ts_backend_conf conf = { .tensor = d->tensor, .rank = rank, .n_devices = 1,
                                              .only_mode = -1, .precision = precision,
                                              .device_bytes = bytes };
        void *gpu;
        const int rc = be->open(&conf, &gpu, &err);
        if (rc == 0) {
            be->close(gpu);
            return bytes;
        }
        ck_assert_int_eq(rc, TS_ELIMIT);
        ck_assert_ptr_nonnull(strstr(err.text, "cannot work"));
    }
}

/* All modes, twice (what stays on the device is there from the second time on). */
static void run_modes(const struct disk *d, uint32_t rank, enum ts_precision precision,
                      uint64_t device_bytes, uint64_t host_bytes, double **factor, double **out)
{
    void *gpu = open_backend(d, rank, precision, device_bytes, factor);
    struct ts_feed *feed = open_feed(d, gpu, host_bytes);
    struct ts_backend_times times;
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t m = 0; m < d->x.order; m++) {
            OK(be->mttkrp(gpu, m, feed, &times, &err));
            OK(be->get_rows(gpu, m, 0, d->x.dim[m], out[m], &err));
            OK(be->put_rows(gpu, m, 0, d->x.dim[m], factor[m], &err));
        }
    ts_feed_free(feed);
    be->close(gpu);
}

START_TEST(same_bits_for_every_budget)
{
    const enum ts_precision precision = _i ? TS_FLOAT64 : TS_FLOAT32;
    const double eps = precision == TS_FLOAT32 ? FLT_EPSILON : DBL_EPSILON;
    const uint32_t rank = 17;
    struct disk d = disk_new();
    const uint64_t least = least_budget(&d, rank, precision);
    double *factor[3], *first[3], *again[3];
    for (uint32_t m = 0; m < 3; m++) {
        const uint64_t n = d.x.dim[m] * rank;
        factor[m] = random_rows(100 * m, d.x.dim[m], rank);
        for (uint64_t i = 0; i < n; i++)
            factor[m][i] = fabs(factor[m][i]);
        first[m] = malloc(n * sizeof(double));
        again[m] = malloc(n * sizeof(double));
    }
    run_modes(&d, rank, precision, 0, 64 << 20, factor, first);
    for (uint32_t m = 0; m < 3; m++) {
        test_mttkrp(&d.x, m, rank, factor, again[m]);
        for (uint64_t i = 0; i < d.x.dim[m] * rank; i++)
            ck_assert(fabs(first[m][i] - again[m][i]) <= 2000 * eps * fabs(again[m][i]));
    }
    for (int k = 0; k < 6; k++) { /* budgets of the device, and of the host: resident and from disk */
        run_modes(&d, rank, precision, least + (uint64_t)k % 3 * 250000,
                  k < 3 ? 64 << 20 : (uint64_t)512 << 10, factor, again);
        for (uint32_t m = 0; m < 3; m++)
            ck_assert(memcmp(first[m], again[m], d.x.dim[m] * rank * sizeof(double)) == 0);
    }
    for (uint32_t m = 0; m < 3; m++) {
        free(factor[m]);
        free(first[m]);
        free(again[m]);
    }
    disk_free(&d);
}
END_TEST

START_TEST(more_than_the_device_has_is_refused)
{
    struct disk d = disk_new();
    const struct ts_backend_conf conf = { .tensor = d.tensor, .rank = 4, .n_devices = 1,
                                          .only_mode = -1, .device_bytes = UINT64_C(1) << 50 };
    void *gpu = NULL;
    ck_assert_int_eq(be->open(&conf, &gpu, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "--gpu-memory"));
    ck_assert_ptr_null(gpu);
    disk_free(&d);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_backend");
    TCase *tc = tcase_create("all");
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0)
        return 77;
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, dense_work_equals_reference, 0, 2 * N_RANKS);
    tcase_add_loop_test(tc, same_bits_for_every_budget, 0, 2);
    tcase_add_test(tc, more_than_the_device_has_is_refused);
    suite_add_tcase(suite, tc);
    return test_run_suite(suite, CK_NOFORK);
}
