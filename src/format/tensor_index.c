/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks every number of NAME.tsh/index before it is used. */
#include "format/tensor_index.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/setting.h"
#include "format/shard.h"

/* largest float64 below which all integers are exact */
#define MAX_EXACT 9007199254740992.0

static int is_zero(const uint8_t *byte, size_t n)
{
    while (n > 0 && byte[n - 1] == 0)
        n--;
    return n == 0;
}

int ts_tensor_index_header(const void *header, uint64_t file_bytes, const char *where,
                           struct ts_err *err)
{
    struct ts_disk_header h;
    memcpy(&h, header, sizeof h);
    if (memcmp(h.magic, TS_INDEX_MAGIC, sizeof h.magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not the index of a tensor (no \"%s\" there)",
                       where, TS_INDEX_MAGIC);
    if (h.version < TS_FORMAT_VERSION || h.version > TS_FORMAT_WEIGHTS)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32
                       ", but this program reads versions %u to %u",
                       where, h.version, TS_FORMAT_VERSION, TS_FORMAT_SEGMENTS);
    if (h.index_bytes != file_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the file has %" PRIu64 " bytes, expected %" PRIu64
                       " (it was cut short, or damaged)",
                       where, file_bytes, h.index_bytes);
    return 0;
}

static int check_hash(const uint8_t *byte, size_t n_bytes, const char *where, uint64_t *ret,
                      struct ts_err *err)
{
    uint64_t stored;
    const uint64_t found = XXH3_64bits(byte, n_bytes - sizeof stored);
    memcpy(&stored, byte + n_bytes - sizeof stored, sizeof stored);
    *ret = stored;
    if (found != stored)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       where, found, stored);
    return 0;
}

static int check_values(const struct ts_disk_header *h, const char *where, struct ts_err *err)
{
    const uint32_t kind = h->value_kind;
    if (kind > TS_VALUE_F64 || (h->value_bytes != 4 && h->value_bytes != 8) ||
        (kind == TS_VALUE_F64 && h->value_bytes != 8) ||
        ((h->flags & TS_TENSOR_WEIGHTS) != 0 && h->value_bytes != 4))
        return ts_fail(err, TS_EFORMAT, "%s: values of unknown kind %" PRIu32 ", %" PRIu32 " bytes",
                       where, kind, h->value_bytes);
    if ((h->n_dict > 0) != (kind == TS_VALUE_DICT))
        return ts_fail(err, TS_EFORMAT,
                       "%s: a dictionary of %" PRIu32 " values does not match value kind %" PRIu32,
                       where, h->n_dict, kind);
    if (!isfinite(h->norm) || h->norm < 0 || !isfinite(h->value_base) ||
        !(h->value_bits >= 0 && h->value_bits <= 64) || !isfinite(h->value_min) ||
        !isfinite(h->value_max) || h->value_min > h->value_max)
        return ts_fail(err, TS_EFORMAT, "%s: norm or range of the values is impossible", where);
    if (kind == TS_VALUE_INT &&
        (h->value_base != nearbyint(h->value_base) || fabs(h->value_base) > MAX_EXACT))
        return ts_fail(err, TS_EFORMAT, "%s: integer values start at %.17g", where, h->value_base);
    return 0;
}

