"""Kill, pause and damage an installation, and compare what becomes of it with one that nothing happened to."""
