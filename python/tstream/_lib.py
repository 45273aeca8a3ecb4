# SPDX-License-Identifier: BSD-3-Clause
"""libtstream through ctypes: structs of tstream.h, errors, and calls that Ctrl-C ends.

A call of the library may take hours. It runs in a thread of its own, with the interpreter's lock given back,
while the thread that asked waits for what comes of it: notes, sweeps, the end. So Ctrl-C is seen at once, and
callbacks of Python run in the thread that asked.
"""

import ctypes as c
import operator
import os
import queue
import re
import threading
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from ._checks import shown
from ._errors import error_of
from ._errors import ArgumentError as ArgumentError
from ._errors import ArgumentTypeError as ArgumentTypeError
from ._errors import BusyError as BusyError
from ._errors import DeviceError as DeviceError
from ._errors import Error as Error
from ._errors import FileError as FileError
from ._errors import FormatError as FormatError
from ._errors import LimitError as LimitError
from ._errors import OutOfMemory as OutOfMemory
from ._errors import Stopped as Stopped
from ._errors import TstreamWarning as TstreamWarning
from ._errors import warn as warn
from ._needed import sentence

MODES_MAX = 16

# What annotations of the package are made of.
Array = np.ndarray[Any, np.dtype[Any]]
Path = Union[str, bytes, "os.PathLike[Any]"]
Mode = Union[int, str]
Size = Union[None, int, str]
_here = os.path.dirname(os.path.abspath(__file__))
native = os.path.join(_here, "_native")


class ts_error(c.Structure):
    _fields_ = [("code", c.c_int), ("sys", c.c_int), ("text", c.c_char * 1024)]

    def exception(self) -> Error:
        return error_of(self.code, self.sys, os.fsdecode(self.text))


_bits = {c.c_uint32: (0, 32), c.c_uint64: (0, 64), c.c_int: (-1 << 31, 31), c.c_uint: (0, 32)}


def whole(what: str, number: Any, kind: Any = c.c_uint64) -> int:
    """A number as an integer of C, which ctypes would cut."""
    if isinstance(number, np.bool_) or isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        n = operator.index(number)
    except TypeError:
        raise ArgumentTypeError(f"{what}={shown(number)}: a whole number is wanted") from None
    least, bits = _bits[kind]
    if not least <= n < 1 << bits:
        raise ArgumentError(f"{what}={n}: a whole number {'of 0 or more ' if least == 0 else ''}below 2^{bits} is wanted")
    return n


def unmasked(what: str, values: Any) -> Array:
    """An array, of which nothing is masked: of a list of masked arrays NumPy would drop the masks."""
    array = np.ma.asarray(values)
    if np.ma.is_masked(array):
        raise ArgumentError(f"{what} are masked here and there, and what lies below a mask would count: leave these out")
    return np.asarray(np.ma.getdata(array))


def reals(what: str, values: Any) -> Array:
    """Numbers as contiguous float64. NumPy would drop a mask, an imaginary part and a unit of time."""
    array = unmasked(what, values)
    if array.dtype.kind not in "biufO":
        raise ArgumentTypeError(f"{what} are {array.dtype}: real numbers are wanted")
    return np.ascontiguousarray(array, dtype=np.float64)


class _Sized(c.Structure):
    """A struct that says its size. A number that does not fit into a field is refused."""

    def __init__(self, **fields: Any) -> None:
        for name, kind, *_ in self._fields_:
            given = fields.get(name)
            if kind in _bits and given is not None:
                fields[name] = whole(name, given, kind)
        super().__init__(size=c.sizeof(type(self)), **fields)


note_fn = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
_stop = c.POINTER(c.c_int)
_u64s = c.POINTER(c.c_uint64)
_doubles = c.POINTER(c.c_double)


class ts_build_progress(_Sized):
    _fields_ = [("size", c.c_size_t), ("what", c.c_char_p), ("unit", c.c_char_p),
                ("phase", c.c_uint32), ("n_phases", c.c_uint32),
                ("done", c.c_uint64), ("total", c.c_uint64)]


