"""Reading what is typed; what cannot be is a usage error that names the value and the cure."""

from collections.abc import Callable, Collection
from sys import float_info
from typing import TypeVar

import typer

_T = TypeVar("_T")
_N = TypeVar("_N", int, float)
_KINDS = {int: "whole number", float: "number"}
_SHOWN = 40
_FINITE = float_info.max


def reading(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Turn what a parser refuses into a usage error."""

    def read(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return read


def in_range(kind: type[_N], least: int, most: float = _FINITE) -> Callable[[str], _N]:
    """Make a parser of finite numbers that refuses those out of bounds; both bounds are taken."""
    bounds = f"of {least} or more" if most == _FINITE else f"from {least} to {most}"

    def parse(text: str) -> _N:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            msg = f"{text[:_SHOWN]!r} is no {_KINDS[kind]} {bounds}"
            raise ValueError(msg)
        return number

    return reading(parse)


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """Make a parser that takes some words."""

    def parse(text: str) -> str:
        if text not in words:
            msg = f"{text[:_SHOWN]!r} is not one of {', '.join(words)}"
            raise ValueError(msg)
        return text

    return reading(parse)
