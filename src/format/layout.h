/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.h - the bytes on disk: constants and structures of a .tsh directory.
 *
 * The specification is docs/format.md; a byte here changes only together with it, with the golden
 * files in tests/ and with TS_FORMAT_VERSION. All numbers are little-endian and naturally aligned.
 *
 *   NAME.tsh/index        header, modes, dictionary of values, and tables of shards
 *   NAME.tsh/modeK.shards the nonzeros sorted for mode K (from 1), one shard after another
 *   NAME.tsh/modeK.rows   the used indices of mode K, when it has empty slices
 *   NAME.tsh/modeK.labels names of the indices of mode K, when they were given
 *   NAME.tsh/sums         checksums of the nonzeros read and of the cells, to compare the mode
 *                         copies with
 *   NAME.tsh/options      options of the build that decide to which cell and value a line of input
 *                         leads
 *   NAME.tsh/modes        names of the modes, and the first index (0 or 1); may be missing
 *   NAME.tsh/segmentN/    a tensor that was appended, of a tensor of several segments, whose index
 *                         lists them (struct ts_disk_segments)
 *   NAME.tsh/merged/      the tensor of all these segments, once something has read it
 *
 * Hierarchy: tensor -> mode copy -> shard (unit of reading, whole partitions, at most shard_bytes)
 * -> partition (TS_PARTITION_BLOCKS blocks, what one thread or thread block takes) -> block
 * (TS_BLOCK_NNZ nonzeros, unit of packing). Only the last block of a mode copy may have fewer
 * nonzeros.
 *
 * Everywhere but in modeK.rows, an index of a mode is its compact row: the number of used (not
 * empty) slices before it. So a mode with 2^40 indices of which 10^6 are used has 10^6 rows, every
 * row of a mode copy has a nonzero, and the next row is always this row + 1.
 */
#ifndef TS_FORMAT_LAYOUT_H
#define TS_FORMAT_LAYOUT_H

#include <stdint.h>

#define TS_INDEX_NAME    "index"
#define TS_MODES_NAME    "modes"
#define TS_SUMS_NAME     "sums"
#define TS_KEPT_NAME     "options"
#define TS_SEGMENT_NAME  "segment%u" /* from 1 */
#define TS_FIRST_SEGMENT "segment1"
#define TS_MERGED_NAME   "merged"
/* The suffix of a tensor that is being built; it is renamed when it is complete. */
#define TS_BUILDING_SUFFIX ".building"

#define TS_FORMAT_VERSION 1u
/* version of the file `index` with the flag TS_TENSOR_ZEROS; otherwise as version 1 */
#define TS_FORMAT_ZEROS    2u
#define TS_FORMAT_WEIGHTS  3u         /* version of an index with TS_TENSOR_WEIGHTS */
#define TS_FORMAT_SEGMENTS 4u         /* version of an index that lists segments */
#define TS_INDEX_MAGIC     "TSHINDEX" /* 8 bytes without a NUL at the end */
#define TS_ROWS_MAGIC      "TSHROWS1"
#define TS_LABELS_MAGIC    "TSHLABEL"
#define TS_MODES_MAGIC     "TSHMODES"
#define TS_SUMS_MAGIC      "TSHSUMS1"
#define TS_KEPT_MAGIC      "TSHOPTNS"

#define TS_MIN_ORDER        2u
#define TS_MAX_ORDER        16u
#define TS_MAX_DIM          (UINT64_C(1) << 40) /* largest index + 1 */
#define TS_MAX_NNZ          (UINT64_C(1) << 40)
#define TS_BLOCK_NNZ        256u
#define TS_PARTITION_BLOCKS 64u
#define TS_PARTITION_NNZ    (TS_BLOCK_NNZ * TS_PARTITION_BLOCKS)
#define TS_PAGE             4096u /* shards start at multiples of it, for reading with O_DIRECT */

/* How the 32-bit codes of a block become values. */
enum ts_value_kind {
    TS_VALUE_CONST = 0, /* every value is value_base; blocks hold no codes */
    TS_VALUE_INT = 1,   /* value = value_base + code, value_base an integer */
    TS_VALUE_DICT = 2,  /* value = dictionary[code] */
    TS_VALUE_F32 = 3,   /* the code is the bit pattern of a float32 */
    TS_VALUE_F64 = 4,   /* two codes: high and low 32 bits of a float64 */
};

/* The start of NAME.tsh/index. 256 bytes, followed by
 *   struct ts_disk_mode[order]
 *   double dictionary[n_dict]
 *   for each mode: struct ts_disk_shard[n_shards]
 *   uint64_t  XXH3-64 (seed 0) of every byte before it; with it the file ends */
