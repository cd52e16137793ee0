"""One module per revision; `migrations.revision` names the newest."""
