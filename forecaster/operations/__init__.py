"""What keeps an installation going: plan, doctor, schedule, backup, retention, quarantine,
leaderboard."""