progress_fn = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(ts_build_progress))


class ts_build_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("out", c.c_char_p), ("replace", c.c_int),
                ("memory", c.c_uint64), ("tmp", c.c_char_p), ("threads", c.c_uint32),
                ("shard_bytes", c.c_uint64), ("duplicates", c.c_int), ("float64", c.c_int),
                ("first_index", c.c_uint32), ("dim", _u64s), ("order", c.c_uint32),
                ("name", c.POINTER(c.c_char_p)), ("label", c.POINTER(c.c_char_p)),
                ("n_labels", c.c_uint32), ("stop", _stop), ("progress", progress_fn),
                ("note", note_fn), ("ctx", c.c_void_p), ("keep_zeros", c.c_int), ("weights", c.c_int),
                ("skip_missing", c.c_int), ("no_space_check", c.c_int), ("expect", c.c_uint64),
                ("partial_map", c.c_int), ("transform", c.c_int), ("scale", c.c_double),
                ("repeat", c.c_int), ("told", c.POINTER(c.c_char_p)), ("n_told", c.c_uint32)]


class ts_table_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("separator", c.c_char_p), ("header", c.c_int), ("column", c.POINTER(c.c_char_p)),
                ("n_columns", c.c_uint32), ("value", c.c_char_p), ("weights", c.c_char_p), ("text", c.POINTER(c.c_char_p)),
                ("n_text", c.c_uint32), ("bin", c.POINTER(c.c_char_p)), ("n_bins", c.c_uint32),
                ("time_unit", c.POINTER(c.c_char_p)), ("n_units", c.c_uint32), ("sorted_names", c.c_int),
                ("decimal_comma", c.c_int), ("no_quotes", c.c_int)]


class ts_build_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("nnz", c.c_uint64), ("read", c.c_uint64),
                ("duplicates", c.c_uint64), ("zeros", c.c_uint64), ("runs", c.c_uint64),
                ("rounded", c.c_uint64), ("missing", c.c_uint64), ("segments", c.c_uint32)]


class ts_select_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("hold_out", c.c_double), ("seed", c.c_uint64), ("held", c.c_int),
                ("keep", c.POINTER(_u64s)), ("n_keep", _u64s), ("at_least", _u64s),
                ("sum_modes", c.c_uint32)]


class ts_save_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("formats", c.c_uint), ("held_rows", c.c_int),
                ("replace", c.c_int), ("threads", c.c_uint32), ("stop", _stop), ("note", note_fn),
                ("ctx", c.c_void_p), ("no_labels", c.c_int), ("history", c.c_char_p)]


work_fn = c.CFUNCTYPE(None, c.c_void_p, c.c_uint64)


class ts_session_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("rank", c.c_uint32), ("precision", c.c_int),
                ("threads", c.c_uint32), ("host_memory", c.c_uint64), ("cpu", c.c_int),
                ("gpus", c.c_char_p), ("gpu_memory", c.c_uint64), ("stop", _stop),
                ("note", note_fn), ("work", work_fn), ("ctx", c.c_void_p),
                ("checkpoints", c.c_int), ("trace", c.c_char_p), ("replace", c.c_int),
                ("own_rows", c.c_uint32), ("accelerate", c.c_int), ("smooth", c.c_uint32),
                ("observed", c.c_int), ("loss", c.c_int), ("optimizer", c.c_int), ("patience", c.c_int),
                ("hold_out", c.c_int)]


class ts_session_info(_Sized):
    _fields_ = [("size", c.c_size_t), ("threads", c.c_uint32), ("n_gpus", c.c_uint32),
                ("host_bytes", c.c_uint64), ("factor_bytes", c.c_uint64)]


