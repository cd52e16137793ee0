"""Metric names with unit and meaning: the stages of a night and the metrics of a model."""

from __future__ import annotations

from typing import NamedTuple


class Stage(NamedTuple):
    meaning: str
    seconds: float  # what it takes on two cores with 64 depots: the first night's guess, later ones know better


STAGES = {
    "ingest": Stage("sources into the lake", 2),
    "panel": Stage("dense arrays as of tonight", 1),
    "weigh": Stage("is a training worth it tonight? Of `training.when: worthwhile`", 0),
    "train": Stage("compile, where that is new, fit the GRU and calibrate it", 35),
    "backtest": Stage("replay the last days", 6),
    "gate": Stage("may it go out?", 0.1),
    "export": Stage("ONNX, and its parity with JAX", 12),
    "record": Stage("what the registry is to be told", 4),
    "register": Stage("the run into MLflow", 8),
    "promote": Stage("the champion moves", 0.5),
    "predict": Stage("forecast on CPU and publish", 3),
    "tidy": Stage("remove what was kept long enough", 0),
}


class Metric(NamedTuple):
    unit: str
    meaning: str


METRICS = {
    "mape": Metric("share", "mean absolute error as a share of the actual, over days with orders"),
    "wape": Metric("share", "sum of absolute errors over sum of actuals"),
    "mase": Metric("ratio", "mean absolute error over the in-sample seasonal-naive error, mean over depots"),
    "bias": Metric("share", "forecast minus actual, over actual: above zero is too much"),
    "wql": Metric("share", "weighted quantile loss, mean over levels"),
    "coverage": Metric("share", "actuals within the 80 % interval"),
    "width": Metric("share", "width of the 80 % interval over the actual"),
    "days": Metric("depot-days", "scored days"),
    "train_loss": Metric("log counts", "Huber quantile loss on the crops of an epoch"),
    "validation_loss": Metric("log counts", "the same on the validation days"),
    "learning_rate": Metric("1", "after the epoch"),
    "gradient_norm": Metric("1", "the largest of an epoch's steps and members, before clipping"),
    "train_seconds": Metric("s", "whole training"),
    "train_compile_seconds": Metric("s", "of it in XLA's compiler, or reading its cache"),
    "train_compile_misses": Metric("programs", "compiled for it because the cache did not have them"),
    "compile_seconds": Metric("s", "of an epoch in XLA's compiler, or reading its cache"),
    "compile_misses": Metric("programs", "of an epoch, compiled because the cache did not have them"),
    "compile_hits": Metric("programs", "of an epoch, taken from the cache"),
    "depot_days_a_second": Metric("1/s", "read by the encoder in an epoch"),
    "parity": Metric("share", "largest relative difference between ONNX and JAX"),
}
