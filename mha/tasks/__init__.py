"""The tasks on which the course trains: `lookback` (lesson 02) and `dates` (lesson 07)."""
