/* tshard.h - the commands of tshard, one file each. */
#ifndef TS_TOOLS_TSHARD_H
#define TS_TOOLS_TSHARD_H

#include "base/opt.h"

extern const struct ts_cmd tshard_build_cmd;
extern const struct ts_cmd tshard_info_cmd;
extern const struct ts_cmd tshard_verify_cmd;
extern const struct ts_cmd tshard_export_cmd;
extern const struct ts_cmd tshard_gen_cmd;

#endif
