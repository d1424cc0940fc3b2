"""The parts of tools/gpu_model: how long a step takes on a GPU, computed from code and shapes."""
