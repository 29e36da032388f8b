"""The same app under SecAgg+, whose workflow speaks Flower's older records."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Metrics, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.compat.common import recorddict_compat as older
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

from .client_app import train

client = ClientApp(mods=[secaggplus_mod])
server = ServerApp()


@client.train()
def train_masked(message: Message, context: Context) -> Message:
    """Train as the app does; what is sent is masked after this."""
    model = parameters_to_ndarrays(older.recorddict_to_fitins(message.content, True).parameters)
    message.content = RecordDict({"arrays": ArrayRecord(model)})
    trained = train(message, context).content
    arrays = ndarrays_to_parameters(trained["arrays"].to_numpy_ndarrays())
    result = FitRes(Status(Code.OK, ""), arrays, trained["metrics"]["num-examples"], {})
    return Message(older.fitres_to_recorddict(result, True), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Average what SecAgg+ opens, round by round; keep the last model, and the sizes that came with it."""
    sizes: list[int] = []

    def keep(results: list[tuple[int, Metrics]]) -> Metrics:
        sizes[:] = [size for size, _ in results]
        return {}

    zeros = [np.zeros((1, context.run_config["features"])), np.zeros(1)]
    strategy = FedAvg(
        min_available_clients=3,
        fraction_evaluate=0.0,
        fit_metrics_aggregation_fn=keep,
        initial_parameters=ndarrays_to_parameters(zeros),
    )
    config = ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    run = LegacyContext(context, config=config, strategy=strategy)
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2))(grid, run)
    (arrays,) = run.state.array_records.values()
    coef, intercept = parameters_to_ndarrays(older.arrayrecord_to_parameters(arrays, True))
    np.savez("model.npz", coef=coef, intercept=intercept, sizes=sizes)
