/* SPDX-License-Identifier: BSD-3-Clause */
/* Random builds, whose peaks of disk and memory lie between the bounds that the build itself is
 * held against: before it reads, after reading, and before packing.
 *
 *     check_space_bounds [SECONDS [SEED [CASE]]]
 *
 * Each case is a process. After each write to a temporary file, every half a millisecond and in the
 * end the blocks are added up of what lies in the result's directory, and of all files without a
 * name that the process has open. What packing holds in both for less time may be missed, so a case
 * whose lower bound is above the peak is tried again. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/machine/machine.h"
#include "base/num.h"
#include "base/rng.h"
#include "build/build.h"
#include "format/tensor.h"
#include "source/push_source.h"
#include "source/tensor_source.h"
#include "tests/source/binary_file.h"
#include "tests/mpi/comm_threads.h"
#include "tests/format/tsh_writer.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MEMORY 1 /* sanitizers take memory of their own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define OWN_MEMORY 1
#endif
#endif
#ifndef OWN_MEMORY
#define OWN_MEMORY 0
#endif

#define TRIES      4
#define LOCK       4096 /* bytes of a lock that was removed and is open still */
#define MOST_RANKS 3u
#define SECONDS    12 /* of make check */

enum source { DRAWS, TEXT, GZIP, TABLE, SPLATT, GENTEN, PUSHED, SELECTED, N_SOURCES };
static const char *const source_name[] = { "draws",  "text",   "gzip",   "table",
                                           "splatt", "genten", "pushed", "selected" };

struct space_case {
    enum source source;
    uint32_t order, ranks;
    uint64_t dim[TS_MAX_ORDER], seed;
    uint64_t nnz;
    double power, zeros; /* zeros: share of the values */
    uint64_t value_last; /* 0: real values */
    double hold_out;
    int known_dims;
    struct ts_build_options o;
};

static char *dir, input[4096], result[4096], given[4096];

static double draw(uint64_t *state)
{
    *state = ts_mix(*state + UINT64_C(0x9e3779b97f4a7c15));
    return (double)(*state >> 11) * 0x1p-53;
}

static uint64_t draw_to(uint64_t *state, uint64_t n)
{
    return (uint64_t)(draw(state) * (double)n);
}

/* From a to b, where each order of magnitude is as likely. */
static uint64_t draw_size(uint64_t *state, double a, double b)
{
    return (uint64_t)(a * pow(b / a, draw(state)));
}

static struct space_case case_new(uint64_t seed)
{
    uint64_t s = seed;
    struct space_case c = { .source = (enum source)draw_to(&s, N_SOURCES), .seed = seed };
    double cells = 1;
    c.order = 2 + (uint32_t)draw_to(&s, 4);
    c.nnz = draw_size(&s, 20, 600000);
    for (uint32_t m = 0; m < c.order; m++) {
        c.dim[m] = draw_size(&s, 2, 2e6);
        cells *= (double)c.dim[m];
    }
    c.nnz = (double)c.nnz > cells * 4 ? (uint64_t)(cells * 4) : c.nnz;
    c.power = draw(&s) < 0.5 ? 0 : 1.3 * draw(&s);
    c.value_last = draw(&s) < 0.3 ? 0 : 1 + draw_size(&s, 1, 100000);
    c.zeros = draw(&s) < 0.7 ? 0 : draw(&s) * 0.9;
    c.hold_out = draw(&s) * 0.9;
    c.known_dims = draw(&s) < 0.5;
    c.o.out = result;
    c.o.threads = 1 + (uint32_t)draw_to(&s, 3);
    c.o.memory = UINT64_C(32) << (20 + draw_to(&s, 4));
    c.o.shard_bytes = TS_BUILD_MIN_SHARD << draw_to(&s, 4);
    c.o.area_words = draw(&s) < 0.4 ? 0 : draw_size(&s, 65536, 1e6);
    c.o.value_bytes = draw(&s) < 0.7 ? 4 : 8;
    c.o.duplicates = draw(&s) < 0.8 ? TS_DUPLICATES_SUM : TS_DUPLICATES_KEEP;
    c.o.zeros = draw(&s) < 0.2;
    c.o.weights = c.source == PUSHED && c.o.value_bytes == 4 && draw(&s) < 0.3;
    c.o.base = 1;
    c.o.sorted_names = draw(&s) < 0.5;
    if (c.source >= TEXT && c.source <= GENTEN && draw(&s) < 0.3)
        c.ranks = 2 + (uint32_t)draw_to(&s, MOST_RANKS - 1);
    return c;
}

