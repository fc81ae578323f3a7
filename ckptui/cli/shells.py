r"""`completion`, and how bash, zsh and fish are served: click's mechanism with scripts of our own.

Click's scripts split words at commas and let bash glob what is offered; these do not. A shell hands
over the words up to the cursor, gets lines of kind, value and help, and inserts the value as one
word, whatever is in it: zsh and fish quote by themselves, for bash the value comes quoted.

Kinds: `plain` ends a word, `open` does not, `dir` and `file` leave the word to the shell.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

import click
from click.shell_completion import ShellComplete, add_completion_class

from ckptui.cli.completion import NO_OPTION
from ckptui.display.text import is_plain

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

NAME = "ckptui"
VARIABLE = "_CKPTUI_COMPLETE"
_BETWEEN = "\x1f"
"""Stands between two words that a shell hands over; no word holds it."""


class _Served(ShellComplete):
    """What the three have in common: the words that come, and the lines that go."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what there is of that one."""
        words = os.environ.get("COMP_WORDS", "").split(_BETWEEN)
        return words[1:-1], words[-1] if len(words) > 1 else ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What may stand there; of `--option=value` the whole word."""
        before = ""
        if incomplete.startswith("--") and "=" in incomplete:
            option, _, incomplete = incomplete.partition("=")
            args, before = [*args, option], f"{option}="
        if args[-1:] == ["--sort"] and incomplete.startswith("-"):
            incomplete = NO_OPTION + incomplete
        found = super().get_completions(args, incomplete)
        for item in found:
            item.value = before + item.value
        return [item for item in found if is_plain(item.value)]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """A line: kind, value, help."""
        kind = "open" if item.type == "plain" and item.open else item.type
        text = item.help if item.help and is_plain(item.help) else ""
        return "\t".join((kind, item.value, text))


class Bash(_Served):
    """Bash, which cuts words at `:` and `=` and inserts what it gets as it is."""

    name = "bash"
    source_template = r"""%(complete_func)s() {
    local kind value help program="${1/#\~\//$HOME/}"
    case "$(type -t -- "$program")" in
        file|function) ;;
        *) program=%(prog_name)s ;;  # an alias, which means nothing in here
    esac
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case "$kind" in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            open) compopt -o nospace 2>/dev/null; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_TEXT="$2" %(complete_var)s=bash_complete \
        "$program" 2>/dev/null </dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -F %(complete_func)s %(prog_name)s
"""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type] # click's own, passed on
        line = split_line(os.environ.get("COMP_LINE", ""))
        self._line = line
        kept = len(os.environ.get("COMP_TEXT", ""))
        self._head = split_line(line.raw[: len(line.raw) - kept])
        """What of the word stands before the piece that bash replaces."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words of the line, read as bash reads them."""
        words = self._line.words
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]  # VAR=value before the command
        return list(words[1:]), self._line.last

    def complete(self) -> str:
        """The lines, each value quoted and cut to the piece that bash replaces."""
        args, incomplete = self.get_completion_args()
        lines = []
        for item in self.get_completions(args, incomplete):
            if item.type == "plain":
                if not item.value.startswith(self._head.last):
                    continue
                typed, added = incomplete[len(self._head.last) :], item.value[len(incomplete) :]
                rest = quoted(added, self._head.quote)
                if rest is None:
                    continue
                item.value = (quoted(typed, self._head.quote) or typed) + rest
            lines.append(self.format_completion(item))
        return "\n".join(lines)


