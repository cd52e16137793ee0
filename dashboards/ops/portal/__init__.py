"""Several pipelines in one process: a common front page, and each one's own pages under a prefix."""
