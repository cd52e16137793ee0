"""Types of the public names, which `__init__.py` imports when they are first used."""

from forecaster.api.backtest_result import BacktestResult as BacktestResult
from forecaster.api.estimator import Forecaster as Forecaster
from forecaster.api.functions import backtest as backtest
from forecaster.api.functions import roster as roster
from forecaster.api.pipeline_frames import Pipeline as Pipeline
from forecaster.api.pipeline_frames import load as load
from forecaster.errors import BundleError as BundleError
from forecaster.errors import ForecasterError as ForecasterError
from forecaster.errors import MissingExtra as MissingExtra
from forecaster.errors import NoUsableData as NoUsableData
from forecaster.errors import SpecError as SpecError
from forecaster.errors import TrainingError as TrainingError

__version__: str