/* ---- the nonzeros ---- */

static uint64_t index_of(const struct space_case *c, uint64_t *s, uint32_t m)
{
    double u = draw(s);
    for (int k = 0; k < 3 && c->power > 0.3; k++)
        u *= draw(s) < c->power ? u : 1;
    return (uint64_t)(u * (double)c->dim[m]);
}

static double value_of(const struct space_case *c, uint64_t *s)
{
    if (draw(s) < c->zeros)
        return 0;
    return c->value_last > 0 ? 1 + (double)draw_to(s, c->value_last) : draw(s) + 0.25;
}

/* One of the last nonzero is not 0, so that there is a tensor. */
static double value_at(const struct space_case *c, uint64_t *s, uint64_t i)
{
    const double x = value_of(c, s);
    return i + 1 == c->nnz && x == 0 ? 1 : x;
}

/* A zero in one of its spellings, or what the type that is stored makes one. */
static const char *zero_of(const struct space_case *c)
{
    static const char *const spelled[] = { "0", "0.000e+00", "-0", "1e-320", "\"0\"" };
    return spelled[c->seed / 7 % (c->source == TABLE ? 5 : 4)];
}

static void put_lines(const struct space_case *c, gzFile to)
{
    uint64_t s = c->seed;
    const char sep = c->source == TABLE ? ',' : ' ';
    for (uint32_t m = 0; m < c->order && c->source == TABLE; m++)
        gzprintf(to, "mode%u,%s", m, m + 1 < c->order ? "" : "value\n");
    for (uint64_t i = 0; i < c->nnz; i++) {
        for (uint32_t m = 0; m < c->order; m++) {
            const uint64_t k = index_of(c, &s, m) + 1;
            if (c->source == TABLE && m % 2 == 0)
                gzprintf(to, "name %llx%c", (unsigned long long)ts_mix(k), sep);
            else
                gzprintf(to, "%llu%c", (unsigned long long)k, sep);
        }
        const double value = value_at(c, &s, i);
        if (value == 0)
            gzprintf(to, "%s\n", zero_of(c));
        else
            gzprintf(to, "%.9g\n", value);
    }
}

static void put_binary(const struct space_case *c)
{
    struct binary_file f = { .genten = c->source == GENTEN,
                             .order = c->order,
                             .value_bytes = c->seed % 3 == 0 ? 8 : 4,
                             .n = c->nnz,
                             .big_endian = c->source == GENTEN && c->seed % 5 == 0 };
    uint64_t s = c->seed, *index = malloc(c->nnz * c->order * sizeof *index);
    double *value = malloc(c->nnz * sizeof *value);
    unsigned char *bytes;
    size_t n;
    FILE *to = fopen(input, "w");
    for (uint32_t m = 0; m < c->order; m++) {
        f.dim[m] = c->dim[m];
        f.index_bytes[m] = 4;
    }
    for (uint64_t i = 0; i < c->nnz; i++) {
        for (uint32_t m = 0; m < c->order; m++)
            index[i * c->order + m] = index_of(c, &s, m);
        value[i] = value_at(c, &s, i);
    }
    f.index = index;
    f.value = value;
    bytes = binary_file_put(&f, &n);
    if (to == NULL || fwrite(bytes, 1, n, to) != n || fclose(to) != 0)
        abort();
    free(bytes);
    free(index);
    free(value);
}

static struct ts_synth synth_of(const struct space_case *c)
{
    struct ts_synth s = { .order = c->order,
                          .nnz = c->nnz,
                          .seed = c->seed,
                          .value_bytes = c->o.value_bytes,
                          .value_first = c->zeros > 0 || c->value_last == 0 ? 0 : 1,
                          .value_last = c->value_last };
    for (uint32_t m = 0; m < c->order; m++) {
        s.dim[m] = c->dim[m];
        s.power[m] = c->power;
    }
    return s;
}

