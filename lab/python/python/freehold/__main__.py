"""`python -m freehold`: runs the command `freehold` that the wheel installed."""

import os
import sys
import sysconfig
from typing import Iterator, Optional


def _folders() -> Iterator[str]:
    """Yields the folders into which pip installs programs: of the environment, of the user, and of `--target`."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", "posix_user")
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")


def _program() -> Optional[str]:
    places = (os.path.join(folder, "freehold") for folder in _folders())
    return next((place for place in places if os.path.isfile(place)), None)


def main() -> None:
    """Replaces this process by the command, with the same arguments."""
    program = _program()
    if program is None:
        sys.stderr.write("freehold: this wheel has no command; build one that has with `cargo xtask package wheel`\n")
        sys.exit(2)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