struct ts_disk_header {
    char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t index_bytes; /* size of this file, the final checksum included */
    uint64_t nnz;
    double norm;       /* sqrt of the sum of squares of the values, float64 */
    double value_base; /* added to the codes of TS_VALUE_INT; the value of TS_VALUE_CONST */
    double value_bits; /* order-0 entropy of the values, bits per nonzero */
    double value_min, value_max;
    uint32_t value_kind;
    uint32_t value_bytes;      /* 4 or 8: the type requested at build */
    uint32_t n_dict;           /* entries of the dictionary; 0 unless value_kind is DICT */
    uint32_t block_nnz;        /* nonzeros of a full block: TS_BLOCK_NNZ */
    uint32_t partition_blocks; /* blocks of a full partition: TS_PARTITION_BLOCKS */
    uint32_t max_shard_bytes;  /* largest raw_bytes of any shard of any mode */
    uint64_t input_nnz;        /* nonzeros read, duplicates and zeros included */
    uint64_t n_duplicates;     /* nonzeros that were merged into another one of the same cell */
    uint64_t n_zeros;          /* zeros that were dropped: read as zeros, or sums of duplicates */
    uint32_t flags;            /* sum of TS_TENSOR_* (below) */
    uint32_t reserved32;
    uint8_t reserved[128]; /* zero */
};
#define TS_TENSOR_DUPLICATES           1u /* several nonzeros of some cell were kept */
#define TS_TENSOR_VALUE_BITS_ESTIMATED 2u /* value_bits is an estimate from a sample */
/* cells of value zero were kept; the index then has version 2, or 3 with weights */
#define TS_TENSOR_ZEROS   4u
#define TS_TENSOR_WEIGHTS 8u /* cells have weights; the index then has version 3 */

/* Returns the number of 32-bit codes of a nonzero. With weights there are two: the code of the
 * value (0 if the values need no code), and the bits of the weight as a float32. */
static inline uint32_t ts_header_codes(const struct ts_disk_header *h)
{
    return (h->flags & TS_TENSOR_WEIGHTS) != 0 || h->value_kind == TS_VALUE_F64 ? 2
           : h->value_kind == TS_VALUE_CONST                                    ? 0
                                                                                : 1;
}

/* A mode, and the copy of the nonzeros that is sorted for it. 128 bytes. */
struct ts_disk_mode {
    uint64_t dim;    /* size of the mode, as in the input */
    uint64_t n_rows; /* used slices, < 2^32; n_rows == dim: no rows file */
    uint64_t n_shards;
    uint64_t shards_bytes;  /* size of modeK.shards */
    uint64_t rows_bytes;    /* size of modeK.rows, 0 if the file does not exist */
    uint64_t rows_hash;     /* XXH3-64 of modeK.rows */
    uint64_t labels_bytes;  /* size of modeK.labels, 0 if the file does not exist */
    uint64_t labels_hash;   /* XXH3-64 of modeK.labels */
    uint64_t largest_slice; /* number of nonzeros of the slice with most of them */
    uint64_t n_labels;      /* lines of modeK.labels */
    uint8_t level[16]; /* level[0] = this mode; level[l] = the mode sorted at level l; rest 0 */
    uint8_t reserved[32];
};

/* One shard, that is a range of rows of a mode copy. 64 bytes. */
struct ts_disk_shard {
    uint64_t offset;       /* position in modeK.shards, a multiple of TS_PAGE */
    uint64_t hash;         /* XXH3-64 of the stored bytes, zero padding to TS_PAGE included */
    uint32_t stored_bytes; /* bytes on disk, before the padding */
    uint32_t raw_bytes;    /* bytes after LZ4 decompression; stored_bytes without LZ4 */
    uint32_t nnz;
    uint32_t n_blocks;  /* number of blocks; all but the last of a mode copy are full */
    uint32_t row_first; /* compact row of its first nonzero */
    uint32_t row_last;  /* compact row of its last nonzero */
    uint32_t flags;     /* sum of TS_SHARD_* */
    uint32_t reserved32;
    uint8_t reserved[16];
};
#define TS_SHARD_LZ4 1u

/* The raw bytes of a shard, in 32-bit words:
 *   uint32_t block_word[n_blocks + 1]  start of block b, in words from the start of the shard; the
 *                                      last entry is raw_bytes / 4
 *   uint32_t block_row[n_blocks]       compact row of the block's first nonzero - row_first
 *   the blocks, one after another (block_codec.h)
 */

/* The start of modeK.rows. 32 bytes, followed by chunks of TS_ROWS_CHUNK ascending indices (the
 * last may be short), each: uint64_t first; uint64_t width; then the gaps (next - this - 1) of the
 * others, `width` (0..40) bits each, lowest bit first, padded with zero bits to a multiple of 8
 * bytes. */
