"""Where every process of ours enters: the console scripts, the wrapper that workers call, the warm process.

Our packages have common names (`bus`, `worker`, `conductor`). A repository that has folders of these names, together
with `PYTHONPATH=.`, would be imported in our place; so would another distribution that took one of the names. So,
before anything else, what the environment and the working directory put on `sys.path` is taken out again, and the
three packages are pinned to the folder of this module. It has a name nobody else uses, is tiny, and imports next to
nothing: `conductor --version` must cost no more than the interpreter.
"""

from __future__ import annotations

import os
import sys

__version__ = "0.1.0"

HOME = os.path.dirname(os.path.abspath(__file__))
"""The folder that holds this module and our three packages."""

WARM_PROCESS = "warm-process"
"""First argument that makes this process the warm process of the local launcher instead of the command line."""


def clean_path(path: list[str], environ_path: str, cwd: str) -> list[str]:
    """Return `path` without what PYTHONPATH (`environ_path`) and the working directory `cwd` added to it.

    Example: `clean_path(["/repo", "/usr/lib/python3"], ".", "/repo")` is `["/usr/lib/python3"]`.
    """
    foreign = {os.path.abspath(entry) for entry in environ_path.split(os.pathsep)} if environ_path else set()
    if cwd:
        foreign.add(os.path.abspath(cwd))
    return [entry for entry in path if entry and os.path.abspath(entry) not in foreign]


def pin_packages() -> None:
    """Import our three packages from `HOME`, whatever comes first on `sys.path`; their modules follow them."""
    found = sys.path[:]
    sys.path[:] = [HOME]
    import bus  # noqa: F401
    import conductor  # noqa: F401
    import worker  # noqa: F401

    sys.path[:] = found


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed under us; the verbs that need it say so
        return ""


def main() -> None:
    """Run the command line (or the warm process) and leave with its exit code.

    Ctrl-C at any moment, also while modules are loaded, shows no traceback and is never lost.
    """
    sys.unraisablehook = _leave_or_show
    try:
        _main()
    except BaseException as error:
        if is_interrupt(error):  # before the command line was ready to take it: nothing was begun
            raise SystemExit(130) from None
        if not isinstance(error, (OSError, ImportError)):
            raise
        print(f"error: a part of the program cannot be loaded: {error}", file=sys.stderr)
        print("hint: raise what is said to be too little, or install the program again", file=sys.stderr)
        raise SystemExit(74) from None


def is_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error is Ctrl-C at heart: Python makes another one of it where it meets the making of a class."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _leave_or_show(unraisable: sys.UnraisableHookArgs) -> None:
    """Leave where a signal was to end this process and met a callback, out of which Python raises nothing."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        os._exit(130)
    if issubclass(unraisable.exc_type, SystemExit):  # TERM, where it is to leave in order
        os._exit(143)
    sys.__unraisablehook__(unraisable)


def _main() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"conductor {__version__}\n")
        raise SystemExit(0)
    if sys.platform == "win32":
        sys.stderr.write("conductor needs POSIX file locks and process groups; run it on Linux, macOS or in WSL.\n")
        raise SystemExit(2)
    sys.path[:] = clean_path(sys.path, os.environ.get("PYTHONPATH", ""), _cwd())
    pin_packages()
    sys.modules.setdefault("conductor_bus_start", sys.modules[__name__])  # also where this file is run as a script
    if arguments[:1] == [WARM_PROCESS]:
        from worker.warm import serve

        raise SystemExit(serve(arguments[1:]))
    from conductor.cli.main import run_command_line

    raise SystemExit(run_command_line(arguments))


if __name__ == "__main__":
    main()
