/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_rig.h - what the suites of GPUs begin with: a tensor on disk, a backend with factors and a
 * feed, passes, what an obvious loop needs of a nonzero, budgets of devices, and the comparison of
 * bits over teams and budgets.
 *
 * TS_TEST_PROCESSOR=cpu runs a suite on CPU cores. A team has so many threads then, and devices
 * have no budget. Cases of devices alone (rig_add_gpu) are left out. TS_TEST_WRONG=1 puts one wrong
 * entry into each factor of the first backend that a test opens: every test that compares numbers
 * must fail then.
 *
 *   owner    rig_close frees what rig_open made, rig_disk_free a tensor, rig_bits_free bits
 *   threads  one
 *   errors   a call that fails fails the test
 */
#ifndef TS_TESTS_GPU_RIG_H
#define TS_TESTS_GPU_RIG_H

#include "cpu/cpu_backend.h"
#include "gpu/team/gpu_backend.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

#define OK(call)       ck_assert_msg((call) == 0, "%s", err.text)
#define RIG_HOST_BYTES (UINT64_C(64) << 20)  /* of a feed: all shards stay in host memory */
#define RIG_FEW_BYTES  (UINT64_C(768) << 10) /* they are read from disk */

extern struct ts_err err;
extern const struct ts_backend *rig_be; /* under test */
extern int rig_n_devices;               /* GPUs; 0: CPU cores are under test */

/* NULL: there is no processor to test, and the program exits with 77. */
Suite *rig_suite(const char *name);

/* As test_add, for what devices alone have. */
void rig_add_gpu(Suite *suite, const char *name, const TTest *test, int n);

/* ---- tensors ---- */

struct rig_shape {
    uint32_t order, nnz, partitions; /* of a shard; 0: one shard */
    uint64_t dim[8];
    double skew;
};

/* Orders 2 to 8: short rows, long ones, rows that reach over shards, a giant row, one nonzero. */
#define RIG_N_SHAPES 10
extern const struct rig_shape rig_shapes[RIG_N_SHAPES];

struct rig_disk {
    char *top, *dir;
    struct test_coo x;
    struct ts_tensor *tensor;
};

/* The weights of cells, of which one and more are 0. */
enum rig_weights { RIG_NONE, RIG_ANY, RIG_ONES };

/* The next backend is the first of its test. */
void rig_first(void);

/* Takes x over. */
struct rig_disk rig_disk_of(struct test_coo x, const struct test_tsh_conf *conf);

/* Counts up to 9, more of them in the first slices. */
struct rig_disk rig_counts(const struct rig_shape *s);

/* Counts up to 5 where the order is even, else numbers of float32: both precisions have them
 * exactly. Tensors of order 3 have empty slices. */
struct test_coo rig_coo(const struct rig_shape *s);
struct rig_disk rig_values(const struct rig_shape *s, enum rig_weights weights);
void rig_disk_free(struct rig_disk *d);

uint64_t rig_rows(const struct rig_disk *d, uint32_t mode);
uint64_t rig_largest_shard(const struct ts_tensor *t);

/* ---- backends ---- */

struct demand; /* a suite's own */

struct rig_ask {
    const struct ts_backend *backend; /* NULL: rig_be */
    uint32_t rank, members;
    int one_device; /* members are on the first device; else on all of them in turn */
    enum ts_precision precision, summed; /* summed: products of the last mode */
    uint32_t needs;
    int own;           /* updates read the old rows of all modes */
    uint32_t n_models; /* as in struct ts_backend_conf */
    const uint32_t *ranks;
    int exchange;
    uint64_t device_bytes, host_bytes;
    struct ts_hold_out hold_out;
    int kind; /* what follows is a suite's own */
    uint32_t rounds;
    const struct demand *demand;
};

struct ts_backend_conf rig_conf(const struct ts_tensor *t, const struct rig_ask *ask);