class Zsh(_Served):
    """Zsh, which quotes what it inserts by itself."""

    name = "zsh"
    source_template = r"""#compdef %(prog_name)s
%(complete_func)s() {
    local -a plain plain_shown open open_shown before
    local line kind value help program="${(Q)words[1]}"
    program="${program/#\~\//$HOME/}"
    whence -w -- "$program" >/dev/null || program=%(prog_name)s
    before=("${(@Q)words[1,CURRENT-1]}")
    before+=("${(Q)PREFIX}")
    for line in "${(@f)$(COMP_WORDS="${(pj:\x1f:)before}" %(complete_var)s=zsh_complete \
        "$program" 2>/dev/null </dev/null)}"; do
        kind="${line%%%%$'\t'*}"
        line="${line#*$'\t'}"
        value="${line%%%%$'\t'*}"
        help="${line#*$'\t'}"
        case "$kind" in
            dir) _path_files -/ ;;
            file) _path_files ;;
            open) open+=("$value"); open_shown+=("$value${help:+  -- $help}") ;;
            plain) plain+=("$value"); plain_shown+=("$value${help:+  -- $help}") ;;
        esac
    done
    (( $#plain )) && compadd -U -V plain -d plain_shown -a plain
    (( $#open )) && compadd -U -V open -S '' -d open_shown -a open
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


class Fish(_Served):
    """Fish, which quotes what it inserts, and filters it once more, by itself."""

    name = "fish"
    source_template = r"""function %(complete_func)s
    set -l program (commandline -cpo)[1]
    set program (string replace -r '^~/' "$HOME/" -- $program)
    type -q -- $program; or set program %(prog_name)s
    set -l before (commandline -cpo)
    set -l typed (commandline -ct)
    set -l words (string join \x1f -- $before "$typed")
    for line in (env COMP_WORDS="$words" %(complete_var)s=fish_complete \
            $program 2>/dev/null </dev/null)
        set -l fields (string split \t -- $line)
        switch $fields[1]
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
            case plain open
                printf '%%s\t%%s\n' $fields[2] $fields[3]
        end
    end
end
complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words, of which the last one comes as it was typed."""
        args, typed = super().get_completion_args()
        return args, split_line(typed).last


SHELLS = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def serve() -> None:
    """Let click know them."""
    for shell in SHELLS.values():
        add_completion_class(shell)


class Line(NamedTuple):
    """A command line up to the cursor, as a shell reads it."""

    words: tuple[str, ...]
    """The finished ones, without their quotes."""
    last: str
    """What there is of the last one, without its quotes."""
    raw: str
    """The same as it was typed."""
    quote: str
    """The quote that is open at the end, if one is."""


def split_line(line: str) -> Line:
    """The words of a line that may end in the middle of one."""
    words: list[str] = []
    word, start, quote, at = "", 0, "", 0
    inside = False
    while at < len(line):
        char = line[at]
        at += 1
        if char == "\\" and quote != "'":
            after = line[at : at + 1]
            at += 1
            kept = "" if quote == "" or after in '$`"\\\n' else "\\"
            if after != "\n":  # a line that goes on below
                word, inside = word + kept + after, True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char in "'\"":
            quote, inside = char, True
        elif char in " \t\n":
            if inside:
                words.append(word)
            word, start, inside = "", at, False
        else:
            word, inside = word + char, True
    return Line(tuple(words), word, line[start:], quote)


_SAFE = re.compile(r"[\w@%+=:,./-]")


def quoted(text: str, quote: str) -> str | None:
    """Text as it can stand in a line of bash where `quote` is open; None where it cannot."""
    if quote == "'":
        return None if "'" in text else text
    if quote == '"':
        # A history reference cannot be quoted there.
        return None if "!" in text else re.sub(r'([$`"\\])', r"\\\1", text)
    return "".join(c if _SAFE.match(c) else f"\\{c}" for c in text)


@click.command(
    epilog="""\b
Examples:
  ckptui completion bash >> ~/.bashrc
  ckptui completion zsh >> ~/.zshrc
  ckptui completion fish > ~/.config/fish/completions/ckptui.fish

\b
In .zshrc it stands below the line with compinit. Completed are commands,
options, checkpoints, trash items, metrics and directories.
"""
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the script that completes ckptui's words in SHELL."""
    from ckptui.cli import main  # noqa: PLC0415 - the group that this is a command of
    from ckptui.cli.streams import report  # noqa: PLC0415 - not for completing itself

    report(SHELLS[shell](main, {}, NAME, VARIABLE).source().rstrip("\n"))
