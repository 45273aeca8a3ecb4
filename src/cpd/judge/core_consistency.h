/* SPDX-License-Identifier: BSD-3-Clause */
/* core_consistency.h - measures whether a model has as many components as the data support, and
 * whether they are separate.
 *
 * The core of a tensor X for factors A_n is G = X x_1 A_1^+ ... x_N A_N^+, the Tucker core that
 * fits X best with these factors. In a correct model, only columns of the same component are
 * multiplied with each other. Then G equals T, the core that is 1 where all indices are equal and 0
 * elsewhere. The core consistency is
 *     100 (1 - |G - T|^2 / rank),
 * near 100 for a correct model, near 0 or below for a wrong one (Bro and Kiers, J. Chemometrics 17,
 * 2003). The weight of a component and its column norms are shared equally among the modes, so the
 * figure does not depend on where a program puts them. (Other programs take the factors as given,
 * with the weights in the first mode: `given` is what they print. An exact model has 100 either
 * way.) A component of weight 0 has zeros in G.
 *
 * G is summed over the nonzeros (Papalexakis and Faloutsos, ICASSP 2015). A copy of the tensor has
 * them sorted by one mode, then by another, and so on. Nonzeros that agree in the first modes of
 * this order are a group. A row of a pseudo-inverse is multiplied in at the end of each group. So a
 * nonzero costs `rank` additions, a fibre rank^2, a slice rank^order. The cells of a dense tensor
 * are nonzeros in the order of the array; unknown cells (NaN) are refused.
 *
 *   owner    the caller owns tensor and model
 *   threads  one thread calls; sums of slices are shared among conf->threads
 *   errors   0 or a negative ts_code: that of a failed read, TS_EARG if shapes differ or a cell is
 *            NaN, TS_ELIMIT if the core is too large or memory too small
 *   memory   a float64 copy of the factors, and two cores
 *   bits     results do not depend on threads
 */
#ifndef TS_CPD_CORE_CONSISTENCY_H
#define TS_CPD_CORE_CONSISTENCY_H

#include <signal.h>
#include <stdint.h>

#include "format/tensor.h"
#include "model/kruskal.h"

/* most entries of a core: those of rank 256 for three modes */
#define TS_CORE_ENTRIES (UINT64_C(1) << 24)

struct ts_core_conf {
    const struct ts_tensor *tensor;
    const struct ts_kruskal *model; /* a row for each index of a mode, or for each used index */
    uint32_t threads;               /* 0: all cores of the machine */
    /* Called repeatedly, each time with the number of nonzeros that were summed since the last
     * call; or NULL. */
    void (*done)(void *ctx, uint64_t nnz);
    void *done_ctx;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop: TS_ESTOP */
};

struct ts_core {
    double consistency; /* 100 at most */
    double normalised;  /* 100 (1 - |G - T|^2 / |G|^2); 0 for a core of zeros */
    /* `consistency` and `normalised` of factors as given, with weights in the first mode */
    double given, given_normalised;
    uint32_t n_singular; /* number of modes whose columns are linearly dependent, to rounding */
};

/* Returns TS_ELIMIT if the core is too large. The message names the highest rank that is
 * possible. */
int ts_core_check(uint32_t order, uint32_t rank, struct ts_err *err);

int ts_core_run(const struct ts_core_conf *conf, struct ts_core *ret, struct ts_err *err);

#endif
