#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pages.py TOP BUILD OUT - puts the pages of the documentation together in OUT, for Sphinx.

The pages of TOP are copied. The reference is made: commands from what the programs of BUILD print for --help, the
C library from include/tstream.h. Sphinx itself makes that of Python, from docstrings.
"""
import ast
import base64
import json
import os
import re
import shutil
import subprocess
import sys

NOTEBOOKS = ("fluorescence", "communication", "counts", "ratings")
SECTIONS = (
    ("Start", ["docs/install", "docs/tutorial"]),
    ("Guides", ["docs/input", "docs/missing", "docs/counts", "docs/constraints", "docs/ranks", "docs/spectra",
                "docs/large", "docs/gpus", "docs/clusters", "docs/checkpoint"]),
    ("Analyses", ["analyses/" + name for name in NOTEBOOKS]),
    ("Reference", ["reference/tstream", "reference/tshard", "docs/options", "docs/python", "reference/python", "docs/api",
                   "reference/c", "docs/outputs", "docs/format"]),
    ("Performance", ["docs/performance", "bench/notebook/README"]),
    ("House", ["docs/contributing", "docs/house", "docs/architecture", "SECURITY", "NEWS"]))


def plain(text):
    """Text in which Markdown sees no markup."""
    return re.sub(r"([\\`*_<>|\[\]#$~{}])", r"\\\1", text)


def toctree(entries, caption=None):
    head = "```{toctree}\n:hidden:\n:maxdepth: 2\n" + (":caption: %s\n" % caption if caption else "")
    return head + "\n" + "\n".join(entries) + "\n```\n"


def picture(match):
    """A picture for the light and one for the dark, as the theme chooses between them."""
    dark, light, alt = (" ".join(re.search(p, match[0])[1].split()) for p in (r'srcset="([^"]*)"', r'src="([^"]*)"', r'alt="([^"]*)"'))
    return "".join(":::{image} /%s\n:alt: %s\n:class: only-%s\n:::\n\n" % (p, alt, c) for p, c in ((light, "light"), (dark, "dark")))


def folder_link(folder, link):
    """A link; that to a folder, which a site does not list, is its text alone."""
    return link[1] if os.path.isdir(os.path.join(folder, link[2])) else link[0]


def page(text):
    """A page of the tree, for the site."""
    text = re.sub(r"<picture>.*?</picture>", picture, text, flags=re.S)
    pair = re.compile(r"^(```console\n(?:(?!```).*\n)*```\n)\n(```python(?: session)?\n(?:(?!```).*\n)*```\n)", re.M)
    return pair.sub(r":::::{container} pair\n\1\n\2:::::\n", text)


def help_page(program, command, text):
    """What COMMAND --help prints, as a page."""
    usage, rest = text.split("\n", 1)
    out = ["## %s %s\n" % (program, command), "```text\n%s\n```\n" % usage.replace("Usage: ", "")]
    para, names, about, examples = [], None, [], False

    def flush():
        nonlocal names, about, para
        if para:
            out.append(plain(" ".join(para)) + "\n")
        if names is not None:
            out.append("%s\n: %s\n" % (", ".join("`%s`" % n for n in names.split(", ")), plain(" ".join(about) or "see above")))
        para, names, about = [], None, []

    for line in rest.splitlines():
        option = re.match(r" {2,6}(-\S.*?)(?: {2,}(\S.*))?$", line)
        if re.match(r"\S.*:$", line) and not para:
            flush()
            examples = line == "Examples:"
            out.append("**%s**\n" % plain(line[:-1]))
        elif examples and re.match(r"  \S", line):
            flush()
            out.append("```sh\n%s\n```\n" % line.strip())
        elif option and not examples:
            flush()
            names, about = option[1], [option[2]] if option[2] else []
        elif names is not None and re.match(r" {10,}\S", line):
            about.append(line.strip())
        elif not line.strip():
            flush()
        else:
            if names is not None:
                flush()
            para.append(line.strip())
    flush()
    return "\n".join(out)


def commands(build, program):
    """The page of a program: each command, and its options."""
    def said(*args):
        return subprocess.run([os.path.join(build, "tools", program), *args], env={**os.environ, "COLUMNS": "100"},
                              check=True, capture_output=True, text=True).stdout
    names = re.findall(r"^  ([a-z]+) +(\S.*)$", said("--help").split("Commands:\n")[1].split("\n\n")[0], re.M)
    out = ["# Commands of %s\n" % program, "This page is what `%s COMMAND --help` prints.\n" % program,
           "| command | task |\n|---|---|\n" + "".join("| [%s](#%s-%s) | %s |\n" % (n, program, n, plain(w)) for n, w in names)]
    return "\n".join(out + [help_page(program, name, said(name, "--help")) for name, _ in names])


def entry(comment, decl):
    """One thing that the header says, with its declarations."""
    names = re.findall(r"\b(ts_\w+)\(", "\n".join(d for d in decl if d.startswith("TS_API")))
    if not names:
        last = re.search(r"(\w+);?\s*$", re.sub(r"/\*.*?\*/", "", decl[-1])) or re.search(r"(TS_\w+)", "\n".join(decl))
        first = re.search(r"^#define (\w+)|^typedef .*\b(ts_\w+)\(", decl[0])
        names = [next(n for n in (first.groups() if first else (last[1],)) if n)]
    out = ["### %s\n" % ", ".join("`%s`" % n for n in dict.fromkeys(names)), "```c\n%s\n```\n" % "\n".join(decl)]
    para, tag = [], None

    def flush():
        nonlocal para, tag
        if para:
            text = plain(" ".join(para))
            out.append("%s\n: %s\n" % (tag, text) if tag else text + "\n")
        para, tag = [], None

    for line in comment:
        told = re.match(r"  ([a-z]+) {2,}(\S.*)", line)
        if told or not line.strip():
            flush()
        if told:
            tag, para = told[1], [told[2]]
        elif line.strip():
            para.append(line.strip())
    flush()
    return "\n".join(out)


def header(path):
    """The page of the C library."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    out = ["# The C library, function by function\n", "This page is what `tstream.h` says. [The overview](../docs/api.md) "
           "describes the parts of the library together.\n"]
    comment, decl, inside, begun = [], [], False, False

    def flush():
        nonlocal comment, decl
        if decl and begun and re.match(r"TS_API|typedef|enum|#define TS_|struct", decl[0]):
            out.append(entry(comment, decl))
        if decl:
            comment = []
        decl = []

    for line in lines:
        part = re.match(r"/\* ---- (.*) ---- \*/$", line)
        if part:
            flush()
            begun = True
            out.append("## %s\n" % part[1].capitalize())
        elif inside or (not decl and line.startswith("/*")):
            if not inside:
                flush()
                comment = []
            inside = "*/" not in line
            comment.append(re.sub(r"^/\* ?|^ \*/$|^ \* ?|\s*\*/$", "", line))
        elif not line.strip():
            flush()
        else:
            decl.append(line)
    flush()
    return "\n".join(out)


