/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a run: what is written is read back, what is damaged or of another run is refused,
 * and a run that goes on from it, wherever it was stopped, has the bits of one that was not. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "cpd/state/run_options.h"
#include "tests/cpd/run_cp.h"
#include "tests/support/run_suite.h"
#include "tests/format/tsh_writer.h"

static char *tmp, dir[4096], states[4096], path[4200];

static void setup(void)
{
    tmp = test_tsh_tmp();
    snprintf(dir, sizeof dir, "%s/x.tsh", tmp);
    snprintf(states, sizeof states, "%s/states", tmp);
    ck_assert_int_eq(mkdir(states, 0777), 0);
}

static void teardown(void)
{
    test_tsh_remove(dir);
    test_tsh_remove(states);
    test_tsh_remove(tmp);
    free(tmp);
}

static const char *state(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", states, name);
    return path;
}

/* ---- the file ---- */

#define RANK 5u
static double gram[3 * RANK * RANK], lambda[RANK];
static float factor[3][7 * RANK];
static struct ts_state_past past[3];
static struct ts_disk_figures figures[3];
static char options[] = "rank=5\0tensor=a b=c\0";

/* In sweep 4, before mode 1, whose factor is not there. */
static struct ts_state some_state(enum ts_precision precision)
{
    struct ts_state s = { .serial = 9,
                          .tensor_hash = 0x1234567890abcdef,
                          .nnz = 77,
                          .saved_s = 5,
                          .run_ns = 6,
                          .order = 3,
                          .rank = RANK,
                          .sweep = 4,
                          .mode = 1,
                          .precision = precision,
                          .flags = TS_STATE_WIDE,
                          .dim = { 9, 5, 2 },
                          .n_rows = { 7, 5, 2 },
                          .factors = 5,
                          .gram = gram,
                          .lambda = lambda,
                          .past = past,
                          .options = options,
                          .options_bytes = sizeof options - 1 };
    for (uint32_t i = 0; i < 3 * RANK * RANK; i++)
        gram[i] = 1.0 / (i + 1);
    for (uint32_t i = 0; i < RANK; i++)
        lambda[i] = i;
    for (uint32_t i = 0; i < TS_PART_N_SINGULAR; i++)
        s.part[i] = 100 + i;
    for (uint32_t i = 0; i < 3; i++)
        past[i] = (struct ts_state_past){ .fit = 0.1 * i, .total_ns = i };
    for (uint32_t m = 0; m < 3; m++)
        for (uint32_t i = 0; i < 7 * RANK; i++)
            factor[m][i] = (float)(m + 1) / (float)(i + 3);
    return s;
}

static int some_rows(void *ctx, uint32_t mode, uint64_t row, uint64_t n, void *ret,
                     struct ts_err *err)
{
    const struct ts_state *s = ctx;
    (void)err;
    for (uint64_t i = 0; i < n * RANK; i++) {
        const float x = factor[mode][row * RANK + i];
        if (s->precision == TS_FLOAT32)
            ((float *)ret)[i] = x;
        else
            ((double *)ret)[i] = x;
    }
    return 0;
}

