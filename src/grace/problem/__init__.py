"""What a method is given: the space a row may move in, the goal, the settings, and further requirements.

problem         Problem: a batch of rows with everything a method may use
space           coordinates, projection P, distance
goal            margins on the scores: Flip, Against, Between; contrast makes the goal of a call
target_range    what a predicted number should have been: above, below, within, by
settings        Settings of an explainer or a call
answers         Answers: what was found, as arrays
binding         binds a model to a schema and queries it
background      what is learnt from training rows; model_view, their statistics under a model
neighbours      exact nearest rows
requirements/   robust, plausible, rules and dependences
transformed     a problem in terms of functions of numbers, where a network gets those
decimals        values with few digits
budget          memory of a call, and rows that fit into it
cancellation    stops work whose result nobody waits for
numpy_or_torch  small arrays in whichever library is faster
uploads         large arrays to a GPU
"""

METHOD_NAMES = ("search", "gradient", "local", "nearest", "deepfool")
"""The methods of `grace.methods.METHODS`; here, so that the command knows them without importing torch."""
