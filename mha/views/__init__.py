"""The moving views, one to a file.  Lessons ask `mha.explore` for them, which loads only the one that is asked for."""
