"""The server: federated averaging over all clinics."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Average what the clinics send, round by round, and keep the last model."""
    zeros = {"coef": np.zeros((1, context.run_config["features"])), "intercept": np.zeros(1)}
    start = ArrayRecord({name: Array(array) for name, array in zeros.items()})
    rounds = context.run_config["num-server-rounds"]
    result = FedAvg(min_available_nodes=3, fraction_evaluate=0.0).start(grid, start, num_rounds=rounds)
    np.savez("model.npz", **{name: array.numpy() for name, array in result.arrays.items()})
