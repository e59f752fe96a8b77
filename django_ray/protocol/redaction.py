"""Secrets taken out of text before it is digested, stored or sent. Contract 4.16.

One compiled expression over one text, once, where the text is born. Each of its branches
starts with a literal and either consumes what it looked at or gives up within a bound, so
its time is linear in the text. Values are open at their end: a secret divided by a cut is
still taken out. In doubt it takes too much.
"""

import functools
import re
from collections.abc import Mapping

from django_ray.errors import ConfigurationError
from django_ray.protocol import text
from django_ray.protocol.frames import Failure
from django_ray.protocol.limits import V1
from django_ray.protocol.values import Metric

MARK = "[redacted]"

_WORDS = r"passw(?:or)?d|secret|token|api[ _-]?key|private|authorization|cookie"

_SIGNS = (
    *("passw", "secret", "token", "api", "private", "authorization", "cookie"),
    *("://", "bearer", "basic", "eyj", "-----begin", "akia", "asia", "abia", "acca"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "xapp-"),
    *("hooks.slack.com", "_live_", "_test_", "whsec_"),
    *("aiza", "ya29.", "gocspx-", "1//0"),
)
"""One of these stands, in lower case, in every text a built-in form matches."""

_PEM = r"-----BEGIN[ ][A-Z0-9 ]{0,64}----- [\s\S]*? (?: -----END[^-]{0,80}----- | \Z )"

_KEY = r"""
    (?i: WORDS ) [\w.-]{0,128}+ [\\"']{0,8}+
    (?: \s{0,8}+
        (?: : \s? (?: str | bytes ) (?: \s?\|\s?None )? \s?=    # an annotated name
          | [!:=]{1,3}+ >?
          | > (?= [^\s<:=] ) )                                  # an XML element
      | (?<= ["'] ) \s{0,8}+ , (?= \s{0,8} [bBrRuUfF]{0,2} ["'] ) )
    \s{0,8}+
"""
"""The end of a name that contains one of the words, and what leads to its value."""

_WORD = r"(?: (?! -----BEGIN ) (?: \\\s | \S ) )"

_BARE = rf"""
    (?: {_PEM}
      | [\[({{] (?: [^][(){{}}]++ | [\[({{] [^][(){{}}]*+ [])}}]? )*+ [])}}]? {_WORD}*+
      | (?: (?i: bearer | basic | digest | token ) \s{{1,8}} )? {_WORD}++ )
"""
"""A value without quotes: a PEM block, what brackets hold, or one word."""

_FORMS = rf"""
    (?P<line> (?i: authorization | cookie ) [\w-]{{0,128}}+ \s{{0,8}}+ [:=] \s{{0,8}}+
              (?! [bBrRuUfF]{{0,2}} \\{{0,8}} ["'] ) )
        (?: (?! -----BEGIN ) [^\r\n] )*+
  | (?P<key> {_KEY}
             (?: [bBrRuUfF]{{0,2}} \\{{0,8}} (?: (?P<double>") | (?P<single>') ) )? )
        (?(double) (?: [^"\\] | \\[\s\S]? )*+
                 | (?(single) (?: [^'\\] | \\[\s\S]? )*+ | {_BARE} ) )
  | (?P<flag> (?<! [\w-] ) -- (?!-) [\w-]{{0,32}}? (?i: WORDS ) [\w-]{{0,128}}+
              [ \t]{{1,8}}+ ) (?!--) (?: " [^"]*+ | ' [^']*+ | \S++ )
  | (?P<url> :// )
        (?: [^\s/?\#:"'<>]* : (?! \d{{0,5}} (?: [/?\#\s] | \Z ) )   # not a port
            (?: (?! :// ) [^\s"'<>] )* (?=@)
          | [^\s/?\#"'<>]* (?=@) )
  | (?P<bearer> (?i: bearer ) (?: [\s:=+] | %20 ){{1,8}}+ ) [^\s"'<>]++
  | (?P<basic> (?i: basic ) (?: [\s:=+] | %20 ){{1,8}}+ )
        (?= [A-Za-z0-9+/] [a-z]*+ [A-Z0-9+/=] ) [A-Za-z0-9+/=_-]{{6,}}+
  | {_PEM}
  | eyJ [A-Za-z0-9_-]{{8,}}+ (?: \.[A-Za-z0-9_-]*+ ){{0,4}}+
  | (?: AKIA | ASIA | ABIA | ACCA ) [A-Z0-9]{{16}}
  | (?: gh[pousr]_ | github_pat_ ) [A-Za-z0-9_]{{16,}}+
  | (?: xox[a-z][-.] | xapp- ) [A-Za-z0-9.-]{{8,}}+ | hooks\.slack\.com/ [\w/-]++
  | [prs]k_ (?: live | test ) _ [A-Za-z0-9]{{8,}}+ | whsec_ [A-Za-z0-9+/=]{{8,}}+
  | AIza [A-Za-z0-9_-]{{30,}}+ | ya29\. [A-Za-z0-9_.-]{{16,}}+
  | GOCSPX- [A-Za-z0-9_-]{{16,}}+ | 1//0 [A-Za-z0-9_-]{{20,}}+
"""

