"""The process in which atheris, that is libFuzzer, runs one target.

`python -m fuzz.engine PROGRAM TARGET [option or folder of libFuzzer ...]`, where PROGRAM runs
this with further options: libFuzzer starts itself again to merge inputs. It ends with the process:
at the first input that breaks the target, or when its time is over.
"""

import logging
import sys

import atheris

with atheris.instrument_imports(include=["memoryd", "memoryd_client", "tomllib"]):
    from fuzz.target import load

    _target = load(sys.argv[2])


def main() -> None:
    """Fuzz."""
    # What the product says about bad input is for people; here it would cost most of the time.
    logging.disable(logging.CRITICAL)
    # So that what strings are compared with guides the search. (The hook for patterns stands in for
    # `re.Pattern`, but takes no positions.)
    atheris.enabled_hooks.add("str")
    atheris.Setup([sys.argv[1], *sys.argv[3:]], _target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
