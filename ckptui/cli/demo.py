"""`demo`: the whole job on a tiny model, for real."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from ckptui import guard
from ckptui.cli.browse import open_browser
from ckptui.cli.options import PATH
from ckptui.cli.streams import say
from ckptui.display.text import visible
from ckptui.errors import NotFoundError

_NEEDS = ("torch", "transformers", "tokenizers", "numpy")


@click.command(
    epilog="""\b
Examples:
  ckptui demo
  ckptui demo --output /tmp/try --no-browse
"""
)
@click.option(
    "--output",
    type=PATH,
    default=Path("outputs"),
    show_default=True,
    metavar="DIR",
    help="The root for the run, which is DIR/demo, then DIR/demo-2 and so on.",
)
@click.option("--no-browse", is_flag=True, help="Only train, and print the run's path.")
def demo(output: Path, no_browse: bool) -> None:
    """Train a tiny model on made-up text for about a minute, then browse its checkpoints.

    Nothing is downloaded. One checkpoint is pinned and others are pruned on the way.
    """
    guard.require_changes_allowed("train a demo", output)
    lacking = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if lacking:
        msg = (
            f"The demo trains for real and needs {', '.join(lacking)}: "
            "pip install 'ckptui[recipe]'."
        )
        raise NotFoundError(msg)
    command = [sys.executable, "-m", "recipe_integration.demo", f"--output={output}"]
    # Ctrl+C reaches the training itself, which saves before it ends; here it must not kill it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode != 0:
        raise click.exceptions.Exit(130 if done.returncode in (-2, 130) else 1)
    path = Path(os.fsdecode(done.stdout.removesuffix(b"\n")))
    if no_browse:
        say(visible(str(path)))
    else:
        open_browser(path)
