"""Several pipelines in one process: a front page of all, and each one's own pages under a
prefix."""
