/* SPDX-License-Identifier: BSD-3-Clause */
/* version.h - of which commit this is: said by the programs and in the record of a run. */
#ifndef TS_API_VERSION_H
#define TS_API_VERSION_H

/* As git describes it, "-dirty" when the tree differed; "unknown". */
const char *ts_version_commit(void);

#endif
