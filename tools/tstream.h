/* SPDX-License-Identifier: BSD-3-Clause */
/* tstream.h - the commands of tstream. */
#ifndef TS_TOOLS_TSTREAM_H
#define TS_TOOLS_TSTREAM_H

#include "api/tools.h"

extern const struct ts_cmd tstream_cp, tstream_plan, tstream_status, tstream_fit, tstream_info,
    tstream_top, tstream_compare, tstream_report, tstream_export, tstream_predict, tstream_score,
    tstream_mttkrp, tstream_devices, tstream_bench;

/* ---- functions that main calls ---- */
/* Sets environment variables that libraries read. To be called before there are threads. */
void tstream_environment(void);
int tstream_run(int argc, char **argv);

#endif
