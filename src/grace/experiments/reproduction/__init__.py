"""The paper's experiments again, beside its figures, and what simulated readers (programs) do with an explanation.

paper        the figures that the paper prints
plan         what is asked for, and what makes a stored result stale
store        one file per table, run and part, written whole or not at all
subject      a network and its explainer for one table and run
samples      accuracy, the main table, and the effects of K and γ; released is the authors' own program
patient      the case study
reading      what a text says: GRACE's, LIME's and SHAP's; reader acts on it; simulation judges that by the
             network, and SHAP in sentences
runs         puts it together on several processes
tables       means beside the paper's; page and figures show them; results writes it all
results       writes all of it
"""
