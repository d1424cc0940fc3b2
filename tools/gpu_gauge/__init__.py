"""The parts of check_gpu_objects.py --gauge: how fast kernels are, as far as code shows it."""
