"""Charts as files for a README or a paper: no browser, no network."""

from __future__ import annotations

import textwrap
from typing import Literal

from metalbench.results.charts.figure import Figure
from metalbench.results.charts.style import LIGHT
from metalbench.results.quantities import printable

VEGA_LITE = "6.4"  #: the release whose rules Altair checks specifications by
WIDTH = 680  #: pixels of the drawing, without what stands beside its axes
LINE = 100  #: characters of a title in one line
PIXELS = 2  #: of a PNG for each of the drawing's: sharp on today's screens

Format = Literal["svg", "png"]
FORMATS: tuple[Format, ...] = ("svg", "png")


def render(figure: Figure, format: Format) -> bytes:  # noqa: A002 - as vl-convert and everybody calls it
    """The chart on white, under its title."""
    import vl_convert  # noqa: PLC0415 - 80 MB, only where a file is asked for

    title = {"text": textwrap.wrap(printable(figure.title), LINE)}
    spec = figure.spec | {"width": WIDTH, "title": title, "background": "white", "config": LIGHT}
    if format == "svg":
        return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    return vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=PIXELS)
