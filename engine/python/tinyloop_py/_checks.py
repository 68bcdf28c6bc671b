"""What a value may be: every function here makes a check(name, value) that gives the value or raises a ValueError."""
import math

_UINT_MAX = 2 ** 32 - 1


def integer(low, high=_UINT_MAX, absent=None):
    """an integer in low…high; `absent` stands for None where there is such a thing"""
    def check(name, value):
        if value is None and absent is not None:
            return absent
        if isinstance(value, float) or not hasattr(value, "__index__"):
            raise ValueError(f"{name} must be an integer, not {value!r}")
        if not low <= value.__index__() <= high:
            raise ValueError(f"{name} is {value}, but must be in {low}…{high}")
        return value.__index__()
    return check


def number(rule, allowed):
    """a finite number for which allowed(number) holds; `rule` says so in words"""
    def check(name, value):
        try:
            real = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be a number, not {value!r}") from None
        if not math.isfinite(real) or not allowed(real):
            raise ValueError(f"{name} is {value}, but must be {rule}")
        return real
    return check


def flag(name, value):
    """itself such a check"""
    if value not in (True, False):
        raise ValueError(f"{name} is {value!r}, but must be True or False")
    return bool(value)
