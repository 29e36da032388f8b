"""What the parties learn by a run, and what protecting documents costs of it."""
