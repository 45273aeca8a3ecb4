/* SPDX-License-Identifier: BSD-3-Clause */
/* The cells of small tensors, and exact fits by the obvious loop over all cells. */
#include "tests/cpd/fit_cases.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define MOST_RANK  6u
#define MOST_ORDER 6u

struct draw {
    uint64_t state;
};

static double unit(struct draw *d)
{
    return ts_unit(ts_mix(d->state++));
}

/* A whole number from `least` to `most`. */
static uint32_t pick(struct draw *d, uint32_t least, uint32_t most)
{
    return least + (uint32_t)(unit(d) * (most - least + 1));
}

static double normal(struct draw *d)
{
    const double u = 1 - unit(d), angle = 6.283185307179586 * unit(d);
    return sqrt(-2 * log(u)) * cos(angle);
}

/* About the same number of cells for every order; sizes are odd and even, and now and then 1 or
 * 2. */
static void draw_dims(struct test_fit_case *c, struct draw *d)
{
    static const uint32_t most[MOST_ORDER + 1] = { 0, 0, 60, 22, 11, 7, 6 };
    c->n_cells = 1;
    for (uint32_t m = 0; m < c->order; m++) {
        c->dim[m] = unit(d) < 0.06 ? pick(d, 1, 2) : pick(d, most[c->order] / 2, most[c->order]);
        c->n_cells *= c->dim[m];
    }
    c->cell = calloc(c->n_cells, sizeof *c->cell);
    assert(c->cell != NULL);
}

uint64_t test_fit_case_index(const struct test_fit_case *c, uint64_t cell, uint32_t mode)
{
    for (uint32_t m = c->order - 1; m > mode; m--)
        cell /= c->dim[m];
    return cell % c->dim[mode];
}

/* How the entries of planted factors are drawn. */
enum entries { POSITIVE, SIGNED, COLLINEAR, BOXES };

static double draw_entry(struct draw *d, enum entries how, uint64_t i, uint64_t dim, uint32_t r,
                         uint32_t rank, double common)
{
    const uint64_t box = dim / rank > 0 ? dim / rank : 1;
    switch (how) {
    case POSITIVE:
        return unit(d);
    case SIGNED:
        return normal(d);
    case COLLINEAR:
        return common + 1e-2 * normal(d);
    case BOXES:
        break;
    }
    return i / box == r ? unit(d) + 0.2 : 0;
}

/* cells := sum of true_rank components, each nonzero then off by a share `noise` of itself. */
static void plant(struct test_fit_case *c, struct draw *d, enum entries how, double noise)
{
    double *factor[TEST_FIT_MOST_ORDER];
    for (uint32_t m = 0; m < c->order; m++) {
        factor[m] = malloc(c->dim[m] * c->true_rank * sizeof *factor[m]);
        assert(factor[m] != NULL);
        for (uint64_t i = 0; i < c->dim[m]; i++) {
            const double common = unit(d) + 0.1;
            for (uint32_t r = 0; r < c->true_rank; r++)
                factor[m][i * c->true_rank + r] =
                    draw_entry(d, how, i, c->dim[m], r, c->true_rank, common);
        }
    }
    for (uint64_t n = 0; n < c->n_cells; n++) {
        for (uint32_t r = 0; r < c->true_rank; r++) {
            double term = 1;
            for (uint32_t m = 0; m < c->order; m++)
                term *= factor[m][test_fit_case_index(c, n, m) * c->true_rank + r];
            c->cell[n] += term;
        }
        c->cell[n] *= 1 + noise * normal(d);
    }
    for (uint32_t m = 0; m < c->order; m++)
        free(factor[m]);
    c->exact = noise == 0;
}

/* A share of the cells, at random: integers of both signs, or numbers in [0, 1). */
static void scatter(struct test_fit_case *c, struct draw *d, double share, int integers)
{
    for (uint64_t n = 0; n < c->n_cells; n++) {
        const double value = integers ? (double)pick(d, 0, 18) - 9 : unit(d);
        c->cell[n] = unit(d) < share ? value : 0;
    }
}

/* The classical tensor whose best approximation of rank 2 does not exist: components that grow and
 * cancel. */
static void border(struct test_fit_case *c, struct draw *d)
{
    double *a[TEST_FIT_MOST_ORDER];
    for (uint32_t m = 0; m < c->order; m++) {
        a[m] = malloc(2 * c->dim[m] * sizeof *a[m]);
        assert(a[m] != NULL);
        for (uint64_t i = 0; i < 2 * c->dim[m]; i++)
            a[m][i] = normal(d);
    }
    for (uint64_t n = 0; n < c->n_cells; n++)
        for (uint32_t odd = 0; odd < c->order; odd++) {
            double term = 1;
            for (uint32_t m = 0; m < c->order; m++)
                term *= a[m][2 * test_fit_case_index(c, n, m) + (m == odd)];
            c->cell[n] += term;
        }
    for (uint32_t m = 0; m < c->order; m++)
        free(a[m]);
}