_HEADS = ("line", "key", "flag", "url", "bearer", "basic")
"""The groups that hold what stays in front of the mark."""

_plain_word = re.compile(r"[\w -]+")

_MARGIN = 512
"""Longer than every form of fixed length: what a cut may have divided of one."""

KEYS = 1_024
"""Keys remembered as redacted: reports repeat theirs."""


class Redactor:
    """Takes the built-in forms and those of a deployment out of text.

    An entry of `extra` is a regular expression: what it matches is taken out. A plain word
    is a word of keys besides, so the values under such keys go too. Their time is theirs.
    """

    def __init__(self, extra: tuple[str, ...]) -> None:
        words = [re.escape(entry) for entry in extra if _plain_word.fullmatch(entry)]
        forms = _FORMS.replace("WORDS", "|".join([_WORDS, *words]))
        self._forms = self._key_forms = re.compile(forms, re.VERBOSE)
        if words:
            forms += f"  | (?i: {'|'.join(words)} )"
            self._forms = re.compile(forms, re.VERBOSE)
        self._words = re.compile("|".join([_WORDS, *words]), re.IGNORECASE)
        self._signs = (*_SIGNS, *(word.lower() for word in extra if word))
        self._further = [
            _compiled(entry) for entry in extra if not _plain_word.fullmatch(entry)
        ]
        self.key = functools.lru_cache(KEYS)(self._key)

    def text(self, value: str) -> str:
        """Return the whole of `value` without its secrets."""
        return self._taken_out(self._forms, value)

    def _taken_out(self, forms: re.Pattern[str], value: str) -> str:
        lowered = value.lower()
        for sign in self._signs:
            if sign in lowered:
                value = forms.sub(_marked, value)
                break
        for form in self._further:
            value = form.sub(MARK, value)
        return value

    def fit(self, value: str, limit: int) -> str:
        """Return `value` redacted, safe and within `limit` bytes; see `text.fit`.

        Of a long text only a window is looked at. What a window's end may have divided is
        never shown: forms without a length are taken out up to it, and a margin longer
        than the others is dropped. Colours go first: they could divide a secret.
        """
        value = text.unstyled(value)
        window = 4 * limit + 2 * _MARGIN
        if len(value) <= window:
            return text.fit(self.text(text.clean(value)), limit)
        # With the sign behind it the userinfo of a divided URL is recognised as well.
        head = self.text(text.clean(value[:window]) + "@")
        shown = max(len(head) - _MARGIN, head.rfind(MARK) + len(MARK))
        return text.cut(head[:shown], limit, text.size(value))

    def label(self, value: str, limit: int) -> str:
        """Return `value` redacted, as a safe line within `limit` bytes: `text.label`."""
        if len(value) > 4 * limit:
            value = self.fit(value, 2 * limit)
        return text.label(self.text(value), limit)

    def mapping(self, metrics: Mapping[str, Metric]) -> dict[str, Metric]:
        """Return metrics without secrets: in keys, under such keys, and in texts.

        Keys that differ in their secrets alone become one, whose value is the mark.
        """
        taken: dict[str, Metric] = {}
        for key, value in metrics.items():
            shown, hides = self.key(key)
            known = shown in taken
            taken[shown] = MARK if hides or known else self._value(value)
        return taken

    def _key(self, key: str) -> tuple[str, bool]:
        """Return a key without its secrets, and whether what it names is one.

        A key that contains a plain word of the deployment keeps it, as it does in texts.
        """
        shown = self._taken_out(self._key_forms, key)
        return shown, self._words.search(key) is not None

    def _value(self, value: Metric) -> Metric:
        if not isinstance(value, str):
            return value
        # A text too long for a metric is refused later: it need not cost its length.
        return (
            self.text(value) if len(value) <= V1.record else self.fit(value, V1.record)
        )


def compose(kind: str, message: str, redactor: Redactor) -> Failure:
    """Return a classified error, redacted, class and text together within 2 KiB."""
    name = text.label(redactor.fit(kind, V1.error_kind), V1.error_kind) or "Error"
    room = V1.error - text.size(name)
    return Failure(kind=name, text=redactor.fit(message, room))


def _marked(match: re.Match[str]) -> str:
    for name in _HEADS:
        found = match[name]
        if found is not None:
            return f"{found}{MARK}"
    return MARK


def _compiled(entry: str) -> re.Pattern[str]:
    try:
        form = re.compile(entry)
    except (re.error, ValueError, OverflowError, RecursionError) as exc:
        # Flags that exclude each other, a count past the engine's, groups within groups.
        raise ConfigurationError("An expression of REDACT does not compile.") from exc
    if form.search("") is not None:
        raise ConfigurationError("An expression of REDACT matches the empty text.")
    return form