class ts_progress(_Sized):
    _fields_ = [("size", c.c_size_t), ("sweep", c.c_uint32), ("mode", c.c_uint32),
                ("done", c.c_uint64), ("total", c.c_uint64)]


class ts_sweep(_Sized):
    _fields_ = [("size", c.c_size_t), ("sweep", c.c_uint32), ("fit", c.c_double),
                ("change", c.c_double), ("seconds", c.c_double), ("wait_seconds", c.c_double),
                ("copy_seconds", c.c_double), ("product_seconds", c.c_double),
                ("solve_seconds", c.c_double), ("bytes_read", c.c_uint64),
                ("n_singular", c.c_uint32), ("n_dead", c.c_uint32), ("objective", c.c_double),
                ("rmse", c.c_double), ("held_out_rmse", c.c_double),
                ("log_likelihood", c.c_double), ("violation", c.c_double), ("held_out_loss", c.c_double)]


sweep_fn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(ts_sweep))
mode_fn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.c_uint32, c.c_double)


class ts_cp_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("sweeps", c.c_uint32), ("tol", c.c_double),
                ("seed", c.c_uint64), ("start", c.c_void_p), ("sweep", sweep_fn),
                ("mode", mode_fn), ("ctx", c.c_void_p), ("max_seconds", c.c_double),
                ("out", c.c_char_p), ("formats", c.c_uint), ("held_rows", c.c_int),
                ("replace", c.c_int), ("resume", c.c_int), ("checkpoint_seconds", c.c_double),
                ("nonneg", c.c_uint32), ("l1", c.c_void_p), ("l2", c.c_void_p), ("fix", c.c_uint32),
                ("accelerate", c.c_int),
                ("simplex", c.c_uint32), ("lower", c.c_void_p), ("upper", c.c_void_p),
                ("nvecs", c.c_int), ("orthogonal", c.c_uint32), ("smooth", c.c_void_p),
                ("observed", c.c_int), ("l2_by_count", c.c_int), ("hold_out", c.c_double),
                ("patience", c.c_uint32), ("loss", c.c_int), ("inner", c.c_uint32), ("loss_at", c.c_double),
                ("optimizer", c.c_int), ("mean", c.c_int), ("hold_out_from", c.c_double), ("save_init", c.c_int),
                ("no_labels", c.c_int)]


class ts_cp_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("fit", c.c_double), ("sweeps", c.c_uint32),
                ("converged", c.c_int), ("exact", c.c_int), ("sweeps_before", c.c_uint32),
                ("n_dead", c.c_uint32), ("objective", c.c_double),
                ("rmse", c.c_double), ("held_out_rmse", c.c_double), ("overfits", c.c_int),
                ("log_likelihood", c.c_double), ("violation", c.c_double), ("held_out_loss", c.c_double),
                ("mean", c.c_double), ("best_sweep", c.c_uint32)]


several_sweep_fn = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint32, c.POINTER(ts_sweep))


class ts_several_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("n_ranks", c.c_uint32), ("rank", c.POINTER(c.c_uint32)),
                ("restarts", c.c_uint32), ("run", c.POINTER(ts_cp_conf)),
                ("start", c.POINTER(c.c_void_p)), ("sweep", several_sweep_fn), ("ctx", c.c_void_p)]


class ts_several_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("rank", c.c_uint32), ("sweeps", c.c_uint32),
                ("seed", c.c_uint64), ("fit", c.c_double), ("objective", c.c_double),
                ("converged", c.c_int), ("exact", c.c_int), ("n_dead", c.c_uint32),
                ("best", c.c_int), ("seconds", c.c_double), ("score", c.c_double),
                ("held_out_rmse", c.c_double), ("held_out_loss", c.c_double),
                ("mean", c.c_double), ("best_sweep", c.c_uint32), ("sweeps_before", c.c_uint32)]


class ts_fit_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("fit", c.c_double), ("error", c.c_double),
                ("residual", c.c_double), ("norm", c.c_double), ("model_norm", c.c_double)]


