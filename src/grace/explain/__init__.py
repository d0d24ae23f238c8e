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
points        makes scorecards: what each change of a row does alone, chosen pairs, and how well adding up forecasts
              other edits; scorecard is the result, additive chooses its parts, row_effects and pair_tables hold the
              arrays, edits draws and weights edits, typical_rows is the forecast without an explanation
metrics       the paper's measures
answer_table  a batch as a table, one line per answer
store         saves and loads explainers; saved_header and saved_files read the files
audit_record  a record of an answer that can be replayed
"""
