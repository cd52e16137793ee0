"""Access control: who may see what, and who may write. Routes need nothing beyond this module.

A route that writes takes `person = Depends(require("planner"))`, which rejects everyone else and
requests from foreign pages, and calls `audit(request, what, connection)` in the transaction of its
write. A route that reads shows only `person(request).cities`.
"""

from __future__ import annotations

from dashboards.ops.access.audit import audit
from dashboards.ops.access.csrf import csrf_token
from dashboards.ops.access.person import Person, person
from dashboards.ops.access.roles import Role, require

__all__ = ["Person", "Role", "audit", "csrf_token", "person", "require"]
