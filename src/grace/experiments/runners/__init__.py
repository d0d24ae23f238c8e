"""Scripts that run other libraries in virtual environments without GRACE: run_cfnow, run_dice, run_nice,
run_torchattacks, run_treecf. They use numpy, the library, protocol and, for libraries that need a torch module, unit.
"""
