"""`python -m ckptui`, and where the command `ckptui` starts."""

import gc
import sys


def start() -> None:
    """Run the command line."""
    # Starting and listing make tens of thousands of objects that stay until the end: collecting
    # among them finds nothing and takes a tenth of the time. So the collector comes less often.
    gc.set_threshold(100_000)
    try:
        from ckptui.cli import main  # noqa: PLC0415 - importing it is half of the start

        main(prog_name="ckptui")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    start()
