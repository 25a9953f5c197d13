"""Server-side assignors of KIP-848 groups: pure functions from members and topics to an assignment.

A new assignor is a new file here and a line in `ASSIGNORS`, whose names are those of `group.consumer.assignors`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tidelog.coordination.groups.assignors.range import assign_range
from tidelog.coordination.groups.assignors.spec import Assignment, MemberSpec
from tidelog.coordination.groups.assignors.uniform import assign_uniform

Assignor = Callable[[Mapping[str, MemberSpec], Mapping[Any, int]], dict[str, Assignment]]

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
