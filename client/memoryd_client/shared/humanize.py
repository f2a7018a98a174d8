"""Numbers, sizes and times as text for people; "?" for invalid values."""

import math
import time


def minutes(seconds: float) -> str:
    """Return a duration as `m:ss`."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, e.g. `3 h 12 min`."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def moment(at: float) -> str:
    """Return a Unix time as local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "?"


def size(count: float) -> str:
    """Return a number of bytes with a unit, e.g. `12.3 MiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. `1 file` or `2 files`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def destination(address: str, *, leaves_machine: bool, proxy: str | None, unencrypted: bool) -> str:
    """Return the receiver of texts, e.g. `host (another machine, through the proxy host:port)`."""
    facts = ["another machine" if leaves_machine else "this machine"]
    if unencrypted:
        facts.append("not encrypted")
    if proxy is not None:
        facts.append(f"through the proxy {proxy}")
    return f"{address} ({', '.join(facts)})"