static void diagonal(struct test_fit_case *c, struct draw *d)
{
    for (uint64_t n = 0; n < c->n_cells; n++) {
        int on = 1;
        for (uint32_t m = 1; m < c->order; m++)
            on &= test_fit_case_index(c, n, m) == test_fit_case_index(c, n, 0);
        c->cell[n] = on ? 1 + unit(d) : 0;
    }
}

/* Kinds in turn; each has its own name, so that a table tells them apart. */
static void fill(struct test_fit_case *c, struct draw *d, uint32_t kind)
{
    static const double noise[3] = { 0, 1e-4, 1e-2 };
    const uint32_t k = pick(d, 0, 2);
    switch (kind) {
    case 0:
        c->kind = "dense";
        plant(c, d, POSITIVE, 0);
        break;
    case 1:
        c->kind = "dense, both signs";
        plant(c, d, SIGNED, 0);
        break;
    case 2:
        c->kind = "boxes";
        plant(c, d, BOXES, noise[k]);
        break;
    case 3:
        c->kind = "dense, noise";
        plant(c, d, POSITIVE, noise[1 + k % 2]);
        break;
    case 4:
        c->kind = "sparse";
        scatter(c, d, 0.1, 0);
        break;
    case 5:
        c->kind = "sparse integers";
        scatter(c, d, 0.3, 1);
        break;
    case 6:
        c->kind = "collinear";
        plant(c, d, COLLINEAR, noise[k]);
        break;
    case 7:
        c->kind = "border rank";
        border(c, d);
        break;
    case 8:
        c->kind = "diagonal";
        diagonal(c, d);
        break;
    case 9:
        c->kind = "one nonzero";
        break;
    case 10:
        c->kind = "all equal";
        break;
    default:
        c->kind = "boxes, noise";
        plant(c, d, BOXES, noise[1 + k % 2]);
        break;
    }
    if (kind == 9 || kind == 10) {
        c->true_rank = 1;
        c->exact = 1;
        for (uint64_t n = 0; n < c->n_cells; n++)
            c->cell[n] = kind == 10 ? 0.7 : 0;
        if (kind == 9)
            c->cell[(uint64_t)(unit(d) * (double)c->n_cells)] = -3.25;
    }
    if (kind == 4 || kind == 5 || kind == 7 || kind == 8)
        c->true_rank = 0;
}

struct test_fit_case test_fit_case_make(uint64_t seed, uint32_t number, int single)
{
    struct draw d = { ts_mix(ts_mix(seed) + number) };
    struct test_fit_case c = { 0 };
    c.order = pick(&d, 2, MOST_ORDER);
    c.true_rank = pick(&d, 1, MOST_RANK);
    draw_dims(&c, &d);
    fill(&c, &d, number % 12);
    c.scale = number % 3 == 2 ? pow(10, 16 * unit(&d) - 8) : 1;
    for (uint64_t n = 0; n < c.n_cells; n++) {
        c.cell[n] *= c.scale;
        if (single)
            c.cell[n] = (float)c.cell[n];
        c.nnz += c.cell[n] != 0;
    }
    if (c.nnz == 0) /* a tensor has something */
        c.cell[0] = c.nnz = 1;
    return c;
}

void test_fit_case_free(struct test_fit_case *c)
{
    free(c->cell);
    memset(c, 0, sizeof *c);
}

void test_fit_case_write(const struct test_fit_case *c, const char *path)
{
    FILE *f = fopen(path, "w");
    assert(f != NULL);
    fprintf(f, "sptensor\n%u\n", c->order);
    for (uint32_t m = 0; m < c->order; m++)
        fprintf(f, "%" PRIu64 "%c", c->dim[m], m + 1 < c->order ? ' ' : '\n');
    fprintf(f, "%" PRIu64 "\n", c->nnz);
    for (uint64_t n = 0; n < c->n_cells; n++) {
        if (c->cell[n] == 0)
            continue;
        for (uint32_t m = 0; m < c->order; m++)
            fprintf(f, "%" PRIu64 " ", test_fit_case_index(c, n, m) + 1);
        fprintf(f, "%.17g\n", c->cell[n]);
    }
    assert(fclose(f) == 0);
}

double test_fit_case_fit(const struct test_fit_case *c, uint32_t rank, const double *weight,
                         double *const factor[])
{
    long double left = 0, norm = 0;
    for (uint64_t n = 0; n < c->n_cells; n++) {
        const double *row[TEST_FIT_MOST_ORDER];
        long double off = c->cell[n];
        norm += off * off;
        for (uint32_t m = 0; m < c->order; m++)
            row[m] = factor[m] + test_fit_case_index(c, n, m) * rank;
        for (uint32_t r = 0; r < rank; r++) {
            long double term = weight[r];
            for (uint32_t m = 0; m < c->order; m++)
                term *= row[m][r];
            off -= term;
        }
        left += off * off;
    }
    return (double)(1 - sqrtl(left / norm));
}