static int check_header(const struct ts_disk_header *h, const char *where, struct ts_err *err)
{
    /* with weights, the index may have the flag TS_TENSOR_ZEROS as well */
    const int weights = h->version == TS_FORMAT_WEIGHTS;
    const uint32_t may =
        TS_TENSOR_DUPLICATES | TS_TENSOR_VALUE_BITS_ESTIMATED | (weights ? TS_TENSOR_ZEROS : 0);
    const uint32_t must = weights                         ? TS_TENSOR_WEIGHTS
                          : h->version == TS_FORMAT_ZEROS ? TS_TENSOR_ZEROS
                                                          : 0;
    if (h->order < TS_MIN_ORDER || h->order > TS_MAX_ORDER)
        return ts_fail(err, TS_EFORMAT, "%s: the order is %" PRIu32 ", expected %u to %u", where,
                       h->order, TS_MIN_ORDER, TS_MAX_ORDER);
    if (h->nnz < 1 || h->nnz > TS_MAX_NNZ)
        return ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " nonzeros, expected 1 to 2^40", where,
                       h->nnz);
    if (h->block_nnz != TS_BLOCK_NNZ || h->partition_blocks != TS_PARTITION_BLOCKS)
        return ts_fail(err, TS_EFORMAT,
                       "%s: blocks of %" PRIu32 " nonzeros in partitions of %" PRIu32
                       " blocks, expected %u and %u",
                       where, h->block_nnz, h->partition_blocks, TS_BLOCK_NNZ, TS_PARTITION_BLOCKS);
    if ((h->flags & ~may) != must || h->reserved32 != 0 ||
        !is_zero(h->reserved, sizeof h->reserved))
        return ts_fail(err, TS_EFORMAT, "%s: unknown flags in the header", where);
    return check_values(h, where, err);
}

static int check_levels(const struct ts_disk_mode *d, uint32_t order, uint32_t mode,
                        const char *where, struct ts_err *err)
{
    uint32_t seen = 0;
    for (uint32_t l = 0; l < order; l++)
        seen |= d->level[l] < order ? UINT32_C(1) << d->level[l] : 0;
    if (seen != (UINT32_C(1) << order) - 1 || d->level[0] != mode ||
        !is_zero(d->level + order, sizeof d->level - order))
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE
                       ": its levels are not the modes in some order that starts with this one",
                       where, mode + 1);
    return 0;
}

/* Whether size, hash and number of entries of an optional file are possible: a file that exists has
 * at least its header. */
static int check_side_file(uint64_t bytes, uint64_t hash, uint64_t entries, size_t header_bytes)
{
    if (bytes == 0)
        return hash == 0 && entries == 0;
    return bytes >= header_bytes && entries <= bytes;
}

static int check_mode(const struct ts_disk_mode *d, const struct ts_disk_header *h, uint32_t mode,
                      const char *where, struct ts_err *err)
{
    const int squeezed = d->n_rows != d->dim;
    if (d->dim < 1 || d->dim > TS_MAX_DIM)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": its size is %" PRIu64 ", expected 1 to 2^40", where,
                       mode + 1, d->dim);
    if (d->n_rows < 1 || d->n_rows > d->dim || d->n_rows > h->nnz || d->n_rows > UINT32_MAX)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": %" PRIu64 " of its %" PRIu64
                       " slices in use is impossible with %" PRIu64 " nonzeros",
                       where, mode + 1, d->n_rows, d->dim, h->nnz);
    if (d->largest_slice > h->nnz - d->n_rows + 1 ||
        d->largest_slice < (h->nnz - 1) / d->n_rows + 1)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": a largest slice of %" PRIu64 " nonzeros is impossible",
                       where, mode + 1, d->largest_slice);
    if (!check_side_file(d->rows_bytes, d->rows_hash, 0, sizeof(struct ts_disk_rows)) ||
        (d->rows_bytes > 0) != squeezed)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": a rows file of %" PRIu64
                       " bytes does not match %" PRIu64 " of %" PRIu64 " slices in use",
                       where, mode + 1, d->rows_bytes, d->n_rows, d->dim);
    if (!check_side_file(d->labels_bytes, d->labels_hash, d->n_labels,
                         sizeof(struct ts_disk_labels)))
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": a labels file of %" PRIu64
                       " bytes cannot hold %" PRIu64 " labels",
                       where, mode + 1, d->labels_bytes, d->n_labels);
    if (!is_zero(d->reserved, sizeof d->reserved))
        return ts_fail(err, TS_EFORMAT, "%s: " TS_NTH_MODE ": unknown bytes in its entry", where,
                       mode + 1);
    return check_levels(d, h->order, mode, where, err);
}

/* Checks the sizes of a shard that the index states. Returns NULL, or a phrase that says what is
 * wrong. */
