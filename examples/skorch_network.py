"""A skorch net as it is: a torch module in scikit-learn's clothes.

Run: python examples/skorch_network.py      (needs skorch)
"""

import numpy as np
import skorch
import torch

import grace

torch.manual_seed(0)
table = grace.datasets.load("phoneme")
columns = table.frame.drop(columns=table.target)
truth = np.array(table.frame[table.target] == "oral", dtype=np.int64)
module = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
model = skorch.NeuralNetClassifier(
    module, criterion=torch.nn.CrossEntropyLoss, max_epochs=10, lr=0.1, train_split=None, verbose=0
)
model.fit(np.array(columns, dtype=np.float32), truth)

explainer = grace.Explainer(grace.wrap(model, classes=["nasal", "oral"]), columns)
for explanation in explainer.explain(columns.head(3), prove=True):
    print(explanation, explanation.proof["verdict"])
