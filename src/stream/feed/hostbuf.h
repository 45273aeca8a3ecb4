/* SPDX-License-Identifier: BSD-3-Clause */
/* hostbuf.h - the host memory of shards: one area for the shards that stay, and slots of equal size
 * for the shards that are read in every pass.
 *
 * The area and the slots are mapped once, so memory does not grow during a run. They may be
 * page-locked for a device. For cores or devices of several sockets, they may be spread over the
 * NUMA nodes. Otherwise all sockets would read from the node of the thread that touched the memory
 * first.
 *
 *   owner    the object owns both areas; the feed decides the use of each slot
 *   units    bytes; slots start at multiples of TS_PAGE, which O_DIRECT needs
 *   threads  new and free from one thread
 *   errors   0 or a negative ts_code, TS_ESTOP among them; on failure *ret is not touched
 */
#ifndef TS_STREAM_HOSTBUF_H
#define TS_STREAM_HOSTBUF_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ts_hostbuf_conf {
    const char *name; /* the use of the memory, for messages; NULL: shards */
    uint64_t resident_bytes;
    size_t slot_bytes;
    uint32_t n_slots;
    int spread; /* 1: spread over NUMA nodes, where there are several and the kernel allows it */
    int (*pin)(void *ctx, void *addr, size_t bytes, struct ts_err *err); /* NULL: no page-locking */
    void (*unpin)(void *ctx, void *addr);
    void *pin_ctx;
    /* With pin: the ends of the pieces in which the memory of shards that stay is page-locked,
     * multiples of TS_PAGE, the last one resident_bytes. A copy to a device must not cross such an
     * end. Only new reads the array. */
    const uint64_t *cut;
    uint32_t n_cuts;
    const volatile sig_atomic_t *stop; /* NULL, or not 0 when the user wants to stop */
};

struct ts_hostbuf {
    struct ts_hostbuf_conf conf;
    /* memory of shards that stay, and of slots; each is NULL if it has no bytes */
    void *resident, *slots;
    void **pinned; /* addresses of the page-locked pieces */
    uint32_t n_pinned;
};

int ts_hostbuf_new(const struct ts_hostbuf_conf *conf, struct ts_hostbuf *ret, struct ts_err *err);
void ts_hostbuf_free(struct ts_hostbuf *h);

#endif
