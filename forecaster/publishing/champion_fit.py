"""Compatibility of a champion with a pipeline file that differs from the one it was trained for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, joined, sentence
from forecaster.ledger.store import Ledger
from forecaster.serving.bundle import MANIFEST

OBSTACLE = N_("the model in use was made for other days or inputs than are wanted now; the next night trains one")
DIFFERENCE = N_("The model in use was made for other settings; it stays in use until a night has a new one.")


def obstacles(spec: Spec, manifest: Mapping[str, Any]) -> str | None:
    """Reasons why a champion cannot forecast for this pipeline file, and the consequence; None if
    it can."""
    reasons, horizon = [], manifest["horizon"]
    if horizon != spec.horizon:
        template = N_("the champion forecasts {days}, the pipeline file wants {wanted}")
        reasons.append(sentence(template, days=counted(horizon, "{n} day", "{n} days"), wanted=spec.horizon))
    if missing := _covariates(manifest) - {*spec.calendar.known_future}:
        singular = N_("the champion reads the known-future covariate {names}, which the pipeline file does not have")
        several = N_("the champion reads the known-future covariates {names}, which the pipeline file does not have")
        reasons.append(sentence(singular if len(missing) == 1 else several, names=_names(missing)))
    if not reasons:
        return None
    return sentence(N_("{reasons}; the next night trains one"), reasons=joined(reasons) or "")


def differences(spec: Spec, manifest: Mapping[str, Any]) -> list[str]:
    """Differences between a usable champion and the pipeline file, as sentences."""
    texts = list[str]()
    levels, declared_levels = tuple(manifest["levels"]), tuple(spec.model.quantiles)
    if levels != declared_levels:
        template = N_(
            "The champion forecasts the quantiles {levels}, the pipeline file wants {wanted}; it stays in use until "
            "a night admits another."
        )
        texts.append(sentence(template, levels=_numbers(levels), wanted=_numbers(declared_levels)))
    if new := {*spec.calendar.known_future} - _covariates(manifest) - _declared(spec, manifest):
        singular = N_(
            "The champion was trained without the known-future covariate {names}; it stays in use until a night "
            "admits another."
        )
        several = N_(
            "The champion was trained without the known-future covariates {names}; it stays in use until a night "
            "admits another."
        )
        texts.append(sentence(singular if len(new) == 1 else several, names=_names(new)))
    trained = [name for name, _ in manifest["encoding"]["statics"]]
    static = spec.depots.static if spec.depots else ()
    if {*trained} != {*static}:
        template = N_(
            "The champion describes depots by {names}, the pipeline file by {wanted}; it stays in use until a night "
            "admits another."
        )
        nothing = sentence(N_("no attribute")), sentence(N_("none"))
        values = {"names": _names(trained) or nothing[0], "wanted": _names(static) or nothing[1]}
        texts.append(sentence(template, **values))
    return texts


def of_champion(spec: Spec, ledger: Ledger) -> list[str]:
    """Sentences on the reigning champion, or on its absence under a new name; none if everything is
    as declared."""
    reigning = ledger.champion(spec.name)
    if reigning is None:
        why = under_another_name(spec, ledger)
        return [f"{_sentence(why)}."] if why else []
    try:  # for information only; inference verifies it
        text = (spec.paths.bundle(reigning.bundle_digest) / MANIFEST).read_text("utf-8")
        manifest = json.loads(text)
        obstacle = obstacles(spec, manifest)
        sentences = [f"{_sentence(obstacle)}; until then the seasonal naive forecasts."] if obstacle else []
        return [*sentences, *differences(spec, manifest)]
    except (OSError, ValueError, TypeError, KeyError):
        return []  # `forecaster doctor` reports the fault


def under_another_name(spec: Spec, ledger: Ledger) -> str | None:
    """Reason why a renamed pipeline has no champion, if its fleet had one under the old name; None
    otherwise."""
    if spec.fleet_name == spec.name or ledger.champion(spec.fleet_name) is None:
        return None
    old, new = spec.fleet_name, spec.name
    template = N_("the champion of '{old}' forecasts under that name alone; the next night of '{new}' trains one")
    return sentence(template, old=old, new=new)


def _covariates(manifest: Mapping[str, Any]) -> set[str]:
    """Columns and kinds of events that the champion reads; the open flag has a column of its own."""
    return {name.partition("=")[0] for name in manifest["encoding"]["covariates"]}


def _declared(spec: Spec, manifest: Mapping[str, Any]) -> set[str]:
    """Covariates declared in the champion's own pipeline file, some of which may have had no value
    in training.

    If that file was not kept, the current ones are assumed.
    """
    try:
        text = (spec.paths.specs / f"{manifest['spec_digest']}.json").read_text("utf-8")
        return {*json.loads(text)["calendar"]["known_future"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {*spec.calendar.known_future}


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _numbers(levels: Iterable[float]) -> str:
    return ", ".join(f"{level:g}" for level in levels)
