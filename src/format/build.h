/* build.h - from nonzeros in any order to a .tsh directory.
 *
 * The nonzeros of a source (text files, the generator) become records, are sorted, merged where they
 * fall on one cell, and sorted again for each mode copy. What does not fit the memory allowed goes
 * through sorted runs in a temporary file. The bytes written depend on the set of nonzeros and on
 * the options named "format" alone: not on memory, threads, order of the input or tmp.
 *
 *   owner    strings and arrays of the options are the caller's and must stay
 *   units    bytes, nonzeros
 *   threads  called from one, uses `threads`
 *   errors   0 or a negative ts_code; on failure nothing is left behind. TS_ESTOP when *stop is set
 */
#ifndef TS_FORMAT_BUILD_H
#define TS_FORMAT_BUILD_H

#include <signal.h>
#include <stdint.h>

#include "base/err.h"
#include "format/layout.h"
#include "format/synth.h"

enum ts_duplicates { TS_DUPLICATES_SUM = 0, TS_DUPLICATES_KEEP = 1, TS_DUPLICATES_ERROR = 2 };

struct ts_build_options {
    const char *out; /* the directory to make */
    int force;       /* replace it when it exists */
    uint64_t memory; /* of everything together */
    const char *tmp; /* directory for temporary files; NULL: that of out */
    uint32_t threads;

    /* format */
    uint64_t shard_bytes;
    int duplicates;       /* enum ts_duplicates */
    uint32_t value_bytes; /* 4 or 8 */
    const char *map[TS_MAX_ORDER]; /* labels of a mode, text or gzip; NULL: none */
    uint32_t min_order;            /* a text of fewer modes is refused, as --map names this one */

    /* text */
    uint32_t base;
    uint32_t n_dims; /* 0: sizes are the maxima */
    uint64_t dim[TS_MAX_ORDER];

    /* told from the calling thread, some times a second; may be NULL. total 0: not known */
    void (*progress)(void *arg, const char *what, const char *unit, uint64_t done, uint64_t total);
    void *progress_arg;
    const volatile sig_atomic_t *stop; /* may be NULL */

    uint64_t area_words; /* tests: words of a sort area, 0: from `memory` */
};

struct ts_build_report {
    uint64_t nnz, input_nnz, n_duplicates, n_zeros;
    uint32_t order;
    uint64_t dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    uint64_t n_runs; /* sorted runs that went through the temporary file */
    uint64_t read_ns, merge_ns, pack_ns, sync_ns;
};

#define TS_BUILD_MIN_MEMORY (UINT64_C(32) << 20)
#define TS_BUILD_MIN_SHARD (UINT64_C(64) << 10)
#define TS_BUILD_MAX_SHARD (UINT64_C(256) << 20)

/* Builds from text. A path "-" is standard input. */
int ts_build_text(const struct ts_build_options *o, const char *const paths[], uint32_t n_paths,
                  struct ts_build_report *ret, struct ts_err *err);

/* Builds from the generator. */
int ts_build_synth(const struct ts_build_options *o, const struct ts_synth *synth,
                   struct ts_build_report *ret, struct ts_err *err);

#endif
