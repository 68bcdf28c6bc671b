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

_HERE = os.path.dirname(os.path.abspath(__file__))
if os.path.isdir(os.path.join(_HERE, "lib")):       # a wheel brings library and typelib along
    gi.require_version("GIRepository", "2.0")
    from gi.repository import GIRepository
    GIRepository.Repository.prepend_search_path(os.path.join(_HERE, "lib"))
    GIRepository.Repository.prepend_library_path(os.path.join(_HERE, "lib"))
try:
    gi.require_version("TinyLoop", "1.0")
except ValueError:
    raise ImportError("tinyloop_py needs TinyLoop-1.0.typelib, which is not found; build it with `ninja -C build` and enter "
                      "`meson devenv -C build`, or name the installed one's folder in GI_TYPELIB_PATH") from None
import numpy as np                                                  # noqa: E402
from gi.repository import Gio, GLib, TinyLoop                       # noqa: E402

VALUE_ERRORS = (TinyLoop.Error.INVALID_ARGUMENT,)
KV_MODES = {None: TinyLoop.KvPrecision.DEFAULT, "default": TinyLoop.KvPrecision.DEFAULT,
            "fp16": TinyLoop.KvPrecision.FP16, "fp32": TinyLoop.KvPrecision.FP32}


@contextlib.contextmanager
def python_errors():
    """GError of the engine to ValueError (arguments) or RuntimeError (everything else), with the engine's sentence"""
    try:
        yield
    except GLib.Error as error:
        if error.domain != "tl-error-quark":
            raise RuntimeError(error.message) from None
        kind = ValueError if error.code in [int(code) for code in VALUE_ERRORS] else RuntimeError
        raise kind(error.message) from None


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


def _in_thread(call):
    """call() in a thread of its own, waited for here, so that signal handlers run meanwhile"""
    result = {}

    def work():
        try:
            result["value"] = call()
        except BaseException as error:      # handed to the caller's thread
            result["error"] = error

    worker = threading.Thread(target=work, name="tinyloop", daemon=True)
    worker.start()
    worker.join()
    with python_errors():
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
        return _in_thread(lambda: call(cancellable))
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            handler(*interrupts[0])
