"""The grammar of shell scripts, as far as scripts that start jobs use it: text to commands.

Nothing is run here, and no word is expanded: each keeps its quotes, for :mod:`shell_words`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

_OPERATORS = re.compile(
    r"\n|;;&|;;|;&|;|&>>|&>|&&|&|\|\||\|&|\||<<<|<<-|<<|<>|<&|>>|>&|>\||<|>|\(|\)"
)
_REDIRECTIONS = ("&>>", "&>", "<<<", "<<-", "<<", "<>", "<&", ">>", ">&", ">|", "<", ">")
_ENDS = " \t\n;&|<>()"
_BLANKS = re.compile(r"(?:[ \t\r]|\\\n)*(?:#[^\n]*)?")
_CLOSED_BY = {"if": "fi", "case": "esac", "for": "done", "while": "done", "until": "done"}
_RESERVED = ("then", "elif", "else", "fi", "do", "done", "esac", "}", ";;")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=")
_WHOLE = re.compile(r"\\.?|\$?'[^']*'|`(?:\\.|[^`\\])*`", re.DOTALL)
"""Parts of a word in which nothing else begins."""


class ShellError(ValueError):
    """A script is not followed from a line on."""

    def __init__(self, line: int) -> None:
        super().__init__("its grammar is not followed")
        self.line = line


@dataclass
class Redirected:
    """Where a command's input comes from: ``<``, ``<<`` or ``<<<``, the word after it, and the
    text of a here-document."""

    how: str
    word: str
    text: str = ""


@dataclass(frozen=True)
class ShellCommand:
    """One command. Its kind is ``simple``, ``test`` and ``arithmetic``, which have words, or one
    of the compound ones: ``group``, ``subshell``, ``if``, ``while``, ``until``, ``for``, ``case``,
    ``function``. ``bodies`` are its lists, in their order; for ``case`` those of its patterns.
    ``source`` is what it reads if that is redirected."""

    kind: str
    line: int
    words: tuple[str, ...] = ()
    bodies: tuple[tuple[ShellStep, ...], ...] = ()
    source: Redirected | None = None

    def simple(self) -> Iterator[ShellCommand]:
        """Yield the commands in this one that have words only."""
        if not self.bodies:
            yield self
        for body in self.bodies:
            yield from simple_commands(body)


@dataclass(frozen=True)
class Pipeline:
    """Commands that are joined by pipes, after ``&&``, ``||`` or nothing."""

    joint: str
    commands: tuple[ShellCommand, ...]
    inverted: bool = False


@dataclass(frozen=True)
class ShellStep:
    """Pipelines that depend on each other, in the background or not."""

    pipelines: tuple[Pipeline, ...]
    background: bool


def simple_commands(body: tuple[ShellStep, ...]) -> Iterator[ShellCommand]:
    """Yield the commands of a list that have words only, whatever they stand in."""
    for step in body:
        for pipeline in step.pipelines:
            for command in pipeline.commands:
                yield from command.simple()


@dataclass(frozen=True)
class _Token:
    text: str
    line: int
    is_word: bool


class Lexer:
    """Words and operators of a script, without comments; redirections of input are in ``sources``
    until the command that they belong to takes them."""

    def __init__(self, text: str, line: int = 1) -> None:
        self.text, self.at, self.line = text, 0, line
        self.redirections = 0
        self.sources: list[Redirected] = []
        self._documents: list[Redirected] = []
        self._number = ""

    def token(self) -> _Token:
        """Return the next token; an empty one at the end."""
        while True:
            blanks = _BLANKS.match(self.text, self.at)
            self._to(blanks.end() if blanks else self.at)
            line, start = self.line, self.at
            if self.at >= len(self.text):
                return _Token("", line, is_word=False)
            if self.text.startswith("((", start) and (end := self._arithmetic()):
                return _Token(self._to(end), line, is_word=True)
            found = _OPERATORS.match(self.text, start)
            substitution = self.text[start : start + 2] in ("<(", ">(")
            if found is None or substitution:
                word = self._word()
                if word.isdecimal() and self.text[self.at : self.at + 1] in ("<", ">"):
                    self._number = word  # of a redirected file
                    continue
                return _Token(word, line, is_word=True)
            operator = self._to(found.end())
            if operator in _REDIRECTIONS:
                self._redirect(operator)
                continue
            if operator == "\n":
                self._read_documents()
            return _Token(operator, line, is_word=False)

    def _to(self, end: int) -> str:
        text = self.text[self.at : end]
        self.line += text.count("\n")
        self.at = end
        return text

    def _redirect(self, operator: str) -> None:
        self._to(self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip(" \t")))
        source = Redirected(operator if operator in ("<<", "<<-", "<<<") else "<", self._word())
        number, self._number = self._number, ""
        self.redirections += 1
        if "<" in operator and number in ("", "0"):
            self.sources.append(source)
        if operator in ("<<", "<<-"):
            self._documents.append(source)

    def _read_documents(self) -> None:
        for source in self._documents:
            end, lines = re.sub(r"[\"'\\]", "", source.word), list[str]()
            while self.at < len(self.text):
                newline = self.text.find("\n", self.at)
                line = self._to(newline + 1 if newline >= 0 else len(self.text)).rstrip("\n")
                line = line.lstrip("\t") if source.how == "<<-" else line
                if line == end:
                    break
                lines.append(f"{line}\n")
            source.text = "".join(lines)
        self._documents.clear()

    def _arithmetic(self) -> int:
        """Return the end of ``((...))``; 0 if it is two subshells."""
        end = _closed(self.text, self.at, self.line)
        inner = _closed(self.text, self.at + 1, self.line)
        return end if inner == end - 1 else 0

    def _word(self) -> str:
        at, text = self.at, self.text
        while at < len(text):
            is_array = text[at] == "(" and _ARRAY.fullmatch(text, self.at, at)
            if text[at] in _ENDS and not is_array and (at > self.at or text[at] not in "<>"):
                break
            at = part_end(text, at + (text[at] in "<>"), self.line)
        return self._to(at).replace("\\\n", "")


def part_end(text: str, at: int, line: int = 0) -> int:
    """Return where the part of a word ends that starts at a place: a character, a quotation, an
    expansion."""
    if (whole := _WHOLE.match(text, at)) is not None:
        return whole.end()
    if text.startswith(("$(", "${", "("), at):
        return _closed(text, at + (text[at] == "$"), line)
    end = at + 1
    if text[at] == '"':
        while end < len(text) and text[end] != '"':
            end = part_end(text, end, line) if text[end] in "\\$`" else end + 1
        end += 1
    if end > len(text) or text.startswith(("'", "`", "$'"), at):
        raise ShellError(line)
    return end


def _closed(text: str, at: int, line: int) -> int:
    """Return where the bracket ends that opens at a place."""
    close = {"(": ")", "{": "}"}[text[at]]
    opened, at = text[at], at + 1
    while at < len(text):
        if text[at] == close:
            return at + 1
        if text[at] == "#" and opened == "(" and text[at - 1] in " \t\n":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
        elif text[at] == opened:
            at = _closed(text, at, line)
        else:
            at = part_end(text, at, line)
    raise ShellError(line)


class Parser:
    """Reads a script step by step, as a shell does: what follows an error is not reached."""

    def __init__(self, text: str, line: int = 1) -> None:
        self._lexer = Lexer(text, line)
        self._redirections = 0
        self._next = self._lexer.token()

    def steps(self) -> Iterator[ShellStep]:
        """Yield the steps of the script. Raises ``ShellError`` at what is not followed."""
        while self._skip_newlines():
            if self._next.is_word and self._next.text in _RESERVED:
                raise ShellError(self._next.line)
            yield self._step()

    def _advance(self) -> _Token:
        token, self._redirections = self._next, self._lexer.redirections
        self._next = self._lexer.token()
        return token

    def _expect(self, *texts: str) -> _Token:
        if self._next.text not in texts:
            raise ShellError(self._next.line)
        return self._advance()

    def _skip_newlines(self) -> bool:
        while not self._next.is_word and self._next.text in ("\n", ";"):
            self._advance()
        return bool(self._next.text)

    def _list(self, *ends: str) -> tuple[ShellStep, ...]:
        """Read steps up to one of some words, which is left."""
        steps: list[ShellStep] = []
        while self._skip_newlines() and self._next.text not in ends:
            if self._next.text in _RESERVED:
                raise ShellError(self._next.line)
            steps.append(self._step())
        if not self._next.text:
            raise ShellError(self._next.line)
        return tuple(steps)

    def _step(self) -> ShellStep:
        pipelines, joint = list[Pipeline](), ""
        while True:
            inverted = False
            while self._next.is_word and self._next.text in ("!", "time"):
                inverted ^= self._advance().text == "!"
            commands = [self._command()]
            while not self._next.is_word and self._next.text in ("|", "|&"):
                self._advance()
                self._skip_newlines()
                commands.append(self._command())
            pipelines.append(Pipeline(joint, tuple(commands), inverted))
            if self._next.is_word or self._next.text not in ("&&", "||"):
                break
            joint = self._advance().text
            self._skip_newlines()
        background = not self._next.is_word and self._next.text == "&"
        if background or (not self._next.is_word and self._next.text in (";", "\n")):
            self._advance()
        return ShellStep(tuple(pipelines), background)

    def _command(self) -> ShellCommand:
        before = len(self._lexer.sources)
        command = self._bare_command()
        own = self._lexer.sources[before:]
        del self._lexer.sources[before:]
        return replace(command, source=own[-1]) if own else command

    def _bare_command(self) -> ShellCommand:
        token = self._next
        if not token.is_word and token.text != "(":
            if self._lexer.redirections == self._redirections:
                raise ShellError(token.line)
            self._redirections = self._lexer.redirections  # what is redirected is nothing
            return ShellCommand("simple", token.line)
        if token.text.startswith("((") and token.text.endswith("))"):
            self._advance()
            return ShellCommand("arithmetic", token.line, (token.text[2:-2],))
        if token.text in ("{", "("):
            self._advance()
            body = self._list("}" if token.text == "{" else ")")
            self._advance()
            kind = "group" if token.text == "{" else "subshell"
            return ShellCommand(kind, token.line, (), (body,))
        reader = {
            "if": self._if,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "case": self._case,
            "function": self._function,
            "[[": self._test,
        }.get(token.text)
        return reader() if reader else self._simple()

    def _words(self) -> tuple[str, ...]:
        words = list[str]()
        while self._next.is_word:
            words.append(self._advance().text)
        return tuple(words)

    def _simple(self) -> ShellCommand:
        line, words = self._next.line, self._words()
        if len(words) == 1 and not self._next.is_word and self._next.text == "(":
            return self._defined(line, words[0])
        return ShellCommand("simple", line, words)

    def _function(self) -> ShellCommand:
        return self._defined(self._advance().line, self._advance().text)

    def _defined(self, line: int, name: str) -> ShellCommand:
        if not self._next.is_word and self._next.text == "(":
            self._advance()
            self._expect(")")
        self._skip_newlines()
        body = ShellStep((Pipeline("", (self._command(),)),), background=False)
        return ShellCommand("function", line, (name,), ((body,),))

    def _test(self) -> ShellCommand:
        line, words = self._advance().line, list[str]()
        while self._next.text and self._next.text != "]]":
            words.append(self._advance().text)
        self._expect("]]")
        return ShellCommand("test", line, tuple(words))

    def _if(self) -> ShellCommand:
        line, bodies = self._advance().line, list[tuple[ShellStep, ...]]()
        while True:
            bodies.append(self._list("then"))
            self._advance()
            bodies.append(self._list("elif", "else", "fi"))
            end = self._advance().text
            if end == "elif":
                continue
            if end == "else":
                bodies.append(self._list("fi"))
                self._advance()
            return ShellCommand("if", line, (), tuple(bodies))

    def _while(self) -> ShellCommand:
        token = self._advance()
        condition = self._list("do")
        return ShellCommand(token.text, token.line, (), (condition, self._do()))

    def _do(self) -> tuple[ShellStep, ...]:
        self._skip_newlines()
        end = {"do": "done", "{": "}"}[self._expect("do", "{").text]
        body = self._list(end)
        self._advance()
        return body

    def _for(self) -> ShellCommand:
        line, name = self._advance().line, self._advance().text
        self._skip_newlines()
        words: tuple[str, ...] = () if name.startswith("((") else ('"$@"',)
        if self._next.text == "in":
            self._advance()
            words = self._words()
        return ShellCommand("for", line, (name, *words), (self._do(),))

    def _case(self) -> ShellCommand:
        line, words = self._advance().line, [self._advance().text]
        bodies: list[tuple[ShellStep, ...]] = []
        self._skip_newlines()
        self._expect("in")
        while self._skip_newlines() and self._next.text != "esac":
            patterns: list[str] = []
            while self._next.text != ")":
                token = self._advance()
                if not token.text:
                    raise ShellError(token.line)
                patterns += [token.text] if token.is_word else []
            self._advance()
            words.append("|".join(patterns))
            bodies.append(self._list(";;", ";&", ";;&", "esac"))
            if self._next.text != "esac":
                self._advance()
        self._expect("esac")
        return ShellCommand("case", line, tuple(words), tuple(bodies))
