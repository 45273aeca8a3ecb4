/* SPDX-License-Identifier: BSD-3-Clause */
/* anywhere.h - TS_ANYWHERE marks functions in headers that host code and CUDA kernels call. */
#ifndef TS_BASE_ANYWHERE_H
#define TS_BASE_ANYWHERE_H

#ifdef __CUDACC__
#define TS_ANYWHERE __host__ __device__
#else
#define TS_ANYWHERE
#endif

#endif
