/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.h - for how long the machine at the other end of a TCP connection has not answered.
 *
 * It asks the kernel, not MPI: a thread of MPI that waits for a message may keep all others out.
 * The kernel of a machine acknowledges what arrives even if the process there is stopped.
 */
#ifndef TS_MPI_WIRE_H
#define TS_MPI_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Looks at all TCP connections of this process, and lets the kernel ask at the other end where
 * nothing is sent for a second. Where one end has been asked, and has acknowledged nothing for ms
 * milliseconds, it returns how many they are, at least 1: peer gets its address, cut off at that
 * many bytes. Otherwise 0; also where there is no /proc. */
uint32_t ts_wire_silent_ms(uint32_t ms, char *peer, size_t bytes);

#endif
