/* SPDX-License-Identifier: BSD-3-Clause */
/* binary_kind.c - the table of the kinds of binary files. */
#include "source/binary/binary_kind.h"

#include <inttypes.h>
#include <string.h>

#include "base/num.h"
#include "base/setting.h"

/* ------------------------------------------------------------------ numbers of a header */

struct reader {
    const unsigned char *head;
    size_t n;
    uint64_t at; /* offset of the number read last */
    size_t next;
    int big_endian;
};

static int read_number(struct reader *r, uint32_t bytes, uint64_t *ret, struct ts_err *err)
{
    uint64_t x = 0;
    *ret = 0;
    r->at = r->next;
    if (r->n - r->next < bytes) {
        r->at = r->n;
        return ts_fail(err, TS_EFORMAT, "the file ends within its header");
    }
    for (uint32_t i = 0; i < bytes; i++)
        x = x << 8 | r->head[r->next + (r->big_endian ? i : bytes - 1 - i)];
    r->next += bytes;
    *ret = x;
    return 0;
}

/* Finds the byte order of a file: the one in which the next number of its header is small.
 * Little-endian if it is small in both or in none. */
static void find_byte_order(struct reader *r, uint32_t bytes)
{
    struct reader try = *r;
    uint64_t little, big;
    r->big_endian = 0;
    if (read_number(&try, bytes, &little, NULL) < 0)
        return;
    try = *r;
    try.big_endian = 1;
    (void)read_number(&try, bytes, &big, NULL);
    r->big_endian = little > UINT16_MAX && big <= UINT16_MAX;
}

static int read_order(struct reader *r, uint32_t bytes, struct ts_binary_form *f,
                      struct ts_err *err)
{
    uint64_t order;
    const int rc = read_number(r, bytes, &order, err);
    if (rc < 0)
        return rc;
    if (order < TS_MIN_ORDER || order > TS_MAX_ORDER)
        return ts_fail(err, TS_ELIMIT, "a tensor of %" PRIu64 " mode%s; %u to %u are possible",
                       order, ts_num_plural(order), TS_MIN_ORDER, TS_MAX_ORDER);
    f->order = (uint32_t)order;
    return 0;
}

static int read_sizes(struct reader *r, uint32_t bytes, struct ts_binary_form *f,
                      struct ts_err *err)
{
    for (uint32_t m = 0; m < f->order; m++) {
        const int rc = read_number(r, bytes, &f->dim[m], err);
        if (rc < 0)
            return rc;
        if (f->dim[m] < 1 || f->dim[m] > TS_MAX_DIM)
            return ts_fail(err, f->dim[m] == 0 ? TS_EFORMAT : TS_ELIMIT,
                           TS_NTH_MODE " is %" PRIu64 " long; 1 to 2^40 are possible", m + 1,
                           f->dim[m]);
    }
    return 0;
}

static int read_nnz(struct reader *r, uint32_t bytes, struct ts_binary_form *f, struct ts_err *err)
{
    const int rc = read_number(r, bytes, &f->nnz, err);
    if (rc < 0)
        return rc;
    if (f->nnz < 1 || f->nnz > TS_MAX_NNZ)
        return ts_fail(err, f->nnz == 0 ? TS_EFORMAT : TS_ELIMIT,
                       "%" PRIu64 " nonzeros; 1 to 2^40 are possible", f->nnz);
    f->header_bytes = r->next;
    f->nonzero_bytes = f->value_bytes;
    for (uint32_t m = 0; m < f->order; m++)
        f->nonzero_bytes += f->index_bytes[m];
    return 0;
}

/* ------------------------------------------------------------------ files of SPLATT */

#define SPLATT_FIBRES 1u

static int recognise_splatt(const unsigned char *head, size_t n)
{
    static const unsigned char magic[4] = { 0 };
    return n > 0 && memcmp(head, magic, n < sizeof magic ? n : sizeof magic) == 0;
}

static int splatt_width(struct reader *r, const char *thing, uint32_t *ret, struct ts_err *err)
{
    uint64_t bytes;
    const int rc = read_number(r, 8, &bytes, err);
    if (rc < 0)
        return rc;
    if (bytes != 4 && bytes != 8)
        return ts_fail(err, TS_EFORMAT, "%s of %" PRIu64 " bytes; those of SPLATT have 4 or 8",
                       thing, bytes);
    *ret = (uint32_t)bytes;
    return 0;
}

static int splatt_header(const unsigned char *head, size_t n, struct ts_binary_form *ret,
                         uint64_t *at, struct ts_err *err)
{
    struct reader r = { .head = head, .n = n };
    struct ts_binary_form f = { .columns = 1 };
    uint64_t magic;
    uint32_t width = 0;
    int rc = read_number(&r, 4, &magic, err);
    find_byte_order(&r, 8);
    if (rc == 0)
        rc = splatt_width(&r, "indices", &width, err);
    if (rc == 0)
        rc = splatt_width(&r, "values", &f.value_bytes, err);
    if (rc == 0)
        rc = read_order(&r, width, &f, err);
    for (uint32_t m = 0; m < f.order; m++)
        f.index_bytes[m] = width;
    if (rc == 0)
        rc = read_sizes(&r, width, &f, err);
    if (rc == 0)
        rc = read_nnz(&r, width, &f, err);
    f.big_endian = r.big_endian;
    *at = r.at;
    *ret = f;
    return rc;
}

static int recognise_fibres(const unsigned char *head, size_t n)
{
    static const unsigned char little[4] = { SPLATT_FIBRES }, big[4] = { 0, 0, 0, SPLATT_FIBRES };
    return n >= 4 && (memcmp(head, little, 4) == 0 || memcmp(head, big, 4) == 0);
}

