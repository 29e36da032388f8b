"""The clinics' job, run in NVFlare's simulator: federated averaging of 30 coefficients and an intercept."""

from pathlib import Path

import numpy as np
from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe
from nvflare.recipe import SimEnv, set_per_site_config

if __name__ == "__main__":
    sites = {f"site-{n + 1}": {"train_args": f"--data {Path(f'clinic{n}.csv').resolve()}"} for n in range(3)}
    recipe = NumpyFedAvgRecipe(
        name="clinics", model=np.zeros(31), min_clients=3, num_rounds=3, train_script="client.py"
    )
    set_per_site_config(recipe, sites)
    print(recipe.execute(SimEnv(clients=list(sites))).get_result())