static const char *shard_sizes(const struct ts_disk_shard *s, const struct ts_disk_header *h)
{
    const uint32_t n_codes = ts_header_codes(h);
    const int packed = (s->flags & TS_SHARD_LZ4) != 0;
    if ((s->flags & ~TS_SHARD_LZ4) != 0 || s->reserved32 != 0 ||
        !is_zero(s->reserved, sizeof s->reserved))
        return "has unknown flags";
    if (s->nnz == 0 || s->n_blocks != (s->nnz - 1) / TS_BLOCK_NNZ + 1)
        return "has a number of blocks that does not fit its nonzeros";
    if (s->raw_bytes % 4 != 0 || s->raw_bytes > h->max_shard_bytes ||
        s->raw_bytes > ts_shard_bound(h->order, n_codes, s->nnz) ||
        s->raw_bytes / 4 < 2 * (uint64_t)s->n_blocks + 1)
        return "has a size that does not fit its nonzeros";
    if (packed ? s->stored_bytes == 0 || s->stored_bytes >= s->raw_bytes || s->raw_bytes > INT_MAX
               : s->stored_bytes != s->raw_bytes)
        return "has a stored size that does not fit its raw size";
    return NULL;
}

/* Checks the rows of a shard against the previous shard (NULL for the first shard). Returns NULL,
 * or a phrase that says what is wrong. */
static const char *shard_rows(const struct ts_disk_shard *s, const struct ts_disk_shard *before,
                              const struct ts_disk_mode *d, int is_last)
{
    const uint64_t row = before == NULL ? 0 : before->row_last;
    if (s->row_first != row && (before == NULL || s->row_first != row + 1))
        return "starts at a row that does not follow the shard before";
    if (s->row_last < s->row_first || s->row_last >= d->n_rows ||
        s->row_last - s->row_first >= s->nnz || (is_last && s->row_last != d->n_rows - 1))
        return "has an impossible last row";
    if (!is_last &&
        (s->nnz != (uint64_t)s->n_blocks * TS_BLOCK_NNZ || s->n_blocks % TS_PARTITION_BLOCKS != 0))
        return "is not the last and does not hold whole partitions";
    return NULL;
}

static int check_shards(const struct ts_tensor *t, uint32_t mode, const char *where,
                        struct ts_err *err)
{
    const struct ts_disk_mode *d = &t->mode[mode].disk;
    uint64_t at = 0, nnz = 0;
    for (uint64_t i = 0; i < d->n_shards; i++) {
        const struct ts_disk_shard *s = &t->mode[mode].shard[i];
        const char *why = shard_sizes(s, &t->header);
        if (why == NULL)
            why = shard_rows(s, i == 0 ? NULL : s - 1, d, i + 1 == d->n_shards);
        if (why == NULL && s->offset != at)
            why = "does not lie behind the shard before";
        if (why != NULL)
            return ts_fail(err, TS_EFORMAT, "%s: " TS_NTH_MODE ", shard %" PRIu64 " %s", where,
                           mode + 1, i, why);
        at += ((uint64_t)s->stored_bytes + TS_PAGE - 1) / TS_PAGE * TS_PAGE;
        nnz += s->nnz;
    }
    if (at != d->shards_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": its shards take %" PRIu64 " bytes, expected %" PRIu64,
                       where, mode + 1, at, d->shards_bytes);
    if (nnz != t->nnz)
        return ts_fail(err, TS_EFORMAT,
                       "%s: " TS_NTH_MODE ": its shards hold %" PRIu64
                       " nonzeros, expected %" PRIu64,
                       where, mode + 1, nnz, t->nnz);
    return 0;
}

