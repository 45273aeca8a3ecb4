/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of labels of a model gives back what was packed, for any index; any changed byte and any
 * lie under right checksums is refused; memory and tables stay small. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "model/labels_pack.h"
#include "tests/build/build_case.h"
#include "tests/support/run_suite.h"

#define ORDER 3u
#define MANY  40000u

static char folder[4096], file[4200], map[4200];

static void setup_all(void)
{
    setup();
    snprintf(folder, sizeof folder, "%s/m.cp", tmp);
    snprintf(file, sizeof file, "%s/" TS_LABELS_FILE, folder);
    snprintf(map, sizeof map, "%s/map", tmp);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}

static void teardown_all(void)
{
    unlink(file);
    rmdir(folder);
    unlink(map);
    teardown();
}

/* Labels of any length, some of them empty or absent, under indices with gaps. */
struct drawn {
    uint64_t dim[ORDER], n[ORDER], *index[ORDER];
    char **label[ORDER];
};

static struct drawn draw(void)
{
    static const uint64_t n[ORDER] = { MANY, 0, 5 };
    struct drawn d = { .dim = { UINT64_C(1) << 40, 7, 5 } };
    for (uint32_t m = 0; m < ORDER; m++) {
        uint64_t at = 3;
        d.n[m] = n[m];
        d.index[m] = calloc(n[m] + 1, sizeof *d.index[m]);
        d.label[m] = calloc(n[m] + 1, sizeof *d.label[m]);
        for (uint64_t i = 0; i < n[m]; i++) {
            const uint64_t r = ts_mix(i + 77 * m), length = i % 997 == 5 ? 3000 : r % 12;
            d.index[m][i] = m == 2 ? i : at;
            at += r % 64 == 0 ? 1 + r % 10000000 : 1 + r % 3;
            if (r % 29 == 3)
                continue;
            d.label[m][i] = malloc(length + 40);
            memset(d.label[m][i], 'a' + (int)(r % 20), length);
            d.label[m][i][length] = '\0';
            if (r % 13 != 0)
                snprintf(d.label[m][i] + length, 40, "%llu", (unsigned long long)r);
            if (r % 31 == 0)
                d.label[m][i][0] = '\0';
        }
    }
    return d;
}

static void free_drawn(struct drawn *d)
{
    for (uint32_t m = 0; m < ORDER; m++) {
        for (uint64_t i = 0; i < d->n[m]; i++)
            free(d->label[m][i]);
        free(d->label[m]);
        free(d->index[m]);
    }
}

static struct ts_model_names *names_of(const struct drawn *d)
{
    static const char *const name[ORDER + 1] = { "user", NULL, "the week", "price" };
    const char *const *label[ORDER];
    const uint64_t *index[ORDER];
    struct ts_model_names *n = NULL;
    const struct ts_model_names_conf conf = { .order = ORDER,
                                              .base = 1,
                                              .dim = d->dim,
                                              .name = name,
                                              .n_labels = d->n,
                                              .label = label,
                                              .index = index,
                                              .tensor = { .known = 1,
                                                          .nnz = 9,
                                                          .checksum = 8,
                                                          .has_sum = 1,
                                                          .cell = { 7, 6 },
                                                          .segments = 1 } };
    for (uint32_t m = 0; m < ORDER; m++) {
        label[m] = (const char *const *)d->label[m];
        index[m] = d->index[m];
    }
    ck_assert_msg(ts_model_names_new(&conf, &n, &err) == 0, "%s", err.text);
    return n;
}

/* The bytes as they lie in a directory. */
static char *pack(const struct ts_model_names *n, size_t *bytes)
{
    const struct ts_labels_pack_conf conf = { .names = n };
    struct ts_err warn = { 0 };
    uint64_t used = 0;
    char *ret = NULL;
    FILE *f = open_memstream(&ret, bytes);
    ck_assert_msg(ts_labels_pack(&conf, f, "f", &used, &warn, &err) == 0, "%s", err.text);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(warn.code, 0);
    ck_assert_uint_eq(used, *bytes);
    return ret;
}