class ts_core_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("consistency", c.c_double), ("normalised", c.c_double), ("n_singular", c.c_uint32),
                ("given", c.c_double), ("given_normalised", c.c_double)]


class ts_cpd_score_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("mode", c.c_uint32), ("float32", c.c_int), ("n_top", c.c_uint32),
                ("top_index", c.c_void_p), ("top_value", c.c_void_p), ("top_model", c.c_void_p),
                ("slice_nnz", c.c_void_p), ("slice_weight", c.c_void_p), ("slice_value", c.c_void_p),
                ("slice_model", c.c_void_p), ("slice_rmse", c.c_void_p), ("slice_mae", c.c_void_p)]


class ts_cpd_score_result(_Sized):
    _fields_ = [("size", c.c_size_t), ("nnz", c.c_uint64), ("weight", c.c_double), ("rmse", c.c_double),
                ("mae", c.c_double), ("mean_value", c.c_double), ("mean_model", c.c_double),
                ("gaussian", c.c_double), ("poisson", c.c_double), ("n_top", c.c_uint32), ("unseen", c.c_uint64)]


class ts_array_conf(_Sized):
    _fields_ = [("size", c.c_size_t), ("name", c.c_char_p), ("cells", c.c_void_p), ("type", c.c_char_p),
                ("order", c.c_uint32), ("dim", c.POINTER(c.c_uint64)), ("fortran", c.c_int), ("swapped", c.c_int),
                ("mode_name", c.POINTER(c.c_char_p)), ("label", c.POINTER(c.POINTER(c.c_char_p)))]


class ts_cpd_origin(_Sized):
    _fields_ = [("size", c.c_size_t), ("known", c.c_int), ("segments", c.c_uint32),
                ("nnz", c.c_uint64), ("checksum", c.c_uint64), ("has_sum", c.c_int),
                ("sum", c.c_uint64 * 2), ("float32", c.c_int)]


class ts_cpd_names(_Sized):
    _fields_ = [("size", c.c_size_t), ("from", c.c_void_p), ("name", c.POINTER(c.c_char_p)),
                ("label", c.POINTER(c.POINTER(c.c_char_p))), ("n_labels", _u64s),
                ("index", c.POINTER(c.c_void_p)), ("first_index", c.c_uint32),
                ("tensor", c.POINTER(ts_cpd_origin))]


