# SPDX-License-Identifier: BSD-3-Clause
"""The GPU part of tstream, which the package tstream opens where it lies beside it."""