/* Checks that header, modes, dictionary, shard tables and checksum fill the index. */
static int check_layout(const struct ts_tensor *t, size_t n_bytes, const char *where,
                        struct ts_err *err)
{
    uint64_t left = n_bytes - sizeof(struct ts_disk_header) -
                    t->order * sizeof(struct ts_disk_mode) - sizeof(uint64_t);
    int fits = t->header.n_dict <= left / sizeof(double);
    left -= fits ? t->header.n_dict * sizeof(double) : 0;
    for (uint32_t m = 0; fits && m < t->order; m++) {
        const uint64_t n = t->mode[m].disk.n_shards;
        fits = n >= 1 && n <= left / sizeof(struct ts_disk_shard);
        left -= fits ? n * sizeof(struct ts_disk_shard) : 0;
    }
    if (!fits || left != 0)
        return ts_fail(err, TS_EFORMAT, "%s: its tables do not fill its %zu bytes", where, n_bytes);
    return 0;
}

static int copy_tables(const uint8_t *at, struct ts_tensor *t, const char *where,
                       struct ts_err *err)
{
    const size_t dict_bytes = t->header.n_dict * sizeof *t->dict;
    t->dict = malloc(dict_bytes + 1);
    if (t->dict == NULL)
        return ts_no_memory(err, where);
    memcpy(t->dict, at, dict_bytes);
    at += dict_bytes;
    for (uint32_t m = 0; m < t->order; m++) {
        const size_t bytes = t->mode[m].disk.n_shards * sizeof *t->mode[m].shard;
        t->mode[m].shard = malloc(bytes);
        if (t->mode[m].shard == NULL)
            return ts_no_memory(err, where);
        memcpy(t->mode[m].shard, at, bytes);
        at += bytes;
    }
    for (uint32_t i = 0; i < t->header.n_dict; i++)
        if (!isfinite(t->dict[i]))
            return ts_fail(err, TS_EFORMAT, "%s: entry %" PRIu32 " of the dictionary is not finite",
                           where, i);
    return 0;
}

int ts_tensor_index_parse(const void *bytes, size_t n_bytes, const char *where, struct ts_tensor *t,
                          struct ts_err *err)
{
    const uint8_t *byte = bytes;
    const size_t least = sizeof t->header + TS_MIN_ORDER * sizeof t->mode[0].disk + 8;
    uint32_t largest = 0;
    int rc;
    if (n_bytes < least)
        return ts_fail(err, TS_EFORMAT, "%s: %zu bytes are too short for an index", where, n_bytes);
    rc = ts_tensor_index_header(bytes, n_bytes, where, err);
    if (rc == 0)
        rc = check_hash(byte, n_bytes, where, &t->hash, err);
    if (rc < 0)
        return rc;
    memcpy(&t->header, byte, sizeof t->header);
    rc = check_header(&t->header, where, err);
    if (rc < 0)
        return rc;
    byte += sizeof t->header;
    if (n_bytes < sizeof t->header + t->header.order * sizeof t->mode[0].disk + 8)
        return ts_fail(err, TS_EFORMAT, "%s: %zu bytes are too short for %" PRIu32 " modes", where,
                       n_bytes, t->header.order);
    t->order = t->header.order;
    t->nnz = t->header.nnz;
    for (uint32_t m = 0; m < t->order && rc == 0; m++, byte += sizeof t->mode[m].disk) {
        memcpy(&t->mode[m].disk, byte, sizeof t->mode[m].disk);
        rc = check_mode(&t->mode[m].disk, &t->header, m, where, err);
    }
    if (rc == 0)
        rc = check_layout(t, n_bytes, where, err);
    if (rc == 0)
        rc = copy_tables(byte, t, where, err);
    for (uint32_t m = 0; m < t->order && rc == 0; m++) {
        rc = check_shards(t, m, where, err);
        for (uint64_t i = 0; rc == 0 && i < t->mode[m].disk.n_shards; i++)
            largest =
                t->mode[m].shard[i].raw_bytes > largest ? t->mode[m].shard[i].raw_bytes : largest;
    }
    if (rc == 0 && largest != t->header.max_shard_bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the largest shard has %" PRIu32 " bytes, expected %" PRIu32, where,
                       largest, t->header.max_shard_bytes);
    return rc;
}

void ts_tensor_index_free(struct ts_tensor *t)
{
    free(t->dict);
    for (uint32_t m = 0; m < TS_MAX_ORDER; m++)
        free(t->mode[m].shard);
}
