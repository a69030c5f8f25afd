"""Folders and URLs inside of texts: where they begin and end among other words, and what is left of them for others to read."""

from __future__ import annotations

import re

#: What a part of a path is made of. Brackets belong to it in pairs, an apostrophe between letters; quotes, colons and commas end it.
_CHARACTER = r"""(?:[^\s/\\"'`:;,|<>*?()\[\]{}…]|(?<=\w)'(?=\w)|\([^\s/\\"'()]*\)|\[[^\s/\\"'\[\]]*\]|\{[^\s/\\"'{}]*\})"""
_PART = rf"(?>{_CHARACTER}+)"
_WORD = rf" (?!-\w|~){_PART}"  #: a further one of a name with spaces; neither a program's next option nor another home
_SPACED = rf"{_PART}(?:{_WORD}){{0,4}}"  #: a folder; its name may hold spaces where a separator shows that it goes on

#: An absolute path begins after no letter, but after a compiler's option or an escaped line feed; a home folder begins anywhere.
_AFTER = r"""(?<=[\s"'=,;(\[]-[A-Za-z])|(?<=^-[A-Za-z])|(?<=\\[nrt])"""
_POSIX = rf"(?:(?<![\w./~…)\]}}\\])|{_AFTER}|(?=/(?:home|[Uu]sers)/))(?:/+|(?<!\w)~[\w.-]*/+)"
_WINDOWS = rf"(?:(?<![A-Za-z0-9])|{_AFTER}|(?=[A-Za-z]:[\\/]+[Uu]sers[\\/]))(?:[A-Za-z]:[\\/]+|\\\\+(?=\w))"
_PLACES = re.compile(
    r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>[^\s\"'`<>|\\]*)"
    rf"|(?P<posix>{_POSIX}(?:{_SPACED}/+)*(?:{_PART})?)|(?P<windows>{_WINDOWS}(?:{_SPACED}[\\/]+)+(?:{_PART})?)"
)
_HOMES = {"home", "users"}
_OWNER = re.compile(rf"[\\/](?:home|[Uu]sers)[\\/]+(?P<first>{_PART})(?P<more>(?:{_WORD}){{1,4}}(?=[\\/]))?")


def without_folders(text: str) -> str:
    """Of absolute paths the last part is left (``…/module.py``), of home folders ``~``, of URLs all but user and password."""
    return _PLACES.sub(lambda match: _url(match) if match["scheme"] else _path(match), text)


def home_owners(text: str) -> set[str]:
    """The users whose home folders a text mentions. A name may hold spaces; what may be words after it is taken for that too."""
    found = set()
    for match in _OWNER.finditer(text):
        found |= {name.rstrip(".") for name in (match["first"], match["first"] + (match["more"] or ""))}
    return found


def _url(match: re.Match[str]) -> str:
    """One without a host is a place on this machine."""
    host, slash, path = match["rest"].partition("/")
    if not host or match["scheme"].lower() == "file":
        return f"{match['scheme']}:…/{path.rstrip('/').rpartition('/')[2]}"
    return f"{match['scheme']}://{host.rpartition('@')[2]}{slash}{path}"


def _path(match: re.Match[str]) -> str:
    parts = [part for part in re.split(r"[\\/]+", match[0]) if part]
    if len(parts) < 2:
        return match[0]  # a name alone, such as /tmp, tells nothing
    if parts[-2].lower() in _HOMES:
        return "~"
    return f"…{'/' if match['posix'] else chr(92)}{parts[-1]}"
