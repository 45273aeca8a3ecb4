/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares two models: reads their rows in the order of indices, and sums products of columns. */
#include "model/match.h"

#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"
#include "base/stop.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* bytes of rows of one model that are read at a time */
/* a loop with fewer additions than this runs on one thread */
#define LONE_ADDS 65536
#define NO_INDEX  UINT64_MAX
/* limit of scaled numbers: products of two, and their sums, stay in the range of float64 */
#define MOST_SCALED 0x1p300

/* One of the two models that are compared, and its current mode. */
struct side {
    struct ts_model *model;
    uint32_t rank;
    uint64_t n_rows;
    uint64_t *index; /* index of each row of the mode; NULL: row i is index i */
    uint64_t next;   /* number of the next row of the mode */
    uint64_t held;   /* number of rows at the end of `rows` that were not compared yet */
    double *rows;
    /* scaled rows of this model for the indices of either model; zeros for indices without a row
     * here */
    double *paired;
    double *square; /* rank: sums of squares of the scaled columns */
    double *scale;  /* rank: powers of two that scale columns to about 1; 0: only zeros so far */
    double *empty;  /* rank: 1 if the component's column is all zeros in some mode */
    double *weight;
};

struct match {
    const struct ts_match_conf *conf;
    struct ts_match *ret;
    struct side a, b;
    uint64_t step; /* rows that are compared at a time */
    int threads;
};

/* ---- rows of equal indices ---- */

static uint64_t next_index(const struct side *s)
{
    if (s->next == s->n_rows)
        return NO_INDEX;
    return s->index == NULL ? s->next : s->index[s->next];
}

static int next_row(struct side *s, uint32_t mode, uint64_t step, const double **ret,
                    struct ts_err *err)
{
    if (s->held == 0) {
        const uint64_t left = s->n_rows - s->next;
        const int rc = ts_model_rows(s->model, mode, left < step ? left : step, s->rows, err);
        if (rc < 0)
            return rc;
        s->held = left < step ? left : step;
    }
    /* each chunk of rows begins at a multiple of `step` rows */
    *ret = s->rows + s->next % step * s->rank;
    s->next++;
    s->held--;
    return 0;
}

/* Returns a power of two that scales x, which is not 0, to [0.5, 1), or as near as possible. */
static double scale_for(double x)
{
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, exponent < -1000 ? 1000 : -exponent);
}

/* Changes the scale of column r of one model: multiplies the column in the n paired rows so far,
 * and its sums of products. */
static void scale_again(struct match *m, struct side *s, uint32_t mode, uint32_t r, uint64_t n,
                        double scale)
{
    const size_t ra = m->a.rank, rb = m->b.rank;
    double *cross = m->ret->cosine + (size_t)mode * ra * rb;
    const double by = scale / s->scale[r];
    for (uint64_t i = 0; i < n; i++)
        s->paired[i * s->rank + r] *= by;
    s->square[r] = s->square[r] * by * by;
    for (size_t i = 0; i < (s == &m->a ? rb : ra); i++)
        *(s == &m->a ? cross + r * rb + i : cross + i * rb + r) *= by;
    s->scale[r] = scale;
}

/* Sets paired row n of one model to `row` with scaled columns. The first entry of a column that is
 * not zero determines its scale, which brings this entry to [0.5, 1). A later entry that is much
 * too large changes the scale. */
static void take_row(struct match *m, struct side *s, uint32_t mode, uint64_t n, const double *row)
{
    double *to = s->paired + n * s->rank;
    for (uint32_t r = 0; r < s->rank; r++) {
        if (s->scale[r] == 0 && row[r] != 0)
            s->scale[r] = scale_for(row[r]);
        if (fabs(row[r] * s->scale[r]) > MOST_SCALED)
            scale_again(m, s, mode, r, n, scale_for(row[r]));
        to[r] = row[r] * s->scale[r];
    }
}

/* Sets paired row n of both models to their rows for the next index that either has. */
static int pair_row(struct match *m, uint32_t mode, uint64_t n, struct ts_err *err)
{
    struct side *side[2] = { &m->a, &m->b };
    const uint64_t a = next_index(&m->a), b = next_index(&m->b), least = a < b ? a : b;
    for (int i = 0; i < 2; i++) {
        struct side *s = side[i];
        const double *row;
        int rc;
        if (next_index(s) != least) {
            memset(s->paired + n * s->rank, 0, s->rank * sizeof *s->paired);
            continue;
        }
        rc = next_row(s, mode, m->step, &row, err);
        if (rc < 0)
            return rc;
        take_row(m, s, mode, n, row);
    }
    return 0;
}