/* What is read: made by a process of its own, so that its memory is not that of the build. */
static int make_input(const struct space_case *c)
{
    struct ts_err err;
    if (c->source == DRAWS || c->source == PUSHED)
        return 0;
    if (c->source == SELECTED) {
        struct ts_build_options o = c->o;
        struct ts_build_report r;
        struct ts_synth s = synth_of(c);
        o.out = given;
        o.area_words = 0;
        return ts_synth_init(&s, &err) < 0 || ts_build_synth(&o, &s, &r, &err) < 0;
    }
    if (c->source == SPLATT || c->source == GENTEN) {
        put_binary(c);
    } else {
        gzFile to = gzopen(input, c->source == GZIP ? "w1" : "wT");
        put_lines(c, to);
        if (gzclose(to) != Z_OK)
            abort();
    }
    return 0;
}

/* ---- the build ---- */

struct rank_run {
    struct ts_build_options o;
    struct ts_build_report report;
    struct ts_err err;
    int rc;
};

static void *run_paths(void *arg)
{
    struct rank_run *r = arg;
    const char *const paths[] = { input };
    r->rc = ts_build_paths(&r->o, paths, 1, &r->report, &r->err);
    return NULL;
}

static int run_ranks(const struct space_case *c, struct rank_run *run)
{
    struct test_comm comm[TEST_COMM_MOST];
    struct test_comm_group *g = test_comm_new(c->ranks, comm);
    pthread_t thread[MOST_RANKS];
    test_comm_place(g, c->seed % 2 == 0 ? 1 : c->ranks);
    for (uint32_t r = 0; r < c->ranks; r++) {
        run[r].o = run[0].o;
        run[r].o.comm = &comm[r].comm;
        if (pthread_create(&thread[r], NULL, run_paths, &run[r]) != 0)
            abort();
    }
    for (uint32_t r = 0; r < c->ranks; r++)
        pthread_join(thread[r], NULL);
    test_comm_free(g);
    return run[0].rc;
}

struct pushing {
    const struct space_case *c;
    struct ts_push_source *to;
};

static void *push(void *arg)
{
    const struct pushing *p = arg;
    const struct space_case *c = p->c;
    uint64_t s = c->seed, index[TS_MAX_ORDER];
    struct ts_err err;
    int rc = 0;
    for (uint64_t i = 0; i < c->nnz && rc == 0; i++) {
        double value, weight = 2;
        for (uint32_t m = 0; m < c->order; m++)
            index[m] = index_of(c, &s, m);
        value = value_at(c, &s, i);
        rc = ts_push_source_add(p->to, 1, index, &value, c->o.weights ? &weight : NULL, &err);
    }
    ts_push_source_end(p->to);
    return NULL;
}

static uint64_t count_values(const struct space_case *c)
{
    uint64_t s = c->seed, n = 0;
    for (uint64_t i = 0; i < c->nnz; i++) {
        for (uint32_t m = 0; m < c->order; m++)
            (void)index_of(c, &s, m);
        n += value_at(c, &s, i) != 0 || c->o.zeros;
    }
    return n;
}

static int run_pushed(const struct space_case *c, struct rank_run *run)
{
    struct pushing p = { .c = c };
    struct ts_source source;
    pthread_t thread;
    if (ts_push_source_new(c->order, c->o.value_bytes, c->o.zeros, c->o.weights, run->o.n_dims,
                           run->o.dim, &p.to, &run->err) < 0)
        abort();
    run->o.expect = c->seed % 4 == 0 ? 0 : count_values(c);
    if (pthread_create(&thread, NULL, push, &p) != 0)
        abort();
    source = ts_push_source_as_source(p.to);
    run->rc =
        ts_build_source(&run->o, ts_push_source_order(p.to), &source, &run->report, &run->err);
    pthread_join(thread, NULL);
    ts_push_source_free(p.to);
    return run->rc;
}

