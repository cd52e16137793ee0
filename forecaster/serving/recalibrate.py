"""Recalibration: compute the medians of a bundle with another bundle's calibration.

Two values outside the network's weights are fitted on a candidate's last days before the held-out
ones: the width of the intervals, which leaves medians alone, and the share by which a median is
drawn to the seasonal anchor. That share can be taken from another bundle, since the anchor follows
from the inputs; the weights of the members cannot, as they belong to these members.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.panel import Panel
from forecaster.errors import BundleError
from forecaster.serving.bundle import Bundle
from forecaster.serving.numpy_model import MAX_LOG_COUNT, ReferenceModel, before_following, followed

CHUNK = 4096  # depots at a time; bounds memory


def medians(predicted: Floats, panel: Panel, bundle: Bundle, other: Bundle) -> Doubles:
    """Convert the medians `predicted` (depots, horizon), which a bundle made for a panel, to the
    other bundle's anchor share.

    Raises BundleError if a bundle has no such share, or its medians equal the anchor.
    """
    model, other_model = (ReferenceModel(b.weights, b.manifest) for b in (bundle, other))
    try:
        share, other_share = (float(m.weights["blend.anchor"]) for m in (model, other_model))
    except KeyError as error:
        raise BundleError(f"bundle {bundle.name}: found no {error}, wanted the share of the anchor") from error
    if share == other_share:
        return predicted.astype(float)
    if not share < 1:
        raise BundleError(f"bundle {bundle.name}: its medians equal the anchor's, which does not verify its weights")
    parts = []
    for start in range(0, len(panel.depot_ids), CHUNK):
        rows = slice(start, start + CHUNK)
        window = panel.window(bundle.lookback, rows)
        read = model.features(window)
        anchor, (weight, tree_median) = read.anchor, model.trees(read)
        open_ = panel.open[rows, panel.history :]
        log = before_following(np.log1p(predicted[rows].astype(float)), anchor, open_, *read.moves)
        middle = ((log - weight * tree_median) / (1 - weight) - share * anchor) / (1 - share)
        blend = middle + other_share * (anchor - middle)
        blend = followed(blend + weight * (tree_median - blend), anchor, open_, *read.moves)
        parts.append(np.where(open_, np.expm1(np.minimum(np.clip(blend, 0, MAX_LOG_COUNT), model.bound(window))), 0.0))
    return np.concatenate(parts)
