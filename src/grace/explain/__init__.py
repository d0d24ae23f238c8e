"""From rows to explanations: the explainer, its results, and how both are saved.

explainer     Explainer: model, schemas, background, settings; `explain`
batching      processes rows in chunks within a memory budget; counts queries
solve         method, polish, proof and recheck of a chunk; alternatives
explanations  Explanations, a batch; details computes and caches what needs further model calls
ranked        the answers of one rank as fields of explanations, read off the arrays of the batch; shared_parts is what
              all explanations of a batch have in common
explanation   Explanation, one answer; explanation_json validates its JSON, json_text writes that of many
region        Region, the box around an answer in which the decision is the same
answer_parts  remarks and records of proofs and misses, read off the arrays of a batch
diagnosis     why a row has no answer: limits that would have to be lifted
decisions/    how the model decides about a row: profiles, reasons, sufficient reasons
scorecards/   points of changes, and how well adding them up forecasts the model
metrics       the paper's measures
answer_table  a batch as a table, one line per answer; batch_texts and batch_json are its sentences and JSON, by column
store         saves and loads explainers; saved_header and saved_files read the files
audit_record  a record of an answer that can be replayed
"""