static int run_selected(const struct space_case *c, struct rank_run *run)
{
    struct ts_pick pick = { .side = (enum ts_pick_side)(c->seed % 3),
                            .hold_out = { .share = c->hold_out, .seed = c->seed } };
    struct ts_pick_range range = { 0, c->dim[0] / 2 };
    struct ts_tensor *t;
    if (ts_tensor_open(given, &t, &run->err) < 0)
        abort();
    if (c->seed % 2 == 0 && ts_pick_ranges(&pick, t, 0, &range, 1, &run->err) < 0)
        abort();
    if (c->order > 2 && c->seed % 5 == 0) {
        pick.left_out = 1;
        run->o.duplicates = TS_DUPLICATES_SUM;
    }
    run->rc = ts_build_tensor(&run->o, t, &pick, &run->report, &run->err);
    ts_pick_free(&pick);
    ts_tensor_close(t);
    return run->rc;
}

static int run_build(const struct space_case *c, struct rank_run *run)
{
    static const struct ts_table_plan table = { .separator = ',' };
    struct ts_synth s = synth_of(c);
    run->o = c->o;
    if (c->known_dims && c->source != TABLE) {
        run->o.n_dims = c->order;
        memcpy(run->o.dim, c->dim, sizeof c->dim);
    }
    if (c->source == TABLE)
        run->o.table = &table;
    if (c->ranks > 0)
        return run_ranks(c, run);
    switch (c->source) {
    case DRAWS:
        if (ts_synth_init(&s, &run->err) < 0)
            return -1;
        return run->rc = ts_build_synth(&run->o, &s, &run->report, &run->err);
    case PUSHED:
        return run_pushed(c, run);
    case SELECTED:
        return run_selected(c, run);
    case TEXT:
    case GZIP:
    case TABLE:
    case SPLATT:
    case GENTEN:
    case N_SOURCES:
        break;
    }
    run_paths(run);
    return run->rc;
}

/* ---- measuring ---- */

struct peaks {
    uint64_t result, tmp, both, memory;
};

static _Atomic int over;

static uint64_t of_result(void)
{
    char path[4200];
    uint64_t sum = 0;
    struct dirent *e;
    struct stat st;
    DIR *d;
    snprintf(path, sizeof path, "%s.building", result);
    d = opendir(path);
    if (d == NULL) {
        d = opendir(result);
        if (d == NULL)
            return 0;
    }
    while ((e = readdir(d)) != NULL)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    closedir(d);
    return sum;
}

static uint64_t of_nameless(void)
{
    uint64_t sum = 0;
    struct stat st;
    struct dirent *e;
    DIR *d = opendir("/proc/self/fd");
    ino_t seen[256];
    int n = 0;
    while (d != NULL && (e = readdir(d)) != NULL) {
        int known = 0;
        if (fstat(atoi(e->d_name), &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 0)
            continue;
        for (int i = 0; i < n; i++)
            known |= seen[i] == st.st_ino;
        if (!known && n < 256)
            seen[n++] = st.st_ino;
        sum += known ? 0 : (uint64_t)st.st_blocks * 512;
    }
    if (d != NULL)
        closedir(d);
    return sum;
}

static struct peaks peaks;
static pthread_mutex_t peaks_lock = PTHREAD_MUTEX_INITIALIZER;

static void look(void)
{
    uint64_t tmp, res;
    pthread_mutex_lock(&peaks_lock);
    tmp = of_nameless();
    res = of_result();
    peaks.tmp = tmp > peaks.tmp ? tmp : peaks.tmp;
    peaks.result = res > peaks.result ? res : peaks.result;
    peaks.both = tmp + res > peaks.both ? tmp + res : peaks.both;
    pthread_mutex_unlock(&peaks_lock);
}

static void *measure(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        look();
        usleep(500);
    }
    return NULL;
}

/* The linker takes calls of the first for the second, and gives the first another name. */
int __real_ts_tempfile_write(int fd, const char *to, const void *data, size_t bytes, uint64_t at,
                             struct ts_err *err);
int __wrap_ts_tempfile_write(int fd, const char *to, const void *data, size_t bytes, uint64_t at,
                             struct ts_err *err);