/* ---- sums of products of columns ---- */

static void add_squares(struct side *s, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < s->rank; r++) {
            const double x = s->paired[i * s->rank + r];
            s->square[r] += x * x;
        }
}

/* cross += A' B, with A and B the n paired rows of the two models. */
static void add_cross(const struct match *m, uint64_t n, double *cross)
{
    const uint32_t ra = m->a.rank, rb = m->b.rank;
    const double *a = m->a.paired, *b = m->b.paired;
#pragma omp parallel for num_threads(m->threads) if (n * ra * rb > LONE_ADDS)
    for (uint32_t p = 0; p < ra; p++) {
        double *restrict to = cross + (size_t)p * rb;
        for (uint64_t i = 0; i < n; i++) {
            const double x = a[i * ra + p];
            for (uint32_t q = 0; q < rb; q++)
                to[q] += x * b[i * rb + q];
        }
    }
}

/* Multiplies the weights of a model by the column norms of the mode. The norms replace the squares
 * in `square`. */
static int take_norms(struct side *s, uint32_t mode, struct ts_err *err)
{
    for (uint32_t r = 0; r < s->rank; r++) {
        const double norm = sqrt(s->square[r]);
        s->weight[r] *= s->scale[r] > 0 ? norm / s->scale[r] : 0;
        s->square[r] = norm;
        if (!isfinite(s->weight[r]))
            return ts_fail(err, TS_ELIMIT,
                           "%s: " TS_NTH_COMPONENT " leaves the range of float64 with " TS_NTH_MODE
                           ": scale its "
                           "weight or its columns",
                           s->model->path, r + 1, mode + 1);
    }
    return 0;
}

static void note_empty(const struct side *s)
{
    for (uint32_t r = 0; r < s->rank; r++)
        if (s->square[r] == 0)
            s->empty[r] = 1;
}

/* Sets the congruence of two components that are both zero to 1. */
static void pair_empty(const struct match *m)
{
    for (uint32_t p = 0; p < m->a.rank; p++)
        for (uint32_t q = 0; q < m->b.rank; q++)
            if (m->a.empty[p] > 0 && m->b.empty[q] > 0)
                m->ret->congruence[(size_t)p * m->b.rank + q] = 1;
}

static void take_cosines(const struct match *m, uint32_t mode)
{
    const uint32_t ra = m->a.rank, rb = m->b.rank;
    double *cosine = m->ret->cosine + (size_t)mode * ra * rb;
    for (uint32_t p = 0; p < ra; p++)
        for (uint32_t q = 0; q < rb; q++) {
            const size_t at = (size_t)p * rb + q;
            const double norms = m->a.square[p] * m->b.square[q];
            cosine[at] = norms > 0 ? fmax(-1, fmin(1, cosine[at] / norms)) : 0;
            m->ret->congruence[at] *= fabs(cosine[at]);
        }
}

/* ---- comparison of a mode ---- */

static void drop_index(struct match *m)
{
    free(m->a.index);
    free(m->b.index);
    m->a.index = m->b.index = NULL;
}

static int same_indices(const struct side *whole, const struct side *used)
{
    return whole->n_rows == used->n_rows && used->index[used->n_rows - 1] >= whole->n_rows;
}

static int check_rows(const struct match *m, uint32_t mode, struct ts_err *err)
{
    const struct side *a = &m->a, *b = &m->b, *used = a->index != NULL ? a : b;
    const struct side *whole = used == a ? b : a;
    if (a->index != NULL && b->index != NULL)
        return 0;
    if (used->index == NULL ? a->n_rows == b->n_rows
                            : used->index[used->n_rows - 1] < whole->n_rows)
        return 0;
    return ts_fail(
        err, TS_EARG,
        TS_NTH_MODE " of %s has %" PRIu64 " row%s, of %s %" PRIu64 ": they are not of one tensor",
        mode + 1, a->model->path, a->n_rows, ts_num_plural(a->n_rows), b->model->path, b->n_rows);
}

static int start_side(struct side *s, uint32_t mode, struct ts_err *err)
{
    s->n_rows = s->model->n_rows[mode];
    s->next = s->held = 0;
    memset(s->square, 0, s->rank * sizeof *s->square);
    memset(s->scale, 0, s->rank * sizeof *s->scale);
    return ts_model_index(s->model, mode, &s->index, err);
}

