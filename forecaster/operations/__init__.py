"""Operation of an installation: plan, doctor, schedule, backup, retention, quarantine, leaderboard."""
