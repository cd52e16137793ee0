"""Checks of Kubernetes' Pod Security Standard `restricted`, which our namespace enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def restricted(pod: Mapping[str, Any]) -> list[str]:
    """Return the fields for which a pod would be rejected; empty if it is accepted.

    Covers the container settings of kubernetes.io/docs/concepts/security/pod-security-standards.
    """
    of_pod = pod.get("securityContext", {})
    refused = []
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        own = container.get("securityContext", {})
        both = {**of_pod, **own}
        allowed = {
            "runAsNonRoot": both.get("runAsNonRoot") is True,
            "seccompProfile": both.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "capabilities": "ALL" in own.get("capabilities", {}).get("drop", ()),
        }
        refused += [f"{container['name']}: {field}" for field, is_allowed in allowed.items() if not is_allowed]
    return refused