/* Reads a mode that is not compared, of one model, only to multiply the weights by its column
 * norms. */
static int skip_mode(struct match *m, struct side *s, uint32_t mode, struct ts_err *err)
{
    int rc = start_side(s, mode, err);
    while (rc == 0 && s->next < s->n_rows) {
        uint64_t n = 0;
        for (; n < m->step && rc == 0 && s->next < s->n_rows; n++) {
            const double *row;
            rc = next_row(s, mode, m->step, &row, err);
            if (rc == 0)
                take_row(m, s, mode, n, row);
        }
        if (rc == 0) {
            add_squares(s, n);
            rc = ts_stop_check(m->conf->stop, err);
        }
    }
    drop_index(m);
    return rc == 0 ? take_norms(s, mode, err) : rc;
}

static int match_mode(struct match *m, uint32_t mode, struct ts_err *err)
{
    struct side *a = &m->a, *b = &m->b;
    int rc = start_side(a, mode, err);
    if (rc == 0)
        rc = start_side(b, mode, err);
    if (rc == 0 && ((a->index == NULL && b->index != NULL && same_indices(a, b)) ||
                    (b->index == NULL && a->index != NULL && same_indices(b, a))))
        drop_index(m);
    if (rc == 0)
        rc = check_rows(m, mode, err);
    while (rc == 0 && (next_index(a) != NO_INDEX || next_index(b) != NO_INDEX)) {
        uint64_t n = 0;
        for (; n < m->step && rc == 0; n++) {
            if (next_index(a) == NO_INDEX && next_index(b) == NO_INDEX)
                break;
            rc = pair_row(m, mode, n, err);
        }
        if (rc == 0) {
            add_squares(a, n);
            add_squares(b, n);
            add_cross(m, n, m->ret->cosine + (size_t)mode * a->rank * b->rank);
            rc = ts_stop_check(m->conf->stop, err);
        }
    }
    drop_index(m);
    if (rc == 0)
        rc = take_norms(a, mode, err);
    if (rc == 0)
        rc = take_norms(b, mode, err);
    if (rc == 0) {
        take_cosines(m, mode);
        note_empty(&m->a);
        note_empty(&m->b);
    }
    return rc;
}

/* ---- comparison of both models ---- */

