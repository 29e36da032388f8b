"""The tables and figures of the papers that ksdp follows, measured again: `python -m papers`.

Scripts on what `import ksdp` offers and nothing else; they are not installed with the package.
"""