int __wrap_ts_tempfile_write(int fd, const char *to, const void *data, size_t bytes, uint64_t at,
                             struct ts_err *err)
{
    const int rc = __real_ts_tempfile_write(fd, to, data, bytes, at, err);
    look();
    return rc;
}

struct outcome {
    int rc;
    char text[1024];
    struct ts_need need[3];
    struct peaks peaks;
    uint64_t n_runs;
};

/* The bounds of all ranks: lower ones of temporary files and memory are those of a rank. */
static void join_needs(const struct space_case *c, const struct rank_run *run, struct outcome *o)
{
    memcpy(o->need, run[0].report.need, sizeof o->need);
    for (uint32_t r = 1; r < c->ranks; r++)
        for (int k = 0; k < 3; k++) {
            const struct ts_need *n = &run[r].report.need[k];
            struct ts_need *to = &o->need[k];
            to->tmp.low = n->tmp.low > to->tmp.low ? n->tmp.low : to->tmp.low;
            to->both.low = n->both.low > to->both.low ? n->both.low : to->both.low;
            to->memory.high += n->memory.high;
        }
}

static void run_child(const struct space_case *c, int to)
{
    static struct rank_run run[MOST_RANKS];
    struct outcome o = { 0 };
    pthread_t thread;
    if (pthread_create(&thread, NULL, measure, NULL) != 0)
        abort();
    o.rc = run_build(c, run);
    look();
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    o.peaks = peaks;
    o.peaks.memory = ts_machine_peak_bytes();
    o.n_runs = run[0].report.n_runs;
    snprintf(o.text, sizeof o.text, "%s", run[0].err.text);
    join_needs(c, run, &o);
    if (write(to, &o, sizeof o) != (ssize_t)sizeof o)
        abort();
    _exit(0);
}

