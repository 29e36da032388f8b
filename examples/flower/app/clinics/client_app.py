"""A clinic: a few passes over its own rows, from the shared model on."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from sklearn.linear_model import SGDClassifier

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the file that the node's configuration names: an id, the features, the label."""
    rows = np.loadtxt(context.node_config["data"], delimiter=",", skiprows=1)
    coef, intercept = message.content["arrays"].to_numpy_ndarrays()
    model = SGDClassifier("log_loss", learning_rate="constant", eta0=0.01, max_iter=5, tol=None, shuffle=False)
    model.fit(rows[:, 1:-1], rows[:, -1].astype(int), coef_init=coef, intercept_init=intercept)
    arrays = ArrayRecord({"coef": Array(model.coef_), "intercept": Array(model.intercept_)})
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)
