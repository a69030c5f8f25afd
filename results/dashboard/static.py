"""The files beside the pages: ours, and Vega with what draws its charts in a page, in one script."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

#: What is sent with every page and file, and what a page from a folder can't be sent, stands in its head. Nothing from elsewhere, no
#: script or style but the files here, no frame around the page.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def vega_version() -> str:
    """Of what makes the script: another one makes another script."""
    return version("vl-convert-python")


def write_vega(folder: Path) -> None:
    """Make ``vega.js`` in a folder, which takes some seconds: it defines ``vegaEmbed``."""
    import vl_convert  # noqa: PLC0415 - 80 MB, only where the script isn't there yet

    from metalbench.results.charts.render import VEGA_LITE  # noqa: PLC0415

    (folder / "vega.js").write_text(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE), "utf-8")


def assets(vega: Path) -> dict[str, bytes]:
    """Name → content of every file that the pages use; ``vega``: the folder that ``write_vega`` has filled."""
    own = {file.name: file.read_bytes() for file in files("metalbench.results.dashboard").joinpath("assets").iterdir() if file.is_file()}
    return own | {"vega.js": (vega / "vega.js").read_bytes()}