static void write_state(struct ts_state *s, const char *name)
{
    struct ts_err err;
    struct stat st;
    const int fd = open(state(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(ts_state_write(s, some_rows, s, NULL, fd, name, &err) == 0, "%s", err.text);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, ts_state_bytes(s));
    close(fd);
}

static int open_state(const char *name, struct ts_err *err)
{
    struct ts_state_file *f = NULL;
    const int rc = ts_state_open(state(name), &f, err);
    ck_assert((rc == 0) == (f != NULL));
    ts_state_close(f);
    return rc;
}

static unsigned char *read_file(const char *name, size_t *n)
{
    FILE *f = fopen(state(name), "rb");
    unsigned char *bytes = malloc(1 << 20);
    ck_assert_ptr_nonnull(f);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(state(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

START_TEST(what_was_written_is_read)
{
    struct ts_state s = some_state(_i == 0 ? TS_FLOAT32 : TS_FLOAT64);
    struct ts_state_file *f;
    const struct ts_state *got;
    struct ts_err err;
    double rows[7 * RANK];
    for (uint32_t i = 0; i < 3; i++)
        figures[i] = (struct ts_disk_figures){ .objective = i, .rmse = -i, .n_dead = RANK };
    s.figured = _i;
    s.figures = figures;
    write_state(&s, "a");
    ck_assert_msg(ts_state_open(state("a"), &f, &err) == 0, "%s", err.text);
    got = ts_state_get(f);
    ck_assert(got->serial == 9 && got->nnz == 77 && got->saved_s == 5 && got->run_ns == 6 &&
              got->order == 3 && got->rank == RANK && got->sweep == 4 && got->mode == 1 &&
              got->precision == s.precision && got->flags == TS_STATE_WIDE && got->factors == 5 &&
              got->tensor_hash == s.tensor_hash);
    ck_assert_mem_eq(got->n_rows, s.n_rows, sizeof s.n_rows);
    ck_assert_mem_eq(got->dim, s.dim, sizeof s.dim);
    ck_assert_mem_eq(got->gram, gram, sizeof gram);
    ck_assert_mem_eq(got->lambda, lambda, sizeof lambda);
    ck_assert_mem_eq(got->past, past, sizeof past);
    ck_assert_int_eq(got->figured, _i);
    if (_i == 1)
        ck_assert_mem_eq(got->figures, figures, sizeof figures);
    else
        ck_assert_ptr_null(got->figures);
    ck_assert_mem_eq(got->part, s.part, sizeof s.part);
    ck_assert_str_eq(ts_state_option(got, "rank"), "5");
    ck_assert_str_eq(ts_state_option(got, "tensor"), "a b=c");
    ck_assert_ptr_null(ts_state_option(got, "ran"));
    for (uint32_t m = 0; m < 3; m += 2)
        for (uint64_t first = 0; first < s.n_rows[m]; first += 3) {
            const uint64_t n = s.n_rows[m] - first < 3 ? s.n_rows[m] - first : 3;
            ck_assert_int_eq(ts_state_rows(f, m, first, n, rows, &err), 0);
            for (uint64_t i = 0; i < n * RANK; i++)
                ck_assert(rows[i] == (double)factor[m][first * RANK + i]);
        }
    ts_state_close(f);
}
END_TEST

START_TEST(every_flipped_byte_is_seen)
{
    struct ts_state s = some_state(_i == 0 ? TS_FLOAT32 : TS_FLOAT64);
    unsigned char *bytes;
    struct ts_err err;
    size_t n;
    write_state(&s, "a");
    bytes = read_file("a", &n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (unsigned char)(1u << i % 8);
        write_file("b", bytes, n);
        ck_assert_msg(open_state("b", &err) == TS_EFORMAT, "byte %zu of %zu", i, n);
        bytes[i] ^= (unsigned char)(1u << i % 8);
    }
    for (size_t i = 0; i < n; i += i < 600 ? 1 : 13) {
        write_file("b", bytes, i);
        ck_assert_msg(open_state("b", &err) == TS_EFORMAT, "%zu bytes of %zu", i, n);
    }
    write_file("b", bytes, n + 1);
    ck_assert_int_eq(open_state("b", &err), TS_EFORMAT);
    free(bytes);
}
END_TEST

/* What a checksum does not see, because whoever wrote it made a right one. */
static const struct lie {
    size_t at; /* in the header; from 256 on in the table of sections */
    uint32_t value;
    const char *says;
} lies[] = {
    { 0, 0x31313131, "byte 0: not the state of a run" },
    { 8, 2, "byte 8: format version 2, but this program reads version 1" },
    { 12, 0, "number of sections" },
    { 12, 5, "number of sections" },
    { 12, 73, "number of sections" },
    { 12, 0xffffffff, "number of sections" },
    { 16, 3, "expected 3 (it was cut short, or damaged)" },
    { 48, 1, "header that is not possible" }, /* order */
    { 48, 17, "header that is not possible" },
    { 48, 2, "" }, /* whatever is found first */
    { 48, 4, "" },
    { 52, 0, "header that is not possible" }, /* rank */
    { 52, 2049, "header that is not possible" },
    { 52, 4, "a section of a size that is not possible" },
    { 56, 2, "header that is not possible" }, /* precision */
    { 56, 1, "a section of a size that is not possible" },
    { 60, 1, "a factor is missing" },          /* ended */
    { 60, 16, "header that is not possible" }, /* an unknown flag */
    { 60, 0x80000002, "header that is not possible" },
    { 60, 8, "header that is not possible" }, /* a fit before the last mode */
    { 64, 0, "header that is not possible" }, /* sweep */
    { 64, 5, "a section of a size that is not possible" },
    { 64, 0xffffffff, "a section of a size that is not possible" },
    { 68, 3, "header that is not possible" }, /* mode */
    { 68, 0, "a factor is missing" },
    { 256, 0x6c617564, "has a section \"duale\", which this program does not know" },
    { 256 + 16, 0xffffffff, "section that is not possible" },
    { 256 + 16, 0, "" },
    { 256 + 20, 0xffffffff, "section that is not possible" },
    { 256 + 32, 0x70616873, "" }, /* "gram" becomes "shap" */
};
#define N_LIES (int)(sizeof lies / sizeof lies[0])

START_TEST(a_state_that_lies_is_refused)
{
    const struct lie *l = &lies[_i];
    struct ts_state s = some_state(TS_FLOAT32);
    const size_t head = 256 + 8 * 32;
    unsigned char *bytes;
    uint64_t hash;
    struct ts_err err;
    size_t n;
    write_state(&s, "a");
    bytes = read_file("a", &n);
    memcpy(bytes + l->at, &l->value, sizeof l->value);
    hash = XXH3_64bits(bytes, head);
    memcpy(bytes + head, &hash, sizeof hash);
    write_file("b", bytes, n);
    ck_assert_int_eq(open_state("b", &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, l->says) != NULL, "%s", err.text);
    free(bytes);
}
END_TEST

/* The last mode's product is summed once more in float32 alone, and in the middle of a run. */
START_TEST(flags_that_do_not_go_together_are_refused)
{
    static const struct {
        unsigned more;
        enum ts_precision precision;
        int rc;
    } cases[] = {
        { 0, TS_FLOAT32, 0 },
        { TS_STATE_WIDE | TS_STATE_EXACT, TS_FLOAT32, 0 },
        { TS_STATE_ENDED, TS_FLOAT32, TS_EFORMAT },
        { 0, TS_FLOAT64, TS_EFORMAT },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ts_state s = some_state(cases[i].precision);
        struct ts_err err;
        s.mode = 2;
        s.factors = 7;
        s.flags = TS_STATE_FIT | cases[i].more;
        write_state(&s, "a");
        ck_assert_int_eq(open_state("a", &err), cases[i].rc);
        if (cases[i].rc < 0)
            ck_assert_msg(strstr(err.text, "header that is not possible") != NULL, "%s", err.text);
    }
}
END_TEST

/* Where a section of a state begins. */
static size_t find_section(const unsigned char *bytes, const char *name, size_t *n)
{
    struct ts_disk_state h;
    struct ts_disk_section section;
    size_t at;
    memcpy(&h, bytes, sizeof h);
    at = sizeof h + h.n_sections * sizeof section + 8;
    for (uint32_t i = 0; i < h.n_sections; i++) {
        memcpy(&section, bytes + sizeof h + i * sizeof section, sizeof section);
        *n = (section.bytes + 7) / 8 * 8;
        if (strncmp(section.name, name, sizeof section.name) == 0)
            return at;
        at += *n + 8;
    }
    ck_abort_msg("there is no section %s", name);
    return 0;
}

/* A state of modes with an l2, of which the second has more demands and another number of the
 * loss. */
static int open_other(uint32_t demands, double loss_at, struct ts_err *err)
{
    struct ts_state s = some_state(TS_FLOAT32);
    struct ts_disk_constraint second;
    unsigned char *bytes;
    uint64_t hash;
    size_t n, all, at;
    s.constrained = 1;
    for (uint32_t m = 0; m < 3; m++)
        s.spec.mode[m].l2 = 0.1;
    write_state(&s, "a");
    bytes = read_file("a", &all);
    at = find_section(bytes, "constraints", &n);
    memcpy(&second, bytes + at + sizeof second, sizeof second);
    second.demands |= demands;
    second.loss_at = loss_at;
    memcpy(bytes + at + sizeof second, &second, sizeof second);
    hash = XXH3_64bits(bytes + at, n);
    memcpy(bytes + at + n, &hash, sizeof hash);
    write_file("b", bytes, all);
    free(bytes);
    return open_state("b", err);
}

/* What the format has for each mode and a run has once. */
START_TEST(modes_that_are_of_different_runs_are_refused)
{
    static const uint32_t of_run[] = { TS_DEMAND_OBSERVED, TS_DEMAND_BY_COUNT, TS_DEMAND_POISSON,
                                       TS_DEMAND_LOSS,     TS_DEMAND_LBFGSB,   TS_DEMAND_MEAN,
                                       TS_DEMAND_BEST,     TS_DEMAND_HELD,     0 };
    struct ts_err err;
    ck_assert_msg(open_other(0, 0, &err) == 0, "%s", err.text);
    ck_assert_msg(open_other(TS_DEMAND_NONNEG, 0, &err) == TS_EFORMAT, "%s", err.text);
    ck_assert_msg(strstr(err.text, "a factor is missing") != NULL, "%s", err.text);
    for (size_t i = 0; i < sizeof of_run / sizeof of_run[0]; i++) {
        ck_assert_int_eq(open_other(of_run[i], of_run[i] == 0, &err), TS_EFORMAT);
        ck_assert_msg(strstr(err.text, "constraints that are not possible") != NULL, "%s",
                      err.text);
    }
}
END_TEST

START_TEST(figures_that_cannot_be_are_refused)
{
    struct ts_state s = some_state(TS_FLOAT32);
    struct ts_err err;
    memset(figures, 0, sizeof figures);
    figures[2].n_dead = RANK + 1;
    s.figured = 1;
    s.figures = figures;
    write_state(&s, "a");
    ck_assert_int_eq(open_state("a", &err), TS_EFORMAT);
    ck_assert_msg(strstr(err.text, "figures of a sweep") != NULL, "%s", err.text);
}
END_TEST

START_TEST(what_is_no_state_is_refused)
{
    struct ts_err err;
    ck_assert_int_eq(open_state("none", &err), TS_EIO);
    ck_assert_int_eq(err.sys, ENOENT);
    write_file("a", "", 0);
    ck_assert_int_eq(open_state("a", &err), TS_EFORMAT);
    ck_assert_int_eq(mkfifo(state("pipe"), 0666), 0);
    ck_assert_int_eq(open_state("pipe", &err), TS_EFORMAT);
    ck_assert_int_eq(open_state(".", &err), TS_EFORMAT);
}
END_TEST

/* ---- saving ---- */

static int stub_get(void *be, uint32_t mode, uint64_t row, uint64_t n, double *rows,
                    struct ts_err *err)
{
    (void)be;
    (void)err;
    for (uint64_t i = 0; i < n * RANK; i++)
        rows[i] = (double)factor[mode][row * RANK + i];
    return 0;
}

static char warning[1024];

static void note_warning(void *ctx, const struct ts_err *err)
{
    (void)ctx;
    snprintf(warning, sizeof warning, "%s", err->text);
}

/* Many runs have one at once, and one asks for rows at a time. A sanitizer's allocator says that
 * nothing is in use. */
START_TEST(rows_are_kept_no_longer_than_they_are_written)
{
    static const struct ts_backend stub = { .get_rows = stub_get };
    struct ts_tensor t = { .order = 3, .nnz = 77, .hash = 1 };
    struct ts_state s = some_state(TS_FLOAT32);
    struct ts_checkpoint_conf conf = {
        .where = states, .tensor = &t, .backend = &stub, .rank = RANK, .warn = note_warning
    };
    struct mallinfo2 before, after;
    struct ts_checkpoint *c;
    struct ts_err err;
    uint32_t sweep, mode;
    for (uint32_t m = 0; m < 3; m++) {
        t.mode[m].disk.n_rows = s.n_rows[m];
        t.mode[m].disk.dim = s.dim[m];
    }
    conf.dir = open(states, O_RDONLY | O_DIRECTORY);
    before = mallinfo2();
    ck_assert_int_eq(ts_checkpoint_new(&conf, &c, &err), 0);
    for (s.sweep = 2; s.sweep <= 3; s.sweep++) {
        ck_assert_int_eq(ts_checkpoint_sweep(c, 0.5, 1, figures, &err), 0);
        ts_checkpoint_save(c, &s);
        after = mallinfo2();
        ck_assert_uint_le(after.uordblks + after.hblkhd,
                          before.uordblks + before.hblkhd + (256u << 10));
    }
    ck_assert_int_eq(ts_checkpoint_last(c, &sweep, &mode), 1);
    ts_checkpoint_free(c);
    close(conf.dir);
}
END_TEST

/* A disk that is full, as a limit on the size of files: the one before stays, nothing else does. */
START_TEST(a_full_disk_costs_a_warning)
{
    static const struct ts_backend stub = { .get_rows = stub_get };
    struct ts_tensor t = { .order = 3, .nnz = 77, .hash = 1 };
    struct ts_state s = some_state(TS_FLOAT32);
    struct ts_checkpoint_conf conf = { .where = states,
                                       .tensor = &t,
                                       .backend = &stub,
                                       .rank = RANK,
                                       .every_ns = 1,
                                       .share = 1,
                                       .copy = _i % 2,
                                       .warn = note_warning };
    /* the sweep whose state is the first that does not fit */
    const uint32_t fails = _i < 2 ? 3 : 2;
    struct ts_checkpoint *c;
    struct ts_state_file *f;
    struct rlimit limit, least;
    struct ts_err err;
    uint32_t sweep, mode;
    for (uint32_t m = 0; m < 3; m++) {
        t.mode[m].disk.n_rows = s.n_rows[m];
        t.mode[m].disk.dim = s.dim[m];
    }
    conf.dir = open(states, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(ts_checkpoint_new(&conf, &c, &err), 0);
    ck_assert_int_eq(ts_checkpoint_last(c, &sweep, &mode), 0);
    for (s.sweep = 2; s.sweep <= 3; s.sweep++) {
        ck_assert_int_eq(ts_checkpoint_sweep(c, 0.5, 1, figures, &err), 0);
        while (!ts_checkpoint_due(c))
            usleep(1000);
        if (s.sweep == fails) {
            signal(SIGXFSZ, SIG_IGN);
            getrlimit(RLIMIT_FSIZE, &limit);
            least = limit;
            least.rlim_cur = 1000;
            setrlimit(RLIMIT_FSIZE, &least);
        }
        ts_checkpoint_take(c, &s, ts_clock_ns());
        while (_i % 2 == 1 && !ts_checkpoint_due(c))
            usleep(1000);
    }
    ck_assert_msg(strstr(warning, "File too large") != NULL, "%s", warning);
    ck_assert_msg(strstr(warning, fails == 2 ? "; no state is saved so far"
                                             : "; the state before it stays") != NULL,
                  "%s", warning);
    if (fails == 2) {
        setrlimit(RLIMIT_FSIZE, &limit);
        ck_assert_int_eq(ts_checkpoint_last(c, &sweep, &mode), 0);
        ts_checkpoint_free(c);
        close(conf.dir);
        return;
    }
    ck_assert_int_eq(ts_checkpoint_last(c, &sweep, &mode), 1);
    ck_assert_uint_eq(sweep, 2);
    ck_assert_uint_eq(mode, 1);
    setrlimit(RLIMIT_FSIZE, &limit);
    ck_assert_int_eq(access(state(TS_STATE_NAME_0), F_OK), -1);
    ck_assert_int_eq(access(state(TS_STATE_NAME_0 ".new"), F_OK), -1);
    ck_assert_int_eq(ts_state_open(state(TS_STATE_NAME_1), &f, &err), 0);
    ck_assert_uint_eq(ts_state_get(f)->sweep, 2);
    ts_state_close(f);
    s.sweep = 3; /* there is room again */
    ts_checkpoint_save(c, &s);
    ck_assert_int_eq(ts_state_open(state(TS_STATE_NAME_0), &f, &err), 0);
    ck_assert_uint_eq(ts_state_get(f)->sweep, 3);
    ts_state_close(f);
    ts_checkpoint_free(c);
    close(conf.dir);
}
END_TEST

/* ---- runs ---- */

static void write_tensor(uint64_t seed)
{
    static const uint64_t dim[3] = { 90, 60, 30 };
    const struct test_tsh_conf conf = { .kind = TS_VALUE_F32, .stretch = 2, .shard_partitions = 1 };
    struct test_coo x = test_coo_random(seed, 3, dim, 50000, 0, 0.5);
    for (uint64_t n = 0; n < x.nnz; n++)
        x.val[n] = (float)(x.val[n] - 0.25);
    test_tsh_write(dir, &x, &conf);
    test_coo_free(&x);
}

#define SWEEPS 4u
static const struct test_cp_conf usual = {
    .rank = 6, .iters = SWEEPS, .threads = 1, .seed = 1, .states = states
};

static struct test_cp run(const struct test_cp_conf *conf)
{
    struct test_cp a = test_cp_run(dir, conf);
    ck_assert_msg(a.rc == 0, "%s", a.err.text);
    return a;
}

/* The results, and the fits of the sweeps that b made. */
static void assert_same(const struct test_cp *a, const struct test_cp *b)
{
    ck_assert_uint_eq(a->sweeps, b->sweeps);
    ck_assert_int_eq(a->converged, b->converged);
    ck_assert_mem_eq(a->weight, b->weight, a->rank * sizeof(double));
    for (uint32_t m = 0; m < 3; m++)
        ck_assert_mem_eq(a->factor[m], b->factor[m], a->n_rows[m] * a->rank * sizeof(double));
    for (uint32_t k = 0; k < a->sweeps; k++)
        ck_assert_msg(b->fit[k] == 0 || memcmp(&a->fit[k], &b->fit[k], sizeof(double)) == 0,
                      "sweep %u: fit %.17g and %.17g", k + 1, a->fit[k], b->fit[k]);
}

/* Stops at each place, with each precision, in the middle of a mode and behind it; goes on with
 * other threads and memory; stops again, and goes on to the end. */
START_TEST(a_run_that_was_stopped_has_the_same_bits)
{
    const uint32_t place = (uint32_t)_i % (SWEEPS * 3);
    struct test_cp_conf conf = usual, again;
    struct test_cp whole, a, b;
    conf.precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    conf.stop_inside = _i / (int)(SWEEPS * 3);
    conf.one_call = 0;
    write_tensor(31);
    whole = run(&conf);
    conf.stop_sweep = place / 3 + 1;
    conf.stop_mode = place % 3;
    a = test_cp_run(dir, &conf);
    if (place + 1 == SWEEPS * 3 && !conf.stop_inside) { /* nothing is left to be stopped */
        ck_assert_int_eq(a.rc, 0);
        test_cp_free(&a);
        test_cp_free(&whole);
        return;
    }
    ck_assert_int_eq(a.rc, TS_ESTOP);
    ck_assert_uint_eq(a.saved_sweep * 3 + a.saved_mode,
                      conf.stop_sweep * 3 + conf.stop_mode + !conf.stop_inside);
    again = conf;
    again.threads = 3;
    again.host_bytes = 500000;
    again.from = strdup(state(TS_STATE_NAME_1));
    again.stop_inside = !conf.stop_inside;
    again.stop_sweep = SWEEPS;
    again.stop_mode = 1;
    b = test_cp_run(dir, &again);
    if (b.rc == TS_ESTOP) { /* the first stop may have come behind the second's place */
        free((char *)(uintptr_t)again.from);
        again.from = strdup(state(TS_STATE_NAME_0));
        again.stop_sweep = 0;
        again.stop_inside = 0;
        test_cp_free(&b);
        b = test_cp_run(dir, &again);
    }
    ck_assert_msg(b.rc == 0, "%s", b.err.text);
    ck_assert_uint_gt(b.n_slots, 0);
    assert_same(&whole, &b);
    free((char *)(uintptr_t)again.from);
    test_cp_free(&a);
    test_cp_free(&b);
    test_cp_free(&whole);
}
END_TEST

/* Rank 2 in every cell: the first sweeps are summed in float32, then one mode is done once more in
 * float64, and all that follow are. Every product of the run is given up once. */
START_TEST(a_run_whose_sums_grow_wide_has_the_same_bits)
{
    const struct test_tsh_conf tc = { .kind = TS_VALUE_F32 };
    struct test_cp_conf conf = usual;
    struct test_coo x = { .order = 3, .nnz = 12 * 11 * 10, .dim = { 12, 11, 10 } };
    struct test_cp whole, a;
    char *from = strdup(state(TS_STATE_NAME_1));
    for (uint32_t m = 0; m < 3; m++)
        x.idx[m] = malloc(x.nnz * sizeof(uint32_t));
    x.val = calloc(x.nnz, sizeof(double));
    for (uint64_t n = 0; n < x.nnz; n++) {
        x.idx[0][n] = (uint32_t)(n / 110);
        x.idx[1][n] = (uint32_t)(n / 10 % 11);
        x.idx[2][n] = (uint32_t)(n % 10);
        x.val[n] = (float)((double)(n / 110 + 1) * (double)(n % 10 + 1) +
                           0.01 * (double)(n / 10 % 11) * (double)(n % 7));
    }
    test_tsh_write(dir, &x, &tc);
    test_coo_free(&x);
    conf.precision = TS_FLOAT32;
    conf.rank = 2;
    conf.iters = 8;
    whole = run(&conf);
    ck_assert_uint_gt(whole.n_products, 3 * whole.sweeps); /* one was done once more */
    for (uint32_t k = 1; k <= whole.n_products; k++) {
        conf.stop_product = k;
        a = test_cp_run(dir, &conf);
        ck_assert_int_eq(a.rc, TS_ESTOP);
        test_cp_free(&a);
        conf.stop_product = 0;
        conf.from = from;
        a = run(&conf);
        assert_same(&whole, &a);
        conf.from = NULL;
        test_cp_free(&a);
    }
    test_cp_free(&whole);
    free(from);
}
END_TEST

/* A state after every mode, or as many as the thread manages: both that are left lead to the same
 * end. */
START_TEST(states_saved_beside_the_run_lead_to_its_end)
{
    struct test_cp_conf conf = usual;
    struct test_cp whole, a;
    static const char *const name[] = { TS_STATE_NAME_0, TS_STATE_NAME_1, TS_STATE_NAME };
    uint64_t serial[3] = { 0 };
    conf.precision = _i % 2 == 0 ? TS_FLOAT64 : TS_FLOAT32;
    conf.copy = _i / 2;
    conf.iters = 99;
    write_tensor(32);
    whole = run(&conf);
    ck_assert_int_eq(access(state(TS_STATE_NAME), F_OK), -1); /* nobody asked */
    conf.every_ns = 1;
    conf.patient = 1;
    a = run(&conf);
    assert_same(&whole, &a);
    test_cp_free(&a);
    conf.every_ns = 0;
    conf.patient = 0;
    for (int k = 0; k < 3; k++) {
        struct ts_state_file *f;
        struct ts_err err;
        ck_assert_msg(ts_state_open(state(name[k]), &f, &err) == 0, "%s", err.text);
        serial[k] = ts_state_get(f)->serial;
        ck_assert_int_eq((ts_state_get(f)->flags & TS_STATE_ENDED) != 0, k == 2);
        ts_state_close(f);
        conf.from = state(name[k]);
        a = run(&conf);
        assert_same(&whole, &a);
        test_cp_free(&a);
    }
    ck_assert(serial[0] + 1 == serial[1] || serial[1] + 1 == serial[0]);
    ck_assert_uint_gt(serial[2], serial[0]);
    ck_assert_uint_gt(serial[2], serial[1]);
    test_cp_free(&whole);
}
END_TEST

START_TEST(a_run_that_ended_goes_on)
{
    struct test_cp_conf conf = usual;
    struct test_cp whole, a;
    char *from = strdup(state(TS_STATE_NAME));
    write_tensor(33);
    conf.iters = 40;
    if (_i == 1)
        conf.tol = 3e-4;
    whole = run(&conf);
    ck_assert_int_eq(whole.converged, _i == 1);
    conf.every_ns = UINT64_C(1) << 50;
    conf.iters = _i == 1 ? 40 : 3;
    conf.tol = _i == 1 ? 3e-3 : 0;
    a = run(&conf);
    ck_assert_uint_lt(a.sweeps, whole.sweeps);
    test_cp_free(&a);
    conf.iters = 40;
    conf.tol = _i == 1 ? 3e-4 : 0;
    conf.from = from;
    a = run(&conf);
    assert_same(&whole, &a);
    test_cp_free(&a);
    a = run(&conf); /* nothing is left to do, and the result is the same */
    assert_same(&whole, &a);
    ck_assert_uint_eq(a.last.sweep, 0);
    test_cp_free(&a);
    test_cp_free(&whole);
    free(from);
}
END_TEST

static const struct stranger {
    uint64_t seed;
    uint32_t rank, iters;
    enum ts_precision precision;
    const char *says;
} strangers[] = {
    { 35, 6, SWEEPS, TS_FLOAT32, "is not the tensor of the run in " },
    { 34, 7, SWEEPS, TS_FLOAT32, "the run has rank 6, but rank is 7" },
    { 34, 6, SWEEPS, TS_FLOAT64, "the run has precision float32, but precision is float64" },
    { 34, 6, 1, TS_FLOAT32, "the run is in sweep 2 already, and sweeps is 1" },
};
#define N_STRANGERS (int)(sizeof strangers / sizeof strangers[0])

START_TEST(the_state_of_another_run_is_refused)
{
    const struct stranger *s = &strangers[_i];
    struct test_cp_conf conf = usual;
    struct test_cp a;
    conf.precision = TS_FLOAT32;
    conf.stop_sweep = 2;
    write_tensor(34);
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    test_cp_free(&a);
    test_tsh_remove(dir);
    write_tensor(s->seed);
    conf.from = state(TS_STATE_NAME_1);
    conf.rank = s->rank;
    conf.precision = s->precision;
    conf.iters = s->iters;
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, s->says) != NULL, "%s", a.err.text);
    test_cp_free(&a);
}
END_TEST

/* Its state lacks the factor that sweep 3 begins with: as a result it would be of no sweep. */
START_TEST(a_run_that_was_stopped_between_sweeps_has_no_result)
{
    struct test_cp_conf conf = usual;
    struct test_cp a;
    conf.stop_sweep = 2;
    conf.stop_mode = 2;
    write_tensor(34);
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, TS_ESTOP);
    ck_assert_msg(strstr(a.err.text, "after sweep 2") != NULL, "%s", a.err.text);
    test_cp_free(&a);
    conf.stop_sweep = 0;
    conf.from = state(TS_STATE_NAME_1);
    conf.iters = 2;
    a = test_cp_run(dir, &conf);
    ck_assert_int_eq(a.rc, TS_EARG);
    ck_assert_msg(strstr(a.err.text, "in sweep 3 already, and sweeps is 2") != NULL, "%s",
                  a.err.text);
    test_cp_free(&a);
}
END_TEST

/* Values in a file are held against what may be typed, whoever reads them. */
START_TEST(a_text_of_options_is_of_a_run)
{
    static const char *const good[] = { "rank=3",        "seed=18446744073709551615",
                                        "iters=1",       "inner=10",
                                        "hold-out=10%",  "hold-out=0.1",
                                        "checkpoint=5m", "hold-out=fold 1/5",
                                        "checkpoint=0",  "checkpoint=300000ms",
                                        "patience=0" };
    static const char *const bad[] = { "rank=x",
                                       "seed=-1",
                                       "iters=0",
                                       "inner=many",
                                       "hold-out=100%",
                                       "hold-out=half",
                                       "checkpoint=soon",
                                       "hold-out=fold 6/5",
                                       "seed=1 2",
                                       "hold-out=0.1x",
                                       "patience=4294967296",
                                       "hold-out=nan",
                                       "inner=0",
                                       "hold-out=-0.1" };
    struct ts_err err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ck_assert_msg(ts_run_options_check("state", good[i], strlen(good[i]) + 1, 0, &err) == 0,
                      "%s", err.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(ts_run_options_check("state", bad[i], strlen(bad[i]) + 1, 0, &err) ==
                          TS_EFORMAT,
                      "%s is taken", bad[i]);
        ck_assert_ptr_nonnull(strstr(err.text, "which no run has"));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *c = tcase_create("checkpoint");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, what_was_written_is_read, 0, 2);
    tcase_add_loop_test(c, every_flipped_byte_is_seen, 0, 2);
    tcase_add_loop_test(c, a_state_that_lies_is_refused, 0, N_LIES);
    tcase_add_test(c, flags_that_do_not_go_together_are_refused);
    tcase_add_test(c, modes_that_are_of_different_runs_are_refused);
    tcase_add_test(c, figures_that_cannot_be_are_refused);
    tcase_add_test(c, what_is_no_state_is_refused);
    tcase_add_test(c, rows_are_kept_no_longer_than_they_are_written);
    tcase_add_loop_test(c, a_full_disk_costs_a_warning, 0, 4);
    tcase_add_loop_test(c, a_run_that_was_stopped_has_the_same_bits, 0, 2 * SWEEPS * 3);
    tcase_add_test(c, a_run_whose_sums_grow_wide_has_the_same_bits);
    tcase_add_loop_test(c, states_saved_beside_the_run_lead_to_its_end, 0, 4);
    tcase_add_loop_test(c, a_run_that_ended_goes_on, 0, 2);
    tcase_add_loop_test(c, the_state_of_another_run_is_refused, 0, N_STRANGERS);
    tcase_add_test(c, a_run_that_was_stopped_between_sweeps_has_no_result);
    tcase_add_test(c, a_text_of_options_is_of_a_run);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    return test_run_suite(suite(), CK_FORK_GETENV);
}
