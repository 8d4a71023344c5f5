"""Expressions on an instance type, in the part of CEL that arithmetic on its figures needs.

Whole numbers of 64 bits, fractions, text, booleans and lists; `+ - * / %`, comparisons, `&& || !`, `?:`,
`in`, min, max, int, double, string, size and the tests of text (startsWith, endsWith, contains). No macros,
maps, patterns or time: nothing here could use them. As in CEL, whole numbers and fractions do not mix in
arithmetic, and a division of whole numbers drops the fraction.
"""

from dovetail.cloud.catalog.cel.reader import Expression, read
from dovetail.cloud.catalog.cel.values import ExpressionError, Scope, Value

__all__ = ["Expression", "ExpressionError", "Scope", "Value", "read"]
