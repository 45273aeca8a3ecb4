/* SPDX-License-Identifier: BSD-3-Clause */
/* hostbuf.h - the memory that shards live in and travel through: one area for those that stay, and
 * equal slots for the others.
 *
 * Both are mapped once, so host memory is the same for any tensor, and may be page-locked for a
 * device. They may be spread over the NUMA nodes of the machine: for cores or devices of several
 * sockets, which would otherwise all read from the node of the thread that touched the memory first.
 *
 *   owner    the object owns both areas; who uses which slot is the feed's business
 *   units    bytes; slots start at multiples of TS_PAGE, which O_DIRECT needs
 *   threads  new and free from one
 *   errors   0 or a negative ts_code, TS_ESTOP among them; on failure *ret is not touched
 */
#ifndef TS_STREAM_HOSTBUF_H
#define TS_STREAM_HOSTBUF_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_hostbuf_conf {
    uint64_t resident_bytes;
    size_t slot_bytes;
    uint32_t n_slots;
    int spread; /* over NUMA nodes, where there are several and the kernel allows it */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err); /* NULL: none */
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
    /* With pin: ends of the pieces that memory for those that stay is page-locked in, multiples of
     * TS_PAGE, the last one resident_bytes. A copy must not cross one. Read by new alone. */
    const uint64_t *cut;
    uint32_t n_cuts;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

struct ts_hostbuf {
    struct ts_hostbuf_conf conf;
    void *resident, *slots; /* NULL when empty */
    void **pinned;          /* where page-locked pieces begin */
    uint32_t n_pinned;
};

int ts_hostbuf_new(const struct ts_hostbuf_conf *conf, struct ts_hostbuf *ret, struct ts_err *err);
void ts_hostbuf_free(struct ts_hostbuf *h);

#endif
