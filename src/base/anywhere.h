/* SPDX-License-Identifier: BSD-3-Clause */
/* anywhere.h - marks functions of headers that kernels call, too. */
#ifndef TS_BASE_ANYWHERE_H
#define TS_BASE_ANYWHERE_H

#ifdef __CUDACC__
#define TS_ANYWHERE __host__ __device__
#else
#define TS_ANYWHERE
#endif

#endif
