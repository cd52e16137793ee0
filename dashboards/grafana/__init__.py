"""Dashboards for Grafana as code: `python -m dashboards.grafana` writes the JSON files beside this one anew."""
