"""A predicted number: what would it have taken to be at least so much, or ten per cent less?

Run: python examples/price.py
"""

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor

import grace

rng = np.random.default_rng(0)
homes = pd.DataFrame({"area": rng.integers(40, 200, 400), "rooms": rng.integers(1, 7, 400)})
homes["age"] = rng.uniform(0, 90, 400).round(1)
price = 1500 * homes["area"] + 9000 * homes["rooms"] - 400 * homes["age"] + rng.normal(0, 5000, 400)
model = GradientBoostingRegressor(random_state=0).fit(homes, price)

explainer = grace.Explainer(model, homes)
home = homes.iloc[[1]]
print(explainer.explain(home, against=grace.above(250_000))[0])
print(explainer.explain(home, against=grace.by("-10 %"), frozen=["area"])[0])
print(explainer.explain(home, against=grace.within(150_000, 160_000))[0].text(language="de"))
