/* SPDX-License-Identifier: BSD-3-Clause */
/* version.h - the commit that was compiled. Programs print it, and records of runs contain it. */
#ifndef TS_API_VERSION_H
#define TS_API_VERSION_H

/* Returns the commit as `git describe` names it. It ends with "-dirty" if files had changed, and is
 * "unknown" outside of git. */
const char *ts_version_commit(void);

#endif
