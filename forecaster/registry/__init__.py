"""The model registry: runs and models in MLflow, sent through an outbox, and the champion's
aliases."""
