"""A Keras model on torch: its layers are read exactly, so that there are gradients and proofs.

Run: python examples/keras_network.py      (needs the extra keras)
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

import grace

table = grace.datasets.load("diabetes")
columns = table.frame.drop(columns=table.target)
classes = ["tested_negative", "tested_positive"]
truth = (table.frame[table.target] == classes[1]).to_numpy(dtype=np.int64)

keras.utils.set_random_seed(0)
scale = keras.layers.Normalization()
scale.adapt(columns.to_numpy(dtype=np.float32))
model = keras.Sequential([keras.Input((8,)), scale, keras.layers.Dense(16, "relu"), keras.layers.Dense(2, "softmax")])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(columns.to_numpy(dtype=np.float32), truth, epochs=15, verbose=0)

explainer = grace.Explainer(grace.wrap(model, classes=classes), columns)
for explanation in explainer.explain(columns.head(3)):
    print(explanation)
