"""Label selectors, in their object form and their text form, and node selector terms.

Unlike requirements, expressions here are judged one by one on a node's or pod's actual labels, exactly as
the API server and the scheduler do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dovetail.api.core import NodeSelector, NodeSelectorTerm, Pod
from dovetail.api.meta import LabelSelector
from dovetail.base.memo import by_identity
from dovetail.model.label_values import SelectorLike, integer

_NODE_NAME = "metadata.name"  # the one field that terms may ask for
_TEXT_OPERATORS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}
_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<missing>[^\s,()!=<>]+)"
    r"|(?P<key>[^\s,()!=<>]+)\s*(?:"
    r"(?P<set>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<operator>==|!=|=|>|<)\s*(?P<value>[^\s,()!=<>]*))?)\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True, order=True)
class Expression:
    """One condition on one label. Operators: In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte, Lte."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True iff labels satisfy it; an absent label satisfies NotIn and DoesNotExist."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and bool(self.values) and self._compares(value, self.values[0])

    def _compares(self, value: str, limit: str) -> bool:
        here, bound = integer(value), integer(limit)
        if here is None or bound is None:
            return False
        return {"Gt": here > bound, "Gte": here >= bound, "Lt": here < bound, "Lte": here <= bound}[
            self.operator
        ]


@dataclass(frozen=True, slots=True)
class Selector:
    """Expressions that must all hold; None selects nothing, an empty tuple everything."""

    expressions: tuple[Expression, ...] | None = ()

    @staticmethod
    def read(selector: LabelSelector | None) -> Selector:
        """The object form; an absent selector selects nothing."""
        return NOTHING if selector is None else _read(selector)

    @staticmethod
    def of(expressions: Iterable[Expression]) -> Selector:
        """One selector of these expressions, whatever order they come in."""
        return Selector(tuple(sorted(set(expressions))))

    @staticmethod
    def parse(text: str) -> Selector:
        """The text form: `a=b,c!=d,e in (f,g),h,!i`. Raises ValueError that says where it goes wrong."""
        return _parse(text.strip())

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True iff labels are selected."""
        if self.expressions is None:
            return False
        # A plain loop: asked of every pod for every budget, rule and owner; a generator costs more.
        for item in self.expressions:  # noqa: SIM110 - see above
            if not item.matches(labels):
                return False
        return True

    def also(self, *expressions: Expression) -> Selector:
        """Narrowed by further expressions; nothing stays nothing."""
        return self if self.expressions is None else Selector.of((*self.expressions, *expressions))

    @property
    def keys(self) -> frozenset[str]:
        """The labels that it looks at."""
        return frozenset(item.key for item in self.expressions or ())


EVERYTHING = Selector()
NOTHING = Selector(None)


@by_identity(4096)
def _read(selector: LabelSelector) -> Selector:
    labels = [Expression(key, "In", (value,)) for key, value in selector.match_labels.items()]
    return Selector.of([*labels, *_expressions(selector.match_expressions)])


def _expressions(items: Iterable[SelectorLike]) -> list[Expression]:
    return [Expression(item.key, item.operator, tuple(sorted(item.values))) for item in items]


@lru_cache(maxsize=4096)
def _parse(text: str) -> Selector:
    found: list[Expression] = []
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(
                f"cannot read label selector {text!r} at {text[position:]!r}; valid are key, !key, "
                "key=value, key!=value, key in (a,b) and key notin (a,b), joined by commas"
            )
        found.append(_term(match))
        position = match.end()
    return Selector.of(found)


def _term(match: re.Match[str]) -> Expression:
    if match["absent"]:
        return Expression(match["missing"], "DoesNotExist")
    if match["set"]:
        values = tuple(sorted(value.strip() for value in match["values"].split(",")))
        return Expression(match["key"], _TEXT_OPERATORS[match["set"]], values)
    if match["operator"]:
        return Expression(match["key"], _TEXT_OPERATORS[match["operator"]], (match["value"],))
    return Expression(match["key"], "Exists")


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a node selector."""

    labels: Selector
    fields: Selector  # of `metadata.name`, the only field there is

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """True iff a node of this name and these labels satisfies the term; an empty term matches none."""
        if not self.labels.expressions and not self.fields.expressions:
            return False
        return self.labels.matches(labels) and self.fields.matches({_NODE_NAME: name})


@dataclass(frozen=True, slots=True)
class NodeRule:
    """A pod's nodeSelector and required node affinity."""

    selector: Selector = EVERYTHING
    terms: tuple[NodeTerm, ...] | None = None  # None: no required affinity

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """True iff the scheduler would let the pod onto such a node."""
        if not self.selector.matches(labels):
            return False
        return self.terms is None or any(term.matches(name, labels) for term in self.terms)


def named_nodes(rule: NodeRule) -> frozenset[str] | None:
    """The nodes that every alternative of the rule names; None where some other node may be meant.

    The scheduler then looks at no others. Where the alternatives contradict themselves the set is empty.
    """
    if not rule.terms:
        return None
    found: set[str] = set()
    for term in rule.terms:
        lists = [
            frozenset(item.values)
            for item in term.fields.expressions or ()
            if item.key == _NODE_NAME and item.operator == "In"
        ]
        if not lists:
            return None
        found |= frozenset.intersection(*lists)
    return frozenset(found)


def node_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """The alternatives of a node selector."""
    return tuple(node_term(term) for term in selector.node_selector_terms)


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    """One alternative."""
    return NodeTerm(
        Selector.of(_expressions(term.match_expressions)), Selector.of(_expressions(term.match_fields))
    )


_ANY_NODE = NodeRule(Selector.of(()), None)


def node_rule(pod: Pod) -> NodeRule:
    """What a pod's nodeSelector and required node affinity say."""
    if not pod.spec.node_selector and pod.spec.affinity is None:
        return _ANY_NODE
    exact = Selector.of(Expression(key, "In", (value,)) for key, value in pod.spec.node_selector.items())
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required if affinity else None
    return NodeRule(exact, None if required is None else node_terms(required))