static int in_child(const struct space_case *c, int made, struct outcome *ret)
{
    int fd[2], status;
    pid_t pid;
    if (pipe(fd) != 0)
        abort();
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        close(fd[0]);
        if (!made)
            _exit(make_input(c));
        run_child(c, fd[1]);
    }
    close(fd[1]);
    if (made && read(fd[0], ret, sizeof *ret) != (ssize_t)sizeof *ret)
        made = -1;
    close(fd[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || made < 0 || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

/* ---- comparing ---- */

static int low_is_wrong(const struct outcome *o, const struct peaks *p)
{
    int wrong = 0;
    for (int k = 0; k < 3; k++) {
        const struct ts_need *n = &o->need[k];
        wrong |= n->result.low > p->result ? 1 : 0;
        wrong |= n->tmp.low > p->tmp ? 2 : 0;
        wrong |= n->both.low > p->both ? 4 : 0;
        wrong |= n->memory.low > p->memory ? 8 : 0;
    }
    return wrong;
}

static int high_is_wrong(const struct outcome *o)
{
    int wrong = 0;
    for (int k = 0; k < 3; k++) {
        const struct ts_need *n = &o->need[k];
        wrong |= n->result.high < o->peaks.result ? 16 : 0;
        wrong |= o->peaks.tmp > LOCK && n->tmp.high < o->peaks.tmp - LOCK ? 32 : 0;
        wrong |= o->peaks.both > LOCK && n->both.high < o->peaks.both - LOCK ? 64 : 0;
        wrong |= !OWN_MEMORY && n->memory.high < o->peaks.memory ? 128 : 0;
    }
    return wrong;
}

static void print_case(uint64_t number, const struct space_case *c, const struct outcome *o,
                       int wrong)
{
    printf("case %llu: %s, order %u, %llu nonzeros, %u ranks, area %llu, memory %llu, threads %u, "
           "duplicates %d, zeros %d, weights %d, values of %u bytes, shards of %llu: wrong %d\n",
           (unsigned long long)number, source_name[c->source], c->order, (unsigned long long)c->nnz,
           c->ranks, (unsigned long long)c->o.area_words, (unsigned long long)c->o.memory,
           c->o.threads, c->o.duplicates, c->o.zeros, c->o.weights, c->o.value_bytes,
           (unsigned long long)c->o.shard_bytes, wrong);
    printf("  peaks: result %llu, tmp %llu, both %llu, memory %llu; runs %llu\n",
           (unsigned long long)o->peaks.result, (unsigned long long)o->peaks.tmp,
           (unsigned long long)o->peaks.both, (unsigned long long)o->peaks.memory,
           (unsigned long long)o->n_runs);
    for (int k = 0; k < 3; k++) {
        const struct ts_need *n = &o->need[k];
        printf("  %d: result %llu to %llu, tmp %llu to %llu, both %llu to %llu, memory %llu to "
               "%llu\n",
               k, (unsigned long long)n->result.low, (unsigned long long)n->result.high,
               (unsigned long long)n->tmp.low, (unsigned long long)n->tmp.high,
               (unsigned long long)n->both.low, (unsigned long long)n->both.high,
               (unsigned long long)n->memory.low, (unsigned long long)n->memory.high);
    }
}

/* What a build may refuse of such a case, which then says nothing of bounds. */
static int is_no_tensor(const struct outcome *o)
{
    return strstr(o->text, "no nonzeros to build") != NULL ||
           strstr(o->text, "more than several processes number") != NULL;
}

static int remove_all(void)
{
    unlink(input);
    test_tsh_remove(result);
    test_tsh_remove(given);
    return 0;
}

/* Returns 1: right; 0: says nothing; -1: wrong. */
static int try_case(uint64_t seed, uint64_t number)
{
    const struct space_case c = case_new(ts_mix(ts_mix(seed) + number));
    struct outcome o;
    struct peaks most = { 0 };
    int wrong = -1;
    if (in_child(&c, 0, &o) != 0)
        return remove_all();
    for (int i = 0; i < TRIES && wrong != 0; i++) {
        test_tsh_remove(result);
        if (in_child(&c, 1, &o) < 0) {
            printf("case %llu: the process died\n", (unsigned long long)number);
            remove_all();
            return -1;
        }
        if (o.rc < 0 && is_no_tensor(&o))
            return remove_all();
        if (o.rc < 0) {
            printf("case %llu: %s\n", (unsigned long long)number, o.text);
            print_case(number, &c, &o, 0);
            remove_all();
            return -1;
        }
        most.result = most.result > o.peaks.result ? most.result : o.peaks.result;
        most.tmp = most.tmp > o.peaks.tmp ? most.tmp : o.peaks.tmp;
        most.both = most.both > o.peaks.both ? most.both : o.peaks.both;
        most.memory = most.memory > o.peaks.memory ? most.memory : o.peaks.memory;
        wrong = high_is_wrong(&o);
        if (wrong != 0)
            break;
        wrong = low_is_wrong(&o, &most);
    }
    remove_all();
    if (wrong != 0)
        print_case(number, &c, &o, wrong);
    return wrong == 0 ? 1 : -1;
}

int main(int argc, char **argv)
{
    const char *large = getenv("TSTREAM_TEST_LARGE");
    const uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 10)
                             : large != NULL && strcmp(large, "1") == 0 ? 600
                                                                        : SECONDS;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const uint64_t only = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    const uint64_t end = ts_clock_ns() + seconds * UINT64_C(1000000000);
    uint64_t tried = 0, right = 0, wrong = 0;
    dir = test_tsh_tmp();
    snprintf(input, sizeof input, "%s/input", dir);
    snprintf(result, sizeof result, "%s/x.tsh", dir);
    snprintf(given, sizeof given, "%s/given.tsh", dir);
    for (uint64_t k = only == UINT64_MAX ? 0 : only;
         ts_clock_ns() < end && (only == UINT64_MAX || k == only); k++) {
        const int rc = try_case(seed, k);
        tried++;
        right += rc > 0;
        wrong += rc < 0;
    }
    rmdir(dir);
    free(dir);
    printf("%llu builds of seed %llu: %llu within their bounds, %llu not, %llu are no tensors\n",
           (unsigned long long)tried, (unsigned long long)seed, (unsigned long long)right,
           (unsigned long long)wrong, (unsigned long long)(tried - right - wrong));
    return wrong > 0 || right == 0;
}
