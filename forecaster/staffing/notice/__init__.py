"""Notice of published schedules: premiums of changes at short notice, and their replay."""
