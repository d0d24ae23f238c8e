"""How the model decides about a row: what each feature does alone, all the reasons, and what suffices.

profile      Profile, what each feature of a row would do alone; profiling computes it
reasons      Reasons, all minimal sets of features that can flip a row; reasoning finds them
sufficient   SufficientReason, features that entail the prediction
row_context  the row and the question that these are about
row_results  RowResults, one of them for each row of a batch
questions    the problem of a call again, for such questions
"""
