"""Inference service: the champion behind the Open Inference Protocol (V2), and forecasts by depot."""
