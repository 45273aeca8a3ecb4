/* SPDX-License-Identifier: BSD-3-Clause */
/* Factors are written whole or not at all, in three formats that say the same, and read back. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpd/solver/init.h"
#include "model/kruskal.h"
#include "model/model_write.h"
#include "stream/loss_functions.h"
#include "tests/cpd/run_cp.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096], out[4096], partial[4200];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
    snprintf(out, sizeof out, "%s/x.cp", tmp);
    snprintf(partial, sizeof partial, "%s.partial", out);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(out);
    test_tsh_remove(partial);
    test_tsh_remove(tmp);
    free(tmp);
}

static void write_tensor(uint32_t stretch)
{
    static const uint64_t dim[3] = { 30, 20, 10 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32, .stretch = stretch };
    struct test_coo x = test_coo_random(29, 3, dim, 1500, 0, 0.5);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] -= 0.25; /* both signs */
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = (float)x.val[n];
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

static const struct test_cp_conf usual = { .rank = 4,
                                           .iters = 3,
                                           .seed = 1,
                                           .precision = TS_FLOAT64,
                                           .out = out,
                                           .formats =
                                               TS_WRITE_KTENSOR | TS_WRITE_NPY | TS_WRITE_SPLATT };

static int exists(const char *name)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", out, name);
    return access(path, F_OK) == 0;
}

static void remove_file(const char *name)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", out, name);
    unlink(path);
}

struct whole {
    uint32_t order, rank;
    uint64_t n_rows[TS_MAX_ORDER];
    double *a[TS_MAX_ORDER], *weight;
};

static struct whole read_whole(const char *path)
{
    struct whole w = { 0 };
    struct ts_model *m = NULL;
    struct ts_err err;
    ck_assert_msg(ts_model_open(path, &m, &err) == 0, "%s", err.text);
    w.order = m->order;
    w.rank = m->rank;
    w.weight = malloc(m->rank * sizeof(double));
    memcpy(w.weight, m->weight, m->rank * sizeof(double));
    for (uint32_t k = 0; k < w.order; k++) {
        w.n_rows[k] = m->n_rows[k];
        w.a[k] = malloc(w.n_rows[k] * w.rank * sizeof(double) + 1);
        for (uint64_t i = 0; i < w.n_rows[k]; i += 7) /* in pieces */
            ck_assert_msg(ts_model_rows(m, k, w.n_rows[k] - i < 7 ? w.n_rows[k] - i : 7,
                                        w.a[k] + i * w.rank, &err) == 0,
                          "%s", err.text);
    }
    ts_model_close(m);
    return w;
}

static void whole_free(struct whole *w)
{
    for (uint32_t k = 0; k < w->order; k++)
        free(w->a[k]);
    free(w->weight);
}

START_TEST(three_formats_say_the_same)
{
    struct test_cp_conf conf = usual;
    struct test_cp a;
    struct whole k, n, s;
    conf.precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    write_tensor(_i < 2 ? 0 : 3);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    k = read_whole(out);
    remove_file("model.ktensor");
    n = read_whole(out);
    remove_file("weights.npy");
    s = read_whole(out);
    ck_assert_uint_eq(k.order, 3);
    ck_assert_uint_eq(k.rank, 4);
    ck_assert_mem_eq(k.weight, n.weight, 4 * sizeof(double));
    ck_assert_mem_eq(k.weight, s.weight, 4 * sizeof(double));
    for (uint32_t m = 0; m < 3; m++) {
        ck_assert_uint_eq(k.n_rows[m], n.n_rows[m]);
        ck_assert_uint_eq(k.n_rows[m], s.n_rows[m]);
        ck_assert_uint_eq(k.n_rows[m], _i < 2 ? a.n_rows[m] : k.n_rows[m]);
        for (uint64_t i = 0; i < k.n_rows[m] * 4; i++) { /* float32 by its nine digits */
            if (_i % 2 == 0)
                ck_assert_double_eq(k.a[m][i], n.a[m][i]);
            else
                ck_assert_double_eq((float)k.a[m][i], n.a[m][i]);
            ck_assert_double_eq(k.a[m][i], s.a[m][i]);
        }
    }
    whole_free(&k);
    whole_free(&n);
    whole_free(&s);
    test_cp_free(&a);
}
END_TEST