/* Open, with own_rows of conf. */
void *rig_backend_new(const struct ts_backend *backend, const struct ts_backend_conf *conf);
struct ts_feed *rig_feed_new(const struct ts_backend *backend, const struct ts_tensor *t, void *be,
                             uint64_t host_bytes);

/* Members that times tell of. */
uint32_t rig_members(uint32_t members);

/* The first n rows of a factor. rows is as it was in the end. */
void rig_put(const struct ts_backend *backend, void *be, uint32_t mode, uint64_t n, double *rows);

/* A pass over every nonzero. */
void rig_pass_of(const struct ts_backend *backend, const struct ts_tensor *t, struct ts_feed *feed,
                 const struct ts_request *requests, uint32_t n, uint32_t mode,
                 struct ts_backend_times *times);

/* n x rank numbers of float32 from -0.3 to 0.7. */
double *rig_numbers(uint64_t seed, uint64_t n, uint32_t rank);

/* A backend with factors, which `a` has, too. */
struct rig_run {
    const struct ts_backend *backend;
    const struct rig_disk *d;
    const struct rig_ask *ask;
    void *be;
    struct ts_feed *feed;
    double *a[TS_MAX_ORDER];
};

/* Entries of factors, rounded to float32, from a random number in [0, 1). */
typedef double rig_entry(const struct rig_ask *ask, uint32_t mode, double u);
rig_entry rig_signed; /* from -0.5 to 1 */

/* It lends d and ask. */
struct rig_run rig_open(const struct rig_disk *d, const struct rig_ask *ask, rig_entry *entry);
void rig_close(struct rig_run *r);

void rig_pass(struct rig_run *r, struct ts_request request, uint32_t mode);
void rig_get(struct rig_run *r, uint32_t mode, double *rows);

/* Of a backend that was opened without the need. */
void rig_check_refused(const struct rig_disk *d, struct rig_ask ask, struct ts_request request,
                       const char *says);

/* ---- the obvious loop ---- */

int rig_is_held(const struct rig_run *r, uint64_t i);

/* p: of each column the product of the factors' entries at nonzero i, without mode `but`. */
void rig_products(const struct rig_run *r, uint64_t i, uint32_t but, double *p);

/* |got - want| <= tolerance * scale */
void rig_near(const char *what, double got, double want, double scale, double tolerance);

void rig_check_errors(const struct rig_run *r, double mean, double tolerance,
                      const struct ts_error_sums *got);

/* ---- budgets ---- */

/* With which there is memory for so many of the largest shards. The process has a context then, so
 * that what the driver takes is assumed. 0 on CPU cores. */
uint64_t rig_budget(const struct rig_disk *d, const struct rig_ask *ask, uint32_t shards);

/* The smallest budget with which conf opens, to within 64 KiB. A refusal says `says`. */
uint64_t rig_least_budget(const struct ts_backend_conf *conf, const char *says);

/* ---- bits ---- */

#define RIG_PARTS 64

/* Parts of a result. */
struct rig_bits {
    uint32_t n;
    struct {
        const char *what;
        size_t at, bytes;
    } part[RIG_PARTS];
    unsigned char *bytes;
    size_t n_bytes;
};

void rig_keep(struct rig_bits *b, const char *what, const void *from, size_t bytes);
void rig_bits_free(struct rig_bits *b);
void rig_same(const struct rig_bits *got, const struct rig_bits *want);

/* Adds parts to bits. */
typedef void rig_compute(const struct rig_disk *d, const struct rig_ask *ask, struct rig_bits *ret);

/* One to three members have the same bits as one: with all shards on devices, with room for four,
 * and with those read from disk. */
void rig_check_bits(const struct rig_disk *d, struct rig_ask ask, rig_compute *compute);

/* Without weights and with weights of 1 there are the same bits. */
void rig_check_ones(const struct rig_shape *shape, const struct rig_ask *ask, rig_compute *compute);

#endif
