"""Array types by content: NumPy arrays of floats, counts, truth values and days."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


Doubles = NDArray[np.float64]


Bools = NDArray[np.bool_]


Ints = NDArray[np.int32]


Days = NDArray[np.datetime64]