/* The columns of a mode: found one by one among those of the run, times one sign per column. */
START_TEST(columns_are_sorted_and_signed)
{
    struct test_cp a;
    struct whole w;
    write_tensor(0);
    a = test_cp_run(dir, &usual);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    w = read_whole(out);
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t from = 0, negative = 0;
        double sign = 1;
        while (from < 4 && a.weight[from] != w.weight[r])
            from++;
        ck_assert_uint_lt(from, 4);
        ck_assert(r == 0 || w.weight[r] <= w.weight[r - 1]);
        for (uint32_t m = 0; m < 3; m++) {
            double most = 0, at = 0;
            for (uint64_t i = 0; i < w.n_rows[m]; i++)
                if (fabs(w.a[m][i * 4 + r]) > most) {
                    most = fabs(w.a[m][i * 4 + r]);
                    at = w.a[m][i * 4 + r] / a.factor[m][i * 4 + from];
                    negative = w.a[m][i * 4 + r] < 0 ? negative | 1u << m : negative & ~(1u << m);
                }
            ck_assert(at == 1 || at == -1);
            for (uint64_t i = 0; i < w.n_rows[m]; i++)
                ck_assert_double_eq(w.a[m][i * 4 + r], at * a.factor[m][i * 4 + from]);
            sign *= at;
        }
        ck_assert_double_eq(sign, 1); /* the model did not change */
        ck_assert(negative == 0 || negative == 1 || negative == 2 || negative == 4);
    }
    whole_free(&w);
    test_cp_free(&a);
}
END_TEST

/* The indices of the rows written are those of the tensor's used slices; without one, not known. */
static void check_indices(const struct ts_tensor *t)
{
    struct ts_model *m = NULL;
    ck_assert_int_eq(ts_model_open(out, &m, NULL), 0);
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t *found = NULL, *rows = NULL;
        ck_assert_int_eq(ts_model_index(m, k, &found, NULL), 0);
        if (t == NULL) {
            ck_assert_ptr_null(found);
            continue;
        }
        ck_assert_int_eq(ts_tensor_rows(t, k, &rows, NULL), 0);
        ck_assert_mem_eq(found, rows, m->n_rows[k] * sizeof *rows);
        free(found);
        free(rows);
    }
    ts_model_close(m);
}

static void refuse_indices(const char *text)
{
    struct ts_model *m = NULL;
    struct ts_err err;
    uint64_t *found;
    char path[4400];
    FILE *f;
    snprintf(path, sizeof path, "%s/mode2.index", out);
    f = fopen(path, "w");
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(ts_model_open(out, &m, &err), 0);
    ck_assert_int_eq(ts_model_index(m, 1, &found, &err), TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.text, "mode2.index: line "));
    ts_model_close(m);
}

START_TEST(rows_of_empty_slices_are_zeros)
{
    struct test_cp_conf conf = usual;
    struct ts_tensor *t = NULL;
    struct test_cp a;
    struct whole w;
    write_tensor(3);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    w = read_whole(out);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    for (uint32_t m = 0; m < 3; m++) {
        uint64_t *rows = NULL, used = 0;
        ck_assert_int_eq(ts_tensor_rows(t, m, &rows, NULL), 0);
        ck_assert_ptr_nonnull(rows);
        ck_assert_uint_eq(w.n_rows[m], t->mode[m].disk.dim);
        for (uint64_t i = 0; i < w.n_rows[m]; i++) {
            double sum = 0;
            for (uint32_t r = 0; r < 4; r++)
                sum += fabs(w.a[m][i * 4 + r]);
            if (used < t->mode[m].disk.n_rows && rows[used] == i) {
                ck_assert_double_gt(sum, 0);
                used++;
            } else
                ck_assert_double_eq(sum, 0);
        }
        free(rows);
    }
    ck_assert(!exists("mode1.index"));
    check_indices(NULL);
    whole_free(&w);
    test_cp_free(&a);
    conf.used_rows = 1;
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    w = read_whole(out);
    for (uint32_t m = 0; m < 3; m++)
        ck_assert_uint_eq(w.n_rows[m], t->mode[m].disk.n_rows);
    ck_assert(exists("mode1.index"));
    check_indices(t);
    refuse_indices("");       /* too few */
    refuse_indices("1\n1\n"); /* not ascending */
    refuse_indices("0\n");
    refuse_indices("1 2\n");
    refuse_indices("1099511627777\n");
    whole_free(&w);
    test_cp_free(&a);
    ts_tensor_close(t);
}
END_TEST

