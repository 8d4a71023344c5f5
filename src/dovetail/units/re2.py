"""Regular expressions as Go reads them (RE2), for texts that Karpenter's users know from there.

What only Python has, such as looking ahead, is refused; what only Go has is translated where Python has it in
other words. Digits, words and spaces are those of ASCII.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PLAIN = "AbBdDsSwWafnrtv"  # escapes that mean the same in both
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": r"0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?([ims]*)(?:-([ims]+))?([:)])", re.ASCII)
_NAMED = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_CLASS_OF_NAMES = re.compile(r"\[:(\^?)([a-z]+):\]")
_MOST = 1000  # repeats, as in Go
# What Go says for it.
_WORDS = {
    "missing )": "missing closing )",
    "unbalanced parenthesis": "unexpected )",
    "nothing to repeat": "missing argument to repetition operator",
}


@lru_cache(maxsize=256)
def compile_re2(text: str) -> re.Pattern[str]:
    """The expression; raises ValueError that says what is wrong with it.

    Go's takes time in proportion to the text. Python's may take for ever where what is repeated without an
    end has repeats or alternatives itself: so that is refused. Ask short texts all the same.
    """
    try:
        return re.compile(_Reader(text).translated(), re.ASCII)
    except re.error as error:
        why = next((words for said, words in _WORDS.items() if error.msg.startswith(said)), error.msg)
        raise ValueError(f"error parsing regexp: {why}: `{text}`") from None


class _Reader:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._written: list[str] = []
        self._ways = [False]  # by open group: whether it may match in more than one way
        self._multiline = False

    def translated(self) -> str:
        """The same for Python."""
        text = self._text
        around = self._leading_flags()
        while self._at < len(text):
            here = text[self._at]
            if here == "\\":
                self._escape()
            elif here == "[":
                self._class()
            elif here == "(":
                self._open()
            elif here in "*+?{" and self._repeat():
                continue
            else:
                self._plain(here)
        return f"{around}{''.join(self._written)})" if around else "".join(self._written)

    def _leading_flags(self) -> str:
        found = _FLAGS.match(self._text)
        if found is None or found[3] == ":":
            return ""
        self._at = found.end()
        self._multiline = "m" in found[1]
        return f"(?{found[1]}{'-' + found[2] if found[2] else ''}:"

    def _plain(self, here: str) -> None:
        self._at += 1
        if here == "$" and not self._multiline:
            here = r"\Z"  # Python's also matches in front of a last newline
        elif here == "{":
            here = r"\{"
        elif here == "|":
            self._ways[-1] = True
        elif here == ")" and len(self._ways) > 1:
            inner = self._ways.pop()
            if inner and self._repeats_for_ever():
                raise ValueError(
                    f"what has repeats or alternatives is repeated without an end: `{self._text}`; "
                    "that may take for ever, write [ab]* for (a|b)* and a* for (a*)*"
                )
            self._ways[-1] |= inner
        self._written.append(here)

    def _repeats_for_ever(self) -> bool:
        rest = self._text[self._at :]
        found = _REPEAT.match(rest)
        return rest[:1] in ("*", "+") or (found is not None and found[2] is not None and not found[3])

    def _repeat(self) -> bool:
        """Read a quantifier; False where a brace is a plain character."""
        text, start = self._text, self._at
        found = _REPEAT.match(text, start)
        if text[start] == "{" and found is None:
            return False
        self._at = found.end() if found is not None else start + 1
        if found is not None and any(int(number) > _MOST for number in (found[1], found[3]) if number):
            raise ValueError(f"error parsing regexp: invalid repeat count: `{found[0]}`")
        self._ways[-1] = True
        if text.startswith("?", self._at):
            self._at += 1
        if self._at < len(text) and (text[self._at] in "*+?" or _REPEAT.match(text, self._at)):
            raise ValueError(
                f"error parsing regexp: invalid nested repetition operator: `{text[start : self._at + 1]}`"
            )
        self._written.append(text[start : self._at])
        return True

    def _open(self) -> None:
        text = self._text
        flags, named = _FLAGS.match(text, self._at), _NAMED.match(text, self._at)
        if not text.startswith("(?", self._at):
            written, self._at = "(", self._at + 1
        elif flags is not None and flags[3] == ":":
            self._multiline |= "m" in flags[1]
            written, self._at = flags[0], flags.end()
        elif named is not None:
            written, self._at = f"(?P<{named[1]}>", named.end()
        elif flags is not None:
            raise ValueError(f"flags are read at the beginning only, not in `{text}`; write `(?i:...)` there")
        else:
            raise ValueError(
                f"error parsing regexp: invalid or unsupported Perl syntax: `{text[self._at : self._at + 3]}`"
            )
        self._ways.append(False)
        self._written.append(written)

    def _escape(self, *, within: bool = False) -> None:
        """Read what begins with a backslash; `within` a class of characters."""
        text, start = self._text, self._at
        name = text[start + 1 : start + 2]
        if not name:
            raise ValueError("error parsing regexp: trailing backslash at end of expression: ``")
        self._at += 2
        if name == "Q" and not within:
            end = text.find(r"\E", self._at)
            literal = text[self._at : end] if end >= 0 else text[self._at :]
            self._at = end + 2 if end >= 0 else len(text)
            self._written.append(re.escape(literal))
        elif name == "z" and not within:
            self._written.append(r"\Z")
        elif name == "x":
            self._written.append(self._hexadecimal())
        elif name in _PLAIN or not (name.isalnum() and name.isascii()):
            self._written.append(text[start : self._at])
        else:
            raise ValueError(f"error parsing regexp: invalid escape sequence: `\\{name}`")

    def _hexadecimal(self) -> str:
        found = re.compile(r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})").match(self._text, self._at)
        if found is None or int(found[1] or found[2], 16) > 0x10FFFF:
            raise ValueError(r"error parsing regexp: invalid escape sequence: `\x`")
        self._at = found.end()
        return f"\\U{int(found[1] or found[2], 16):08x}"

    def _class(self) -> None:
        text, start = self._text, self._at
        self._at += 2 if text.startswith("[^", start) else 1
        self._written.append(text[start : self._at])
        first = True
        while self._at < len(text) and (first or text[self._at] != "]"):
            here, named = text[self._at], _CLASS_OF_NAMES.match(text, self._at)
            first = False
            if named is not None:
                if named[2] not in _POSIX or named[1]:
                    raise ValueError(f"error parsing regexp: invalid character class range: `{named[0]}`")
                self._written.append(_POSIX[named[2]])
                self._at = named.end()
            elif here == "\\":
                self._escape(within=True)
            else:
                # Python may once take two of some of these for an operation on sets.
                self._written.append(f"\\{here}" if here in "[]&|~" else here)
                self._at += 1
        if self._at == len(text):
            raise ValueError(f"error parsing regexp: missing closing ]: `{text[start:]}`")
        self._at += 1
        self._written.append("]")
