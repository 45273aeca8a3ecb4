/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts the numbers of a binary file, one byte after another. */
#include "tests/source/binary_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct out {
    unsigned char *byte;
    size_t n, room;
    int big_endian;
};

static void put_byte(struct out *o, unsigned char byte)
{
    if (o->n == o->room) {
        o->room = 2 * o->room + 64;
        o->byte = realloc(o->byte, o->room);
        if (o->byte == NULL)
            abort();
    }
    o->byte[o->n++] = byte;
}

static void put(struct out *o, uint64_t x, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        put_byte(o, (unsigned char)(x >> 8 * (o->big_endian ? bytes - 1 - i : i)));
}

static void put_value(struct out *o, double value, uint32_t bytes)
{
    const float narrow = (float)value;
    uint32_t word;
    uint64_t pair;
    memcpy(&word, &narrow, 4);
    memcpy(&pair, &value, 8);
    put(o, bytes == 4 ? word : pair, bytes);
}

static void put_splatt(struct out *o, const struct binary_file *f)
{
    const uint32_t width = f->index_bytes[0];
    put(o, 0, 4);
    put(o, width, 8);
    put(o, f->value_bytes, 8);
    put(o, f->order, width);
    for (uint32_t m = 0; m < f->order; m++)
        put(o, f->dim[m], width);
    put(o, f->n, width);
    for (uint32_t m = 0; m < f->order; m++)
        for (uint64_t i = 0; i < f->n; i++)
            put(o, f->index[i * f->order + m] + f->base, width);
    for (uint64_t i = 0; i < f->n; i++)
        put_value(o, f->value[i], f->value_bytes);
}

static void put_genten(struct out *o, const struct binary_file *f)
{
    for (const char *letter = "sptn"; *letter != '\0'; letter++)
        put_byte(o, (unsigned char)*letter);
    put(o, f->order, 4);
    put(o, 8 * f->value_bytes, 4);
    for (uint32_t m = 0; m < f->order; m++)
        put(o, f->dim[m], 8);
    for (uint32_t m = 0; m < f->order; m++)
        put(o, 8 * f->index_bytes[m], 8);
    put(o, f->n, 8);
    for (uint64_t i = 0; i < f->n; i++) {
        for (uint32_t m = 0; m < f->order; m++)
            put(o, f->index[i * f->order + m] + f->base, f->index_bytes[m]);
        put_value(o, f->value[i], f->value_bytes);
    }
}

unsigned char *binary_file_put(const struct binary_file *f, size_t *bytes)
{
    struct out o = { .big_endian = f->big_endian };
    if (f->genten)
        put_genten(&o, f);
    else
        put_splatt(&o, f);
    *bytes = o.n;
    return o.byte;
}