/* From the factors of three sweeps, one more is the fourth. Also from used rows alone, whose Gram
 * matrices are the same. */
START_TEST(a_decomposition_goes_on_from_its_files)
{
    struct test_cp_conf conf = usual;
    struct test_cp a, b, c;
    write_tensor(3);
    conf.used_rows = _i == 3;
    conf.formats = _i == 0 ? TS_WRITE_KTENSOR : _i == 1 ? TS_WRITE_NPY : TS_WRITE_SPLATT;
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    conf.out = NULL;
    conf.iters = 4;
    b = test_cp_run(dir, &conf);
    conf.iters = 1;
    conf.init = out;
    c = test_cp_run(dir, &conf);
    ck_assert_msg(c.rc == 0, "%s", c.err.text);
    ck_assert_double_eq_tol(c.fit[0], b.fit[3], 1e-10); /* columns come in another order */
    test_cp_free(&a);
    test_cp_free(&b);
    test_cp_free(&c);
}
END_TEST

START_TEST(an_unfitting_start_is_refused)
{
    struct test_cp_conf conf = usual;
    struct test_cp a;
    write_tensor(0);
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, 0);
    test_cp_free(&a);
    conf.out = NULL;
    conf.init = out;
    conf.rank = 5;
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_ptr_nonnull(strstr(a.err.text, "rank 4, but rank is 5"));
    test_tsh_remove(dir);
    write_tensor(2);
    conf.rank = 4;
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, 0); /* rows of used slices alone */
    test_cp_free(&a);
}
END_TEST

static const struct {
    const char *name, *text;
} users[] = { { "model.ktensor", "my notes\n" },      { "mode1.npy", "numbers of pythons\n" },
              { "mode1.mat", "MATLAB 5.0 MAT-file" }, { "lambda.mat", "\\lambda" },
              { "lock", "of the front door\n" },      { "mode17.mat", "1 2\n" } };

START_TEST(an_earlier_result_is_replaced_and_nothing_else)
{
    struct test_cp a;
    char path[4400];
    FILE *f;
    write_tensor(0);
    for (int k = 0; k < 2; k++) {
        a = test_cp_run(dir, &usual);
        ck_assert_msg(a.rc == 0, "%s", a.err.text);
        test_cp_free(&a);
        ck_assert_int_eq(access(partial, F_OK), -1);
    }
    snprintf(path, sizeof path, "%s/thesis.tex", out);
    f = fopen(path, "w");
    fclose(f);
    a = test_cp_run(dir, &usual);
    ck_assert_int_eq(a.rc, TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(a.err.text, "thesis.tex"));
    ck_assert(exists("thesis.tex") && exists("model.ktensor"));
    ck_assert_int_eq(access(partial, F_OK), -1);
    remove_file("thesis.tex");
    for (unsigned k = 0; k < sizeof users / sizeof users[0];
         k++) { /* names like ours, contents unlike */
        snprintf(path, sizeof path, "%s/%s", out, users[k].name);
        f = fopen(path, "w");
        fputs(users[k].text, f);
        fclose(f);
        a = test_cp_run(dir, &usual);
        ck_assert_int_eq(a.rc, TS_EBUSY);
        ck_assert_ptr_nonnull(strstr(a.err.text, users[k].name));
        ck_assert_int_eq(access(path, F_OK), 0);
        ck_assert_int_eq(access(partial, F_OK), -1);
        remove_file(users[k].name);
    }
}
END_TEST

START_TEST(litter_is_cleared_and_a_second_run_refused)
{
    struct test_cp a;
    char path[4400];
    FILE *f;
    int fd;
    write_tensor(0);
    ck_assert_int_eq(mkdir(partial, 0777), 0);
    snprintf(path, sizeof path, "%s/mode1.npy", partial);
    f = fopen(path, "w");
    fclose(f);
    snprintf(path, sizeof path, "%s/lock", partial);
    fd = open(path, O_RDWR | O_CREAT, 0666);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    a = test_cp_run(dir, &usual);
    ck_assert_int_eq(a.rc, TS_EBUSY);
    ck_assert_ptr_nonnull(strstr(a.err.text, "another process is writing it"));
    close(fd);
    a = test_cp_run(dir, &usual);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_int_eq(access(partial, F_OK), -1);
    test_cp_free(&a);
}
END_TEST

