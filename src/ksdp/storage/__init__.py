"""All input and output: corpora in; blocks, findings, keys and clearances in the store."""