_handle, _u32, _u64, _int, _path = c.c_void_p, c.c_uint32, c.c_uint64, c.c_int, c.c_char_p
_err = c.POINTER(ts_error)
_functions = {
    "ts_library_version": (_path, []),
    "ts_words": (None, [_int]),
    "ts_open": (_handle, [_path, _err]),
    "ts_open_array": (_handle, [c.POINTER(ts_array_conf), _err]),
    "ts_close": (None, [_handle]),
    "ts_order": (_u32, [_handle]),
    "ts_dim": (_u64, [_handle, _u32]),
    "ts_used": (_u64, [_handle, _u32]),
    "ts_nnz": (_u64, [_handle]),
    "ts_norm": (c.c_double, [_handle]),
    "ts_value_bytes": (_u32, [_handle]),
    "ts_is_dense": (c.c_int, [_handle]),
    "ts_has_duplicates": (c.c_int, [_handle]),
    "ts_json_file_check": (_int, [_path, c.c_char_p, c.c_size_t, _err]),
    "ts_takes_observed": (c.c_int, [_handle, c.c_int]),
    "ts_loss_named": (_int, [_path, c.POINTER(c.c_int), c.POINTER(c.c_double), _err]),
    "ts_loss_name": (_path, [c.c_int]),
    "ts_loss_number": (_path, [c.c_int]),
    "ts_first_index": (_u32, [_handle]),
    "ts_name": (_path, [_handle, _u32]),
    "ts_labels": (_int, [_handle, _u32, _u64, c.c_void_p, c.POINTER(c.c_char_p), _err]),
    "ts_labels_free": (None, [_u64, c.POINTER(c.c_char_p)]),
    "ts_used_indices": (_int, [_handle, _u32, c.c_void_p, _err]),
    "ts_cursor_open": (_handle, [_handle, _u32, _err]),
    "ts_cursor_close": (None, [_handle]),
    "ts_cursor_next": (_int, [_handle, _u64, c.c_void_p, c.c_void_p, _u64s, _err]),
    "ts_build_files": (_int, [c.POINTER(ts_build_conf), _u32, c.POINTER(c.c_char_p),
                              c.POINTER(ts_build_result), _err]),
    "ts_build_table": (_int, [c.POINTER(ts_build_conf), c.POINTER(ts_table_conf), _u32, c.POINTER(c.c_char_p),
                              c.POINTER(ts_build_result), _err]),
    "ts_builder_new": (_handle, [c.POINTER(ts_build_conf), _err]),
    "ts_builder_append": (_handle, [c.POINTER(ts_build_conf), _err]),
    "ts_append_files": (_int, [c.POINTER(ts_build_conf), c.POINTER(ts_table_conf), _u32,
                               c.POINTER(c.c_char_p), c.POINTER(ts_build_result), _err]),
    "ts_undo": (_int, [c.c_char_p, c.POINTER(ts_build_result), _err]),
    "ts_compact": (_int, [c.POINTER(ts_build_conf), c.POINTER(ts_build_result), _err]),
    "ts_open_segment": (_handle, [c.c_char_p, _u32, _err]),
    "ts_built_with": (_int, [_handle, c.c_char_p, _u32, c.c_size_t, c.c_char_p, _err]),
    "ts_builder_add": (_int, [_handle, _u64, c.c_void_p, c.c_void_p, _err]),
    "ts_builder_add_columns": (_int, [_handle, _u64, c.POINTER(c.c_void_p), c.c_void_p, c.c_void_p,
                                      _err]),
    "ts_builder_add_weighted": (_int, [_handle, _u64, c.c_void_p, c.c_void_p, c.c_void_p, _err]),
    "ts_builder_finish": (_int, [_handle, c.POINTER(ts_build_result), _err]),
    "ts_builder_free": (None, [_handle]),
    "ts_build_copy": (_int, [c.POINTER(ts_build_conf), _handle, c.POINTER(ts_build_result), _err]),
    "ts_build_select": (_int, [c.POINTER(ts_build_conf), _handle, c.POINTER(ts_select_conf),
                               c.POINTER(ts_build_result), _err]),
    "ts_bins_new": (_handle, [_path, _path, _path, _err]),
    "ts_bins_free": (None, [_handle]),
    "ts_bins_look": (None, [_handle, _u64, c.POINTER(c.c_char_p)]),
    "ts_bins_of": (_int, [_handle, _u64, c.POINTER(c.c_char_p), c.c_void_p, _u64s, _err]),
    "ts_bins_label": (None, [_handle, _u64, c.c_char_p]),
    "ts_cpd_new": (_handle, [_u32, c.c_void_p, _u32, _int, c.c_void_p, c.POINTER(c.c_void_p),
                             _err]),
    "ts_cpd_new_rows": (_handle, [_u32, c.c_void_p, c.c_void_p, c.POINTER(c.c_void_p), _u32, _int,
                                  c.c_void_p, c.POINTER(c.c_void_p), _err]),
    "ts_cpd_load": (_handle, [_path, _stop, _err]),
    "ts_cpd_name": (_path, [_handle, _u32]),
    "ts_cpd_first_index": (_u32, [_handle]),
    "ts_cpd_labelled": (_u64, [_handle, _u32]),
    "ts_cpd_labels": (_int, [_handle, _u32, _u64, c.c_void_p, c.POINTER(c.c_char_p), _err]),
    "ts_cpd_tensor": (None, [_handle, c.POINTER(ts_cpd_origin)]),
    "ts_cpd_set_names": (_int, [_handle, c.POINTER(ts_cpd_names), _err]),
    "ts_cpd_free": (None, [_handle]),
    "ts_cpd_save": (_int, [_handle, _path, c.POINTER(ts_save_conf), _err]),
    "ts_cpd_order": (_u32, [_handle]),
    "ts_cpd_rank": (_u32, [_handle]),
    "ts_cpd_precision": (_int, [_handle]),
    "ts_cpd_dim": (_u64, [_handle, _u32]),
    "ts_cpd_weights": (_handle, [_handle]),
    "ts_cpd_held": (_u64, [_handle, _u32]),
    "ts_cpd_factor": (_handle, [_handle, _u32]),
    "ts_cpd_index": (_handle, [_handle, _u32]),
    "ts_cpd_predict": (_int, [_handle, _u64, c.c_void_p, c.c_void_p, _err]),
    "ts_cpd_unseen": (_u64, [_handle, _u64, c.c_void_p, c.c_void_p]),
    "ts_cpd_score": (_int, [_handle, _handle, c.POINTER(ts_cpd_score_conf), c.POINTER(ts_session_conf),
                            c.POINTER(ts_cpd_score_result), _err]),
    "ts_cpd_core": (_int, [_handle, _handle, c.POINTER(ts_session_conf), c.POINTER(ts_core_result), _err]),
    "ts_cpd_top": (_int, [_handle, _u32, _u32, _u32, c.c_void_p, c.c_void_p, c.POINTER(_u32),
                          _err]),
    "ts_session_open": (_handle, [_handle, c.POINTER(ts_session_conf), _err]),
    "ts_session_close": (None, [_handle]),
    "ts_session_progress": (None, [_handle, c.POINTER(ts_progress)]),
    "ts_cp": (_handle, [_handle, c.POINTER(ts_cp_conf), c.POINTER(ts_cp_result), _err]),
    "ts_cp_several": (_int, [_handle, c.POINTER(ts_session_conf), c.POINTER(ts_several_conf),
                             c.POINTER(_handle), c.POINTER(ts_several_result), _err]),
    "ts_fit": (_int, [_handle, _handle, c.POINTER(ts_session_conf), c.POINTER(ts_fit_result),
                      _err]),
}