START_TEST(factors_beyond_the_disk_are_refused_at_once)
{
    struct ts_model_out *o = NULL;
    struct ts_model_conf conf = { .dir = out, .formats = TS_WRITE_NPY, .rank = 16 };
    struct ts_tensor *t = NULL;
    struct ts_err err;
    write_tensor(0);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    t->mode[1].disk.dim = TS_MAX_DIM; /* 2^40 rows of 16 columns */
    conf.shape = ts_model_shape_of(t);
    ck_assert_int_eq(ts_model_begin(&conf, &o, &err), TS_ELIMIT);
    ck_assert_ptr_nonnull(strstr(err.text, "mode 2 with 1099511627776 rows"));
    ck_assert_ptr_nonnull(strstr(err.text, "held_rows"));
    ck_assert_int_eq(access(partial, F_OK), -1);
    conf.used_rows = 1;
    ck_assert_int_eq(ts_model_begin(&conf, &o, &err), 0);
    ts_model_end(o);
    ck_assert_int_eq(access(partial, F_OK), -1);
    ts_tensor_close(t);
}
END_TEST

/* Many models are begun at once, and one writes at a time. A sanitizer's allocator says that
 * nothing is in use. */
START_TEST(a_model_that_is_begun_has_no_rows_yet)
{
    struct ts_model_out *o = NULL;
    struct ts_model_conf conf = { .dir = out, .formats = TS_WRITE_KTENSOR, .rank = 16 };
    struct ts_tensor *t = NULL;
    struct mallinfo2 before, after;
    struct ts_err err;
    write_tensor(0);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    conf.shape = ts_model_shape_of(t);
    before = mallinfo2();
    ck_assert_int_eq(ts_model_begin(&conf, &o, &err), 0);
    after = mallinfo2();
    ck_assert_uint_le(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd + (64u << 10));
    ts_model_end(o);
    ts_tensor_close(t);
}
END_TEST

/* A start that is written counts with the rows that it has: those of empty slices are drawn, or may
 * be zeros. */
START_TEST(a_start_takes_what_its_rows_do)
{
    struct ts_model used = { .order = 3, .rank = 5 }, all = used;
    struct ts_init_conf drawn = { .rank = 5 }, vectors = { .rank = 5, .nvecs = 1 };
    struct ts_init_conf few = { .rank = 5, .model = &used }, every = { .rank = 5, .model = &all };
    const struct ts_spec loss = { .loss = TS_GCP_HUBER };
    const struct ts_spec positive = { .mode = { { 0 }, { .nonneg = 1 }, { 0 } } };
    struct ts_init_conf scaled = { .rank = 5, .spec = &loss };
    struct ts_init_conf cut = { .rank = 5, .nvecs = 1, .spec = &positive };
    struct ts_model_conf conf = { .dir = out, .formats = TS_WRITE_NPY, .rank = 5 };
    struct ts_tensor *t = NULL;
    struct ts_err err;
    double bytes[3], before, after;
    write_tensor(3);
    ck_assert_int_eq(ts_tensor_open(dir, &t, NULL), 0);
    drawn.tensor = vectors.tensor = few.tensor = every.tensor = scaled.tensor = cut.tensor = t;
    conf.shape = ts_model_shape_of(t);
    before = ts_model_bytes(&conf);
    after = before;
    for (uint32_t m = 0; m < 3; m++) {
        const double n = (double)t->mode[m].disk.n_rows, dim = (double)t->mode[m].disk.dim;
        used.n_rows[m] = t->mode[m].disk.n_rows;
        all.n_rows[m] = t->mode[m].disk.dim;
        ck_assert(n < dim);
        ck_assert(ts_init_save_bytes(&drawn, m) == 5 * 16 * dim);
        ck_assert(ts_init_save_bytes(&vectors, m) == 5 * (16 * n + 2 * (dim - n)));
        ck_assert(ts_init_save_bytes(&few, m) == 5 * 2 * n); /* they may be 0 or 1 */
        ck_assert(ts_init_save_bytes(&every, m) == 5 * 2 * dim);
        ck_assert(ts_init_save_bytes(&scaled, m) == 4 * 16 * n + 2 * n + 5 * 2 * (dim - n));
        ck_assert(ts_init_save_bytes(&cut, m) ==
                  (m == 1 ? 5 * 2 * dim : ts_init_save_bytes(&vectors, m)));
        bytes[m] = ts_init_save_bytes(&few, m);
        after += bytes[m];
    }
    conf.start_bytes = bytes;
    ck_assert(ts_model_bytes(&conf) == after && after > before);
    ck_assert_int_eq(ts_model_room(&conf, (uint64_t)after, &err), 0);
    ck_assert_int_eq(ts_model_room(&conf, (uint64_t)after - 1, &err), TS_ELIMIT);
    ts_tensor_close(t);
}
END_TEST