def public(top):
    """The names that the package exports: functions, classes and errors."""
    with open(os.path.join(top, "python", "tstream", "__init__.py"), encoding="utf-8") as f:
        tree = ast.parse(f.read())
    errors = {name.name for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "_errors" for name in node.names}
    names = next(ast.literal_eval(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    return ([n for n in names if n.islower()], [n for n in names if not n.islower() and n not in errors],
            [n for n in names if n in errors])


def python(top):
    """The page of the package; Sphinx puts the docstrings in."""
    out = ["# The Python package, call by call\n", "[The overview](../docs/python.md) describes the calls together.\n"]
    titles = ("Functions", "autofunction"), ("Classes", "autoclass"), ("Errors", "autoexception")
    for (title, how), names in zip(titles, public(top)):
        out.append("## %s\n" % title)
        for name in names:
            out.append("```{eval-rst}\n.. %s:: tstream.%s\n%s```\n" % (how, name, "   :members:\n" if how == "autoclass" else ""))
    return "\n".join(out)


def notebook(top, name, out):
    """A notebook as a page: text, code, and what the code printed and drew when it was saved."""
    with open(os.path.join(top, "examples", name + ".ipynb"), encoding="utf-8") as f:
        cells = json.load(f)["cells"]
    page, pictures = [], 0
    for cell in cells:
        source = "".join(cell["source"])
        page.append(source + "\n" if cell["cell_type"] == "markdown" else "```python\n%s\n```\n" % source)
        text = ""
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                file = "%s-%d.png" % (name, pictures)
                with open(os.path.join(out, file), "wb") as f:
                    f.write(base64.b64decode(data["image/png"]))
                page.append("![What the code above draws](%s)\n" % file)
            else:
                text += "".join(output.get("text", "")) or "".join(data.get("text/plain", "")) + "\n"
        if text:
            page.append("```text\n%s\n```\n" % text.rstrip("\n"))
    page.append("The notebook is [examples/%s.ipynb](../examples/%s.ipynb).\n" % (name, name))
    return "\n".join(page)


def main(top, build, out):
    shutil.rmtree(out, ignore_errors=True)
    for folder in ("docs", "examples", "bench/notebook"):
        shutil.copytree(os.path.join(top, folder), os.path.join(out, folder), ignore=shutil.ignore_patterns("site", "*.pyc"))
    for name in ("README.md", "NEWS.md", "SECURITY.md", "LICENSE", "CITATION.cff"):
        shutil.copy(os.path.join(top, name), out)
    os.makedirs(os.path.join(out, "reference"))
    os.makedirs(os.path.join(out, "_static"))
    shutil.copy(os.path.join(top, "docs", "site", "site.css"), os.path.join(out, "_static"))
    shutil.copy(os.path.join(top, "docs", "site", "conf.py"), out)
    made = {"reference/tstream": commands(build, "tstream"), "reference/tshard": commands(build, "tshard"),
            "reference/c": header(os.path.join(top, "include", "tstream.h")), "reference/python": python(top)}
    os.makedirs(os.path.join(out, "analyses"))
    for name in NOTEBOOKS:
        made["analyses/" + name] = notebook(top, name, os.path.join(out, "analyses"))
    for name, text in made.items():
        with open(os.path.join(out, name + ".md"), "w", encoding="utf-8") as f:
            f.write(text)
    os.rename(os.path.join(out, "README.md"), os.path.join(out, "index.md"))
    notes = sorted(n[:-3] for n in os.listdir(os.path.join(out, "bench", "notebook")) if re.match(r"\d.*\.md$", n))
    more = {"index.md": "\n".join(toctree(entries, caption) for caption, entries in SECTIONS),
            "bench/notebook/README.md": toctree(notes)}
    for folder, _, files in os.walk(out):
        for name in files:
            if name.endswith(".md"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as f:
                    text = page(f.read())
                text = re.sub(r"\]\(((?:\.\./)*)README\.md", r"](\1index.md", text)
                text = re.sub(r"\[([^]]*)\]\(([\w./]+)\)", lambda link: folder_link(folder, link), text)
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text + "\n" + more.get(os.path.relpath(path, out), ""))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
