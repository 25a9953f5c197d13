"""The signature of a client's constructor with every setting in it, for `help()` and for completion in notebooks.

    class Producer:
        __signature__ = Keywords(ProducerSettings)

Type checkers read the same from `tidelog.client.options`.  It is made when somebody looks: importing a client costs nothing.
"""

import inspect
from dataclasses import MISSING
from inspect import Parameter, Signature
from typing import Any

from tidelog.settings import Section, declared


class Keywords:
    """Gives the signature of the class that has it."""

    def __init__(self, settings: type[Section]) -> None:
        self._settings = settings

    def __get__(self, instance: object, owner: type[Any]) -> Signature:
        own = [
            each
            for each in inspect.signature(owner.__init__).parameters.values()
            if each.name != "self" and each.kind is not Parameter.VAR_KEYWORD
        ]
        settings = [
            Parameter(
                each.spec.name.replace(".", "_"),
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if each.default is MISSING else each.default,
                annotation=each.kind,
            )
            for each in declared(self._settings)
        ]
        return Signature([*own, *settings])
