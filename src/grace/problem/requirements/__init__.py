"""More to ask of answers: that they hold for other models, are plausible, keep rules, and follow dependences."""