def _load(path: str) -> c.CDLL:
    """Loads the library, and OpenMP with it. OpenMP reads its environment then: threads that wait
    shall sleep soon, as those of the program do, unless the user or another package chose."""
    chosen = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    if any(name in os.environ for name in chosen):
        return c.CDLL(path)
    os.environ["GOMP_SPINCOUNT"] = "1000"
    try:
        return c.CDLL(path)
    finally:
        del os.environ["GOMP_SPINCOUNT"]


class _Library:
    """Loaded at its first use, so that importing the package is quick."""

    def __getattr__(self, name: str) -> Any:
        places = [os.environ.get("TSTREAM_LIBRARY", ""), os.path.join(native, "libtstream.so.0")]
        places = [p for p in places if os.path.exists(p)] + ["libtstream.so.0"]
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # as tstream does, for GPUs
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
        try:
            dll = _load(places[0])
        except OSError as e:
            raise OSError(sentence(e)) from None
        for function, (result, arguments) in _functions.items():
            f = getattr(dll, function)
            f.restype, f.argtypes = result, arguments
            setattr(self, function, f)
        self.ts_words(1)  # sentences name keywords of this package
        if name not in _functions:
            raise AttributeError(name)
        return getattr(self, name)


lib = _Library()


def check(result: Any, err: ts_error) -> Any:
    """`result`, unless it is a negative code or NULL: then the exception that `err` holds."""
    if result is None or (isinstance(result, int) and result < 0):
        raise err.exception()
    return result


