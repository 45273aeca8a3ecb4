# SPDX-License-Identifier: BSD-3-Clause
"""owners.py DIR - no struct that owns something is copied by value: a second owner frees it again.

An owner is a struct that a function named ..._free, ..._close, ..._end or the like frees something of.
Types of values are found from the declarations in a function and the members of structs. What a local
variable hands on (*ret = made), or what is cleared in the lines behind, has one owner all the time.
Prints each copy, and ends with 1 if there is one.
"""
import glob
import re
import sys

# What may copy one, and why nothing is freed twice.
ALLOWED = {
    ("src/cpu/fmat.c", "ts_fmat_view"): "a view, which nobody frees",
    ("src/source/synth/synth_source.c", "ts_synth_source_new"): "a description that has no tables yet",
    ("tools/cp/tstream_sample.c", "sample_array"): "a view of the array, which the sample owns beside it",
    ("tools/cp/tstream_sample.c", "tstream_sample_new"): "a view of the tensor; only its own tables of shards are freed",
}


def sources(top):
    for pattern in ("src/**/*.[ch]", "src/**/*.cu", "tools/**/*.[ch]", "fuzz/*.[ch]"):
        for path in sorted(glob.glob(top + "/" + pattern, recursive=True)):
            with open(path) as f:
                text = f.read()
            blank = lambda m: re.sub(r"[^\n]", " ", m.group())
            yield path[len(top) + 1:], re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


FUNCTION = re.compile(r"^(?!(?:struct|enum|union) \w+ \{|typedef)\w[^;{}=#]*?\b(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.S | re.M)
DECLARED = re.compile(r"\b(?:struct )?(ts_\w+|(?<=struct )\w+) ((?:\*(?:const )?)*)(\w+(?:\[[^]]*\])*)(?=\s*[;,)=])")
COPY = re.compile(r"\n\s+(?:const )?(?P<new>struct \w+ )?(?P<to>[*\w\[\]>.-]+) = (?P<value>[*\w\[\]>.+ -]+);"
                  r"|[{,]\s*(?P<member>\.\w+) = (?P<given>[*\w\[\]>.-]+)(?=\s*[,}])")
MEMBERS = re.compile(r"\bstruct (\w+) \{\n(.*?)^\}", re.S | re.M)


def declared(text, path):
    """{name: (struct, pointers)}; an array counts as a pointer."""
    return {n.split("[")[0]: (tag(t, path), p.count("*") + n.count("[")) for t, p, n in DECLARED.findall(text)}


def tag(name, path):
    """Two .c files may have structs of one name."""
    return name if name.startswith("ts_") or path.endswith(".h") or (path, name) not in LOCAL else path + ":" + name


LOCAL = set()


def type_of(value, names, members):
    """(struct, pointers) of an expression like *p, a->b[i].c; None if it is not one."""
    stars = len(value) - len(value.lstrip("*"))
    value = value.lstrip("*")
    if not re.fullmatch(r"\w+(?:\[[^]]*\]|->\w+|\.\w+)*", value):
        return None
    first, *rest = re.findall(r"\w+|\[[^]]*\]|->\w+|\.\w+", re.sub(r"\[[^]]*\]", "[]", value))
    found = names.get(first)
    for step in rest:
        if found is None:
            return None
        if step == "[]":
            found = (found[0], found[1] - 1)
        else:
            found = members.get(found[0], {}).get(step.lstrip("->."))
    if found is None or first.isdigit():
        return None
    return found[0], found[1] - stars


def find_owners(files):
    owners, members = {}, {}
    for path, text in files.items():
        for name, body in MEMBERS.findall(text):
            members.setdefault(tag(name, path), {}).update(declared(body, path))
        for name, args, body in FUNCTION.findall(text):
            first = re.match(r"(?:struct )?(\w+) \*(\w+)", args)
            if first and re.search(r"free|close|end|drop|clear|remove", name) and \
                    re.search(r"(?:free|close|destroy|unmap)\w*\(\s*&?%s->" % first.group(2), body):
                owners[tag(first.group(1), path)] = path + ": " + name
    return owners, members


def find_copies(path, function, owners, members):
    """(place, what, value, struct) of each; what a local variable hands on, or what is cleared behind, has one owner."""
    args, body = function.group(2), "\n" + function.group(3)
    names = declared(args + ")" + body, path)
    own = {n for n, (t, p) in declared(body, path).items() if p == 0}
    for m in COPY.finditer(body):
        to, value = m.group("to") or m.group("member"), m.group("value") or m.group("given")
        found = type_of(value, names, members)
        if found is None or found[1] != 0 or found[0] not in owners:
            continue
        root = re.match(r"\w+|", value).group()
        handed_on = root in own and "->" not in value and not m.group("new")
        cleared = re.search(r"(?:^|\n)\s+%s = |memset\(&?%s," % (re.escape(value), re.escape(value.lstrip("*"))),
                            body[m.end():m.end() + 160])
        if not handed_on and not cleared:
            yield function.start(3) + m.start("to" if m.group("to") else "member") - 1, to, value, found[0]


def main(top):
    files = dict(sources(top))
    for path, text in files.items():
        LOCAL.update((path, name) for name, body in MEMBERS.findall(text) if path.endswith(".c"))
    owners, members = find_owners(files)
    unused, failed = dict(ALLOWED), 0
    for path, text in files.items():
        for m in FUNCTION.finditer(text):
            for at, to, value, struct in find_copies(path, m, owners, members):
                if (path, m.group(1)) in ALLOWED:
                    unused.pop((path, m.group(1)), None)
                    continue
                failed = 1
                print(f"{path}:{text.count(chr(10), 0, at) + 1}: {to} = {value} copies a struct {struct},"
                      f" which owns something ({owners[struct]})")
    for path, name in unused:
        failed = 1
        print(f"{path}: {name} copies nothing: take it out of tests/house/owners.py")
    if len(owners) < 80:
        failed = 1
        print("only", len(owners), "structs that own something are found:", *sorted(owners))
    return failed


sys.exit(main(sys.argv[1]))