struct ts_disk_rows {
    char magic[8];
    uint32_t version;
    uint32_t mode; /* number of the mode, from 0 */
    uint64_t n_rows;
    uint64_t dim;
};
#define TS_ROWS_CHUNK 256u

/* The start of modeK.labels. 32 bytes, followed by n_labels lines of text, each ended by '\n'; line
 * i (from 0) names index i of the mode. */
struct ts_disk_labels {
    char magic[8];
    uint32_t version;
    uint32_t mode;
    uint64_t n_labels;
    uint64_t text_bytes;
};

/* The start of the file `modes`. 40 bytes, followed by order + 1 lines of text, each ended by '\n':
 * the name of each mode, empty when it has none, and the name of the values; then uint64_t XXH3-64
 * of every byte before it. */
struct ts_disk_modes {
    char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t index_hash; /* the checksum at the end of the index that this file belongs to */
    uint32_t base;       /* 0 or 1: the first index, as the input counts */
    uint32_t reserved32;
    uint64_t text_bytes;
};

/* NAME.tsh/sums: checksums of cells (cell_sum.h). */
struct ts_disk_sums {
    char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t index_hash; /* the checksum at the end of the index that this file belongs to */
    uint64_t n_records, record[2]; /* checksum of the nonzeros read, without dropped zeros */
    uint64_t n_cells, cell[2];     /* checksum of the cells of each mode copy */
    uint64_t hash;                 /* XXH3-64 of the bytes before it */
};

/* The start of NAME.tsh/options. Lines follow, `key=value` or `key.K=value` of mode K from 1, each
 * ended by '\n'; then the XXH3-64 of every byte before it. */
struct ts_disk_kept {
    char magic[8];
    uint32_t version;
    uint32_t order;
    uint64_t index_hash; /* the checksum at the end of the index that this file belongs to */
    uint64_t text_bytes;
};

_Static_assert(sizeof(struct ts_disk_kept) == 32, "on-disk size");
/* The start of NAME.tsh/index of a tensor of several segments. 128 bytes, followed by
 *   struct ts_disk_segment[n_segments]
 *   uint64_t  XXH3-64 (seed 0) of every byte before it; with it the file ends */
struct ts_disk_segments {
    char magic[8]; /* TS_INDEX_MAGIC */
    uint32_t version;
    uint32_t order;
    uint64_t index_bytes; /* size of this file, the final checksum included */
    uint32_t features;    /* TS_FEATURE_*: features of the format that a reader must support */
    uint32_t n_segments;
    uint64_t merged_hash; /* with TS_FEATURE_MERGED: checksum of the index in NAME.tsh/merged */
    uint8_t reserved[88]; /* zero */
};
#define TS_FEATURE_SEGMENTS 1u
#define TS_FEATURE_MERGED   2u /* the directory NAME.tsh/merged exists */
#define TS_MAX_SEGMENTS     4096u

/* A segment (the nonzeros of one append), in the directory NAME.tsh/segmentN, N from 1. 128
 * bytes. */
struct ts_disk_segment {
    uint64_t index_hash; /* the checksum at the end of the segment's index */
    uint64_t bytes;      /* total size of the files of the segment */
    uint64_t nnz;
    uint64_t time;                 /* seconds since 1970, when it was appended; 0: not known */
    uint64_t n_records, record[2]; /* checksum of the nonzeros read; all 0: not known */
    uint64_t cell[2];
    uint32_t copies; /* bit m: the segment has the copy of mode m */
    uint32_t sort;   /* how nonzeros are sorted in a copy: TS_SORT_LEVELS */
    /* what becomes of a cell that an earlier segment has as well: TS_REPEATED_* */
    uint32_t duplicates;
    uint32_t reserved32;
    uint8_t reserved[40]; /* zero */
};
#define TS_SORT_LEVELS    0u /* by the rows of level 0, then level 1, and so on */
#define TS_REPEATED_SUM   0u /* the values are added */
#define TS_REPEATED_ERROR 1u /* an error: no earlier segment may have a cell of this segment */

_Static_assert(sizeof(struct ts_disk_segments) == 128, "on-disk size");
_Static_assert(sizeof(struct ts_disk_segment) == 128, "on-disk size");
_Static_assert(sizeof(struct ts_disk_sums) == 80, "on-disk size");
_Static_assert(sizeof(struct ts_disk_header) == 256, "on-disk size");
_Static_assert(sizeof(struct ts_disk_mode) == 128, "on-disk size");
_Static_assert(sizeof(struct ts_disk_shard) == 64, "on-disk size");
_Static_assert(sizeof(struct ts_disk_rows) == 32, "on-disk size");
_Static_assert(sizeof(struct ts_disk_labels) == 32, "on-disk size");
_Static_assert(sizeof(struct ts_disk_modes) == 40, "on-disk size");

#endif
