/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.h - for how long the machine at the other end of a TCP connection has not answered.
 *
 * The kernel is asked instead of MPI, because in MPI a thread that waits for a message may block
 * all other threads. The kernel of a machine acknowledges what arrives even if the process there is
 * stopped.
 */
#ifndef TS_MPI_WIRE_H
#define TS_MPI_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Checks all TCP connections of this process, and turns on the kernel's keepalive probes after a
 * second without traffic. If some end has been probed or sent data and has acknowledged nothing for
 * ms milliseconds, returns its silence in milliseconds and writes its address to peer, cut off at
 * `bytes` bytes. Otherwise, or without /proc, returns 0. */
uint32_t ts_wire_silent_ms(uint32_t ms, char *peer, size_t bytes);

#endif