/* Read into memory and written again, a decomposition is the same files; and a model that is read
 * from memory gives what is read from files. */
START_TEST(memory_holds_what_files_hold)
{
    const int used = _i & 1, binary = _i >> 1;
    struct test_cp_conf conf = usual;
    struct ts_kruskal *k = NULL;
    struct ts_model *m = NULL, *again = NULL;
    struct test_cp a;
    struct ts_err err = { 0 }, warn = { 0 };
    struct ts_kruskal_files files = { .used_rows = used, .threads = 2 };
    char copy[4200], command[9000];
    double rows[2 * 4];
    conf.formats = binary ? TS_WRITE_NPY : TS_WRITE_KTENSOR;
    conf.used_rows = used;
    conf.precision = binary ? TS_FLOAT32 : TS_FLOAT64;
    write_tensor(3);
    a = test_cp_run(dir, &conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    ck_assert_int_eq(ts_model_open(out, &m, &err), 0);
    ck_assert_msg(ts_kruskal_read(m, NULL, &k, &err) == 0, "%s", err.text);
    ts_model_close(m);
    ck_assert_int_eq(k->precision, conf.precision);
    snprintf(copy, sizeof copy, "%s/copy.cp", tmp);
    files.formats = conf.formats;
    ck_assert_msg(ts_kruskal_write(k, copy, &files, &warn, &err) == 0, "%s", err.text);
    snprintf(command, sizeof command, "diff -r %s %s", out, copy);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(ts_model_open(copy, &m, &err), 0);
    ck_assert_int_eq(ts_kruskal_model(k, 0, &again, &err), 0);
    for (uint32_t mode = 0; mode < 3; mode++) {
        ck_assert_uint_eq(m->n_rows[mode], again->n_rows[mode]);
        for (uint64_t row = 0; row < m->n_rows[mode]; row++) {
            ck_assert_int_eq(ts_model_rows(m, mode, 1, rows, &err), 0);
            ck_assert_int_eq(ts_model_rows(again, mode, 1, rows + 4, &err), 0);
            ck_assert_mem_eq(rows, rows + 4, sizeof rows / 2);
            if (!used) {
                ts_kruskal_rows(k, mode, row, 1, rows + 4);
                ck_assert_mem_eq(rows, rows + 4, sizeof rows / 2);
            }
        }
    }
    if (used) { /* rows between those that are held are zeros */
        ck_assert_ptr_nonnull(k->index[0]);
        for (uint64_t i = 0, held = 0; i < k->dim[0]; i++) {
            ts_kruskal_rows(k, 0, i, 1, rows);
            if (i < k->index[0][held]) {
                ck_assert(rows[0] == 0 && rows[3] == 0);
                continue;
            }
            ck_assert_int_eq(ts_kruskal_held(k, 0, held++, 1, rows + 4, &err), 0);
            ck_assert_mem_eq(rows, rows + 4, sizeof rows / 2);
        }
    }
    for (int i = 0; i < 2; i++) { /* both are read to their ends */
        struct ts_model *at = i == 0 ? m : again;
        ck_assert_int_eq(ts_model_rows(at, 2, 1, rows, &err), TS_EARG);
        ck_assert_int_eq(ts_model_rows(at, 0, 1, rows, &err), TS_EARG);
        ck_assert_int_eq(ts_model_rows(at, 1, 0, rows, &err), TS_EARG);
        ck_assert_msg(strstr(err.text, "read once, front to back") != NULL, "%s", err.text);
    }
    ts_model_close(again);
    ts_model_close(m);
    ts_kruskal_free(k);
    test_tsh_remove(copy);
    test_cp_free(&a);
}
END_TEST

/* ---- text that is no decomposition ---- */

static const struct bad {
    const char *text, *says;
} bads[] = {
    { "", "line 1: found \"end of file\"" },
    { "sptensor\n", "expected \"ktensor\"" },
    { "ktensor\n99\n", "line 2: \"99\" is not a number of modes" },
    { "ktensor\n3\n2 2\n2\n", "line 5: \"end of file\" is not a rank" },
    { "ktensor\n2\n2 99999999999999999999\n", "is not a size of a mode" },
    { "ktensor\n2\n2 -1\n", "is not a size of a mode" },
    { "ktensor\n2\n2 2\n4000000000\n", "is not a rank" },
    { "ktensor\n2\n2 2\n2\n1 x\n", "line 5: \"x\" is not a finite number" },
    { "ktensor\n2\n2 2\n2\n1 nan\n", "not a finite number" },
    { "ktensor\n2\n2 2\n1\n1\nmatrix\n2\n3 1\n", "line 8: matrix 1 is 3 x 1" },
    { "ktensor\n2\n2 2\n1\n1\nmatrix\n2\n2 1\n1\n", "the file ends too early" },
    { "ktensor\n2\n2 2\n1\n1\nmatrix\n2\n2 1\n1 2 3\n", "found \"3\", expected \"matrix\"" },
    { "ktensor\n2\n2 2\n1\n1\nmatrix\n2\n2 1\n1 2\nmatrix\n2\n2 1\n3 4\n\n5\n",
      "line 15: found \"5\" behind the last row" },
    { "ktensor\n2\n2 2\n1\n"
      "11111111111111111111111111111111111111111111111111111111111111111111111111111111\n",
      "a word of more than" },
};
#define N_BAD (int)(sizeof bads / sizeof bads[0])

START_TEST(bad_text_is_refused)
{
    struct ts_model *m = NULL;
    struct ts_err err;
    double rows[8];
    FILE *f = fopen(out, "w");
    int rc;
    fputs(bads[_i].text, f);
    fclose(f);
    rc = ts_model_open(out, &m, &err);
    for (uint32_t k = 0; rc == 0 && k < 2; k++)
        rc = ts_model_rows(m, k, 2, rows, &err);
    ts_model_close(rc == 0 || m != NULL ? m : NULL);
    unlink(out);
    ck_assert_int_eq(rc, TS_EFORMAT);
    ck_assert_msg(strstr(err.text, bads[_i].says) != NULL, "%s", err.text);
}
END_TEST

/* ---- directories whose files do not fit together ---- */

static void put_file(const char *name, const void *bytes, size_t n)
{
    char path[4400];
    FILE *f;
    snprintf(path, sizeof path, "%s/%s", out, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static const struct bad_mat {
    const char *lambda, *mode2, *says; /* says NULL: it is one */
} bad_mats[] = {
    { "2\n1\n", "1 2\n3 4\n", NULL },
    { "2\n\n1", " 1\t2 \r\n\n3 4", NULL },
    { "2\n1\n", "1 2 3\n4 5 6\n", "mode2.mat: line 1: the number of words is 3, expected 2" },
    { "2\n1\n", "1 2\n\n3\n", "mode2.mat: line 3: the number of words is 1, expected 2" },
    { "2\n1\n", "1 2\n3 4 5", "mode2.mat: line 2: the number of words is 3, expected 2" },
    { "2 1\n", "1 2\n3 4\n", "lambda.mat: line 1: the number of words is 2, expected 1" },
    { "\n", "1 2\n", "lambda.mat: 0 lines" },
    { "2\n1\n", "\n", "mode2.mat: it has no rows" },
};
#define N_BAD_MAT (int)(sizeof bad_mats / sizeof bad_mats[0])

START_TEST(matrices_of_another_width_are_refused)
{
    const struct bad_mat *b = &bad_mats[_i];
    struct ts_model *m = NULL;
    struct ts_err err;
    double rows[4];
    int rc;
    ck_assert_int_eq(mkdir(out, 0777), 0);
    put_file("lambda.mat", b->lambda, strlen(b->lambda));
    put_file("mode1.mat", "5 6\n", 4);
    put_file("mode2.mat", b->mode2, strlen(b->mode2));
    rc = ts_model_open(out, &m, &err);
    if (b->says == NULL) {
        ck_assert_msg(rc == 0, "%s", err.text);
        ck_assert_uint_eq(m->rank, 2);
        ck_assert_uint_eq(m->n_rows[1], 2);
        ck_assert_int_eq(ts_model_rows(m, 1, 2, rows, &err), 0);
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq(rows[i], i + 1);
        ts_model_close(m);
        return;
    }
    ck_assert_int_eq(rc, TS_EFORMAT);
    ck_assert_msg(strstr(err.text, b->says) != NULL, "%s", err.text);
}
END_TEST

static void put_npy(const char *name, const char *shape)
{
    unsigned char bytes[10 + 118 + 64 * 8] = "\x93NUMPY\x01\0\x76"; /* all numbers 0 */
    unsigned rows = 0, columns = 1;
    sscanf(shape, "(%u, %u", &rows, &columns);
    memset(bytes + 10, ' ', 118);
    snprintf((char *)bytes + 10, 118, "{'descr': '<f8', 'fortran_order': False, 'shape': %s, }",
             shape);
    put_file(name, bytes, 10 + 118 + (rows * columns <= 64 ? rows * columns * 8 : 0));
}

static const struct bad_shape {
    const char *weights, *mode2, *says; /* says NULL: it is one */
} bad_shapes[] = {
    { "(3,)", "(5, 3)", NULL },
    { "(3,)", "(5, 3, 7)", "a shape of (5, 3, 7), expected" },
    { "(3,)", "(5, 3, 1)", "a shape of (5, 3, 1), expected" },
    { "(3,)", "(5,)", "0 columns, weights.npy has 3" },
    { "(3,)", "(5, 2)", "2 columns, weights.npy has 3" },
    { "(3,)", "(0, 3)", "a shape of (0, 3), expected" },
    { "(3,)", "(-5, 3)", "a shape of (-5, 3), expected" },
    { "(3,)", "(5, 3", "a shape of (5, 3" },
    { "(3, 0)", "(5, 3)", "a shape of (3, 0), expected" },
    { "()", "(5, 3)", "a shape of (), expected" },
    { "(3, 1)", "(5, 3)", "weights.npy: byte 10: no vector" },
};
#define N_BAD_SHAPE (int)(sizeof bad_shapes / sizeof bad_shapes[0])

START_TEST(arrays_of_another_shape_are_refused)
{
    const struct bad_shape *b = &bad_shapes[_i];
    struct ts_model *m = NULL;
    struct ts_err err;
    int rc;
    ck_assert_int_eq(mkdir(out, 0777), 0);
    put_npy("weights.npy", b->weights);
    put_npy("mode1.npy", "(4, 3)");
    put_npy("mode2.npy", b->mode2);
    rc = ts_model_open(out, &m, &err);
    if (b->says == NULL) {
        ck_assert_msg(rc == 0, "%s", err.text);
        ck_assert_uint_eq(m->rank, 3);
        ck_assert_uint_eq(m->n_rows[1], 5);
        ts_model_close(m);
        return;
    }
    ck_assert_int_eq(rc, TS_EFORMAT);
    ck_assert_msg(strstr(err.text, b->says) != NULL, "%s", err.text);
}
END_TEST

/* What was cut, or has more than it says, or is of another width than it says. */
START_TEST(an_array_has_the_size_that_its_header_says)
{
    static const struct {
        long size; /* of a file of 128 + 3 * 8 bytes */
        const char *says;
    } cut[] = {
        { 153, "weights.npy: it has 153 bytes, by its header 152" },
        { 151, "weights.npy: it has 151 bytes, by its header 152" },
        { 100, "weights.npy: byte 100: the file ends inside its header" },
        { 9, "weights.npy: byte 0: no NumPy file" },
        { 0, "weights.npy: byte 0: no NumPy file" },
    };
    char path[4400];
    struct ts_model *m;
    struct ts_err err;
    FILE *f;
    ck_assert_int_eq(mkdir(out, 0777), 0);
    put_npy("mode1.npy", "(4, 3)");
    put_npy("mode2.npy", "(5, 3)");
    snprintf(path, sizeof path, "%s/weights.npy", out);
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        put_npy("weights.npy", "(3,)");
        ck_assert_int_eq(truncate(path, cut[i].size), 0);
        ck_assert_int_eq(ts_model_open(out, &m, &err), TS_EFORMAT);
        ck_assert_msg(strstr(err.text, cut[i].says) != NULL, "%s", err.text);
    }
    put_npy("weights.npy", "(3,)");
    f = fopen(path, "r+");
    fseek(f, 10 + (long)strlen("{'descr': '<f"), SEEK_SET);
    fputc('4', f);
    fclose(f);
    ck_assert_int_eq(ts_model_open(out, &m, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "it has 152 bytes, by its header 140") != NULL, "%s", err.text);
}
END_TEST

START_TEST(a_byte_of_0_is_no_end_of_a_number)
{
    static const char text[] = "ktensor\n2\n2 2\n1\n1.5\0"
                               "25\nmatrix\n2\n2 1\n1\n2\n";
    struct ts_model *m;
    struct ts_err err;
    FILE *f = fopen(out, "w");
    fwrite(text, 1, sizeof text - 1, f);
    fclose(f);
    ck_assert_int_eq(ts_model_open(out, &m, &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "line 5: a byte of 0") != NULL, "%s", err.text);
    unlink(out);
}
END_TEST

/* A link to itself stands for whatever cannot be opened: it is there, and it is not read. */
START_TEST(a_file_that_cannot_be_opened_does_not_count_as_absent)
{
    static const char *const names[][3] = {
        { "weights.npy", "mode3.npy", "(3,)" },
        { "lambda.mat", "mode3.mat", NULL },
        { "weights.npy", "model.ktensor", "(3,)" },
    };
    char path[4400];
    struct ts_model *m;
    struct ts_err err;
    ck_assert_int_eq(mkdir(out, 0777), 0);
    if (names[_i][2] != NULL) {
        put_npy("weights.npy", "(3,)");
        put_npy("mode1.npy", "(4, 3)");
        put_npy("mode2.npy", "(5, 3)");
    } else {
        put_file("lambda.mat", "1\n", 2);
        put_file("mode1.mat", "5\n", 2);
        put_file("mode2.mat", "5\n", 2);
    }
    ck_assert_int_eq(ts_model_open(out, &m, &err), 0);
    ck_assert_uint_eq(m->order, 2);
    ts_model_close(m);
    snprintf(path, sizeof path, "%s/%s", out, names[_i][1]);
    ck_assert_int_eq(symlink(names[_i][1], path), 0);
    ck_assert_int_eq(ts_model_open(out, &m, &err), TS_EIO);
    ck_assert_int_eq(err.sys, ELOOP);
    ck_assert_msg(strstr(err.text, names[_i][1]) != NULL, "%s", err.text);
}
END_TEST

START_TEST(formats_are_names)
{
    unsigned f = 0;
    struct ts_err err;
    ck_assert_int_eq(ts_model_formats("npy,ktensor", &f, &err), 0);
    ck_assert_uint_eq(f, TS_WRITE_KTENSOR | TS_WRITE_NPY);
    ck_assert_int_eq(ts_model_formats("npy,matlab", &f, &err), TS_EARG);
    ck_assert_ptr_nonnull(strstr(err.text, "\"matlab\""));
    ck_assert_int_eq(ts_model_formats("", &f, &err), TS_EARG);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("outputs");
    TCase *c = tcase_create("outputs");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, three_formats_say_the_same, 0, 4);
    tcase_add_test(c, columns_are_sorted_and_signed);
    tcase_add_test(c, rows_of_empty_slices_are_zeros);
    tcase_add_loop_test(c, a_decomposition_goes_on_from_its_files, 0, 4);
    tcase_add_test(c, an_unfitting_start_is_refused);
    tcase_add_test(c, an_earlier_result_is_replaced_and_nothing_else);
    tcase_add_test(c, litter_is_cleared_and_a_second_run_refused);
    tcase_add_test(c, factors_beyond_the_disk_are_refused_at_once);
    tcase_add_test(c, a_model_that_is_begun_has_no_rows_yet);
    tcase_add_test(c, a_start_takes_what_its_rows_do);
    tcase_add_loop_test(c, memory_holds_what_files_hold, 0, 4);
    tcase_add_loop_test(c, bad_text_is_refused, 0, N_BAD);
    tcase_add_loop_test(c, matrices_of_another_width_are_refused, 0, N_BAD_MAT);
    tcase_add_loop_test(c, arrays_of_another_shape_are_refused, 0, N_BAD_SHAPE);
    tcase_add_test(c, an_array_has_the_size_that_its_header_says);
    tcase_add_test(c, a_byte_of_0_is_no_end_of_a_number);
    tcase_add_loop_test(c, a_file_that_cannot_be_opened_does_not_count_as_absent, 0, 3);
    tcase_add_test(c, formats_are_names);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
