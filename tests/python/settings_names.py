#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""settings_names.py TOP PAGE: the names of src/base/settings.def, which PAGE shows (tstream --help-options), against tstream.h and the package.

What sentences call a setting (src/base/setting.c) is what its row says.
Every keyword of tstream.cp and every field of ts_cp_conf and ts_session_conf is that of a setting, or is listed here as none; and the
other way round. Defaults agree. The functions of the package that have settings are what scripts/python_settings makes
of the table. The structs of ctypes have the fields of tstream.h in their order. The library
reads each field, and the package each keyword.
"""
import ast
import os
import re
import subprocess
import sys

top, page = sys.argv[1], sys.argv[2]
DEF, HEADER, MODEL, LIB = "src/base/settings.def", "include/tstream.h", "python/tstream/_settings.py", "python/tstream/_lib.py"

SETTING = "src/base/setting.c"

# marks whose option of tshard has the name of one of tstream cp
OF_BUILDS = {"TS_SET_SIZES", "TS_SET_FORMAT", "TS_SET_FORMAT_CSV", "TS_SET_FORMAT_SEMICOLON", "TS_SET_OUTPUT"}

# of a session: other functions have them as well, with the same defaults
OF_SESSION = {"threads", "host_memory", "cpu", "gpus", "gpu_memory"}

# of the caller, not of the run
NO_KEYWORDS = {"tensor", "on_sweep", "progress", "hold_out_from"}
# Of cp() alone: how a table becomes a tensor, as in from_frame().
OF_TABLES = {"modes", "value", "weights", "text", "bin", "time_unit", "missing"}
NO_FIELDS = {"ts_cp_conf": {"size", "sweep", "mode", "ctx"}, "ts_session_conf": {"size", "stop", "note", "work", "ctx"}}

failed = 0


def bad(text):
    global failed
    failed = 1
    print(text, file=sys.stderr)


def read(name):
    with open(f"{top}/{name}", encoding="utf-8") as f:
        return f.read()


def rows():
    """(option, keyword, its default or None, fields, default or None) of each setting."""
    with open(page, encoding="utf-8") as f:
        for line in f:
            if not re.match(r"\| `-", line):
                continue
            option, keyword, fields, default = [x.strip() for x in re.split(r"(?<!\\)\|", line)[1:5]]
            name = re.search(r"`--([a-z0-9-]+)", option)[1]
            own = re.match(r"`(\w+)`(?:, `(\w+)`)?(?: \((.*)\))?$", keyword)
            if own and own[2]:
                aliases[own[2]] = own[1]
            if own and own[1] != name.replace("-", "_") and (own[2] != name or f"`--{own[1]}`" not in option):
                bad(f"{DEF}: --{name} is {own[1]} in Python: one name is enough, or a SETTING_ALIAS")
            yield (name, own and own[1], own and own[3], re.findall(r"`([\w.]+)`", fields), default.strip("`") or None)


def number(text):
    """What a user types for a number or a time, in seconds; else the text."""
    time = re.fullmatch(r"(\d+)m", text)
    if time:
        return 60.0 * int(time[1])
    try:
        return float(text)
    except ValueError:
        return text


def same_default(python, typed):
    """Whether Python's default says what the option's does. None: the default of the option, as far as there is one."""
    if python is None:
        return True
    if typed is None:
        return python is False
    return str(python) == typed if isinstance(python, (bool, str)) else number(typed) == float(python)


aliases = {}
settings = list(rows())
if len(settings) < 40:
    bad(f"{page}: {len(settings)} settings")

# ---- keywords ----
# the definition behind the overloads
cp = [f for f in ast.parse(read(MODEL)).body if isinstance(f, ast.FunctionDef) and f.name == "cp"][-1]
signature = {a.arg: None for a in cp.args.args}
signature.update({a.arg: d for a, d in zip(cp.args.kwonlyargs, cp.args.kw_defaults)})
keywords = {}
for option, keyword, own, fields, default in settings:
    if keyword is None:
        continue
    keywords[keyword] = option
    if keyword not in signature:
        bad(f"{MODEL}: cp() has no keyword {keyword}, which {DEF} gives to --{option}")
    elif signature[keyword] is not None:
        now = ast.literal_eval(signature[keyword])
        if not (str(now) == own if own is not None else same_default(now, default)):
            bad(f"{MODEL}: cp() has {keyword}={now!r}, {DEF} says {own or default} of --{option}")
for alias, keyword in aliases.items():
    if alias not in signature:
        bad(f"{MODEL}: cp() has no keyword {alias}, which {DEF} makes a second name of {keyword}")
for keyword in signature:
    if keyword not in keywords and keyword not in aliases and keyword not in NO_KEYWORDS | OF_TABLES:
        bad(f"{DEF}: no setting has the keyword {keyword}, which cp() of {MODEL} has")
if read(MODEL) != subprocess.run([f"{top}/scripts/python_settings", top], stdout=subprocess.PIPE, check=True, text=True).stdout:
    bad(f"{MODEL} is not made of {DEF}: scripts/python_settings > {MODEL}")
shared = 0
for name in ("_build", "_model", "_collection", "_tensor"):
    for f in ast.walk(ast.parse(read(f"python/tstream/{name}.py"))):
        if not isinstance(f, ast.FunctionDef) or f.name.startswith("_"):
            continue
        for a, d in zip(f.args.kwonlyargs, f.args.kw_defaults):
            if a.arg in OF_SESSION:
                shared += 1
                if d is None or ast.dump(d) != ast.dump(signature[a.arg]):
                    bad(f"python/tstream/{name}.py: {f.name}() has another default of {a.arg} than cp()")
if shared < 8:
    bad(f"{shared} settings of sessions are found in the package; the search for them is broken")
told = ast.get_docstring(cp)
for keyword in signature:
    if not re.search(rf"^(\w+, )*{keyword}(, \w+)*( :|$)", told, re.M):
        bad(f"{MODEL}: the docstring of cp() does not explain {keyword}")

# ---- fields ----
header, lib = re.sub(r"/\*.*?\*/", "", read(HEADER), flags=re.S), read(LIB)


def fields_of(struct):
    body = re.search(r"typedef struct \{([^}]*)\} " + struct + ";", header)[1]
    found = []
    for line in body.split(";"):
        function = re.search(r"\(\*(\w+)\)", line)
        if function:
            found.append(function[1])
        elif line.strip():
            found += [re.search(r"(\w+)\s*$", word)[1] for word in line.split(",")]
    return found


for struct, others in NO_FIELDS.items():
    own = fields_of(struct)
    named = {f.split(".")[1] for row in settings for f in row[3] if f.startswith(struct + ".")}
    for field in own:
        if field not in named and field not in others:
            bad(f"{DEF}: no setting names {struct}.{field} of {HEADER}")
    for field in named - set(own):
        bad(f"{HEADER}: {struct} has no field {field}, which {DEF} names")
    body = re.search(rf"class {struct}\(.*?\n\n\n", lib, re.S)[0]
    held = re.findall(r'\("(\w+)", ', body)
    if held != own:
        bad(f"{LIB}: the fields of {struct} are not those of {HEADER}: {sorted(set(held) ^ set(own)) or 'another order'}")
for option, keyword, own, fields, default in settings:
    for field in fields:
        struct, member = field.split(".")
        if struct not in NO_FIELDS and member not in fields_of(struct):
            bad(f"{HEADER}: {struct} has no field {member}, which {DEF} gives to --{option}")

# ---- readers ----
# A field that nobody reads, and a keyword that nobody passes on, would be taken and ignored.
API, PACKAGE = "src/api", "python/tstream"


def folder(name, ending):
    files = sorted(os.listdir(f"{top}/{name}"))
    return "".join(read(f"{name}/{f}") for f in files if f.endswith(ending))


library, package, run = folder(API, (".c", ".h")), folder(PACKAGE, ".py"), read(f"{PACKAGE}/_run.py")
for struct in NO_FIELDS:
    for field in fields_of(struct):
        if field not in NO_FIELDS[struct] and not re.search(rf"(->|\.){field}\b(?! = )", library):
            bad(f"{API}: nothing reads {struct}.{field} of {HEADER}")
        if field not in NO_FIELDS[struct] and not re.search(rf"\b{field}=", run):
            bad(f"{PACKAGE}/_run.py: {struct}.{field} of {HEADER} is never set")
for keyword in signature:
    if keyword in OF_TABLES or keyword in aliases:
        continue
    if not re.search(rf'\b(o|settings)\.{keyword}\b|\["{keyword}"\]', package):
        bad(f"{PACKAGE}: nothing reads the keyword {keyword} of cp()")

# ---- names in sentences ----
marks = re.findall(r'\{ (TS_SET_\w+),\s*\{\s*"([^"]*)",\s*"([^"]*)",\s*"--([a-z0-9-]+)[^"]*"\s*\} \}', read(SETTING))
own_of = {row[0]: row for row in settings}
compared = 0
for mark, field, keyword, option in marks:
    if mark in OF_BUILDS or option not in own_of:
        continue
    compared += 1
    _, own, _, fields, _ = own_of[option]
    if re.match(r"\w+", keyword)[0] != own:
        bad(f"{SETTING}: {mark} is {keyword} in Python, {DEF} says {own} of --{option}")
    if re.match(r"\w+", field)[0] not in [f.split(".")[1] for f in fields]:
        bad(f"{SETTING}: {mark} is the field {field}, {DEF} says {' '.join(fields)} of --{option}")
if compared < 12:
    bad(f"{SETTING}: {compared} names of settings of a run are found; the search for them is broken")

sys.exit(failed)
