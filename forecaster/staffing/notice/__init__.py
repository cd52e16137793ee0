"""Notice of published schedules: premiums for changes at short notice, and their replay."""