static void put_file(const char *bytes, size_t n)
{
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

/* 0 and *ret, which is NULL where the file is none of ours; or a failure. */
static int open_names(struct ts_model_names **ret)
{
    struct ts_open_dir *dir = NULL;
    int rc;
    *ret = NULL;
    ck_assert_int_eq(ts_open_dir_new(folder, &dir, &err), 0);
    rc = ts_model_names_read(dir, ret, &err);
    ts_open_dir_close(dir);
    return rc;
}

/* All labels, by a walk and by a question for all. */
static int read_all(const struct ts_model_names *n)
{
    int rc = 0;
    for (uint32_t m = 0; m < n->order && rc == 0; m++) {
        struct ts_names_walk *w = NULL;
        const char *body = "";
        uint64_t index;
        size_t bytes;
        rc = ts_names_walk_open(n, m, &w, &err);
        while (rc == 0 && body != NULL)
            rc = ts_names_walk_next(w, &index, &body, &bytes, &err);
        ts_names_walk_close(w);
    }
    return rc;
}

static void assert_label(const struct ts_model_names *n, uint32_t mode, uint64_t index,
                         const char *want)
{
    char *got = NULL;
    ck_assert_msg(ts_model_names_labels(n, mode, 1, &index, &got, &err) == 0, "%s", err.text);
    if (want == NULL)
        ck_assert_ptr_null(got);
    else
        ck_assert_str_eq(got, want);
    free(got);
}

static void assert_drawn(const struct ts_model_names *n, const struct drawn *d)
{
    for (uint32_t m = 0; m < ORDER; m++) {
        char **got = calloc(d->n[m] + 1, sizeof *got);
        uint64_t there = 0;
        ck_assert_msg(ts_model_names_labels(n, m, d->n[m], d->index[m], got, &err) == 0, "%s",
                      err.text);
        for (uint64_t i = 0; i < d->n[m]; i++) {
            const char *want = d->label[m][i];
            there += want != NULL;
            ck_assert((got[i] == NULL) == (want == NULL));
            ck_assert(want == NULL || strcmp(got[i], want) == 0);
            free(got[i]);
        }
        ck_assert_uint_eq(n->n_labels[m], there);
        ck_assert_uint_eq(n->dim[m], d->dim[m]);
        free(got);
    }
    for (uint64_t k = 0; k < 300; k++) {
        const uint64_t i = ts_mix(k) % MANY;
        assert_label(n, 0, d->index[0][i], d->label[0][i]);
        if (i + 1 < MANY && d->index[0][i] + 1 < d->index[0][i + 1])
            assert_label(n, 0, d->index[0][i] + 1, NULL);
    }
    assert_label(n, 0, 0, NULL);
    assert_label(n, 0, (UINT64_C(1) << 40) - 1, NULL);
    ck_assert_int_eq(read_all(n), 0);
}

START_TEST(labels_come_back)
{
    struct drawn d = draw();
    struct ts_model_names *n = names_of(&d), *again = NULL;
    size_t bytes;
    char *body = pack(n, &bytes);
    assert_drawn(n, &d);
    put_file(body, bytes);
    ck_assert_msg(open_names(&again) == 0 && again != NULL, "%s", err.text);
    unlink(file); /* it stays open, or in memory */
    assert_drawn(again, &d);
    ck_assert_str_eq(again->name[0], "user");
    ck_assert_ptr_null(again->name[1]);
    ck_assert_str_eq(again->name[3], "price");
    ck_assert(again->base == 1 && again->tensor.known && again->tensor.nnz == 9 &&
              again->tensor.checksum == 8 && again->tensor.has_sum && again->tensor.cell[0] == 7 &&
              again->tensor.cell[1] == 6 && again->tensor.segments == 1);
    free(body);
    ts_model_names_drop(again);
    ts_model_names_drop(n);
    free_drawn(&d);
}
END_TEST

/* More chunks than the table of places has entries. */
START_TEST(places_are_thinned_out)
{
    enum { N = 2 * TS_LABELS_PLACES + 300 };
    static const uint64_t dim[2] = { 2 * N, 1 }, n_labels[2] = { N, 0 };
    static char body[16][TS_LABELS_CHUNK_BYTES];
    static const char *label[N];
    static uint64_t index[N];
    const char *const *labels[2] = { label, NULL };
    const uint64_t *indices[2] = { index, NULL };
    const struct ts_model_names_conf conf = {
        .order = 2, .dim = dim, .n_labels = n_labels, .label = labels, .index = indices
    };
    struct ts_model_names *n = NULL;
    for (int i = 0; i < 16; i++)
        memset(body[i], 'a' + i, sizeof body[i] - 1);
    for (uint64_t i = 0; i < N; i++) {
        label[i] = body[i % 16];
        index[i] = 2 * i;
    }
    ck_assert_msg(ts_model_names_new(&conf, &n, &err) == 0, "%s", err.text);
    ck_assert_uint_eq(n->file->mode[0].n_chunks, N);
    ck_assert_uint_eq(n->file->mode[0].stride, 4);
    ck_assert_uint_eq(n->file->mode[0].n_places, (N + 3) / 4);
    for (uint64_t i = 0; i < N; i += i < N - 20 ? 7 : 1) {
        assert_label(n, 0, 2 * i, body[i % 16]);
        assert_label(n, 0, 2 * i + 1, NULL);
    }
    ts_model_names_drop(n);
}
END_TEST

/* Some labels, so that the file is small, with a chunk that LZ4 packs and one that it does not. */
static char *small_file(size_t *bytes)
{
    static const uint64_t dim[3] = { 4, 9, 2 }, n_labels[3] = { 4, 0, 2 };
    static const char *const one[4] = { "ann", "", "bob", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };
    static const char *const two[2] = { "x", "y" };
    static const char *const *const label[3] = { one, NULL, two };
    static const char *const name[4] = { "who", "what", NULL, NULL };
    const struct ts_model_names_conf conf = {
        .order = 3, .dim = dim, .name = name, .n_labels = n_labels, .label = label
    };
    struct ts_model_names *n = NULL;
    char *ret;
    ck_assert_msg(ts_model_names_new(&conf, &n, &err) == 0, "%s", err.text);
    ret = pack(n, bytes);
    ts_model_names_drop(n);
    return ret;
}

/* Whether the file in place is refused, or is no longer taken for one of ours. */
static int is_refused(void)
{
    struct ts_model_names *n = NULL;
    int rc;
    err.text[0] = '\0';
    rc = open_names(&n);
    if (rc == 0 && n != NULL)
        rc = read_all(n);
    rc = rc < 0 ? (rc == TS_EFORMAT && strstr(err.text, file) != NULL) : n == NULL;
    ts_model_names_drop(n);
    return rc;
}

START_TEST(damage_is_refused)
{
    size_t bytes;
    char *body = small_file(&bytes);
    put_file(body, bytes);
    ck_assert(!is_refused());
    for (size_t at = 0; at < bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            body[at] = (char)(body[at] ^ 1 << bit);
            put_file(body, bytes);
            ck_assert_msg(is_refused(), "byte %zu, bit %d: %s", at, bit, err.text);
            body[at] = (char)(body[at] ^ 1 << bit);
        }
    for (size_t n = 0; n < bytes; n++) {
        put_file(body, n);
        ck_assert_msg(is_refused(), "%zu of %zu bytes: %s", n, bytes, err.text);
    }
    body = realloc(body, bytes + 1);
    body[bytes] = '\0';
    put_file(body, bytes + 1);
    ck_assert(is_refused());
    free(body);
}
END_TEST

/* ---- lies under right checksums ---- */

#define HEAD(member) offsetof(struct ts_disk_model_labels, member)
#define MODE(m, member)                                                               \
    (sizeof(struct ts_disk_model_labels) + (m) * sizeof(struct ts_disk_mode_labels) + \
     offsetof(struct ts_disk_mode_labels, member))
#define CHUNK            UINT64_C(1) << 32 /* at: counted from the first chunk of mode 0 */
#define IN_CHUNK(member) (CHUNK | offsetof(struct ts_disk_label_chunk, member))

static const struct lie {
    uint64_t at, value;
    int bytes;
} lie[] = { { HEAD(version), 2, 4 },
            { HEAD(order), 1, 4 },
            { HEAD(order), 17, 4 },
            { HEAD(file_bytes), 1, 8 },
            { HEAD(base), 2, 4 },
            { HEAD(flags), 32, 4 },
            { HEAD(flags), TS_LABELS_SUMS, 4 },
            { HEAD(flags), TS_LABELS_OF_TENSOR, 4 },
            { HEAD(nnz), 1, 8 },
            { HEAD(cell), 1, 8 },
            { HEAD(segments), 1, 4 },
            { HEAD(names_bytes), 5, 4 },
            { HEAD(names_bytes), UINT32_MAX, 4 },
            { HEAD(reserved), 1, 8 },
            { MODE(0, dim), 0, 8 },
            { MODE(0, dim), 3, 8 },
            { MODE(0, dim), UINT64_MAX, 8 },
            { MODE(0, n_labels), 3, 8 },
            { MODE(0, n_labels), 0, 8 },
            { MODE(0, n_chunks), 2, 8 },
            { MODE(0, n_chunks), 0, 8 },
            { MODE(0, at), 0, 8 },
            { MODE(0, bytes), 1, 8 },
            { MODE(0, bytes), UINT64_MAX, 8 },
            { MODE(0, n_places), 0, 4 },
            { MODE(0, n_places), UINT32_MAX, 4 },
            { MODE(0, stride), 0, 4 },
            { MODE(1, at), 0, 8 },
            { MODE(1, n_labels), 1, 8 },
            { MODE(2, reserved), 1, 8 },
            { IN_CHUNK(index), 1, 8 },
            { IN_CHUNK(index), 4, 8 },
            { IN_CHUNK(n_labels), 0, 4 },
            { IN_CHUNK(n_labels), 3, 4 },
            { IN_CHUNK(n_labels), UINT32_MAX, 4 },
            { IN_CHUNK(raw_bytes), 0, 4 },
            { IN_CHUNK(raw_bytes), UINT32_MAX, 4 },
            { IN_CHUNK(raw_bytes), 40, 4 },
            { IN_CHUNK(stored_bytes), 0, 4 },
            { IN_CHUNK(stored_bytes), UINT32_MAX, 4 },
            { IN_CHUNK(flags), 0, 4 },
            { IN_CHUNK(flags), 2, 4 } };

/* Puts checksums right: of the first chunk, and of the head. */
static void seal(char *body, size_t bytes)
{
    const size_t head = offsetof(struct ts_disk_label_chunk, hash);
    struct ts_disk_model_labels h;
    struct ts_disk_mode_labels d;
    struct ts_disk_label_chunk c;
    uint64_t hash;
    size_t n;
    char *own;
    memcpy(&h, body, sizeof h);
    memcpy(&d, body + MODE(0, dim), sizeof d);
    if (d.at + sizeof c < bytes && d.at > sizeof h) {
        memcpy(&c, body + d.at, sizeof c);
        if (c.stored_bytes <= bytes - d.at - sizeof c) {
            own = malloc(head + c.stored_bytes);
            memcpy(own, &c, head);
            memcpy(own + head, body + d.at + sizeof c, c.stored_bytes);
            c.hash = XXH3_64bits(own, head + c.stored_bytes);
            memcpy(body + d.at, &c, sizeof c);
            free(own);
        }
    }
    n = sizeof h + h.order * sizeof d + h.names_bytes;
    if (n > bytes - sizeof hash || h.order > TS_MAX_ORDER)
        return;
    hash = XXH3_64bits(body, n);
    memcpy(body + n, &hash, sizeof hash);
}

START_TEST(lies_are_refused)
{
    const struct lie *l = &lie[_i];
    struct ts_disk_mode_labels d;
    size_t bytes, at = (size_t)(l->at & UINT32_MAX);
    char *body = small_file(&bytes);
    memcpy(&d, body + MODE(0, dim), sizeof d);
    at += (l->at & CHUNK) ? d.at : 0;
    memcpy(body + at, &l->value, (size_t)l->bytes);
    seal(body, bytes);
    put_file(body, bytes);
    ck_assert_msg(is_refused(), "lie %d at byte %zu: %s", _i, at, err.text);
    free(body);
}
END_TEST

/* ---- of tensors ---- */

static struct ts_tensor *build_labelled(void)
{
    struct ts_build_options o = options(out);
    struct ts_tensor *t = NULL;
    FILE *f = fopen(text, "w");
    for (uint32_t i = 0; i < 3000; i++)
        fprintf(f, "%u %u 1\n", 1 + (uint32_t)(ts_mix(i) % 9000), i % 5 + 1);
    ck_assert_int_eq(fclose(f), 0);
    f = fopen(map, "w");
    for (uint32_t i = 0; i < 8000; i++) /* the last indices have none */
        fprintf(f, "%s%u\n", i % 977 == 9 ? "" : "name ", i);
    ck_assert_int_eq(fclose(f), 0);
    o.map[0] = map;
    o.partial_map = 1;
    ck_assert_msg(build(&o) == 0, "%s", err.text);
    ck_assert_msg(ts_tensor_open(out, &t, &err) == 0, "%s", err.text);
    ck_assert(t->mode[0].disk.rows_bytes > 0);
    return t;
}

struct rows {
    const uint64_t *index;
    uint64_t n, at;
};

static int open_rows(void *ctx, uint32_t mode, void **from, struct ts_err *e)
{
    struct rows *r = ctx;
    (void)e;
    r->at = 0;
    *from = mode == 0 ? r : NULL;
    return 0;
}

static int next_row(void *from, uint64_t *index, struct ts_err *e)
{
    struct rows *r = from;
    (void)e;
    if (r->at == r->n)
        return 0;
    *index = r->index[r->at++];
    return 1;
}

static void close_rows(void *from)
{
    (void)from;
}

START_TEST(labels_of_used_rows)
{
    struct ts_tensor *t = build_labelled();
    struct ts_model_names *n = NULL, *same = NULL, *packed = NULL;
    uint64_t *rows = NULL, used = 0, n_rows = t->mode[0].disk.n_rows, n_named = 0;
    char **want = calloc(n_rows, sizeof *want), *bytes = NULL;
    struct rows from;
    const struct ts_labels_pack_conf conf = {
        .open = open_rows, .row = next_row, .close = close_rows, .ctx = &from
    };
    struct ts_labels_pack_conf own = conf;
    struct ts_err warn = { 0 };
    size_t room = 0;
    FILE *f;
    ck_assert_int_eq(ts_tensor_rows(t, 0, &rows, &err), 0);
    ck_assert_int_eq(ts_tensor_labels(t, 0, n_rows, rows, want, &err), 0);
    ck_assert_int_eq(ts_model_names_of_tensor(t, &n, &err), 0);
    ck_assert_int_eq(ts_model_names_of_tensor(t, &same, &err), 0);
    ck_assert_ptr_eq(n, same);
    ck_assert(n->tensor.known && n->tensor.has_sum && n->tensor.checksum == t->hash);
    ts_model_names_drop(same);
    ts_tensor_close(t); /* the names stay */
    from = (struct rows){ rows, n_rows, 0 };
    own.names = n;
    f = open_memstream(&bytes, &room);
    ck_assert_msg(ts_labels_pack(&own, f, "f", &used, &warn, &err) == 0, "%s", err.text);
    ck_assert_int_eq(fclose(f), 0);
    put_file(bytes, room);
    ck_assert_msg(open_names(&packed) == 0 && packed != NULL, "%s", err.text);
    for (uint64_t i = 0; i < n_rows; i++) {
        n_named += want[i] != NULL;
        assert_label(packed, 0, rows[i], want[i]);
        if (i > 0 && rows[i] > rows[i - 1] + 1) /* no row has this index */
            assert_label(packed, 0, rows[i] - 1, NULL);
    }
    ck_assert(n_named > 1000 && n_named < n_rows);
    ck_assert_uint_eq(packed->n_labels[0], n_named);
    assert_label(n, 0, 5, "name 5");
    for (uint64_t i = 0; i < n_rows; i++)
        free(want[i]);
    free(want);
    free(rows);
    free(bytes);
    ts_model_names_drop(packed);
    ts_model_names_drop(n);
}
END_TEST

/* Labels that cannot be read are left out with a note, and the rest of the file is right. */
START_TEST(unreadable_labels_are_left_out)
{
    struct ts_tensor *t = build_labelled();
    struct ts_model_names *n = NULL, *packed = NULL;
    struct ts_labels_pack_conf conf = { 0 };
    struct ts_err warn = { 0 };
    char path[4200];
    uint64_t used = 0;
    FILE *f;
    snprintf(path, sizeof path, "%s/mode1.labels", out);
    f = fopen(path, "r+b");
    ck_assert_int_eq(fseek(f, 1000, SEEK_SET), 0);
    putc('\a', f);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(ts_model_names_of_tensor(t, &n, &err), 0);
    conf.names = n;
    f = fopen(file, "w+b");
    ck_assert_msg(ts_labels_pack(&conf, f, file, &used, &warn, &err) == 0, "%s", err.text);
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_int_eq(warn.code, TS_EFORMAT);
    ck_assert_ptr_nonnull(strstr(warn.text, path));
    ck_assert_msg(open_names(&packed) == 0 && packed != NULL, "%s", err.text);
    ck_assert_uint_eq(packed->n_labels[0], 0);
    ck_assert_int_eq(read_all(packed), 0);
    ts_model_names_drop(packed);
    ts_model_names_drop(n);
    ts_tensor_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("labels_file");
    TCase *tc = tcase_create("labels");
    tcase_add_checked_fixture(tc, setup_all, teardown_all);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, labels_come_back);
    tcase_add_test(tc, places_are_thinned_out);
    tcase_add_test(tc, damage_is_refused);
    tcase_add_loop_test(tc, lies_are_refused, 0, sizeof lie / sizeof lie[0]);
    tcase_add_test(tc, labels_of_used_rows);
    tcase_add_test(tc, unreadable_labels_are_left_out);
    suite_add_tcase(s, tc);
    return test_run_suite(s, CK_NOFORK);
}
