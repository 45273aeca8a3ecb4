/* SPDX-License-Identifier: BSD-3-Clause */
/* cell_type.c - names, codes and sizes of the cell types of dense arrays (dense.h). */
#include <string.h>

#include "format/arrays/dense.h"

static const struct {
    const char *name, *code;
    uint32_t bytes;
    int narrow;
} kinds[TS_N_CELLS] = {
    [TS_CELL_F32] = { "float32", "f4", 4, 1 }, [TS_CELL_F64] = { "float64", "f8", 8, 0 },
    [TS_CELL_I8] = { "int8", "i1", 1, 1 },     [TS_CELL_U8] = { "uint8", "u1", 1, 1 },
    [TS_CELL_I16] = { "int16", "i2", 2, 1 },   [TS_CELL_U16] = { "uint16", "u2", 2, 1 },
    [TS_CELL_I32] = { "int32", "i4", 4, 0 },   [TS_CELL_U32] = { "uint32", "u4", 4, 0 },
    [TS_CELL_I64] = { "int64", "i8", 8, 0 },   [TS_CELL_U64] = { "uint64", "u8", 8, 0 },
};

uint32_t ts_cell_bytes(enum ts_cell_type type)
{
    return kinds[type].bytes;
}

const char *ts_cell_name(enum ts_cell_type type)
{
    return kinds[type].name;
}

int ts_cell_named(const char *name, enum ts_cell_type *ret)
{
    for (int i = 0; i < TS_N_CELLS; i++)
        if (strcmp(kinds[i].name, name) == 0) {
            *ret = (enum ts_cell_type)i;
            return 1;
        }
    return 0;
}

int ts_cell_coded(const char *code, enum ts_cell_type *ret)
{
    for (int i = 0; i < TS_N_CELLS; i++)
        if (strcmp(kinds[i].code, code) == 0) {
            *ret = (enum ts_cell_type)i;
            return 1;
        }
    return 0;
}

int ts_cell_is_narrow(enum ts_cell_type type)
{
    return kinds[type].narrow;
}
