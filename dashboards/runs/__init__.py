"""The page of the runs among parties."""