static int refuse_fibres(const unsigned char *head, size_t n, struct ts_binary_form *ret,
                         uint64_t *at, struct ts_err *err)
{
    (void)head;
    (void)n;
    (void)ret;
    *at = 0;
    return ts_fail(err, TS_EFORMAT,
                   "these are SPLATT's compressed fibres (CSF), which are not read; its binary "
                   "coordinates (splatt convert -t bin) and its text are");
}

/* ------------------------------------------------------------------ files of GenTen */

#define GENTEN_MAGIC_BYTES 4u

/* Whether a file is GenTen's: after its four letters comes a small 32-bit number, with zero bytes
 * that text does not have. */
static int recognise_genten(const unsigned char *head, size_t n, const char *magic)
{
    return n >= GENTEN_MAGIC_BYTES && memcmp(head, magic, GENTEN_MAGIC_BYTES) == 0 &&
           (n < 8 || memchr(head + GENTEN_MAGIC_BYTES, 0, 4) != NULL);
}

static int recognise_sparse(const unsigned char *head, size_t n)
{
    return recognise_genten(head, n, "sptn");
}

static int recognise_dense(const unsigned char *head, size_t n)
{
    return recognise_genten(head, n, "dntn");
}

static int genten_value_bits(struct reader *r, struct ts_binary_form *f, struct ts_err *err)
{
    uint64_t bits;
    const int rc = read_number(r, 4, &bits, err);
    if (rc < 0)
        return rc;
    if (bits != 32 && bits != 64)
        return ts_fail(err, TS_EFORMAT, "values of %" PRIu64 " bits; those of 32 and 64 are read",
                       bits);
    f->value_bytes = (uint32_t)bits / 8;
    return 0;
}

static int genten_index_bits(struct reader *r, struct ts_binary_form *f, struct ts_err *err)
{
    for (uint32_t m = 0; m < f->order; m++) {
        uint64_t bits;
        const int rc = read_number(r, 8, &bits, err);
        if (rc < 0)
            return rc;
        if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
            return ts_fail(err, TS_EFORMAT,
                           "indices of %" PRIu64 " bits in " TS_NTH_MODE
                           "; those of 8, 16, 32 and 64 are read",
                           bits, m + 1);
        f->index_bytes[m] = (uint32_t)bits / 8;
    }
    return 0;
}

static int genten_header(const unsigned char *head, size_t n, struct ts_binary_form *ret,
                         uint64_t *at, struct ts_err *err)
{
    struct reader r = { .head = head, .n = n, .next = GENTEN_MAGIC_BYTES };
    struct ts_binary_form f = { 0 };
    int rc;
    find_byte_order(&r, 4);
    rc = read_order(&r, 4, &f, err);
    if (rc == 0)
        rc = genten_value_bits(&r, &f, err);
    if (rc == 0)
        rc = read_sizes(&r, 8, &f, err);
    if (rc == 0)
        rc = genten_index_bits(&r, &f, err);
    if (rc == 0)
        rc = read_nnz(&r, 8, &f, err);
    f.big_endian = r.big_endian;
    *at = r.at;
    *ret = f;
    return rc;
}

static int refuse_dense(const unsigned char *head, size_t n, struct ts_binary_form *ret,
                        uint64_t *at, struct ts_err *err)
{
    (void)head;
    (void)n;
    (void)ret;
    *at = 0;
    return ts_fail(err, TS_EFORMAT,
                   "this is a dense tensor of GenTen ('dntn'), which lists every cell; what can be "
                   "built lists its nonzeros ('sptn')");
}

/* ------------------------------------------------------------------ files of NumPy and HDF5 */

static int recognise_array(const unsigned char *head, size_t n)
{
    return (n >= 6 && memcmp(head, "\x93NUMPY", 6) == 0) ||
           (n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0);
}

static int refuse_array(const unsigned char *head, size_t n, struct ts_binary_form *ret,
                        uint64_t *at, struct ts_err *err)
{
    (void)n;
    (void)ret;
    *at = 0;
    return ts_fail(err, TS_EFORMAT,
                   "this is %s, which lists every cell: tstream cp takes it as it is",
                   head[1] == 'N' ? "an array of NumPy" : "a file of HDF5");
}

/* ------------------------------------------------------------------ the table of all kinds */

static const struct ts_binary_kind kinds[] = {
    { "SPLATT binary", recognise_splatt, splatt_header },
    { "SPLATT CSF", recognise_fibres, refuse_fibres },
    { "GenTen binary", recognise_sparse, genten_header },
    { "dense GenTen", recognise_dense, refuse_dense },
    { "dense array", recognise_array, refuse_array },
};

const struct ts_binary_kind *ts_binary_kind_find(const unsigned char *head, size_t n)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].recognise(head, n))
            return &kinds[i];
    return NULL;
}

uint64_t ts_binary_place(const struct ts_binary_form *f, uint64_t i, uint32_t mode)
{
    uint64_t before = 0; /* bytes of a nonzero's indices in earlier modes */
    const uint64_t width = mode < f->order ? f->index_bytes[mode] : f->value_bytes;
    for (uint32_t m = 0; m < mode; m++)
        before += f->index_bytes[m];
    return f->header_bytes +
           (f->columns ? f->nnz * before + i * width : i * f->nonzero_bytes + before);
}

uint64_t ts_binary_size(const struct ts_binary_form *f)
{
    return f->header_bytes + f->nnz * f->nonzero_bytes;
}