static int side_new(struct side *s, struct ts_model *model, uint64_t step, double *weight,
                    struct ts_err *err)
{
    s->model = model;
    s->rank = model->rank;
    s->weight = weight;
    for (uint32_t r = 0; r < s->rank; r++)
        weight[r] = fabs(model->weight[r]);
    s->rows = calloc((2 * step + 3) * s->rank, sizeof *s->rows);
    if (s->rows == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory for rows", model->path);
    s->paired = s->rows + step * s->rank;
    s->square = s->paired + step * s->rank;
    s->scale = s->square + s->rank;
    s->empty = s->scale + s->rank;
    return 0;
}

static int check_skip(const struct ts_match_conf *conf, struct ts_err *err)
{
    const uint32_t order = conf->a->order, all = (UINT32_C(1) << order) - 1;
    if ((conf->skip & ~all) != 0)
        return ts_fail(err, TS_EARG, "there is no " TS_NTH_MODE ", only %u",
                       32 - (uint32_t)__builtin_clz(conf->skip), order);
    return conf->skip == all
               ? ts_fail(err, TS_EARG, "all modes are skipped, and at least one is compared")
               : 0;
}

static int match_new(const struct ts_match_conf *conf, struct ts_match *ret, struct ts_err *err)
{
    const size_t ra = conf->a->rank, rb = conf->b->rank, order = conf->a->order;
    if (conf->a->order != conf->b->order)
        return ts_fail(err, TS_EARG, "%s has %u modes, %s has %u: they are not of one tensor",
                       conf->a->path, conf->a->order, conf->b->path, conf->b->order);
    *ret = (struct ts_match){ .order = conf->a->order,
                              .rank_a = conf->a->rank,
                              .rank_b = conf->b->rank,
                              .cosine = calloc((order + 1) * ra * rb + ra + rb, sizeof(double)) };
    if (ret->cosine == NULL)
        return ts_fail(err, TS_ENOMEM, "out of memory for %zu x %zu pairs of components", ra, rb);
    ret->congruence = ret->cosine + order * ra * rb;
    ret->weight_a = ret->congruence + ra * rb;
    ret->weight_b = ret->weight_a + ra;
    for (size_t i = 0; i < ra * rb; i++)
        ret->congruence[i] = 1;
    return 0;
}

int ts_match_run(const struct ts_match_conf *conf, struct ts_match *ret, struct ts_err *err)
{
    const uint32_t wider = conf->a->rank > conf->b->rank ? conf->a->rank : conf->b->rank;
    struct ts_match result = { 0 };
    struct match m = { .conf = conf,
                       .ret = &result,
                       .step = CHUNK_BYTES / (wider * sizeof(double)) + 1,
                       .threads = conf->threads > 0 ? (int)conf->threads : omp_get_max_threads() };
    int rc = check_skip(conf, err);
    if (rc == 0)
        rc = match_new(conf, &result, err);
    if (rc == 0)
        rc = side_new(&m.a, conf->a, m.step, result.weight_a, err);
    if (rc == 0)
        rc = side_new(&m.b, conf->b, m.step, result.weight_b, err);
    for (uint32_t mode = 0; mode < result.order && rc == 0; mode++)
        if ((conf->skip >> mode & 1) == 0) {
            rc = match_mode(&m, mode, err);
        } else {
            rc = skip_mode(&m, &m.a, mode, err);
            rc = rc == 0 ? skip_mode(&m, &m.b, mode, err) : rc;
        }
    if (rc == 0)
        pair_empty(&m);
    free(m.a.rows);
    free(m.b.rows);
    if (rc == 0)
        *ret = result;
    else
        ts_match_free(&result);
    return rc;
}

void ts_match_free(struct ts_match *m)
{
    free(m->cosine);
    *m = (struct ts_match){ 0 };
}

/* ---- pairs of components ---- */

static double score_of(const struct ts_match *m, uint32_t a, uint32_t b, int weights)
{
    const double congruence = m->congruence[(size_t)a * m->rank_b + b];
    const double most = fmax(m->weight_a[a], m->weight_b[b]);
    if (!weights || most == 0)
        return congruence;
    return congruence * (1 - fabs(m->weight_a[a] - m->weight_b[b]) / most);
}

/* A table of scores of components: its columns are the components of the model that has more, or of
 * model a if both have the same number. */
struct table {
    uint32_t rows, columns;
    double *score; /* rows x columns scores */
    uint32_t *row; /* for each column: the row that is paired with it, or UINT32_MAX */
};

/* Repeatedly pairs the two unpaired components with the largest score. best[i] is the column of row
 * i's largest score. So each choice of a pair compares one score per row. Only rows whose best
 * column was taken are searched again. */
static void assign_greedily(struct table *t, uint32_t *best)
{
    for (uint32_t i = 0; i < t->rows; i++)
        best[i] = UINT32_MAX;
    for (uint32_t round = 0; round < t->rows; round++) {
        uint32_t at = UINT32_MAX;
        for (uint32_t i = 0; i < t->rows; i++) {
            const double *score = t->score + (size_t)i * t->columns;
            if (best[i] == t->columns) /* row i is paired already */
                continue;
            if (best[i] == UINT32_MAX || t->row[best[i]] != UINT32_MAX) {
                best[i] = UINT32_MAX;
                for (uint32_t j = 0; j < t->columns; j++)
                    if (t->row[j] == UINT32_MAX &&
                        (best[i] == UINT32_MAX || score[j] > score[best[i]]))
                        best[i] = j;
            }
            if (at == UINT32_MAX || score[best[i]] > t->score[(size_t)at * t->columns + best[at]])
                at = i;
        }
        t->row[best[at]] = at;
        best[at] = t->columns;
    }
}

/* The Hungarian method with potentials: pairs one row of the table after another with a column,
 * along the shortest path to a free column. Rows and columns are numbered from 1 here; column 0 has
 * the row that is being paired. */
struct hungarian {
    /* potentials of rows and columns; length of the shortest path to each column */
    double *row, *column, *least;
    /* for each column: the row paired with it, and the column before it on the shortest path */
    uint32_t *placed, *before;
    unsigned char *seen;
};

/* Returns the next column on the shortest path, and adjusts the potentials so that the edge to this
 * column has length 0. */
static uint32_t next_column(const struct table *t, struct hungarian *h, uint32_t column)
{
    const uint32_t row = h->placed[column];
    const double *score = t->score + (size_t)(row - 1) * t->columns;
    double delta = INFINITY;
    uint32_t next = 0;
    for (uint32_t j = 1; j <= t->columns; j++) {
        const double cost = -score[j - 1] - h->row[row] - h->column[j];
        if (h->seen[j])
            continue;
        if (cost < h->least[j]) {
            h->least[j] = cost;
            h->before[j] = column;
        }
        if (h->least[j] < delta) {
            delta = h->least[j];
            next = j;
        }
    }
    for (uint32_t j = 0; j <= t->columns; j++)
        if (h->seen[j]) {
            h->row[h->placed[j]] += delta;
            h->column[j] -= delta;
        } else {
            h->least[j] -= delta;
        }
    return next;
}

static void place_row(const struct table *t, struct hungarian *h, uint32_t row)
{
    uint32_t column = 0;
    h->placed[0] = row;
    memset(h->seen, 0, t->columns + 1);
    for (uint32_t j = 0; j <= t->columns; j++)
        h->least[j] = INFINITY;
    do {
        h->seen[column] = 1;
        column = next_column(t, h, column);
    } while (h->placed[column] != 0);
    for (; column != 0; column = h->before[column])
        h->placed[column] = h->placed[h->before[column]];
}

static int assign_best(struct table *t, struct ts_err *err)
{
    const size_t n = (size_t)t->columns + 1;
    double *numbers = calloc(3 * n, sizeof *numbers);
    uint32_t *columns = calloc(2 * n, sizeof *columns);
    unsigned char *seen = calloc(n, 1);
    struct hungarian h;
    int rc = 0;
    if (numbers == NULL || columns == NULL || seen == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "out of memory for %u components", t->columns);
    } else {
        h = (struct hungarian){ .row = numbers,
                                .column = numbers + n,
                                .least = numbers + 2 * n,
                                .placed = columns,
                                .before = columns + n,
                                .seen = seen };
        for (uint32_t i = 1; i <= t->rows; i++)
            place_row(t, &h, i);
        for (uint32_t j = 1; j <= t->columns; j++)
            if (h.placed[j] != 0)
                t->row[j - 1] = h.placed[j] - 1;
    }
    free(numbers);
    free(columns);
    free(seen);
    return rc;
}

