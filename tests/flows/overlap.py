"""The source of somebody's own statistic: what a document shares with the announced total."""

OVERLAP = """
@dataclass(frozen=True)
class Overlap:
    name: str = "overlap"
    version: int = 1
    family: str = "test"
    needs: tuple = ("total",)
    weighs: bool = True

    def evaluate(self, observables, documents):
        return np.asarray(documents.matrix @ observables["total"]).ravel()

OVERLAP = Overlap()
"""