class Call:
    """One call of the library that may last: its stop flag, notes and callbacks."""

    def __init__(self) -> None:
        self.flag = c.c_int(0)
        self.stop = c.pointer(self.flag)
        self.events: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self.note = note_fn(lambda ctx, text: self.tell(_warn, os.fsdecode(text)))
        self.idle: Optional[Callable[[], None]] = None  # called now and then while nothing happens

    def tell(self, function: Callable[..., object], *args: Any) -> None:
        """From any thread: the one that asked calls `function`."""
        self.events.put((function, args))

    def ask(self, function: Callable[..., object], *args: Any) -> int:
        """Like :meth:`tell`, and waits until `function` has returned: not 0 if the call is to stop."""
        answered = threading.Event()

        def answer() -> None:
            try:
                function(*args)
            except BaseException:
                self.flag.value = 1
                raise
            finally:
                answered.set()
        self.tell(answer)
        while not self.flag.value and not answered.wait(0.2):
            pass  # what Ctrl-C takes from the queue is never answered
        return self.flag.value

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """``function(*args, err)`` in a thread; its result, or the exception of its failure.

        An exception of a callback, and Ctrl-C, stop the call, and are raised when it has ended.
        """
        err = ts_error()
        done: "list[Any]" = []
        claim = threading.Lock()  # of the call: a thread that is waited for, or nobody, makes it

        def work() -> None:
            if not claim.acquire(blocking=False):
                return
            try:
                done.append(function(*args, c.byref(err)))
            except BaseException as e:  # of ctypes: an argument of another type
                done.append(e)
            self.events.put(None)

        thread = threading.Thread(target=work, name="tstream", daemon=True)
        begun = False
        raised: Optional[BaseException] = None
        while True:
            try:  # Ctrl-C may come at any point in here, also while the thread starts: who asked must not go on before the call ended
                if not begun:
                    begun = True
                    thread.start()
                while True:
                    try:
                        event = self.events.get(timeout=0.2)
                    except queue.Empty:
                        if done and not thread.is_alive() and self.events.empty():
                            break  # Ctrl-C came between the last event and its taking
                        if self.idle is not None and raised is None:
                            self.idle()
                        continue
                    if event is None:
                        break
                    if raised is None:
                        event[0](*event[1])
                break
            except BaseException as e:
                raised = raised or e
                self.flag.value = 1
                if claim.acquire(blocking=False):
                    raise  # before the thread began
        thread.join()
        result = done[0]
        if raised is not None:
            raise raised
        if isinstance(result, BaseException):
            raise result
        return check(result, err)


def _warn(text: str) -> None:
    warn(text)


_units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size(text: Size) -> int:
    """Bytes of ``"8G"``, ``"512M"`` or a number; 0 for None."""
    if text is None:
        return 0
    if isinstance(text, str):
        m = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
        if m is None:
            raise ArgumentError(f"{text!r} is not a size: a number with K, M, G or T is expected")
        return int(float(m[1]) * _units[m[2].upper()])
    if isinstance(text, bytes) or not hasattr(text, "__float__"):
        raise ArgumentTypeError(f"{shown(text)} is not a size: a number with K, M, G or T is expected")
    if not 0 <= text < 1 << 64:
        raise ArgumentError(f"{text!r} is not a size: a number of 0 or more with K, M, G or T is expected")
    return int(text)


def encoded(text: Path) -> bytes:
    """A path or a name as the library takes it, for which it would end at a NUL."""
    if not isinstance(text, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(f"{shown(text)} is no path or name: a text is wanted")
    try:
        ret = os.fsencode(text)
    except UnicodeEncodeError:
        raise ArgumentError(f"{text!r} has half of a pair of surrogates, which is no text") from None
    if b"\0" in ret:
        raise ArgumentError(f"{text!r} has a NUL in it, which no path or name can have")
    return ret


def strings(texts: "Sequence[Any]") -> Any:
    """An array of C strings, None for NULL."""
    return (c.c_char_p * len(texts))(*[None if t is None else encoded(t) for t in texts])
