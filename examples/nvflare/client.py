"""A clinic's training script: a few passes over its own rows, from the shared model on."""

import argparse

import numpy as np
import nvflare.client as flare
from sklearn.linear_model import SGDClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--data")
rows = np.loadtxt(parser.parse_args().data, delimiter=",", skiprows=1)
flare.init()
while flare.is_running():
    start = flare.receive().params["numpy_key"]
    model = SGDClassifier("log_loss", learning_rate="constant", eta0=0.01, max_iter=5, tol=None, shuffle=False)
    model.fit(rows[:, 1:-1], rows[:, -1].astype(int), coef_init=start[:-1], intercept_init=start[-1:])
    learnt = np.append(model.coef_, model.intercept_)
    flare.send(flare.FLModel(params={"numpy_key": learnt}, meta={"NUM_STEPS_CURRENT_ROUND": len(rows)}))
