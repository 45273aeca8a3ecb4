# SPDX-License-Identifier: BSD-3-Clause
"""Examples in docstrings are run, and public calls have docstrings with their parameters."""

import dataclasses
import doctest
import importlib
import inspect
import os
import pkgutil
import re

import numpy as np
import pytest

import tstream

MODULES = [name for _, name, _ in pkgutil.iter_modules(tstream.__path__)
           if name not in ("__main__", "sklearn", "_native")]
PUBLIC = [getattr(tstream, name) for name in tstream.__all__]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("tstream." + name)
    names = {"tstream": tstream, "ts": tstream, "np": np, "os": os, "dataclasses": dataclasses,
             "folder": str(tmp_path)}
    found = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_there_are_examples():
    modules = [importlib.import_module("tstream." + name) for name in MODULES]
    text = "".join(map(inspect.getsource, modules))
    assert len(re.findall("^ +Examples\n +-+$", text, re.M)) >= 10


@pytest.mark.parametrize("what", PUBLIC, ids=lambda x: x.__name__)
def test_public_calls_say_what_they_take(what):
    text = what.__doc__ or ""
    assert text.strip().endswith((".", "\n")) or "\n" in text or text
    if inspect.isfunction(what):
        taken = [p.name for p in inspect.signature(what).parameters.values()]
        assert all(re.search(rf"\b{name}\b", text) for name in taken), what.__name__


def test_methods_of_models_are_documented():
    for name, what in inspect.getmembers(tstream.Model, inspect.isfunction):
        assert name.startswith("_") or (what.__doc__ or "").strip(), name
