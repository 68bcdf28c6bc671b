"""The seam to the engine: the typelib, errors as Python exceptions, ids and tensors as numpy arrays."""
import contextlib
import os
import signal
import sys
import threading

try:
    import gi
except ModuleNotFoundError:
    raise ImportError(f"tinyloop_py needs PyGObject, which {sys.executable} lacks; on Debian it is in python3-gi, for "
                      "/usr/bin/python3 and venvs made from it with --system-site-packages") from None

_LIBRARIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")


def _prefer(folder):
    """library and typelib are taken from `folder` before any other place"""
    gi.require_version("GIRepository", "3.0" if gi.version_info >= (3, 51) else "2.0")
    from gi.repository import GIRepository
    repository = GIRepository.Repository
    if hasattr(repository, "dup_default"):      # girepository 2
        repository = repository.dup_default()
    repository.prepend_search_path(folder)
    repository.prepend_library_path(folder)


if os.path.isdir(_LIBRARIES):       # a wheel brings them along
    _prefer(_LIBRARIES)
try:
    gi.require_version("TinyLoop", "1.0")
except ValueError:
    raise ImportError("tinyloop_py needs TinyLoop-1.0.typelib, which is not found; build it with `ninja -C build` and enter "
                      "`meson devenv -C build`, or name the installed one's folder in GI_TYPELIB_PATH") from None
import numpy as np                                                  # noqa: E402
from gi.repository import Gio, GLib, TinyLoop                       # noqa: E402

KV_MODES = {mode.value_nick: mode for _, mode in sorted(TinyLoop.KvPrecision.__enum_values__.items())}
# the engine's error code: the exception, and what its message begins with in any case
_RAISES = {TinyLoop.Error.INVALID_ARGUMENT: (ValueError, ""),
           TinyLoop.Error.NO_MEMORY: (RuntimeError, "out of memory"),
           TinyLoop.Error.LOOPS_MISMATCH: (RuntimeError, "loops mismatch")}


@contextlib.contextmanager
def python_errors():
    """GError of the engine to ValueError (arguments) or RuntimeError (everything else), with the engine's sentence"""
    try:
        yield
    except GLib.Error as error:
        kind, begins = RuntimeError, ""
        if error.domain == "tl-error-quark":
            kind, begins = _RAISES.get(TinyLoop.Error(error.code), (RuntimeError, ""))
        message = error.message if begins in error.message else f"{begins}: {error.message}"
        raise kind(message) from None


class Wrapped:
    """A class around an object of the engine, `_inner`. Those that only other calls make say so in `_made_by`."""

    def __init__(self):
        raise TypeError(f"{type(self).__name__} objects are made by {self._made_by}")

    @classmethod
    def _of(cls, inner):
        self = cls.__new__(cls)
        self._inner = inner
        return self


def text(name, value):
    """`value` if it is a str that a C string can hold"""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise ValueError(f"{name} holds a NUL character; leave it out")
    return value


def ids_array(ids, name="prompt"):
    """a one-dimensional int32 array of at least one id"""
    array = np.asarray(ids)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a one-dimensional sequence of at least one token id, not of shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, not {array.dtype}")
    if array.min() < 0 or array.max() > np.iinfo(np.int32).max:
        raise ValueError(f"{name} holds ids outside of int32's non-negative range")
    return np.ascontiguousarray(array, dtype=np.int32)


def to_bytes(array):
    return GLib.Bytes.new(array.tobytes())


def from_bytes(data):
    return np.frombuffer(data.get_data() or b"", dtype=np.int32)


class _Memory:
    """keeps a tensor alive while numpy reads its memory"""

    def __init__(self, tensor):
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3, "typestr": np.dtype(tensor.get_dtype()).str, "data": (tensor.get_address(), False),
            "shape": tuple(tensor.get_dim(i) for i in range(tensor.get_n_dims()))}


def to_numpy(tensor):
    """an array of the tensor's type and shape, without a copy"""
    return np.asarray(_Memory(tensor))


def scores_dict(scores):
    """name -> array"""
    return {scores.get_name(i): to_numpy(scores.get_tensor(i)) for i in range(scores.get_n())}


def _in_thread(call, cancellable):
    """call(cancellable) in a thread of its own, waited for here, so that signal handlers run meanwhile"""
    result, done = {}, threading.Event()

    def work():
        try:
            result["value"] = call(cancellable)
        except BaseException as error:      # handed to the caller's thread
            result["error"] = error
        done.set()

    worker = threading.Thread(target=work, name="tinyloop", daemon=True)
    try:
        worker.start()
        done.wait()
    except BaseException:                   # out of another signal's handler
        cancellable.cancel()
        if worker.ident is not None:
            done.wait()
        raise
    if "error" in result:
        raise result["error"]
    return result["value"]


def interruptible(call):
    """call(cancellable); on the main thread Ctrl-C cancels it, and the handler that was set runs when it has ended"""
    cancellable, interrupts = Gio.Cancellable(), []
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        with python_errors():
            return call(cancellable)

    def record(number, frame):
        interrupts.append((number, frame))
        cancellable.cancel()

    signal.signal(signal.SIGINT, record)
    try:
        with python_errors():
            return _in_thread(call, cancellable)
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            handler(*interrupts[0])
