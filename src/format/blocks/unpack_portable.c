/* SPDX-License-Identifier: BSD-3-Clause */
/* The decoder for any machine. */
#include "format/blocks/unpack.h"
#include "format/blocks/unpack_scalar.h"

void ts_unpack_portable(const struct ts_unpack_conf *conf, const struct ts_block_at *at,
                        struct ts_unpacked *ret)
{
    unpack_scalar(conf, at, ret);
}
