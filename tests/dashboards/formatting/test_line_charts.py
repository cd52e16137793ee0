"""Geometry of line charts."""

from __future__ import annotations

from dashboards.ops.formatting.line_charts import MARKED, STYLES, line_chart


def whole(value: float) -> str:
    return f"{value:g}"


def test_lines_share_a_scale_from_zero_and_the_first_is_in_front() -> None:
    chart = line_chart(["Mon", "Tue", "Wed"], [[10.0, 20.0, 30.0], [40.0, 40.0, 0.0]], whole)
    assert [tick.text for tick in chart.rows] == ["0", "10", "20", "30", "40"]
    assert [tick.text for tick in chart.names] == ["Mon", "Tue", "Wed"]
    back, front = chart.lines
    assert (front.style, back.style) == STYLES[:2]
    assert front.pieces == ("64.0,133.0 201.0,92.0 338.0,51.0",)
    bottom, top = chart.rows[0].at, chart.rows[-1].at
    assert back.points == ((64.0, top), (201.0, top), (338.0, bottom))


def test_a_line_breaks_at_unknown_values_and_an_isolated_point_is_a_dot() -> None:
    [line] = line_chart(list("abcdef"), [[1.0, 2.0, None, 4.0, None, 3.0]], whole).lines
    assert len(line.pieces) == 1  # of two points; the others are isolated
    assert len(line.points) == 4


def test_many_points_are_a_line_with_a_dot_at_its_end_and_few_names() -> None:
    values = [float(number) for number in range(30)]
    assert len(values) > MARKED
    chart = line_chart([str(number) for number in range(30)], [values], whole)
    [line] = chart.lines
    assert line.points == ((chart.right, chart.rows[-1].at + 5.5),)  # 29 of 30
    assert [tick.text for tick in chart.names] == ["4", "9", "14", "19", "24", "29"]


def test_grid_lines_are_whole_units_apart() -> None:
    chart = line_chart(["a", "b"], [[30.0, 290.0]], lambda seconds: f"{seconds / 60:g} min", unit=60.0)
    assert [tick.text for tick in chart.rows] == ["0 min", "2 min", "4 min", "6 min"]


def test_unknown_values_give_an_empty_chart() -> None:
    chart = line_chart(["a"], [[None]], whole)
    assert [line.pieces for line in chart.lines] == [()]
    assert [tick.text for tick in chart.rows] == ["0", "1"]
