/* SPDX-License-Identifier: BSD-3-Clause */
/* Returns the commit from which the library was compiled. */
#include "api/version.h"

#include "api/version_commit.h" /* made by make: see Makefile.inc */

const char *ts_version_commit(void)
{
    return TS_COMMIT;
}