static void list_pairs(const struct ts_match *m, const struct table *t, struct ts_match_pair *pair,
                       double *score)
{
    const int a_wide = m->rank_a >= m->rank_b;
    uint32_t n = 0;
    *score = 0;
    for (uint32_t a = 0; a < m->rank_a; a++) {
        uint32_t b = UINT32_MAX;
        if (a_wide)
            b = t->row[a];
        for (uint32_t j = 0; !a_wide && b == UINT32_MAX && j < t->columns; j++)
            if (t->row[j] == a)
                b = j;
        if (b == UINT32_MAX)
            continue;
        pair[n].a = a;
        pair[n].b = b;
        pair[n].congruence = m->congruence[(size_t)a * m->rank_b + b];
        pair[n].score = t->score[a_wide ? (size_t)b * t->columns + a : (size_t)a * t->columns + b];
        *score += pair[n++].score;
    }
    *score /= n;
}

int ts_match_assign(const struct ts_match *m, enum ts_match_how kind, int weights,
                    struct ts_match_pair *pair, double *score, struct ts_err *err)
{
    const int a_wide = m->rank_a >= m->rank_b;
    struct table t = { .rows = ts_match_pairs(m), .columns = a_wide ? m->rank_a : m->rank_b };
    uint32_t *best;
    int rc = 0;
    t.score = malloc((size_t)t.rows * t.columns * sizeof *t.score);
    t.row = malloc(((size_t)t.columns + t.rows) * sizeof *t.row);
    if (t.score == NULL || t.row == NULL) {
        rc = ts_fail(err, TS_ENOMEM, "out of memory for %u x %u pairs of components", t.rows,
                     t.columns);
    } else {
        best = t.row + t.columns;
        for (uint32_t i = 0; i < t.rows; i++)
            for (uint32_t j = 0; j < t.columns; j++)
                t.score[(size_t)i * t.columns + j] =
                    a_wide ? score_of(m, j, i, weights) : score_of(m, i, j, weights);
        for (uint32_t j = 0; j < t.columns; j++)
            t.row[j] = UINT32_MAX;
        if (kind == TS_MATCH_GREEDY)
            assign_greedily(&t, best);
        else
            rc = assign_best(&t, err);
    }
    if (rc == 0)
        list_pairs(m, &t, pair, score);
    free(t.score);
    free(t.row);
    return rc;
}
