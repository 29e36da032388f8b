"""What the parties learn: gain, and the settings between gain and leak."""
