#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""help_prose.py TOP LIST [FILE...] - checks the English of what programs print with --help, each in a FILE named PROGRAM-COMMAND, and
of manual pages, which begin with a dot.

A sentence has at most 35 words, and none has a phrase that scripts/prose finds. LIST (tests/house/prose.list) may allow a
long sentence: "except PROGRAM-COMMAND: FIRST WORDS: REASON". The first sentence of an option is not longer than 20 words.
"""
import os
import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

top, list_path, files = sys.argv[1], sys.argv[2], sys.argv[3:]
sys.dont_write_bytecode = True
loader = SourceFileLoader("prose", os.path.join(top, "scripts", "prose"))
prose = module_from_spec(spec_from_loader("prose", loader))
loader.exec_module(prose)

SENTENCE, FIRST = prose.SENTENCE, 20
OPTION = re.compile(r"  (?:-., |    )--([a-z0-9-]+)\S*(?:  +(.*))?$")


def parts(text):
    """(option or None, text) of each paragraph and each option's help, with lines joined."""
    found, option, held = [], None, []

    def close():
        if held:
            found.append((option, " ".join(held)))
            held.clear()

    if text.startswith("."):  # a manual page: paragraphs between requests, but no examples
        for block in re.split(r"^\.[^\n]*\n", re.sub(r"^\.nf$.*?^\.fi$", ".", text, flags=re.M | re.S), flags=re.M):
            if block.strip():
                found.append((None, " ".join(block.replace("\\-", "-").replace("\\&", "").split())))
        return found
    for line in text.split("\nExamples:\n")[0].splitlines():
        hit = OPTION.match(line)
        if hit or not line.strip() or not line.startswith(" " * 26):
            close()
        if hit:
            option = hit[1]
        elif not line.startswith(" " * 26):
            option = None
        words = (hit[2] or "") if hit else line.strip()
        if words and not words.startswith("Usage:") and not words.endswith("ptions:"):
            held.append(words)
    close()
    return found


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?:])\)? (?=\S)|; ", text) if s]


_, allowed = prose.read_list(list_path)
failed, seen = 0, 0
for path in files:
    name = os.path.basename(path)
    used = set()
    with open(path, encoding="utf-8") as f:
        text = f.read()
    for option, words in parts(text):
        for i, sentence in enumerate(sentences(re.sub(r" \((?:default: .*|may be repeated)\)$", "", words))):
            seen += 1
            most = FIRST if option and i == 0 else SENTENCE
            needed = [e for e in allowed.get(name, ()) if sentence.startswith(e)]
            used.update(needed)
            what = f"{name} --{option}" if option else name
            if len(sentence.split()) > most and not needed:
                failed = 1
                print(f"{what}: sentence: {len(sentence.split())} words, at most {most}: {sentence}")
        for pattern, better in prose.PHRASES:
            for hit in pattern.finditer(words):
                failed = 1
                print(f"{name}: phrase: \"{hit.group(0)}\": {better}")
    for e in allowed.get(name, ()):
        if e not in used:
            failed = 1
            print(f"{list_path}: nothing needs the exception of {name}: {e}")
print(f"{seen} sentences")
sys.exit(failed)
