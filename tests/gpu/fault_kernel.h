/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_kernel.h - a GPU that fails: every later call on the device answers with an error.
 *
 *   errors   0 or a cudaError_t
 */
#ifndef TS_TESTS_FAULT_KERNEL_H
#define TS_TESTS_FAULT_KERNEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a kernel on the current device that writes where no memory is, and returns before it
 * has. */
int test_fault(void);

#ifdef __cplusplus
}
#endif

#endif
