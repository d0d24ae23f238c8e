"""From rows to explanations: the explainer, its results, and how both are saved."""
