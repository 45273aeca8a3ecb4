#include "cpu/unpack.h"

#include <string.h>

/* Codes to numbers. A float32 is the nearest to the value's float64, whatever its kind. */
static void values(const struct ts_unpack_conf *conf, struct ts_unpacked *ret)
{
    for (uint32_t p = 0; p < ret->n; p++) {
        double v = conf->value_base;
        uint64_t bits;
        float f;
        switch (conf->value_kind) {
        case TS_VALUE_INT:
            v += ret->code[0][p];
            break;
        case TS_VALUE_DICT:
            v = conf->dict[ret->code[0][p]];
            break;
        case TS_VALUE_F32:
            memcpy(&f, &ret->code[0][p], sizeof f);
            v = f;
            break;
        case TS_VALUE_F64:
            bits = (uint64_t)ret->code[0][p] << 32 | ret->code[1][p];
            memcpy(&v, &bits, sizeof v);
            break;
        }
        if (conf->as_double)
            ret->value.d[p] = v;
        else
            ret->value.f[p] = (float)v;
    }
}

void ts_unpack_block(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                     struct ts_unpacked *ret)
{
    struct ts_block_parts parts;
    struct ts_block block;
    if (ts_block_parse(at->word, at->n_words, conf->order, at->nnz, conf->n_codes, &parts, NULL) < 0)
        __builtin_unreachable(); /* ts_shard_check parsed it */
    ts_block_decode(&parts, at->row, &block);
    ret->n = block.n;
    ret->row = at->row;
    ret->n_starts = 0;
    for (uint32_t p = 1; p < block.n; p++)
        if (block.level[0][p] != block.level[0][p - 1])
            ret->start[ret->n_starts++] = (uint16_t)p;
    for (uint32_t l = 1; l < conf->order; l++)
        memcpy(ret->idx[l], block.level[l], block.n * sizeof(uint32_t));
    for (uint32_t c = 0; c < conf->n_codes; c++)
        memcpy(ret->code[c], block.code[c], block.n * sizeof(uint32_t));
    values(conf, ret);
}
