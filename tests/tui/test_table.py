from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import App

from ckptui.tui.widgets.table import Column, Table, arrange

if TYPE_CHECKING:
    from textual.app import ComposeResult

COLUMNS = (
    Column(key="name", title="Name", width=10, rank=0),
    Column(key="state", title="State", width=8, rank=1),
    Column(key="size", title="Size", width=8, right=True, rank=2),
    Column(key="why", title="Why", width=10, grows=True, rank=3),
)


class Lists(App[None]):
    """A table of names that counts the cells it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: set[str] = set()
        self.moved = 0

    def compose(self) -> ComposeResult:
        yield Table[str](
            key=lambda row: row, cell=self._cell, columns=COLUMNS, empty="nothing here"
        )

    def _cell(self, row: str, column: Column) -> str:
        self.drawn.add(row)
        return row if column.key == "name" else column.key

    def on_table_moved(self) -> None:
        self.moved += 1

    @property
    def table(self) -> Table[str]:
        return self.query_one(Table)

    @property
    def lines(self) -> list[str]:
        return [
            "".join(segment.text for segment in strip)
            for strip in self.screen._compositor.render_strips()
        ]


def test_columns_of_high_rank_are_left_out_first() -> None:
    def keys(width: int) -> list[str]:
        return [column.key for column, _ in arrange(COLUMNS, width)]

    assert keys(60) == ["name", "state", "size", "why"]
    assert keys(38) == ["name", "state", "size"]
    assert keys(20) == ["name", "state"]
    assert keys(5) == ["name"]


def test_a_growing_column_takes_what_is_left() -> None:
    widths = {column.key: width for column, width in arrange(COLUMNS, 60)}
    assert sum(widths.values()) + 3 == 60
    assert widths["why"] == 31


def test_a_growing_column_has_its_room_before_others_come_in() -> None:
    columns = (
        Column(key="a", title="A", width=4, rank=0),
        Column(key="b", title="B", width=4, rank=2),
        Column(key="c", title="C", width=6, room=10, grows=True, rank=1),
    )
    shown = {w: {c.key: n for c, n in arrange(columns, w)} for w in (10, 11, 16, 19, 20, 22)}
    assert shown == {
        10: {"a": 4},
        11: {"a": 4, "c": 6},
        16: {"a": 4, "c": 11},
        19: {"a": 4, "c": 14},
        20: {"a": 4, "b": 4, "c": 10},
        22: {"a": 4, "b": 4, "c": 12},
    }


def test_thousands_of_rows_draw_only_the_lines_on_the_screen() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test(size=(60, 20)) as pilot:
            app.table.set_rows([f"step_{i}" for i in range(5000)])
            await pilot.pause()
            assert 0 < len(app.drawn) < 25
            app.drawn.clear()
            await pilot.press("end")
            await pilot.pause()
            assert app.table.current == "step_4999"
            assert "step_4999" in app.drawn
            assert len(app.drawn) < 25
            app.drawn.clear()
            await pilot.press("up")
            await pilot.pause()
            assert len(app.drawn) <= 25

    asyncio.run(run())


def test_the_cursor_stays_on_its_row_and_its_line_when_rows_appear_above() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test(size=(60, 12)) as pilot:
            rows = [f"step_{i}" for i in range(100)]
            app.table.set_rows(rows)
            await pilot.pause()
            await pilot.press(*["down"] * 30)
            await pilot.pause()
            before = next(y for y, line in enumerate(app.lines) if line.startswith(">"))
            app.table.set_rows([f"new_{i}" for i in range(7)] + rows)
            await pilot.pause()
            assert app.table.current == "step_30"
            assert app.lines[before].startswith(">step_30")

    asyncio.run(run())


def test_a_row_that_is_gone_leaves_the_cursor_near() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test() as pilot:
            app.table.set_rows(["a", "b", "c"])
            app.table.select("b")
            await pilot.pause()
            app.table.set_rows(["a", "c"])
            assert app.table.current == "c"
            app.table.set_rows([])
            assert app.table.current is None
            app.table.set_rows(["z"])
            assert app.table.current == "z"

    asyncio.run(run())


def test_a_row_may_be_followed_by_another_key() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test():
            app.table.set_rows(["staging/step_9", "step_8"])
            app.table.set_rows(["step_10", "step_9", "step_8"], follow=lambda o, n: o.endswith(n))
            assert app.table.current == "step_9"

    asyncio.run(run())


def test_every_move_is_told_once() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test() as pilot:
            app.table.set_rows(["a", "b", "c"])
            await pilot.pause()
            app.moved = 0
            await pilot.press("down", "j", "k", "end", "end")
            await pilot.pause()
            assert app.table.cursor == 2
            assert app.moved == 4  # the second end goes nowhere

    asyncio.run(run())


def test_the_cursor_can_be_seen_without_colour() -> None:
    async def run() -> None:
        app = Lists()
        app.theme = "ansi-dark"
        async with app.run_test(size=(60, 10)) as pilot:
            app.table.set_rows(["a", "b"])
            await pilot.pause()
            assert [line[0] for line in app.lines[1:3]] == [">", " "]

    asyncio.run(run())


def test_words_stand_where_there_is_no_row() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test(size=(60, 10)) as pilot:
            await pilot.pause()
            assert "nothing here" in app.lines[0]

    asyncio.run(run())


def test_a_click_puts_the_cursor_on_a_row() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test(size=(60, 10)) as pilot:
            app.table.set_rows(["a", "b", "c"])
            await pilot.pause()
            await pilot.click(Table, offset=(3, 3))
            assert app.table.current == "c"

    asyncio.run(run())


def test_a_cell_never_leaves_its_column() -> None:
    async def run() -> None:
        app = Lists()
        async with app.run_test(size=(60, 10)) as pilot:
            app.table.set_rows(["宽" * 30, "e\u0301" * 30, "x" * 500])
            await pilot.pause()
            assert {cell_len(line) for line in app.lines} == {60}
            assert all("state" in line for line in app.lines[1:4])

    asyncio.run(run())


def test_columns_that_were_left_out_come_in_from_the_right() -> None:
    columns = [
        Column(key="a", title="a", width=4, rank=0),
        Column(key="b", title="b", width=4, rank=1),
        Column(key="c", title="c", width=4, rank=2),
        Column(key="d", title="d", width=4, rank=3),
    ]

    def shown(skip: int) -> str:
        return "".join(c.key for c, _ in arrange(columns, 9, skip=skip))

    assert [shown(skip) for skip in range(3)] == ["ab", "ac", "ad"]


def test_columns_that_stay_are_not_scrolled_away_and_the_most_wanted_come_first() -> None:
    columns = [
        Column(key="f", title="", width=1, rank=2, stays=True),
        Column(key="a", title="a", width=4, rank=0, stays=True),
        Column(key="b", title="b", width=4, rank=1),
        Column(key="d", title="d", width=4, rank=4),
        Column(key="c", title="c", width=4, rank=3),
    ]
    shown = ["".join(c.key for c, _ in arrange(columns, 11, skip=skip)) for skip in range(3)]
    assert shown == ["fab", "fac", "fad"]
