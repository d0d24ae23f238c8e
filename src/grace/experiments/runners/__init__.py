"""Scripts that run other libraries in environments of their own: run_cfnow, run_dice, run_nice, run_torchattacks. They
know numpy, their library and protocol, and unit where it needs a torch module; not GRACE.
"""
