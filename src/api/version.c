/* SPDX-License-Identifier: BSD-3-Clause */
/* Of which commit this is. */
#include "api/version.h"

#include "api/version_commit.h" /* made by make: see Makefile.inc */

const char *ts_version_commit(void)
{
    return TS_COMMIT;
}
